"""exp, log, sigmoid, tanh and erf of float32 and float64, by exp2, log2 and arithmetic so that they stay accurate.

    exp(x)    ->    exp2(h) + exp2(h) * l ln 2      where x/ln 2 = h + l, a rounded product and its error

Goes in: a node of float32 or float64. Comes out: a node of that dtype and shape. A target with an instruction for exp2
uses it. Where a result is rounded to 16 bits anyway, `power` may be `plain_exp`, which is exp2(h) alone, and `divide` a
product with the reciprocal. docs/accuracy.md lists the errors.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import truediv

from whit.codegen.math.parts import fma, polynomial, two_product
from whit.codegen.math.tables import TANH_SPLIT, Coefficients, Format, format_of
from whit.ir import ops
from whit.ir.uop import UOp

Power = Callable[[UOp], UOp]
Divide = Callable[[UOp, UOp], UOp]


def expand_exp(x: UOp) -> UOp:
    """e**x."""
    numbers = format_of("exp", x)
    is_zero = x < _lowest(numbers)
    # Not computed there: a product that underflows takes a processor ten times as long as all the rest, and a mask of
    # attention makes half of the scores -inf. 0.58 -> 0.28 ms for 8 x 4 heads of 64 positions.
    return is_zero.where(0.0, _exp(numbers, is_zero.where(0.0, x), end=float(numbers.dtype.bias + 1)))


def exp_not_above_one(x: UOp) -> UOp:
    """e**x where x is not above 0: the same bits."""
    numbers = format_of("exp", x)
    return _exp(numbers, x.maximum(_lowest(numbers)))


def exp_inside(x: UOp) -> UOp:
    """e**x where that is neither infinite nor less than the smallest number."""
    return _exp(format_of("exp", x), x)


def plain_exp(x: UOp) -> UOp:
    """2**(x/ln 2): e**x but for the error of that product, which is below 2**-17 of the result in float32."""
    return (x * format_of("exp", x).log2_e[0]).exp2()


def _lowest(numbers: Format) -> float:
    """e**x is 0 below."""
    return -(numbers.dtype.bias + numbers.mantissa + 4) * numbers.ln_2[0]


def _exp(numbers: Format, x: UOp, end: float | None = None) -> UOp:
    """e**x where x/ln 2 is finite, and below `end` unless that is given."""
    log2_e, log2_e_rest = numbers.log2_e
    high, error = two_product(x, x.constant(log2_e))
    low = fma(x, log2_e_rest, error)
    if end is not None:  # the result is infinite, and infinity times 0 would be NaN
        low = (high < end).where(low, 1.0)
    power = high.exp2()
    return fma(power, low * numbers.ln_2[0], power)


def expand_log(x: UOp) -> UOp:
    """The natural logarithm."""
    ln_2, ln_2_rest = format_of("log", x).ln_2
    binary = x.log2()
    return fma(binary, ln_2, binary * ln_2_rest)


def expand_sigmoid(x: UOp, power: Power = exp_inside, divide: Divide = truediv) -> UOp:
    """1 / (1 + e**-x), also where e**-x is infinite but the result is not 0."""
    numbers = format_of("sigmoid", x)
    below = power((-abs(_positive(x))).maximum(_lowest(numbers)))
    return divide((x < 0.0).where(below, 1.0), below + 1.0)


def _positive(x: UOp) -> UOp:
    """x of -x, which has the same magnitude: sigmoid(x) and sigmoid(-x) share their power."""
    return x.src[0] if x.op is ops.NEG else x


def expand_tanh(x: UOp, power: Power = exp_inside, divide: Divide = truediv) -> UOp:
    """The hyperbolic tangent.

    1 - 2 / (e**2x + 1) for x > TANH_SPLIT; below, where that would cancel, Lambert's continued fraction
    x / (1 + x**2 / (3 + x**2 / (5 + ...))). One division serves both.
    """
    numbers = format_of("tanh", x)
    magnitude = abs(x).minimum(numbers.tanh_end)
    above = power(magnitude + magnitude)
    square = magnitude * magnitude
    upper, lower = _tanh_fraction(numbers.tanh_depth)
    is_small = magnitude < TANH_SPLIT
    numerator = is_small.where(magnitude * square * polynomial(square, upper), 2.0)
    denominator = is_small.where(polynomial(square, lower), above + 1.0)
    result = is_small.where(magnitude, 1.0) - divide(numerator, denominator)
    signed = (x < 0.0).where(-result, result)
    return (magnitude < 2.0 ** -(numbers.mantissa // 2 + 2)).where(x, signed)  # keeps the sign of zero


def _tanh_fraction(depth: int) -> tuple[Coefficients, Coefficients]:
    """P and Q where tanh(x) = x - x z P(z) / Q(z), z = x**2, from `depth` steps of Lambert's continued fraction.

    With G = 3 + z / (5 + z / (7 + ...)) = A / P: tanh(x) = x G / (G + z), so Q = A + z P. All are integers; they are
    divided by Q(0), which keeps them in range.
    """
    above, below = [2 * depth + 1], [1]
    for odd in range(2 * depth - 1, 1, -2):  # odd + z / (above / below)
        shifted = [0, *below]
        length = max(len(above), len(shifted))
        padded_above, padded_shifted = (c + [0] * (length - len(c)) for c in (above, shifted))
        above, below = [odd * a + b for a, b in zip(padded_above, padded_shifted, strict=True)], above
    shifted = [0, *below]
    length = max(len(above), len(shifted))
    padded_above, padded_shifted = (c + [0] * (length - len(c)) for c in (above, shifted))
    whole = [a + b for a, b in zip(padded_above, padded_shifted, strict=True)]
    return tuple(b / whole[0] for b in below), tuple(q / whole[0] for q in whole)


def expand_erf(x: UOp) -> UOp:
    """The error function.

    x + x P(x**2) up to 1; above, 1 - 2**Q(x), which is 1 less a number so small that its error does not count.
    """
    numbers = format_of("erf", x)
    magnitude = abs(x).minimum(numbers.erf_end)
    small = fma(x, polynomial(x * x, numbers.erf_small), x)
    large = 1.0 - polynomial(magnitude, numbers.erf_large).exp2()
    return (magnitude < 1.0).where(small, (x < 0.0).where(-large, large))
