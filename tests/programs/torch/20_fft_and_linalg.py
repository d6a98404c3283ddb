"""A low-pass filter by Fourier transform, least squares, eigenvalues and a matrix exponential."""

import math

import whit.torch as torch


def main():
    n = 64
    t = torch.arange(n) / n
    signal = torch.sin(2 * math.pi * 3 * t) + 0.5 * torch.cos(2 * math.pi * 20 * t)
    spectrum = torch.fft.rfft(signal)
    frequencies = torch.fft.rfftfreq(n, d=1 / n)
    power = spectrum.abs()
    strongest = frequencies[power.argmax()].item()
    spectrum[frequencies > 10] = 0
    smooth = torch.fft.irfft(spectrum, n)
    error = (smooth - torch.sin(2 * math.pi * 3 * t)).abs().max().item()
    a = torch.stack([torch.ones(n), t, t**2], dim=1)
    solution = torch.linalg.lstsq(a, (1 - 2 * t + 3 * t**2).unsqueeze(1)).solution
    symmetric = torch.tensor([[2.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 4.0]])
    values, vectors = torch.linalg.eigh(symmetric)
    rebuilt = vectors @ torch.diag(values) @ vectors.T
    u, s, vh = torch.linalg.svd(a[:5])
    turned = torch.linalg.matrix_exp(torch.tensor([[0.0, -math.pi / 2], [math.pi / 2, 0.0]]))
    return {
        "strongest": strongest,
        "filtered": error < 1e-5,
        "power": power[3].item(),
        "solution": solution.flatten().tolist(),
        "eigenvalues": values.tolist(),
        "rebuilt": torch.allclose(rebuilt, symmetric, atol=1e-5),
        "det": torch.linalg.det(symmetric).item(),
        "singular": s.tolist(),
        "shapes": [list(u.shape), list(vh.shape)],
        "turned": turned.tolist(),
        "norms": [torch.linalg.norm(symmetric).item(), torch.linalg.norm(symmetric, 1).item()],
        "inverse": torch.linalg.inv(symmetric).tolist(),
    }
