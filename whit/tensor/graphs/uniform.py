"""Random bits as numbers: in [0, 1), normal, exponential, and integers below a bound.

Goes in: words of 32 random bits (`threefry`). Comes out: a node of float32, float64 or uint64.

Only ops that every device rounds in the same way are used (docs/semantics.md): the logarithm is a series in
(m - 1) / (m + 1), sine and cosine are Taylor series on an eighth of a turn. So the numbers are the same on every
device, to the last bit.
"""

from __future__ import annotations

import math

from whit.dtype import DType, dtypes
from whit.ir.uop import UOp
from whit.tensor.graphs.threefry import fixed

Words = tuple[UOp, UOp]

# Terms after which the series are exact to the dtype.
_LOG_TERMS = {dtypes.float32: 5, dtypes.float64: 11}
_TRIG_TERMS = {dtypes.float32: 5, dtypes.float64: 9}
_INTEGER = {dtypes.float32: dtypes.int32, dtypes.float64: dtypes.int64}
# ln 2 in two parts; a product of the first with an exponent is exact.
_LN2_HIGH = {dtypes.float32: 0.693145751953125, dtypes.float64: 0.6931471803691238}
_LN2_LOW = {dtypes.float32: 1.4286068203094172e-06, dtypes.float64: 1.9082149292705877e-10}


def unit(words: Words, dtype: DType) -> UOp:
    """Multiples of 2**-p in [0, 1), p being the bits that a float of the dtype has: in float16 rand is k / 2048."""
    bits = dtype.mantissa_bits + 1
    high, low = words
    if bits > 32:
        whole = (high >> 5).cast(dtypes.float64).fma(fixed(dtypes.float64, 2.0**26), (low >> 6).cast(dtypes.float64))
        return whole * fixed(dtypes.float64, 2.0**-53)
    whole = (high >> (32 - bits)).cast(dtypes.int32)  # signed: hardware converts those faster
    return (whole.cast(dtypes.float32) * fixed(dtypes.float32, 2.0**-bits)).cast(dtype)


def minus_log(words: Words, dtype: DType) -> UOp:
    """-ln u, u uniform in (0, 1): exponential of rate 1. Large and small results are equally precise.

    u = (w + 1/2) / 2**bits of a word w, and 1 - u is that of its complement: near 1, where the logarithm is nearly 0,
    it is 1 - u that tells it.
    """
    below = _open_unit(words, dtype)
    above = _open_unit((~words[0], ~words[1]), dtype)
    return -_log(below, above)


def log(x: UOp) -> UOp:
    """ln x of a positive, normal float32 or float64."""
    return _log(x, None)


def _open_unit(words: Words, dtype: DType) -> UOp:
    """(w + 1/2) / 2**bits: float32 has one word of bits, float64 both."""
    high, low = words
    if dtype is dtypes.float64:
        whole = high.cast(dtype).fma(fixed(dtype, 2.0**32), low.cast(dtype) + fixed(dtype, 0.5))
        return whole * fixed(dtype, 2.0**-64)
    return (high.cast(dtype) + fixed(dtype, 0.5)) * fixed(dtype, 2.0**-32)


def _log(x: UOp, below_one: UOp | None) -> UOp:
    """x = 2**k * m with m around 1; ln m = 2 atanh(s), s = (m - 1) / (m + 1). `below_one` is 1 - x, if it is known."""
    dtype = x.dtype
    shift = dtype.mantissa_bits
    whole = _INTEGER[dtype]
    bits = x.bitcast(whole)
    middle = fixed(dtype, math.sqrt(0.5)).bitcast(whole)
    exponent = (bits - middle) >> shift
    m = (bits - (exponent << shift)).bitcast(dtype)
    top = m - fixed(dtype, 1.0)
    if below_one is not None:
        top = exponent.eq(0).where(-below_one, top)
    s = top / (m + fixed(dtype, 1.0))
    z = s * s
    terms = [2 / (2 * i + 1) for i in range(1, _LOG_TERMS[dtype])]
    k = exponent.cast(dtype)
    small = k.fma(fixed(dtype, _LN2_LOW[dtype]), s * z * _polynomial(z, terms))
    return k.fma(fixed(dtype, _LN2_HIGH[dtype]), s.fma(fixed(dtype, 2.0), small))


def _polynomial(x: UOp, coefficients: list[float]) -> UOp:
    """The first coefficient is that of x**0."""
    result = fixed(x.dtype, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result = result.fma(x, fixed(x.dtype, coefficient))
    return result


def normal(radius: Words, angle: Words, dtype: DType) -> UOp:
    """Mean 0 and variance 1 by Box and Muller: sqrt(-2 ln u) cos(2 pi v), up to 6.7 deviations in float32, 9.4 in
    float64."""
    return (minus_log(radius, dtype) * fixed(dtype, 2.0)).sqrt() * _cosine(angle, dtype)


def _cosine(words: Words, dtype: DType) -> UOp:
    """The cosine of w / 2**bits of a turn. Quarters of a turn and the angle from the nearest one are exact integers."""
    high, low = words
    quarter = (high + fixed(dtypes.uint32, 2**29)) >> 30
    rest = (high - (quarter << 30)).cast(dtypes.int32).cast(dtype)
    if dtype is dtypes.float64:
        rest = rest + low.cast(dtype) * fixed(dtype, 2.0**-32)
    x = rest * fixed(dtype, 2 * math.pi / 2**32)
    z = x * x
    count = _TRIG_TERMS[dtype]
    cosine = _polynomial(z, [(-1) ** i / math.factorial(2 * i) for i in range(count + 1)])
    sine = x * _polynomial(z, [(-1) ** i / math.factorial(2 * i + 1) for i in range(count)])
    odd = (quarter & fixed(dtypes.uint32, 1)).ne(0)
    negative = ((quarter + fixed(dtypes.uint32, 1)) & fixed(dtypes.uint32, 2)).ne(0)
    value = odd.where(sine, cosine)
    return negative.where(-value, value)


# ---- integers


def below(size: int, words: Words, more: Words | None) -> UOp:
    """Integers in [0, size) as uint64: the random fraction times the size, rounded down.

    With two words, for sizes up to 2**32, no probability is off by more than a part of 2**-32 of it; with four, for
    those up to 2**64, by more than a part of 2**-64.
    """
    high, low = (word.cast(dtypes.uint64) for word in words)
    if size <= 2**32:
        factor = UOp.const(dtypes.uint64, size)
        if size == 2**32:
            return high
        return (high * factor + ((low * factor) >> 32)) >> 32
    first = (high << 32) | low
    if size == 2**64 or more is None:
        return first
    second = (more[0].cast(dtypes.uint64) << 32) | more[1].cast(dtypes.uint64)
    factor = UOp.const(dtypes.uint64, size)
    product = first * factor
    carry = (product + high_product(second, factor)) < product
    return high_product(first, factor) + carry.cast(dtypes.uint64)


def high_product(x: UOp, y: UOp) -> UOp:
    """The upper 64 bits of a product of uint64s, by products of their halves."""
    mask = fixed(dtypes.uint64, 2**32 - 1)
    x0, x1, y0, y1 = x & mask, x >> 32, y & mask, y >> 32
    middle = x1 * y0 + ((x0 * y0) >> 32)
    other = x0 * y1 + (middle & mask)
    return x1 * y1 + (middle >> 32) + (other >> 32)
