"""Comparison and logic by name, and the functions that PyTorch and NumPy have for operators."""

from __future__ import annotations

from typing import Any, Self

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.op import Op
from whit.ir.uop import make
from whit.tensor.core import common_shape, expand_to
from whit.tensor.methods.arithmetic.elementwise import Elementwise


class Comparisons(Elementwise):
    """All but `equal` are elementwise and give bools."""

    __slots__ = ()

    def lt(self, x: Any) -> Self:
        """self < x."""
        return self._compare("lt", x, ops.LT)

    def le(self, x: Any) -> Self:
        """self <= x."""
        return self._compare("le", x, ops.LE)

    def gt(self, x: Any) -> Self:
        """self > x."""
        return self._compare("gt", x, ops.LT, swap=True)

    def ge(self, x: Any) -> Self:
        """self >= x."""
        return self._compare("ge", x, ops.LE, swap=True)

    def _logical(self, name: str, x: Any, op: Op) -> Self:
        """Each operand becomes a truth value by itself: no common dtype is needed."""
        if isinstance(x, bool | int | float | complex):
            x = type(self)(bool(x))
        other = self._operand(name, x)
        self._one_device(name, other)
        shape = common_shape(name, (("left", self), ("right", other)))
        left, right = (expand_to(t.uop.cast(dtypes.bool), shape) for t in (self, other))
        return self._wrap(make(op, (left, right)))

    def logical_and(self, x: Any) -> Self:
        """Whether neither is zero."""
        return self._logical("logical_and", x, ops.AND)

    def logical_or(self, x: Any) -> Self:
        """Whether one is not zero."""
        return self._logical("logical_or", x, ops.OR)

    def logical_xor(self, x: Any) -> Self:
        """Whether exactly one is not zero."""
        return self._logical("logical_xor", x, ops.XOR)

    def floor_divide(self, x: Any) -> Self:
        """self // x."""
        return self._floor_divide(x)

    def remainder(self, x: Any) -> Self:
        """self % x, with the sign of x."""
        return self.mod(x)
