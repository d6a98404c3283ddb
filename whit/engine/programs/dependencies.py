"""Which call of a list must wait for which. This is the one place that knows.

Goes in: for each call, in order, the bytes that it reads and writes. Comes out: for each call the earlier ones that
must have finished before it starts, without those that one of them waits for anyway. Two calls are ordered if one
writes bytes that the other reads or writes: temporaries share an arena, so it also depends on the memory plan.

    0  f(t0, p1)        writes arena 0..4096
    1  g(t1, p1)        writes arena 4096..8192
    2  h(p0, t0, t1)    reads both                         waits for 0 and 1
    3  f(t2, p2)        writes arena 0..4096 again         waits for 2, and so for 0

With `queues`, which say where each call runs, a call waits for the one before it in its queue in any case, and what
comes out are the waits between queues.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence

from whit.engine.memory.storage import nbytes_of
from whit.engine.plan.plan import Plan
from whit.ir import ops
from whit.ir.uop import UOp
from whit.records import dataclass, field

Waits = list[tuple[int, ...]]  # of each call, the calls it waits for, in order


@dataclass(frozen=True, slots=True)
class Access:
    """Bytes that a call reads, or that it writes and perhaps reads."""

    memory: Hashable
    start: int
    stop: int
    writes: bool


def dependencies(calls: Sequence[Sequence[Access]], queues: Sequence[Hashable] | None = None) -> Waits:
    """What each call waits for."""
    memories: defaultdict[Hashable, _Memory] = defaultdict(_Memory)
    done: list[int] = []  # of each call, as bits, itself and the calls that have finished before it
    last: dict[Hashable, int] = {}  # the newest call of a queue
    found: Waits = []
    for number, accesses in enumerate(calls):
        wanted: set[int] = set()
        accesses = [access for access in accesses if access.start < access.stop]
        for access in accesses:
            wanted.update(memories[access.memory].conflicts(access))
        for access in accesses:
            memories[access.memory].add(number, access)
        finished = 0
        if queues is not None and queues[number] in last:
            finished = done[last[queues[number]]]
        waits = []
        for other in sorted(wanted, reverse=True):  # a call waits for earlier ones only, so none is implied by the rest
            if not finished >> other & 1:
                waits.append(other)
                finished |= done[other]
        done.append(finished | 1 << number)
        found.append(tuple(reversed(waits)))
        if queues is not None:
            last[queues[number]] = number
    return found


Range = tuple[int, int, int]  # first byte, byte after the last, call


@dataclass(slots=True)
class _Memory:
    """Who wrote each byte last, and who has read it since."""

    writers: list[Range] = field(default_factory=list)
    readers: list[Range] = field(default_factory=list)

    def conflicts(self, access: Access) -> Iterator[int]:
        """The calls that an access must come after. Who came before a write is found through the write."""
        for start, stop, call in (*self.writers, *self.readers) if access.writes else self.writers:
            if start < access.stop and access.start < stop:
                yield call

    def add(self, call: int, access: Access) -> None:
        if access.writes:
            self.writers = [*_outside(self.writers, access), (access.start, access.stop, call)]
            self.readers = list(_outside(self.readers, access))
        else:
            self.readers.append((access.start, access.stop, call))


def _outside(ranges: list[Range], access: Access) -> Iterator[Range]:
    """What is left of ranges after a write."""
    for start, stop, call in ranges:
        if start >= access.stop or stop <= access.start:
            yield start, stop, call
            continue
        if start < access.start:
            yield start, access.start, call
        if stop > access.stop:
            yield access.stop, stop, call


# ---- plans


def accesses_of(plan: Plan, slots: Sequence[Hashable] | None = None, arena: Hashable = "arena") -> list[list[Access]]:
    """The memory of each step of a plan. `slots` names the memory of every slot: equal names may be the same memory,
    as that of an input and of an output which overwrites it."""
    count = len(plan.params)
    names = range(count) if slots is None else slots
    places: list[tuple[Hashable, int]] = [(name, 0) for name in names]
    places += [(arena, temporary.offset) for temporary in plan.temporaries]
    places += [(places[place][0], places[place][1] + start) for place, start in plan.parts]
    found = []
    functions = {function: written_by(function) for function in {step.function for step in plan.steps}}
    for call, step in zip(plan.linear.src, plan.steps, strict=True):
        arguments = [argument for argument in call.src[1:] if argument.op is not ops.BIND]
        written = functions[step.function]
        accesses = []
        for number, (place, node) in enumerate(zip(step.places, arguments, strict=False)):
            memory, start = places[place]
            accesses.append(Access(memory, start, start + nbytes_of(node.dtype, node.shape), number in written))
        for place in step.places[len(arguments) :]:
            memory, start = places[place]
            nbytes = max(inner.arena_bytes for inner in step.inner)
            accesses.append(Access(memory, start, start + nbytes, True))
        found.append(accesses)
    return found


def written_by(function: UOp) -> set[int]:
    """Which arguments a kernel writes; it may read them, too."""
    (body,) = function.src
    if body.op is ops.REPEAT:
        return set(range(body.arg.written))
    return {store.src[0].arg.slot for store in body.src}


# ---- questions


def lanes(waits: Sequence[Sequence[int]], most: int) -> list[int]:
    """A lane for each call, of at most `most`, where calls run one after another: that of something it waits for, or
    the one that was used least lately. `dependencies(calls, lanes)` are then the waits between lanes."""
    newest: list[int] = []  # the last call of each lane
    found: list[int] = []
    for number, others in enumerate(waits):
        after = [lane for lane, call in enumerate(newest) if call in others]
        if not after and len(newest) < most:
            after = [len(newest)]
            newest.append(number)
        lane = max(after, key=newest.__getitem__) if after else newest.index(min(newest))
        newest[lane] = number
        found.append(lane)
    return found


def longest_chain(waits: Sequence[Sequence[int]]) -> int:
    """How many calls run one after another whatever else runs at once."""
    depth: list[int] = []
    for others in waits:
        depth.append(1 + max((depth[other] for other in others), default=0))
    return max(depth, default=0)
