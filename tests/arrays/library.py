"""Calls of other libraries on arrays of NumPy and on tensors, written as text.

special.betainc: pos, pos, p        the function, and what it is called with: names of samples, numbers, keywords
"""

from __future__ import annotations

from typing import Any

import numpy as np

from whit import Tensor

_random = np.random.default_rng(0)
X = _random.normal(size=(30, 4))
y = X @ np.array([1.0, -2.0, 0.5, 0.0]) + 0.1 * _random.normal(size=30)
SAMPLES = {
    "x": _random.normal(size=20),
    "X": X,
    "y": y,
    "Y": np.stack([y, -y], 1),
    "near": y + 0.3,
    "c": (y > 0).astype(np.int64),
    "d": np.where(_random.uniform(size=30) < 0.2, 1 - (y > 0), y > 0).astype(np.int64),
    "q": _random.uniform(0.05, 0.95, size=30),
    "p": _random.uniform(0.1, 0.9, size=20),
    "pos": _random.uniform(0.5, 5, size=20),
    "P": np.abs(X) + 0.1,
    "Q": np.abs(X) + 0.3,
    "z": np.array([1 + 2j, -1j, 0.5, 2.0, 1.0]),
    "long": np.tile(_random.normal(size=20), 10),
}


def calls(text: str) -> list[tuple[str, str]]:
    """(name, arguments) of each line."""
    return [(name, given) for name, _, given in (line.partition(": ") for line in text.strip().splitlines())]


def arguments(given: str, is_ours: bool) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call, with arrays of NumPy or tensors."""
    samples = {name: Tensor(array.copy()) if is_ours else array.copy() for name, array in SAMPLES.items()}
    found: tuple[tuple[Any, ...], dict[str, Any]] = eval(f"(lambda *a, **k: (a, k))({given})", {"np": np}, samples)
    return found


def assert_same(mine: Any, theirs: Any, rtol: float = 1e-6) -> None:
    """Arrays are tensors and have the same values; so have the parts of tuples and of results with fields."""
    if isinstance(theirs, tuple | list):
        assert len(mine) == len(theirs)
        for left, right in zip(mine, theirs, strict=True):
            assert_same(left, right, rtol)
    elif isinstance(theirs, np.ndarray):
        assert isinstance(mine, Tensor), type(mine)
        assert mine.shape == theirs.shape
        np.testing.assert_allclose(mine.numpy(), theirs, rtol=rtol, atol=1e-8)
    elif isinstance(theirs, float | int | complex | np.generic):
        np.testing.assert_allclose(complex(mine), complex(theirs), rtol=rtol, atol=1e-8)
    elif hasattr(theirs, "__dict__"):
        for name, value in vars(theirs).items():
            if not name.startswith("_") and isinstance(value, np.ndarray | np.generic | float):
                assert_same(getattr(mine, name), value, rtol)
