"""Schedules and copies in order, over a table of buffers: what `realize` runs once, and what the JIT runs again.

    y = (x * 2).to("CPU:1");  y[0] = 7         table:  0 x * 2   1 x   2 y   3 the new y   4 the number 7

    0  schedule on CPU, places 0 1             x * 2
    1  copy from place 0 to place 2            to the other device
    2  copy from place 2 to place 3            copy-on-write: the old y can still be asked for
    3  schedule on CPU:1, places 3 4           writes into place 3

`add_schedule` and `add_copy` add to the end. Whoever builds it says what lies in the places: memory that is known is
`fixed`; the rest of the table is filled for each run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import starmap
from operator import call
from typing import Any

from whit.config import CHECK_PLAN
from whit.engine.devices.device import Device
from whit.engine.devices.disk import allocate
from whit.engine.memory.storage import nbytes_of
from whit.engine.plan.find_plan import call_names, find_plan, load_check, memory_of_slot
from whit.engine.plan.plan import Plan, plan_of
from whit.engine.realize.effects import Effect
from whit.engine.realize.parametrise import NO_WINDOWS, Names, Parametrised, parametrise
from whit.engine.realize.parametrise_effects import parametrise_effects
from whit.engine.realize.windows import Window
from whit.engine.report.counters import Counts, GlobalCounters
from whit.engine.report.launch_names import run_named, watched
from whit.ir.uop import UOp
from whit.records import dataclass, field
from whit.runtime.buffer import Buffer

ALL: list[int] = []  # the places of a part that has all of the table, in order

Call = tuple[Any, ...]  # a function with its arguments
Calls = list[Call]
Table = list[Buffer] | dict[int, Buffer]  # memory by place
NO_BINDINGS: Mapping[str, int] = {}


@dataclass(slots=True)
class ProgramPart:
    """One schedule on one device; or a copy of memory, if there is none."""

    device: str
    places: list[int]  # in the table, of its slots; of a copy, target and source
    graph: Parametrised | None = None
    loaded: Any = None
    resident: Any = None  # a `Resident` or a `CudaResident`, where the device has them
    variables: Mapping[str, int] | None = None  # its own, as where windows begin; other parts may use the names
    is_fresh: bool = False  # of a copy: nobody has used the target yet
    then: tuple[Call, ...] = ()  # what notes, at once after it, which memory it has written over

    def buffers(self, table: Table) -> list[Buffer]:
        """The memory of its slots."""
        return table if self.places is ALL else [table[place] for place in self.places]  # type: ignore[return-value]

    def bound(self, bindings: Mapping[str, int]) -> Mapping[str, int]:
        """The values of all variables, where some are bound anew."""
        return {**self.variables, **bindings} if self.variables else bindings

    def calls(self, table: Table, bindings: Mapping[str, int]) -> Calls:
        """What is to be called for it, without preparation, and `then`."""
        buffers = self.buffers(table)
        if self.graph is None:
            target, source = buffers
            moved = Counts(copy_count=1, bytes_read=target.nbytes, bytes_written=target.nbytes)
            move = target.fill_from if self.is_fresh else target.copy_from
            return [(move, source), (GlobalCounters.add, self.device, moved), *self.then]
        if CHECK_PLAN and isinstance(plan := plan_of(self.loaded), Plan):  # a backend may keep something else
            load_check("check_plan").check_shared(self.graph.graph, plan, buffers)
        run = Device[self.device].run, self.loaded, buffers, self.bound(bindings), self.then
        if watched and self.graph.places is not None:
            return [(run_named, partial(call_names, self.graph, self.device), *run)]
        return [run]


@dataclass(slots=True)
class Parts:
    """What is run in order, and the table that it is about."""

    size: int = 0  # of the table
    inputs: dict[UOp, int] = field(default_factory=dict)  # places of BUFFERs and placeholders, by node
    fixed: dict[int, Buffer] = field(default_factory=dict)  # what is known when it is built
    given: Names = field(default_factory=dict)  # names that variables with some values have in it
    parts: list[ProgramPart] = field(default_factory=list)

    def new_place(self, memory: Buffer | None = None) -> int:
        """One more place of the table, perhaps for memory that is known."""
        place = self.size
        self.size += 1
        if memory is not None:
            self.fixed[place] = memory
        return place

    def input_place(self, node: UOp, device: str) -> int:
        """The place of what a slot holds."""
        place = self.inputs.get(node)
        if place is None:
            place = self.inputs[node] = self.size
            self.size += 1
            memory = self.memory_now(node, device)
            if memory is not None:
                self.fixed[place] = memory
        return place

    def memory_now(self, node: UOp, device: str) -> Buffer | None:
        """The memory of a node; None for what will be given for each run."""
        return memory_of_slot(node, device)

    def table(self) -> list[Any]:
        """The table as far as it is known."""
        return list(map(self.fixed.get, range(self.size)))

    def run_once(self) -> None:
        """Runs it with what is known."""
        for part in self.parts:
            make_calls(part.calls(self.fixed, NO_BINDINGS))


def make_calls(calls: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Makes calls one after another; their results. No bytecode runs between two of them."""
    return list(starmap(call, calls))


def add_copy(parts: Parts, target: int, source: int, device: str, is_fresh: bool = False) -> ProgramPart:
    """A copy from one place of the table to another; `device` is that of the target."""
    part = ProgramPart(device, [target, source], is_fresh=is_fresh)
    parts.parts.append(part)
    return part


def add_schedule(
    parts: Parts,
    roots: Sequence[UOp],
    effects: Sequence[Effect],
    order: list[UOp],
    device: str,
    windows: Mapping[UOp, Window] = NO_WINDOWS,
    is_named: bool = False,
) -> ProgramPart:
    """A schedule that computes some nodes and carries out some effects; `order` is what is below both.

    The first places of the part are those of the roots, then come those of the effects' memories: their own, where they
    are changed in place, else copies of them, which are made right before.
    """
    if effects:
        graph = parametrise_effects(roots, effects, order, windows, is_named, parts.given)
    else:
        graph = parametrise(roots, order, windows, is_named, parts.given)
    places = [*range(parts.size, parts.size + len(roots))]
    parts.size += len(roots)
    for effect in effects:
        places.append(_add_memory(parts, effect, device))
    places += [parts.input_place(slot, device) for slot in graph.slots]
    part = ProgramPart(device, places, graph, find_plan(graph, device), variables=dict(graph.variables) or None)
    parts.parts.append(part)
    return part


def _add_memory(parts: Parts, effect: Effect, device: str) -> int:
    """The place of the memory that an effect changes."""
    memory = effect.memory
    if effect.in_place:
        return parts.new_place(parts.memory_now(memory, device))
    source = parts.input_place(memory, device)
    place = parts.new_place(allocate(device, nbytes_of(memory.dtype, memory.shape)))
    add_copy(parts, place, source, device)
    return place
