"""Index arrays, masks, assignment through both, take and put."""

import whit.numpy as np


def main():
    a = np.arange(12) ** 2
    i = np.array([1, 1, 3, 8, 5])
    j = np.array([[3, 4], [9, 7]])
    palette = np.array([[0, 0, 0], [255, 0, 0], [0, 255, 0]])
    image = np.array([[0, 1], [2, 1]])
    b = np.arange(12).reshape(3, 4)
    mask = b > 4
    c = b.copy()
    c[mask] = 0
    rows = np.array([True, False, True])
    d = np.arange(5)
    d[[1, 3, 4]] = 0
    e = np.zeros(4)
    np.add.at(e, [0, 0, 2], 1.0) if hasattr(np.add, "at") else e.index_add_(0, np.array([0, 0, 2]), np.ones(3))
    return {
        "picked": a[i].tolist(),
        "square": a[j].tolist(),
        "colours": palette[image].tolist(),
        "mask": b[mask].tolist(),
        "zeroed": c.tolist(),
        "rows": b[rows, :].tolist(),
        "cells": b[np.array([0, 2]), np.array([1, 3])].tolist(),
        "d": d.tolist(),
        "e": e.tolist(),
        "where": np.where(mask, b, -b).tolist(),
        "nonzero": [part.tolist() for part in np.nonzero(b % 5 == 0)],
        "take": np.take(b, np.array([0, 3]), axis=1).tolist(),
        "sorted": b[:, ::-1][np.argsort(-b[:, 0])].tolist(),
    }
