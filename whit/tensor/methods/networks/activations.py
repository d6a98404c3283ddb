"""What stands between the layers of networks. Integers and bools are computed in the default float.

All have their limits at the infinities: `silu` of -inf is 0, where x * sigmoid(x) would be NaN.
"""

from __future__ import annotations

from typing import Self

from whit.errors import ArgumentError
from whit.ir.uop import UOp
from whit.tensor.core import check_number
from whit.tensor.graphs import complex_functions, formulas
from whit.tensor.graphs.trigonometry import tanh
from whit.tensor.told import told
from whit.tensor.topic import Topic


@formulas.widened
def _softsign(x: UOp) -> UOp:
    largest = float(x.dtype.largest)
    bounded = x.maximum(-largest).minimum(largest)
    return bounded / (abs(bounded) + 1.0)


def _expm1_below(x: UOp) -> UOp:
    """exp(x) - 1 up to 0, where it has the slope from below; 0 above."""
    return formulas.expm1(formulas.at_most(x, x.constant(0.0)))


class Activations(Topic):
    """What stands between the layers of networks."""

    __slots__ = ()

    def relu(self) -> Self:
        """max(self, 0). NaN stays."""
        if self.dtype.is_float:
            return self._wrap(formulas.relu(self.uop))
        return self._wrap(self.uop if self.dtype.is_bool else self.uop.maximum(0))

    def relu6(self) -> Self:
        """min(max(self, 0), 6)."""
        return self.hardtanh(0, 6)

    def leaky_relu(self, neg_slope: float = 0.01, *, negative_slope: float | None = None) -> Self:
        """self, or neg_slope * self below 0. `negative_slope=` is the same."""
        neg_slope = neg_slope if negative_slope is None else negative_slope
        result = self._apply(formulas.widened(lambda x: (x > 0.0).where(x, x * neg_slope)))
        return told("leaky_relu", result, self, alpha=neg_slope)

    def elu(self, alpha: float = 1.0) -> Self:
        """self, or alpha * (exp(self) - 1) below 0."""
        result = self._apply(formulas.widened(lambda x: (x > 0.0).where(x, _expm1_below(x) * alpha)))
        return told("elu", result, self, alpha=alpha)

    def celu(self, alpha: float = 1.0) -> Self:
        """self, or alpha * (exp(self / alpha) - 1) below 0."""
        parts = formulas.widened(lambda x: x.maximum(0.0) + formulas.expm1(x.minimum(0.0) / alpha) * alpha)
        return told("celu", self._apply(parts), self, alpha=alpha)

    def selu(self, alpha: float = 1.6732632423543772, gamma: float = 1.0507009873554805) -> Self:
        """gamma * elu(self, alpha)."""
        result = self._apply(formulas.widened(lambda x: (x > 0.0).where(x, _expm1_below(x) * alpha) * gamma))
        return told("selu", result, self, alpha=alpha, gamma=gamma)

    def gelu(self, approximate: str = "tanh") -> Self:
        """self * P(N(0, 1) < self), by the usual approximation ("tanh") or exactly ("none")."""
        if approximate not in ("tanh", "none"):
            raise ArgumentError(f"gelu: there is no approximation {approximate!r}", fix='Use "tanh" or "none".')
        result = self._apply(formulas.gelu_tanh if approximate == "tanh" else formulas.gelu)
        return told("gelu", result, self, approximate=approximate)

    def quick_gelu(self) -> Self:
        """self * sigmoid(1.702 * self)."""
        return self._apply(formulas.gated(lambda x: formulas.sigmoid(x * 1.702)))

    def sigmoid(self) -> Self:
        """1 / (1 + exp(-self))."""
        return self._apply(formulas.sigmoid, complex_functions.sigmoid)

    def logsigmoid(self) -> Self:
        """log(sigmoid(self)), without underflow."""
        return self._apply(formulas.widened(lambda x: -formulas.softplus(-x)))

    def hardsigmoid(self, alpha: float = 1 / 6, beta: float = 0.5) -> Self:
        """alpha * self + beta between 0 and 1."""
        result = self._apply(formulas.widened(lambda x: formulas.between(x * alpha + beta, 0.0, 1.0)))
        return told("hardsigmoid", result, self, alpha=alpha, beta=beta)

    def hardswish(self) -> Self:
        """self * relu6(self + 3) / 6."""
        result = self._apply(formulas.gated(lambda x: formulas.between(x + 3.0, 0.0, 6.0) * (1 / 6)))
        return told("hardswish", result, self)

    def hardtanh(self, min_val: float = -1, max_val: float = 1) -> Self:
        """self between min_val and max_val."""
        if not self.dtype.is_float:
            return self.clamp(min_val, max_val)
        check_number("hardtanh", "min_val", min_val, self._made())
        check_number("hardtanh", "max_val", max_val, self._made())
        return self._wrap(formulas.between(self.uop, min_val, max_val))

    def silu(self) -> Self:
        """self * sigmoid(self)."""
        return self._apply(formulas.silu)

    def swish(self) -> Self:
        """The same as `silu`."""
        return self.silu()

    def mish(self) -> Self:
        """self * tanh(softplus(self))."""
        return told("mish", self._apply(formulas.gated(lambda x: tanh(formulas.softplus(x)))), self)

    def softplus(self, beta: float = 1.0) -> Self:
        """log(1 + exp(beta * self)) / beta."""
        result = self._apply(formulas.widened(lambda x: formulas.softplus(x * beta) / beta))
        return told("softplus", result, self, beta=beta)

    def softsign(self) -> Self:
        """self / (1 + |self|)."""
        return told("softsign", self._apply(_softsign), self)
