"""Proves of a plan that every read sees what was written for it; the setting CHECK_PLAN turns it on.

Goes in: the graph, its plan, and which slots lie in the memory of others. An InternalError names the step, the memory
and the elements if

    something is read that nobody has written              also by a sum into memory, and by a store to some elements
    something is read after other memory has taken its place    temporaries that share an arena, an output in an input
    an iteration reads what another iteration of the same kernel writes
    a result is not written everywhere

Every byte of memory remembers whose value it holds, step by step. Nothing of what the scheduler or the planner knew is
used: which elements a kernel touches is read off the kernel (`kernel_accesses`). Whether the values are right that the
steps compute is another question: `check_schedule`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd, prod
from typing import Any

import numpy as np

from whit.cache import RecentlyUsed
from whit.engine.memory.storage import concrete_shape, nbytes_of
from whit.engine.plan.kernel_accesses import Access, Accesses, accesses_of_kernel, spelled
from whit.engine.plan.plan import Plan, memories_of
from whit.errors import InternalError
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.uop import UOp
from whit.runtime.buffer import Buffer

MOST_BYTES = 1 << 20  # of a memory that is followed byte by byte
ARENA = -1
GIVEN_MARK = -1  # the mark of what was there before the first step

Array = Any


@dataclass(frozen=True, slots=True)
class MemoryPlace:
    """Where a memory lies: in a slot, by its number, or in the arena."""

    space: int
    start: int
    nbytes: int


@dataclass(slots=True)
class _Memory:
    """A PARAM or BUFFER of the schedule, with the number that marks its bytes."""

    node: UOp
    number: int
    place: MemoryPlace
    is_given: bool = False  # it has a content before the first step


class _Check:
    """The state of checking one plan."""

    def __init__(self, plan: Plan, aliases: Mapping[int, tuple[int, int]], variables: Mapping[str, int]) -> None:
        self.variables = variables
        self.memories: dict[UOp, _Memory] = {}
        for slot, param in enumerate(plan.params):
            if param is not None:
                space, start = aliases.get(slot, (slot, 0))
                self._add(param, space, start)
        for temporary in plan.temporaries:
            self._add(temporary.node, ARENA, temporary.offset)
        sizes: dict[int, int] = {}
        self.unit = gcd(*(memory.node.dtype.itemsize for memory in self.memories.values()), 0) or 1
        for memory in self.memories.values():
            place = memory.place
            sizes[place.space] = max(sizes.get(place.space, 0), place.start + place.nbytes)
        self.marks = {
            space: np.zeros(-(-size // self.unit), np.int32) for space, size in sizes.items() if size <= MOST_BYTES
        }

    def _add(self, node: UOp, space: int, start: int) -> None:
        place = MemoryPlace(space, start, nbytes_of(node.dtype, node.shape))
        self.memories[node] = _Memory(node, len(self.memories) + 1, place)

    def units(self, memory: _Memory, access: Access, start: int = 0) -> Array:
        """The units of marks of the elements of an access: of all that it could reach, where it is not known of which.
        It begins at a byte of the memory."""
        itemsize = memory.node.dtype.itemsize
        elements = np.arange(access.count) if access.elements is None else access.elements
        first = (memory.place.start + start + elements * itemsize) // self.unit
        return (first[:, None] + np.arange(itemsize // self.unit)).reshape(-1)

    def everything(self, memory: _Memory) -> Access:
        """All of a memory."""
        count = prod(concrete_shape(memory.node.shape, self.variables))
        return Access(0, count, None, None, True, 0, frozenset())

    def leave_out_large(self, call: UOp) -> None:
        """Forgets memory of which a kernel touches too many elements to follow each."""
        accesses, arguments = accesses_of_kernel(call.src[0].src[0], self.variables), memories_of(call)
        for access in (*accesses.reads, *accesses.writes):
            if access.is_large:
                self.marks.pop(self.memories[arguments[access.slot][0]].place.space, None)

    def step(self, number: int, call: UOp) -> None:
        """Reads, then writes."""
        function = call.src[0]
        accesses = accesses_of_kernel(function.src[0], self.variables)
        arguments = memories_of(call)
        where = f"step {number} ({function.arg.name})"
        for read in accesses.reads:
            self.read(read, arguments, where)
        for write in accesses.writes:
            if write.combines or write.elements is None or not write.is_sure:
                self.read(write, arguments, where)  # what it leaves as it is, or adds to
        self._hazards(accesses, arguments, where)
        for write in accesses.writes:
            memory, start = self.memories[arguments[write.slot][0]], arguments[write.slot][1]
            marks = self.marks.get(memory.place.space)
            if marks is not None and write.elements is not None and write.is_sure:
                marks[self.units(memory, write, start)] = memory.number

    def read(self, access: Access, arguments: list[tuple[UOp, int]], where: str) -> None:
        node, start = arguments[access.slot]
        memory = self.memories[node]
        marks = self.marks.get(memory.place.space)
        if marks is None or (access.elements is not None and not len(access.elements)):
            return
        itemsize = node.dtype.itemsize
        units = self.units(memory, access, start)
        found = marks[units]
        wrong = found != memory.number
        if memory.is_given:
            wrong &= found != GIVEN_MARK
        if not wrong.any():
            return
        elements = (units[wrong] * self.unit - memory.place.start) // itemsize
        others = {int(mark) for mark in found[wrong]}
        if others <= {0, GIVEN_MARK}:
            raise _problem(where, f"reads {spelled(elements)} of {node.short()}, which nobody has written")
        other = next(m.node for m in self.memories.values() if m.number in others)
        raise _problem(
            where, f"reads {spelled(elements)} of {node.short()}, where {other.short()} has been written meanwhile"
        )

    def _hazards(self, accesses: Accesses, arguments: list[tuple[UOp, int]], where: str) -> None:
        """Elements that one iteration reads and another one writes."""
        written: dict[int, list[Access]] = {}
        for write in accesses.writes:
            written.setdefault(self.memories[arguments[write.slot][0]].place.space, []).append(write)
        for read in accesses.reads:
            node, start = arguments[read.slot]
            memory = self.memories[node]
            for write in written.get(memory.place.space, ()) if memory.place.space in self.marks else ():
                other, other_start = arguments[write.slot]
                units = self.units(memory, read, start)
                target = self.memories[other]
                others = self.units(target, write, other_start)
                both = np.isin(units, others)
                if both.any() and not self._same_iteration(read, write, units, others, node, other):
                    elements = (units[both] * self.unit - memory.place.start) // node.dtype.itemsize
                    raise _problem(
                        where, f"reads {spelled(elements)} of {node.short()}, which another iteration writes"
                    )

    def _same_iteration(self, read: Access, write: Access, units: Array, others: Array, node: UOp, other: UOp) -> bool:
        """Whether every element that is read and written is so in one iteration."""
        if read.store == write.store:  # it comes after what it reads
            is_same = bool(read.positions) and read.positions == write.positions
            if not read.loop or (is_same and read.loop <= set(read.positions)):  # each iteration has its own element
                return True
        if read.iterations is None or write.iterations is None or read.loop != write.loop:
            return False
        writer = np.full(max(int(units.max()), int(others.max())) + 1, -1, np.int64)
        by = np.repeat(write.iterations, other.dtype.itemsize // self.unit)
        writer[others] = by
        if (writer[others] != by).any():  # two iterations write it
            return False
        when = np.repeat(read.iterations, node.dtype.itemsize // self.unit)
        return bool(((writer[units] == -1) | (writer[units] == when)).all())


def check_plan(graph: UOp, plan: Plan, aliases: Mapping[int, tuple[int, int]] | None = None) -> None:
    """Raises unless every read of a plan sees the write before it of the same memory.

    `aliases` has the slots that lie in the memory of another slot, and at which byte.
    """
    check_arena(plan)
    names = {node.arg for node in topological((plan.linear,), enter_functions=True) if node.op is ops.VARIABLE}
    for end in ("low", "high") if names else ("low",):
        variables = {name.name: getattr(name, end) for name in names}
        _check_steps(graph, plan, aliases or {}, variables)
        _check_loops(plan, variables)


def _check_steps(graph: UOp, plan: Plan, aliases: Mapping[int, tuple[int, int]], variables: Mapping[str, int]) -> None:
    check = _Check(plan, aliases, variables)
    if any(size < 0 for node in check.memories for size in concrete_shape(node.shape, variables)):
        return  # the ends of the bounds of several variables may be what the graph takes for granted not to be
    _check_results(graph, plan, variables)
    results, holding = results_of(graph), contents_of(graph)
    params = [memory for memory in check.memories.values() if memory.node.op is ops.PARAM]
    for memory in params:
        slot, marks = memory.node.arg.slot, check.marks.get(memory.place.space)
        memory.is_given = slot in holding or slot not in results
        if marks is not None and memory.is_given:
            marks[check.units(memory, check.everything(memory))] = GIVEN_MARK
    for call in plan.linear.src:
        check.leave_out_large(call)
    for number, call in enumerate(plan.linear.src):
        check.step(number, call)
    for memory in params:
        if memory.node.arg.slot in results:
            check.read(check.everything(memory), [(memory.node, 0)], "the caller")


def _check_loops(plan: Plan, variables: Mapping[str, int]) -> None:
    """One step of each loop: what it is given has a content, what it returns has none before."""
    for step in plan.steps:
        arg = None if step.repeat is None else step.repeat.arg
        for inner in step.inner:
            check_arena(inner)
            check = _Check(inner, {}, variables)
            for memory in check.memories.values():
                if memory.node.op is ops.PARAM and arg is not None:
                    move = arg.moves[memory.node.arg.slot]
                    memory.is_given = move.first >= 0 or move.even >= arg.written
                    marks = check.marks.get(memory.place.space)
                    if marks is not None and memory.is_given:
                        marks[check.units(memory, check.everything(memory))] = GIVEN_MARK
            for call in inner.linear.src:
                check.leave_out_large(call)
            for number, call in enumerate(inner.linear.src):
                check.step(number, call)
            _check_loops(inner, variables)


def _check_results(graph: UOp, plan: Plan, variables: Mapping[str, int]) -> None:
    """Some step has to do with every result that has elements."""
    for store in graph.src:
        target = store.src[0]
        has_elements = prod(concrete_shape(target.shape, variables)) > 0
        while target.op is not ops.PARAM:
            target = target.src[0]
        if has_elements and plan.params[target.arg.slot] is None:
            raise _problem("the caller", f"reads {target.short()}, which no step has to do with")


_seen: RecentlyUsed[tuple[UOp, UOp, tuple[tuple[int, tuple[int, int]], ...]], bool] = RecentlyUsed(
    "engine.checked_aliases", 1024
)


def check_shared(graph: UOp, plan: Plan, buffers: Sequence[Buffer]) -> None:
    """The same for a run, where results lie in memory that is also something else."""
    aliases = aliases_of([(buffer.address, buffer.nbytes) for buffer in buffers])
    spaces = {slot: aliases.get(slot, (slot, 0))[0] for slot in range(len(buffers))}
    counts = Counter(spaces.values())
    key = (graph, plan.linear, tuple(sorted(aliases.items())))
    if key not in _seen and any(counts[spaces[slot]] > 1 for slot in results_of(graph)):
        check_plan(graph, plan, aliases)
        _seen[key] = True


def aliases_of(memories: Sequence[tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """For addresses and sizes: which of them begin inside another one, which that is, and at which byte."""
    found: dict[int, tuple[int, int]] = {}
    first, start, end = -1, 0, 0
    for slot in sorted(range(len(memories)), key=lambda slot: memories[slot]):
        address, nbytes = memories[slot]
        if not address or not nbytes:
            continue
        if first >= 0 and address < end:
            found[slot] = (first, address - start)
            end = max(end, address + nbytes)
        else:
            first, start, end = slot, address, address + nbytes
    return found


def results_of(graph: UOp) -> set[int]:
    """The slots that a graph stores to."""
    found = set()
    for store in graph.src:
        target = store.src[0]
        while target.op is not ops.PARAM:
            target = target.src[0]
        found.add(target.arg.slot)
    return found


def contents_of(graph: UOp) -> set[int]:
    """The slots whose content a graph reads: all but what whole stores go to."""
    found: set[int] = set()
    for store in graph.src:
        target, value, *others = store.src
        is_whole = target.op is ops.PARAM and not others and store.arg.combine is None and value.shape == target.shape
        roots = (value, *others) if is_whole else store.src
        found.update(node.arg.slot for node in topological(roots) if node.op is ops.PARAM)
    return found


def check_arena(plan: Plan) -> None:
    """Temporaries that live at the same time lie apart, but for one that takes over the memory of another."""
    temporaries = [t for t in plan.temporaries if t.nbytes]
    if len(temporaries) < 2:
        return
    first, last = np.array([(t.first, t.last) for t in temporaries]).T
    start = np.array([t.offset for t in temporaries])
    end = start + np.array([t.nbytes for t in temporaries])
    together = (first[:, None] <= last) & (first <= last[:, None]) & (start[:, None] < end) & (start < end[:, None])
    for a, b in zip(*np.nonzero(np.triu(together, 1)), strict=True):
        old, new = sorted((temporaries[a], temporaries[b]), key=lambda t: (t.first, t.last))
        if new.first != old.last or new.offset != old.offset or prod(new.node.shape) != prod(old.node.shape):
            raise _problem(
                f"step {new.first}",
                f"writes {new.node.short()} where {old.node.short()} is needed until step {old.last}",
            )


def _problem(where: str, what: str) -> InternalError:
    return InternalError(f"check_plan: {where} {what}", fix="The scheduler or the planner of memory is wrong.")
