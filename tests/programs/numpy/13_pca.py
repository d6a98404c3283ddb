"""Principal components by SVD and by covariance."""

import whit.numpy as np


def main():
    t = np.arange(30.0)
    data = np.stack([np.sin(t), 2 * np.sin(t) + 0.1 * np.cos(3 * t), 0.2 * np.cos(t)], axis=1)
    centred = data - data.mean(axis=0)
    _, s, vt = np.linalg.svd(centred, full_matrices=False)
    share = s**2 / np.sum(s**2)
    values = np.linalg.eigvalsh(np.cov(data.T))
    projected = centred @ vt[:2].T
    rebuilt = projected @ vt[:2] + data.mean(axis=0)
    return {
        "share": share.tolist(),
        "values": np.sort(values)[::-1].tolist(),
        "spread": np.abs(projected[4]).tolist(),
        "error": float(np.max(np.abs(rebuilt - data))),
    }
