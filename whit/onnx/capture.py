"""Captured parts of a model: steps that run as one program, from the second time on without Python.

    program = capture("model", run, tensors, device)      # `run` gives tensors and whatever else the host knows
    values = program(tensors)                             # None if it does not fit any more

`run` is called once, on tensors without data. It may see them in shapes with variables: then the program runs for all
their values. What it returns may hold tensors in lists and dictionaries; what is no
tensor is the same in all runs of the program, so all of that must follow from what the program was chosen by.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from whit.config import Context
from whit.engine.devices.device import Device
from whit.engine.memory.storage import attach, storage
from whit.engine.programs.overlay import current
from whit.engine.programs.trace import Trace
from whit.errors import WhitError
from whit.ir.sizes import value_now
from whit.jit.capture import capture as capture_trace
from whit.jit.replayer import Replay
from whit.jit.signature import MISSED
from whit.onnx.sizes import Sizes, is_symbolic
from whit.records import dataclass
from whit.tensor import Tensor
from whit.tensor.core import Core

NO_BINDINGS: Final[Mapping[str, int]] = MappingProxyType({})
# What steps raise that cannot be captured: one that reads data says so in many ways; alone it says what is wrong.
ANSWERS: Final = (WhitError, ValueError, TypeError, RuntimeError, IndexError, KeyError)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor stands among the results of a program."""

    number: int


@dataclass(frozen=True, slots=True)
class Program:
    """A captured function of tensors. `template` has a `Place` where a tensor was, and nodes where numbers depend on
    variables."""

    replay: Replay
    template: Any

    def __call__(self, tensors: Sequence[Core], bindings: Mapping[str, int] = NO_BINDINGS) -> Any:
        """Runs it, with these values of variables; None if it does not fit."""
        found = self.replay(tensors, bindings)
        if found is MISSED:
            return None
        return fill(self.template, [_plain(tensor) for tensor in found] if bindings else found, bindings)


def capture(
    name: str,
    run: Callable[[Sequence[Core]], Any],
    tensors: Sequence[Core],
    shapes: Sequence[tuple[Any, ...]] | None = None,
) -> Program:
    """The program of a function that reads these tensors, and others that stay what they are.

    `shapes`: what the function sees as their shapes, with bound variables in the place of some sizes."""
    device = next((t.uop.device for t in tensors if t.uop.device is not None), None) or Device.DEFAULT
    shown = tensors if shapes is None else [_shown_as(t, shape) for t, shape in zip(tensors, shapes, strict=True)]
    trace = Trace(name, views=False, takes_arrays=True)
    for tensor in shown:
        trace.arguments[id(tensor)] = tensor._wanted or device
    made: list[Any] = []

    def traced() -> list[Tensor]:
        for tensor in shown:
            trace.entry(tensor)
        with Context(FROZEN=True):  # what is made of a weight once is made again when that changes
            made.append(run(shown))
        trace.check()
        template, results = take_out(made.pop())
        made.append(template)
        return results if shapes is None else [result.contiguous() for result in results]  # no views of arguments

    results = trace.run(traced)
    return Program(capture_trace(trace, shown, results, device, is_pruned=True), made.pop())


def _shown_as(tensor: Any, shape: tuple[Any, ...]) -> Any:
    """The memory of a tensor, as one of another shape of the same size now."""
    if not is_symbolic(shape):
        return tensor
    memory = storage(tensor.contiguous().realize().uop)
    return Tensor._of_buffer(attach(memory, tensor.dtype, shape), tensor._place)


def _plain(tensor: Tensor) -> Tensor:
    """A tensor whose shape has the values of variables as a tensor of plain shape."""
    shape = tensor.uop.shape
    if not is_symbolic(shape):
        return tensor
    sizes = tuple([value_now(size) for size in shape])
    return Tensor._of_buffer(attach(storage(tensor.uop), tensor.dtype, sizes), tensor._place)


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


def fill(template: Any, tensors: Sequence[Any], bindings: Mapping[str, int] = NO_BINDINGS) -> Any:
    """The value, with tensors in their places, and numbers for what depends on variables."""
    kind = type(template)
    if kind is Place:
        return tensors[template.number]
    if kind is Sizes:
        return template.now(bindings)
    if kind is list or kind is tuple:
        return kind([fill(part, tensors, bindings) for part in template])
    if kind is dict:
        return {key: fill(part, tensors, bindings) for key, part in template.items()}
    return template
