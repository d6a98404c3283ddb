"""k-means by broadcasting."""

import whit.numpy as np


def main():
    t = np.arange(24)
    homes = np.array([[0.0, 0.0], [4.0, 0.0], [2.0, 3.0]])
    jitter = np.stack([np.sin(t * 1.7), np.cos(t * 2.3)], axis=1) * 0.5
    points = homes[t % 3] + jitter
    centres = points[:3].copy()
    for _ in range(6):
        distances = np.linalg.norm(points[:, None] - centres[None], axis=2)
        nearest = np.argmin(distances, axis=1)
        centres = np.array([points[nearest == k].mean(axis=0) for k in range(3)])
    inertia = np.sum(np.min(distances, axis=1) ** 2)
    return {
        "centres": centres.tolist(),
        "nearest": nearest.tolist(),
        "counts": np.bincount(nearest).tolist(),
        "inertia": float(inertia),
    }
