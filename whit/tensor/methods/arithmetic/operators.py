"""The operators of Python on tensors, with their reflected and in-place forms.

`x += y` writes the sum into `x`, and so into all that share its elements (whit/tensor/methods/data/assign.py).
"""

from __future__ import annotations

from typing import Any, Self

from whit.ir import ops
from whit.tensor.core import Core
from whit.tensor.methods.arithmetic.elementwise import Elementwise


class Operators(Elementwise):
    """`+ - * / // % ** & | ^ << >> ~ < <= > >= == !=`."""

    __slots__ = ()

    def __add__(self, x: Any) -> Self:
        return self._binary("add", x, False, ops.ADD, ops.OR)

    def __radd__(self, x: Any) -> Self:
        return self._binary("add", x, True, ops.ADD, ops.OR)

    def __sub__(self, x: Any) -> Self:
        return self._binary("sub", x, False, ops.SUB)

    def __rsub__(self, x: Any) -> Self:
        return self._binary("sub", x, True, ops.SUB)

    def __mul__(self, x: Any) -> Self:
        return self._binary("mul", x, False, ops.MUL, ops.AND)

    def __rmul__(self, x: Any) -> Self:
        return self._binary("mul", x, True, ops.MUL, ops.AND)

    def __truediv__(self, x: Any) -> Self:
        return self.div(x)

    def __rtruediv__(self, x: Any) -> Self:
        return self.div(x, reverse=True)

    def __floordiv__(self, x: Any) -> Self:
        return self._floor_divide(x)

    def __rfloordiv__(self, x: Any) -> Self:
        return self._floor_divide(x, reverse=True)

    def __mod__(self, x: Any) -> Self:
        return self.mod(x)

    def __rmod__(self, x: Any) -> Self:
        return self.mod(x, reverse=True)

    def __pow__(self, x: Any) -> Self:
        return self.pow(x)

    def __rpow__(self, x: Any) -> Self:
        return self.pow(x, reverse=True)

    def __and__(self, x: Any) -> Self:
        return self.bitwise_and(x)

    def __rand__(self, x: Any) -> Self:
        return self.bitwise_and(x, reverse=True)

    def __or__(self, x: Any) -> Self:
        return self.bitwise_or(x)

    def __ror__(self, x: Any) -> Self:
        return self.bitwise_or(x, reverse=True)

    def __xor__(self, x: Any) -> Self:
        return self.bitwise_xor(x)

    def __rxor__(self, x: Any) -> Self:
        return self.bitwise_xor(x, reverse=True)

    def __lshift__(self, x: Any) -> Self:
        return self.lshift(x)

    def __rlshift__(self, x: Any) -> Self:
        return self.lshift(x, reverse=True)

    def __rshift__(self, x: Any) -> Self:
        return self.rshift(x)

    def __rrshift__(self, x: Any) -> Self:
        return self.rshift(x, reverse=True)

    def __neg__(self) -> Self:
        return self.neg()

    def __pos__(self) -> Self:
        return self._wrap(self.uop)

    def __abs__(self) -> Self:
        return self.abs()

    def __invert__(self) -> Self:
        return self.bitwise_not()

    def __lt__(self, x: Any) -> Self:
        return self._compare("lt", x, ops.LT)

    def __le__(self, x: Any) -> Self:
        return self._compare("le", x, ops.LE)

    def __gt__(self, x: Any) -> Self:
        return self._compare("gt", x, ops.LT, swap=True)

    def __ge__(self, x: Any) -> Self:
        return self._compare("ge", x, ops.LE, swap=True)

    def __eq__(self, x: Any) -> Self:  # type: ignore[override]
        return self._compare("eq", x, ops.EQ)

    def __ne__(self, x: Any) -> Self:  # type: ignore[override]
        return self._compare("ne", x, ops.NE)

    __hash__ = Core.__hash__

    # ---- in place

    def __iadd__(self, x: Any) -> Self:
        return self._become("+=", self + x)

    def __isub__(self, x: Any) -> Self:
        return self._become("-=", self - x)

    def __imul__(self, x: Any) -> Self:
        return self._become("*=", self * x)

    def __itruediv__(self, x: Any) -> Self:
        return self._become("/=", self / x)

    def __ifloordiv__(self, x: Any) -> Self:
        return self._become("//=", self // x)

    def __imod__(self, x: Any) -> Self:
        return self._become("%=", self % x)

    def __ipow__(self, x: Any) -> Self:
        return self._become("**=", self**x)

    def __iand__(self, x: Any) -> Self:
        return self._become("&=", self & x)

    def __ior__(self, x: Any) -> Self:
        return self._become("|=", self | x)

    def __ixor__(self, x: Any) -> Self:
        return self._become("^=", self ^ x)

    def __ilshift__(self, x: Any) -> Self:
        return self._become("<<=", self << x)

    def __irshift__(self, x: Any) -> Self:
        return self._become(">>=", self >> x)
