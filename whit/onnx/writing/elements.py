"""Elementwise ops in operators of ONNX: most are one operator, the others a few.

NEG x        ->  Neg(x)
LOG2 x       ->  Mul(Log(x), 1 / ln 2)
x // y       ->  Div(x - Mod(x, y), y)              of whole numbers: Div rounds towards 0, Mod has the sign of y
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.op import Op
from whit.ir.uop import UOp

if TYPE_CHECKING:
    from whit.onnx.writing.translate import Translator

Write = Callable[["Translator", UOp, tuple[str, ...]], str]

ONE_OPERATOR: Final[dict[Op, str]] = {
    ops.NEG: "Neg",
    ops.ABS: "Abs",
    ops.RECIPROCAL: "Reciprocal",
    ops.SQRT: "Sqrt",
    ops.EXP: "Exp",
    ops.LOG: "Log",
    ops.SIGMOID: "Sigmoid",
    ops.TANH: "Tanh",
    ops.ERF: "Erf",
    ops.SIN: "Sin",
    ops.COS: "Cos",
    ops.FLOOR: "Floor",
    ops.CEIL: "Ceil",
    ops.ROUND: "Round",
    ops.ADD: "Add",
    ops.SUB: "Sub",
    ops.MUL: "Mul",
    ops.FDIV: "Div",
    ops.NORMAL_DIV: "Div",
    ops.CDIV: "Div",
    ops.FLOORMOD: "Mod",
    ops.POW: "Pow",
    ops.MAX: "Max",
    ops.MIN: "Min",
    ops.LT: "Less",
    ops.LE: "LessOrEqual",
    ops.EQ: "Equal",
    ops.WHERE: "Where",
}
OF_BOOLS: Final[dict[Op, str]] = {ops.AND: "And", ops.OR: "Or", ops.XOR: "Xor", ops.NOT: "Not", ops.NE: "Xor"}
OF_BITS: Final[dict[Op, str]] = {
    ops.AND: "BitwiseAnd",
    ops.OR: "BitwiseOr",
    ops.XOR: "BitwiseXor",
    ops.NOT: "BitwiseNot",
}

CHOSEN_IN: Final = {  # dtypes that onnxruntime has no Where for, and wider ones
    **dict.fromkeys((dtypes.int8, dtypes.int16, dtypes.uint16), dtypes.int32),
    **dict.fromkeys((dtypes.float16, dtypes.bfloat16), dtypes.float32),
    dtypes.uint32: dtypes.int64,
}


def write_element(to: Translator, node: UOp, names: tuple[str, ...]) -> str | None:
    """The value of an elementwise op; None if ONNX has nothing for it."""
    own = SEVERAL.get(node.op)
    if own is not None:
        return own(to, node, names)
    dtype = node.src[0].dtype
    table = OF_BOOLS if dtype is dtypes.bool else OF_BITS
    kind = table.get(node.op) or ONE_OPERATOR.get(node.op)
    return None if kind is None else to.sheet.add(kind, *names)


def _exp2(to: Translator, node: UOp, names: tuple[str, ...]) -> str:
    return to.sheet.add("Pow", to.number(node.dtype, 2), names[0])


def _log2(to: Translator, node: UOp, names: tuple[str, ...]) -> str:
    return to.sheet.add("Mul", to.sheet.add("Log", names[0]), to.number(node.dtype, 1 / math.log(2)))


def _trunc(to: Translator, node: UOp, names: tuple[str, ...]) -> str:
    add, (x,) = to.sheet.add, names
    return add("Where", add("Less", x, to.number(node.dtype, 0)), add("Ceil", x), add("Floor", x))


def _floordiv(to: Translator, node: UOp, names: tuple[str, ...]) -> str:
    x, y = names
    return to.sheet.add("Div", to.sheet.add("Sub", x, to.sheet.add("Mod", x, y)), y)


def _cmod(to: Translator, node: UOp, names: tuple[str, ...]) -> str:
    return to.sheet.add("Mod", *names, fmod=1)


def _logaddexp(to: Translator, node: UOp, names: tuple[str, ...]) -> str:
    """max + log(1 + exp(-|x - y|)); equal ones, infinities among them, are apart by 0."""
    add, (x, y) = to.sheet.add, names
    zero, one = to.number(node.dtype, 0), to.number(node.dtype, 1)
    apart = add("Where", add("Equal", x, y), zero, add("Neg", add("Abs", add("Sub", x, y))))
    return add("Add", add("Max", x, y), add("Log", add("Add", one, add("Exp", apart))))


def _fma(to: Translator, node: UOp, names: tuple[str, ...]) -> str:
    return to.sheet.add("Add", to.sheet.add("Mul", names[0], names[1]), names[2])


def _ne(to: Translator, node: UOp, names: tuple[str, ...]) -> str:
    if node.src[0].dtype is dtypes.bool:
        return to.sheet.add("Xor", *names)
    if node.src[0] is node.src[1] and node.src[0].dtype.is_float:
        return to.sheet.add("IsNaN", names[0])
    return to.sheet.add("Not", to.sheet.add("Equal", *names))


def _where(to: Translator, node: UOp, names: tuple[str, ...]) -> str:
    return choose(to, node, *names)


def choose(to: Translator, node: UOp, condition: str, yes: str, no: str) -> str:
    """One value or the other, of the dtype of a node."""
    add, wide = to.sheet.add, CHOSEN_IN.get(node.dtype)
    if node.dtype is dtypes.bool:
        return add("Or", add("And", condition, yes), add("And", add("Not", condition), no))
    if wide is None:
        return add("Where", condition, yes, no)
    both = [add("Cast", each, to=to.element(node, wide)) for each in (yes, no)]
    return add("Cast", add("Where", condition, *both), to=to.element(node))


def _shift(direction: str) -> Write:
    def write(to: Translator, node: UOp, names: tuple[str, ...]) -> str:
        if not node.dtype.is_unsigned:
            raise to.error(node, "ONNX shifts unsigned numbers alone")
        return to.sheet.add("BitShift", *names, direction=direction)

    return write


SEVERAL: Final[dict[Op, Write]] = {
    ops.EXP2: _exp2,
    ops.LOG2: _log2,
    ops.TRUNC: _trunc,
    ops.FLOORDIV: _floordiv,
    ops.CMOD: _cmod,
    ops.LOGADDEXP: _logaddexp,
    ops.FMA: _fma,
    ops.NE: _ne,
    ops.WHERE: _where,
    ops.SHL: _shift("LEFT"),
    ops.SHR: _shift("RIGHT"),
}
