"""Sums of products of small numbers, by the instructions that multiply and add all that fit 32 bits at once.

    sum over k of int32(a[m, k]) * int32(b[k, n])      ->    sum over k/4 of dot(a[m, 4k .. 4k+3], b[4k .. 4k+3, n])
    sum over k of float32(a[m, k]) * float32(b[k, n])  ->    sum over k/2 of dot(a[m, 2k .. 2k+1], b[2k .. 2k+1, n])

Four bytes or two bfloat16 along k are one int32 of an operand, a word, put together where the operand is copied into
its panel, so that rows, columns and tiles are those of a contraction of int32 (`tiling`, `panels`). Where k is no
multiple, the products that are left over are added to the sum of the others.

Bytes: VNNI's vpdpbusd wants unsigned bytes on its left and signed ones on its right, and its sums are exact. Where both
are signed, 128 is added to the bytes of the rows, which flips their upper bits, and 128 times the sum of each column is
taken off again: one more row of products for all the rows of a block.

bfloat16: AVX512-BF16's vdpbf16ps adds the two products one after the other, each exact and rounded once, as a fused
multiply-add does; so the error of a sum is that of float32 in another order. It takes subnormal numbers as zeros, and
gives none (docs/semantics.md).
"""

from __future__ import annotations

from whit.dtype import DType, dtypes
from whit.ir import ops
from whit.ir.args import DotArg
from whit.ir.graph import topological
from whit.ir.uop import UOp, as_index, const, make
from whit.kernel.contraction import Contraction
from whit.kernel.ranges import replace_ranges, size_of
from whit.records import replace
from whit.simplify import simplify
from whit.target import Target

WORD = 4  # bytes
UPPER_BITS = -0x7F7F7F80  # 0x80808080: 128 in each of four bytes
BYTES = (dtypes.int8, dtypes.uint8)
BITS = {1: dtypes.uint8, 2: dtypes.uint16}
PLAIN = DotArg(dtypes.uint8, dtypes.int8)  # what the instruction for bytes takes


def as_dot(body: UOp, target: Target) -> UOp | None:
    """The kernel with its sum of products by words; None if it is none, or the target cannot do it."""
    reduce = _only_sum_of_products(body) if target.renderer == "LLVM" else None
    if reduce is None:
        return None
    product, *ranges = reduce.src
    left, right = (side.src[0] if side.op is ops.CAST else side for side in product.src)
    if not _has_instruction(left.dtype, right.dtype, reduce.dtype, target):
        return None
    count = WORD // left.dtype.itemsize
    along = _divided(ranges, count)
    if along is None:
        return None
    by_word = along.resized(size_of(along) // count)
    words = [_together(side, along, by_word * count, count) for side in (left, right)]
    dot = make(ops.DOT, (*words, const(reduce.dtype, 0)), DotArg(left.dtype, right.dtype))
    total = dot.reduce(ops.ADD, ranges=tuple([by_word if r is along else r for r in ranges]))
    for k in range(size_of(by_word) * count, size_of(along)):
        total = total + replace_ranges(product, {along: as_index(k)}, {})
    return simplify(body.substitute({reduce: total}))


def _only_sum_of_products(body: UOp) -> UOp | None:
    """The one reduction of a kernel, if it sums up products."""
    reduces = [node for node in topological((body,)) if node.op is ops.REDUCE]
    if len(reduces) != 1 or reduces[0].arg.op is not ops.ADD:
        return None
    product, *ranges = reduces[0].src
    return reduces[0] if product.op is ops.MUL and ranges else None


def _has_instruction(left: DType, right: DType, total: DType, target: Target) -> bool:
    if left in BYTES and right in BYTES:
        is_signed = dtypes.int8 in (left, right)
        return is_signed and total is dtypes.int32 and "avx512vnni" in target.features
    is_bfloat = left is right is dtypes.bfloat16
    return is_bfloat and total is dtypes.float32 and "avx512bf16" in target.features


def _divided(ranges: list[UOp], count: int) -> UOp | None:
    """The range along which words are put together: all of it, or if it is the only one, up to a rest."""
    if not all(isinstance(r.size, int) for r in ranges):
        return None
    whole = [r for r in ranges if size_of(r) % count == 0]
    if whole:
        return whole[-1]
    return ranges[0] if len(ranges) == 1 and size_of(ranges[0]) > count else None


def _together(value: UOp, r: UOp, start: UOp, count: int) -> UOp:
    """Neighbours along a range as one int32, the first the lowest."""
    size = value.dtype.itemsize
    result = const(dtypes.int32, 0)
    for i in range(count):
        part = replace_ranges(value, {r: start + i}, {})
        bits = part if part.dtype is BITS[size] else part.bitcast(BITS[size])
        result = result | make(ops.SHL, (bits.cast(dtypes.int32), const(dtypes.int32, 8 * size * i)))
    return result


def prepared(found: Contraction) -> Contraction:
    """The contraction with rows that the instruction takes."""
    return replace(found, a=found.a ^ const(dtypes.int32, UPPER_BITS)) if _are_signed(found) else found


def _parts(found: Contraction) -> DotArg | None:
    """What the words of a and b are made of; None where this is no product of words."""
    product = found.reduce.src[0]
    if product.op is not ops.DOT:
        return None
    is_left = found.b is product.src[1]
    return DotArg(product.arg.left, product.arg.right) if is_left else DotArg(product.arg.right, product.arg.left)


def _are_signed(found: Contraction) -> bool:
    """Whether both operands are signed bytes."""
    return _parts(found) == DotArg(dtypes.int8, dtypes.int8)


def product_of(found: Contraction, a: UOp, b: UOp) -> UOp:
    """An element of a row times a vector of columns."""
    parts = _parts(found)
    if parts is None:
        return a * b
    zero = const(found.reduce.dtype, 0)
    if parts.left.is_float:
        return make(ops.DOT, (a, b, zero), parts)
    return make(ops.DOT, (b, a, zero) if parts.right.is_unsigned else (a, b, zero), PLAIN)


def too_much(found: Contraction, b: UOp) -> UOp | None:
    """What 128 in each byte of a row adds to a product, if that was added."""
    if not _are_signed(found):
        return None
    return make(ops.DOT, (const(dtypes.int32, UPPER_BITS), b, const(dtypes.int32, 0)), PLAIN)
