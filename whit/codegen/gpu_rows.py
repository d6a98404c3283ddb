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

import math
from dataclasses import dataclass
from math import prod

from whit.codegen.gpu_places import Free, digits_of, lanes_of, only_where, width_of
from whit.codegen.gpu_reduce import spread
from whit.codegen.lanes import lane_numbers
from whit.codegen.ranges import Region, free_ranges, size_of
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.args import AcrossArg, Memory, RangeKind, StageArg
from whit.ir.graph import topological
from whit.ir.op import Op
from whit.ir.uop import UOp, as_index, const, make
from whit.simplify.chain import with_values
from whit.simplify.chain_online import power_of
from whit.target import Target

WARP, MOST_THREADS = 32, 1024
THREADS = 128  # of a block of several rows
ELEMENTS = 32  # of a thread, of all that is read more than once
ENOUGH = 1 << 17  # threads that fill the chip
BLOCK_ID, THREAD_ID = 0, 1  # of ranges
SMALL = 2.0**-64
COMBINES = (ops.ADD, ops.MUL, ops.MAX, ops.MIN, ops.AND, ops.OR)


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
    """How a kernel whose reductions are `shared` is computed by rows; None if these are not alike, or too long."""
    ranges = [r for r in parallel if any(r in free[reduce] for reduce in shared)]
    beside = [[r for r in parallel if r in free[store] and r not in ranges] for store in body.src]
    along = {*shared.values(), *(r for rest in beside for r in rest)}
    size, *others = {r.size for r in along}
    if others or not isinstance(size, int) or any(len(rest) > 1 for rest in beside):
        return None
    if any(len(reduce.src) > 2 or reduce.arg.op not in COMBINES for reduce in shared):
        return None
    places = {r: [_place(node) for node in free if _is_access(node) and r in free[node]] for r in along}
    width = width_of(body, target, along, free)
    lanes = min(lanes_of(r, width, places[r], free) for r in along)
    count, most = prod(size_of(r) for r in ranges), max(ELEMENTS // _kept(found, along), lanes)
    threads = WARP
    while threads * lanes < size and threads < MOST_THREADS:
        if threads * most >= size and count * threads >= ENOUGH:
            break
        threads *= 2
    if threads * most < size:
        return None
    together = 1
    while threads * together < THREADS and count % (2 * together) == 0 and count > 2 * together * target.cores:
        together *= 2
    return Rows(ranges, count, along, size, threads, lanes, together)


def _is_access(node: UOp) -> bool:
    return node.op is ops.STORE or (node.op is ops.INDEX and node.src[0].op is ops.PARAM)


def _place(access: UOp) -> UOp:
    return access.src[2 if access.op is ops.STORE else 1]


def _kept(found: list[Region], along: set[UOp]) -> int:
    """How many elements of a row, at each place, several passes read."""
    one = dict.fromkeys(along, UOp.range(1, 0))
    passes = [{load.substitute(one) for load in region.loads} - set(region.loads) for region in found]
    often = {load for i, loads in enumerate(passes) for other in passes[:i] for load in loads & other}
    return max(len(often), 1)


def tile_rows(body: UOp, free: Free, rows: Rows) -> tuple[UOp, str]:
    """The kernel by rows, and what it is."""
    is_short = all(store.src[0].dtype.is_float and store.src[0].dtype.bitsize <= 16 for store in body.src)
    if is_short:
        body = _with_short_powers(body)
        free = free_ranges(body)
    blocks, threads = rows.count // rows.together, rows.threads * rows.together
    block = UOp.range(blocks, BLOCK_ID, RangeKind.BLOCK)
    thread = UOp.range(threads, THREAD_ID, RangeKind.THREAD)
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
            new = _of_a_row(value, node.arg.op, rows, thread, results)
            results += 1
            for copy in copies:
                copy[node] = new
            continue
        for copy, gate in zip(copies, gates, strict=True):
            if node not in copy:
                src = tuple([copy[s] for s in node.src])
                copy[node] = node if src == node.src else make(node.op, src, node.arg)
                if is_along and node.op is ops.FDIV and free[node.src[1]].isdisjoint(rows.along):
                    copy[node] = _quotient(src[0], src[1], is_short)
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


def _with_short_powers(body: UOp) -> UOp:
    """exp(x - the largest of a row) -> exp2 of a product, without what makes it exact: halves become of it."""
    names: dict[UOp, UOp] = {}
    for node in topological((body,)):
        power = power_of(node)
        if power is not None and any(each.op is ops.REDUCE and each.arg.op is ops.MAX for each in power.topological()):
            names[node] = power
    return with_values(body, names)


def _quotient(x: UOp, y: UOp, is_short: bool) -> UOp:
    """x / y of a y that is the same for a row: a product with 1 / y, and unless a half becomes of it the error of that.
    No branches, as there are in an instruction for quotients."""
    if x.dtype is not dtypes.float32:
        return x / y
    scale = (abs(y) < SMALL).where(y.constant(1 / SMALL), 1.0)  # so that 1 / y is a number
    x, y = x * scale, y * scale
    inverse = make(ops.RECIPROCAL, (y,))
    product = x * inverse
    if is_short:
        return product
    error = make(ops.FMA, (-product, y, x))
    return (abs(error) < math.inf).where(make(ops.FMA, (error, inverse, product)), product)


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


def _of_a_row(value: UOp, op: Op, rows: Rows, thread: UOp, id: int) -> UOp:
    """What all threads of a row have, combined: those of 32 with each other, then what these have."""
    dtype = value.dtype
    if dtype.is_float and dtype.bitsize < 32:
        value = value.cast(dtypes.float32)
    value = make(ops.ACROSS, (value, thread), AcrossArg(op, WARP))
    warps = rows.threads // WARP
    if warps > 1:
        memory = UOp.buffer(id, value.dtype, (warps * rows.together,), memory=Memory.SHARED)
        fill = memory.store(value, thread // WARP, gate=(thread % WARP).eq(0))
        kept = memory.after(make(ops.STAGE, (UOp.group(fill),), StageArg(Memory.SHARED)))
        first = thread // rows.threads * warps if rows.together > 1 else as_index(0)
        value = kept.index(first + lane_numbers(warps)).reduce(op, axes=(0,))
    return value.cast(dtype)
