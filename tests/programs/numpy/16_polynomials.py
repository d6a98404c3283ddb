"""Polynomials as coefficients: values, products, a Vandermonde fit, roots by Newton."""

import whit.numpy as np


def main():
    coefficients = np.array([1.0, -6.0, 11.0, -6.0])
    x = np.linspace(0.0, 4.0, 9)
    value = np.zeros_like(x)
    for c in coefficients:
        value = value * x + c
    product = np.convolve(np.array([1.0, 2.0]), np.array([1.0, -3.0, 1.0]))
    powers = np.vander(x, 4)
    fitted = np.linalg.solve(powers.T @ powers + 1e-9 * np.eye(4), powers.T @ value)
    root = 0.8
    for _ in range(8):
        f = ((root - 6.0) * root + 11.0) * root - 6.0
        slope = (3.0 * root - 12.0) * root + 11.0
        root = root - f / slope
    return {
        "value": value.tolist(),
        "product": product.tolist(),
        "matrix": powers[2].tolist(),
        "fits": bool(np.allclose(powers @ fitted, value, atol=1e-2)),
        "root": float(root),
    }
