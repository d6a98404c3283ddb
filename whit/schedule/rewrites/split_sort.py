"""Sorting: the memory that a kernel works in, and long rows on all cores.

A kernel that sorts gets scratch memory from the schedule, as further sources of its SORT. Its shape says how the rows
are handed out and which way to go (`whit.codegen.cpu.sort` follows):

    none                             rows are short enough to count, for each element, those in front of it
    (blocks, 2, n)                   radix sort, from one half to the other; `blocks` rows are sorted at the same time
    (blocks, 2, less than n)         the first few: candidates are collected, and sorted when there is no more room

One word of it holds a key and, where positions are wanted, the position beside it; if 64 bits are not enough for both,
there are two memories.

A single long row would use one core. It is sorted in two pieces, which a second kernel merges:

    sort of (10000000,)    ->    sort( sort of pieces of 5000000, runs=5000000 )

A GPU needs no scratch memory: a block sorts up to 4096 elements in its own, and longer rows are cut into pieces:

    sort of (10000,)                  ->    pieces of 4096, merged to pieces of 8192, merged
    sort of (50257,), the first 50    ->    sort of the first 50 of each of (13, 3866), of which the first 50
"""

from __future__ import annotations

from math import nan, prod

from whit.dtype import DType, dtypes
from whit.ir import ops
from whit.ir.free import free_ranges
from whit.ir.graph import topological
from whit.ir.rules import Rules, function_rule
from whit.ir.uop import UOp, const, make
from whit.records import replace
from whit.schedule.values import prod_of
from whit.target import Target

SHORT_ELEMENTS = 192  # up to here counting is faster than a radix sort (bench/cpu.py)
WORTH_TWO_CORES_ELEMENTS = 1 << 16  # elements of a row that is sorted in two pieces
FEW_ROWS = 2  # rows that do not keep the cores busy
SELECTED_SHARE = 8  # the first n/8 and less are selected instead of sorted
LEAST_CANDIDATES = 32  # candidates at least that are collected before they are sorted
MOST_BLOCKS = 64
GPU_PIECE_ELEMENTS = 4096  # elements that a block of a GPU sorts
GPU_SELECTED_SHARE = 2  # the first 4096/2 and less of a row are those of the first of its pieces
BLOCK_WORDS = 1 << 18  # scratch words of all blocks together, if there are more than 8


@function_rule(ops.SORT)
def split_long_sort(node: UOp, target: Target) -> UOp | None:
    """sort of a long row -> sort of its sorted halves"""
    if target.is_gpu:
        return _split_for_gpu(node)
    key, value = node.src
    arg, size = node.arg, node.src[0].shape[node.arg.axis]
    rows = prod_of(key.shape) // max(size, 1)
    if (
        arg.piece
        or arg.runs
        or size < WORTH_TWO_CORES_ELEMENTS
        or rows > FEW_ROWS
        or arg.count * SELECTED_SHARE <= size
    ):
        return None
    half = -(-size // 2)
    pieces = replace(arg, count=size, piece=half)
    keys = make(ops.SORT, (key, key), pieces)
    values = keys if value is key else make(ops.SORT, (key, value), pieces)
    return make(ops.SORT, (keys, values), replace(arg, runs=half))


def _split_for_gpu(node: UOp) -> UOp | None:
    """sort of a long row -> sort of pieces of 4096, merged two by two; or of the first few of each piece"""
    (key, value), arg = node.src, node.arg
    size = key.shape[arg.axis]
    if arg.piece or arg.runs or size <= GPU_PIECE_ELEMENTS:
        return None
    if arg.count * GPU_SELECTED_SHARE <= GPU_PIECE_ELEMENTS:
        return _first_of_pieces(node)
    run = GPU_PIECE_ELEMENTS
    while True:
        sort = replace(arg, count=size, piece=run, runs=run // 2 if run > GPU_PIECE_ELEMENTS else 0)
        if run >= size:
            return make(ops.SORT, (key, value), replace(sort, count=arg.count, piece=0))
        key, value = make(ops.SORT, (key, key), sort), make(ops.SORT, (key, value), sort)
        run *= 2


def _first_of_pieces(node: UOp) -> UOp:
    """sort of (50257,), the first 50 -> sort of the first 50 of each of (13, 3866)"""
    arg, axis = node.arg, node.arg.axis
    size = node.src[0].shape[axis]
    pieces = -(-size // GPU_PIECE_ELEMENTS)
    length = -(-size // pieces)
    key, value = (_in_pieces(source, axis, pieces, length) for source in node.src)
    if pieces * length > size:
        alone = tuple(n if a in (axis, axis + 1) else 1 for a, n in enumerate(key.shape))
        inside = (UOp.arange(pieces * length, dtypes.int64) < size).reshape(alone).expand(key.shape)
        key = inside.where(key, _last_key(key.dtype, arg.descending))
    stored = replace(arg, count=min(arg.count, length), axis=axis + 1)
    shape = (*node.src[0].shape[:axis], pieces * stored.count, *node.src[0].shape[axis + 1 :])
    value = key if node.src[1] is node.src[0] else value
    keys, values = (make(ops.SORT, (key, each), stored).reshape(shape) for each in (key, value))
    again = make(ops.SORT, (keys, values), arg)
    split = _split_for_gpu(again)
    return again if split is None else split


def _in_pieces(value: UOp, axis: int, pieces: int, length: int) -> UOp:
    """An axis as pieces, filled up at its end."""
    extra = pieces * length - value.shape[axis]
    padded = value.pad([(0, extra if a == axis else 0) for a in range(len(value.shape))]) if extra else value
    return padded.reshape((*value.shape[:axis], pieces, length, *value.shape[axis + 1 :]))


def _last_key(dtype: DType, descending: bool) -> UOp:
    """A key that none comes after."""
    if dtype.is_float and not descending:
        return const(dtype, nan)
    identity = (ops.MAX if descending else ops.MIN).identity
    assert identity is not None, "MAX and MIN have an identity"
    return const(dtype, identity(dtype))


SPLIT_SORT = Rules("split_sort", (split_long_sort,))


def sorts_of(root: UOp) -> list[UOp]:
    """The sorts of a kernel."""
    return [node for node in topological((root,)) if node.op is ops.SORT]


def scratch_of(body: UOp, first_id: int, target: Target) -> list[UOp]:
    """Memory for the sorts of a kernel, which all have the same keys; numbered from an id on."""
    found = sorts_of(body)
    if not found or target.is_gpu:
        return []
    key, _, along, _ = found[0].src
    arg, size = found[0].arg, along.size
    assert isinstance(size, int), "rows that are sorted have a known size"
    if arg.runs or size <= SHORT_ELEMENTS:
        return []
    free = free_ranges(body)
    rows = prod(int(r.size) for r in free[key] - {along} if isinstance(r.size, int))
    piece = arg.piece or size
    blocks = rows * -(-size // piece)
    capacity = piece
    if arg.count * SELECTED_SHARE <= size:
        capacity = min(arg.count + 2 * max(LEAST_CANDIDATES, arg.count), piece)
    blocks = min(blocks, MOST_BLOCKS, max(8, BLOCK_WORDS // capacity))
    has_positions = any(node.src[1] is not node.src[0] for node in found)
    words = _words(key.dtype, size if has_positions else 1)
    return [UOp.buffer(first_id + i, word, (blocks, 2, capacity)) for i, word in enumerate(words)]


def _words(key: DType, size: int) -> list[DType]:
    """The words of a record: a key and a position below `size`."""
    bits = 8 * key.itemsize + (size - 1).bit_length()
    if bits > 64:
        return [dtypes.uint64, dtypes.uint32 if size <= 1 << 32 else dtypes.uint64]
    return [next(word for word in _UNSIGNED if word.bitsize >= bits)]


_UNSIGNED = (dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64)


def with_scratch(body: UOp, scratch: list[UOp]) -> UOp:
    """The kernel with the memory as sources of its sorts."""
    return body.substitute({node: make(ops.SORT, (*node.src, *scratch), node.arg) for node in sorts_of(body)})
