"""Sums of products of small numbers, by the instructions that multiply and add all that fit 32 bits at once.

    sum over k of int32(a[m, k]) * int32(b[k, n])      ->    sum over k/4 of dot(a[m, 4k .. 4k+3], b[4k .. 4k+3, n])
    sum over k of float32(a[m, k]) * float32(b[k, n])  ->    sum over k/2 of dot(a[m, 2k .. 2k+1], b[2k .. 2k+1, n])

Four bytes or two bfloat16 along k are one int32 of an operand, a word, put together where the operand is copied into
its panel, so that rows, columns and tiles are those of a contraction of int32 (`tiling`, `panels`). Where k is no
multiple, the products that are left over are added to the sum of the others.

Bytes: VNNI's vpdpbusd wants unsigned bytes on its left and signed ones on its right, and its sums are exact. Where both
are signed, 128 is added to the bytes of the rows, which flips their upper bits, and 128 times the sum of each column is
taken off again: one more row of products for all the rows of a block.

Where bytes lie in memory side by side along k, from a multiple of four on, the param is read as one of int32: nothing
is put together, so rows of an image whose channels are last and weights in panels are read where they are.

bfloat16: AVX512-BF16's vdpbf16ps adds the two products one after the other, each exact and rounded once, as a fused
multiply-add does; so the error of a sum is that of float32 in another order. It takes subnormal numbers as zeros, and
gives none (docs/semantics.md).
"""

from __future__ import annotations

from whit.dtype import DType, dtypes
from whit.ir import ops
from whit.ir.args import DotArg
from whit.ir.graph import topological
from whit.ir.nesting import Owner
from whit.ir.uop import UOp, as_index, const, make
from whit.kernel.contraction import Contraction
from whit.kernel.ranges import free_ranges, next_id, replace_ranges, size_of
from whit.records import dataclass, replace
from whit.simplify import simplify
from whit.simplify.sums import linear_form
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
    whole = size_of(along) // count
    by_word = along.resized(whole)
    at = by_word if whole > 1 else as_index(0)
    words = [_word(side, along, at * count, count) for side in (left, right)]
    dot = make(ops.DOT, (*words, const(reduce.dtype, 0)), DotArg(left.dtype, right.dtype))
    outer = [by_word if r is along else r for r in ranges if r is not along or whole > 1]
    total = dot.reduce(ops.ADD, ranges=tuple(outer)) if outer else dot
    for k in range(whole * count, size_of(along)):
        total = total + replace_ranges(product, {along: as_index(k)}, {})
    return _panels_apart(simplify(body.substitute({reduce: total})))


def _panels_apart(body: UOp) -> UOp:
    """The kernel with two ranges for columns that lie in panels, r // 64 and r % 64, as `lies_in_panels` knows them."""
    nodes = topological((body,))
    sizes: dict[UOp, set[int]] = {}
    for node in nodes:
        if node.op in (ops.FLOORDIV, ops.FLOORMOD) and node.src[0].op is ops.RANGE and node.src[1].op is ops.CONST:
            sizes.setdefault(node.src[0], set()).add(node.src[1].arg)
    for r, found in sizes.items():
        size = min(found)
        is_whole = r.arg.owner is Owner.OUTPUT and isinstance(r.size, int) and size_of(r) % size == 0
        if len(found) > 1 or not is_whole or size_of(r) == size:
            continue
        inner = UOp.range(size, next_id(Owner.OUTPUT, nodes), r.arg.kind, Owner.OUTPUT)
        body = simplify(replace_ranges(body, {r: r.resized(size_of(r) // size) * size + inner}, {}))
        nodes = topological((body,))
    return body


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


def _word(value: UOp, r: UOp, start: UOp, count: int) -> UOp:
    """`count` neighbours along a range as one int32: read as one where they lie in memory so."""
    reader = _Reader(r, start, count, free_ranges(value))
    parts: dict[UOp, UOp | None] = {}
    for node in topological((value,)):
        if node.dtype in BYTES and not node.shape:
            parts[node] = reader.word_of(node, parts)
    found = parts.get(value)
    return _together(value, r, start, count) if found is None else found


@dataclass(frozen=True, slots=True)
class _Reader:
    """Makes words of `count` neighbours along a range, from `start` on."""

    r: UOp
    start: UOp
    count: int
    free: dict[UOp, frozenset[UOp]]

    def moves(self, *nodes: UOp) -> bool:
        """Whether any of these depends on the range."""
        return any(self.r in self.free.get(node, ()) for node in nodes)

    def word_of(self, node: UOp, parts: dict[UOp, UOp | None]) -> UOp | None:
        """A small number of an operand, with the neighbours that make it a word; None where these lie apart."""
        size = node.dtype.itemsize
        if node.op is ops.CONST:
            return const(dtypes.int32, _repeated(int(node.arg), size))
        if not self.moves(node):
            return node.bitcast(BITS[size]).cast(dtypes.int32) * const(dtypes.int32, _repeated(1, size))
        if node.op is ops.INDEX:
            return self.read(node)
        given = [parts.get(s) for s in node.src if s.dtype in BYTES]
        small = tuple([part for part in given if part is not None])
        return self._of_words(node, small) if small and len(small) == len(given) else None

    def _of_words(self, node: UOp, words: tuple[UOp, ...]) -> UOp | None:
        """The same of whole words, if an op works on bits."""
        if node.op in (ops.AND, ops.OR, ops.XOR):
            return make(node.op, words)
        if node.op is ops.BITCAST:
            return words[0]
        is_choice = node.op is ops.WHERE and len(words) == 2 and not self.moves(node.src[0])
        return make(ops.WHERE, (node.src[0], *words)) if is_choice else None

    def read(self, node: UOp) -> UOp | None:
        """Elements side by side that begin where a word does."""
        memory, position, *gate = node.src
        size = memory.shape[0] if memory.op is ops.PARAM and len(memory.shape) == 1 else None
        if not isinstance(size, int) or size % self.count or self.moves(*gate) or not self._begins_words(position):
            return None
        place = simplify(replace_ranges(position, {self.r: self.start}, {}) // self.count)
        words = UOp.param(memory.arg.slot, dtypes.int32, (size // self.count,), memory.arg.device)
        return words.index(place, gate=gate[0] if gate else None)

    def _begins_words(self, position: UOp) -> bool:
        """Whether a position is a multiple of a word, but for the range, which moves by one."""
        factors, offset = linear_form(position)
        if factors.pop(self.r, 0) != 1 or self.moves(*factors):
            return False
        return all(factor % self.count == 0 for factor in (*factors.values(), offset))


def _repeated(bits: int, itemsize: int) -> int:
    """A number in each part of a word."""
    whole = (bits & ((1 << 8 * itemsize) - 1)).to_bytes(itemsize, "little") * (WORD // itemsize)
    return int.from_bytes(whole, "little", signed=True)


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
