"""Broadcasting: outer sums, distances of pairs, normalised columns."""

import whit.numpy as np


def main():
    a = np.array([0.0, 10.0, 20.0, 30.0])
    b = np.array([1.0, 2.0, 3.0])
    table = a[:, np.newaxis] + b
    points = np.array([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]])
    difference = points[:, np.newaxis, :] - points[np.newaxis, :, :]
    distances = np.sqrt((difference**2).sum(axis=-1))
    codes = np.array([[102.0, 203.0], [132.0, 193.0], [45.0, 155.0], [57.0, 173.0]])
    nearest = np.argmin(np.sqrt(np.sum((codes - np.array([111.0, 188.0])) ** 2, axis=1)))
    standard = (codes - codes.mean(axis=0)) / np.std(codes, axis=0)
    return {
        "table": table.tolist(),
        "distances": distances.tolist(),
        "nearest": int(nearest),
        "standard": standard.tolist(),
        "expanded": np.broadcast_to(b, (2, 3)).tolist(),
        "meshgrid": [part.tolist() for part in np.meshgrid(np.arange(2), np.arange(3))],
        "outer": np.outer(b, b).tolist(),
        "maximum": np.maximum(table, 15).tolist(),
    }
