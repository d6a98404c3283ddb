"""Moving averages, lags, and a recurrence of a time series."""

import whit.numpy as np


def main():
    t = np.arange(20.0)
    series = t + 3 * np.sin(t)
    kernel = np.ones(5) / 5
    smooth = np.convolve(series, kernel, mode="valid")
    sums = np.cumsum(np.concatenate([np.zeros(1), series]))
    same = (sums[5:] - sums[:-5]) / 5
    lagged = np.stack([series[i : i + 16] for i in range(5)], axis=1)
    changes = np.diff(series, n=2)
    peaks = np.flatnonzero((series[1:-1] > series[:-2]) & (series[1:-1] > series[2:])) + 1
    return {
        "smooth": smooth.tolist(),
        "same": bool(np.allclose(smooth, same, atol=1e-4)),
        "lagged": lagged[3].tolist(),
        "changes": changes[:4].tolist(),
        "peaks": peaks.tolist(),
        "gradient": np.gradient(series)[:4].tolist(),
        "cumulative": np.maximum.accumulate(series).tolist()[:6],
    }
