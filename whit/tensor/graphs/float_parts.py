"""Floats by their parts: mantissa and exponent taken apart and put together, and the neighbours of a float.

    frexp(12.0)  ->  0.75, 4          ldexp(0.75, 4)  ->  12.0          nextafter(1.0, 2.0)  ->  1.0000001

Goes in: nodes of float16, bfloat16, float32 or float64. All that comes out is exact.
"""

from __future__ import annotations

import math

from whit.dtype import DType, dtypes
from whit.ir.uop import UOp, const
from whit.tensor.graphs.formulas import isfinite
from whit.transform import derivative

_BITS = {2: dtypes.int16, 4: dtypes.int32, 8: dtypes.int64}


def nextafter(x: UOp, y: UOp) -> UOp:
    """The float beside x that lies toward y."""
    return _nextafter(x, y).formula("nextafter", x, y)


@derivative("nextafter")
def _step(z: UOp, dy: UOp, x: UOp, y: UOp) -> tuple[UOp | None, ...]:
    """All but a step of x."""
    return dy, None


def _nextafter(x: UOp, y: UOp) -> UOp:
    integer = _BITS[x.dtype.itemsize]
    bits = x.bitcast(integer)
    away = (x < y).eq(x > 0.0)
    beside = (bits + away.where(const(integer, 1), const(integer, -1))).bitcast(x.dtype)
    smallest = const(integer, 1).bitcast(x.dtype)
    beside = x.eq(0.0).where((y < 0.0).where(-smallest, smallest), beside)
    is_nan = x.ne(x) | y.ne(y)
    return is_nan.where(x.constant(math.nan), x.eq(y).where(y, beside))


def frexp(x: UOp) -> tuple[UOp, UOp]:
    """m and e of x = m * 2**e, |m| being in [0.5, 1); infinities and NaN stay, with e = 0."""
    mantissa, exponent = _frexp(x)
    return mantissa.formula("mantissa", x, exponent), exponent


def _frexp(x: UOp) -> tuple[UOp, UOp]:
    dtype = x.dtype
    integer = _BITS[dtype.itemsize]
    top = (1 << dtype.exponent_bits) - 1
    lifted = dtype.mantissa_bits + 1
    is_small = abs(x) < math.ldexp(1.0, 1 - dtype.bias)  # below the numbers whose first digit is not stored
    bits = is_small.where(x * math.ldexp(1.0, lifted), x).bitcast(integer)
    field = (bits >> dtype.mantissa_bits) & top
    exponent = field - is_small.where(const(integer, dtype.bias - 1 + lifted), const(integer, dtype.bias - 1))
    mask = ~(top << dtype.mantissa_bits)
    mantissa = ((bits & mask) | ((dtype.bias - 1) << dtype.mantissa_bits)).bitcast(dtype)
    is_number = isfinite(x) & x.ne(0.0)
    return is_number.where(mantissa, x), is_number.where(exponent.cast(dtypes.int32), const(dtypes.int32, 0))


@derivative("mantissa")
def _mantissa(y: UOp, dy: UOp, x: UOp, exponent: UOp) -> tuple[UOp | None, ...]:
    """2**-exponent"""
    return ldexp(dy, -exponent), None


def ldexp(x: UOp, exponent: UOp) -> UOp:
    """x * 2**exponent, the exponent being int32, rounded once."""
    wide = x if x.dtype.itemsize >= 4 else x.cast(dtypes.float32)
    return _scaled(wide, exponent).cast(x.dtype).formula("ldexp", x, exponent)


def _scaled(x: UOp, exponent: UOp) -> UOp:
    """Three steps, so that no power of two overflows before x does, and only the last one can round."""
    dtype = x.dtype
    high, low = dtype.bias, dtype.mantissa_bits + 2 - dtype.bias
    rest = exponent.maximum(3 * low).minimum(3 * high)
    for _ in range(3):
        step = rest.maximum(low).minimum(high)
        x = x * _power_of_two(step, dtype)
        rest = rest - step
    return x


def _power_of_two(exponent: UOp, dtype: DType) -> UOp:
    """2**exponent, which is no less than the smallest number whose first digit is not stored."""
    integer = _BITS[dtype.itemsize]
    return ((exponent.cast(integer) + dtype.bias) << dtype.mantissa_bits).bitcast(dtype)


@derivative("ldexp")
def _ldexp(y: UOp, dy: UOp, x: UOp, exponent: UOp) -> tuple[UOp | None, ...]:
    """2**exponent"""
    return ldexp(dy, exponent), None
