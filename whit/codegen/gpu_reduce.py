"""Reductions shared between the threads of a block, through shared memory.

    sum over k < n of x[k]       ->      a sum over o of x[o*256 + thread], kept in shared memory; all threads wait;
    256 threads, one result              each 16 threads combine the 16 values of theirs, and keep that;
                                         all threads combine the 16 results

    sum over k of x[k, c]        ->      a sum over o of x[o*8 + thread // 32, thread % 32], kept in shared memory;
    256 threads, 32 results              all threads combine the 8 values of their column

Every thread has its result. The order is always the same, so sums are too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from whit.codegen.lanes import lane_numbers
from whit.codegen.ranges import replace_ranges
from whit.ir import ops
from whit.ir.args import Memory, RangeKind, StageArg
from whit.ir.graph import topological
from whit.ir.op import Op
from whit.ir.uop import UOp, as_index, make

GROUP = 16
PARTIAL_ID = 10_000  # of the loops of one thread
FIRST_ID = 20_000  # of the ranges over shared values
LEVELS = 2
AT_ONCE = 4  # elements, or vectors, that a thread reads before it combines them


@dataclass(frozen=True, slots=True)
class Team:
    """Threads of a block that share reductions, for so many results side by side."""

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


def share_reductions(body: UOp, along: dict[UOp, UOp], team: Team, lanes_of: Callable[[UOp, UOp], int]) -> UOp:
    """Every reduction of `along` shared between the threads along its range; `lanes_of` says in which vectors."""
    done: dict[UOp, UOp] = {}
    count = 0
    for node in topological((body,)):
        src = tuple([done[s] for s in node.src])
        new = node if src == node.src else make(node.op, src, node.arg)
        if node in along:
            new = _partial(new, along[node], team, lanes_of(node, along[node]))
            new = _combined(new, node.arg.op, team, count)
            count += LEVELS
        done[node] = new
    return done[body]


def _partial(node: UOp, r: UOp, team: Team, lanes: int) -> UOp:
    """What one thread has of a reduction: several elements in each step, so that as many loads are on their way."""
    value, *ranges = node.src
    op, count = node.arg.op, as_index(r.size) // lanes
    copies = AT_ONCE
    while copies > 1 and (count.op is not ops.CONST or count.arg % (team.parts * copies)):
        copies //= 2
    loop = UOp.range(trips(count // copies, team), PARTIAL_ID + r.arg.id, r.arg.kind)
    total: UOp | None = None
    for copy in range(copies):
        number = (loop * copies + copy) * team.parts + team.part
        part = replace_ranges(value, {r: spread(number, lanes)}, {})
        if lanes > 1 and not part.shape:
            part = UOp.stack(*([part] * lanes))
        total = part if total is None else make(op, (total, part))
    assert total is not None
    others = [other for other in ranges if other is not r]
    total = total.reduce(op, ranges=(*others, loop))
    return total.reduce(op, axes=(0,)) if total.shape else total


def trips(count: UOp, team: Team) -> UOp:
    """How often a thread runs if it has every so-manieth of these."""
    if count.op is ops.CONST and count.arg % team.parts == 0:
        return as_index(count.arg // team.parts)
    return (count + (team.parts - 1) - team.part) // team.parts


def spread(number: UOp, lanes: int) -> UOp:
    """The positions of a vector, of its number."""
    return number if lanes == 1 else number * lanes + lane_numbers(lanes)


def _combined(value: UOp, op: Op, team: Team, id: int) -> UOp:
    """The values of the threads that share a reduction, combined."""
    thread = team.thread
    if team.columns > 1:
        every = UOp.range(team.parts, FIRST_ID + id, RangeKind.REDUCE)
        found = _kept(value, team, id).index(every * team.columns + team.column)
        return found.reduce(op, ranges=(every,))
    near = UOp.range(GROUP, FIRST_ID + id, RangeKind.REDUCE)
    far = UOp.range(team.threads // GROUP, FIRST_ID + id + 1, RangeKind.REDUCE)
    first = _kept(value, team, id).index(thread // GROUP * GROUP + near)
    second = _kept(first.reduce(op, ranges=(near,)), team, id + 1).index(far * GROUP)
    return second.reduce(op, ranges=(far,))


def _kept(value: UOp, team: Team, id: int) -> UOp:
    """Shared memory that holds the value of each thread."""
    memory = UOp.buffer(id, value.dtype, (team.threads,), memory=Memory.SHARED)
    fill = memory.store(value, team.thread)
    return memory.after(make(ops.STAGE, (UOp.group(fill),), StageArg(Memory.SHARED)))
