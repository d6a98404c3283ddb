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

from whit.codegen.gpu.reduce import COMBINES, WARP, across_rows, spread
from whit.codegen.gpu.thread_index import (
    Free,
    block_range,
    digits_of,
    lanes_of,
    only_where,
    places_along,
    thread_range,
    width_of,
)
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.map_graph import rebuilt
from whit.ir.nesting import Owner
from whit.ir.uop import UOp, const, make
from whit.kernel.ranges import Region, size_of
from whit.target import Target

MOST_THREADS = 1024
THREADS = 128  # of a block of several rows
ELEMENTS = 32  # of a thread, of all that is read more than once
ENOUGH = 1 << 17  # threads that fill the chip
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
    beside = [[r for r in parallel if r in free[store] and r not in ranges] for store in body.src]
    along = {*shared.values(), *(r for rest in beside for r in rest)}
    size, *others = {r.size for r in along}
    if others or not isinstance(size, int) or any(len(rest) > 1 for rest in beside):
        return None
    if any(len(reduce.src) > 2 or reduce.arg.op not in COMBINES for reduce in shared):
        return None
    width = width_of(body, target, along, free)
    lanes = min(lanes_of(r, width, places_along(r, free), free) for r in along)
    count, most = prod(size_of(r) for r in ranges), max(ELEMENTS // _kept(found, along), lanes)
    threads = WARP
    while threads * lanes < size and threads < MOST_THREADS:
        if threads * most >= size and count * threads >= ENOUGH:
            break
        threads *= 2
    trips = -(-size // (threads * lanes))
    if threads * most < size or trips * sum(region.nodes for region in found) > MOST_NODES:
        return None
    together = 1
    while threads * together < THREADS and count % (2 * together) == 0 and count > 2 * together * target.cores:
        together *= 2
    return Rows(ranges, count, along, size, threads, lanes, together)


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
    several = rows.together > 1
    mine = thread % rows.threads if several else thread
    digits = digits_of(block * rows.together + thread // rows.threads if several else block, rows.ranges, {})
    numbers = [mine + trip * rows.threads for trip in range(rows.trips)]  # of vectors
    copies = [{**digits, **dict.fromkeys(rows.along, spread(number, rows.lanes))} for number in numbers]
    gates: list[UOp | None] = [None] * rows.trips
    if rows.size % (rows.threads * rows.lanes):
        gates[-1] = numbers[-1] < rows.size // rows.lanes
    stores: list[UOp] = []
    results = 0
    for node in topological((body,)):
        if node.op is ops.GROUP:
            continue
        is_along = not free[node].isdisjoint(rows.along)
        if node.op is ops.REDUCE and not rows.along.isdisjoint(node.src[1:]):
            value = _of_a_thread(node, [copy[node.src[0]] for copy in copies], gates, rows.lanes)
            new = across_rows(value, node.arg.op, thread, rows.threads, results)
            results += 1
            for copy in copies:
                copy[node] = new
            continue
        for copy, gate in zip(copies, gates, strict=True):
            if node not in copy:
                src = tuple([copy[s] for s in node.src])
                copy[node] = rebuilt(node, src)
                if is_along and gate is not None and node.op is ops.INDEX and node.src[0].op is ops.PARAM:
                    memory, position, *given = src
                    copy[node] = memory.index(position, gate=_as_wide(gate & given[0] if given else gate, position))
            if node.op is ops.STORE:
                more = [digits[r].eq(0) for r in rows.ranges if r not in free[node]]
                more += [gate] if gate is not None else []
                stores.append(only_where(copy[node], more if is_along else [*more, mine.eq(0)]))
                if not is_along:
                    break
    shares = f"{rows.trips} x {rows.lanes} elements in each"
    return UOp.group(*stores), f"{blocks} blocks of {threads} threads, {rows.threads} for each row, {shares}"


def _as_wide(value: UOp, like: UOp) -> UOp:
    return UOp.stack(*([value] * like.shape[0])) if like.shape and not value.shape else value


def _of_a_thread(node: UOp, values: list[UOp], gates: list[UOp | None], lanes: int) -> UOp:
    """What a thread has of a reduction."""
    op, dtype = node.arg.op, node.dtype
    identity = const(dtype, op.identity(dtype))
    total = identity
    for value, gate in zip(values, gates, strict=True):
        if lanes > 1 and not value.shape:
            value = UOp.stack(*([value] * lanes))
        total = make(op, (total, value if gate is None else gate.where(value, identity)))
    return total.reduce(op, axes=(0,)) if total.shape else total
