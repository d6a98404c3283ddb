"""Sums of products of bytes, by the instruction that multiplies and adds four at once.

    sum over k of int32(a[m, k]) * int32(b[k, n])   ->   sum over k/4 of dot(a[m, 4k .. 4k+3], b[4k .. 4k+3, n])

Four bytes along k are one int32 of an operand, put together where the operand is copied into its panel, so that rows,
columns and tiles are those of a contraction of int32 (`tiling`, `panels`).

The instruction (VNNI's vpdpbusd) wants unsigned bytes on its left and signed ones on its right, and its sums are exact.
Where both are signed, 128 is added to the bytes of the rows, which flips their upper bits, and 128 times the sum of
each column is taken off again: one more row of products for all the rows of a block.
"""

from __future__ import annotations

from dataclasses import replace

from whit.codegen.contraction import Contraction
from whit.codegen.ranges import replace_ranges, size_of
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.args import DotArg, RangeKind
from whit.ir.graph import topological
from whit.ir.uop import UOp, const, make
from whit.simplify import simplify
from whit.target import Target

FOUR = 4
UPPER_BITS = -0x7F7F7F80  # 0x80808080: 128 in each of four bytes
BYTES = (dtypes.int8, dtypes.uint8)
ZERO = const(dtypes.int32, 0)


def as_dot(body: UOp, target: Target) -> UOp | None:
    """The kernel with its sum of products of bytes by fours; None if it is none, or the target cannot do it."""
    if "avx512vnni" not in target.features or target.renderer != "LLVM":
        return None
    reduces = [node for node in topological((body,)) if node.op is ops.REDUCE]
    if len(reduces) != 1 or reduces[0].arg.op is not ops.ADD or reduces[0].dtype is not dtypes.int32:
        return None
    product, *ranges = reduces[0].src
    if product.op is not ops.MUL or not ranges or not isinstance(ranges[-1].size, int) or ranges[-1].size % FOUR:
        return None
    sides = [_bytes_of(side) for side in product.src]
    left, right = sides
    if left is None or right is None or not (_is_signed(left) or _is_signed(right)):
        return None
    by_four = UOp.range(size_of(ranges[-1]) // FOUR, ranges[-1].arg.id, RangeKind.REDUCE)
    quads = [_together(side, ranges[-1], by_four) for side in (left, right)]
    dot = make(ops.DOT, (*quads, ZERO), DotArg(_is_signed(left), _is_signed(right)))
    return simplify(body.substitute({reduces[0]: dot.reduce(ops.ADD, ranges=(*ranges[:-1], by_four))}))


def _bytes_of(side: UOp) -> UOp | None:
    """The bytes of which an operand is made."""
    return side.src[0] if side.op is ops.CAST and side.src[0].dtype in BYTES else None


def _is_signed(value: UOp) -> bool:
    return value.dtype is dtypes.int8


def _together(value: UOp, r: UOp, by_four: UOp) -> UOp:
    """Four bytes along a range as one int32, the first the lowest."""
    result = ZERO
    for i in range(FOUR):
        byte = replace_ranges(value, {r: by_four * FOUR + i}, {})
        bits = (byte.bitcast(dtypes.uint8) if _is_signed(byte) else byte).cast(dtypes.int32)
        result = result | make(ops.SHL, (bits, const(dtypes.int32, 8 * i)))
    return result


def prepared(found: Contraction) -> Contraction:
    """The contraction with rows that the instruction takes."""
    signed_a, signed_b = _signs(found)
    if not (signed_a and signed_b):
        return found
    return replace(found, a=found.a ^ const(dtypes.int32, UPPER_BITS))


def _signs(found: Contraction) -> tuple[bool, bool]:
    """Whether the bytes of a and b are signed; not where this is no product of bytes."""
    product = found.reduce.src[0]
    if product.op is not ops.DOT:
        return False, False
    is_left = found.b is product.src[1]
    return (product.arg.left, product.arg.right) if is_left else (product.arg.right, product.arg.left)


def product_of(found: Contraction, a: UOp, b: UOp) -> UOp:
    """An element of a row times a vector of columns."""
    if found.reduce.src[0].op is not ops.DOT:
        return a * b
    _, signed_b = _signs(found)
    return make(ops.DOT, (a, b, ZERO) if signed_b else (b, a, ZERO), DotArg(left=False, right=True))


def too_much(found: Contraction, b: UOp) -> UOp | None:
    """What 128 in each byte of a row adds to a product, if that was added."""
    if not all(_signs(found)):
        return None
    return make(ops.DOT, (const(dtypes.int32, UPPER_BITS), b, ZERO), DotArg(left=False, right=True))
