"""A schedule made ready to run: which memory each call gets, and where temporaries lie.

Goes in: LINEAR of CALLs over PARAMs (the slots) and BUFFERs (temporaries). Comes out: a `Plan`: steps whose arguments
are places in one table (slots first, then temporaries, then contiguous parts of both), and for each temporary an
offset in one arena, shared by temporaries that are not alive at the same time. One that a kernel writes element by
element while it reads another for the last time takes over its memory. Nothing is allocated here, so peak memory is
known before running: `Plan.peak_bytes`.

    call f(t0, p1)        t0 at 0                     arena: 8192 bytes for three temporaries of 4096
    call g(t1, t0)        t1 at 4096, t0 ends
    call h(t2, t1)        t2 at 0
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

from whit.dtype import dtypes
from whit.engine.memory.storage import nbytes_of
from whit.engine.memory.view import view_of_buffer
from whit.engine.realize.reuse import is_same_element, multiplies_half_precision
from whit.errors import InternalError
from whit.ir import ops
from whit.ir.uop import UOp
from whit.records import dataclass
from whit.runtime.blocks import ALIGNMENT

NEVER = (-1, -1)
STEPS_A_PART = 32  # steps of a run in which temporaries are looked for together


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One kernel call."""

    function: UOp  # FUNCTION
    places: tuple[int, ...]  # of its arguments, in the plan's table; of a loop, last, of the arena of its steps
    inner: tuple[Plan, ...] = ()  # of a loop the plans of its schedules, over the params of a step

    @property
    def repeat(self) -> UOp | None:
        """The REPEAT of a loop."""
        (body,) = self.function.src
        return body if body.op is ops.REPEAT else None


@dataclass(frozen=True, slots=True)
class Temporary:
    """Memory that lives while the plan runs, from its first step to its last."""

    node: UOp
    nbytes: int
    first: int
    last: int
    offset: int


@dataclass(frozen=True, slots=True)
class Plan:
    """A schedule, its arguments resolved."""

    linear: UOp
    params: tuple[UOp | None, ...]  # the PARAM of each slot, where a step uses it
    steps: tuple[PlanStep, ...]
    temporaries: tuple[Temporary, ...]
    parts: tuple[tuple[int, int], ...]  # arguments that are a part of another: its place, and the byte it starts at
    arena_bytes: int

    @property
    def peak_bytes(self) -> int:
        """The memory of a run: arguments and temporaries. Less, by the size of the output, for each output that lies in
        the memory of an input."""
        return self.arena_bytes + sum(nbytes_of(p.dtype, p.shape) for p in self.params if p is not None)

    @property
    def least_arena_bytes(self) -> int:
        """What no placing of the temporaries can go below: the most bytes that are in use in one step."""
        found = 0
        for number in range(len(self.steps)):
            alive = {t.offset: t.nbytes for t in self.temporaries if t.first <= number <= t.last}
            found = max(found, sum(alive.values()))
        return found


def plan_of(loaded: Any) -> Any:
    """The plan in what a device has loaded."""
    return getattr(loaded, "plan", loaded)


def make_plan(linear: UOp, slots: int, offsets: Sequence[int] | None = None) -> Plan:
    """The plan of a schedule over `slots` slots. `offsets` are those of the temporaries, if they are known: of an
    equal plan."""
    params: list[UOp | None] = [None] * slots
    lives: dict[UOp, list[int]] = {}  # temporary -> first and last step
    listed = [memories_of(call) for call in linear.src]
    loops = {number: _plans_of_steps(call) for number, call in enumerate(linear.src) if repeat_of(call) is not None}
    for number, plans in loops.items():
        listed[number].append((_arena_of(number, plans), 0))
    for number, memories in enumerate(listed):
        for memory, _ in memories:
            if memory.op is ops.PARAM:
                params[memory.arg.slot] = memory
            else:
                lives.setdefault(memory, [number, number])[1] = number
    temporaries = _placed(lives, taken_over(linear, lives)) if offsets is None else _placed_at(lives, offsets)
    where = {temporary.node: slots + i for i, temporary in enumerate(temporaries)}
    parts: dict[tuple[int, int], int] = {}
    steps = []
    for number, (call, memories) in enumerate(zip(linear.src, listed, strict=True)):
        places = []
        for memory, start in memories:
            found = memory.arg.slot if memory.op is ops.PARAM else where[memory]
            if start:
                found = parts.setdefault((found, start), slots + len(temporaries) + len(parts))
            places.append(found)
        steps.append(PlanStep(call.src[0], tuple(places), loops.get(number, ())))
    arena = max((temporary.offset + temporary.nbytes for temporary in temporaries), default=0)
    return Plan(linear, tuple(params), tuple(steps), tuple(temporaries), tuple(parts), arena)


FIRST_ARENA = 1 << 30  # ids of the arenas of loops


def repeat_of(call: UOp) -> UOp | None:
    """The REPEAT that a call of a schedule runs, if it is a loop."""
    body = call.src[0].src[0]
    return body if body.op is ops.REPEAT else None


def _plans_of_steps(call: UOp) -> tuple[Plan, ...]:
    repeat = repeat_of(call)
    assert repeat is not None, "asked of loops only"
    return tuple([make_plan(each.src[0], len(repeat.arg.moves)) for each in repeat.src if each.op is ops.FUNCTION])


def _arena_of(number: int, plans: tuple[Plan, ...]) -> UOp:
    """A temporary in which those of the steps of a loop lie."""
    return UOp.buffer(FIRST_ARENA + number, dtypes.uint8, (max(plan.arena_bytes for plan in plans),))


def kernels_in(plan: Plan) -> list[UOp]:
    """The functions of all kernels, those in loops too, each time that a list has them."""
    found: list[UOp] = []
    for step in plan.steps:
        if step.inner:
            found += [function for inner in step.inner for function in kernels_in(inner)]
        else:
            found.append(step.function)
    return found


def _placed(lives: dict[UOp, list[int]], owners: dict[UOp, UOp]) -> list[Temporary]:
    """The temporaries with offsets; those that take over a memory have that of the first who had it."""
    whole: dict[UOp, list[int]] = {}
    for node, (first, last) in lives.items():
        known = whole.setdefault(owners[node], [first, last])
        known[:] = min(known[0], first), max(known[1], last)
    placed = place_temporaries(
        Temporary(n, nbytes_of(n.dtype, n.shape), first, last, 0) for n, (first, last) in whole.items()
    )
    offsets = {owner.node: owner.offset for owner in placed}
    return [
        Temporary(node, nbytes_of(node.dtype, node.shape), first, last, offsets[owners[node]])
        for node, (first, last) in lives.items()
    ]


def taken_over(linear: UOp, lives: dict[UOp, list[int]]) -> dict[UOp, UOp]:
    """For each temporary, the one whose memory it has: its own, or what the kernel that first writes it reads last."""
    owners = {node: node for node in lives}
    for number, call in enumerate(linear.src):
        fresh, spent = _ends(call, number, lives)
        memories = _arguments(call)
        for written in fresh:
            new = memories[written]
            for read in spent:
                old = memories[read]
                fits = prod(old.shape) == prod(new.shape) and old.dtype.itemsize == new.dtype.itemsize
                body = call.src[0].src[0]
                if fits and is_same_element(body, written, read) and not multiplies_half_precision(body):
                    owners[new] = owners[old]
                    spent.remove(read)
                    break
    return owners


def _ends(call: UOp, number: int, lives: dict[UOp, list[int]]) -> tuple[list[int], list[int]]:
    """The arguments of a call that are temporaries, whole and given once: those that it is the first to have, and those
    that it is the last to have."""
    arguments = _arguments(call)
    fresh, spent = [], []
    for place_temporaries, memory in enumerate(arguments):
        first, last = lives.get(memory, NEVER)
        if first == number:
            fresh.append(place_temporaries)
        elif last == number:
            spent.append(place_temporaries)
    if not fresh or not spent:
        return [], []
    uses = Counter([memory for memory, _ in memories_of(call)])
    return [i for i in fresh if uses[arguments[i]] == 1], [i for i in spent if uses[arguments[i]] == 1]


def _arguments(call: UOp) -> list[UOp]:
    if call.op is not ops.CALL:
        raise InternalError(f"plan: {call.short()} in a schedule is no call of a kernel")
    return [argument for argument in call.src[1:] if argument.op is not ops.BIND]


def memories_of(call: UOp) -> list[tuple[UOp, int]]:
    """The PARAM or BUFFER of each argument, and the byte at which it starts there."""
    found = []
    for argument in _arguments(call):
        part = (argument, 0) if argument.op is ops.PARAM or argument.op is ops.BUFFER else view_of_buffer(argument)
        if part is None:
            raise InternalError(
                f"plan: an argument of {call.src[0].arg.name} is {argument.short()}",
                fix="Arguments of kernels are params, buffers, and contiguous parts of them.",
            )
        found.append(part)
    return found


def _placed_at(lives: dict[UOp, list[int]], offsets: Sequence[int]) -> list[Temporary]:
    """The temporaries where an equal plan has them."""
    return [
        Temporary(node, nbytes_of(node.dtype, node.shape), first, last, offset)
        for (node, (first, last)), offset in zip(lives.items(), offsets, strict=True)
    ]


def place_temporaries(temporaries: Iterable[Temporary]) -> list[Temporary]:
    """The same temporaries with offsets: the largest first, each as low as those that live at its time allow."""
    placed: list[Temporary] = []
    # (offset, end, first, last) by the part of the run in which they live: those of a long loop meet few others
    taken: dict[int, list[tuple[int, int, int, int]]] = {}
    for temporary in sorted(temporaries, key=lambda t: (-t.nbytes, t.first)):
        size = -(-temporary.nbytes // ALIGNMENT) * ALIGNMENT
        born, dies = temporary.first, temporary.last
        parts = range(born // STEPS_A_PART, dies // STEPS_A_PART + 1)
        near = taken.get(parts[0], []) if len(parts) == 1 else {t for part in parts for t in taken.get(part, ())}
        beside = sorted((start, end) for start, end, first, last in near if first <= dies and last >= born)
        offset = 0
        for start, end in beside:
            if start >= offset + size:
                break
            if end > offset:
                offset = end
        for part in parts:
            taken.setdefault(part, []).append((offset, offset + size, born, dies))
        placed.append(Temporary(temporary.node, temporary.nbytes, born, dies, offset))
    return placed
