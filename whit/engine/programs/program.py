"""A traced graph made ready to run again and again with other memory.

Goes in: the values that a function returns, and those that tensors have after it, as graphs over placeholders. Comes
out: a `Program`: one schedule (one for each device, with copies between them) over a table of buffers.

    return x * w;  w.assign(w - 1)         table:  0 x * w   1 the new w   2 x   3 w   4 the number 1

What is written to a part of a tensor goes to its old memory, which stands in the table once; what replaces a tensor
has a place of its own, and the caller may put the old memory there if `State.can_overwrite`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from whit.config import DEBUG
from whit.engine.compile.compile import prepare_pool
from whit.engine.devices.cpu import CpuDevice, Resident
from whit.engine.devices.device import Device, canonicalize
from whit.engine.devices.disk import allocate
from whit.engine.memory.placeholder import is_placeholder, new_placeholder
from whit.engine.memory.storage import nbytes_of
from whit.engine.plan.find_plan import can_lie_in, memory_of_slot
from whit.engine.plan.plan import plan_of
from whit.engine.programs.dependencies import Access, accesses_of
from whit.engine.programs.parts import ALL, Calls, Parts, add_copy, add_schedule, make_calls
from whit.engine.programs.prune import prune
from whit.engine.programs.queues import Batch, Call, Way, batches, report
from whit.engine.programs.submit import Submission, can_submit
from whit.engine.realize.assume import Assumption
from whit.engine.realize.effects import Effect, effect_of, last_changes, stored_value
from whit.engine.realize.parametrise import NO_NAMES, Names, Parametrised, below
from whit.engine.report.launch_names import keep_made
from whit.ir import ops
from whit.ir.assumed import Bindings
from whit.ir.map_graph import map_graphs
from whit.ir.op import Sources
from whit.ir.uop import UOp, make
from whit.recording import hooks
from whit.records import dataclass, field
from whit.runtime.buffer import Buffer, is_on_host


@dataclass(slots=True)
class State:
    """The new value of a tensor: its place in the table, and how it is about the old memory."""

    placeholder: UOp | None  # what stands for the old one; None: it was a constant
    device: str | None = None
    place: int = -1
    is_part: bool = False  # the old content is changed: it must be in this place
    can_overwrite: bool = False  # the old memory may be in this place


@dataclass(slots=True)
class Program(Parts):
    """Parts that are run again and again: what is `fixed` is the same in every run."""

    outputs: list[int] = field(default_factory=list)  # places of the results
    states: list[State] = field(default_factory=list)
    pruned: list[UOp] = field(default_factory=list)  # placeholders of what `before` computes
    before: Program | None = None  # what is run once, and again when captured tensors have changed
    donations: dict[int, UOp] = field(default_factory=dict)  # results that may lie in the memory of a placeholder
    assumptions: list[Assumption] = field(default_factory=list)  # of the values of variables
    submission: Submission | None = None  # made when it first runs
    _is_known: bool = False  # the last run was told what is in the table

    def memory_now(self, node: UOp, device: str) -> Buffer | None:
        """The memory of a node; None for a placeholder."""
        return None if is_placeholder(node) else memory_of_slot(node, device)

    def is_native(self) -> bool:
        """Whether machine code of whit runs it, or a part of it, in this process."""
        return any(part.resident is not None for part in self.parts)

    def assume(self, rooms: Iterable[UOp]) -> None:
        """Takes for granted that these sizes are not negative."""
        known = {one.room for one in self.assumptions}
        text = "the room beside a window is {0}"
        self.assumptions += [Assumption(room, text, (room,)) for room in rooms if room not in known]

    def fits(self, bindings: Bindings) -> bool:
        """Whether windows and sizes are inside with these values of variables."""
        return all(one.holds(bindings) for one in self.assumptions)

    def kernels(self) -> int:
        """How many kernels a run has."""
        return sum(len(plan_of(part.loaded).steps) for part in self.parts if part.graph is not None)

    def arena(self) -> int:
        """Bytes of temporaries."""
        return sum(int(plan_of(part.loaded).arena_bytes) for part in self.parts if part.graph is not None)

    def run(
        self,
        table: list[Buffer],
        bindings: Mapping[str, int],
        then: Iterable[tuple[Any, ...]],
        changed: Iterable[int] | None = None,
    ) -> None:
        """Runs it with variables bound anew, and at once the calls in `then`, each a function and its arguments.
        `changed` are the places where the table may differ from the last time; None: everywhere.

        Native code and these calls follow one another without Python in between, so that no interrupt comes there: what
        has been written to memory is known to the tensors.
        """
        calls = None
        if DEBUG < 2 and not hooks.timers():
            calls = self._native_calls(table, bindings, changed)
        if calls is not None and self.submission is not None:
            self.submission.finish(calls, make_calls([*calls, *then]))
            return
        self._is_known = False
        plain = [part.calls(table, bindings) for part in self.parts]  # as where kernels are timed, one by one
        make_calls([*chain.from_iterable(plain), *then])

    def _native_calls(
        self, table: list[Buffer], bindings: Mapping[str, int], changed: Iterable[int] | None
    ) -> Calls | None:
        """What a run calls; None if it has to be run part by part."""
        if self.submission is None:
            ways = self.ways()
            if not can_submit(self.parts, ways):
                return None
            self.submission = Submission(self.parts, self.calls(), ways)
        calls = self.submission.calls(table, bindings, changed if self._is_known else None)
        self._is_known = calls is not None
        return calls

    # ---- questions

    def ways(self) -> dict[int, Way]:
        """The parts that are copies between devices."""
        devices = {place: str(node.device) for node, place in self.inputs.items()}
        devices |= {place: buffer.device for place, buffer in self.fixed.items()}
        found: dict[int, Way] = {}
        for number, part in enumerate(self.parts):
            if part.graph is None:
                target, source = part.places
                found[number] = Way(devices[target], devices[source], self.fixed[target].nbytes)
        return found

    def calls(self) -> list[Call]:
        """Every kernel and every copy in order, with its queue and the memory that it reads and writes."""
        memory = self._memories()
        ways = self.ways()
        found: list[Call] = []
        for number, part in enumerate(self.parts):
            places = range(self.size) if part.places is ALL else part.places
            names = [memory.get(place, place) for place in places]
            if number in ways:
                way = ways[number]
                accesses = [Access(name, 0, way.nbytes, i == 0) for i, name in enumerate(names)]
                found.append(Call(f"copy from {way.source} to {way.target}", way.queue, accesses, number, 0))
                continue
            plan = plan_of(part.loaded)
            every = accesses_of(plan, names, f"arena of {part.device}")
            for i, (step, accesses) in enumerate(zip(plan.steps, every, strict=True)):
                found.append(Call(step.function.arg.name, part.device, accesses, number, i))
        return found

    def batches(self) -> list[Batch]:
        """The calls as they are submitted."""
        return batches(self.calls())

    def explain(self) -> str:
        """What a run does: its batches by queue, what they wait for, and the memory of temporaries."""
        return "\n".join([*report(self.calls()), f"temporaries: {self.arena()} bytes"])

    def _memories(self) -> dict[int, int]:
        """Places that may have the memory of another: results and states that overwrite what they replace."""
        found: dict[int, int] = {}
        pairs = [(state.place, state.placeholder) for state in self.states if state.is_part or state.can_overwrite]
        pairs += [(self.outputs[number], placeholder) for number, placeholder in self.donations.items()]
        for place, placeholder in pairs:
            if placeholder in self.inputs:
                found[place] = self.inputs[placeholder]
        return found


def plain(roots: Sequence[UOp], known: dict[UOp, UOp] | None = None) -> list[UOp]:
    """The same values without what only concerned gradients, and without stores that cover all of a tensor. `known` has
    what was found before, for callers that ask again and again."""

    def change(node: UOp, src: Sources) -> UOp:
        new = keep_made(src[0], node) if node.op in ops.SAME_VALUE else _over(node, src)
        value = stored_value(new)
        return new if value is None else value

    done = map_graphs(roots, change, known)
    return [done[root] for root in roots]


def _over(node: UOp, src: Sources) -> UOp:
    """A node over other sources, made where it was."""
    return node if src == node.src else keep_made(make(node.op, src, node.arg), node)


def build(
    outputs: Sequence[UOp],
    states: Sequence[tuple[UOp, UOp | None]],
    device: str,
    fixed: Collection[UOp] = (),
    donated: Sequence[UOp] = (),
    given: Names = NO_NAMES,
) -> Program:
    """The program of these results, and of these new values of placeholders. `device` is for constants, `given` names
    variables with some values.

    What depends on the placeholders in `fixed` alone is taken out; results may lie in the memory of `donated` ones.
    """
    program = Program(given=given)
    values = plain([*outputs, *[value for value, _ in states]])
    if fixed:
        values, found = prune(values, fixed)
        if found:
            program.pruned = [placeholder for placeholder, _ in found]
            program.before = build([node for _, node in found], (), device)
    values = _carry_copies(program, values, device)
    program.states = [State(old) for _, old in states]
    program.outputs = [-1] * len(outputs)
    devices = [value.device or device for value in values]
    for name in dict.fromkeys(devices):
        _add_on(program, name, values, [number for number, each in enumerate(devices) if each == name], donated)
    if len(program.parts) == 1 and program.parts[0].places == list(range(program.size)):
        program.parts[0].places = ALL
    return program


def _add_on(program: Program, device: str, values: list[UOp], numbers: list[int], donated: Sequence[UOp]) -> None:
    """The part for one device: those of the values, results first, that are computed there."""
    count = len(program.outputs)
    outputs = [(number, values[number]) for number in numbers if number < count]
    states = [(program.states[number - count], values[number]) for number in numbers if number >= count]
    for state, value in states:
        state.device = value.device
    places = _add(program, [value for _, value in outputs], states, device)
    for (number, _), place in zip(outputs, places, strict=True):
        program.outputs[number] = place
    _donate(program, outputs, [node for node in donated if node.device == device])


def _donate(program: Program, outputs: list[tuple[int, UOp]], donated: list[UOp]) -> None:
    """Finds for each placeholder that is given away a result that can lie in its memory."""
    part = program.parts[-1]
    for placeholder in donated:
        for slot, (number, value) in enumerate(outputs):
            is_alike = (value.dtype, value.shape) == (placeholder.dtype, placeholder.shape)
            if not is_alike or number in program.donations or part.graph is None:
                continue
            if can_lie_in(part.graph, slot, placeholder, part.device):
                program.donations[number] = placeholder
                break


def _carry_copies(program: Program, values: list[UOp], device: str) -> list[UOp]:
    """The values after copies between devices, which become parts of the program."""
    order, has_special = below(values)
    if not has_special:
        return values
    known: dict[UOp, UOp] = {}
    for node in order:
        if node.op is ops.COPY:
            (source,) = on_other_leaves(node.src, known)
            known[node] = _carry_copy(program, node, source, device)
    return on_other_leaves(values, known)


def _carry_copy(program: Program, copy: UOp, source: UOp, device: str) -> UOp:
    """What stands for the result of a copy; `source` is what is copied, over the results of earlier ones."""
    target = canonicalize(copy.arg)
    if source.device == target:
        return source
    result = new_placeholder(copy.dtype, copy.shape, target)
    nbytes = nbytes_of(copy.dtype, copy.shape)
    if is_placeholder(source):
        start = program.input_place(source, target)
    else:
        (start,) = _add(program, [source], [], source.device or target)
        program.fixed[start] = allocate(source.device or target, nbytes)
    if source.device is None:  # numbers: they were computed where they are wanted
        program.inputs[result] = start
        return result
    place = program.inputs[result] = program.new_place(_memory_of_copy(source.device, target, nbytes))
    add_copy(program, place, start, target)
    return result


def _memory_of_copy(source: str | None, target: str, nbytes: int) -> Buffer:
    """Memory for what is copied in each run: pinned on the host, if it comes from a GPU (14 -> 55 GB/s on an H200)."""
    if source is None or not source.startswith("CUDA") or not is_on_host(target):
        return allocate(target, nbytes)
    from whit.runtime.cuda.buffer import pinned_buffer  # lazy: loads the driver

    return pinned_buffer(target, nbytes, source)


def on_other_leaves(roots: Sequence[UOp], known: Mapping[UOp, UOp]) -> list[UOp]:
    """The same graphs with other nodes in the places of those that are `known`."""
    done = map_graphs(roots, _over, dict(known))
    return [done[root] for root in roots]


def _add(program: Program, values: list[UOp], states: Sequence[tuple[State, UOp]], device: str) -> list[int]:
    """One more part, which computes values and the new values of states; the places of the former."""
    order, has_special = below([*values, *[value for _, value in states]])
    effects = _effects(order) if has_special else []
    changed = _changed_in_part(states, effects)
    effects.sort(key=lambda effect: not effect.in_place)  # those of states first
    others = [(state, value) for state, value in states if changed.get(value) is not state]
    roots = [*values, *[value for _, value in others]]
    part = add_schedule(program, roots, effects, order, device, is_named=True)
    part.resident = resident_of(device, part.loaded)
    assert part.graph is not None, "a schedule has a graph"
    rooms = {one.room for one in program.assumptions}
    program.assumptions += [one for one in part.graph.assumptions if one.room not in rooms]
    for slot, (state, new) in enumerate(others, len(values)):
        state.place = part.places[slot]
        state.can_overwrite = _can_replace(state.placeholder, new, part.graph, slot)
    for effect, place in zip(effects, part.places[len(roots) :], strict=False):
        if effect.in_place:
            changed[effect.top].place = place
    return part.places[: len(values)]


def _can_replace(old: UOp | None, new: UOp, graph: Parametrised, slot: int) -> bool:
    """Whether a new value can lie in the memory of the old one."""
    if old is None or (old.device, old.dtype, old.shape) != (new.device, new.dtype, new.shape):
        return False
    return can_lie_in(graph, slot, old, str(new.device))


def _changed_in_part(states: Sequence[tuple[State, UOp]], effects: Sequence[Effect]) -> dict[UOp, State]:
    """The states whose old memory gets new elements and keeps the others, by their values."""
    by_top = {effect.top: effect for effect in effects}
    found: dict[UOp, State] = {}
    for state, value in states:
        effect = by_top.get(value)
        if effect is not None and effect.memory is state.placeholder and not effect.views() and value not in found:
            state.is_part = effect.in_place = True
            found[value] = state
    return found


def _effects(order: list[UOp]) -> list[Effect]:
    """The changes of parts of memories in a graph."""
    tops = [node for node in last_changes(order) if node.device is not None]
    found = [effect_of(top) for top in tops]
    return [effect for effect in found if effect is not None]


def resident_of(device: str, loaded: Any) -> Any:
    """A loaded plan made ready for one caller, where the device can."""
    backend: Any = Device[device]
    if type(backend) is CpuDevice:
        prepare_pool()
        return Resident(backend, loaded)
    if device.startswith("CUDA") and backend.gpu.has_graphs and not loaded.loops:
        prepare_pool()
        from whit.engine.devices.cuda_resident import CudaResident  # lazy: loads the driver

        return CudaResident(backend, loaded)
    return None
