"""Index expressions for the SMT solver z3: unbounded integers, with the bounds of the leaves as assumptions.

z3's `div` rounds so that the remainder is never negative, which is the floor for positive divisors only; here
division and remainder are the IR's: floor for both signs, x // 0 is 0, x % 0 is x.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import z3

from whit.ir import ops
from whit.ir.op import Op
from whit.ir.uop import UOp

PROVED, REFUTED, UNKNOWN = "proved", "refuted", "unknown"


def floor_divide(x: Any, y: Any) -> Any:
    if z3.is_int_value(y):
        divisor = y.as_long()
        return z3.IntVal(0) if divisor == 0 else x / y if divisor > 0 else (-x) / (-y)
    return z3.If(y == 0, 0, z3.If(y > 0, x / y, (-x) / (-y)))


def floor_modulo(x: Any, y: Any) -> Any:
    if z3.is_int_value(y):
        divisor = y.as_long()
        return x if divisor == 0 else x % y if divisor > 0 else -((-x) % (-y))
    return z3.If(y == 0, x, z3.If(y > 0, x % y, -((-x) % (-y))))


def truncating_divide(x: Any, y: Any) -> Any:
    magnitude = z3.If(y == 0, 0, absolute(x) / z3.If(y == 0, 1, absolute(y)))
    return z3.If((x < 0) == (y < 0), magnitude, -magnitude)


def absolute(x: Any) -> Any:
    return z3.If(x < 0, -x, x)


def is_bool(x: Any) -> bool:
    return bool(z3.is_bool(x))


MEANING: dict[Op, Callable[..., Any]] = {
    ops.ADD: lambda x, y: x + y,
    ops.SUB: lambda x, y: x - y,
    ops.MUL: lambda x, y: x * y,
    ops.NEG: lambda x: -x,
    ops.ABS: absolute,
    ops.NOT: lambda x: z3.Not(x) if is_bool(x) else -x - 1,
    ops.FLOORDIV: floor_divide,
    ops.FLOORMOD: floor_modulo,
    ops.CDIV: truncating_divide,
    ops.CMOD: lambda x, y: x - truncating_divide(x, y) * y,
    ops.MAX: lambda x, y: z3.If(x < y, y, x),
    ops.MIN: lambda x, y: z3.If(x < y, x, y),
    ops.LT: lambda x, y: z3.And(z3.Not(x), y) if is_bool(x) else x < y,
    ops.LE: lambda x, y: z3.Or(z3.Not(x), y) if is_bool(x) else x <= y,
    ops.EQ: lambda x, y: x == y,
    ops.NE: lambda x, y: x != y,
    ops.AND: z3.And,  # of truth values only
    ops.OR: z3.Or,
    ops.XOR: z3.Xor,
    ops.WHERE: z3.If,
}
LEAVES = (ops.VARIABLE, ops.RANGE, ops.PARAM)


class Translation:
    """Nodes as terms of the solver; the leaves bring their bounds with them."""

    def __init__(self) -> None:
        self.terms: dict[UOp, Any] = {}
        self.assumptions: list[Any] = []

    def term(self, root: UOp) -> Any:
        for node in root.topological():
            if node not in self.terms:
                self.terms[node] = self._translate(node)
        return self.terms[root]

    def _translate(self, node: UOp) -> Any:
        operands = [self.terms[s] for s in node.src]
        if node.op is ops.CONST:
            return z3.BoolVal(node.arg) if node.dtype.is_bool else z3.IntVal(node.arg)
        if node.op in LEAVES:
            return self._leaf(node, operands)
        if node.op in (ops.SHL, ops.SHR):  # by constants only
            power = z3.IntVal(1 << node.src[1].arg)
            return operands[0] * power if node.op is ops.SHL else operands[0] / power
        return MEANING[node.op](*operands)

    def _leaf(self, node: UOp, sources: list[Any]) -> Any:
        name = f"leaf{len(self.terms)}"
        if node.op is ops.PARAM:
            return z3.Bool(name) if node.dtype.is_bool else z3.Int(name)
        low, high = (0, sources[0] - 1) if node.op is ops.RANGE else (node.arg.low, node.arg.high)
        leaf = z3.Int(name)
        self.assumptions += [low <= leaf, leaf <= high]
        return leaf


def prove_equal(left: UOp, right: UOp, where: UOp | None = None, milliseconds: int = 1000) -> tuple[str, str]:
    """Whether both are equal for all values of their leaves, wherever a condition holds; and the counter-example."""
    translation = Translation()
    claim = translation.term(left) == translation.term(right)
    if where is not None:
        claim = z3.Implies(translation.term(where), claim)
    solver = z3.Solver()
    solver.set("timeout", milliseconds)
    solver.set("random_seed", 0)
    solver.add(*translation.assumptions, z3.Not(claim))
    answer = solver.check()
    if answer == z3.unsat:
        return PROVED, ""
    if answer == z3.unknown:
        return UNKNOWN, ""
    model = solver.model()
    found = [f"{n.expression()}={model.eval(t, True)}" for n, t in translation.terms.items() if n.op in LEAVES]
    return REFUTED, ", ".join(found)
