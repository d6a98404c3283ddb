"""Elementwise functions of the standard: every dtype, special cases, promotion, numbers on either side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import whit.numpy as xp
from arrays.strict import ALL, COMPLEX, FLOATS, INTEGERS, NUMERIC, REAL, TRIED, assert_close, check, samples

pytestmark = pytest.mark.slow

FLOATING = FLOATS + COMPLEX
GROUPS_OF_ONE = (
    ("abs negative positive square sign isfinite isinf isnan", NUMERIC),
    ("ceil floor round trunc", REAL),
    ("acos acosh asin asinh atan atanh cos cosh exp expm1 log log1p log2 log10", FLOATING),
    ("reciprocal sin sinh sqrt tan tanh", FLOATING),
    ("real conj imag", COMPLEX),
    ("bitwise_invert", ("bool", *INTEGERS)),
    ("logical_not", ("bool",)),
    ("signbit", FLOATS),
)
GROUPS_OF_TWO = (
    ("add subtract multiply pow", NUMERIC),
    ("equal not_equal", ALL),
    ("greater greater_equal less less_equal maximum minimum floor_divide remainder", REAL),
    ("atan2 copysign hypot logaddexp nextafter", FLOATS),
    ("bitwise_and bitwise_or bitwise_xor", ("bool", *INTEGERS)),
    ("bitwise_left_shift bitwise_right_shift", INTEGERS),
    ("logical_and logical_or logical_xor", ("bool",)),
    ("divide", FLOATING),
)


def calls(groups: Any) -> list[tuple[str, str]]:
    """(name, dtype) of each call."""
    every = ((name, dtype) for names, dtypes in groups for name in names.split() for dtype in dtypes)
    return [(name, dtype) for name, dtype in every if dtype in TRIED]


UNARY, BINARY = calls(GROUPS_OF_ONE), calls(GROUPS_OF_TWO)
COARSE = {"tan": 40.0, "log1p": 4.0, "acosh": 4.0, "pow": 8.0, "sinh": 4.0, "cosh": 4.0, "exp": 4.0, "expm1": 4.0}


@pytest.mark.parametrize(("name", "dtype"), UNARY)
def test_functions_of_one_array(name: str, dtype: str) -> None:
    check(name, samples(dtype), scale=COARSE.get(name, 2.0))


def operands_of(name: str, dtype: str) -> tuple[Any, Any]:
    """All pairs of samples that the standard says something about."""
    values = samples(dtype)
    left, right = (each.reshape(-1) for each in np.meshgrid(values, values, indexing="ij"))
    if dtype in INTEGERS and name in ("floor_divide", "remainder"):
        right = np.where(right == 0, np.array(1, dtype), right)
    if "shift" in name:
        right = np.abs(right) % np.array(np.iinfo(dtype).bits, dtype)
        right = np.where(right < 0, np.array(1, dtype), right)
    if name == "pow" and dtype in INTEGERS:
        right = np.where(right < 0, np.array(2, dtype), right)
    if name == "floor_divide" and dtype in FLOATS:  # the standard and NumPy differ, see below
        kept = np.isfinite(left) & np.isfinite(right)
        left, right = left[kept], right[kept]
    if name in ("maximum", "minimum") and dtype in FLOATS:  # which zero is open
        left, right = np.abs(left), np.abs(right)
    return left, right


@pytest.mark.parametrize(("name", "dtype"), BINARY)
def test_functions_of_two_arrays(name: str, dtype: str) -> None:
    check(name, *operands_of(name, dtype), scale=COARSE.get(name, 2.0))


INF = float("inf")


@pytest.mark.parametrize(
    ("x1", "x2", "expected"),
    [
        (INF, 3.0, INF),
        (INF, -3.0, -INF),
        (-INF, 3.0, -INF),
        (-INF, -3.0, INF),
        (3.0, INF, 0.0),
        (3.0, -INF, -0.0),
        (-3.0, INF, -0.0),
        (-3.0, -INF, 0.0),
        (INF, INF, float("nan")),
    ],
)
def test_floor_divide_of_infinities_is_the_quotient(x1: float, x2: float, expected: float) -> None:
    for dtype in FLOATS:
        left, right = (xp.asarray([value], dtype=dtype) for value in (x1, x2))
        for found in (xp.floor_divide(left, right), left // right):
            assert_close(found.numpy(), np.array([expected], dtype))


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "pow", "atan2", "less", "equal", "maximum"])
def test_a_number_on_either_side_takes_the_dtype_of_the_array(name: str) -> None:
    for dtype in FLOATS:
        x = np.array([0.5, 1.0, 2.0], dtype)
        for number in (2, 2.5):
            check(name, x, number)
            check(name, number, x)
    if name not in ("divide", "atan2"):
        check(name, np.array([1, 2, 3], "int8"), 2)
        check(name, 2, np.array([1, 2, 3], "uint16"))


PAIRS = [("int8", "int16"), ("uint8", "int8"), ("uint16", "int64"), ("float32", "float64"), ("uint8", "uint32")]


@pytest.mark.parametrize(("first", "second"), PAIRS)
@pytest.mark.parametrize("shapes", [((2, 3), (3,)), ((3, 1), (2,)), ((), (2, 2)), ((0, 1), (3,))])
def test_operands_broadcast_and_meet_in_a_dtype(first: str, second: str, shapes: Any) -> None:
    left, right = (np.ones(shape, dtype) for shape, dtype in zip(shapes, (first, second), strict=True))
    for name in ("add", "less", "maximum"):
        check(name, left, right)
        check(name, right, left)


def test_parts_of_real_numbers() -> None:
    x = xp.asarray([1.0, -2.0])
    assert xp.real(x).tolist() == [1.0, -2.0]
    assert xp.imag(x).tolist() == [0.0, 0.0]


def test_clip_has_no_bound_beyond_the_dtype() -> None:
    x = xp.asarray([-100, 0, 100], dtype=xp.int8)
    assert xp.clip(x, -1000, 50).tolist() == [-100, 0, 50]
    assert xp.clip(x, 0, 1000).tolist() == [0, 0, 100]
    assert xp.clip(x).tolist() == [-100, 0, 100]
    assert xp.clip(x, xp.asarray([-1], dtype=xp.int16)).dtype == xp.int8
    assert xp.clip(x, 0.5).dtype == xp.float32


def test_numbers_that_a_dtype_does_not_hold_are_compared() -> None:
    x = xp.asarray([1, 255], dtype=xp.uint8)
    assert xp.less(300, x).tolist() == xp.greater(x, 300).tolist() == xp.equal(300, x).tolist() == [False, False]
    assert xp.greater(300, x).tolist() == xp.less_equal(x, 300).tolist() == xp.not_equal(-1, x).tolist() == [True, True]
    assert xp.less(1, x).tolist() == xp.greater_equal(x, 2).tolist() == [False, True]
    assert xp.full(2, 2**40).dtype is xp.int64
