"""Loops in schedules: the schedule of one step, and how its params move over memory while it is repeated.

    h, ys = loop(step, h0, xs)      ->      call(repeat([step's kernels], moves), h, ys, ring, h0, xs)

A step is scheduled once, over params: first for what it returns, then for what it is given. Its kernels are plain
kernels over plain memory; the loop moves what their params point to:

    a part of inputs or outputs     that of the step, along the first axis
    a state                         one of two memories in turn, such that the last step fills the one for the result;
                                    or the part of the step before, where a step returns it as an output too
    all else                        stays

So a loop has as many kernels as a step, whatever its length. GPUs get the kernels of every step one after another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from whit.ir import ops
from whit.ir.args import FunctionArg, LoopArg, MoveArg, ParamArg, RepeatArg
from whit.ir.uop import UOp, make
from whit.records import dataclass, field, replace


class StepSchedule(Protocol):
    """Schedules a function."""

    def __call__(self, function: UOp, results: int, params: int, states: int = 0) -> UOp:
        """LINEAR over params: from `results` on those for what it returns, without those of so many states that are
        outputs too; from `params` on its own."""


@dataclass(slots=True)
class Placed:
    """A loop whose operands and results have memory."""

    arg: LoopArg
    functions: tuple[UOp, ...]
    results: tuple[UOp, ...]  # memories of what it returns
    operands: tuple[UOp, ...]  # memories of what it is given
    length: UOp | None  # a symbolic one
    new_buffer: Callable[[UOp], UOp]
    follows: bool = True  # whether a state that is an output, too, lies there: in the end it has to be copied

    def as_call(self, schedule: StepSchedule) -> UOp:
        """The call that stands in a schedule."""
        members = self.functions[0].src[0].src
        state = _Moves(len(self.results), len(self.operands))
        if self.arg.kind == "scan":
            self._scan(state, members)
        elif self.arg.kind == "while":
            self._while(state, members)
        else:
            for place in range(len(self.results)):
                state.stay(place, place)
            for place in range(1, len(self.operands)):
                state.stay(len(members) + place - 1, state.operand(place))
            state.decides = state.operand(0)
        states = self.arg.carries if self.arg.kind == "scan" and self.follows else 0
        linears = [schedule(self.functions[0], 0, len(members), states)]
        if self.arg.kind == "while":
            linears.append(schedule(self.functions[1], len(members) + len(self.operands), len(members)))
        elif self.arg.kind == "cond":
            linears.append(schedule(self.functions[1], 0, len(members)))
        return self._called(state, linears)

    def _scan(self, state: _Moves, members: Sequence[UOp]) -> None:
        """States alternate between two memories, or follow an output."""
        carries, inputs = self.arg.carries, self.arg.inputs
        output_of = {member: place for place, member in enumerate(members) if place >= carries}
        for place, member in enumerate(members):
            if place >= carries:
                state.move(place, MoveArg(place, place, is_part=True))
                continue
            given, first = len(members) + place, state.operand(place)
            output = output_of.get(member) if self.follows else None
            if output is not None:  # the place of a param that nothing fills: the value is stored once
                state.move(place, MoveArg(output, output, is_part=True))
                state.move(given, MoveArg(output, output, first, is_part=True, is_before=True))
            else:
                other = state.scratch(self.new_buffer(member))
                state.move(place, MoveArg(place, other))
                state.move(given, MoveArg(other, place, first))
            state.finals.append(given)
        for place in range(carries, len(self.operands)):
            is_part = place < carries + inputs
            slot = state.operand(place)
            state.move(len(members) + place, MoveArg(slot, slot, is_part=is_part))

    def _while(self, state: _Moves, members: Sequence[UOp]) -> None:
        """The same where the last step is not known."""
        for place, member in enumerate(members):
            given = len(members) + place
            other = state.scratch(self.new_buffer(member))
            state.move(place, MoveArg(place, other))
            state.move(given, MoveArg(other, place, state.operand(place)))
            state.finals.append(given)
        for place in range(len(members), len(self.operands)):
            state.stay(len(members) + place, state.operand(place))
        (found,) = self.functions[1].src[0].src
        state.decides = state.scratch(self.new_buffer(found))
        state.stay(len(members) + len(self.operands), state.decides)

    def _called(self, state: _Moves, linears: Sequence[UOp]) -> UOp:
        """Operands: results, then memory of the loop's own, then what it is given."""
        count, own = len(self.results), len(state.own)
        numbers = {place: place for place in range(count)}
        numbers |= {_OWN + i: count + i for i in range(own)}
        numbers |= {_GIVEN + i: count + own + i for i in range(len(self.operands))}
        numbers[-1] = -1
        moves = [
            replace(move, even=numbers[move.even], odd=numbers[move.odd], first=numbers[move.first])
            for _, move in sorted(state.moves.items())
        ]
        memories = [*self.results, *state.own, *self.operands]
        params = [UOp.param(slot, memory.dtype, memory.shape) for slot, memory in enumerate(memories)]
        sizes = () if self.length is None else (self.length,)
        arg = RepeatArg(
            self.arg.kind,
            tuple(moves),
            count + own,
            tuple(state.finals),
            numbers[state.decides],
            self.arg.length,
            self.arg.is_reversed,
        )
        names = [function.arg.name for function in self.functions]
        schedules = [_function(name, linear) for name, linear in zip(names, linears, strict=True)]
        body = make(ops.REPEAT, (*schedules, *params, *sizes), arg)
        return body.function(f"{self.arg.kind}_{names[0]}").call(*memories)


_OWN, _GIVEN = 1 << 20, 1 << 21  # numbers of operands while their places are not known


@dataclass(slots=True)
class _Moves:
    """What is found out about the params of a step, by slot."""

    results: int
    operands: int
    moves: dict[int, MoveArg] = field(default_factory=dict)
    own: list[UOp] = field(default_factory=list)
    finals: list[int] = field(default_factory=list)
    decides: int = -1

    def operand(self, place: int) -> int:
        """The number of something that the loop is given."""
        return _GIVEN + place

    def scratch(self, memory: UOp) -> int:
        """The number of more memory of its own."""
        self.own.append(memory)
        return _OWN + len(self.own) - 1

    def move(self, slot: int, move: MoveArg) -> None:
        """A param moves like this."""
        self.moves[slot] = move

    def stay(self, slot: int, operand: int) -> None:
        """A param is always the same operand."""
        self.moves[slot] = MoveArg(operand, operand)


def _function(name: str, linear: UOp) -> UOp:
    """A schedule as a function of its params."""
    params: dict[int, ParamArg] = {}
    for node in linear.topological():
        if node.op is ops.PARAM:
            params[node.arg.slot] = node.arg
    return make(ops.FUNCTION, (linear,), FunctionArg(name, tuple(params[slot] for slot in sorted(params))))


def unrolled(call: UOp, fresh: Callable[[UOp], UOp]) -> list[UOp]:
    """The kernels of every step of a scan in order, for devices that take a list; `fresh` gives temporaries. The last
    step leaves states where they belong, as none follows an output."""
    function, *memories = call.src
    (repeat,) = function.src
    arg = repeat.arg
    (linear,) = repeat.src[0].src
    found: list[UOp] = []
    for step in range(arg.length):
        places: dict[UOp, UOp] = {}
        for kernel in linear.src:
            found.append(_on_memories(kernel, places, partial(_part, arg, memories, step), fresh))
    return found


def _on_memories(
    kernel: UOp, places: dict[UOp, UOp], memory_of: Callable[[int], UOp], fresh: Callable[[UOp], UOp]
) -> UOp:
    function, *arguments = kernel.src
    given = []
    for argument in arguments:
        memory = argument
        while memory.op not in (ops.PARAM, ops.BUFFER) and memory.op is not ops.BIND:
            (memory, *_) = memory.src
        if memory not in places and memory.op is not ops.BIND:
            places[memory] = memory_of(memory.arg.slot) if memory.op is ops.PARAM else fresh(memory)
        given.append(argument if memory.op is ops.BIND else argument.substitute({memory: places[memory]}))
    return make(ops.CALL, (function, *given))


def _part(arg: RepeatArg, memories: Sequence[UOp], step: int, slot: int) -> UOp:
    """The memory of a param in a step of a scan."""
    move, length = arg.moves[slot], arg.length or 0
    if step == 0 and move.first >= 0:
        return memories[move.first]
    memory = memories[move.odd if (length - 1 - step) % 2 else move.even]
    if not move.is_part:
        return memory
    place = length - 1 - step if arg.is_reversed else step
    if move.is_before:
        place += 1 if arg.is_reversed else -1
    rest = [(0, size) for size in memory.shape[1:]]
    return memory.shrink([(place, 1), *rest]).reshape(memory.shape[1:])
