"""Functions of each element that are less common: of the gamma and Bessel families, of a float's parts, of integers."""

from __future__ import annotations

from typing import Any, Self

from whit.dtype import dtypes, least_upper_dtype, resolve_weak
from whit.errors import ArgumentError
from whit.tensor.core import broadcast_scalar, check_number, whole
from whit.tensor.graphs import chebyshev, divisors, float_parts, formulas, gamma, special_derivatives
from whit.tensor.methods.functions import Functions
from whit.tensor.results import MantissaAndExponent

assert special_derivatives, "loaded for the gradients that it registers"


class Special(Functions):
    """Integers and bools are computed in the default float, but where the function is one of integers."""

    __slots__ = ()

    # ---- gamma, error function, Bessel

    def lgamma(self) -> Self:
        """The logarithm of |gamma(self)|."""
        return self._apply(gamma.lgamma)

    def digamma(self) -> Self:
        """The derivative of `lgamma`."""
        return self._apply(gamma.digamma)

    def polygamma(self, n: int) -> Self:
        """The n-th derivative of `digamma`."""
        if whole("polygamma", "n", n, self._made()) < 0:
            raise ArgumentError(f"polygamma: there is no derivative {n}", self._made(), "Use 0, 1, 2 ...")
        return self._apply(lambda x: gamma.polygamma(n, x))

    def mvlgamma(self, p: int) -> Self:
        """The logarithm of the multivariate gamma function of p dimensions."""
        if whole("mvlgamma", "p", p, self._made()) < 1:
            raise ArgumentError(f"mvlgamma: {p} dimensions", self._made(), "Use 1 or more.")
        return self._apply(formulas.widened(lambda x: gamma.multivariate_lgamma(x, p)))

    def erfc(self) -> Self:
        """1 - erf(self), exact where that is small."""
        return self._apply(chebyshev.erfc)

    def erfinv(self) -> Self:
        """The inverse of `erf`; infinite at -1 and 1, NaN beyond."""
        return self._apply(chebyshev.erfinv)

    def i0(self) -> Self:
        """The modified Bessel function of the first kind, of order 0."""
        return self._apply(chebyshev.bessel_i0)

    def logit(self, eps: float | None = None) -> Self:
        """log(self / (1 - self)); with eps, of self between eps and 1 - eps."""
        if eps is None:
            return self._apply(formulas.logit)
        check_number("logit", "eps", eps, self._made())
        bounded = formulas.widened(lambda x: formulas.logit(formulas.between(x, eps, 1.0 - eps)))
        return self._apply(bounded)

    # ---- signs and kinds of numbers

    def isposinf(self) -> Self:
        """Whether it is +infinity."""
        return self.isinf(detect_negative=False)

    def isneginf(self) -> Self:
        """Whether it is -infinity."""
        return self.isinf(detect_positive=False)

    def logaddexp2(self, other: Any) -> Self:
        """log2(2**self + 2**other) without overflow."""
        return self._both("logaddexp2", formulas.logaddexp2, other)

    def float_power(self, exponent: Any) -> Self:
        """self ** exponent in float64."""
        x, y = self._pair("float_power", exponent, real=True)
        return self._wrap(formulas.power(x.cast(dtypes.float64), y.cast(dtypes.float64)))

    def fmax(self, other: Any) -> Self:
        """The larger; a number if either is one."""
        return self._number_of_two("fmax", other, lambda x, y: x >= y)

    def fmin(self, other: Any) -> Self:
        """The smaller; a number if either is one."""
        return self._number_of_two("fmin", other, lambda x, y: x <= y)

    def _number_of_two(self, name: str, other: Any, is_first: formulas.Formula) -> Self:
        x, y = self._pair(name, other)
        if x.dtype.is_bool:
            return self._wrap(x | y if name == "fmax" else x & y)
        first = is_first(x, y)
        return self._wrap((first | y.ne(y) if x.dtype.is_float else first).where(x, y))

    def nextafter(self, other: Any) -> Self:
        """The float beside self that lies toward other."""
        x, y = self._pair("nextafter", other, real=True)
        self._require("nextafter", x.dtype.itemsize > 1, "floats of 8 bits have none", "Cast it.")
        return self._wrap(float_parts.nextafter(x, y))

    def ldexp(self, other: Any) -> Self:
        """self * 2**other, rounded once; of an `other` that is no integer, the product."""
        if isinstance(other, int | float):
            other = type(self)(other)
        exponent = self._operand("ldexp", other)
        x, power = self._pair("ldexp", exponent.cast(least_upper_dtype(self.dtype, exponent.dtype)), real=True)
        if not exponent.dtype.is_int:
            return self._wrap(x * power.exp2())
        narrow = exponent.clamp(-(2**30), 2**30) if exponent.dtype.itemsize > 4 else exponent
        whole_power = narrow.expand(power.shape).uop.cast(dtypes.int32)
        return self._wrap(float_parts.ldexp(x, whole_power))

    def frexp(self) -> MantissaAndExponent[Self]:
        """Mantissa and exponent: self = mantissa * 2**exponent, |mantissa| being in [0.5, 1)."""
        x = self._as_float()
        self._require("frexp", x.dtype.itemsize > 1, "floats of 8 bits have no such parts", "Cast it.")
        mantissa, exponent = float_parts.frexp(x)
        return MantissaAndExponent(self._wrap(mantissa), self._wrap(exponent))

    def modf(self) -> tuple[Self, Self]:
        """The part after the point and the one before it (NumPy)."""
        x = self._as_float()
        before = x.trunc()
        is_infinite = formulas.isinf(x)
        after = is_infinite.where(x.constant(0.0), x - before)
        return self._wrap(formulas.copysign(after, x)), self._wrap(before)

    def gcd(self, other: Any) -> Self:
        """The greatest common divisor of integers."""
        return self._of_integers("gcd", divisors.gcd, other)

    def lcm(self, other: Any) -> Self:
        """The least common multiple of integers."""
        return self._of_integers("lcm", divisors.lcm, other)

    def _of_integers(self, name: str, function: formulas.Formula, other: Any) -> Self:
        x, y = self._pair(name, other)
        self._require(name, x.dtype.is_int, "it is for integers", "Cast both.")
        shape = x.shape or y.shape
        wide = [value if value.shape == shape else broadcast_scalar(value, shape) for value in (x, y)]
        return self._wrap(function(*wide))

    # ---- activations of PyTorch that take a tensor or a threshold

    def hardshrink(self, lambd: float = 0.5) -> Self:
        """self, but 0 from -lambd to lambd."""
        check_number("hardshrink", "lambd", lambd, self._made())
        return self._apply(lambda x: ((x >= -lambd) & (x <= lambd)).where(0.0, x))

    def prelu(self, weight: Any) -> Self:
        """self, or weight * self below 0; the weight is one number, or one for each position of axis 1."""
        factor = self._operand("prelu", weight)
        if factor.numel() != 1:
            channels = 1 if self.ndim > 1 else 0
            shape = tuple(factor.numel() if axis == channels else 1 for axis in range(self.ndim))
            factor = factor.reshape(shape)
        dtype = resolve_weak(least_upper_dtype(self.dtype, factor.dtype))
        x, w = self._wrap(self.uop.cast(dtype))._pair("prelu", factor)
        return self._wrap((x > 0.0).where(x, x * w))
