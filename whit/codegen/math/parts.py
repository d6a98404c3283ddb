"""What `expand` and its neighbours share: polynomials, exact sums, floats taken apart by their bits."""

from __future__ import annotations

from whit.codegen.math.tables import Coefficients, Format
from whit.ir.uop import UOp

HORNER_LIMIT = 10  # coefficients; a longer chain is split in two, because each step waits for the one before


def fma(x: UOp, y: UOp | float, z: UOp | float) -> UOp:
    """x * y + z rounded once, with numbers as constants of x's dtype."""
    factor = y if isinstance(y, UOp) else x.constant(y)
    addend = z if isinstance(z, UOp) else x.constant(z)
    return x.fma(factor, addend)


def polynomial(x: UOp, coefficients: Coefficients) -> UOp:
    """c0 + c1 x + c2 x**2 + ...; a long one as c0 + x (even(x**2) + x odd(x**2)), adding c0 last."""
    first, *rest = coefficients
    if len(coefficients) > HORNER_LIMIT:
        square = x * x
        even, odd = polynomial(square, tuple(rest[::2])), polynomial(square, tuple(rest[1::2]))
        return fma(x, fma(x, odd, even), first)
    result = x.constant(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        result = fma(x, result, c)
    return result


def two_sum(large: UOp, small: UOp) -> tuple[UOp, UOp]:
    """large + small as a rounded sum and its error, exactly; needs |large| >= |small| or large = 0."""
    total = large + small
    return total, (large - total) + small


def two_product(x: UOp, y: UOp) -> tuple[UOp, UOp]:
    """x * y as a rounded product and its error, exactly."""
    product = x * y
    return product, fma(x, y, -product)


def small_int_to_float(numbers: Format, i: UOp) -> UOp:
    """An integer below 2**(mantissa - 1) in magnitude as a float: cheaper than a cast of int64."""
    return _add_to_magic(numbers, i) - numbers.magic


def _add_to_magic(numbers: Format, i: UOp) -> UOp:
    """i + magic as a float: the integer goes into the last bits."""
    return (i + numbers.bits(numbers.magic)).bitcast(numbers.dtype)


def split_exponent(numbers: Format, x: UOp, low: float) -> tuple[UOp, UOp]:
    """k and m where x = 2**k m and low <= m < 2 low, for finite x above 0; anything for other x."""
    mantissa, magic = numbers.mantissa, numbers.magic
    lift = mantissa + 1  # makes every subnormal number normal
    is_subnormal = x < 2.0 ** (1 - numbers.dtype.bias)
    bits = is_subnormal.where(x * 2.0**lift, x).bitcast(numbers.integer)
    k = (bits - numbers.bits(low)) >> mantissa
    m = (bits - (k << mantissa)).bitcast(numbers.dtype)
    return _add_to_magic(numbers, k) - is_subnormal.where(x.constant(magic + lift), magic), m


def scale_by_rounded(numbers: Format, factor: UOp, x: UOp, shifted: UOp) -> UOp:
    """factor * 2**n, rounded once, where n is x rounded to an integer and shifted is x + magic.

    2**n itself may be too large or too small for a float, so it is multiplied in two steps: 2**(n +- half_range), which
    is exact, and the rest. For |n| <= 3 half_range - 2.
    """
    bias, mantissa, half = numbers.dtype.bias, numbers.mantissa, numbers.half_range
    is_small = x < 0.0
    integer = shifted.bitcast(numbers.integer)
    toward_one = is_small.where(integer.constant((bias + half) << mantissa), (bias - half) << mantissa)
    first = ((integer << mantissa) + toward_one).bitcast(numbers.dtype)
    return factor * first * is_small.where(x.constant(2.0**-half), 2.0**half)
