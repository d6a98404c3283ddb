"""Arithmetic, comparison, bits and choice: operators on one element of each operand.

Operands broadcast by NumPy's rules and meet in a common dtype (docs/dtypes.md). Python numbers are weak: they take the
tensor's dtype, unless they are floats and it holds integers. On bools `+` and `maximum` are "or", `*` and `minimum`
"and", as in PyTorch. Integers divide as docs/semantics.md says; `/` always gives floats.
"""

from __future__ import annotations

import operator
from typing import Any, Self

from whit.dtype import DType, dtypes, least_upper_dtype, resolve_weak, weak_dtype
from whit.errors import ArgumentError, DTypeError
from whit.ir import ops
from whit.ir.op import Op
from whit.ir.uop import UOp, const, make
from whit.tensor.core import Core, broadcast_scalar, common_shape, expand_to
from whit.tensor.graphs import complex_functions, formulas
from whit.tensor.graphs.restate import MATCHERS, restate
from whit.tensor.topic import SCALARS, Topic, scalar_node


class Elementwise(Topic):
    """Operators, and the methods of the same names."""

    __slots__ = ()

    def _number(self, name: str, x: UOp) -> UOp:
        """The node, if it holds numbers."""
        if x.dtype.is_bool:
            raise DTypeError(
                f"{name}: bools are not numbers here", self._made(), "Use ~, ^, & or |, or cast: x.int(), x.float()."
            )
        return x

    def _in_order(self, name: str, x: UOp) -> UOp:
        """The node, if its numbers have an order."""
        if x.dtype.is_complex:
            raise DTypeError(
                f"{name}: complex numbers have no order", self._made(), "Use their real parts, z.real, or their abs()."
            )
        return x

    def _binary(self, name: str, other: Any, reverse: bool, op: Op, on_bool: Op | None = None) -> Self:
        left, right = self._pair(name, other, reverse)
        if op is ops.MAX or op is ops.MIN:
            self._in_order(name, left)
        if left.dtype.is_bool:
            if on_bool is None:
                self._number(name, left)
            else:
                op = on_bool
        node = make(op, (left, right))
        return self._wrap(restate(node) if op in MATCHERS and left.dtype.is_float else node)

    def _integers(self, name: str, other: Any, reverse: bool, op: Op, bools: bool) -> Self:
        left, right = self._pair(name, other, reverse)
        if not (left.dtype.is_int or (bools and left.dtype.is_bool)):
            what = "operands must be integers or bools" if bools else "operands must be integers"
            raise DTypeError(f"{name}: {what}, and these meet in {left.dtype.name}", self._made(), "Cast them.")
        return self._wrap(make(op, (left, right)))

    # ---- arithmetic

    def add(self, x: Any, reverse: bool = False, *, alpha: Any = 1) -> Self:
        """self + alpha * x; of bools, "or"."""
        return self._binary("add", self._scaled_operand("add", x, alpha), reverse, ops.ADD, ops.OR)

    def sub(self, x: Any, reverse: bool = False, *, alpha: Any = 1) -> Self:
        """self - alpha * x."""
        return self._binary("sub", self._scaled_operand("sub", x, alpha), reverse, ops.SUB)

    def _scaled_operand(self, name: str, x: Any, alpha: Any) -> Any:
        """alpha * x, a number or a tensor."""
        if isinstance(alpha, int) and alpha == 1:
            return x
        if isinstance(x, SCALARS):
            return x * alpha
        factor = self._operand(name, x)
        return factor.mul(bool(alpha) if factor.dtype.is_bool and isinstance(alpha, int) else alpha)

    def mul(self, x: Any, reverse: bool = False) -> Self:
        """self * x; of bools, "and"."""
        return self._binary("mul", x, reverse, ops.MUL, ops.AND)

    def div(self, x: Any, reverse: bool = False, rounding_mode: str | None = None) -> Self:
        """self / x as floats; or rounded ("trunc": toward zero, "floor": down) in the operands' own dtype."""
        if rounding_mode == "floor":
            return self._floor_divide(x, reverse)
        if rounding_mode is None:
            return self._wrap(restate(make(ops.FDIV, self._pair("div", x, reverse, real=True))))
        if rounding_mode != "trunc":
            raise ArgumentError(
                f"div: there is no rounding_mode {rounding_mode!r}", self._made(), 'Use None, "trunc" or "floor".'
            )
        left, right = self._pair("div", x, reverse)
        self._in_order("div", self._number("div", left))
        return self._wrap(left.cdiv(right) if left.dtype.is_int else (left / right).trunc())

    def _floor_divide(self, x: Any, reverse: bool = False) -> Self:
        left, right = self._pair("floordiv", x, reverse)
        self._in_order("floordiv", self._number("floordiv", left))
        return self._wrap(left // right if left.dtype.is_int else formulas.floor_divide(left, right))

    def mod(self, x: Any, reverse: bool = False) -> Self:
        """The remainder of `//`, with the sign of the divisor."""
        left, right = self._pair("mod", x, reverse)
        self._in_order("mod", self._number("mod", left))
        return self._wrap(left % right if left.dtype.is_int else formulas.floor_modulo(left, right))

    def fmod(self, x: Any) -> Self:
        """The remainder of division rounded toward zero, with the sign of the dividend."""
        left, right = self._pair("fmod", x)
        self._in_order("fmod", self._number("fmod", left))
        return self._wrap(left.cmod(right) if left.dtype.is_int else formulas.truncating_modulo(left, right))

    def pow(self, x: Any, reverse: bool = False) -> Self:
        """self ** x. Integers stay integers and wrap; a negative Python exponent of integers is an error."""
        left, right = self._pair("pow", x, reverse)
        self._number("pow", left)
        if left.dtype.is_complex:
            return self._wrap(complex_functions.power(left, right))
        if left.dtype.is_float:
            return self._wrap(restate(formulas.power(left, right)))
        if right.op is ops.CONST and right.arg < 0:
            raise ArgumentError(
                f"pow: {left.dtype.name} to the power {right.arg} is no integer", self._made(), "Cast to a float first."
            )
        return self._wrap(formulas.integer_power(left, right))

    def maximum(self, x: Any) -> Self:
        """The larger; NaN if either is NaN."""
        return self._binary("maximum", x, False, ops.MAX, ops.OR)

    def minimum(self, x: Any) -> Self:
        """The smaller; NaN if either is NaN."""
        return self._binary("minimum", x, False, ops.MIN, ops.AND)

    def copysign(self, other: Any) -> Self:
        """The magnitude of self with the sign of other, also of -0.0."""
        return self._wrap(formulas.copysign(*self._pair("copysign", other, real=True)))

    def lerp(self, end: Any, weight: Any) -> Self:
        """self + (end - self) * weight: exactly self at weight 0 and end at weight 1."""
        x, y = self._pair("lerp", end, real=True)
        start, stop = self._wrap(x), self._wrap(y)
        way = stop.sub(start)
        if isinstance(weight, complex):
            return start.add(way.mul(weight))
        if isinstance(weight, bool | int | float):
            return start.add(way.mul(weight)) if weight < 0.5 else stop.sub(way.mul(1 - weight))
        share = self._operand("lerp", weight)
        near, far = start.add(way.mul(share)), stop.sub(way.mul(share.sub(1, reverse=True)))
        return share._compare("lerp", 0.5, ops.LT).where(near, far)

    def clamp(self, min_: Any = None, max_: Any = None, *, min: Any = None, max: Any = None) -> Self:
        """Not below min_, then not above max_. NaN stays. `min=` and `max=` are the same."""
        min_, max_ = min_ if min is None else min, max_ if max is None else max
        if min_ is None and max_ is None:
            raise ArgumentError("clamp: neither min_ nor max_ is given", self._made(), "Give at least one of them.")
        result = self if min_ is None else self._bounded(min_, formulas.at_least, ops.MAX, ops.OR)
        return result if max_ is None else result._bounded(max_, formulas.at_most, ops.MIN, ops.AND)

    def _bounded(self, bound: Any, formula: formulas.Formula, op: Op, on_bool: Op) -> Self:
        x, limit = self._pair("clamp", bound, False)
        self._in_order("clamp", x)
        if x.dtype.is_float:
            return self._wrap(formula(x, limit))
        return self._wrap(make(on_bool if x.dtype.is_bool else op, (x, limit)))

    def clip(self, min_: Any = None, max_: Any = None, *, min: Any = None, max: Any = None) -> Self:
        """The same as `clamp`."""
        return self.clamp(min_, max_, min=min, max=max)

    def neg(self) -> Self:
        """-self."""
        return self._wrap(-self._number("neg", self.uop))

    def abs(self) -> Self:
        """The magnitude."""
        if self.uop.dtype.is_complex:
            return self._wrap(complex_functions.absolute(self.uop))
        return self._wrap(self.uop if self.uop.dtype.is_bool else abs(self.uop))

    # ---- bits

    def bitwise_and(self, x: Any, reverse: bool = False) -> Self:
        """self & x."""
        return self._integers("bitwise_and", x, reverse, ops.AND, bools=True)

    def bitwise_or(self, x: Any, reverse: bool = False) -> Self:
        """self | x."""
        return self._integers("bitwise_or", x, reverse, ops.OR, bools=True)

    def bitwise_xor(self, x: Any, reverse: bool = False) -> Self:
        """self ^ x."""
        return self._integers("bitwise_xor", x, reverse, ops.XOR, bools=True)

    def lshift(self, x: Any, reverse: bool = False) -> Self:
        """self << x; 0 where all bits are shifted out."""
        return self._integers("lshift", x, reverse, ops.SHL, bools=False)

    def rshift(self, x: Any, reverse: bool = False) -> Self:
        """self >> x, rounded down."""
        return self._integers("rshift", x, reverse, ops.SHR, bools=False)

    def bitwise_not(self) -> Self:
        """Every bit flipped; of bools, the other."""
        accepted = self.dtype.is_int or self.dtype.is_bool
        self._require("bitwise_not", accepted, "needs integers or bools", "Cast it.")
        return self._wrap(~self.uop)

    def logical_not(self) -> Self:
        """Whether it is zero."""
        return self._wrap(~self.uop.cast(dtypes.bool))

    # ---- comparison and choice

    def _compare(self, name: str, other: Any, op: Op, swap: bool = False) -> Self:
        dtype = self.uop.dtype
        if type(other) is int and dtype.is_int and not dtype.min <= other <= dtype.max:
            return self._wrap(self._compare_outside(other, op, swap))
        left, right = self._pair(name, other)
        if op is ops.LT or op is ops.LE:
            self._in_order(name, left)
        return self._wrap(make(op, (right, left) if swap else (left, right)))

    def _compare_outside(self, other: int, op: Op, swap: bool) -> UOp:
        """Comparison with an integer that the dtype does not hold: its side decides."""
        answers = {ops.EQ: operator.eq, ops.NE: operator.ne, ops.LT: operator.lt, ops.LE: operator.le}
        answer = answers[op](other, 0) if swap else answers[op](0, other)
        return broadcast_scalar(const(dtypes.bool, answer), self.uop.shape)

    def eq(self, x: Any) -> Self:
        """Whether they are equal."""
        return self._compare("eq", x, ops.EQ)

    def ne(self, x: Any) -> Self:
        """Whether they differ."""
        return self._compare("ne", x, ops.NE)

    def isclose(self, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Self:
        """Whether |self - other| <= atol + rtol * |other|, infinities being close to themselves only."""
        x, y = self._pair("isclose", other, real=True)
        if x.dtype.itemsize < 4:  # too coarse for the tolerance
            x, y = x.cast(dtypes.float32), y.cast(dtypes.float32)
        is_complex = x.dtype.is_complex
        size = complex_functions.absolute if is_complex else abs
        isfinite = complex_functions.finite if is_complex else formulas.isfinite
        near = (size(x - y) <= size(y) * rtol + atol) & isfinite(x) & isfinite(y)
        near = near | x.eq(y)
        return self._wrap(near | (x.ne(x) & y.ne(y)) if equal_nan else near)

    def where(self, x: Any, y: Any) -> Self:
        """x where self holds (is not zero), y elsewhere."""
        if isinstance(x, Core) and x.dtype.is_bool and not self.dtype.is_bool:
            raise DTypeError(
                f"where: a condition of {self.dtype.name}, and a value that is bool",
                f"called on the tensor {self._made()}, with the bool {x._made()}",
                "The condition comes first here: condition.where(x, y); in PyTorch it is x.where(condition, y).",
            )
        if type(x) in SCALARS and type(y) in SCALARS:
            dtype = resolve_weak(least_upper_dtype(weak_dtype(x), weak_dtype(y)))
            return self._wrap(self.uop.cast(dtypes.bool).where(scalar_node(dtype, x), scalar_node(dtype, y)))
        parts: list[Any] = [v if type(v) in SCALARS else self._operand("where", v) for v in (x, y)]
        tensors = [v for v in parts if isinstance(v, Core)]
        dtype = resolve_weak(least_upper_dtype(*map(_dtype_of, parts)))
        roles = [("condition", self), *zip(("first", "second"), parts, strict=True)]
        shape = common_shape("where", [(role, t) for role, t in roles if isinstance(t, Core)])
        self._one_device("where", *tensors)
        yes, no = (expand_to(v.uop.cast(dtype), shape) if isinstance(v, Core) else scalar_node(dtype, v) for v in parts)
        return self._wrap(expand_to(self.uop.cast(dtypes.bool), shape).where(yes, no))


def _dtype_of(operand: Any) -> DType:
    """The dtype of a tensor, or of a number before promotion."""
    return operand.uop.dtype if isinstance(operand, Core) else weak_dtype(operand)
