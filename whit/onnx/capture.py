"""Captured parts of a model: steps that run as one program, from the second time on without Python.

    program = capture("model", run, tensors, device)      # `run` gives tensors and whatever else the host knows
    values = program(tensors)                             # None if it does not fit any more

`run` is called once, on tensors without data. What it returns may hold tensors in lists and dictionaries; what is no
tensor is the same in all runs of the program, so all of that must follow from what the program was chosen by.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from whit.config import Context
from whit.engine.devices.device import Device
from whit.engine.programs.overlay import current
from whit.engine.programs.trace import Trace
from whit.errors import WhitError
from whit.jit.capture import capture as capture_trace
from whit.jit.replayer import Replay
from whit.jit.signature import MISSED
from whit.records import dataclass
from whit.tensor import Tensor
from whit.tensor.core import Core

# What steps raise that cannot be captured: one that reads data says so in many ways; alone it says what is wrong.
ANSWERS: Final = (WhitError, ValueError, TypeError, RuntimeError, IndexError, KeyError)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor stands among the results of a program."""

    number: int


@dataclass(frozen=True, slots=True)
class Program:
    """A captured function of tensors. `template` has a `Place` where a tensor was."""

    replay: Replay
    template: Any

    def __call__(self, tensors: Sequence[Core]) -> Any:
        """Runs it; None if it does not fit."""
        found = self.replay(tensors, {})
        return None if found is MISSED else fill(self.template, found)


def capture(name: str, run: Callable[[], Any], tensors: Sequence[Core]) -> Program:
    """The program of a function that reads these tensors, and others that stay what they are."""
    device = next((t.uop.device for t in tensors if t.uop.device is not None), None) or Device.DEFAULT
    trace = Trace(name, views=False, takes_arrays=True)
    for tensor in tensors:
        trace.arguments[id(tensor)] = tensor._wanted or device
    made: list[Any] = []

    def traced() -> list[Tensor]:
        for tensor in tensors:
            trace.entry(tensor)
        with Context(FROZEN=True):  # what is made of a weight once is made again when that changes
            made.append(run())
        trace.check()
        return take_out(made[0])[1]

    results = trace.run(traced)
    template, _ = take_out(made.pop())
    return Program(capture_trace(trace, tensors, results, device, is_pruned=True), template)


def forgive() -> None:
    """Goes on after a step that cannot be traced: the program ends before it, so nothing of it is in the program."""
    trace = current()
    if trace is not None:
        trace.failure = None


def take_out(value: Any, found: list[Tensor] | None = None) -> tuple[Any, list[Tensor]]:
    """The tensors of a value, and the value with a `Place` for each."""
    found = [] if found is None else found
    if isinstance(value, Tensor):
        found.append(value)
        return Place(len(found) - 1), found
    if type(value) is list or type(value) is tuple:
        return type(value)([take_out(part, found)[0] for part in value]), found
    if type(value) is dict:
        return {key: take_out(part, found)[0] for key, part in value.items()}, found
    return value, found


def fill(template: Any, tensors: Sequence[Any]) -> Any:
    """The value, with tensors in their places."""
    kind = type(template)
    if kind is Place:
        return tensors[template.number]
    if kind is list or kind is tuple:
        return kind([fill(part, tensors) for part in template])
    if kind is dict:
        return {key: fill(part, tensors) for key, part in template.items()}
    return template
