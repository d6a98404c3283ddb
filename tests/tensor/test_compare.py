"""Functions of two numbers, comparison and logic by name, against NumPy and the float64 of the math module."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

from tensor.check import FLOATS, INTS, same, some, value, wide
from whit import Tensor
from whit.dtype import DType, dtypes
from whit.errors import ArgumentError, ShapeError

pytestmark = pytest.mark.slow  # many

inf, nan = math.inf, math.nan
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3e38, -3e38, 1e-38, inf, -inf, nan])
PAIRS = np.array(list(itertools.product(SPECIAL, SPECIAL)))

COMPARISONS = [
    ("lt", np.less),
    ("le", np.less_equal),
    ("gt", np.greater),
    ("ge", np.greater_equal),
    ("eq", np.equal),
    ("ne", np.not_equal),
    ("logical_and", np.logical_and),
    ("logical_or", np.logical_or),
    ("logical_xor", np.logical_xor),
]


@pytest.mark.parametrize("dtype", (*FLOATS, *INTS, dtypes.bool), ids=str)
@pytest.mark.parametrize("name, reference", COMPARISONS, ids=lambda v: v if isinstance(v, str) else "")
def test_comparison_and_logic(name: str, reference: Any, dtype: DType) -> None:
    x, y = some(dtype, (4, 5), 1, -2, 2), some(dtype, (5,), 2, -2, 2)
    x[0, 0] = 0
    same(getattr(Tensor(x), name)(Tensor(y)), reference(x, y), dtypes.bool)
    same(getattr(Tensor(x), name)(1), reference(x, x.dtype.type(1)), dtypes.bool)


@pytest.mark.parametrize("name", [case[0] for case in COMPARISONS])
def test_comparison_of_special_numbers(name: str) -> None:
    x, y = PAIRS.T
    reference: Any = dict(COMPARISONS)[name]
    same(getattr(Tensor(x), name)(Tensor(y)), reference(x, y))


def test_logic_needs_no_common_dtype() -> None:
    same(Tensor([0, 2]).logical_and(Tensor([0.5, 0.5])), [False, True])
    same(Tensor([0, 2]).logical_or(0.5), [True, True])
    same(Tensor([0, 2]).logical_xor(Tensor([[True], [False]])), [[True, False], [False, True]])
    with pytest.raises(ShapeError, match="logical_and: shapes"):
        Tensor([1, 2]).logical_and(Tensor([1, 2, 3]))


def test_equal_is_one_answer() -> None:
    x = Tensor([1.0, 2.0])
    assert x.equal(Tensor([1, 2])) is True
    assert x.equal(Tensor([1, 3])) is False
    assert x.equal(Tensor([[1, 2]])) is False
    assert Tensor([nan]).equal(Tensor([nan])) is False
    assert Tensor.zeros(0).equal(Tensor.zeros(0)) is True


REAL = [
    ("atan2", np.arctan2, 4),
    ("hypot", np.hypot, 2),
    ("copysign", np.copysign, 0),
    ("logaddexp", np.logaddexp, 6),
]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name, reference, ulps", REAL, ids=lambda v: v if isinstance(v, str) else "")
def test_functions_of_two(name: str, reference: Any, ulps: float, dtype: DType) -> None:
    x, y = some(dtype, (60,), 1), some(dtype, (60,), 2)
    once = 0.51 if dtype.mantissa_bits < 23 and ulps else ulps
    same(
        getattr(Tensor(x), name)(Tensor(y)),
        reference(wide(x), wide(y)),
        dtype,
        ulps=once,
        scale=1 if name == "logaddexp" else 1e-3,
    )
    assert getattr(Tensor([1, 2]), name)(2).dtype is dtypes.float32


@pytest.mark.parametrize("name, reference, ulps", REAL, ids=lambda v: v if isinstance(v, str) else "")
def test_functions_of_two_special_numbers(name: str, reference: Any, ulps: float) -> None:
    x, y = PAIRS.T
    found = value(getattr(Tensor(x), name)(Tensor(y)))
    with np.errstate(all="ignore"):
        expected = reference(x, y)
    np.testing.assert_allclose(found, expected, rtol=ulps * 2.0**-52)
    exact = expected == 0
    np.testing.assert_array_equal(np.signbit(found[exact]), np.signbit(expected[exact]))


def test_hypot_neither_overflows_nor_vanishes() -> None:
    same(Tensor([3e38, 3e-38]).hypot(Tensor([1e38, 4e-38])), np.hypot([3e38, 3e-38], [1e38, 4e-38]), ulps=2)


def test_xlogy_and_heaviside() -> None:
    x, y = np.array([0.0, 0.0, 0.0, 2.0, nan, 0.0]), np.array([0.0, inf, nan, 3.0, 1.0, -1.0])
    same(Tensor(x).xlogy(Tensor(y)), [0, 0, nan, 2 * math.log(3), nan, 0], ulps=4)
    z = np.array([-1.0, -0.0, 0.0, 2.0, nan, inf, -inf])
    same(Tensor(z).heaviside(0.5), np.heaviside(z, 0.5))
    same(Tensor([-1, 0, 2]).heaviside(Tensor([5, 5, 5])), [0, 5, 1], dtypes.int32)


def test_nan_to_num() -> None:
    x = np.array([nan, inf, -inf, 1.5])
    same(Tensor(x).nan_to_num(), np.nan_to_num(x))
    same(Tensor(x).nan_to_num(1.0, 2.0, 3.0), [1, 2, 3, 1.5])
    same(Tensor(x).nan_to_num(nan=inf), [inf, np.finfo(np.float64).max, np.finfo(np.float64).min, 1.5])
    for dtype in FLOATS:
        same(Tensor(x).cast(dtype).nan_to_num(), [0, dtype.largest, -dtype.largest, 1.5], dtype)
    same(Tensor([1, 2]).nan_to_num(), [1, 2], dtypes.int32)


@pytest.mark.parametrize("dtype", (*FLOATS, *INTS), ids=str)
def test_division_by_name(dtype: DType) -> None:
    x, y = some(dtype, (40,), 1, -50, 50), some(dtype, (40,), 2, -7, 7)
    y[y == 0] = 1
    same(Tensor(x).floor_divide(Tensor(y)), value(Tensor(x) // Tensor(y)), dtype)
    same(Tensor(x).remainder(Tensor(y)), value(Tensor(x) % Tensor(y)), dtype)


FLOAT_CASES = [
    ("expm1", np.expm1, -9, 9),
    ("log1p", np.log1p, -0.9, 9),
    ("cbrt", np.cbrt, -9, 9),
    ("sinc", np.sinc, -0.9, 0.9),
    ("deg2rad", np.deg2rad, -400, 400),
    ("rad2deg", np.rad2deg, -9, 9),
    ("signbit", np.signbit, -1, 1),
    ("frac", lambda x: x - np.trunc(x), -9, 9),
    ("positive", np.positive, -9, 9),
]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name, reference, low, high", FLOAT_CASES, ids=lambda v: v if isinstance(v, str) else "")
def test_functions_of_one(name: str, reference: Any, low: float, high: float, dtype: DType) -> None:
    x = some(dtype, (50,), 1, low, high)
    ulps = 0.51 if dtype.mantissa_bits < 23 else 4
    same(getattr(Tensor(x), name)(), reference(wide(x)), ulps=ulps, scale=0.1)


def test_functions_of_one_special_number() -> None:
    x = Tensor(SPECIAL)
    with np.errstate(all="ignore"):
        same(x.expm1(), np.expm1(SPECIAL), ulps=4)
        same(x.log1p(), np.log1p(SPECIAL), ulps=4)
        same(x.cbrt(), np.cbrt(SPECIAL), ulps=1)
    same(x.signbit(), np.signbit(SPECIAL))
    same(Tensor([0.0, 1.0, -3.0, 1e20, inf]).sinc(), [1, 0, 0, 0, nan])
    same(Tensor([-1, 0, 1]).signbit(), [True, False, False])
    same(Tensor([1, 0], dtype="uint8").signbit(), [False, False])
    same(Tensor([1, 2]).frac(), [0, 0], dtypes.int32)


TINY = {dtypes.float32: 1e-30, dtypes.float64: 1e-200}


@pytest.mark.parametrize("dtype", TINY, ids=str)
@pytest.mark.parametrize("name", ["sin", "tan", "asin", "atan", "sinh", "tanh", "asinh", "atanh", "expm1", "log1p"])
def test_nothing_is_lost_near_zero(name: str, dtype: DType) -> None:
    x = TINY[dtype] * np.array([1, -1, 0.3, -0.0, 0.0])
    same(getattr(Tensor(x).cast(dtype), name)(), x, dtype, ulps=1)
    found = value(getattr(Tensor([-0.0], dtype=dtype), name)())
    assert np.signbit(found).all()


def test_cosh_reaches_the_end() -> None:
    for dtype, end in ((dtypes.float32, 89.3), (dtypes.float64, 710.3)):
        x = Tensor([end, -end], dtype=dtype)
        expected = np.cosh(value(x).astype(np.longdouble)).astype(np.float64)
        same(x.cosh(), expected, dtype, ulps=5)
        same(x.sinh(), expected * [1, -1], dtype, ulps=5)


# ---- powers, bounds, mixtures


@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_integer_powers_are_exact_and_wrap(dtype: DType) -> None:
    x, y = some(dtype, (50,), 1, -9, 9), some(dtype, (50,), 2, 0, 20)
    y = np.abs(y)
    same(Tensor(x).pow(Tensor(y)), x**y, dtype)
    for exponent in (0, 1, 2, 7, 13):
        same(Tensor(x) ** exponent, x**exponent, dtype)
    same(Tensor([0], dtype=dtype) ** 0, [1], dtype)


def test_float_powers_at_the_corners() -> None:
    x, y = PAIRS.T
    with np.errstate(all="ignore"):
        expected = np.power(x, y)
    np.testing.assert_allclose(value(Tensor(x).pow(Tensor(y))), expected, rtol=1e-14)
    same(Tensor([-2.0, -2.0, 0.0]).pow(Tensor([3.0, 0.5, 0.0])), [-8, nan, 1])


def test_bounds_may_be_tensors() -> None:
    x = np.array([[1.0, 5.0, nan], [-3.0, 0.5, 9.0]])
    low, high = np.array([0.0, 1.0, 2.0]), np.array([[2.0], [4.0]])
    for name in ("clamp", "clip"):
        same(getattr(Tensor(x), name)(Tensor(low), Tensor(high)), np.clip(x, low, high))
        same(getattr(Tensor(x), name)(max_=Tensor(high)), np.minimum(x, high))
        same(getattr(Tensor(x), name)(0.75), np.maximum(x, 0.75))
        with pytest.raises(ArgumentError, match="neither min_ nor max_"):
            getattr(Tensor(x), name)()


def test_lerp_is_exact_at_both_ends() -> None:
    x, y = some(dtypes.float32, (20,), 1), some(dtypes.float32, (20,), 2)
    for weight in (0.0, 1.0, 0.25):
        expected = x.astype(np.float64) + (y.astype(np.float64) - x) * weight
        same(Tensor(x).lerp(Tensor(y), weight), expected, ulps=2 if weight == 0.25 else 0, scale=4)
        same(Tensor(x).lerp(Tensor(y), Tensor.full((20,), weight)), expected, ulps=2 if weight == 0.25 else 0, scale=4)
    same(Tensor([5], dtype="uint8").lerp(Tensor([3], dtype="uint8"), 0.5), [4.0], dtypes.float32)


SYMBOLS = {
    "lshift": "<<",
    "rshift": ">>",
    "bitwise_and": "&",
    "bitwise_or": "|",
    "bitwise_xor": "^",
    "sub": "-",
    "div": "/",
    "mod": "%",
    "pow": "**",
}


@pytest.mark.parametrize("name, symbol", SYMBOLS.items())
def test_reverse_exchanges_the_operands(name: str, symbol: str) -> None:
    x = np.array([1, 2, 3], np.int32)
    found = getattr(Tensor(x), name)(7, reverse=True)
    same(found, eval(f"7 {symbol} x"), ulps=1)


@pytest.mark.parametrize("dtype", (*INTS, dtypes.bool), ids=str)
def test_every_bit_flipped(dtype: DType) -> None:
    x = some(dtype, (20,), 1)
    same(Tensor(x).bitwise_not(), np.invert(x), dtype)
    same(~Tensor(x), np.invert(x), dtype)


def test_in_looks_for_one_number() -> None:
    x = Tensor([[1, 2], [3, 4]])
    assert 3 in x
    assert 3.0 in x
    assert 3.5 not in x
    assert np.int64(4) in x
    assert x[0, 1] in x
    assert 1 not in Tensor([])
    assert nan not in Tensor([nan])
    assert True in Tensor(True)
    with pytest.raises(ShapeError, match=r"in: looks for one number, and shape \(2,\) has 2(.|\n)*x == y"):
        [1, 2] in x  # noqa: B015
