"""Solving, least squares, eigenvalues, singular values and a rank-one approximation."""

import whit.numpy as np


def main():
    a = np.array([[4.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 2.0]])
    b = np.array([1.0, 2.0, 3.0])
    x = np.linalg.solve(a, b)
    values, vectors = np.linalg.eigh(a)
    matrix = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    u, s, vt = np.linalg.svd(matrix, full_matrices=False)
    one = s[0] * np.outer(u[:, 0], vt[0])
    q, r = np.linalg.qr(matrix)
    t = np.linspace(0.0, 1.0, 6)
    design = np.column_stack([np.ones(6), t, t**2])
    solution = np.linalg.lstsq(design, 2 - t + 4 * t**2, rcond=None)[0]
    return {
        "x": x.tolist(),
        "residual": bool(np.allclose(a @ x, b, atol=1e-5)),
        "values": values.tolist(),
        "rebuilt": bool(np.allclose(vectors @ np.diag(values) @ vectors.T, a, atol=1e-5)),
        "singular": s.tolist(),
        "error": float(np.linalg.norm(matrix - one)),
        "qr": bool(np.allclose(q @ r, matrix, atol=1e-5)),
        "solution": solution.tolist(),
        "det": float(np.linalg.det(a)),
        "inverse": np.linalg.inv(a).tolist(),
        "norms": [float(np.linalg.norm(a)), float(np.linalg.norm(b, 1)), float(np.linalg.norm(matrix, axis=1)[2])],
        "rank": int(np.linalg.matrix_rank(matrix)),
        "trace": float(np.trace(a)),
        "cross": np.cross(np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0])).tolist(),
        "power": np.linalg.matrix_power(a, 3)[0].tolist(),
    }
