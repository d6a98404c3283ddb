"""The gamma function's logarithm, and the derivatives of that.

    lgamma(5)  ->  log(24)          polygamma(1, 1)  ->  pi**2 / 6

Goes in: nodes of one float dtype. Comes out: a node of that dtype and shape. All are computed in float64, whatever the
dtype, because a difference of large parts is what remains: rounded to less it is right in nearly all of its digits.
Below 1/2 they are reflected.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from whit.dtype import dtypes
from whit.ir.uop import UOp
from whit.tensor.graphs.formulas import in_float64, log, log1p, named

# (-1)**k (zeta(k) - 1) / k from k = 2 on: the series of lgamma at 2, without its first term
_NEAR_TWO = (
    0.3224670334241132, -0.0673523010531981, 0.020580808427784546, -0.007385551028673986, 0.0028905103307415234,
    -0.001192753911703261, 0.0005096695247430425, -0.00022315475845357939, 9.945751278180853e-05,
    -4.492623673813314e-05, 2.050721277567069e-05, -9.439488275268397e-06, 4.374866789907488e-06,
    -2.039215753801366e-06, 9.55141213040742e-07, -4.492469198764566e-07, 2.1207184805554665e-07,
    -1.0043224823968099e-07, 4.7698101693639804e-08, -2.2711094608943164e-08, 1.0838659214896955e-08,
    -5.183475041970047e-09, 2.4836745438024785e-09, -1.1921401405860912e-09, 5.731367241678862e-10,
)  # fmt: skip
_ONE_LESS_EULER = 0.42278433509846713  # the first term's factor: 1 - Euler's constant
# Bernoulli's numbers of even index, from the second on
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798)
_STIRLING = tuple((b / (2 * k * (2 * k - 1))) for k, b in enumerate(_BERNOULLI, 1))
_DIGAMMA = tuple((b / (2 * k)) for k, b in enumerate(_BERNOULLI, 1))
_SERIES_FROM = 10  # the series in 1/x are right to the last bits from here on
_STEPS_TO_SERIES = 7  # from 2.5 up to there, in whole steps


def polynomial(x: UOp, factors: Sequence[float]) -> UOp:
    """factors[0] + factors[1] x + factors[2] x**2 ..."""
    *lower, highest = factors
    result = x.constant(highest)
    for factor in reversed(lower):
        result = result * x + factor
    return result


def _sine_of_pi(x: UOp) -> tuple[UOp, UOp]:
    """|sin(pi x)|, exactly 0 at integers, and cos(pi x) up to the same sign."""
    angle = (x - x.round()) * math.pi
    return abs(angle.sin()), (x - x.round() < 0.0).where(-angle.cos(), angle.cos())


def _is_pole(x: UOp) -> UOp:
    return (x <= 0.0) & x.eq(x.floor())


@named
@in_float64
def lgamma(x: UOp) -> UOp:
    """log(|gamma(x)|); infinite at the poles and at both ends."""
    sine, _ = _sine_of_pi(x)
    above = _lgamma_above((x < 0.5).where(1.0 - x, x))
    reflected = log(math.pi / sine) - above
    return _is_pole(x).where(math.inf, abs(x).eq(math.inf).where(math.inf, (x < 0.5).where(reflected, above)))


def _lgamma_above(x: UOp) -> UOp:
    """The same from 1/2 on: a series around 1 and 2, what is left of steps down to it, or Stirling's series."""
    far = x.maximum(float(_SERIES_FROM))
    inverse = far.reciprocal()
    series = polynomial(inverse * inverse, _STIRLING) * inverse
    large = (far - 0.5) * (log(far) - 1.0) + (0.5 * math.log(2 * math.pi) - 0.5) + series
    low, product = x, x.constant(1.0)
    for _ in range(_STEPS_TO_SERIES + 1):
        above = low > 2.5
        low = above.where(low - 1.0, low)
        product = above.where(product * low, product)
    from_one = low < 1.5
    z = (low - from_one.where(x.constant(1.0), 2.0)).minimum(1.0)
    small = z * (polynomial(z, _NEAR_TWO) * z + _ONE_LESS_EULER) + log(product)
    small = from_one.where(small - log1p(z), small)
    return (x < float(_SERIES_FROM)).where(small, large)


@named
@in_float64
def digamma(x: UOp) -> UOp:
    """The derivative of lgamma; NaN at the poles but for 0, which has the infinity of its side."""
    sine, cosine = _sine_of_pi(x)
    above = _digamma_above((x < 0.5).where(1.0 - x, x))
    is_pole = _is_pole(x)
    below = above - cosine / is_pole.where(1.0, sine) * math.pi
    result = (x < 0.5).where(below, above)
    at_pole = x.eq(0.0).where(-x.reciprocal(), math.nan)
    return is_pole.where(at_pole, x.eq(-math.inf).where(math.nan, result))


def _digamma_above(x: UOp) -> UOp:
    """The same from 1/2 on."""
    low, total = x, x.constant(0.0)
    for _ in range(_SERIES_FROM):
        below = low < float(_SERIES_FROM)
        total = below.where(total - low.reciprocal(), total)
        low = below.where(low + 1.0, low)
    inverse = low.reciprocal()
    square = inverse * inverse
    return total + log(low) - inverse * 0.5 - square * polynomial(square, _DIGAMMA)


def polygamma(order: int, x: UOp) -> UOp:
    """The derivative of that order of digamma."""
    if order == 0:
        return digamma(x)
    wide = x.cast(dtypes.float64)
    return _polygamma(order, wide).cast(x.dtype).formula("polygamma", x, x.constant(float(order)))


def _polygamma(order: int, x: UOp) -> UOp:
    """(-1)**(n + 1) n! zeta(n + 1, x) from 1/2 on; below, reflected by the derivatives of pi cot(pi x)."""
    sign = 1.0 if order % 2 else -1.0
    above = _hurwitz_zeta(order + 1, (x < 0.5).where(1.0 - x, x)) * (sign * math.factorial(order))
    is_pole = _is_pole(x)
    sine, cosine = _sine_of_pi(x)
    cotangent = cosine / is_pole.where(1.0, sine)
    below = above * (-1.0) ** order - polynomial(cotangent, _cotangent_derivative(order))
    result = (x < 0.5).where(below, above)
    return x.eq(-math.inf).where(math.nan, is_pole.where(sign * math.inf, result))


def _cotangent_derivative(order: int) -> list[float]:
    """The derivative of that order of pi cot(pi x), as factors of the powers of cot(pi x)."""
    factors = [0.0, math.pi]
    for _ in range(order):
        slopes = [k * factor for k, factor in enumerate(factors)][1:]  # times -pi (1 + cot**2)
        factors = [0.0] * (len(slopes) + 2)
        for k, slope in enumerate(slopes):
            factors[k] -= math.pi * slope
            factors[k + 2] -= math.pi * slope
    return factors


def _hurwitz_zeta(s: int, x: UOp) -> UOp:
    """The sum of (x + k)**-s over all k from 0 on: the first ones, and Euler and Maclaurin's series of the rest."""
    exponent = x.constant(float(-s))
    total = x**exponent
    for k in range(1, _SERIES_FROM):
        total = total + (x + float(k)) ** exponent
    far = x + float(_SERIES_FROM)
    last = far**exponent
    total = total + last * far / float(s - 1) + last * 0.5
    inverse = far.reciprocal()
    rising, power = float(s), last * inverse
    for k, bernoulli in enumerate(_BERNOULLI, 1):
        total = total + power * (bernoulli * rising / math.factorial(2 * k))
        rising *= (s + 2 * k - 1) * (s + 2 * k)
        power = power * inverse * inverse
    return x.eq(math.inf).where(0.0, total)


def multivariate_lgamma(x: UOp, p: int) -> UOp:
    """The logarithm of the multivariate gamma function of p dimensions."""
    total = lgamma(x)
    for k in range(1, p):
        total = total + lgamma(x - 0.5 * k)
    return total + 0.25 * p * (p - 1) * math.log(math.pi)
