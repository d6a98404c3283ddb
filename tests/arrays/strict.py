"""The same call of `whit.numpy` and of `array_api_strict`, and whether both give the same.

`array_api_strict` is the standard on NumPy, and nothing else. Its default dtypes have 64 bits, ours 32: where no
operand has such a dtype, ours may be the narrower one.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

import whit.numpy as xp
from whit import Tensor

strict = pytest.importorskip("array_api_strict")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    strict.set_array_api_strict_flags(api_version="2024.12")

INTEGERS: tuple[str, ...] = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS: tuple[str, ...] = ("float32", "float64")
COMPLEX = ("complex64", "complex128")
REAL = INTEGERS + FLOATS
NUMERIC = REAL + COMPLEX
ALL = ("bool", *NUMERIC)
# Each function has a kernel for each dtype: HYPOTHESIS_PROFILE=deep tries those that are left out, too.
TRIED = ALL if settings.default.max_examples > 1000 else ("bool", "int8", "int64", "uint16", *FLOATS, *COMPLEX)
INDEXING: tuple[str, ...] = ("argmax", "argmin", "argsort", "count_nonzero", "nonzero", "searchsorted")
INDEXING += ("unique_all", "unique_counts", "unique_inverse")
NARROW = {"int64": "int32", "uint64": "uint32", "float64": "float32", "complex128": "complex64"}
DIGITS = {"float32": (2e-6, 1e-6), "float64": (1e-12, 1e-12), "complex64": (5e-6, 2e-6), "complex128": (1e-12, 1e-12)}


def ours(value: Any) -> Any:
    """An argument as the namespace of whit takes it."""
    return _each(value, lambda array: Tensor(array.copy()), xp)


def theirs(value: Any) -> Any:
    """An argument as `array_api_strict` takes it."""
    return _each(value, lambda array: strict.asarray(array), strict)


def _each(value: Any, make: Any, namespace: Any) -> Any:
    if isinstance(value, np.ndarray):
        return make(value)
    if isinstance(value, np.dtype):
        return getattr(namespace, value.name)
    if isinstance(value, tuple | list) and any(isinstance(each, np.ndarray) for each in value):
        return type(value)(_each(each, make, namespace) for each in value)
    return value


def call(name: str, *args: Any, **given: Any) -> tuple[Any, Any]:
    """What both namespaces give for a call; `linalg.inv` is a name, too."""
    results = []
    for convert, namespace in ((ours, xp), (theirs, strict)):
        function: Any = namespace
        for part in name.split("."):
            function = getattr(function, part)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            results.append(function(*map(convert, args), **{key: convert(each) for key, each in given.items()}))
    return results[0], results[1]


def dtypes_in(value: Any) -> set[str]:
    if isinstance(value, np.ndarray | np.dtype):
        return {value.dtype.name if isinstance(value, np.ndarray) else value.name}
    if isinstance(value, tuple | list):
        return set().union(*map(dtypes_in, value)) if value else set()
    return set()


def check(name: str, *args: Any, scale: float = 1.0, **given: Any) -> None:
    """Both give the same."""
    mine, other = call(name, *args, **given)
    operands = dtypes_in(args) | dtypes_in(tuple(given.values()))
    same(mine, other, operands - {"int64"} if name in INDEXING else operands, scale)


def same(mine: Any, other: Any, operands: set[str], scale: float = 1.0) -> None:
    """Shapes, dtypes and values are equal."""
    if isinstance(other, tuple | list):
        assert isinstance(mine, tuple | list)
        assert len(mine) == len(other)
        assert getattr(mine, "_fields", None) == getattr(other, "_fields", None)
        for left, right in zip(mine, other, strict=True):
            same(left, right, operands, scale)
        return
    if not hasattr(other, "dtype"):
        assert mine == other
        return
    assert isinstance(mine, Tensor)
    expected = str(other.dtype).rpartition(".")[2]
    assert mine.dtype.name == expected or (expected not in operands and mine.dtype.name == NARROW.get(expected)), (
        mine.dtype,
        other.dtype,
    )
    assert mine.shape == other.shape
    assert_close(mine.numpy(), np.asarray(other._array), scale)


def assert_close(mine: Any, other: Any, scale: float = 1.0) -> None:
    """Equal, floats up to rounding; the signs of zeros too."""
    if mine.dtype.name not in DIGITS:
        np.testing.assert_array_equal(mine, other)
        return
    if mine.dtype.name in FLOATS:
        zeros = (mine == 0) & (other == 0)
        np.testing.assert_array_equal(np.signbit(mine[zeros]), np.signbit(other[zeros]))
    relative, absolute = DIGITS[mine.dtype.name]
    np.testing.assert_allclose(mine, other, rtol=relative * scale, atol=absolute * scale)


def samples(dtype: str) -> Any:
    """Numbers of a dtype: those that functions have special cases for, and some between."""
    if dtype == "bool":
        return np.array([False, True])
    if dtype in INTEGERS:
        limits = np.iinfo(dtype)
        few = [0, 1, 2, 3, 5, 7, limits.max, limits.max - 1]
        few += [-1, -2, -3, -7, limits.min, limits.min + 1] if limits.min else [100]
        return np.array(few, dtype)
    values: list[Any] = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 2.0, -2.0, 3.0, -3.0, 0.1, -7.3, 100.25]
    values += [np.inf, -np.inf, np.nan]
    if dtype in FLOATS:
        return np.array(values, dtype)
    parts = [0.0, 1.0, -1.0, 0.5, -2.5, 3.0]
    return np.array([complex(a, b) for a in parts for b in parts], dtype)
