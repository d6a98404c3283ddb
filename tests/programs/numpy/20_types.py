"""Types: casts, promotion, limits, bits, numbers that are not finite, complex ones."""

import whit.numpy as np


def main():
    small = np.array([250, 3, 7], dtype=np.uint8)
    wrapped = small + np.array([10, 1, 1], dtype=np.uint8)
    mixed = np.array([1, 2], dtype=np.int16) + np.array([0.5, 1.5], dtype=np.float32)
    strange = np.array([np.inf, -np.inf, np.nan, 1.0])
    z = np.array([1 + 2j, 3 - 1j])
    return {
        "wrapped": wrapped.tolist(),
        "names": [wrapped.dtype.name, mixed.dtype.name, (small > 3).dtype.name],
        "same": mixed.dtype == np.float32,
        "truncated": np.array([1.7, -1.7]).astype(np.int32).tolist(),
        "limits": [int(np.iinfo(np.int16).max), float(np.finfo(np.float32).eps)],
        "finite": np.isfinite(strange).tolist(),
        "fixed": np.nan_to_num(strange, nan=0.0, posinf=9.0, neginf=-9.0).tolist(),
        "bits": [(small & 3).tolist(), (small >> 1).tolist(), np.bitwise_xor(small, 255).tolist()],
        "complex": [np.abs(z).tolist(), z.real.tolist(), (z * np.conj(z)).imag.tolist()],
        "rounded": np.round(np.array([0.5, 1.5, 2.567]), 1).tolist(),
        "floor": np.floor_divide(np.array([7, -7]), 2).tolist(),
        "mod": np.mod(np.array([7, -7]), 3).tolist(),
        "divmod": [int(q) for q in np.divmod(17, 5)],
        "item": float(np.float32(0.1)),
        "scalar": np.float64(2.5) * 2,
    }
