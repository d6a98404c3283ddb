"""Functions that users call, built of exp2, log2 and arithmetic so that they stay accurate.

    exp(x)    ->    exp2(h) + exp2(h) * l ln 2      where x/ln 2 = h + l, a rounded product and its error

Goes in: a node of any float dtype. Comes out: a node of that dtype and shape. Dtypes smaller than float32 are computed
in float32. Every node has a gradient, so these functions can stand in a tensor graph; where the docstring gives the
gradient, it is shorter and more accurate than what the nodes would give. A target with instructions for exp2 and log2
uses them. docs/accuracy.md lists the errors.
"""

from __future__ import annotations

from collections.abc import Callable

from whit.codegen.math.parts import fma, polynomial, two_product
from whit.codegen.math.tables import SMALL_FLOATS, TANH_SPLIT, Coefficients, Format, format_of
from whit.dtype import dtypes
from whit.ir.uop import UOp


def exp(x: UOp) -> UOp:
    """e**x. Gradient of y = exp(x): y."""
    if x.dtype in SMALL_FLOATS:
        return _in_float32(exp, x)
    numbers = format_of("exp", x)
    end = float(numbers.dtype.bias + 1)
    is_zero = x < -(end + numbers.mantissa + 3) * numbers.ln_2[0]
    # Not computed there: a product that underflows takes a processor ten times as long as all the rest, and a mask of
    # attention makes half of the scores -inf. 0.58 -> 0.28 ms for 8 x 4 heads of 64 positions.
    return is_zero.where(0.0, _exp_above(numbers, is_zero.where(0.0, x), end))


def _exp_above(numbers: Format, x: UOp, end: float | None = None) -> UOp:
    """e**x where x/ln 2 is finite, and below `end` unless that is given."""
    log2_e, log2_e_rest = numbers.log2_e
    high, error = two_product(x, x.constant(log2_e))
    low = fma(x, log2_e_rest, error)
    if end is not None:  # the result is infinite, and infinity times 0 would be NaN
        low = (high < end).where(low, 1.0)
    power = high.exp2()
    return fma(power, low * numbers.ln_2[0], power)


def log(x: UOp) -> UOp:
    """The natural logarithm. Gradient: 1/x."""
    if x.dtype in SMALL_FLOATS:
        return _in_float32(log, x)
    ln_2, ln_2_rest = format_of("log", x).ln_2
    binary = x.log2()
    return fma(binary, ln_2, binary * ln_2_rest)


def sigmoid(x: UOp) -> UOp:
    """1 / (1 + e**-x), also where e**-x is infinite but the result is not 0. Gradient of the result y: y * (1 - y)."""
    if x.dtype in SMALL_FLOATS:
        return _in_float32(sigmoid, x)
    numbers = format_of("sigmoid", x)
    lowest = -(numbers.dtype.bias + numbers.mantissa + 4) * numbers.ln_2[0]
    power = _exp_above(numbers, (-abs(x)).maximum(lowest))
    return (x < 0.0).where(power, 1.0) / (power + 1.0)


def tanh(x: UOp) -> UOp:
    """The hyperbolic tangent. Gradient of y = tanh(x): 1 - y*y.

    1 - 2 / (e**2x + 1) for x > TANH_SPLIT; below, where that would cancel, Lambert's continued fraction
    x / (1 + x**2 / (3 + x**2 / (5 + ...))). One division serves both.
    """
    if x.dtype in SMALL_FLOATS:
        return _in_float32(tanh, x)
    numbers = format_of("tanh", x)
    magnitude = abs(x).minimum(numbers.tanh_end)
    power = _exp_above(numbers, magnitude + magnitude)
    square = magnitude * magnitude
    upper, lower = _tanh_fraction(numbers.tanh_depth)
    is_small = magnitude < TANH_SPLIT
    numerator = is_small.where(magnitude * square * polynomial(square, upper), 2.0)
    denominator = is_small.where(polynomial(square, lower), power + 1.0)
    result = is_small.where(magnitude, 1.0) - numerator / denominator
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


def erf(x: UOp) -> UOp:
    """The error function. Gradient: 2/sqrt(pi) * exp(-x*x).

    x + x P(x**2) up to 1; above, 1 - 2**Q(x), which is 1 less a number so small that its error does not count.
    """
    if x.dtype in SMALL_FLOATS:
        return _in_float32(erf, x)
    numbers = format_of("erf", x)
    magnitude = abs(x).minimum(numbers.erf_end)
    small = fma(x, polynomial(x * x, numbers.erf_small), x)
    large = 1.0 - polynomial(magnitude, numbers.erf_large).exp2()
    return (magnitude < 1.0).where(small, (x < 0.0).where(-large, large))


def _in_float32(function: Callable[[UOp], UOp], x: UOp) -> UOp:
    return function(x.cast(dtypes.float32)).cast(x.dtype)
