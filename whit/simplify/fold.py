"""Constants, conversions and the order of operands.

    2 + 3             ->  5                     by the meaning in the op table
    x < 100           ->  true                  where bounds leave one value
    3 * x             ->  x * 3                 operands of commutative ops in one order
    int32(int16(a))   ->  int32(a)              a cast that loses nothing is not needed before another

These hold for every dtype; `algebra.py` has the identities of each.
"""

from __future__ import annotations

from typing import Any

from whit.dtype import DType, can_lossless_cast, convert, decode, dtypes, encode, wrap
from whit.ir import ops, scalar
from whit.ir.op import OPS
from whit.ir.rules import BOOLS, INTS, function_rule
from whit.ir.uop import UOp, const, const_from_bits, make
from whit.simplify.bounds import bounds
from whit.simplify.order import order

LIMIT_BITS = 4096  # a shift or a product may not build an integer larger than this

COMMUTATIVE = tuple(op for op in OPS.values() if op.commutative)


def fold(node: UOp) -> UOp:
    """The value of an elementwise node whose sources are constants, as a constant."""
    if node.op is ops.WHERE:  # a choice, not arithmetic: what is chosen is not rounded again
        condition, yes, no = node.src
        return yes if condition.arg else no
    values = [s.arg for s in node.src]
    dtype = node.dtype
    if node.op is ops.FMA and dtype.is_float:
        return const(dtype, scalar.fma(*values, to_odd=dtype.mantissa_bits < 52))  # rounded once, not twice
    assert node.op.python is not None, "only ops with a meaning in Python are folded"
    result = node.op.python(scalar, *values)
    if dtype.is_int:
        return const(dtype, wrap(dtype, int(result)))
    return const(dtype, bool(result) if dtype.is_bool else result)


@function_rule(*(op for op in OPS.values() if op.elementwise))
def fold_constants(node: UOp) -> UOp | None:
    """2 + 3 -> 5"""
    for s in node.src:
        if s.op is not ops.CONST:
            return None
    if node.op in (ops.SHL, ops.SHR) and not _shift_fits(node):
        return None
    folded = fold(node)
    return None if node.dtype is dtypes.weakint and folded.arg.bit_length() > LIMIT_BITS else folded


def _shift_fits(node: UOp) -> bool:
    """Fixed widths have their own meaning for large shifts; unbounded integers must stay affordable."""
    amount = node.src[1].arg
    if node.dtype is dtypes.weakint:
        return bool(0 <= amount < LIMIT_BITS)
    return bool(0 <= amount < node.dtype.bitsize)


@function_rule(*(op for op in OPS.values() if op.elementwise and op.bounds is not None), on=INTS | BOOLS)
def decided_by_bounds(node: UOp) -> UOp | None:
    """x < 100 -> true where x is in [0, 9]"""
    reach = bounds(node)
    if reach is None or reach[0] != reach[1]:
        return None
    return const(node.dtype, bool(reach[0]) if node.dtype.is_bool else reach[0])


@function_rule(ops.AND, on=INTS)
def idle_mask(node: UOp) -> UOp | None:
    """x & 15 -> x where x is in [0, 15]"""
    value, mask = node.src
    if mask.op is not ops.CONST:
        return None
    reach = bounds(value)
    if reach is None or reach[0] < 0:
        return None
    every_bit = (1 << reach[1].bit_length()) - 1
    return value if mask.arg & every_bit == every_bit else None


@function_rule(*COMMUTATIVE)
def ordered_operands(node: UOp) -> UOp | None:
    """3 * x -> x * 3"""
    left, right = node.src
    if right.op is ops.CONST or left is right:
        return None
    if left.op is not ops.CONST:
        if node.op in (ops.ADD, ops.MUL) and node.dtype.is_int:
            return None  # sums and products have an order of their own
        if order(left) <= order(right):
            return None
    return make(node.op, (right, left))


@function_rule(ops.CAST)
def shorter_cast(node: UOp) -> UOp | None:
    """float32(float16(x)) stays; int32(int16(x)) -> int32(x) where x is int8; a cast of a constant is a constant"""
    (value,) = node.src
    target = node.dtype
    if value.op is ops.CONST:
        return _cast_constant(value.arg, value, node)
    if value.op is ops.CAST:
        inner = value.src[0]
        if can_lossless_cast(inner.dtype, value.dtype) and not _clamps(inner.dtype, value.dtype, target):
            return inner.cast(target)
    return None


def _clamps(first: DType, middle: DType, last: DType) -> bool:
    """Whether the way through a float stops at the ends of an integer dtype, where integers alone would wrap."""
    return middle.is_float and last.is_int and not first.is_float and not can_lossless_cast(first, last)


def _cast_constant(number: Any, value: UOp, node: UOp) -> UOp | None:
    if node.dtype is dtypes.weakint and value.dtype.is_float:
        return None
    return const(node.dtype, convert(node.dtype, number))


@function_rule(ops.BITCAST)
def folded_bitcast(node: UOp) -> UOp | None:
    """bitcast(bitcast(x)) -> bitcast(x), and of a constant, a constant"""
    (value,) = node.src
    if value.op is ops.BITCAST:
        return value.src[0].bitcast(node.dtype)
    if value.op is ops.CONST:
        bits = encode(value.dtype, value.arg)
        if encode(node.dtype, decode(node.dtype, bits)) != bits:
            return None  # a signalling NaN, or a bool of another number than 0 and 1: no constant has these bits
        return const_from_bits(node.dtype, bits)
    return None
