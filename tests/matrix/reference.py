"""What each op gives, computed by exact arithmetic and NumPy, with nothing taken from whit's interpreter.

    elementwise(ops.ADD, dtypes.int8, [x, y])     the array that every device has to give

Integers are Python's, wrapped at the end. Floats are fractions, rounded once at the end, except where NumPy computes in
the dtype itself. Of `exp2`, `log2`, `sin` and `pow` the result is a long double, to be compared within a few units.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np

from whit.dtype import DType, dtypes
from whit.ir import ops
from whit.ir.op import Op

STORAGE: dict[DType, Any] = {
    dtype: np.dtype(
        {
            "bfloat16": ml_dtypes.bfloat16,
            "fp8e4m3": ml_dtypes.float8_e4m3fn,
            "fp8e5m2": ml_dtypes.float8_e5m2,
            "fp8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
            "fp8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
        }.get(dtype.name, dtype.name)
    )
    for dtype in dtypes.scalars
}
SMALL = (dtypes.float16, dtypes.bfloat16, *dtypes.fp8s)


def integers_of(values: Sequence[int], dtype: DType) -> Any:
    """Python's integers, wrapped."""
    mask, half = (1 << dtype.bitsize) - 1, 1 << (dtype.bitsize - 1)
    wrapped = [value & mask for value in values]
    if not dtype.is_unsigned:
        wrapped = [value - 2 * half if value >= half else value for value in wrapped]
    return np.array(wrapped, STORAGE[dtype])


def _grid(dtype: DType) -> tuple[Any, Any]:
    """The non-negative finite values of a small float in order, and their codes."""
    count = 1 << (dtype.bitsize - 1)
    codes = np.arange(count, dtype=f"u{dtype.itemsize}")
    with np.errstate(invalid="ignore"):
        values = codes.view(STORAGE[dtype]).astype(np.float64)
    finite = np.isfinite(values)
    return values[finite], codes[finite]


_GRIDS = {dtype: _grid(dtype) for dtype in SMALL}


def round_exact(value: Fraction, dtype: DType) -> float:
    """The value of a float dtype that is nearest to a fraction, ties to even, as a double; overflow is infinity."""
    if value == 0:
        return 0.0
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** (max(exponent, 1 - dtype.bias) - dtype.mantissa_bits)
    nearest = round(size / unit) * unit  # of fractions, ties to even
    result = math.inf if nearest > Fraction(dtype.largest) else float(nearest)
    return -result if value < 0 else result


def floats_of(values: Any, dtype: DType) -> Any:
    """Doubles that are exact, or at least as good as exact (see `whit.ir.interpret.values`), rounded to a dtype."""
    doubles = np.asarray(values, np.float64)
    if dtype not in SMALL:
        with np.errstate(all="ignore"):
            return doubles.astype(STORAGE[dtype])
    grid, codes = _GRIDS[dtype]
    size = np.abs(doubles)
    above = np.clip(np.searchsorted(grid, size), 1, len(grid) - 1)
    low, high = size - grid[above - 1], grid[above] - size
    is_low = (low < high) | ((low == high) & (codes[above - 1] % 2 == 0))
    found = codes[np.where(is_low, above - 1, above)]
    step = grid[-1] - grid[-2]
    if dtype.saturates:
        found = np.where(size > grid[-1], codes[-1], found)  # saturates
    else:
        found = np.where(size >= grid[-1] + step / 2, codes[-1] + 1, found)  # the code after the largest is infinity
    sign = np.uint64(1 << (dtype.bitsize - 1))
    has_zero = dtype.name.endswith("fnuz")
    negative = np.signbit(doubles) & ~(has_zero & (found == 0))
    bits = found.astype(np.uint64) | np.where(negative, sign, np.uint64(0))
    result = np.array(bits, f"u{dtype.itemsize}").view(STORAGE[dtype])
    return np.where(np.isnan(doubles), np.array(np.nan, STORAGE[dtype]), result)


# ---- elementwise


def _truncate(x: int, y: int) -> int:
    size = abs(x) // abs(y)
    return size if (x < 0) == (y < 0) else -size


def _shift_right(x: int, y: int, bits: int) -> int:
    return x >> y if 0 <= y < bits else -(x < 0)


_INTEGER: dict[Op, Callable[..., int]] = {
    ops.NEG: lambda bits, x: -x,
    ops.ABS: lambda bits, x: abs(x),
    ops.NOT: lambda bits, x: ~x,
    ops.ADD: lambda bits, x, y: x + y,
    ops.SUB: lambda bits, x, y: x - y,
    ops.MUL: lambda bits, x, y: x * y,
    ops.FLOORDIV: lambda bits, x, y: x // y if y else 0,
    ops.FLOORMOD: lambda bits, x, y: x % y if y else x,
    ops.CDIV: lambda bits, x, y: _truncate(x, y) if y else 0,
    ops.CMOD: lambda bits, x, y: x - _truncate(x, y) * y if y else x,
    ops.MAX: lambda bits, x, y: max(x, y),
    ops.MIN: lambda bits, x, y: min(x, y),
    ops.AND: lambda bits, x, y: x & y,
    ops.OR: lambda bits, x, y: x | y,
    ops.XOR: lambda bits, x, y: x ^ y,
    ops.SHL: lambda bits, x, y: x << y if 0 <= y < bits else 0,
    ops.SHR: lambda bits, x, y: _shift_right(x, y, bits),
    ops.FMA: lambda bits, x, y, z: x * y + z,
}
_BOOL: dict[Op, Callable[..., Any]] = {
    ops.NOT: np.logical_not,
    ops.AND: np.logical_and,
    ops.OR: np.logical_or,
    ops.XOR: np.logical_xor,
    ops.MAX: np.logical_or,
    ops.MIN: np.logical_and,
}
_FLOAT: dict[Op, Callable[..., Any]] = {
    ops.NEG: np.negative,
    ops.ABS: np.absolute,
    ops.RECIPROCAL: lambda x: np.divide(np.ones_like(x), x),
    ops.SQRT: np.sqrt,
    ops.TRUNC: np.trunc,
    ops.FLOOR: np.floor,
    ops.CEIL: np.ceil,
    ops.ROUND: np.rint,
    ops.ADD: np.add,
    ops.SUB: np.subtract,
    ops.MUL: np.multiply,
    ops.FDIV: np.divide,
    ops.NORMAL_DIV: np.divide,
    ops.MAX: np.maximum,
    ops.MIN: np.minimum,
}
_COMPARE: dict[Op, Callable[..., Any]] = {
    ops.LT: np.less,
    ops.LE: np.less_equal,
    ops.EQ: np.equal,
    ops.NE: np.not_equal,
}
TRANSCENDENTAL: dict[Op, Callable[..., Any]] = {
    ops.EXP: np.exp,
    ops.EXP2: np.exp2,
    ops.LOG: np.log,
    ops.LOG2: np.log2,
    ops.SIGMOID: lambda x: np.where(x < 0, np.exp(-np.abs(x)), 1) / (1 + np.exp(-np.abs(x))),
    ops.TANH: np.tanh,
    ops.ERF: np.vectorize(math.erf, otypes=[np.longdouble]),
    ops.SIN: np.sin,
    ops.COS: np.cos,
    ops.POW: lambda x, y: np.power(x, np.array(y)),
    ops.LOGADDEXP: np.logaddexp,
}


def elementwise(op: Op, dtype: DType, operands: Sequence[Any]) -> Any:
    """The result of an op on arrays of one shape, of the dtype of the result; a long double for transcendental ops."""
    shape = operands[0].shape
    flat = [np.ascontiguousarray(operand).reshape(-1) for operand in operands]
    with np.errstate(all="ignore"):
        return np.asarray(_on_flat(op, dtype, flat).reshape(shape))


def _on_flat(op: Op, dtype: DType, flat: list[Any]) -> Any:
    if op is ops.WHERE:
        result = flat[2].copy()
        result[flat[0]] = flat[1][flat[0]]
        return result
    if op in _COMPARE:
        wide = [x.astype(np.float64) for x in flat] if dtype.is_float else flat
        return np.asarray(_COMPARE[op](*wide), np.bool_)
    if dtype.is_bool:
        return _BOOL[op](*flat)
    if dtype.is_int:
        rows = zip(*(x.tolist() for x in flat), strict=True)
        return integers_of([_INTEGER[op](dtype.bitsize, *row) for row in rows], dtype)
    if op in TRANSCENDENTAL:
        return TRANSCENDENTAL[op](*(x.astype(np.float64).astype(np.longdouble) for x in flat))
    if op is ops.FMA:
        return _fused(dtype, flat)
    if dtype in SMALL:
        return floats_of(_FLOAT[op](*(x.astype(np.float64) for x in flat)), dtype)
    return _FLOAT[op](*flat)


def _fused(dtype: DType, flat: list[Any]) -> Any:
    """x * y + z as fractions; where something is not finite, or the result a zero, whose sign counts, as IEEE says."""
    doubles = [x.astype(np.float64) for x in flat]
    plain = doubles[0] * doubles[1] + doubles[2]
    for i, (x, y, z) in enumerate(zip(*(x.tolist() for x in doubles), strict=True)):
        if not (math.isfinite(x) and math.isfinite(y)):
            continue
        if not math.isfinite(z):
            plain[i] = z
            continue
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        if exact:
            size = round_exact(abs(exact), dtype)
            plain[i] = -size if exact < 0 else size
        else:
            is_negative = math.copysign(1, x) * math.copysign(1, y) < 0 and math.copysign(1, z) < 0
            plain[i] = -0.0 if is_negative else 0.0
    return floats_of(plain, dtype)


# ---- conversion


def cast(values: Any, source: DType, target: DType) -> Any:
    """The nearest value of another dtype: integers wrap, floats saturate when they become integers, NaN is 0."""
    flat = np.ascontiguousarray(values).reshape(-1)
    if source is target:
        return np.array(values)
    with np.errstate(all="ignore"):
        listed = (flat.astype(np.float64) if source.is_float else flat).tolist()
        if target.is_bool:
            result = np.array([value != 0 for value in listed], np.bool_)
        elif target.is_int and source.is_float:
            result = np.array([_saturated(value, target) for value in listed], STORAGE[target])
        elif target.is_int:
            result = integers_of([int(value) for value in listed], target)
        else:
            result = floats_of([_rounded(value, target) for value in listed], target)
    return result.reshape(np.shape(values))


def _saturated(value: float, dtype: DType) -> int:
    if math.isnan(value):
        return 0
    if math.isinf(value):
        return dtype.max if value > 0 else dtype.min
    return min(max(int(value), dtype.min), dtype.max)


def _rounded(value: float, dtype: DType) -> float:
    if isinstance(value, float) and (not math.isfinite(value) or value == 0):
        return value
    rounded = round_exact(Fraction(value), dtype)
    return math.copysign(rounded, value)


# ---- reductions

_REDUCERS: dict[Op, Any] = {
    ops.ADD: np.add,
    ops.MUL: np.multiply,
    ops.MAX: np.maximum,
    ops.MIN: np.minimum,
    ops.AND: np.bitwise_and,
    ops.OR: np.bitwise_or,
}


def identity(op: Op, dtype: DType) -> Any:
    """What a reduction of nothing gives."""
    if op in (ops.ADD, ops.OR):
        return False if dtype.is_bool else 0
    if op in (ops.MUL, ops.AND):
        return True if dtype.is_bool else 1 if op is ops.MUL else integers_of([-1], dtype)[0]
    is_max = op is ops.MAX
    if dtype.is_bool:
        return not is_max
    if dtype.is_int:
        return dtype.min if is_max else dtype.max
    largest = float(_GRIDS[dtype][0][-1]) if dtype.saturates else math.inf
    return -largest if is_max else largest


def reduce(op: Op, dtype: DType, values: Any, axes: tuple[int, ...]) -> Any:
    """All elements along the axes. Sums and products of floats must be exact in any order."""
    start = identity(op, dtype)
    if not axes:
        return scan(op, dtype, values[..., None], values.ndim)[..., 0]  # the op on the identity and the element
    with np.errstate(all="ignore"):
        if dtype.is_float:
            wide = values.astype(np.float64)
            return floats_of(_REDUCERS[op].reduce(wide, axis=axes, initial=float(start)), dtype)
        kind = STORAGE[dtype].type
        return np.asarray(_REDUCERS[op].reduce(values, axis=axes, initial=kind(start), dtype=STORAGE[dtype]))


def scan(op: Op, dtype: DType, values: Any, axis: int) -> Any:
    """At each position along the axis the combination of all elements up to it."""
    with np.errstate(all="ignore"):
        wide = values.astype(np.float64) if dtype.is_float else values
        first = np.full_like(np.take(wide, [], axis=axis), 0, shape=(*wide.shape[:axis], 1, *wide.shape[axis + 1 :]))
        first[...] = identity(op, dtype)
        running = _REDUCERS[op].accumulate(np.concatenate([first, wide], axis), axis, wide.dtype)
        rest = np.delete(running, 0, axis)
        return floats_of(rest, dtype) if dtype.is_float else rest
