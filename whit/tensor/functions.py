"""Mathematical functions of each element, and activations. Integers and bools are computed in the default float."""

from __future__ import annotations

from typing import Any, Self

from whit.dtype import DType, dtypes
from whit.errors import ArgumentError
from whit.ir.uop import UOp, const
from whit.tensor import formulas
from whit.tensor.bitcast import bitcast
from whit.tensor.core import spread, storable
from whit.tensor.operators import Operators


class Functions(Operators):
    """One input."""

    __slots__ = ()

    def _apply(self, formula: formulas.Formula) -> Self:
        return self._wrap(formula(self._as_float()))

    def sign(self) -> Self:
        """-1, 0 or 1; NaN of NaN."""
        return self._wrap(self.uop if self.dtype.is_bool else formulas.sign(self.uop))

    def square(self) -> Self:
        """self * self."""
        return self * self

    def sqrt(self) -> Self:
        """Square root; NaN below zero."""
        return self._wrap(self._as_float().sqrt())

    def rsqrt(self) -> Self:
        """1 / sqrt(self)."""
        return self._apply(formulas.widened(lambda x: x.sqrt().reciprocal()))

    def reciprocal(self) -> Self:
        """1 / self."""
        return self._wrap(self._as_float().reciprocal())

    def exp(self) -> Self:
        """e ** self."""
        return self._apply(formulas.exp)

    def exp2(self) -> Self:
        """2 ** self."""
        return self._wrap(self._as_float().exp2())

    def log(self) -> Self:
        """The natural logarithm."""
        return self._apply(formulas.log)

    def log2(self) -> Self:
        """The logarithm to base 2."""
        return self._wrap(self._as_float().log2())

    def log10(self) -> Self:
        """The logarithm to base 10."""
        return self._apply(formulas.log10)

    def sin(self) -> Self:
        """Sine."""
        return self._wrap(self._as_float().sin())

    def cos(self) -> Self:
        """Cosine."""
        return self._apply(formulas.cos)

    def tan(self) -> Self:
        """Tangent."""
        return self._apply(formulas.tan)

    def asin(self) -> Self:
        """The inverse of sin, in [-pi/2, pi/2]."""
        return self._apply(formulas.asin)

    def acos(self) -> Self:
        """The inverse of cos, in [0, pi]."""
        return self._apply(formulas.acos)

    def atan(self) -> Self:
        """The inverse of tan, in [-pi/2, pi/2]."""
        return self._apply(formulas.atan)

    def sinh(self) -> Self:
        """Hyperbolic sine."""
        return self._apply(formulas.sinh)

    def cosh(self) -> Self:
        """Hyperbolic cosine."""
        return self._apply(formulas.cosh)

    def tanh(self) -> Self:
        """Hyperbolic tangent."""
        return self._apply(formulas.tanh)

    def asinh(self) -> Self:
        """The inverse of sinh."""
        return self._apply(formulas.asinh)

    def acosh(self) -> Self:
        """The inverse of cosh; NaN below 1."""
        return self._apply(formulas.acosh)

    def atanh(self) -> Self:
        """The inverse of tanh."""
        return self._apply(formulas.atanh)

    def erf(self) -> Self:
        """The error function."""
        return self._apply(formulas.erf)

    def _rounded(self, formula: formulas.Formula) -> Self:
        """Integers are whole already."""
        return self._wrap(formula(self.uop) if self.dtype.is_float else self.uop)

    def floor(self) -> Self:
        """Rounded down."""
        return self._rounded(UOp.floor)

    def ceil(self) -> Self:
        """Rounded up."""
        return self._rounded(UOp.ceil)

    def trunc(self) -> Self:
        """Rounded toward zero."""
        return self._rounded(UOp.trunc)

    def round(self) -> Self:
        """Rounded to the nearest, halves to even."""
        return self._rounded(UOp.round)

    def _never(self) -> Self:
        return self._wrap(spread(const(dtypes.bool, False), self.shape))

    def isnan(self) -> Self:
        """Whether it is no number."""
        return self._wrap(formulas.isnan(self.uop)) if self.dtype.is_float else self._never()

    def isinf(self, detect_positive: bool = True, detect_negative: bool = True) -> Self:
        """Whether it is infinite, of either sign or of one."""
        if not self.dtype.is_float or not (detect_positive or detect_negative):
            return self._never()
        return self._wrap(formulas.isinf(self.uop, detect_positive, detect_negative))

    def isfinite(self) -> Self:
        """Neither infinite nor NaN."""
        return self._wrap(formulas.isfinite(self.uop)) if self.dtype.is_float else self._never().logical_not()

    def logaddexp(self, other: Any) -> Self:
        """log(exp(self) + exp(other)) without overflow."""
        return self._wrap(formulas.logaddexp(*self._pair("logaddexp", other, real=True)))

    # ---- conversion

    def cast(self, dtype: DType | str) -> Self:
        """The nearest values of another dtype (docs/dtypes.md)."""
        wanted = storable("cast", dtype)
        return self if wanted is self.uop.dtype else self._wrap(self.uop.cast(wanted))

    def bitcast(self, dtype: DType | str) -> Self:
        """The same bits read as another dtype. One of another size makes the last axis longer or shorter."""
        wanted = storable("bitcast", dtype)
        return self if wanted is self.uop.dtype else self._wrap(bitcast(self.uop, wanted, self._made()))


class Activations(Functions):
    """What stands between the layers of networks."""

    __slots__ = ()

    def relu(self) -> Self:
        """max(self, 0). NaN stays."""
        return self._wrap(self.uop if self.dtype.is_bool else self.uop.maximum(0))

    def relu6(self) -> Self:
        """min(max(self, 0), 6)."""
        return self.clamp(0, 6)

    def leaky_relu(self, neg_slope: float = 0.01) -> Self:
        """self, or neg_slope * self below 0."""
        return self._apply(formulas.widened(lambda x: (x < 0.0).where(x * neg_slope, x)))

    def elu(self, alpha: float = 1.0) -> Self:
        """self, or alpha * (exp(self) - 1) below 0."""
        return self._apply(formulas.widened(lambda x: (x > 0.0).where(x, formulas.expm1(x.minimum(0.0)) * alpha)))

    def celu(self, alpha: float = 1.0) -> Self:
        """self, or alpha * (exp(self / alpha) - 1) below 0."""
        return self._apply(formulas.widened(lambda x: x.maximum(0.0) + formulas.expm1(x.minimum(0.0) / alpha) * alpha))

    def selu(self, alpha: float = 1.67326, gamma: float = 1.0507) -> Self:
        """gamma * elu(self, alpha)."""
        return self._apply(
            formulas.widened(lambda x: (x > 0.0).where(x, formulas.expm1(x.minimum(0.0)) * alpha) * gamma)
        )

    def gelu(self, approximate: str = "tanh") -> Self:
        """self * P(N(0, 1) < self), by the usual approximation ("tanh") or exactly ("none")."""
        if approximate not in ("tanh", "none"):
            raise ArgumentError(f"gelu: there is no approximation {approximate!r}", fix='Use "tanh" or "none".')
        return self._apply(formulas.gelu_tanh if approximate == "tanh" else formulas.gelu)

    def quick_gelu(self) -> Self:
        """self * sigmoid(1.702 * self)."""
        return self._apply(formulas.widened(lambda x: x * formulas.sigmoid(x * 1.702)))

    def sigmoid(self) -> Self:
        """1 / (1 + exp(-self))."""
        return self._apply(formulas.sigmoid)

    def logsigmoid(self) -> Self:
        """log(sigmoid(self)), without underflow."""
        return self._apply(formulas.widened(lambda x: -formulas.softplus(-x)))

    def hardsigmoid(self, alpha: float = 1 / 6, beta: float = 0.5) -> Self:
        """alpha * self + beta between 0 and 1."""
        return self._apply(formulas.widened(lambda x: (x * alpha + beta).maximum(0.0).minimum(1.0)))

    def hardswish(self) -> Self:
        """self * relu6(self + 3) / 6."""
        return self._apply(formulas.widened(lambda x: x * (x + 3.0).maximum(0.0).minimum(6.0) * (1 / 6)))

    def hardtanh(self, min_val: float = -1, max_val: float = 1) -> Self:
        """self between min_val and max_val."""
        return self.clamp(min_val, max_val)

    def silu(self) -> Self:
        """self * sigmoid(self)."""
        return self._apply(formulas.widened(lambda x: x * formulas.sigmoid(x)))

    def swish(self) -> Self:
        """The same as `silu`."""
        return self.silu()

    def mish(self) -> Self:
        """self * tanh(softplus(self))."""
        return self._apply(formulas.widened(lambda x: x * formulas.tanh(formulas.softplus(x))))

    def softplus(self, beta: float = 1.0) -> Self:
        """log(1 + exp(beta * self)) / beta."""
        return self._apply(formulas.widened(lambda x: formulas.softplus(x * beta) / beta))

    def softsign(self) -> Self:
        """self / (1 + |self|)."""
        return self._apply(formulas.widened(lambda x: x / (abs(x) + 1.0)))
