"""Runs a captured function again: with the memory that its tensors have now, in one native call.

A replay finds the memory of every argument and of every captured tensor, gets new memory for results, runs the program,
and gives tensors that were written their new values: in place where nobody else can see the old ones, else in new
memory. What the trace depended on is compared first; where it is no longer so (a captured tensor has another shape, two
arguments share their memory and did not before) the result is MISSED, and the function is traced again.

Nothing here grows with the number of kernels. Captured tensors are compared in rows, without a loop in Python.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from whit.engine.devices.disk import allocate
from whit.engine.memory.history import note_written
from whit.engine.memory.holders import holding
from whit.engine.memory.origins import note_result
from whit.engine.memory.ownership import attachment, base_of, own_memories
from whit.engine.memory.placeholder import given_away
from whit.engine.memory.storage import attach, attach_known, new_buffer, storage
from whit.engine.programs.overlay import raw_set
from whit.engine.programs.program import Program
from whit.engine.programs.trace import Drawn
from whit.engine.realize.parametrise import Names
from whit.engine.realize.realize import realize
from whit.ir import ops
from whit.ir.assumed import Bindings, value_with
from whit.ir.sizes import Size, settled
from whit.ir.uop import UOp
from whit.jit.captured import Captured
from whit.jit.records import CapturedInput, Change, Escape, Grad, Guards, Output, ReadTensor, Shared, shown_base
from whit.jit.signature import MISSED, Result, rebound
from whit.records import dataclass, field
from whit.runtime.buffer import Buffer
from whit.tensor.graphs.threefry import generator

running = threading.RLock()  # who replays: programs write memory that others read, and share an arena
NEVER = -1
COUNTER_BYTES = 64  # bytes from the counter of a draw to the next


@dataclass(eq=False)
class Replay:
    """A captured function."""

    name: str
    program: Program
    views: bool  # arguments that are views were seen as views
    captured_inputs: list[CapturedInput]
    seen: list[ReadTensor]
    changes: list[Change]
    gradients: list[Grad]
    outputs: list[Output]
    result: Result
    guards: Guards
    draws: list[Drawn]
    seed: int | None
    drawn: Size
    escapes: list[Escape] = field(default_factory=list)  # their memory are the last outputs
    names: Names = field(default_factory=dict)  # of further values of variables
    shared: list[Shared] = field(default_factory=list)  # what results show; empty: each its own memory

    def __post_init__(self) -> None:
        self._let_go_of_arguments()
        self._captured = Captured(self.program, self.captured_inputs, self.seen, self.changes)
        self._arguments = [seen for seen in self.seen if seen.argument >= 0]
        self._shared = self._captured.captured_inputs() & {seen.captured_input for seen in self._arguments}
        if self.guards.asked and self.program.is_native():
            self.guards.use_native()
        known = [grad for grad in self.gradients if grad.is_settled()]
        self._settled_gradients = [(raw_set("grad"), grad.tensor, grad.value) for grad in known]
        self._other_gradients = [grad for grad in self.gradients if not grad.is_settled()]
        self._noted = [number for number, output in enumerate(self.outputs) if output.name]
        self._changing: list[int] = []  # places of the table that each call fills
        self._known = NEVER  # the version of the rest, which the program has seen
        self._counters = self._place_counters()
        self._relative = settled(sum(drawn.count for drawn in self.draws if drawn.seed is None))

    def _let_go_of_arguments(self) -> None:
        """Those of the first call need not live as long as the capture."""
        for seen in self.seen:
            if seen.argument >= 0:
                seen.tensor = None
            if seen.owner_argument >= 0:
                seen.owner = None
        for change in self.changes:
            if change.seen >= 0:
                change.tensor = None
        for grad in self.gradients:
            if grad.argument >= 0:
                grad.tensor = None

    def __call__(self, arguments: Sequence[Any], bindings: Mapping[str, int]) -> Any:
        """Runs the program; MISSED if it does not fit."""
        with running:
            return self._run(arguments, self.values(bindings) if self.names else bindings)

    def values(self, bindings: Mapping[str, int]) -> Bindings:
        """The values of variables, also of those that had several ones as arguments, by what they were then."""
        return {**bindings, **{key: bindings[name] for key, name in self.names.items()}}

    def _run(self, arguments: Sequence[Any], bindings: Bindings) -> Any:
        # complex: every replay runs it, and asks for each kind of work whether there is any before it calls
        program = self.program
        if not self.guards.hold(arguments) or (program.assumptions and not program.fits(bindings)):
            return MISSED
        captured = self._captured
        owns = captured.update(arguments)
        table = captured.table.copy()
        if owns is None or not self._bind(arguments, table):
            return MISSED
        then: list[tuple[Any, ...]] = []
        changes = captured.others if owns else self.changes
        if changes and not self._place_all(changes, arguments, table, then):
            return MISSED
        donations = self._take_donations(arguments, then) if self.program.donations else {}
        made = self._make_all(bindings, donations, table)
        if self._noted:
            self._note_results(made, arguments)
        # What goes away goes after the run: an interrupt that comes meanwhile would be lost in what Python does then.
        _before = [tensor.uop for tensor in (*captured.tensors, *arguments)] if then else []
        then += self._settled_gradients
        if self._other_gradients or self.escapes:
            then += self._afterwards(made, arguments)
        if self.draws:
            self._fill_counters(bindings)
        self._launch(table, bindings, then, owns)
        if self.escapes:
            self._mark_escapes()
        results = [one.of(made, arguments) for one in self.shared] if self.shared else made
        return self.result.fill(results, arguments, bindings)

    def _launch(self, table: list[Any], bindings: Bindings, then: list[tuple[Any, ...]], owns: bool) -> None:
        """Runs the program. It is told what is new in the table since its last run, if only that is."""
        is_known = owns and self._known == self._captured.version
        self._known = NEVER  # until this run is over
        self.program.run(table, bindings, then, self._changing if is_known else None)
        if not owns:
            return
        if not is_known:
            self._changing = self._places_that_change()
        self._known = self._captured.version

    def _places_that_change(self) -> list[int]:
        places = [self.captured_inputs[seen.captured_input].place for seen in self._arguments]
        places += [change.state.place for change in self._captured.others] + self.program.outputs
        return [place for place in dict.fromkeys(places) if place >= 0]

    # ---- arguments

    def _bind(self, arguments: Sequence[Any], table: list[Any]) -> bool:
        """Puts the memory of arguments into the table. False if they share it otherwise than they did."""
        bases = self._bases_of(arguments)
        if bases is None:
            return False
        if self.changes and not self.views and not self._can_ignore_families(arguments):
            return False
        taken: set[int] = set()
        captured = self._captured.base_ids
        lazy: list[int] = []
        for captured_input, base in bases.items():
            if base.device is not None:
                if id(base) in taken or (id(base) in captured) is not (captured_input in self._shared):
                    return False
                taken.add(id(base))
            place = self.captured_inputs[captured_input].place
            if base.op is not ops.BUFFER:
                lazy.append(captured_input)
            elif place >= 0:
                table[place] = storage(base)
        if lazy:
            self._compute(lazy, bases, table)
        return True

    def _bases_of(self, arguments: Sequence[Any]) -> dict[int, UOp] | None:
        """What stands behind the sites of arguments; None if some show one in another way, or not the same."""
        bases: dict[int, UOp] = {}
        for seen in self._arguments:
            tensor = arguments[seen.argument]
            placeholder = self.captured_inputs[seen.captured_input].placeholder
            base = shown_base(seen, tensor, placeholder) if self.views else tensor.uop
            if base is None or bases.setdefault(seen.captured_input, base) is not base:
                return None
        return bases

    def _can_ignore_families(self, arguments: Sequence[Any]) -> bool:
        """Whether no write of the function goes through a view, or is seen through one that the function reads."""
        families_of = (arguments[seen.argument]._family for seen in self._arguments)
        given = {id(family) for family in families_of if family is not None}
        return not given or self._writes_no_view(arguments, given)

    def _writes_no_view(self, arguments: Sequence[Any], given: set[int]) -> bool:
        """The same where some arguments are views, or have some: `given`, the ids of their families."""
        changed = [self.seen[c.seen] for c in self.changes if c.seen >= 0 and not c.is_replaced]
        written = {seen.argument for seen in changed}
        read = (*[arguments[seen.argument] for seen in self._arguments], *self._captured.tensors)
        families = Counter(id(tensor._family) for tensor in read)  # how many tensors of each the function reads
        for number in written - {-1}:
            family = arguments[number]._family
            if family is not None and (arguments[number].uop is not family.uop or families[id(family)] > 1):
                return False
        return all(id(seen.tensor._family) not in given for seen in changed if seen.argument < 0)

    def _compute(self, lazy: list[int], bases: dict[int, UOp], table: list[Any]) -> None:
        """The memory of arguments that are not computed yet, or are constants."""
        by_device: dict[str | None, list[int]] = {}
        for captured_input in lazy:
            if self.captured_inputs[captured_input].place >= 0:
                by_device.setdefault(self.captured_inputs[captured_input].placeholder.device, []).append(captured_input)
        for device, captured_inputs in by_device.items():
            for captured_input, buffer in zip(
                captured_inputs,
                realize([bases[captured_input] for captured_input in captured_inputs], device),
                strict=True,
            ):
                table[self.captured_inputs[captured_input].place] = storage(buffer)

    # ---- results

    def _note_results(self, made: Sequence[Any], arguments: Sequence[Any]) -> None:
        """What people are told of results that have a name."""
        for number in self._noted:
            output = self.outputs[number]
            inputs = [arguments[place].uop for place in output.inputs]
            note_result(made[number].uop, output.name, inputs, output.captured)

    def _afterwards(self, made: Sequence[Any], arguments: Sequence[Any]) -> list[tuple[Any, ...]]:
        """What is to be set after the run: gradients that come with a call, and what the function has made and put
        elsewhere."""
        then: list[tuple[Any, ...]] = []
        for grad in self._other_gradients:
            target = grad.tensor if grad.argument < 0 else arguments[grad.argument]
            value = grad.value if grad.output < 0 else made[grad.output + self.result.count]
            then.append((raw_set("grad"), target, value))
        for escape, tensor in zip(reversed(self.escapes), reversed(made), strict=False):
            then += attachment(escape.tensor, escape.family, tensor.uop)
        return then

    def _mark_escapes(self) -> None:
        for escape, output in zip(reversed(self.escapes), reversed(self.outputs), strict=False):
            escape.tensor._mark(output.name, output.asks)

    def _make_all(self, bindings: Bindings, donations: Mapping[int, Buffer], table: list[Any]) -> list[Any]:
        """The results, whose memory the table gets."""
        made = [self._make(output, bindings, donations.get(number)) for number, output in enumerate(self.outputs)]
        for place, one in zip(self.program.outputs, made, strict=True):
            table[place] = storage(one.uop)
        return made

    def _make(self, output: Output, bindings: Bindings, memory: Buffer | None) -> Any:
        if output.nbytes >= 0:
            node = attach_known(memory or allocate(output.device, output.nbytes), output.dtype, output.shape)
        elif memory is None:
            node = new_buffer(output.dtype, rebound(output.shape, bindings), output.device)
        else:
            node = attach(memory, output.dtype, rebound(output.shape, bindings))
        return output.kind._of_buffer(node, output.where, output.name, output.asks)

    def _place_all(
        self, changes: Sequence[Change], arguments: Sequence[Any], table: list[Any], then: list[tuple[Any, ...]]
    ) -> bool:
        """Where new values go: to the old memory, or to new memory that the tensor gets afterwards. False if others
        would see a write that the program does not do."""
        tensors = [self._changed_by(change, arguments) for change in changes]
        if any(
            change.writes_first and tensor._family is not None for change, tensor in zip(changes, tensors, strict=True)
        ):
            return False
        can_stay = [
            number
            for number, (change, tensor) in enumerate(zip(changes, tensors, strict=True))
            if change.can_stay() and (tensor._family is None or not change.is_replaced)
        ]
        memories = own_memories([tensors[number] for number in can_stay])
        own = {can_stay[place]: memory for place, memory in memories.items()}
        for number, (change, tensor) in enumerate(zip(changes, tensors, strict=True)):
            if number in own:
                table[change.state.place] = own[number]
            else:
                self._move(change, tensor, table, then)
        return True

    def _changed_by(self, change: Change, arguments: Sequence[Any]) -> Any:
        """The tensor that has another value afterwards."""
        if change.seen < 0:
            return change.tensor
        seen = self.seen[change.seen]
        return seen.tensor if seen.argument < 0 else arguments[seen.argument]

    def _move(self, change: Change, tensor: Any, table: list[Any], then: list[tuple[Any, ...]]) -> None:
        """New memory for a new value."""
        state, family = change.state, tensor._family
        node = new_buffer(change.dtype, change.shape, state.device or tensor.device)
        table[state.place] = storage(node)
        if state.is_part:
            (before,) = realize([tensor.uop if family is None else family.uop])
            storage(node).copy_from(storage(before))
        if change.is_replaced:
            then += [(raw_set("uop"), tensor, node), (raw_set("_family"), tensor, None), *holding(tensor)]
        else:
            note_written(node, base_of(tensor))
            then += attachment(tensor, family, node)

    def _take_donations(self, arguments: Sequence[Any], then: list[tuple[Any, ...]]) -> dict[int, Buffer]:
        """The memory of arguments that results get; the arguments have no value afterwards."""
        numbers: list[int] = []
        tensors: list[Any] = []
        for number, placeholder in self.program.donations.items():
            seen = next(seen for seen in self._arguments if seen.start is placeholder)
            if arguments[seen.argument]._family is None:
                numbers.append(number)
                tensors.append(arguments[seen.argument])
        memories = own_memories(tensors)
        for place in memories:
            tensor = tensors[place]
            then.append((raw_set("uop"), tensor, given_away(tensor.dtype, tensor.shape, tensor.device)))
        return {numbers[place]: memory for place, memory in memories.items()}

    # ---- random numbers

    def _place_counters(self) -> dict[str, Buffer]:
        """Memory for the counters of draws, on each device that draws."""
        counters: dict[str, Buffer] = {}
        for number, drawn in enumerate(self.draws):
            device = str(drawn.placeholder.device)
            if device not in counters:
                counters[device] = allocate(device, COUNTER_BYTES * len(self.draws))
            place = self.program.inputs.get(drawn.placeholder)
            if place is not None:
                self._captured.table[place] = counters[device].view(COUNTER_BYTES * number, 16)
        return counters

    def _fill_counters(self, bindings: Bindings) -> None:
        """Draws numbers that nobody had before, as many as the function would."""
        source = generator
        count, drawn_now = value_with(self._relative, bindings), value_with(self.drawn, bindings)
        seed, start = source.reserve(count, self.seed, drawn_now)
        for number, drawn in enumerate(self.draws):
            ahead = value_with(drawn.start, bindings)
            data = source.counter_bytes(*((seed, start + ahead) if drawn.seed is None else (drawn.seed, ahead)))
            memory = self._counters[str(drawn.placeholder.device)]
            memory.write(memoryview(data), COUNTER_BYTES * number)


def _after_fork() -> None:
    global running  # noqa: PLW0603  a fork: nobody would release it
    running = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
