"""A noisy signal, filtered in the frequency domain."""

import whit.numpy as np


def main():
    n = 128
    t = np.arange(n) / n
    clean = np.sin(2 * np.pi * 5 * t)
    noisy = clean + 0.3 * np.sin(2 * np.pi * 40 * t)
    spectrum = np.fft.rfft(noisy)
    frequencies = np.fft.rfftfreq(n, d=1 / n)
    power = np.abs(spectrum) ** 2
    kept = np.where(frequencies < 20, spectrum, 0)
    filtered = np.fft.irfft(kept, n)
    full = np.fft.fft(noisy)
    back = np.fft.ifft(full)
    centred = np.fft.fftshift(np.fft.fftfreq(8))
    window = np.hanning(8)
    return {
        "peak": float(frequencies[np.argmax(power)]),
        "second": float(np.sqrt(power[40])),
        "error": float(np.max(np.abs(filtered - clean))) < 1e-4,
        "round": bool(np.allclose(back.real, noisy, atol=1e-5)),
        "phase": float(np.angle(full[5])),
        "centred": centred.tolist(),
        "window": window.tolist(),
        "convolved": np.convolve(np.array([1.0, 2.0, 3.0]), np.array([0.0, 1.0, 0.5])).tolist(),
    }
