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

from whit.codegen.gpu.gemv.rows import LEAST_ON_THE_WAY, MOST_TOGETHER, ON_THE_WAY, WARP, Free, digits_of, matrix_of
from whit.codegen.gpu.thread_index import block_range, thread_range
from whit.codegen.passes.lanes import lane_numbers
from whit.ir import ops
from whit.ir.args import AcrossArg, Memory, RangeKind, StageArg
from whit.ir.map_graph import map_graph
from whit.ir.nesting import Owner
from whit.ir.op import Sources
from whit.ir.uop import UOp, as_index, make
from whit.kernel.ranges import Region, free_ranges, in_order, ordered_ranges, regions, replace_ranges, size_of, stride
from whit.target import Target

THREADS = 512
MOST_BESIDE = 16  # threads along the columns of a row
LEAST_BESIDE = 4  # with 16 bytes each
LEAST_DEPTH = 64
LEAST_ELEMENTS = 1 << 16  # of a matrix that are worth it


@dataclass(frozen=True, slots=True)
class Block:
    """How the threads of a block share columns and rows of a matrix."""

    free: Free
    along: dict[UOp, UOp]  # REDUCE -> the range that threads share
    column: UOp  # the range of neighbours
    thread: UOp
    first: UOp  # column of the block
    lanes: int
    beside: int  # threads along the columns
    steps: int  # that a thread has on its way

    @property
    def shared(self) -> list[UOp]:
        """The ranges that threads share."""
        return in_order(set(self.along.values()))

    @property
    def columns(self) -> int:
        return self.lanes * self.beside

    @property
    def near(self) -> int:
        """Parts in a warp."""
        return WARP // self.beside

    @property
    def parts(self) -> int:
        return THREADS // self.beside

    @property
    def part(self) -> UOp:
        """Which of the parts a thread has; neighbouring threads have neighbouring ones."""
        return self.thread // WARP * self.near + self.thread % self.near

    @property
    def place(self) -> UOp:
        """Where the vector of a thread is among the block's columns."""
        return self.thread // self.near % self.beside * self.lanes


def tile_vecmat(body: UOp, target: Target) -> tuple[UOp, str] | None:
    """The kernel with a block for each few columns of a matrix and why, if it is a product of few rows."""
    free = free_ranges(body)
    if any(node.op in (ops.SCAN, ops.SORT, ops.STAGE) for node in free) or any(store.arg.combine for store in body.src):
        return None
    found, every = regions(body)[1:], free[body]
    if not found or ordered_ranges(body, free) or any(free[store] != every for store in body.src):
        return None
    if not all(isinstance(r.size, int) for r in every) or not all(region.loads for region in found):
        return None
    along = {region.reduce: _along(region, every, free) for region in found if region.reduce is not None}
    known = {reduce: r for reduce, r in along.items() if r is not None}
    column = _column(found, every, free)
    if column is None or len(known) < len(along):
        return None
    rows = {r for region in found for r in free[matrix_of(region, free)] if r in every}
    together = in_order(every - rows)
    deep = [load for region in found for load in region.loads if column in free[load] and not free[load] <= every]
    lanes = target.vector_bytes // max((load.dtype.itemsize for load in deep), default=16)  # others are read once
    count = prod(map(size_of, together))
    wide = sum(column in free[reduce] for reduce in known)
    sums = target.l1_bytes // (4 * THREADS // WARP * count) - (len(known) - wide)  # for which a warp has memory
    beside = _beside(rows, column, lanes, sums // wide, target)
    if beside is None or count > MOST_TOGETHER:
        return None
    thread = thread_range(THREADS)
    ranges = [*in_order(rows - {column}), column]
    columns = lanes * beside
    blocks = prod(map(size_of, ranges)) // columns
    digits = digits_of(block_range(blocks), ranges, columns)
    steps = max(ON_THE_WAY // count, LEAST_ON_THE_WAY)
    block = Block(free, known, column, thread, digits[column] * columns, lanes, beside, steps)
    stores, buffers = [], 0
    for places in product(*(range(size_of(r)) for r in together)):
        at = {r: as_index(place) for r, place in zip(together, places, strict=True)}
        shared = _shared(body, block, {**digits, **at}, buffers)
        buffers += len(known)
        for store in shared.src:
            new = replace_ranges(store, {**digits, **at, column: block.first + thread % columns}, {})
            memory, value, position, *given = new.src
            gate = thread < columns
            stores.append(memory.store(value, position, gate=gate & given[0] if given else gate))
    return UOp.group(*stores), f"{blocks} blocks of {THREADS} threads, {columns} columns of {count} products in each"


def _along(region: Region, every: frozenset[UOp], free: Free) -> UOp | None:
    """The longest range of a reduction, if threads can share it."""
    reduce = region.reduce
    if reduce is None or reduce.dtype.itemsize != 4 or not reduce.dtype.is_float or not free[reduce] <= every:
        return None
    longest = max(reduce.src[1:], key=size_of)
    return longest if size_of(longest) >= LEAST_DEPTH else None


def _column(found: list[Region], every: frozenset[UOp], free: Free) -> UOp | None:
    """The range along which matrices have neighbours, and everything else too or nothing."""
    for r in every:
        products = [region for region in found if region.reduce is not None and r in free[region.reduce]]
        matrices = [matrix_of(region, free) for region in products]
        steps = {stride(load.src[1], r, free) for region in products for load in region.loads}
        if not products or any(len(region.loads) < 2 for region in products) or not steps <= {0, 1}:
            continue
        large = all(prod(map(size_of, free[load])) >= LEAST_ELEMENTS for load in matrices)
        if large and all(stride(load.src[1], r, free) == 1 for load in matrices):
            return r
    return None


def _beside(rows: set[UOp], column: UOp, lanes: int, most: int, target: Target) -> int | None:
    """Threads along the columns of a row: many, as long as there are enough blocks; at most so many columns."""
    beside = MOST_BESIDE
    while beside > LEAST_BESIDE and (
        lanes * beside > most
        or size_of(column) % (lanes * beside)
        or prod(map(size_of, rows)) // (lanes * beside) < target.cores * 15 // 8
    ):
        beside //= 2
    return beside if 1 < lanes <= most // beside and size_of(column) % (lanes * beside) == 0 else None


def _shared(body: UOp, block: Block, values: dict[UOp, UOp], first: int) -> UOp:
    """Every reduction shared between the threads of a block. Ranges outside of them are replaced by values, but for the
    column, of which a thread has several inside of reductions and one outside."""
    ids = itertools.count(first)

    def combined(node: UOp, src: Sources) -> UOp | None:
        return _combined(node, block, values, next(ids)) if node in block.along else None

    return map_graph(body, combined)


def _combined(node: UOp, block: Block, values: dict[UOp, UOp], id: int) -> UOp:
    """A reduction over the part of each thread, then across the parts of a warp, then over the warps."""
    op, r = node.arg.op, block.along[node]
    value, *ranges = node.src
    is_wide = block.column in block.free[node]
    vector = block.first + block.place + lane_numbers(block.lanes) if is_wide else block.first
    value = replace_ranges(value, {**values, block.column: vector}, {})
    steps = block.steps if isinstance(r.size, int) else 1
    while steps > 1 and size_of(r) % (block.parts * steps):
        steps -= 1
    rounds = as_index(size_of(r) // (block.parts * steps))
    if size_of(r) % block.parts or not isinstance(r.size, int):
        rounds = (as_index(r.size) + (block.parts - 1) - block.part) // block.parts
    loop = UOp.range(rounds, block.shared.index(r), r.arg.kind, Owner.PART)
    places = [(loop * steps + step) * block.parts + block.part for step in range(steps)]
    part = functools.reduce(lambda a, b: make(op, (a, b)), (replace_ranges(value, {r: at}, {}) for at in places))
    total = part.reduce(op, ranges=(*(other for other in ranges if other is not r), loop))
    near = make(ops.ACROSS, (total, block.thread), AcrossArg(op, block.near))
    line = block.columns if is_wide else 1
    warps = THREADS // WARP
    memory = UOp.buffer(id, node.dtype, (warps * line,), memory=Memory.SHARED)
    at = block.thread // WARP * line + (block.place if is_wide else as_index(0))
    is_first = (block.thread % (block.near if is_wide else WARP)).eq(0)
    if near.shape:
        at, is_first = at + lane_numbers(block.lanes), UOp.stack(*([is_first] * block.lanes))
    fill = memory.store(near, at, gate=is_first)
    filled = memory.after(make(ops.STAGE, (UOp.group(fill),), StageArg(Memory.SHARED)))
    every = UOp.range(warps, id, RangeKind.REDUCE, Owner.TEAM)
    return filled.index(every * line + (block.thread % line if is_wide else as_index(0))).reduce(op, ranges=(every,))
