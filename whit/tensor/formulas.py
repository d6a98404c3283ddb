"""Functions of nodes in terms of the ops that the table has: float arithmetic that is more than one op.

    softplus(x)  ->  max(x, 0) + log1p(exp(-|x|))

Goes in: nodes of one float dtype. Comes out: a node of that dtype and shape. Where a formula has several steps, dtypes
smaller than float32 are computed in float32 and rounded once, at the end (`widened`). Exp, log, sigmoid, tanh and
erf are those of `whit.codegen.math`, which are accurate to a few units in the last place. Every step has a gradient.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from types import ModuleType

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.uop import UOp

Formula = Callable[..., UOp]


@functools.cache
def accurate() -> ModuleType:
    """The functions of `whit.codegen.math`."""
    from whit.codegen import math as functions  # lazy: `import whit` loads no code generator

    return functions


def widened(formula: Formula) -> Formula:
    """The formula, computed in float32 where the dtype is smaller."""

    @functools.wraps(formula)
    def compute(*operands: UOp) -> UOp:
        dtype = operands[0].dtype
        if dtype.itemsize >= 4:
            return formula(*operands)
        return formula(*(operand.cast(dtypes.float32) for operand in operands)).cast(dtype)

    return compute


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
    """x in a dtype that has the constant infinity: fp8 saturates."""
    return x.cast(dtypes.float32) if x.dtype.saturates else x


def is_negative(x: UOp) -> UOp:
    """The sign bit, which -0.0 and NaNs have too."""
    return x.bitcast(_INTEGERS[x.dtype.itemsize]) < 0


_INTEGERS = {1: dtypes.int8, 2: dtypes.int16, 4: dtypes.int32, 8: dtypes.int64}


def copysign(x: UOp, y: UOp) -> UOp:
    """The magnitude of x with the sign of y."""
    return is_negative(y).where(-abs(x), abs(x))


def sign(x: UOp) -> UOp:
    """-1, 0 or 1; NaN of NaN."""
    below = (x < 0).where(x.constant(-1), 0) if not x.dtype.is_unsigned else x.constant(0)
    result = (x > 0).where(x.constant(1), below)
    return isnan(x).where(x, result) if x.dtype.is_float else result


# ---- division with a remainder


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


@widened
def floor_modulo(x: UOp, y: UOp) -> UOp:
    """x - floor(x / y) * y, with the sign of y."""
    remainder = truncating_modulo(x, y)
    other_side = remainder.ne(0.0) & ((remainder < 0.0) ^ (y < 0.0))
    result = other_side.where(remainder + y, remainder)
    return result.eq(0.0).where(copysign(result, y), result)


@widened
def floor_divide(x: UOp, y: UOp) -> UOp:
    """The largest integer at most x / y: 0.3 // 0.1 is 2, though 0.3 / 0.1 rounds to 3."""
    whole = ((x - floor_modulo(x, y)) / y).round()
    return y.eq(0.0).where(x / y, whole.eq(0.0).where(copysign(whole, x / y), whole))


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
    return accurate().exp(x)  # type: ignore[no-any-return]


def log(x: UOp) -> UOp:
    """The natural logarithm."""
    return accurate().log(x)  # type: ignore[no-any-return]


@widened
def log10(x: UOp) -> UOp:
    """The logarithm to base 10."""
    return x.log2() * math.log10(2)


@widened
def expm1(x: UOp) -> UOp:
    """e ** x - 1, also where x is small. Kahan: the error of u = exp(x) is divided out by x / log(u)."""
    u = exp(x)
    below = u - 1.0
    middle = below * x / log(u)
    return u.eq(1.0).where(x, (u < math.inf).where((u > 2.0**-60).where(middle, below), u))


@widened
def log1p(x: UOp) -> UOp:
    """log(1 + x), also where x is small: the error of u = 1 + x is divided out by x / (u - 1)."""
    u = x + 1.0
    return u.eq(1.0).where(x, (abs(u) < math.inf).where((u > 0.0).where(log(u) * x / (u - 1.0), log(u)), u))


@widened
def logaddexp(x: UOp, y: UOp) -> UOp:
    """log(exp(x) + exp(y)) without overflow."""
    high = x.maximum(y)
    return (abs(high) < math.inf).where(high + log1p(exp(-abs(x - y))), high)


# ---- trigonometry


@widened
def cos(x: UOp) -> UOp:
    """Cosine: 1 - 2 sin(x/2)**2, since x/2 is exact and the sine right for arguments of any size."""
    half = (x * 0.5).sin()
    return 1.0 - half * half * 2.0


@widened
def tan(x: UOp) -> UOp:
    """Tangent."""
    return x.sin() / cos(x)


def _horner(z: UOp, coefficients: tuple[float, ...]) -> UOp:
    """c0 + c1 z + c2 z**2 + ..."""
    result = z.constant(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        result = result.fma(z, z.constant(c)) if result.op is not ops.CONST else (z * result.arg) + c
    return result


# atan(x)/x in powers of x**2 for |x| <= tan(pi/8): Taylor's series, which needs 16 terms for float64 and 8 for float32
# there, because tan(pi/8)**2 is 0.17.
_ATAN = tuple((-1) ** k / (2 * k + 1) for k in range(21))
_TAN_EIGHTH = math.sqrt(2) - 1


@widened
def atan(x: UOp) -> UOp:
    """The angle whose tangent is x: pi/4 + atan((x - 1)/(x + 1)) and pi/2 - atan(1/x) bring |x| below tan(pi/8)."""
    terms = _ATAN if x.dtype is dtypes.float64 else _ATAN[:10]
    magnitude = abs(x)
    is_large, is_middle = magnitude > 1 / _TAN_EIGHTH, magnitude > _TAN_EIGHTH
    upper = is_large.where(x.constant(-1.0), is_middle.where(magnitude - 1.0, magnitude))
    lower = is_large.where(magnitude, is_middle.where(magnitude + 1.0, 1.0))
    small = upper / lower
    offset = is_large.where(x.constant(math.pi / 2), is_middle.where(x.constant(math.pi / 4), 0.0))
    return copysign(offset + small * _horner(small * small, terms), x)


@widened
def asin(x: UOp) -> UOp:
    """The angle in [-pi/2, pi/2] whose sine is x; NaN outside of [-1, 1]."""
    return atan(x / ((1.0 - x) * (x + 1.0)).sqrt())


@widened
def acos(x: UOp) -> UOp:
    """The angle in [0, pi] whose cosine is x; NaN outside of [-1, 1]."""
    return atan(((1.0 - x) / (x + 1.0)).sqrt()) * 2.0


@widened
def sinh(x: UOp) -> UOp:
    """(e**x - e**-x) / 2."""
    small = expm1(abs(x))
    near = (small + small / (small + 1.0)) * 0.5
    half = exp(abs(x) * 0.5)
    far = half * 0.5 * half  # e**x itself would overflow before the result does
    return copysign((abs(x) < 20.0).where(near, far), x)


@widened
def cosh(x: UOp) -> UOp:
    """(e**x + e**-x) / 2."""
    half = exp(abs(x) * 0.5)
    return half * 0.5 * half + 0.5 / half / half


@widened
def tanh(x: UOp) -> UOp:
    """Hyperbolic tangent."""
    return accurate().tanh(x)  # type: ignore[no-any-return]


_HUGE = 2.0**28  # from here on sqrt(x*x + 1) is x in float64, and in float32 x*x is far from overflow below


@widened
def asinh(x: UOp) -> UOp:
    """The inverse of sinh."""
    a = abs(x)
    inside = (a < _HUGE).where(a, 1.0)
    near = log1p(inside + inside * inside / ((inside * inside + 1.0).sqrt() + 1.0))
    return copysign((a < _HUGE).where(near, log(a) + math.log(2)), x)


@widened
def acosh(x: UOp) -> UOp:
    """The inverse of cosh; NaN below 1."""
    t = (x < _HUGE).where(x - 1.0, 1.0)
    result = (x < _HUGE).where(log1p(t + (t * (t + 2.0)).sqrt()), log(x) + math.log(2))
    return (x < 1.0).where(x.constant(math.nan), result)


@widened
def atanh(x: UOp) -> UOp:
    """The inverse of tanh; infinite at -1 and 1, NaN outside."""
    a = abs(x)
    return copysign(log1p(a * 2.0 / (1.0 - a)) * 0.5, x)


def erf(x: UOp) -> UOp:
    """The error function."""
    return accurate().erf(x)  # type: ignore[no-any-return]


# ---- activations


def sigmoid(x: UOp) -> UOp:
    """1 / (1 + e**-x)."""
    return accurate().sigmoid(x)  # type: ignore[no-any-return]


@widened
def softplus(x: UOp) -> UOp:
    """log(1 + e**x), without overflow."""
    return x.maximum(0.0) + log1p(exp(-abs(x)))


@widened
def gelu(x: UOp) -> UOp:
    """x * P(N(0, 1) < x)."""
    return x * 0.5 * (erf(x * math.sqrt(0.5)) + 1.0)


@widened
def gelu_tanh(x: UOp) -> UOp:
    """The same with the usual approximation, (1 + tanh(u)) / 2 written as sigmoid(2u)."""
    inner = x * (x * x * 0.044715 + 1.0) * (2.0 * math.sqrt(2 / math.pi))
    return x * sigmoid(inner)
