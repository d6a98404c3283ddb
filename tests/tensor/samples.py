"""Arguments of calls that are compared with other libraries: the names that docs/names/*.txt uses.

Everything is made in float64 or int64 and cast to the dtype of the comparison; what names positions stays as it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

POSITIONS = {"at", "rows", "mask", "one", "k1", "k01", "bytes8", "edges", "xp"}  # these keep their dtype
_RANDOM = np.random.default_rng(7)


def _values(*shape: int, low: float = -2.0, high: float = 2.0) -> Any:
    """Numbers that are exact in float16, and all different."""
    count = int(np.prod(shape))
    steps = np.linspace(low, high, count) * 64
    return (_RANDOM.permutation(steps.round()) / 64).reshape(shape)


def _triangle() -> Any:
    return np.tril(_values(3, 3, low=0.25, high=1.0)) + np.eye(3)


SAMPLES: dict[str, Any] = {
    "x": _values(3, 4),
    "y": np.where((y := _values(3, 4, low=-3.0, high=3.0)) == 0, 1.0, y),
    "x34": np.zeros((3, 4)),
    "x1": _values(1, 3, 4),
    "p": _values(3, 4, low=0.1, high=0.9),
    "big": _values(3, 4, low=1.5, high=6.0),
    "n": np.array([[3, -6, 4, 0], [12, 3, 3, -2], [-6, 0, 7, 4]]),
    "k": np.array([[2, 4, -6, 5], [8, 3, -1, 7], [9, 0, 14, 6]]),
    "k1": np.array([0, 3, 1, 3]),
    "one": np.array([[1, 0, 2, 1], [3, 1, 0, 2], [1, 1, 2, 0]], dtype=np.int32),
    "m": _values(3, 3) + 3 * np.eye(3),
    "spd": (t := _triangle()) @ t.T,
    "lower": _triangle(),
    "c33": _values(3, 3),
    "ac": _values(2, 4),
    "a": _values(2, 3),
    "b": _values(3, 4),
    "a35": _values(3, 5),
    "a2": _values(2),
    "v": _values(5),
    "w": _values(5),
    "v2": _values(2),
    "v3": _values(3),
    "w3": _values(3),
    "v4": _values(4),
    "weight": _values(4),
    "t": _values(2, 3, 4),
    "u": _values(2, 4, 5),
    "tu": _values(2, 3, 5),
    "two": _values(2, 4),
    "edges": np.array([-1.5, -0.5, 0.25, 1.0]),
    "sparse": np.where((s := _values(3, 4)) > 1.2, np.nan, s),
    "at": np.array([[0, 3, 1, 2], [2, 0, 3, 1], [1, 2, 0, 3]]),
    "rows": np.array([2, 0]),
    "mask": np.array([[True, False, True, True], [False, True, False, False], [True, True, False, True]]),
    "scalar": np.array(1.5),
    "k01": np.array([[0, 1, 1, 0], [1, 0, 0, 1], [1, 1, 0, 0]]),
    "xp": np.array([-1.5, -0.5, 0.75, 1.25]),
    "fp": np.array([1.0, -2.0, 0.5, 3.0]),
    "z": np.array([0.0, 0.0, 1.0, 0.0, 2.0, 0.0]),
    "bytes8": np.array([3, 128, 255], dtype=np.uint8),
}
FLOAT_ONLY = {"sparse"}
