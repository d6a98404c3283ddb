"""A Markov chain: powers of its matrix, its limit, and PageRank."""

import whit.numpy as np


def main():
    p = np.array([[0.9, 0.1, 0.0], [0.2, 0.7, 0.1], [0.0, 0.4, 0.6]])
    state = np.array([1.0, 0.0, 0.0])
    for _ in range(30):
        state = state @ p
    limit = np.linalg.matrix_power(p, 64)[0]
    links = np.array([[0, 1, 1, 0], [0, 0, 1, 0], [1, 0, 0, 1], [0, 0, 1, 0]]).astype(np.float64)
    transition = links / links.sum(axis=1, keepdims=True)
    google = 0.85 * transition + 0.15 / 4
    rank = np.full(4, 0.25)
    for _ in range(40):
        rank = rank @ google
    return {
        "state": state.tolist(),
        "limit": limit.tolist(),
        "rank": rank.tolist(),
        "order": np.argsort(-rank).tolist(),
        "total": float(np.sum(rank)),
    }
