"""The elementwise ops of the op table as LLVM instructions, with the meanings of docs/semantics.md.

Each function gets a writer and a node, writes instructions and returns the name of the result. What LLVM leaves
undefined (division by zero, shifts past the width, casts out of range) gets a guard, unless bounds show that it cannot
happen.
"""

from __future__ import annotations

from collections.abc import Callable

from whit.dtype import DType, dtypes
from whit.ir import ops
from whit.ir.op import Op
from whit.ir.uop import UOp
from whit.render.llvm.values import LlvmWriter, lane_count, scalar_type, type_of, vector_of
from whit.simplify import bounds

Spell = Callable[[LlvmWriter, UOp], str]


def _operands(w: LlvmWriter, node: UOp) -> list[str]:
    count = lane_count(node)
    return [w.operand(source, count) for source in node.src]


def _simple(for_int: str, for_float: str = "") -> Spell:
    """One instruction of two operands."""

    def spell(w: LlvmWriter, node: UOp) -> str:
        left, right = _operands(w, node)
        name = for_float if node.dtype.is_float else for_int
        return w.value(node.op.name, f"{name} {type_of(node)} {left}, {right}")

    return spell


def _float_intrinsic(name: str) -> Spell:
    """One intrinsic of floats."""

    def spell(w: LlvmWriter, node: UOp) -> str:
        (x,) = _operands(w, node)
        kind = type_of(node)
        return w.intrinsic(f"{name}.{w.suffix(kind)}", kind, (kind, x))

    return spell


def _negate(w: LlvmWriter, node: UOp) -> str:
    (x,) = _operands(w, node)
    kind = type_of(node)
    if node.dtype.is_float:
        return w.value("neg", f"fneg {kind} {x}")
    return w.value("neg", f"sub {kind} {w.constant(node.dtype, 0, lane_count(node))}, {x}")


def _absolute(w: LlvmWriter, node: UOp) -> str:
    (x,) = _operands(w, node)
    kind = type_of(node)
    if node.dtype.is_float:
        return w.intrinsic(f"fabs.{w.suffix(kind)}", kind, (kind, x))
    if node.dtype.is_unsigned:
        return x
    return w.intrinsic(f"abs.{w.suffix(kind)}", kind, (kind, x), ("i1", "false"))


def _invert(w: LlvmWriter, node: UOp) -> str:
    (x,) = _operands(w, node)
    ones = w.constant(node.dtype, True if node.dtype.is_bool else -1, lane_count(node))
    return w.value("not", f"xor {type_of(node)} {x}, {ones}")


def _reciprocal(w: LlvmWriter, node: UOp) -> str:
    (x,) = _operands(w, node)
    one = w.constant(node.dtype, 1.0, lane_count(node))
    return w.value("reciprocal", f"fdiv {type_of(node)} {one}, {x}")


def _fused(w: LlvmWriter, node: UOp) -> str:
    x, y, z = _operands(w, node)
    kind = type_of(node)
    if not node.dtype.is_float:
        product = w.value("mul", f"mul {kind} {x}, {y}")
        return w.value("add", f"add {kind} {product}, {z}")
    # Without the instruction, a call of the mathematical library's function (`fused` leaves only float64 to it).
    return w.intrinsic(f"fma.{w.suffix(kind)}", kind, (kind, x), (kind, y), (kind, z))


# ---- comparisons and choices

_FLOAT_COMPARISON = {ops.LT: "olt", ops.LE: "ole", ops.EQ: "oeq", ops.NE: "une"}
_INT_COMPARISON = {ops.LT: "lt", ops.LE: "le", ops.EQ: "eq", ops.NE: "ne"}


def _compare(w: LlvmWriter, node: UOp) -> str:
    left, right = _operands(w, node)
    dtype = node.src[0].dtype
    kind = vector_of(scalar_type(dtype), lane_count(node))
    if dtype.is_float:
        return w.value(node.op.name, f"fcmp {_FLOAT_COMPARISON[node.op]} {kind} {left}, {right}")
    sign = "" if node.op in (ops.EQ, ops.NE) else "u" if dtype.is_unsigned or dtype.is_bool else "s"
    return w.value(node.op.name, f"icmp {sign}{_INT_COMPARISON[node.op]} {kind} {left}, {right}")


def _choose(w: LlvmWriter, node: UOp) -> str:
    condition, yes, no = node.src
    count, kind = lane_count(node), type_of(node)
    # A scalar condition selects whole vectors.
    test = w.operand(condition)
    test_kind = vector_of("i1", lane_count(condition))
    return w.value("where", f"select {test_kind} {test}, {kind} {w.operand(yes, count)}, {kind} {w.operand(no, count)}")


def _extreme(w: LlvmWriter, node: UOp) -> str:
    left, right = node.src
    if right.op is ops.CONST:
        left, right = right, left
    count = lane_count(node)
    is_number = left.op is ops.CONST and left.arg == left.arg
    return extreme(w, node.op, node.dtype, count, w.operand(left, count), w.operand(right, count), is_number)


def extreme(w: LlvmWriter, op: Op, dtype: DType, count: int, left: str, right: str, is_number: bool = False) -> str:
    """The larger or smaller of two; NaN if either is, where `is_number` says that the left one is none."""
    kind, masks = vector_of(scalar_type(dtype), count), vector_of("i1", count)
    if not dtype.is_float:
        sign = "u" if dtype.is_unsigned else "s"
        test = f"icmp {sign}{'gt' if op is ops.MAX else 'lt'}"
        wins = w.value("wins", f"{test} {kind} {left}, {right}")
        return w.value(op.name, f"select {masks} {wins}, {kind} {left}, {kind} {right}")
    # x86's maxps gives the right operand unless left > right: so a NaN on the right stays, and one on the left is put
    # back. llvm.maximum would also order the zeros, at four more instructions.
    wins = w.value("wins", f"fcmp {'ogt' if op is ops.MAX else 'olt'} {kind} {left}, {right}")
    result = w.value(op.name, f"select {masks} {wins}, {kind} {left}, {kind} {right}")
    if is_number:
        return result
    is_nan = w.value("nan", f"fcmp uno {kind} {left}, {left}")
    return w.value(op.name, f"select {masks} {is_nan}, {kind} {left}, {kind} {result}")


# ---- integer division and shifts


def _divide(w: LlvmWriter, node: UOp) -> str:
    """All four divisions. A divisor of 0 is replaced by 1 first, and so is the -1 whose quotient would wrap."""
    x, y = node.src
    dtype, count, kind = node.dtype, lane_count(node), type_of(node)
    shifted = _by_power_of_two(w, node)
    if shifted:
        return shifted
    low, high = bounds(y) or (dtype.min, dtype.max)
    first, _ = bounds(x) or (dtype.min, dtype.max)
    left, right = w.operand(x, count), w.operand(y, count)
    is_unsigned = dtype.is_unsigned or (first >= 0 and low >= 0)
    divisor, is_zero = right, ""
    one, zero, masks = w.constant(dtype, 1, count), w.constant(dtype, 0, count), vector_of("i1", count)
    if low <= 0 <= high:
        is_zero = w.value("zero", f"icmp eq {kind} {right}, {zero}")
        divisor = w.value("divisor", f"select {masks} {is_zero}, {kind} {one}, {kind} {right}")
    if not is_unsigned and low <= -1 <= high and first == dtype.min:
        minus_one = w.value("minus", f"icmp eq {kind} {right}, {w.constant(dtype, -1, count)}")
        least = w.value("least", f"icmp eq {kind} {left}, {w.constant(dtype, dtype.min, count)}")
        wraps = w.value("wraps", f"and {masks} {minus_one}, {least}")
        divisor = w.value("divisor", f"select {masks} {wraps}, {kind} {one}, {kind} {divisor}")
    if node.op in (ops.FLOORMOD, ops.CMOD):
        result = _remainder(w, node, left, divisor, right, is_unsigned)
        otherwise = left
    else:
        result = _quotient(w, node, left, divisor, right, is_unsigned)
        otherwise = zero
    return w.value("div", f"select {masks} {is_zero}, {kind} {otherwise}, {kind} {result}") if is_zero else result


def _quotient(w: LlvmWriter, node: UOp, x: str, divisor: str, y: str, is_unsigned: bool) -> str:
    kind = type_of(node)
    quotient = w.value("div", f"{'udiv' if is_unsigned else 'sdiv'} {kind} {x}, {divisor}")
    if is_unsigned or node.op is ops.CDIV:
        return quotient
    product = w.value("mul", f"mul {kind} {quotient}, {divisor}")
    remainder = w.value("rem", f"sub {kind} {x}, {product}")
    masks = vector_of("i1", lane_count(node))
    lower = w.value("lower", f"sext {masks} {_has_other_sign(w, node, remainder, y)} to {kind}")
    return w.value("floor", f"add {kind} {quotient}, {lower}")


def _remainder(w: LlvmWriter, node: UOp, x: str, divisor: str, y: str, is_unsigned: bool) -> str:
    kind, masks = type_of(node), vector_of("i1", lane_count(node))
    remainder = w.value("rem", f"{'urem' if is_unsigned else 'srem'} {kind} {x}, {divisor}")
    if is_unsigned or node.op is ops.CMOD:
        return remainder
    moved = w.value("moved", f"add {kind} {remainder}, {y}")
    other = _has_other_sign(w, node, remainder, y)
    return w.value("mod", f"select {masks} {other}, {kind} {moved}, {kind} {remainder}")


def _has_other_sign(w: LlvmWriter, node: UOp, remainder: str, y: str) -> str:
    """Whether a remainder is not 0 and on the other side of 0 than the divisor."""
    kind, zero = type_of(node), w.constant(node.dtype, 0, lane_count(node))
    differs = w.value("signs", f"xor {kind} {remainder}, {y}")
    negative = w.value("differs", f"icmp slt {kind} {differs}, {zero}")
    inexact = w.value("inexact", f"icmp ne {kind} {remainder}, {zero}")
    return w.value("adjust", f"and {vector_of('i1', lane_count(node))} {negative}, {inexact}")


def _by_power_of_two(w: LlvmWriter, node: UOp) -> str:
    """Division by a constant power of two as a shift or a mask, where rounding down is wanted; else nothing."""
    x, y = node.src
    if y.op is not ops.CONST or y.arg <= 0 or y.arg & (y.arg - 1):
        return ""
    first, _ = bounds(x) or (-1, 0)
    if node.op in (ops.CDIV, ops.CMOD) and first < 0:
        return ""  # LLVM has its own sequence for these
    count, kind = lane_count(node), type_of(node)
    text = w.operand(x, count)
    if node.op in (ops.FLOORMOD, ops.CMOD):
        return w.value("mod", f"and {kind} {text}, {w.constant(node.dtype, y.arg - 1, count)}")
    shift = "lshr" if node.dtype.is_unsigned else "ashr"
    return w.value("div", f"{shift} {kind} {text}, {w.constant(node.dtype, y.arg.bit_length() - 1, count)}")


def _shift(w: LlvmWriter, node: UOp) -> str:
    x, y = node.src
    dtype, count, kind = node.dtype, lane_count(node), type_of(node)
    width = dtype.bitsize
    low, high = bounds(y) or (dtype.min, dtype.max)
    name = "shl" if node.op is ops.SHL else "lshr" if dtype.is_unsigned else "ashr"
    left, right = w.operand(x, count), w.operand(y, count)
    if low >= 0 and high < width:
        return w.value(name, f"{name} {kind} {left}, {right}")
    fits = w.value("fits", f"icmp ult {kind} {right}, {w.constant(dtype, width, count)}")
    masks = vector_of("i1", count)
    if name == "ashr":
        most = w.constant(dtype, width - 1, count)
        amount = w.value("amount", f"select {masks} {fits}, {kind} {right}, {kind} {most}")
        return w.value(name, f"ashr {kind} {left}, {amount}")
    shifted = w.value(name, f"{name} {kind} {left}, {right}")
    return w.value(name, f"select {masks} {fits}, {kind} {shifted}, {kind} {w.constant(dtype, 0, count)}")


# ---- casts


def cast(w: LlvmWriter, node: UOp) -> str:
    """A conversion: floats to integers saturate, everything else is one instruction."""
    (x,) = node.src
    source, target, count = x.dtype, node.dtype, lane_count(node)
    text, old, new = w.operand(x), type_of(x), type_of(node)
    if target.is_bool:
        compare = "fcmp une" if source.is_float else "icmp ne"
        return w.value("bool", f"{compare} {old} {text}, {w.constant(source, 0.0 if source.is_float else 0, count)}")
    if source.is_float and target.is_float:
        return _cast_floats(w, source, target, count, text)
    if source.is_float:
        return _saturated(w, source, target, count, text)
    is_unsigned = source.is_unsigned or source.is_bool
    if target.is_float:
        return w.value("cast", f"{'uitofp' if is_unsigned else 'sitofp'} {old} {text} to {new}")
    if old == new:
        return text
    if source.bitsize > target.bitsize:
        return w.value("cast", f"trunc {old} {text} to {new}")
    return w.value("cast", f"{'zext' if is_unsigned else 'sext'} {old} {text} to {new}")


def _saturated(w: LlvmWriter, source: DType, target: DType, count: int, x: str) -> str:
    """A float as the nearest integer toward zero that the dtype has; NaN is 0.

    llvm.fptosi.sat says the same, but on x86 it is taken apart into lanes: 100 instructions for 16 of them.
    """
    old, new = (vector_of(scalar_type(dtype), count) for dtype in (source, target))
    masks = vector_of("i1", count)
    least, streaming = (w.constant(source, float(limit), count) for limit in (target.min, target.max + 1))
    above = w.value("above", f"fcmp ogt {old} {x}, {least}")  # false for NaN, which becomes the least
    clamped = w.value("clamped", f"select {masks} {above}, {old} {x}, {old} {least}")
    result = w.value("cast", f"{'fptoui' if target.is_unsigned else 'fptosi'} {old} {clamped} to {new}")
    is_streaming = w.value("past", f"fcmp oge {old} {x}, {streaming}")
    most = w.constant(target, target.max, count)
    result = w.value("cast", f"select {masks} {is_streaming}, {new} {most}, {new} {result}")
    if target.is_unsigned:
        return result
    is_nan = w.value("nan", f"fcmp uno {old} {x}, {x}")
    return w.value("cast", f"select {masks} {is_nan}, {new} {w.constant(target, 0, count)}, {new} {result}")


def _cast_floats(w: LlvmWriter, source: DType, target: DType, count: int, text: str) -> str:
    old, new = (vector_of(scalar_type(dtype), count) for dtype in (source, target))
    half = vector_of("half", count)
    if source is dtypes.float16:
        text, old = w.value("half", f"bitcast {old} {text} to {half}"), half
    if target is dtypes.float16:
        rounded = w.value("half", f"fptrunc {old} {text} to {half}")
        return w.value("bits", f"bitcast {half} {rounded} to {new}")
    return w.value("cast", f"{'fpext' if source.bitsize < target.bitsize else 'fptrunc'} {old} {text} to {new}")


# ---- combining values that are no operands of a node

_COMBINE = {ops.ADD: ("add", "fadd"), ops.MUL: ("mul", "fmul"), ops.AND: ("and", ""), ops.OR: ("or", "")}


def combine(w: LlvmWriter, op: Op, dtype: DType, count: int, left: str, right: str) -> str:
    """left op right for the ops that reduce."""
    if op in (ops.MAX, ops.MIN):
        return extreme(w, op, dtype, count, left, right)
    name = _COMBINE[op][dtype.is_float]
    return w.value(op.name, f"{name} {vector_of(scalar_type(dtype), count)} {left}, {right}")


def reduce_vector(w: LlvmWriter, node: UOp) -> str:
    """All lanes combined: halves of the vector with each other, until one lane is left; a float sum starts from 0."""
    (x,) = node.src
    op, dtype, count, text = node.arg.op, node.dtype, lane_count(x), w.operand(x)
    scalar = scalar_type(dtype)
    rest: list[str] = []
    while count > 1:
        kind, half = vector_of(scalar, count), count // 2
        if count % 2:
            rest.append(w.value("lane", f"extractelement {kind} {text}, i64 {count - 1}"))
        if half == 1:
            left, right = (w.value("lane", f"extractelement {kind} {text}, i64 {lane}") for lane in (0, 1))
        else:
            left, right = (_part(w, kind, text, first, half) for first in (0, half))
        text, count = combine(w, op, dtype, half, left, right), half
    for lane in rest:
        text = combine(w, op, dtype, 1, text, lane)
    if op is ops.ADD and dtype.is_float:  # so that a sum of -0.0 is 0.0
        return w.value("sum", f"fadd {scalar} {text}, {w.constant(dtype, 0.0, 1)}")
    return text


def _part(w: LlvmWriter, kind: str, text: str, first: int, count: int) -> str:
    lanes = ", ".join(f"i32 {lane}" for lane in range(first, first + count))
    return w.value("part", f"shufflevector {kind} {text}, {kind} poison, <{count} x i32> <{lanes}>")


ELEMENTWISE: dict[Op, Spell] = {
    ops.NEG: _negate,
    ops.ABS: _absolute,
    ops.NOT: _invert,
    ops.RECIPROCAL: _reciprocal,
    ops.SQRT: _float_intrinsic("sqrt"),
    ops.TRUNC: _float_intrinsic("trunc"),
    ops.FLOOR: _float_intrinsic("floor"),
    ops.CEIL: _float_intrinsic("ceil"),
    ops.ROUND: _float_intrinsic("rint"),
    ops.ADD: _simple("add", "fadd"),
    ops.SUB: _simple("sub", "fsub"),
    ops.MUL: _simple("mul", "fmul"),
    ops.FDIV: _simple("", "fdiv"),
    ops.NORMAL_DIV: _simple("", "fdiv"),
    ops.AND: _simple("and"),
    ops.OR: _simple("or"),
    ops.XOR: _simple("xor"),
    ops.FLOORDIV: _divide,
    ops.FLOORMOD: _divide,
    ops.CDIV: _divide,
    ops.CMOD: _divide,
    ops.SHL: _shift,
    ops.SHR: _shift,
    ops.MAX: _extreme,
    ops.MIN: _extreme,
    ops.LT: _compare,
    ops.LE: _compare,
    ops.EQ: _compare,
    ops.NE: _compare,
    ops.WHERE: _choose,
    ops.FMA: _fused,
}
