"""Codes of letters: counts, unique ones, set operations, run lengths."""

import whit.numpy as np


def main():
    text = "the cat sat on the mat"
    codes = np.array([ord(letter) for letter in text])
    letters = codes[codes != 32]
    values, counts = np.unique(letters, return_counts=True)
    order = np.argsort(-counts, stable=True)
    first, second = np.array([1, 2, 3, 4]), np.array([3, 4, 5])
    runs = np.array([1, 1, 2, 2, 2, 3])
    edges = np.flatnonzero(np.diff(runs)) + 1
    starts = np.concatenate([np.array([0]), edges])
    lengths = np.diff(np.concatenate([starts, np.array([len(runs)])]))
    return {
        "top": [chr(int(c)) for c in values[order][:3]],
        "counts": counts[order][:3].tolist(),
        "common": np.intersect1d(first, second).tolist(),
        "all": np.union1d(first, second).tolist(),
        "only": np.setdiff1d(first, second).tolist(),
        "isin": np.isin(first, second).tolist(),
        "lengths": lengths.tolist(),
        "repeated": np.repeat(np.array([1, 2, 3]), np.array([2, 3, 1])).tolist(),
        "tiled": np.tile(np.array([0, 1]), 3).tolist(),
        "searched": np.searchsorted(first, np.array([0, 2, 9])).tolist(),
    }
