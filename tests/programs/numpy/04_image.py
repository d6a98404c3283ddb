"""A picture as an array: grey levels, a blur by shifted sums, edges, a threshold."""

import whit.numpy as np


def main():
    y, x = np.meshgrid(np.arange(8), np.arange(8), indexing="ij")
    image = np.where((x - 3.5) ** 2 + (y - 3.5) ** 2 < 6.0, 1.0, 0.0)
    rgb = np.stack([image, image * 0.5, 1 - image], axis=-1)
    grey = rgb @ np.array([0.299, 0.587, 0.114])
    padded = np.pad(image, 1, mode="edge")
    blurred = sum(padded[i : i + 8, j : j + 8] for i in range(3) for j in range(3)) / 9
    edges_x = image[:, 1:] - image[:, :-1]
    edges_y = np.diff(image, axis=0)
    small = image.reshape(4, 2, 4, 2).mean(axis=(1, 3))
    counts, edges = np.histogram(grey, bins=4, range=(0.0, 1.0))
    return {
        "grey": grey[3].tolist(),
        "blurred": blurred[1].tolist(),
        "edges": [float(np.abs(edges_x).sum()), float(np.abs(edges_y).sum())],
        "small": small.tolist(),
        "counts": counts.tolist(),
        "flipped": bool(np.array_equal(np.flip(image, axis=0), image)),
        "turned": bool(np.allclose(np.rot90(image), image)),
        "clipped": np.clip(blurred * 2, 0, 1)[2].tolist(),
        "rolled": np.roll(image, 2, axis=1)[3].tolist(),
    }
