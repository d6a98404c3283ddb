"""Sine, cosine and tangent for arguments of any size.

float32, in float64:     u = x/pi - n exactly enough, sin(x) = (-1)**n sin(pi u)
float64, in two parts:   r = x - n pi/2, sin(x) = +-sin(r) or +-cos(r) by n mod 4

The hard part is x/pi for large x: only its part modulo 2 counts, and that needs as many bits of 1/pi as x has places.
float32 picks one of four pieces of 1/pi by the size of x, each two float64 long: 9 operations more than ignoring large
arguments. float64 takes n pi/2 away up to 2**30, and from there on multiplies the 192 bits of 2/pi that matter with
the mantissa in integers (Payne and Hanek); both are computed, and one is chosen.
"""

from __future__ import annotations

from itertools import pairwise

from whit.codegen.math.parts import fma, polynomial, small_int_to_float, two_product, two_sum
from whit.codegen.math.tables import (
    COS_TAIL,
    FLOAT64,
    HALF_PI,
    SIN_HALF_TURNS,
    SIN_TAIL,
    format_of,
    one_over_pi_without,
    two_over_pi_word,
)
from whit.dtype import dtypes
from whit.ir.uop import UOp

SIGN = -(2**63)  # the sign bit alone


def expand_sin(x: UOp) -> UOp:
    """sin(x) for float32 and float64."""
    if format_of("sin", x).dtype is dtypes.float32:
        return _sin_pi(*_half_turns(x.cast(dtypes.float64), 0.0)).cast(dtypes.float32)
    sine, cosine, quarters = _sin_and_cos(abs(x))
    return _quadrant(sine, cosine, quarters, x.bitcast(dtypes.int64) & SIGN)


def sin_of_small(x: UOp) -> UOp:
    """sin(x) for dtypes without numbers from 2**16 on."""
    return _sin_pi(*_half_turns(x.cast(dtypes.float64), 0.0, large=False)).cast(x.dtype)


def cos_of_small(x: UOp) -> UOp:
    """cos(x) for dtypes without numbers from 2**16 on."""
    return _sin_pi(*_half_turns(x.cast(dtypes.float64), 0.5, large=False)).cast(x.dtype)


def expand_cos(x: UOp) -> UOp:
    """cos(x) for float32 and float64."""
    if format_of("cos", x).dtype is dtypes.float32:
        return _sin_pi(*_half_turns(x.cast(dtypes.float64), 0.5)).cast(dtypes.float32)
    sine, cosine, quarters = _sin_and_cos(abs(x))
    return _quadrant(sine, cosine, quarters + 1, x.bitcast(dtypes.int64).constant(0))


# ---- float32: all in float64

# From 2**start on, x is a multiple of 2**(start - 23); so the bits of 1/pi whose weight is 2**-(start - 24) or more
# give multiples of 2 and are left out. 26 binary places further on x times the rest is still below 2**50, where the
# error of that product in two parts is small enough for the float32 that is closest to a multiple of pi.
STARTS = (50, 76, 102)


def _half_turns(x: UOp, offset: float, large: bool = True) -> tuple[UOp, UOp]:
    """u and shifted where x/pi + offset = n + u, |u| < 0.63 and the last bit of shifted tells whether n is odd."""
    high, low = (x.constant(part) for part in one_over_pi_without(0))
    if large:
        magnitude = abs(x)
        for start in STARTS:
            next_high, next_low = one_over_pi_without(start - 24)
            is_below = magnitude < 2.0**start
            high, low = is_below.where(high, next_high), is_below.where(low, next_low)
    magic = FLOAT64.magic
    product = x * high
    shifted = product + magic if offset == 0.0 else (product + offset) + magic
    n = shifted - magic
    fraction = product - (n if offset == 0.0 else n - offset)
    # Subtracting what is left keeps the sign of a zero, which adding would not.
    minus_x = -x
    return fraction - fma(minus_x, low, fma(minus_x, high, product)), shifted


def _sin_pi(u: UOp, shifted: UOp) -> UOp:
    """sin(pi u), negated where the last bit of shifted is set."""
    sine = u * polynomial(u * u, SIN_HALF_TURNS)
    return (sine.bitcast(dtypes.int64) ^ (shifted.bitcast(dtypes.int64) << 63)).bitcast(dtypes.float64)


# ---- float64

SUBTRACT_BELOW = 2.0**30


def _quadrant(sine: UOp, cosine: UOp, quarters: UOp, sign: UOp) -> UOp:
    """The sine of r + quarters pi/2 from sine and cosine of r; `sign` is a bit to flip."""
    value = (quarters & 1).ne(0).where(cosine, sine)
    return (value.bitcast(dtypes.int64) ^ ((quarters & 2) << 62) ^ sign).bitcast(dtypes.float64)


def _sin_and_cos(x: UOp) -> tuple[UOp, UOp, UOp]:
    """sin(r), cos(r) and n where x = r + n pi/2 and |r| is at most little more than pi/4, for x >= 0."""
    near, near_rest, near_n = _subtract_quarters(x)
    far, far_rest, far_n = _multiply_by_two_over_pi(x)
    is_near = x < SUBTRACT_BELOW
    r, rest, n = is_near.where(near, far), is_near.where(near_rest, far_rest), is_near.where(near_n, far_n)
    square = r * r
    minus_half = square * -0.5
    sine = r + fma(r * square, polynomial(square, SIN_TAIL), fma(minus_half, rest, rest))
    most = minus_half + 1.0
    lost = (1.0 - most) + minus_half
    cosine = most + fma(square * square, polynomial(square, COS_TAIL), fma(-r, rest, lost))
    return sine, cosine, n


def _subtract_quarters(x: UOp) -> tuple[UOp, UOp, UOp]:
    """x - n pi/2 in two parts and n, with pi/2 in three parts: for 0 <= x < SUBTRACT_BELOW."""
    first, second, third = HALF_PI
    shifted = fma(x, 2.0**-64 * two_over_pi_word(0), FLOAT64.magic)
    minus_n = FLOAT64.magic - shifted
    left = fma(minus_n, first, x)  # exact: a multiple of the last bit of `first`, and below 1
    product = minus_n * second
    error = fma(minus_n, second, -product)
    high, low = two_sum(left, product)
    return high, fma(minus_n, third, low + error), shifted.bitcast(dtypes.int64)


# ---- float64, large arguments: integers

MASK32 = 2**32 - 1
PADDING = 24  # zeros before the first bit of 2/pi, so that x = 2**30 takes its bits from the first word on


def _multiply_by_two_over_pi(x: UOp) -> tuple[UOp, UOp, UOp]:
    """x - n pi/2 in two parts and n, for x >= SUBTRACT_BELOW; NaN for infinity."""
    bits = x.bitcast(dtypes.uint64)
    mantissa = (bits & (2**52 - 1)) | 2**52
    # x = mantissa * 2**(exponent - 1075), so the first bit of 2/pi that counts modulo 4 is number exponent - 1077.
    window = _bits_of_two_over_pi((bits >> 52) - (1077 - PADDING))
    high, low = _product_high(mantissa, *window)
    n = ((high + 2**61) >> 62).bitcast(dtypes.int64)
    # The rest is a signed fraction of 128 bits, which three floats of 44, 42 and 42 bits hold.
    fraction, fraction_low = (high << 2) | (low >> 62), low << 2
    top = fraction.bitcast(dtypes.int64) >> 20
    middle = (((fraction & (2**20 - 1)) << 22) | (fraction_low >> 42)).bitcast(dtypes.int64)
    bottom = (fraction_low & (2**42 - 1)).bitcast(dtypes.int64)
    large = small_int_to_float(FLOAT64, top) * 2.0**-44
    turns, turns_error = two_sum(large, small_int_to_float(FLOAT64, middle) * 2.0**-86)
    turns_rest = fma(small_int_to_float(FLOAT64, bottom), 2.0**-128, turns_error)
    first, second, _ = HALF_PI
    r, error = two_product(turns, x.constant(first))
    rest = fma(turns_rest, first, fma(turns, second, error))
    return r, rest + (x - x), n


def _bits_of_two_over_pi(start: UOp) -> tuple[UOp, UOp, UOp]:
    """192 bits of 2/pi after PADDING zeros, from number `start` (0 to 1023) on, as three words."""
    words = [start.constant(two_over_pi_word(64 * i - PADDING)) for i in range(19)]
    for step in (8, 4, 2, 1):  # words[i] for the words from start // 64 on, by the bits of that number
        is_later = (start & (64 * step)).ne(0)
        count = 3 + step
        words = [is_later.where(later, word) for word, later in zip(words[:count], words[step:], strict=False)]
    left = start & 63
    right = left ^ 63
    first, second, third = ((word << left) | ((after >> 1) >> right) for word, after in pairwise(words))
    return first, second, third


def _product_high(m: UOp, first: UOp, second: UOp, third: UOp) -> tuple[UOp, UOp]:
    """The higher 128 bits of m * (first, second, third) modulo 2**192, up to an error of a few in the last place."""
    m_high, m_low = m >> 32, m & MASK32
    second_high, second_low = second >> 32, second & MASK32
    third_high, third_low = third >> 32, third & MASK32
    # m * second, exactly: 64-bit words from 32-bit halves
    a = m_low * second_high + ((m_low * second_low) >> 32)
    b = m_high * second_low + (a & MASK32)
    carried = m_high * second_high + (a >> 32) + (b >> 32)
    below = m_high * third_high + ((m_high * third_low) >> 32) + ((m_low * third_high) >> 32)
    product = m * second
    low = product + below
    carry = (low < product).where(low.constant(1), 0)
    return m * first + carried + carry, low
