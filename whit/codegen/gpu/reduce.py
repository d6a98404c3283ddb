"""Reductions shared between the threads of a block, through shared memory.

    sum over k < n of x[k]       ->      a sum over o of x[o*256 + thread], four at a time, then of what is left;
    256 threads, one result              each 32 threads exchange theirs, and keep the sum in shared memory;
                                         all threads wait, and combine these 8

    sum over k of x[k, c]        ->      a sum over o of x[o*8 + thread // 32, thread % 32], kept in shared memory;
    256 threads, 32 results              all threads combine the 8 values of their column

Every thread has its result. The order is always the same, so sums are too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

from whit.codegen.gpu.thread_index import trips
from whit.codegen.passes.lanes import lane_numbers
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.args import AcrossArg, Memory, RangeKind, StageArg
from whit.ir.map_graph import map_graph, rebuilt
from whit.ir.nesting import Owner
from whit.ir.op import Op, Sources
from whit.ir.uop import UOp, as_index, make
from whit.kernel.ranges import replace_ranges
from whit.target import GPU_LIMITS

GROUP = 16
STRETCHES = 3  # of a row, each with a loop
WARP = GPU_LIMITS.warp_threads
COMBINES = (ops.ADD, ops.MUL, ops.MAX, ops.MIN, ops.AND, ops.OR)  # that threads exchange
LEVELS = 2
AT_ONCE = 4  # elements, or vectors, that a thread reads before it combines them


@dataclass(frozen=True, slots=True)
class ThreadGroup:
    """Threads of a block that share reductions, for a number of results (`columns`) side by side."""

    thread: UOp
    columns: int = 1

    @property
    def threads(self) -> int:
        return int(self.thread.src[0].arg)

    @property
    def parts(self) -> int:
        """How many threads share one reduction."""
        return self.threads // self.columns

    @property
    def part(self) -> UOp:
        """Which of them a thread is."""
        return self.thread // self.columns if self.columns > 1 else self.thread

    @property
    def column(self) -> UOp:
        return self.thread % self.columns


@dataclass(frozen=True, slots=True)
class Stretch:
    """Vectors of a row, from an element on, that threads share: `copies` in each step of a thread."""

    start: int
    vectors: UOp
    lanes: int
    copies: int = 1

    def loop(self, group: ThreadGroup, id: int, kind: RangeKind, owner: Owner) -> UOp:
        """Over the steps of a thread."""
        return UOp.range(trips(self.vectors // self.copies, group.parts, group.part), id, kind, owner)

    def places(self, loop: UOp, group: ThreadGroup) -> list[UOp]:
        """The positions of a step."""
        numbers = [(loop * self.copies + copy) * group.parts + group.part for copy in range(self.copies)]
        return [vector_positions(number, self.lanes) + self.start for number in numbers]


def stretches(r: UOp, lanes: int, group: ThreadGroup) -> list[Stretch]:
    """A range as what every thread has as much of, in steps of several vectors; other vectors; other elements."""
    if not isinstance(r.size, int):
        return [Stretch(0, as_index(r.size), 1)]
    vectors, left = divmod(r.size, lanes)
    in_step = group.parts * AT_ONCE
    steps = vectors // in_step
    first, more = steps * in_step, vectors % in_step
    found = [Stretch(0, as_index(first), lanes, AT_ONCE)] if steps else []
    found += [Stretch(first * lanes, as_index(more), lanes)] if more else []
    return found + ([Stretch(vectors * lanes, as_index(left), 1)] if left else [])


def share_reductions(
    body: UOp, along: dict[UOp, UOp], group: ThreadGroup, indices: dict[UOp, UOp], lanes_of: Callable[[UOp, UOp], int]
) -> UOp:
    """Every reduction of `along` shared between the threads along its range; `lanes_of` says in which vectors. Ranges
    in `indices` are replaced."""
    buffers = itertools.count(0, LEVELS)
    first_ids: dict[tuple[UOp, int], int] = {}  # of a range in such vectors: reductions alike share their loops

    def shared(node: UOp, src: Sources) -> UOp | None:
        if node not in along:
            return None
        partial = _partial(rebuilt(node, src), along[node], group, lanes_of(node, along[node]), first_ids)
        return _combined(partial, node.arg.op, group, next(buffers))

    return map_graph(body, shared, dict(indices))


def _partial(node: UOp, r: UOp, group: ThreadGroup, lanes: int, first_ids: dict[tuple[UOp, int], int]) -> UOp:
    """What one thread has of a reduction."""
    value, *ranges = node.src
    op, others = node.arg.op, [other for other in ranges if other is not r]
    found = stretches(r, lanes, group)
    if others:  # they are inside of one loop
        found, lanes = [Stretch(0, as_index(r.size), 1)], 0
    first = first_ids.setdefault((r, lanes), STRETCHES * len(first_ids))
    whole: UOp | None = None
    for i, stretch in enumerate(found):
        loop = stretch.loop(group, first + i, r.arg.kind, Owner.PART)
        total: UOp | None = None
        for place in stretch.places(loop, group):
            part = replace_ranges(value, {r: place}, {})
            if stretch.lanes > 1 and not part.shape:
                part = UOp.stack(*([part] * stretch.lanes))
            total = part if total is None else make(op, (total, part))
        assert total is not None, "a stretch has at least one part"
        total = total.reduce(op, ranges=(*others, loop))
        total = total.reduce(op, axes=(0,)) if stretch.lanes > 1 else total
        whole = total if whole is None else make(op, (whole, total))
    assert whole is not None, "a reduction has at least one stretch"
    return whole


def vector_positions(number: UOp, lanes: int) -> UOp:
    """The positions of a vector, of its number."""
    return number if lanes == 1 else number * lanes + lane_numbers(lanes)


def _combined(value: UOp, op: Op, group: ThreadGroup, id: int) -> UOp:
    """The values of the threads that share a reduction, combined."""
    if group.columns == 1 and op in COMBINES:
        return across_rows(value, op, group.thread, group.threads, id)
    part, columns, lanes = group.part, group.columns, value.shape[0] if value.shape else 1
    far_parts = group.parts // GROUP if group.parts > 2 * GROUP else 1
    near = UOp.range(GROUP if far_parts > 1 else group.parts, id, RangeKind.REDUCE, Owner.TEAM)
    start = part // GROUP * GROUP if far_parts > 1 else as_index(0)
    place = vector_positions((start + near) * columns + group.column, lanes)
    first = _kept(value, group, id).index(place).reduce(op, ranges=(near,))
    if far_parts == 1:
        return first
    far = UOp.range(far_parts, id + 1, RangeKind.REDUCE, Owner.TEAM)
    place = vector_positions(far * (GROUP * columns) + group.column, lanes)
    return _kept(first, group, id + 1).index(place).reduce(op, ranges=(far,))


def across_rows(value: UOp, op: Op, thread: UOp, threads: int, id: int) -> UOp:
    """The values of each `threads` neighbouring threads combined: of a warp by shuffles, of warps in shared memory."""
    dtype, count = value.dtype, int(thread.src[0].arg)
    if dtype.is_float and dtype.bitsize < 32:
        value = value.cast(dtypes.float32)
    value = make(ops.ACROSS, (value, thread), AcrossArg(op, WARP))
    warps = threads // WARP
    if warps > 1:
        memory = UOp.buffer(id, value.dtype, (count // WARP,), memory=Memory.SHARED)
        fill = memory.store(value, thread // WARP, gate=(thread % WARP).eq(0))
        kept = memory.after(make(ops.STAGE, (UOp.group(fill),), StageArg(Memory.SHARED)))
        first = thread // threads * warps if threads < count else as_index(0)
        value = kept.index(first + lane_numbers(warps)).reduce(op, axes=(0,))
    return value.cast(dtype)


def _kept(value: UOp, group: ThreadGroup, id: int) -> UOp:
    """Shared memory that holds the value of each thread."""
    lanes = value.shape[0] if value.shape else 1
    memory = UOp.buffer(id, value.dtype, (group.threads * lanes,), memory=Memory.SHARED)
    fill = memory.store(value, vector_positions(group.thread, lanes))
    return memory.after(make(ops.STAGE, (UOp.group(fill),), StageArg(Memory.SHARED)))
