"""Mathematical functions of each element. Integers and bools are computed in the default float."""

from __future__ import annotations

import math
from typing import Any, Self

from whit.dtype import DTypeLike, dtypes
from whit.ir.uop import UOp, const
from whit.tensor.core import broadcast_scalar, check_number, storable, whole
from whit.tensor.graphs import complex_functions, formulas, trigonometry
from whit.tensor.graphs.bitcast import bitcast
from whit.tensor.graphs.restate import restate
from whit.tensor.place import user_method
from whit.tensor.topic import Topic


class Functions(Topic):
    """Of one number, or of a few."""

    __slots__ = ()

    def _apply(self, formula: formulas.Formula, of_complex: formulas.Formula | None = None) -> Self:
        """Of floats the formula; of complex numbers the other one."""
        x = self._as_float()
        if not x.dtype.is_complex:
            return self._wrap(formula(x))
        if of_complex is None:
            self._require(user_method(), False, "complex numbers have none", "Use real parts: z.real, z.imag.")
        return self._wrap((of_complex or formula)(x))

    def sign(self) -> Self:
        """-1, 0 or 1; NaN of NaN."""
        if self.dtype.is_complex:
            return self.sgn()
        return self._wrap(self.uop if self.dtype.is_bool else formulas.sign(self.uop))

    def sgn(self) -> Self:
        """The sign; of complex numbers z / |z|, and 0 of 0."""
        return self._wrap(complex_functions.sign(self.uop)) if self.dtype.is_complex else self.sign()

    def square(self) -> Self:
        """self * self."""
        return self * self

    def sqrt(self) -> Self:
        """Square root; NaN below zero."""
        return self._apply(lambda x: restate(x.sqrt()), complex_functions.square_root)

    def rsqrt(self) -> Self:
        """1 / sqrt(self)."""
        of_float = formulas.widened(lambda x: x.sqrt().reciprocal())
        return self._apply(of_float, lambda z: complex_functions.square_root(z).reciprocal())

    def reciprocal(self) -> Self:
        """1 / self."""
        return self._wrap(restate(self._as_float().reciprocal()))

    def exp(self) -> Self:
        """e ** self."""
        return self._apply(lambda x: restate(formulas.exp(x)), complex_functions.power_of_e)

    def exp2(self) -> Self:
        """2 ** self."""
        return self._apply(UOp.exp2, complex_functions.power_of_2)

    def log(self) -> Self:
        """The natural logarithm."""
        return self._apply(lambda x: restate(formulas.log(x)), complex_functions.logarithm)

    def log2(self) -> Self:
        """The logarithm to base 2."""
        return self._apply(UOp.log2, complex_functions.binary_logarithm)

    def log10(self) -> Self:
        """The logarithm to base 10."""
        return self._apply(formulas.log10, complex_functions.decimal_logarithm)

    def expm1(self) -> Self:
        """e ** self - 1, also where that is small."""
        return self._apply(formulas.expm1, complex_functions.power_of_e_less_1)

    def log1p(self) -> Self:
        """log(1 + self), also where self is small."""
        return self._apply(lambda x: restate(formulas.log1p(x)), complex_functions.logarithm_of_1_more)

    def cbrt(self) -> Self:
        """The cube root, also of negative numbers."""
        return self._apply(formulas.cbrt)

    def deg2rad(self) -> Self:
        """Degrees as radians."""
        return self._apply(formulas.widened(lambda x: x * (math.pi / 180)))

    def rad2deg(self) -> Self:
        """Radians as degrees."""
        return self._apply(formulas.widened(lambda x: x * (180 / math.pi)))

    def sin(self) -> Self:
        """Sine."""
        return self._apply(UOp.sin, complex_functions.sine)

    def cos(self) -> Self:
        """Cosine."""
        return self._apply(UOp.cos, complex_functions.cosine)

    def tan(self) -> Self:
        """Tangent."""
        return self._apply(trigonometry.tan, complex_functions.tangent)

    def asin(self) -> Self:
        """The inverse of sin, in [-pi/2, pi/2]."""
        return self._apply(trigonometry.asin, complex_functions.inverse_sine)

    def acos(self) -> Self:
        """The inverse of cos, in [0, pi]."""
        return self._apply(trigonometry.acos, complex_functions.inverse_cosine)

    def atan(self) -> Self:
        """The inverse of tan, in [-pi/2, pi/2]."""
        return self._apply(trigonometry.atan, complex_functions.inverse_tangent)

    def sinh(self) -> Self:
        """Hyperbolic sine."""
        return self._apply(trigonometry.sinh, complex_functions.hyperbolic_sine)

    def cosh(self) -> Self:
        """Hyperbolic cosine."""
        return self._apply(trigonometry.cosh, complex_functions.hyperbolic_cosine)

    def tanh(self) -> Self:
        """Hyperbolic tangent."""
        return self._apply(trigonometry.tanh, complex_functions.hyperbolic_tangent)

    def asinh(self) -> Self:
        """The inverse of sinh."""
        return self._apply(trigonometry.asinh, complex_functions.inverse_hyperbolic_sine)

    def acosh(self) -> Self:
        """The inverse of cosh; NaN below 1."""
        return self._apply(trigonometry.acosh, complex_functions.inverse_hyperbolic_cosine)

    def atanh(self) -> Self:
        """The inverse of tanh."""
        return self._apply(trigonometry.atanh, complex_functions.inverse_hyperbolic_tangent)

    def erf(self) -> Self:
        """The error function."""
        return self._apply(formulas.erf)

    def sinc(self) -> Self:
        """sin(pi * self) / (pi * self), 1 at 0."""
        return self._apply(trigonometry.sinc)

    def _rounded(self, formula: formulas.Formula) -> Self:
        """Integers are whole already."""
        self._require(user_method(), not self.dtype.is_complex, "complex numbers have none", "Round their parts.")
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

    def round(self, decimals: int = 0) -> Self:
        """Rounded to the nearest, halves to even; with `decimals`, to so many digits after the point."""
        if not decimals:
            return self._rounded(UOp.round)
        digits = whole("round", "decimals", decimals, self._made())
        scale = float(10 ** abs(digits))
        if not self.dtype.is_float:
            return (
                self
                if digits > 0
                else self._wrap(((self.uop.cast(dtypes.float64) / scale).round() * scale).cast(self.dtype))
            )
        if digits > 0:
            return self._apply(formulas.widened(lambda x: (x * scale).round() / scale))
        return self._apply(formulas.widened(lambda x: (x / scale).round() * scale))

    def frac(self) -> Self:
        """What `trunc` takes away."""
        return self - self.trunc()

    def signbit(self) -> Self:
        """Whether it is negative; of floats the sign bit, which -0.0 has too."""
        if self.dtype.is_float:
            return self._wrap(formulas.is_negative(self.uop))
        return self._never() if self.dtype.is_bool or self.dtype.is_unsigned else self.lt(0)

    def positive(self) -> Self:
        """+self."""
        return self

    def _never(self) -> Self:
        return self._wrap(broadcast_scalar(const(dtypes.bool, False), self.shape))

    def isnan(self) -> Self:
        """Whether it is no number."""
        return self._asked(formulas.isnan)

    def _asked(self, question: formulas.Formula) -> Self:
        """Of floats; of complex numbers, whether it holds for one of the parts; of all else, never."""
        if self.dtype.is_complex:
            return self._wrap(complex_functions.either_part(question, self.uop))
        return self._wrap(question(self.uop)) if self.dtype.is_float else self._never()

    def isinf(self, detect_positive: bool = True, detect_negative: bool = True) -> Self:
        """Whether it is infinite, of either sign or of one."""
        if not (detect_positive or detect_negative):
            return self._never()
        return self._asked(lambda x: formulas.isinf(x, detect_positive, detect_negative))

    def isfinite(self) -> Self:
        """Neither infinite nor NaN."""
        if self.dtype.is_complex:
            return self._wrap(complex_functions.finite(self.uop))
        return self._wrap(formulas.isfinite(self.uop)) if self.dtype.is_float else self._never().logical_not()

    def nan_to_num(self, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Self:
        """Other numbers in the place of NaN and the infinities: those of the largest magnitude if none are given."""
        if self.dtype.is_complex:
            parts = [part.nan_to_num(nan, posinf, neginf).uop for part in (self.real, self.imag)]
            return self._wrap(complex_functions.complex_of(*parts))
        if not self.dtype.is_float:
            return self
        for what, value in (("nan", nan), ("posinf", posinf), ("neginf", neginf)):
            if value is not None:
                check_number("nan_to_num", what, value, self._made())
        x = self.uop
        high = self.dtype.largest if posinf is None else float(posinf)
        low = -self.dtype.largest if neginf is None else float(neginf)
        x = formulas.isinf(x, detect_negative=False).where(x.constant(high), x)
        x = formulas.isinf(x, detect_positive=False).where(x.constant(low), x)
        return self._wrap(formulas.isnan(x).where(x.constant(float(nan)), x))

    # ---- two inputs

    def _both(self, name: str, formula: formulas.Formula, other: Any) -> Self:
        return self._wrap(formula(*self._pair(name, other, real=True)))

    def atan2(self, other: Any) -> Self:
        """The angle of the point (other, self), in [-pi, pi]."""
        return self._both("atan2", trigonometry.atan2, other)

    def hypot(self, other: Any) -> Self:
        """sqrt(self**2 + other**2) without overflow."""
        return self._both("hypot", formulas.hypot, other)

    def xlogy(self, other: Any) -> Self:
        """self * log(other), and 0 where self is 0."""
        return self._both("xlogy", formulas.xlogy, other)

    def heaviside(self, values: Any) -> Self:
        """0 below zero, 1 above, `values` at zero; NaN stays."""
        x, y = self._pair("heaviside", values)
        step = x.eq(0).where(y, (x > 0).where(x.constant(1), x.constant(0)))
        return self._wrap(formulas.isnan(x).where(x, step) if x.dtype.is_float else step)

    def logaddexp(self, other: Any) -> Self:
        """log(exp(self) + exp(other)) without overflow."""
        return self._both("logaddexp", formulas.logaddexp, other)

    # ---- conversion

    def cast(self, dtype: DTypeLike) -> Self:
        """The nearest values of another dtype (docs/dtypes.md)."""
        wanted = storable("cast", dtype)
        return self if wanted is self.uop.dtype else self._same(self.uop.cast(wanted))

    def bitcast(self, dtype: DTypeLike) -> Self:
        """The same bits read as another dtype. One of another size makes the last axis longer or shorter."""
        wanted = storable("bitcast", dtype)
        return self if wanted is self.uop.dtype else self._same(bitcast(self.uop, wanted, self._made()))
