"""Operators: values, dtypes and broadcasting as NumPy's and PyTorch's."""

import itertools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tensor.check import FLOATS, INTS, SHAPES, same, some, value, wide
from whit import Tensor
from whit.dtype import DType, dtypes, least_upper_dtype, resolve_weak
from whit.errors import ArgumentError, DTypeError
from whit.ir import ops

BOTH: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
    (operator.add, np.add),
    (operator.sub, np.subtract),
    (operator.mul, np.multiply),
    (operator.lt, np.less),
    (operator.le, np.less_equal),
    (operator.gt, np.greater),
    (operator.ge, np.greater_equal),
    (operator.eq, np.equal),
    (operator.ne, np.not_equal),
    (Tensor.maximum, np.maximum),
    (Tensor.minimum, np.minimum),
]
BITS = [(operator.and_, np.bitwise_and), (operator.or_, np.bitwise_or), (operator.xor, np.bitwise_xor)]


def name_of(value: Any) -> str:
    return str(getattr(value, "name", None) or getattr(value, "__name__", value))


@pytest.mark.parametrize("dtype", (*FLOATS, *INTS), ids=name_of)
@pytest.mark.parametrize("method, reference", BOTH, ids=name_of)
def test_binary_operators_have_numpys_values(method: Any, reference: Any, dtype: DType) -> None:
    x, y = some(dtype, (4, 5), 1), some(dtype, (4, 5), 2)
    expected = reference(x, y)
    result = dtypes.bool if expected.dtype == np.bool_ else dtype
    same(method(Tensor(x), Tensor(y)), expected, result, ulps=1)


@pytest.mark.parametrize("left, right", list(itertools.product(SHAPES, SHAPES)), ids=str)
def test_shapes_broadcast_as_in_numpy(left: Any, right: Any) -> None:
    x, y = some(dtypes.int32, left), some(dtypes.int32, right, 1)
    try:
        expected = x + y
    except ValueError:
        with pytest.raises(ValueError, match="do not broadcast"):
            Tensor(x) + Tensor(y)
        return
    same(Tensor(x) + Tensor(y), expected)


@pytest.mark.parametrize("left, right", list(itertools.product(dtypes.all, dtypes.all)), ids=name_of)
def test_two_tensors_meet_in_the_common_dtype(left: DType, right: DType) -> None:
    result = Tensor.zeros(2, dtype=left) * Tensor.zeros(2, dtype=right)
    assert result.dtype is resolve_weak(least_upper_dtype(left, right))


@pytest.mark.parametrize("dtype", (*FLOATS, *INTS, *dtypes.fp8s), ids=name_of)
def test_python_numbers_are_weak(dtype: DType) -> None:
    x = Tensor.ones(2, dtype=dtype)
    for result in (x * 2, 2 * x, x + True, x - 1, 1 - x, x // 2, x % 2):
        assert result.dtype is dtype
    for result in (x * 2.5, 2.5 + x, x / 2, 2 / x, x**2.0):
        assert result.dtype is (dtype if dtype.is_float else dtypes.default_float)
    assert (Tensor([True]) + 1).dtype is dtypes.default_int
    assert (Tensor([True]) * 1.5).dtype is dtypes.default_float


def test_the_default_float_decides_what_integers_become() -> None:
    with dtypes.defaults(float=dtypes.float64):
        assert (Tensor([1, 2]) / 2).dtype is dtypes.float64
        assert (Tensor([1, 2], dtype=dtypes.uint8) * 0.5).dtype is dtypes.float64


def test_a_scalar_operand_is_a_constant_without_movement() -> None:
    node = (Tensor([[1.0, 2.0]]) * 3).uop
    assert [n.op for n in node.topological()] == [ops.BUFFER, ops.CONST, ops.MUL]
    assert (Tensor([[1.0, 2.0]]) * Tensor(3.0)).uop.src[1].op is ops.LEAF  # a number, and something to ask by


def test_broadcast_moves_only_what_it_must() -> None:
    x, row, column = Tensor.empty(2, 3), Tensor.empty(3), Tensor.empty(2, 1)
    assert [n.op for n in (x + row).uop.topological()] == [ops.BUFFER, ops.BUFFER, ops.RESHAPE, ops.EXPAND, ops.ADD]
    assert [n.op for n in (x + column).uop.topological()] == [ops.BUFFER, ops.BUFFER, ops.EXPAND, ops.ADD]
    assert (x + x).uop.src == (x.uop, x.uop)


def test_bools_add_and_multiply_as_truth_values() -> None:
    x, y = Tensor([True, True, False, False]), Tensor([True, False, True, False])
    same(x + y, [True, True, True, False], dtypes.bool)
    same(x * y, [True, False, False, False], dtypes.bool)
    same(x.maximum(y), [True, True, True, False], dtypes.bool)
    same(x.minimum(y), [True, False, False, False], dtypes.bool)
    same(~x, [False, False, True, True], dtypes.bool)
    for wrong in (lambda: x - y, lambda: -x, lambda: x // y, lambda: x % y, lambda: x**y):
        with pytest.raises(DTypeError, match="bools are not numbers"):
            wrong()


@pytest.mark.parametrize("dtype", (*INTS, dtypes.bool), ids=name_of)
@pytest.mark.parametrize("method, reference", BITS, ids=name_of)
def test_bit_operators(method: Any, reference: Any, dtype: DType) -> None:
    x, y = some(dtype, (20,), 1), some(dtype, (20,), 2)
    same(method(Tensor(x), Tensor(y)), reference(x, y), dtype)


@pytest.mark.parametrize("dtype", INTS, ids=name_of)
def test_integer_division_rounds_down_and_the_remainder_has_the_divisors_sign(dtype: DType) -> None:
    x, y = some(dtype, (50,), 1, -100, 100), some(dtype, (50,), 2, -7, 7)
    y[y == 0] = 1
    same(Tensor(x) // Tensor(y), x // y, dtype)
    same(Tensor(x) % Tensor(y), x % y, dtype)
    same(Tensor(x).fmod(Tensor(y)), np.fmod(x, y), dtype)
    same(Tensor(x).div(Tensor(y), rounding_mode="trunc"), np.trunc(x / y).astype(x.dtype), dtype)
    same(Tensor(x).div(Tensor(y), rounding_mode="floor"), x // y, dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=name_of)
def test_float_division_with_a_remainder_is_pythons(dtype: DType) -> None:
    x, y = wide(some(dtype, (60,), 1, -9, 9)), wide(some(dtype, (60,), 2))
    x[:6], y[:6] = [6, -6, 6, -6, 0, 7.5], [3, 3, -3, -3, 2, 2.5]
    tensors = Tensor(x).cast(dtype), Tensor(y).cast(dtype)
    same(tensors[0] // tensors[1], np.floor_divide(x, y), dtype)
    same(tensors[0] % tensors[1], np.mod(x, y), dtype, ulps=1)
    same(tensors[0].fmod(tensors[1]), np.fmod(x, y), dtype, ulps=1)


def test_float_remainders_of_special_values() -> None:
    x = np.array([0.3, 1.0, -1.0, math.inf, 5.0, 5.0, -5.0, math.nan, -0.0])
    y = np.array([0.1, 0.0, math.inf, 1.0, math.inf, -math.inf, math.inf, 1.0, 3.0])
    with np.errstate(all="ignore"):
        same(Tensor(x) % Tensor(y), np.mod(x, y))
        same(Tensor(x).fmod(Tensor(y)), np.fmod(x, y))
        same((Tensor(x) // Tensor(y))[:2], np.floor_divide(x, y)[:2])


@pytest.mark.parametrize("dtype", (*FLOATS, *INTS), ids=name_of)
def test_division_gives_floats(dtype: DType) -> None:
    x, y = some(dtype, (9,), 1), some(dtype, (9,), 2)
    with np.errstate(all="ignore"):
        same(Tensor(x) / Tensor(y), wide(x) / wide(y), dtype if dtype.is_float else dtypes.float32, ulps=1)


@pytest.mark.parametrize("dtype", FLOATS, ids=name_of)
@pytest.mark.parametrize("exponent", (0, 1, 2, 3, 5, -1, -2, 0.5, 1.5))
def test_powers_of_floats(dtype: DType, exponent: float) -> None:
    x = some(dtype, (20,), 1, 0.3, 2)
    same(Tensor(x) ** exponent, wide(x) ** exponent, dtype, ulps=3)
    if exponent:
        same(abs(exponent) ** Tensor(x), abs(exponent) ** wide(x), dtype, ulps=2)


@pytest.mark.parametrize("dtype", INTS, ids=name_of)
def test_powers_of_integers_wrap(dtype: DType) -> None:
    x, y = some(dtype, (30,), 1), some(dtype, (30,), 2, 0, 70)
    same(Tensor(x) ** Tensor(y), x**y, dtype)
    same(Tensor(x) ** 5, x**5, dtype)
    same(Tensor(x) ** 0, x**0, dtype)
    with pytest.raises(ArgumentError, match="is no integer"):
        Tensor([1, 2]) ** -1


def test_integers_to_negative_powers_are_zero_but_for_units() -> None:
    same(Tensor([2, 1, -1, -1, 0]) ** Tensor([-1, -2, -2, -3, -1]), [0, 1, 1, -1, 0])


def test_shifts() -> None:
    x = Tensor([1, -5, 7])
    same(x << 2, [4, -20, 28])
    same(x >> 1, [0, -3, 3])
    same(1 << Tensor([0, 3, 40]), [1, 8, 0])
    with pytest.raises(DTypeError, match="must be integers"):
        x << 1.0


def test_a_python_integer_wraps_in_arithmetic_but_not_in_comparisons() -> None:
    x = Tensor([0, 200], dtype=dtypes.uint8)
    same(x + 300, np.array([44, 244], np.uint8), dtypes.uint8)
    same(x < 300, [True, True])
    same(x > -1, [True, True])
    same(x == 256, [False, False])
    same(x != 256, [True, True])
    same(x >= 300, [False, False])
    same(x.__lt__(300), [True, True])


def test_where_takes_tensors_and_numbers() -> None:
    c = Tensor([[True], [False]])
    same(c.where(Tensor([1, 2, 3]), 0), [[1, 2, 3], [0, 0, 0]], dtypes.int32)
    same(c.where(1, 0.5), [[1], [0.5]], dtypes.float32)
    same(c.where(Tensor([1, 2], dtype=dtypes.int8), Tensor([0.5, 1])), [[1, 2], [0.5, 1]], dtypes.float32)
    same(Tensor([2, 0]).where(1, 2), [1, 2], dtypes.int32)
    same(c.where(Tensor([1.0], dtype=dtypes.half), -1.0), [[1], [-1]], dtypes.half)


def test_maximum_and_clamp_propagate_nan() -> None:
    x = Tensor([math.nan, -2.0, 5.0])
    same(x.maximum(0), [math.nan, 0, 5])
    same(x.minimum(Tensor([0.0, math.nan, 1.0])), [math.nan, math.nan, 1])
    same(x.clamp(-1, 3), [math.nan, -1, 3])
    same(x.clip(max_=0), [math.nan, -2, 0])


def test_signs_and_closeness() -> None:
    x = np.array([0.0, -0.0, 2.0, -3.0, math.nan, math.inf])
    y = np.array([-1.0, 1.0, -0.0, 0.0, -1.0, -math.inf])
    found = value(Tensor(x).copysign(Tensor(y)))
    np.testing.assert_array_equal(np.signbit(found), np.signbit(np.copysign(x, y)))
    same(Tensor(x).sign(), np.sign(x))
    same(Tensor([-3, 0, 7]).sign(), [-1, 0, 1])
    for nan in (False, True):
        same(Tensor(x).isclose(Tensor(x), equal_nan=nan), np.isclose(x, x, equal_nan=nan))
    z = x + 1e-6
    same(Tensor(x).isclose(Tensor(z)), np.isclose(x, z))
    same(Tensor([1.0, 2.0]).lerp(Tensor([3.0, 4.0]), 0.5), [2, 3])


def test_arrays_and_lists_stand_beside_tensors() -> None:
    x = Tensor([1.0, 2.0])
    same(x + np.array([1.0, 2.0], np.float32), [2, 4], dtypes.float32)
    same(np.array([1.0, 2.0], np.float32) * x, [1, 4], dtypes.float32)  # type: ignore[arg-type]
    same(x.add([1, 1]), [2, 3])
    same(x * np.float64(2), [2, 4], dtypes.float32)
    same(x * np.float32(2), [2, 4], dtypes.float32)
    with pytest.raises(ArgumentError, match="cannot combine a tensor with 'a'"):
        x + "a"


def test_in_place_operators_keep_the_object() -> None:
    x = y = Tensor([1.0, 2.0])
    x += 1
    assert x is y
    same(y, [2, 3])
    z = Tensor([1, 2])
    with pytest.raises(DTypeError, match="the result is float32"):
        z /= 2
    with pytest.raises(ValueError, match=r"the result has shape \(2, 2\)"):
        z += Tensor([[1, 2], [3, 4]])


@pytest.mark.parametrize(("x", "y", "expected"), [("inf", 2, "inf"), ("-inf", 2, "-inf"), (1, "-inf", "-0.0")])
def test_floor_division_by_or_of_the_infinite_is_the_quotient(x: float, y: float, expected: str) -> None:
    found = Tensor([float(x)]) // Tensor([float(y)])
    assert str(found.item()) == expected
    assert Tensor([7.0, -7.0, 1e30]).div(2.0, rounding_mode="floor").tolist() == [3.0, -4.0, float(Tensor(1e30) / 2)]
