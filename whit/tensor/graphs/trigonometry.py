"""Angles and hyperbolic functions, in terms of sines, exponentials and logarithms.

    asinh(x)  ->  log1p(|x| + x*x / (1 + sqrt(x*x + 1))), with the sign of x

Goes in: nodes of one float dtype. Comes out: a node of that dtype and shape, a few ulps from the truth everywhere
(docs/accuracy.md): no overflow before the result's own, nothing lost near zero. Dtypes smaller than float32 are
computed in float32. Every step has a gradient.
"""

from __future__ import annotations

import math

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.uop import UOp
from whit.tensor.graphs.formulas import copysign, exp, expm1, is_negative, log, log1p, named, widened


@named
@widened
def tan(x: UOp) -> UOp:
    """Tangent."""
    return x.sin() / x.cos()


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


@named
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


@named
@widened
def atan2(y: UOp, x: UOp) -> UOp:
    """The angle of the point (x, y), in [-pi, pi]; the signs of zeros count, and infinities are equally far."""
    a, b = abs(x), abs(y)
    large, small = a.maximum(b), a.minimum(b)
    ratio = large.eq(0.0).where(large, small.eq(math.inf).where(x.constant(1.0), small / large))
    angle = atan(ratio)
    angle = (b > a).where(math.pi / 2 - angle, angle)
    angle = is_negative(x).where(math.pi - angle, angle)
    return copysign(angle, y)


@named
@widened
def sinc(x: UOp) -> UOp:
    """sin(pi x) / (pi x), 1 at 0 and 0 at every other integer."""
    whole = x.round()
    sine = ((x - whole) * math.pi).sin()
    half = whole * 0.5
    signed = half.floor().eq(half).where(sine, -sine)
    return x.eq(0.0).where(x.constant(1.0), signed / (x * math.pi))


@named
@widened
def asin(x: UOp) -> UOp:
    """The angle in [-pi/2, pi/2] whose sine is x; NaN outside of [-1, 1]."""
    return atan(x / ((1.0 - x) * (x + 1.0)).sqrt())


@named
@widened
def acos(x: UOp) -> UOp:
    """The angle in [0, pi] whose cosine is x; NaN outside of [-1, 1]."""
    return atan(((1.0 - x) / (x + 1.0)).sqrt()) * 2.0


@named
@widened
def sinh(x: UOp) -> UOp:
    """(e**x - e**-x) / 2."""
    small = expm1(abs(x))
    near = (small + small / (small + 1.0)) * 0.5
    half = exp(abs(x) * 0.5)
    far = half * 0.5 * half  # e**x itself would overflow before the result does
    return copysign((abs(x) < 20.0).where(near, far), x)


@named
@widened
def cosh(x: UOp) -> UOp:
    """(e**x + e**-x) / 2."""
    half = exp(abs(x) * 0.5)
    return half * 0.5 * half + 0.5 / half / half


def tanh(x: UOp) -> UOp:
    """Hyperbolic tangent."""
    return x.alu(ops.TANH)


_HUGE = 2.0**28  # from here on sqrt(x*x + 1) is x in float64, and in float32 x*x is far from overflow below


@named
@widened
def asinh(x: UOp) -> UOp:
    """The inverse of sinh."""
    a = abs(x)
    inside = (a < _HUGE).where(a, 1.0)
    near = log1p(inside + inside * inside / ((inside * inside + 1.0).sqrt() + 1.0))
    return copysign((a < _HUGE).where(near, log(a) + math.log(2)), x)


@named
@widened
def acosh(x: UOp) -> UOp:
    """The inverse of cosh; NaN below 1."""
    t = (x < _HUGE).where(x - 1.0, 1.0)
    result = (x < _HUGE).where(log1p(t + (t * (t + 2.0)).sqrt()), log(x) + math.log(2))
    return (x < 1.0).where(x.constant(math.nan), result)


@named
@widened
def atanh(x: UOp) -> UOp:
    """The inverse of tanh; infinite at -1 and 1, NaN outside."""
    a = abs(x)
    result = copysign(log1p(a * 2.0 / (1.0 - a)) * 0.5, x)
    return (a <= 1.0).where(result, math.nan)
