"""Means, medians, quantiles, correlation, histograms, and values that are missing."""

import whit.numpy as np


def main():
    x = np.array([2.0, 8.0, 0.0, 4.0, 1.0, 9.0, 9.0, 0.0])
    y = np.array([1.0, 6.0, 0.5, 3.0, 2.0, 8.0, 7.0, 1.0])
    gaps = np.array([1.0, np.nan, 3.0, 4.0])
    counts, edges = np.histogram(x, bins=3)
    values, numbers = np.unique(x, return_counts=True)
    return {
        "mean": float(np.mean(x)),
        "median": float(np.median(x)),
        "std": float(np.std(x)),
        "sample": float(np.std(x, ddof=1)),
        "variance": float(np.var(y)),
        "quartiles": np.quantile(x, np.array([0.25, 0.5, 0.75])).tolist(),
        "percentile": float(np.percentile(x, 90)),
        "correlation": np.corrcoef(x, y).tolist(),
        "covariance": np.cov(x, y).tolist(),
        "average": float(np.average(x, weights=y)),
        "counts": counts.tolist(),
        "edges": edges.tolist(),
        "values": values.tolist(),
        "numbers": numbers.tolist(),
        "missing": [float(np.nanmean(gaps)), float(np.nansum(gaps)), int(np.isnan(gaps).sum())],
        "extremes": [float(np.ptp(x)), int(np.argmax(x)), int(np.argmin(x))],
        "any": [bool(np.any(x > 8)), bool(np.all(x >= 0))],
        "cumulative": np.cumsum(x).tolist(),
        "digitized": np.digitize(x, np.array([1.0, 5.0])).tolist(),
    }
