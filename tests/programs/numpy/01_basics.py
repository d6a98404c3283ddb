"""Arrays: shapes, slices, reshape, stacking, printing numbers."""

import whit.numpy as np


def main():
    a = np.arange(15).reshape(3, 5)
    b = np.array([(1.5, 2, 3), (4, 5, 6)])
    c = np.zeros((2, 3), dtype=np.int32)
    c[1, :] = 7
    view = a[1:, ::2]
    return {
        "shape": list(a.shape),
        "ndim": a.ndim,
        "size": int(a.size),
        "view": view.tolist(),
        "last": a[-1].tolist(),
        "column": a[:, 1].tolist(),
        "c": c.tolist(),
        "sum": b.sum(axis=0).tolist(),
        "min": b.min(axis=1).tolist(),
        "cumsum": b.cumsum(axis=1).tolist(),
        "vstack": np.vstack([b, b * 2]).tolist(),
        "hstack": np.hstack((a[:, :1], a[:, -1:])).tolist(),
        "split": [part.tolist() for part in np.split(np.arange(9), 3)],
        "ravel": a.ravel()[5:8].tolist(),
        "transposed": a.T.shape[0],
        "power": (np.arange(5) ** 2).tolist(),
        "compare": (b > 2).tolist(),
        "product": (b @ b.T).tolist(),
        "linspace": np.linspace(0, 2, 9).tolist(),
    }
