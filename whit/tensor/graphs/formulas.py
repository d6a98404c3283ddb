"""Functions of nodes in terms of the ops that the table has: float arithmetic that is more than one op.

    softplus(x)  ->  max(x, 0) + log1p(exp(-|x|))

Goes in: nodes of one float dtype. Comes out: a node of that dtype and shape. Where a formula has several steps, dtypes
smaller than float32 are computed in float32 and rounded once, at the end (`widened`). docs/accuracy.md lists the
errors. Every step has a gradient.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.uop import UOp

Formula = Callable[..., UOp]


def widened(formula: Formula) -> Formula:
    """The formula, computed in float32 where the dtype is smaller."""

    @functools.wraps(formula)
    def compute(*operands: UOp) -> UOp:
        dtype = operands[0].dtype
        if dtype.itemsize >= 4:
            return formula(*operands)
        return formula(*(operand.cast(dtypes.float32) for operand in operands)).cast(dtype)

    return compute


def in_float64(formula: Formula) -> Formula:
    """The formula, computed in float64 whatever the dtype, and rounded once."""

    @functools.wraps(formula)
    def compute(*operands: UOp) -> UOp:
        dtype = operands[0].dtype
        return formula(*(operand.cast(dtypes.float64) for operand in operands)).cast(dtype)

    return compute


def named(formula: Formula) -> Formula:
    """The formula, whose results are known by its name: their gradient is that of the function (`derivatives`)."""

    @functools.wraps(formula)
    def compute(*operands: UOp) -> UOp:
        return formula(*operands).formula(formula.__name__, *operands)

    return compute


# ---- corners: one op or two, but each with the gradient there that its name has elsewhere (docs/gradients.md)


@named
def relu(x: UOp) -> UOp:
    """max(x, 0)."""
    return x.maximum(0.0)


@named
def at_least(x: UOp, low: UOp) -> UOp:
    """max(x, low): x where they are equal."""
    return x.maximum(low)


@named
def at_most(x: UOp, high: UOp) -> UOp:
    """min(x, high): x where they are equal."""
    return x.minimum(high)


def between(x: UOp, low: float, high: float) -> UOp:
    """x, but constant at the bounds already."""
    return saturated(x, x.constant(low), x.constant(high))


@named
def saturated(x: UOp, low: UOp, high: UOp) -> UOp:
    """The same; the bounds are numbers."""
    return x.maximum(low).minimum(high)


# ---- questions and signs


def isnan(x: UOp) -> UOp:
    """Whether x is no number."""
    return x.ne(x)


def isfinite(x: UOp) -> UOp:
    """Neither infinite nor NaN."""
    return abs(_with_infinity(x)) < math.inf


def isinf(x: UOp, detect_positive: bool = True, detect_negative: bool = True) -> UOp:
    """Whether x is infinite, of either sign or of one."""
    x = _with_infinity(x)
    if detect_positive and detect_negative:
        x = abs(x)
    return x.eq(math.inf if detect_positive else -math.inf)


def _with_infinity(x: UOp) -> UOp:
    """x in a dtype that has the constant infinity: most of fp8 saturates."""
    return x.cast(dtypes.float32) if x.dtype.saturates else x


def is_negative(x: UOp) -> UOp:
    """The sign bit, which -0.0 and NaNs have too."""
    return x.bitcast(_INTEGERS[x.dtype.itemsize]) < 0


_INTEGERS = {1: dtypes.int8, 2: dtypes.int16, 4: dtypes.int32, 8: dtypes.int64}


@named
def copysign(x: UOp, y: UOp) -> UOp:
    """The magnitude of x with the sign of y."""
    return is_negative(y).where(-abs(x), abs(x))


def sign(x: UOp) -> UOp:
    """-1, 0 or 1; NaN of NaN."""
    below = (x < 0).where(x.constant(-1), 0) if not x.dtype.is_unsigned else x.constant(0)
    result = (x > 0).where(x.constant(1), below)
    return isnan(x).where(x, result) if x.dtype.is_float else result


# ---- division with a remainder


@named
@widened
def truncating_modulo(x: UOp, y: UOp) -> UOp:
    """x - trunc(x / y) * y, exact up to quotients of 2**mantissa_bits; the sign of x.

    A quotient that was rounded up to the next integer shows in a remainder of the wrong sign, and is corrected.
    """
    quotient = (x / y).trunc()
    remainder = (-quotient).fma(y, x)
    wrong = remainder.ne(0.0) & ((remainder < 0.0) ^ (x < 0.0))
    corrected = wrong.where(remainder + copysign(y, x), remainder)
    signed = corrected.eq(0.0).where(copysign(corrected, x), corrected)
    return (abs(y).eq(math.inf) & isfinite(x)).where(x, signed)


@named
@widened
def floor_modulo(x: UOp, y: UOp) -> UOp:
    """x - floor(x / y) * y, with the sign of y."""
    remainder = truncating_modulo(x, y)
    other_side = remainder.ne(0.0) & ((remainder < 0.0) ^ (y < 0.0))
    result = other_side.where(remainder + y, remainder)
    return result.eq(0.0).where(copysign(result, y), result)


@named
@widened
def floor_divide(x: UOp, y: UOp) -> UOp:
    """The largest integer at most x / y: 0.3 // 0.1 is 2, though 0.3 / 0.1 rounds to 3. What is infinite, or divided by
    something infinite, is the quotient itself (Array API)."""
    quotient = x / y
    whole = ((x - floor_modulo(x, y)) / y).round()
    is_infinite = abs(quotient).eq(math.inf) | abs(y).eq(math.inf)
    return is_infinite.where(quotient, whole.eq(0.0).where(copysign(whole, quotient), whole))


# ---- powers


def power(x: UOp, y: UOp) -> UOp:
    """x ** y of floats; squares, cubes, square roots and reciprocals by their own ops."""
    if x.op is ops.CONST and x.arg == 2.0:
        return y.exp2()
    if y.op is not ops.CONST:
        return x**y
    exponent = y.arg
    if exponent == 1.0:
        return x
    if exponent == 2.0:
        return x * x
    if exponent == 3.0:
        return x * x * x
    if exponent == 0.5:
        return x.sqrt()
    if exponent == -1.0:
        return x.reciprocal()
    return x**y


def integer_power(x: UOp, y: UOp) -> UOp:
    """x ** y of integers by repeated squaring; it wraps. Negative exponents give 1/x rounded toward zero."""
    if y.op is ops.CONST:
        return _constant_power(x, y.arg)
    result, square = x.constant(1), x
    for bit in range(y.dtype.bitsize - (not y.dtype.is_unsigned)):
        result = (y & (1 << bit)).ne(0).where(result * square, result)
        square = square * square
    if y.dtype.is_unsigned:
        return result
    parity = (y & 1).ne(0).where(x, x.constant(1))
    unit = x.eq(1) | x.eq(-1)
    return (y < 0).where(unit.where(parity, 0), result)


def _constant_power(x: UOp, exponent: int) -> UOp:
    if exponent == 0:
        return x.constant(1).reshape((1,) * len(x.shape)).expand(x.shape)
    result, square = x.constant(1), x
    while exponent:
        if exponent & 1:
            result = square if result.op is ops.CONST else result * square
        exponent >>= 1
        if exponent:
            square = square * square
    return result


# ---- exponentials and logarithms


def exp(x: UOp) -> UOp:
    """e ** x."""
    return x.alu(ops.EXP)


def log(x: UOp) -> UOp:
    """The natural logarithm."""
    return x.alu(ops.LOG)


# log10(2) rounded down to each dtype, and the rest: above zero, so that infinities do not cancel
_LOG10_2 = {
    dtypes.float32: (0.3010299801826477, 1.548133349014752e-08),
    dtypes.float64: (0.30102999566398114, 5.2719330637107653e-17),
}


@named
@widened
def log10(x: UOp) -> UOp:
    """The logarithm to base 10."""
    binary = x.log2()
    high, low = _LOG10_2[x.dtype]
    return binary.fma(x.constant(high), binary * low)


@named
@widened
def expm1(x: UOp) -> UOp:
    """e ** x - 1, also where x is small. Kahan: the error of u = exp(x) is divided out by x / log(u)."""
    u = exp(x)
    below = u - 1.0
    middle = below * (x / log(u))
    return u.eq(1.0).where(x, (u < math.inf).where((u > 2.0**-60).where(middle, below), u))


@named
@widened
def log1p(x: UOp) -> UOp:
    """log(1 + x), also where x is small: the error of u = 1 + x is divided out by x / (u - 1)."""
    u = x + 1.0
    inside = (u > 0.0) & (u < math.inf)
    return u.eq(1.0).where(x, inside.where(log(u) * (x / (u - 1.0)), log(u)))


@named
@widened
def logaddexp(x: UOp, y: UOp) -> UOp:
    """log(exp(x) + exp(y)) without overflow."""
    high = x.maximum(y)
    return (abs(high) < math.inf).where(high + log1p(exp(-abs(x - y))), high)


@named
@widened
def logaddexp2(x: UOp, y: UOp) -> UOp:
    """log2(2**x + 2**y) without overflow."""
    high = x.maximum(y)
    return (abs(high) < math.inf).where(high + log1p((-abs(x - y)).exp2()) * (1 / math.log(2)), high)


@named
@widened
def logit(x: UOp) -> UOp:
    """log(x / (1 - x)); around 1/2, where it is small, of the distance from there."""
    away = x - 0.5
    near = (abs(away) < 0.25).where(away, 0.0)
    middle = log1p(near * 4.0 / (1.0 - near * 2.0))
    return (abs(away) < 0.25).where(middle, log(x / (1.0 - x)))


def erf(x: UOp) -> UOp:
    """The error function."""
    return x.alu(ops.ERF)


def sigmoid(x: UOp) -> UOp:
    """1 / (1 + e**-x)."""
    return x.alu(ops.SIGMOID)


@named
@widened
def softplus(x: UOp) -> UOp:
    """log(1 + e**x), without overflow."""
    return x.maximum(0.0) + log1p(exp(-abs(x)))


LOWEST = -1e4  # e**x is 0 from here down, in every dtype


def gated(gate: Formula) -> Formula:
    """x * gate(x), where the gate goes to 0 faster than x to -infinity: 0 there, not NaN."""

    def formula(x: UOp) -> UOp:
        bounded = x.maximum(LOWEST)
        return bounded * gate(bounded)

    return widened(formula)


@named
def silu(x: UOp) -> UOp:
    """x * sigmoid(x)."""
    return gated(sigmoid)(x)


@named
def gelu(x: UOp) -> UOp:
    """x * P(N(0, 1) < x)."""
    return gated(lambda x: (erf(x * math.sqrt(0.5)) + 1.0) * 0.5)(x)


@named
def gelu_tanh(x: UOp) -> UOp:
    """The same with the usual approximation, (1 + tanh(u)) / 2 written as sigmoid(2u)."""
    return gated(lambda x: sigmoid(x * (x * x * 0.044715 + 1.0) * (2.0 * math.sqrt(2 / math.pi))))(x)


@named
@widened
def xlogy(x: UOp, y: UOp) -> UOp:
    """x * log(y), and 0 where x is, unless y is NaN."""
    return (x.eq(0.0) & y.eq(y)).where(x.constant(0.0), x * log(y))


@named
@widened
def xlog1py(x: UOp, y: UOp) -> UOp:
    """x * log(1 + y), and 0 where x is, unless y is NaN."""
    return (x.eq(0.0) & y.eq(y)).where(x.constant(0.0), x * log1p(y))


@named
@widened
def times_log(x: UOp, logarithm: UOp) -> UOp:
    """x * logarithm, and 0 where x is, unless the logarithm is NaN."""
    return (x.eq(0.0) & logarithm.eq(logarithm)).where(x.constant(0.0), x * logarithm)


@named
@widened
def crossentropy_logits(x: UOp, y: UOp) -> UOp:
    """softplus(x) - x * y: minus the logarithm of the probability of a label y, 0 to 1, of which x is the logit."""
    share = (x > 0.0).where(1.0 - y, -y)
    return share.eq(0.0).where(share, x * share) + log1p(exp(-abs(x)))


@named
@widened
def crossentropy(p: UOp, y: UOp) -> UOp:
    """-(y log p + (1 - y) log(1 - p)), no logarithm being below -100."""
    return -(y * log(p).maximum(-100.0) + (1.0 - y) * log1p(-p).maximum(-100.0))


# ---- roots


@named
@widened
def cbrt(x: UOp) -> UOp:
    """The cube root, also of negative numbers: a power, and Newton's step for what 1/3 has lost by rounding."""
    magnitude = abs(x)
    root = magnitude ** x.constant(1 / 3)
    better = root - (root - magnitude / (root * root)) * (1 / 3)
    return (x.eq(0.0) | ~isfinite(x)).where(x, copysign(better, x))


@named
@widened
def hypot(x: UOp, y: UOp) -> UOp:
    """sqrt(x*x + y*y) without overflow; infinite if either is, even beside NaN."""
    a, b = abs(x), abs(y)
    large, small = a.maximum(b), a.minimum(b)
    ratio = large.eq(0.0).where(small, small / large)
    result = large * (ratio.fma(ratio, x.constant(1.0))).sqrt()
    return (a.eq(math.inf) | b.eq(math.inf)).where(x.constant(math.inf), result)
