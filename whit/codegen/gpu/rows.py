"""Rows that are kept in registers: whatever is reduced, and computed of the results, is read once.

    store p0[r0, k] = x[r0, k] / (sum over j < 8192 of x[r0, j])

    ->  r0 = block; thread t has the elements 4*t + (0, 1, 2, 3), 1024 + 4*t + (0, 1, 2, 3), ...: eight loads;
        their sum; of 32 threads by exchange between them, of a block through shared memory;
        eight quotients, and eight stores, of the vectors that were loaded for the sum

All passes over a row are written out for the same elements, so that they are the same nodes: nothing says that a
register is kept. Rows of at most 1024 elements have 32 threads each, and no barriers; a block has several of them. What
is past the end of a row is not read, and adds nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from whit.codegen.gpu.reduce import COMBINES, WARP, across_rows, vector_positions
from whit.codegen.gpu.thread_index import (
    Copy,
    Free,
    as_wide,
    block_range,
    lanes_of,
    narrowed,
    once,
    only_where,
    places_along,
    thread_range,
    unravel,
    width_of,
)
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.map_graph import rebuilt
from whit.ir.nesting import Owner
from whit.ir.uop import UOp, const, make
from whit.kernel.ranges import Region, is_open, size_of, sizes_of
from whit.target import GPU_LIMITS, Target

MOST_THREADS = GPU_LIMITS.block_threads
THREADS = 128  # of a block of several rows
THREAD_ELEMENTS = 32  # of a thread in registers, of all that is read more than once
ENOUGH_THREADS = 1 << 17  # threads that fill the chip
MOST_NODES = 1 << 13  # that are written out: they take time to compile


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a kernel, and who has which elements."""

    ranges: list[UOp]  # whose digits the number of a row is
    count: int
    along: set[UOp]  # the ranges along a row
    size: int
    threads: int  # of a row
    lanes: int
    together: int  # rows of a block

    @property
    def trips(self) -> int:
        """Vectors of a thread."""
        return -(-self.size // (self.threads * self.lanes))


def find_rows(
    body: UOp, target: Target, free: Free, found: list[Region], shared: dict[UOp, UOp], parallel: list[UOp]
) -> Rows | None:
    """How a kernel whose reductions are `shared` is computed by rows; None if these are not alike, or there is too much
    of them."""
    ranges = [r for r in parallel if any(r in free[reduce] for reduce in shared)]
    along = _along_rows(body, free, shared, [r for r in parallel if r not in ranges])
    if not along:
        return None
    size = size_of(next(iter(along)))
    width = width_of(body, target, along, free)
    lanes = min(lanes_of(r, width, places_along(r, free), free) for r in along)
    count, most = prod(sizes_of(ranges)), max(THREAD_ELEMENTS // _kept(found, along), lanes)
    threads = _threads_of_a_row(size, lanes, most, count)
    trips = -(-size // (threads * lanes))
    if threads * most < size or trips * sum(region.nodes for region in found) > MOST_NODES:
        return None
    return Rows(ranges, count, along, size, threads, lanes, _rows_of_a_block(threads, count, target))


def _along_rows(body: UOp, free: Free, shared: dict[UOp, UOp], others: list[UOp]) -> set[UOp]:
    """The ranges along rows, those of reductions and of stores, if all are of one known size; else none."""
    beside = [[r for r in others if r in free[store]] for store in body.src]
    along = {*shared.values(), *(r for rest in beside for r in rest)}
    if any(map(is_open, along)) or len({r.size for r in along}) > 1 or any(len(rest) > 1 for rest in beside):
        return set()
    is_simple = all(len(reduce.src) == 2 and reduce.arg.op in COMBINES for reduce in shared)
    return along if is_simple else set()


def _threads_of_a_row(size: int, lanes: int, most: int, count: int) -> int:
    """The fewest that have at most `most` elements each, and fill the chip: one vector each at least."""
    threads = WARP
    while threads * lanes < size and threads < MOST_THREADS:
        if threads * most >= size and count * threads >= ENOUGH_THREADS:
            break
        threads *= 2
    return threads


def _rows_of_a_block(threads: int, count: int, target: Target) -> int:
    """Several short rows, as long as there are blocks for all multiprocessors."""
    together = 1
    while threads * together < THREADS and count % (2 * together) == 0 and count > 2 * together * target.cores:
        together *= 2
    return together


def _kept(found: list[Region], along: set[UOp]) -> int:
    """How many elements of a row, at each place, several passes read."""
    one = dict.fromkeys(along, UOp.range(1, 0, owner=Owner.UNKNOWN))
    passes = [{load.substitute(one) for load in region.loads} - set(region.loads) for region in found]
    often = {load for i, loads in enumerate(passes) for other in passes[:i] for load in loads & other}
    return max(len(often), 1)


def tile_rows(body: UOp, free: Free, rows: Rows) -> tuple[UOp, str]:
    """The kernel by rows, and what it is."""
    blocks, threads = rows.count // rows.together, rows.threads * rows.together
    block = block_range(blocks)
    thread = thread_range(threads)
    mine, number = thread, block
    if rows.together > 1:
        mine, number = thread % rows.threads, block * rows.together + thread // rows.threads
    indices = unravel(number, rows.ranges, {})
    copies = _copies(rows, mine, indices)
    stores: list[UOp] = []
    results = 0
    for node in topological((body,)):
        is_along = not free[node].isdisjoint(rows.along)
        if node.op is ops.STORE:
            gates = once(node, indices, rows.ranges, free)
            last = [] if is_along else [mine.eq(0)]
            for copy in copies if is_along else copies[:1]:
                inside = [] if copy.gate is None else [copy.gate]
                stores.append(only_where(rebuilt(node, copy.sources(node)), [*gates, *inside, *last]))
        elif node.op is ops.REDUCE and not rows.along.isdisjoint(node.src[1:]):
            value = _of_a_thread(node, copies, rows.lanes)
            new = across_rows(value, node.arg.op, thread, rows.threads, results)
            results += 1
            for copy in copies:
                copy.values[node] = new
        elif node.op is not ops.GROUP:
            for copy in copies:
                copy.values[node] = _in_copy(node, copy, is_along)
    shares = f"{rows.trips} x {rows.lanes} elements in each"
    return UOp.group(*stores), f"{blocks} blocks of {threads} threads, {rows.threads} for each row, {shares}"


def _copies(rows: Rows, mine: UOp, indices: dict[UOp, UOp]) -> list[Copy]:
    """The vectors of thread `mine` of a row; the last ones may be past its end."""
    numbers = [mine + trip * rows.threads for trip in range(rows.trips)]
    gates: list[UOp | None] = [None] * rows.trips
    if rows.size % (rows.threads * rows.lanes):
        gates[-1] = numbers[-1] < rows.size // rows.lanes
    return [
        Copy({**indices, **dict.fromkeys(rows.along, vector_positions(number, rows.lanes))}, gate)
        for number, gate in zip(numbers, gates, strict=True)
    ]


def _in_copy(node: UOp, copy: Copy, is_along: bool) -> UOp:
    """A node for the elements of a copy: of memory, those that are inside of the row are read."""
    if node in copy.values:
        return copy.values[node]
    src = copy.sources(node)
    if not is_along or copy.gate is None or node.op is not ops.INDEX or node.src[0].op is not ops.PARAM:
        return rebuilt(node, src)
    memory, position, *given = src
    return memory.index(position, gate=as_wide(narrowed(copy.gate, given), position))


def _of_a_thread(node: UOp, copies: list[Copy], lanes: int) -> UOp:
    """What a thread has of a reduction."""
    op, dtype = node.arg.op, node.dtype
    identity = const(dtype, op.identity(dtype))
    total = identity
    for copy in copies:
        value = copy.values[node.src[0]]
        if lanes > 1 and not value.shape:
            value = UOp.stack(*([value] * lanes))
        total = make(op, (total, value if copy.gate is None else copy.gate.where(value, identity)))
    return total.reduce(op, axes=(0,)) if total.shape else total
