"""The elementwise ops of the op table as C expressions, with the meanings of docs/semantics.md.

`expression(op, dtype, texts)` is one scalar; a vector is a loop over its lanes around it. What C leaves undefined
(overflow of signed integers, division by zero, shifts past the width, casts out of range) is spelled so that it cannot
happen. What needs more than an expression is a small function, written once in front of the kernels (`Helpers`).
"""

from __future__ import annotations

import math
from typing import Any

from whit.dtype import DType, dtypes, encode
from whit.errors import InternalError
from whit.ir import ops
from whit.ir.op import Op
from whit.render.program import unsupported

_NAMES = {
    dtypes.bool: "uint8_t",  # 0 or 1
    **{dtype: f"{dtype.name}_t" for dtype in dtypes.ints},
    **{dtype: f"uint{dtype.bitsize}_t" for dtype in (*dtypes.fp8s, dtypes.float16, dtypes.bfloat16)},
    dtypes.float32: "float",
    dtypes.float64: "double",
    dtypes.weakint: "int64_t",  # constants only: positions
}


def c_type(dtype: DType) -> str:
    """The C type of a value, in registers and in memory."""
    name = _NAMES.get(dtype)
    if name is None:
        raise InternalError(f"render C: there are no values of {dtype.name}")
    return name


class Helpers:
    """The functions that a module needs, each once."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def add(self, name: str, result: str, parameters: str, body: str) -> str:
        self.texts[name] = f"static inline {result} {name}({parameters}) {{ {body} }}"
        return name


def number(helpers: Helpers, dtype: DType, value: Any) -> str:
    """A constant, bit by bit."""
    if dtype.is_bool:
        return "1" if value else "0"
    if dtype.is_float and dtype.bitsize < 32:
        return f"(({c_type(dtype)}){encode(dtype, value)})"
    if dtype.is_float:
        if not math.isfinite(value):
            bits = dtypes.uint32 if dtype is dtypes.float32 else dtypes.uint64
            return f"{bitcast(helpers, bits, dtype)}({encode(dtype, value):#x}{_ending(bits)})"
        text = value.hex() + ("f" if dtype is dtypes.float32 else "")
        return f"({text})" if text.startswith("-") else text
    if value == dtype.min and value < 0:
        return f"({value + 1}{_ending(dtype)} - 1)"  # C has no negative numbers, only minus
    text = f"{value}{_ending(dtype)}"
    if dtype.bitsize < 32 and dtype is not dtypes.weakint:
        return f"(({c_type(dtype)}){text})"
    return f"({text})" if value < 0 else text


def _ending(dtype: DType) -> str:
    wide = "LL" if dtype.bitsize == 64 or dtype is dtypes.weakint else ""
    return ("U" if dtype.is_unsigned else "") + wide


def bitcast(helpers: Helpers, source: DType, target: DType) -> str:
    """The name of the function that reads the bits of one type as another."""
    old, new = c_type(source), c_type(target)
    name = f"{target.name}_bits_of_{source.name}"
    return helpers.add(name, new, f"{old} x", f"{new} y; memcpy(&y, &x, sizeof y); return y;")


# ---- elementwise

_INFIX = {ops.ADD: "+", ops.SUB: "-", ops.MUL: "*", ops.AND: "&", ops.OR: "|", ops.XOR: "^", ops.FDIV: "/"}
_INFIX[ops.NORMAL_DIV] = _INFIX[ops.FDIV]
_COMPARE = {ops.LT: "<", ops.LE: "<=", ops.EQ: "==", ops.NE: "!="}
_FROM_MATH_H = {ops.SQRT: "sqrt", ops.TRUNC: "trunc", ops.FLOOR: "floor", ops.CEIL: "ceil", ops.ROUND: "rint"}
_DIVISIONS = (ops.FLOORDIV, ops.FLOORMOD, ops.CDIV, ops.CMOD)


def expression(helpers: Helpers, op: Op, dtype: DType, x: list[str]) -> str:
    """One application of an op; `dtype` is that of the operands (of the values, where the op chooses)."""
    kind = c_type(dtype)
    if op in _COMPARE:
        return f"{x[0]} {_COMPARE[op]} {x[1]}"
    if op is ops.WHERE:
        return f"{x[0]} ? {x[1]} : {x[2]}"
    if op in (ops.MAX, ops.MIN):
        return f"{_extreme(helpers, op, dtype)}({x[0]}, {x[1]})"
    if dtype.is_float:
        return _of_floats(op, dtype, x)
    wide = "uint64_t" if dtype.bitsize == 64 else "uint32_t"  # unsigned arithmetic wraps
    if op in _INFIX:
        return f"({kind})(({wide}){x[0]} {_INFIX[op]} ({wide}){x[1]})"
    if op is ops.FMA:
        return f"({kind})(({wide}){x[0]} * ({wide}){x[1]} + ({wide}){x[2]})"
    if op is ops.NEG:
        return f"({kind})(0 - ({wide}){x[0]})"
    if op is ops.NOT:
        return f"!{x[0]}" if dtype.is_bool else f"({kind})~{x[0]}"
    if op is ops.ABS:
        return x[0] if dtype.is_unsigned else f"({kind})({x[0]} < 0 ? 0 - ({wide}){x[0]} : ({wide}){x[0]})"
    if op in _DIVISIONS:
        return f"{_division(helpers, op, dtype)}({x[0]}, {x[1]})"
    if op in (ops.SHL, ops.SHR):
        return f"{_shift(helpers, op, dtype)}({x[0]}, {x[1]})"
    raise unsupported(op, "C", "has no spelling", "Expand it before rendering.")


def _of_floats(op: Op, dtype: DType, x: list[str]) -> str:
    short = "f" if dtype is dtypes.float32 else ""
    if op in _INFIX:
        return f"{x[0]} {_INFIX[op]} {x[1]}"
    if op is ops.NEG:
        return f"-{x[0]}"
    if op is ops.ABS:
        return f"fabs{short}({x[0]})"
    if op is ops.RECIPROCAL:
        return f"1.0{short} / {x[0]}"
    if op is ops.FMA:
        return f"fma{short}({', '.join(x)})"
    if op in _FROM_MATH_H:
        return f"{_FROM_MATH_H[op]}{short}({x[0]})"
    raise unsupported(op, "C", "has no spelling", "Expand it before rendering.")


def _extreme(helpers: Helpers, op: Op, dtype: DType) -> str:
    kind, sign = c_type(dtype), ">" if op is ops.MAX else "<"
    keeps_nan = "x != x ? x : " if dtype.is_float else ""  # and a NaN on the right is what is left
    return helpers.add(f"{op.name}_{dtype.name}", kind, f"{kind} x, {kind} y", f"return {keeps_nan}x {sign} y ? x : y;")


def _division(helpers: Helpers, op: Op, dtype: DType) -> str:
    kind = c_type(dtype)
    is_modulo = op in (ops.FLOORMOD, ops.CMOD)
    lines = [f"if (y == 0) return {'x' if is_modulo else '0'};"]
    if dtype.is_unsigned:
        lines.append(f"return ({kind})(x {'%' if is_modulo else '/'} y);")
    else:
        wrapped = "0" if is_modulo else f"({kind})(0 - (uint64_t)x)"
        lines.append(f"if (y == -1) return {wrapped};")  # the quotient of the least integer would overflow
        lines.append(f"{kind} q = ({kind})(x / y), r = ({kind})(x % y);")
        if op in (ops.FLOORDIV, ops.FLOORMOD):
            lines.append("if (r != 0 && (r < 0) != (y < 0)) { q -= 1; r += y; }")
        lines.append("return r;" if is_modulo else "return q;")
    return helpers.add(f"{op.name}_{dtype.name}", kind, f"{kind} x, {kind} y", " ".join(lines))


def _shift(helpers: Helpers, op: Op, dtype: DType) -> str:
    kind, width = c_type(dtype), dtype.bitsize
    fits = f"(u{kind.removeprefix('u')})y < {width}"
    if op is ops.SHL:
        body = f"return {fits} ? ({kind})((uint64_t)x << y) : 0;"
    elif dtype.is_unsigned:
        body = f"return {fits} ? ({kind})(x >> y) : 0;"
    else:
        body = f"return ({kind})(x >> ({fits} ? y : {width - 1}));"
    return helpers.add(f"{op.name}_{dtype.name}", kind, f"{kind} x, {kind} y", body)


def conversion(helpers: Helpers, source: DType, target: DType, x: str) -> str:
    """A cast."""
    kind = c_type(target)
    if target.is_bool:
        return f"{x} != 0"
    if not source.is_float or target.is_float:
        return f"({kind}){x}"
    low, high = number(helpers, target, target.min), number(helpers, target, target.max)
    past = number(helpers, source, float(target.max + 1))  # a power of two, so exact
    least = number(helpers, source, float(target.min))
    body = f"return x != x ? 0 : x <= {least} ? {low} : x >= {past} ? {high} : ({kind})x;"
    return f"{helpers.add(f'{target.name}_of_{source.name}', kind, f'{c_type(source)} x', body)}({x})"
