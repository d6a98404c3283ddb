"""Complex numbers: their parts, conjugates and angles, and what they are made of.

    z = Tensor.complex(re, im)          z.real, z.imag, z.abs(), z.angle(), z.conj()

A complex number is two floats, side by side in memory: `view_as_real` shows them as a last axis of two. The methods of
other topics (arithmetic, functions, products) take complex numbers where these have a meaning; docs/complex.md.
"""

from __future__ import annotations

import math
from typing import Any, Self

from whit.dtype import complex_dtype, dtypes, part_dtype
from whit.errors import ArgumentError
from whit.ir.op import spell_shape
from whit.ir.uop import UOp, const
from whit.tensor.core import Core, broadcast_scalar
from whit.tensor.graphs import complex_functions
from whit.tensor.topic import Topic


def _angle_of_real(x: UOp) -> UOp:
    return x.ne(x).where(x, (x < 0.0).where(x.constant(math.pi), 0.0))


class ComplexNumbers(Topic):
    """What only complex numbers have; a real number is its own real part and conjugate."""

    __slots__ = ()

    @staticmethod
    def complex(real: Any, imag: Any) -> Any:
        """Complex numbers of their real and imaginary parts: tensors, or one of them a number."""
        first = real if isinstance(real, Core) else imag
        if not isinstance(first, Core):
            raise ArgumentError(f"complex: {real!r:.40} and {imag!r:.40} are no tensors", fix="Give tensors of parts.")
        return first._of_parts("complex", real, imag, complex_functions.complex_of)  # type: ignore[attr-defined]

    @staticmethod
    def polar(abs: Any, angle: Any) -> Any:
        """Complex numbers of their magnitudes and angles."""
        first = abs if isinstance(abs, Core) else angle
        if not isinstance(first, Core):
            raise ArgumentError(f"polar: {abs!r:.40} and {angle!r:.40} are no tensors", fix="Give tensors.")
        return first._of_parts("polar", abs, angle, complex_functions.polar)  # type: ignore[attr-defined]

    def _of_parts(self, name: str, first: Any, second: Any, formula: complex_functions.Function) -> Self:
        """A complex number of two real ones; float64 if one of them is, else float32."""
        is_second = second is self
        left, right = self._pair(name, first if is_second else second, reverse=is_second, real=True)
        if left.dtype.is_complex:
            self._require(name, False, "the parts are real numbers", "Leave it as it is: it is complex already.")
        part = part_dtype(complex_dtype(left.dtype))
        shape = left.shape or right.shape
        parts = [x if x.shape == shape else broadcast_scalar(x, shape) for x in (left.cast(part), right.cast(part))]
        return self._wrap(formula(*parts))

    def _as_imaginary(self, real: Self) -> Self:
        """The imaginary part of a number whose real part is given."""
        return self._wrap(complex_functions.complex_of(real.uop, self.uop))

    # ---- parts

    @property
    def real(self) -> Self:
        """The real part. Writing to it, `z.real = x`, changes z."""
        return self._wrap(complex_functions.parts_of(self.uop)[0]) if self.dtype.is_complex else self

    @real.setter
    def real(self, value: Any) -> None:
        if not self.dtype.is_complex:
            self.assign(value)
            return
        self.assign(self.complex(self._part_to_write(value), self.imag))

    @property
    def imag(self) -> Self:
        """The imaginary part, 0 of real numbers (NumPy). Writing to it, `z.imag = x`, changes z."""
        if self.dtype.is_complex:
            return self._wrap(complex_functions.parts_of(self.uop)[1])
        return self._wrap(broadcast_scalar(const(self.dtype, 0), self.shape))

    @imag.setter
    def imag(self, value: Any) -> None:
        self._require("imag", self.dtype.is_complex, "only complex numbers have an imaginary part", "Cast it.")
        self.assign(self.complex(self.real, self._part_to_write(value)))

    def _part_to_write(self, value: Any) -> Self:
        """A new part, in all places."""
        part = part_dtype(self.dtype)
        given = type(self)(value, dtype=part) if isinstance(value, int | float) else self._operand("real", value)
        return given.cast(part).expand(self.shape)

    def conj(self) -> Self:
        """The conjugate, with the sign of the imaginary part changed."""
        return self._wrap(complex_functions.conjugate_of(self.uop)) if self.dtype.is_complex else self

    def angle(self) -> Self:
        """The angle from the positive real numbers, in [-pi, pi]; of a negative real number pi, of NaN NaN."""
        return self._apply(_angle_of_real, complex_functions.angle)

    # ---- the same numbers as floats

    def view_as_real(self) -> Self:
        """Both parts on a last axis of two."""
        self._require("view_as_real", self.dtype.is_complex, "only complex numbers have two parts", "Use it as it is.")
        return self._wrap(complex_functions.as_parts(self.uop))

    def view_as_complex(self) -> Self:
        """A last axis of two floats as complex numbers."""
        is_pair = bool(self.shape) and self.shape[-1] == 2
        if not is_pair or self.dtype not in (dtypes.float32, dtypes.float64):
            self._require(
                "view_as_complex",
                False,
                f"needs float32 or float64 and a last axis of 2, not {spell_shape(self.shape)}",
                "Cast it, or stack the parts: real.stack(imaginary, dim=-1).",
            )
        return self._wrap(complex_functions.from_parts(self.uop))

    def cfloat(self) -> Self:
        """Cast to complex64."""
        return self.cast(dtypes.complex64)

    def cdouble(self) -> Self:
        """Cast to complex128."""
        return self.cast(dtypes.complex128)

    # ---- questions

    def is_complex(self) -> bool:
        """Whether the elements are complex (PyTorch)."""
        return self.dtype.is_complex

    def iscomplex(self) -> Self:
        """Whether an element has an imaginary part that is not 0 (NumPy)."""
        return self.imag.ne(0)

    def isreal(self) -> Self:
        """Whether an element has no imaginary part, or 0 (NumPy)."""
        return self.imag.eq(0)
