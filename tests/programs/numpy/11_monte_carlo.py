"""Random numbers by a Generator: pi, a dice sum, a bootstrap."""

import whit.numpy as np


def main():
    rng = np.random.default_rng(12345)
    points = rng.random((4000, 2))
    pi = 4 * np.mean(np.sum(points**2, axis=1) < 1.0)
    dice = rng.integers(1, 7, size=(1000, 2)).sum(axis=1)
    normal = rng.normal(loc=5.0, scale=2.0, size=2000)
    sample = rng.choice(np.arange(10), size=5, replace=False)
    shuffled = rng.permutation(8)
    means = np.array([float(np.mean(normal[rng.integers(0, 2000, size=200)])) for _ in range(5)])
    return {
        "pi": abs(float(pi) - 3.14159) < 0.15,
        "dice": [int(dice.min()) >= 2, int(dice.max()) <= 12, abs(float(dice.mean()) - 7) < 0.5],
        "normal": [abs(float(normal.mean()) - 5) < 0.3, abs(float(np.std(normal)) - 2) < 0.3],
        "distinct": len(set(sample.tolist())) == 5,
        "shuffled": sorted(shuffled.tolist()) == list(range(8)),
        "bootstrap": bool(np.all(np.abs(means - 5) < 1)),
        "uniform": bool(np.all(rng.uniform(-1, 1, 100) < 1)),
    }
