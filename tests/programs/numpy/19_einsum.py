"""einsum, tensordot and friends, against loops."""

import whit.numpy as np


def main():
    a = np.arange(6.0).reshape(2, 3)
    b = np.arange(12.0).reshape(3, 4)
    c = np.arange(24.0).reshape(2, 3, 4)
    loop = [[float(sum(a[i, k] * b[k, j] for k in range(3))) for j in range(4)] for i in range(2)]
    return {
        "product": np.einsum("ik,kj->ij", a, b).tolist(),
        "loop": loop,
        "trace": float(np.einsum("ii", b[:, :3])),
        "batch": np.einsum("bij,jk->bik", c, b.T)[1].tolist(),
        "diagonal": np.einsum("ii->i", b[:, 1:]).tolist(),
        "tensordot": np.tensordot(c, b, axes=([1, 2], [0, 1])).tolist(),
        "inner": np.inner(a, a).tolist(),
        "kron": np.kron(np.eye(2), a[:, :2]).tolist(),
        "dot": float(np.dot(a[0], a[1])),
        "vdot": float(np.vdot(a, a)),
        "sums": np.einsum("...j->...", c).tolist(),
    }
