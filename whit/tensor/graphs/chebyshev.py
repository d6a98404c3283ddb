"""Functions that are sums of Chebyshev's polynomials: the tail of the error function and its inverse, Bessel functions.

Goes in: nodes of one float dtype. Comes out: a node of that dtype and shape, computed in float64. The factors were
fitted to values of 40 digits; what is left out is less than the last bit of float64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from whit.ir.uop import UOp
from whit.tensor.graphs.formulas import copysign, erf, exp, in_float64, log, named

# log(erfc(z) exp(z**2) / t), t = 2 / (2 + z), for t from 0 to 1
_TAIL = (
    -0.6513268598908547, 0.6419697923564902, 0.019476473204185836, -0.009561514786808632,
    -0.0009465953444820369, 0.00036683949785276145, 4.252332480690777e-05, -2.0278578112534242e-05,
    -1.6242900046470256e-06, 1.3036558355805232e-06, 1.5626441722066142e-08, -8.523809591492654e-08,
    6.5290544390988515e-09, 5.059343495551469e-09, -9.91364156493033e-10, -2.273651222931836e-10,
    9.646791102015527e-11, 2.3940380830391146e-12, -6.886027526497553e-12, 8.944879273090725e-13,
    3.130921399342958e-13, -1.1270822361367252e-13, 3.810905255189232e-16, 7.106097613609237e-15,
    -1.5230282014571043e-15, -9.457494571291233e-17, 1.210237189224279e-16, -2.816663087747177e-17,
)  # fmt: skip
# I0(x) exp(-x), x from 0 to 8; I0(x) exp(-x) sqrt(x), 8 / x from 0 to 1; I1(x) exp(-x) / x and the same for I1
_I0_NEAR = (
    0.33839763720473803, -0.3046826723431984, 0.17162090152220877, -0.09490109704804764, 0.04930528423967071,
    -0.02373741480589947, 0.010546460394594998, -0.004324309995050576, 0.0016394756169413357,
    -0.0005763755745385824, 0.00018850288509584165, -5.754195010082104e-05, 1.6448448070728896e-05,
    -4.4167383584587505e-06, 1.1173875391201037e-06, -2.670793853940612e-07, 6.046995022541919e-08,
    -1.300025009986248e-08, 2.6598237246823866e-09, -5.189795601635263e-10, 9.675809035373237e-11,
    -1.726826291441556e-11, 2.95505266312964e-12, -4.856446783111929e-13, 7.676185498604936e-14,
    -1.1685332877993451e-14, 1.715391285555133e-15, -2.431279846547955e-16,
)  # fmt: skip
_I0_FAR = (
    0.4022452055070544, 0.0033691164782556943, 6.889758346916825e-05, 2.8913705208347567e-06,
    2.0489185894690638e-07, 2.266668990498178e-08, 3.3962320257083865e-09, 4.94060238822497e-10,
    1.1889147107846439e-11, -3.1499165279632416e-11, -1.3215811840447713e-11, -1.7941785315068062e-12,
    7.180124451383666e-13, 3.8527783827421426e-13, 1.54008621752141e-14, -4.150569347287222e-14,
    -9.554846698828307e-15, 3.8116806693526224e-15, 1.7725601330565263e-15, -3.425485619677219e-16,
    -2.8276239805165836e-16, 3.461222867697461e-17,
)  # fmt: skip
_I1_NEAR = (
    0.12629359322181682, -0.17641651835783406, 0.1026436586898471, -0.05294598120809499, 0.024726449030626516,
    -0.010564084894626197, 0.004156422944312888, -0.0015135724506312532, 0.0005122859561685758,
    -0.00016176081582589674, 4.781565107550054e-05, -1.3273163656039436e-05, 3.4702513081376785e-06,
    -8.568720264695455e-07, 2.0032947535521353e-07, -4.445059128796328e-08, 9.381537386495773e-09,
    -1.8872497517228294e-09, 3.625590281552117e-10, -6.663489723502027e-11, 1.1736186298890901e-11,
    -1.9839743977649436e-12, 3.223793365945575e-13, -5.042185504727912e-14, 7.600684294735408e-15,
    -1.1055969477353862e-15, 1.5536319577362005e-16,
)  # fmt: skip
_I1_FAR = (
    0.38928811750914005, -0.009761097491361469, -0.00011058893876262371, -3.882564808877691e-06,
    -2.512236237870209e-07, -2.6314688468895196e-08, -3.835380385964237e-09, -5.589743462196584e-10,
    -1.8974958123505413e-11, 3.2526035830154884e-11, 1.4125807436613782e-11, 2.0356285441470896e-12,
    -7.198551776245908e-13, -4.0835511110921974e-13, -2.1015418427726643e-14, 4.272440016711951e-14,
    1.0420276984128802e-14, -3.8144030724370075e-15, -1.8803547755107825e-15, 3.3082023109209285e-16,
    2.96262899764595e-16, -3.209525921993424e-17,
)  # fmt: skip
_NEWTON_STEPS = 3  # Halley's steps after a guess that is right in 2 digits


def _chebyshev(u: UOp, factors: Sequence[float]) -> UOp:
    """factors[0] + factors[1] T1(u) + factors[2] T2(u) ..., u from -1 to 1: Clenshaw's recurrence."""
    first, *others = factors
    twice = u * 2.0
    ahead, result = u.constant(0.0), u.constant(0.0)
    for factor in reversed(others):
        ahead, result = result, twice * result - ahead + factor
    return u * result - ahead + first


@named
@in_float64
def erfc(x: UOp) -> UOp:
    """1 - erf(x), to the last digits where that is small."""
    z = abs(x).minimum(30.0)
    t = 2.0 / (z + 2.0)
    square = z * z
    lost = z.fma(z, -square)
    tail = t * exp(_chebyshev(t * 2.0 - 1.0, _TAIL) - lost) * exp(-square)
    result = (z < 0.5).where(1.0 - erf(z), tail)
    return x.ne(x).where(x, (x < 0.0).where(2.0 - result, result))


@named
@in_float64
def erfinv(x: UOp) -> UOp:
    """y of erf(y) = x; infinite at the ends, NaN beyond."""
    size = abs(x)
    inside = size.minimum(1.0 - 2.0**-53)
    # Winitzki's approximation, then steps toward the root: of erf near 0, of erfc near 1, where each is exact
    logarithm = log((1.0 - inside) * (inside + 1.0))
    half = logarithm * 0.5 + 2 / (math.pi * 0.147)
    y = ((half * half - logarithm * (1 / 0.147)).sqrt() - half).maximum(0.0).sqrt()
    for _ in range(_NEWTON_STEPS):
        away = (inside < 0.5).where(erf(y) - inside, (1.0 - inside) - erfc(y))
        step = away * exp(y * y) * (math.sqrt(math.pi) / 2)
        y = y - step / (y * step + 1.0)
    signed = copysign(y, x)
    ends = size.eq(1.0).where(copysign(x.constant(math.inf), x), math.nan)
    return (size < 1.0).where(x.eq(0.0).where(x, signed), ends)


def _bessel(x: UOp, near: Sequence[float], far: Sequence[float]) -> tuple[UOp, UOp, UOp]:
    """The sums for |x| below 8 and above, and |x|."""
    size = abs(x)
    close = _chebyshev(size.minimum(8.0) * 0.25 - 1.0, near)
    distant = _chebyshev(16.0 / size.maximum(8.0) - 1.0, far) / size.maximum(8.0).sqrt()
    return close, distant, size


@named
@in_float64
def bessel_i0(x: UOp) -> UOp:
    """The modified Bessel function of order 0."""
    near, far, size = _bessel(x, _I0_NEAR, _I0_FAR)
    return _grown((size < 8.0).where(near, far), size)


@named
@in_float64
def bessel_i1(x: UOp) -> UOp:
    """The modified Bessel function of order 1."""
    near, far, size = _bessel(x, _I1_NEAR, _I1_FAR)
    return copysign(_grown((size < 8.0).where(near * size, far), size), x)


def _grown(scaled: UOp, size: UOp) -> UOp:
    """scaled * exp(size), which may be finite where the exponential alone is not."""
    half = exp(size * 0.5)
    return (size < 800.0).where(scaled * half * half, size.ne(size).where(size, math.inf))
