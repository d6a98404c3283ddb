"""Products of few rows with a matrix whose columns are side by side, on a GPU: each block has a few columns.

    y[n] = sum over k of x[k] * w[k, n]            4096 x 4096, bfloat16

    ->  128 blocks of 512 threads, each with 32 columns: four threads beside each other have eight each, and read 16
        bytes of a row of w at once; 128 such fours share the rows

        sum over o of x[o*128 + part] * w[o*128 + part, column + 0 .. 7]         for the part of each thread
        across the eight parts of a warp, then over its 16 warps through shared memory

The fewer columns a block has, the more blocks there are; less than 64 bytes of a row would waste what memory delivers.
Sums are in an order that depends on sizes alone.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass
from itertools import product
from math import prod

from whit.codegen.gpu.gemv.products import Products, find_products, matrix_of
from whit.codegen.gpu.gemv.rows import LEAST_ON_THE_WAY, MOST_BATCH, ON_THE_WAY, WARP, unravel
from whit.codegen.gpu.thread_index import Free, block_range, narrowed, strided_loop, thread_range
from whit.codegen.passes.lanes import lane_numbers
from whit.ir import ops
from whit.ir.args import AcrossArg, Memory, RangeKind, StageArg
from whit.ir.map_graph import map_graph
from whit.ir.nesting import Owner
from whit.ir.op import Sources
from whit.ir.uop import UOp, as_index, make
from whit.kernel.ranges import Region, in_order, is_open, replace_ranges, size_of, sizes_of, stride
from whit.target import Target

THREADS = 512
MOST_COLUMN_THREADS = 16  # threads along the columns of a row
LEAST_COLUMN_THREADS = 4  # with 16 bytes each
LEAST_DEPTH = 64
LEAST_ELEMENTS = 1 << 16  # of a matrix that are worth it


@dataclass(frozen=True, slots=True)
class ColumnBlock:
    """How the threads of a block share columns and rows of a matrix."""

    free: Free
    along: dict[UOp, UOp]  # REDUCE -> the range that threads share
    column: UOp  # the range of neighbours
    thread: UOp
    first: UOp  # column of the block
    lanes: int
    column_threads: int  # threads along the columns
    steps: int  # vectors that a thread has on their way

    @property
    def shared(self) -> list[UOp]:
        """The ranges that threads share."""
        return in_order(set(self.along.values()))

    @property
    def columns(self) -> int:
        return self.lanes * self.column_threads

    @property
    def near(self) -> int:
        """How many threads of a warp have parts of the same columns."""
        return WARP // self.column_threads

    @property
    def parts(self) -> int:
        return THREADS // self.column_threads

    @property
    def part(self) -> UOp:
        """Which of the parts a thread has; neighbouring threads have neighbouring ones."""
        return self.thread // WARP * self.near + self.thread % self.near

    @property
    def place(self) -> UOp:
        """Where the vector of a thread is among the block's columns."""
        return self.thread // self.near % self.column_threads * self.lanes


def tile_gemv_columns(body: UOp, target: Target) -> tuple[UOp, str] | None:
    """The kernel with a block for each few columns of a matrix and why, if it is a product of few rows."""
    found = find_products(body)
    if found is None or any(map(is_open, found.results)):
        return None
    along = found.along(_along)
    column = next((r for r in found.results if _has_neighbours(found, r)), None)
    if column is None or not along:
        return None
    batch = found.batch
    count = prod(sizes_of(batch))
    lanes = _lanes(found, column, target)
    column_threads = _column_threads(found.rows, column, lanes, _most_columns(found, column, count, target), target)
    if column_threads is None or count > MOST_BATCH:
        return None
    thread = thread_range(THREADS)
    ranges = [*in_order(found.rows - {column}), column]
    columns = lanes * column_threads
    blocks = prod(sizes_of(ranges)) // columns
    indices = unravel(block_range(blocks), ranges, columns)
    steps = max(ON_THE_WAY // count, LEAST_ON_THE_WAY)
    block = ColumnBlock(found.free, along, column, thread, indices[column] * columns, lanes, column_threads, steps)
    stores, buffers = [], 0
    for places in product(*(range(size_of(r)) for r in batch)):
        at = {r: as_index(place) for r, place in zip(batch, places, strict=True)}
        shared = _shared(body, block, {**indices, **at}, buffers)
        buffers += len(along)
        for store in shared.src:
            new = replace_ranges(store, {**indices, **at, column: block.first + thread % columns}, {})
            memory, value, position, *given = new.src
            gate = thread < columns
            stores.append(memory.store(value, position, gate=narrowed(gate, given)))
    return UOp.group(*stores), f"{blocks} blocks of {THREADS} threads, {columns} columns of {count} products in each"


def _along(region: Region) -> UOp | None:
    """The longest range of a reduction, if threads can share it."""
    reduce = region.reduce
    assert reduce is not None, "callers give regions with a reduction"
    if reduce.dtype.itemsize != 4 or not reduce.dtype.is_float:
        return None
    longest = max(reduce.src[1:], key=size_of)
    return longest if size_of(longest) >= LEAST_DEPTH else None


def _has_neighbours(found: Products, r: UOp) -> bool:
    """Whether large matrices have neighbours along a range, and all else that is read has neighbours too, or one
    element."""
    free = found.free
    products = [region for reduce, region in found.regions.items() if r in free[reduce]]
    if not products or any(len(region.loads) < 2 for region in products):
        return False
    if any(stride(load.src[1], r, free) not in (0, 1) for region in products for load in region.loads):
        return False
    matrices = [matrix_of(region, free) for region in products]
    is_large = all(prod(sizes_of(free[matrix])) >= LEAST_ELEMENTS for matrix in matrices)
    return is_large and all(stride(matrix.src[1], r, free) == 1 for matrix in matrices)


def _lanes(found: Products, column: UOp, target: Target) -> int:
    """Neighbours that a thread reads at once: 16 bytes of the widest of what is read in each step along a sum."""
    loads = [load for region in found.regions.values() for load in region.loads if column in found.free[load]]
    return target.vector_bytes // max(
        (x.dtype.itemsize for x in loads if not found.free[x] <= found.results), default=16
    )


def _most_columns(found: Products, column: UOp, count: int, target: Target) -> int:
    """How many columns a block may have: each warp keeps its sums of all of them in shared memory, `count` of each
    product, and one of each sum that is the same for all columns."""
    sums = target.l1_bytes // (4 * THREADS // WARP * count)
    wide = sum(column in found.free[reduce] for reduce in found.regions)
    return (sums - (len(found.regions) - wide)) // wide


def _column_threads(rows: set[UOp], column: UOp, lanes: int, most: int, target: Target) -> int | None:
    """Threads along the columns of a row, for at most `most` columns: many, as long as blocks fill the chip."""
    column_threads = MOST_COLUMN_THREADS
    while column_threads > LEAST_COLUMN_THREADS and (
        lanes * column_threads > most
        or size_of(column) % (lanes * column_threads)
        or prod(sizes_of(rows)) // (lanes * column_threads) < target.cores * 15 // 8
    ):
        column_threads //= 2
    return (
        column_threads
        if 1 < lanes <= most // column_threads and size_of(column) % (lanes * column_threads) == 0
        else None
    )


def _shared(body: UOp, block: ColumnBlock, values: dict[UOp, UOp], first: int) -> UOp:
    """Every reduction shared between the threads of a block. Ranges outside of them are replaced by values, but for the
    column, of which a thread has several inside of reductions and one outside."""
    ids = itertools.count(first)

    def combined(node: UOp, src: Sources) -> UOp | None:
        return _combined(node, block, values, next(ids)) if node in block.along else None

    return map_graph(body, combined)


def _combined(node: UOp, block: ColumnBlock, values: dict[UOp, UOp], id: int) -> UOp:
    """A reduction over the part of each thread, then across the parts of a warp, then over the warps."""
    op, is_wide, warps = node.arg.op, block.column in block.free[node], THREADS // WARP
    total = _of_a_thread(node, block, values, block.place + lane_numbers(block.lanes) if is_wide else None)
    near = make(ops.ACROSS, (total, block.thread), AcrossArg(op, block.near))
    line, place, first = (block.columns, block.place, block.near) if is_wide else (1, as_index(0), WARP)
    memory = UOp.buffer(id, node.dtype, (warps * line,), memory=Memory.SHARED)
    at, is_first = block.thread // WARP * line + place, (block.thread % first).eq(0)
    if near.shape:
        at, is_first = at + lane_numbers(block.lanes), UOp.stack(*([is_first] * block.lanes))
    fill = memory.store(near, at, gate=is_first)
    filled = memory.after(make(ops.STAGE, (UOp.group(fill),), StageArg(Memory.SHARED)))
    every = UOp.range(warps, id, RangeKind.REDUCE, Owner.TEAM)
    return filled.index(every * line + (block.thread % line if is_wide else as_index(0))).reduce(op, ranges=(every,))


def _of_a_thread(node: UOp, block: ColumnBlock, values: dict[UOp, UOp], lanes: UOp | None) -> UOp:
    """A reduction over the part of a thread: for these lanes of the block's columns, or for none of them."""
    op, r = node.arg.op, block.along[node]
    value, *ranges = node.src
    value = replace_ranges(value, {**values, block.column: block.first if lanes is None else block.first + lanes}, {})
    rounds, steps = strided_loop(as_index(r.size), block.parts, block.part, block.steps)
    loop = UOp.range(rounds, block.shared.index(r), r.arg.kind, Owner.PART)
    places = [(loop * steps + step) * block.parts + block.part for step in range(steps)]
    part = functools.reduce(lambda a, b: make(op, (a, b)), (replace_ranges(value, {r: at}, {}) for at in places))
    return part.reduce(op, ranges=(*(other for other in ranges if other is not r), loop))
