"""The derivatives of the functions in `gamma` and `chebyshev`, as in `derivatives`."""

from __future__ import annotations

import math

from whit.ir.uop import UOp
from whit.tensor.graphs import chebyshev, formulas, gamma
from whit.tensor.graphs.derivatives import slope
from whit.transform import derivative

slope("lgamma")(lambda y, x: gamma.digamma(x))
slope("digamma")(lambda y, x: gamma.polygamma(1, x))
slope("erfc")(lambda y, x: formulas.exp(-(x * x)) * (-2 / math.sqrt(math.pi)))
slope("erfinv")(lambda y, x: formulas.exp(y * y) * (math.sqrt(math.pi) / 2))
slope("bessel_i0")(lambda y, x: chebyshev.bessel_i1(x))
slope("logit")(lambda y, x: (x * (1.0 - x)).reciprocal())


@slope("bessel_i1")
def _bessel_i1(y: UOp, x: UOp) -> UOp:
    """i0(x) - i1(x) / x, and 1/2 at 0."""
    is_zero = x.eq(0.0)
    return is_zero.where(x.constant(0.5), chebyshev.bessel_i0(x) - y / is_zero.where(x.constant(1.0), x))


@derivative("polygamma")
def _polygamma(y: UOp, dy: UOp, x: UOp, order: UOp) -> tuple[UOp | None, ...]:
    """The next order."""
    return dy * gamma.polygamma(int(order.arg) + 1, x), None
