"""Operators that run graphs: If, Loop, Scan, SequenceMap.

A condition that the host knows costs nothing: the other branch is never looked at. One that a tensor holds is read, so
such a step stands between captured parts. The body of a loop is captured once and replayed; short loops whose count is
known are written out, and become a part of the program around them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from whit.engine.programs.overlay import current
from whit.errors import ArgumentError, NotSupportedError
from whit.onnx import previews
from whit.onnx.capture import ANSWERS
from whit.onnx.constants import Constant, Derived
from whit.onnx.graph import Graph, Step
from whit.onnx.rolled import LEAST_ROUNDS, rolled, scan_rolled
from whit.onnx.sizes import Sizes, Undecided
from whit.onnx.values import lifted
from whit.tensor import Tensor
from whit.tensor.control import cond

if TYPE_CHECKING:
    from whit.onnx.run import Runner

MOST_WRITTEN_OUT: Final = 8  # rounds of a loop inside of a program
MOST_ROUNDS: Final = (1 << 63) - 1  # of a loop that has no count

Control = Callable[["Runner", Step, list[Any], dict[str, Any]], tuple[Any, ...]]


def choose(runner: Runner, step: Step, given: list[Any], live: dict[str, Any]) -> tuple[Any, ...]:
    """If: the outputs of one of two graphs."""
    is_one_graph = isinstance(given[0], Tensor) and not runner.context.is_captured
    if is_one_graph and current() is not None:  # somebody else traces: nothing can be read
        return _either(runner, step, given[0], live)
    try:
        truth = _truth(given[0])
    except ArgumentError:
        if not is_one_graph:
            raise
        return _either(runner, step, given[0], live)
    branch = step.node.get("then_branch" if truth else "else_branch")
    return tuple(runner.inner(branch)(_around(branch, live)))


def _either(runner: Runner, step: Step, condition: Tensor, live: dict[str, Any]) -> tuple[Any, ...]:
    """The same where a condition cannot be read, as everything is to be one graph: a choice in that graph."""

    def of(branch: Graph) -> Callable[[], list[Any]]:
        return lambda: [
            lifted(_plain(runner, value), runner.context.device)
            for value in runner.inner(branch)(_around(branch, live))
        ]

    branches = [of(step.node.get(name)) for name in ("then_branch", "else_branch")]
    return tuple(cond(condition.reshape(()), *branches))


def loop(runner: Runner, step: Step, given: list[Any], live: dict[str, Any]) -> tuple[Any, ...]:
    """Loop: a graph again and again, with values that go from one round to the next, and others that are collected."""
    body: Graph = step.node.get("body")
    rounds = MOST_ROUNDS if given[0] is None else int(_host(given[0]).reshape(-1)[0])
    if given[1] is not None and not _truth(given[1]):
        rounds = 0
    around, carried = _around(body, live), list(given[2:])
    if rounds > 0 and current() is not None:
        found = _attempt(lambda: rolled(runner, step, rounds, carried, around, _ISOLATED))
        if found is not None:
            return tuple(found)
    return _round_by_round(runner, body, rounds, carried, around)


def _round_by_round(
    runner: Runner, body: Graph, rounds: int, carried: list[Any], around: dict[str, Any]
) -> tuple[Any, ...]:
    """The outputs of a Loop of so many rounds at most."""
    count, inner, names = len(carried), runner.inner(body), [port.name for port in body.inputs]
    collected: list[list[Any]] = [[] for _ in body.outputs[count + 1 :]]
    device = None if _is_written_out(rounds) else runner.context.device
    carried = [_as_data(value, device) for value in carried]
    is_plain = any(isinstance(value, list | dict) or value is None for value in carried)
    number = 0
    while number < rounds:
        given = [_as_data(np.array(number, np.int64), device), np.array(True), *carried]
        goes_on, *values = inner({**around, **dict(zip(names, given, strict=True))}, is_plain)
        carried = [_as_data(value, device) for value in values[:count]]
        for found, value in zip(collected, values[count:], strict=True):
            found.append(value)
        number = number + 1 if _truth(goes_on) else rounds
    stacked = [_stacked(values, 0, runner, body, count + 1 + i) for i, values in enumerate(collected)]
    return (*carried, *stacked)


def scan(runner: Runner, step: Step, given: list[Any], live: dict[str, Any]) -> tuple[Any, ...]:
    """Scan: a graph for each slice of tensors, with states that go from one to the next."""
    if step.node.version < 9:
        return _scan_8(runner, step, given, live)
    return _scanned(runner, step, given, live)


def _scan_8(runner: Runner, step: Step, given: list[Any], live: dict[str, Any]) -> tuple[Any, ...]:
    """The first version: lengths of sequences, and a first axis of batches, each of which is scanned by itself."""
    lengths, *rest = given
    if lengths is not None:
        raise NotSupportedError("onnx: Scan 8 with sequence_lens", "", "Convert the model to operators of version 9.")
    tensors = [lifted(_plain(runner, value), runner.context.device) for value in rest]
    batches = [_scanned(runner, step, [tensor[i] for tensor in tensors], live) for i in range(int(tensors[0].shape[0]))]
    return tuple(_join(list(values), 0, runner) for values in zip(*batches, strict=True))


def _scanned(runner: Runner, step: Step, given: list[Any], live: dict[str, Any]) -> tuple[Any, ...]:
    node, body = step.node, step.node.get("body")
    scanned = int(node.get("num_scan_inputs"))
    count = len(given) - scanned
    device = runner.context.device
    states, inputs = given[:count], [lifted(_plain(runner, value), device) for value in given[count:]]
    axes = _axes(node.get("scan_input_axes"), [x.ndim for x in inputs])
    backwards = node.get("scan_input_directions", node.get("directions")) or [0] * scanned
    length = int(inputs[0].shape[axes[0]]) if inputs else 0
    around, scanned_over = _around(body, live), (inputs, axes, backwards)
    if length >= LEAST_ROUNDS and current() is not None:
        found = _attempt(lambda: _scanned_at_once(runner, step, states, scanned_over, around))
        if found is not None:
            return tuple(found)
    collected: list[list[Any]] = [[] for _ in body.outputs[count:]]
    device_of_states = None if _is_written_out(length) else device
    states = [_as_data(value, device_of_states) for value in states]
    inner, names = runner.inner(body), [port.name for port in body.inputs]
    for number in range(length):
        values = inner({**around, **dict(zip(names, [*states, *_slices(*scanned_over, number)], strict=True))})
        states = values[:count]
        for rows, value in zip(collected, values[count:], strict=True):
            rows.append(value)
    return (*states, *_scan_outputs(runner, step, collected, count))


def _slices(inputs: list[Tensor], axes: list[int], backwards: list[int], number: int) -> list[Tensor]:
    """What a round of a Scan gets of its inputs."""
    found = []
    for x, axis, backward in zip(inputs, axes, backwards, strict=True):
        parts: list[Any] = [slice(None)] * x.ndim
        parts[axis] = int(x.shape[axis]) - 1 - number if backward else number
        found.append(x[tuple(parts)])
    return found


def _scanned_at_once(
    runner: Runner, step: Step, states: list[Any], scanned: tuple[list[Tensor], list[int], list[int]], around: Any
) -> list[Any]:
    """A Scan as a loop of the graph; `scanned` are the inputs, their axes, and which are read from the end on."""
    fronts = [
        x.movedim(axis, 0).flip(0) if back else x.movedim(axis, 0) for x, axis, back in zip(*scanned, strict=True)
    ]
    body: Graph = step.node.get("body")
    last, rows = scan_rolled(runner, body, states, fronts, around)
    directions = step.node.get("scan_output_directions") or [0] * len(rows)
    places = step.node.get("scan_output_axes") or [0] * len(rows)
    turned = [row.flip(0) if backward else row for row, backward in zip(rows, directions, strict=True)]
    return [*last, *(row.movedim(0, axis) for row, axis in zip(turned, places, strict=True))]


def _scan_outputs(runner: Runner, step: Step, collected: list[list[Any]], first: int) -> list[Any]:
    """What the rounds of a Scan gave, put together; `first` is the output of the body that is the first of these."""
    node, count = step.node, len(collected)
    directions = node.get("scan_output_directions") or [0] * count
    places = node.get("scan_output_axes") or [0] * count
    return [
        _stacked(found[::-1] if backward else found, axis, runner, node.get("body"), first + number)
        for number, (found, backward, axis) in enumerate(zip(collected, directions, places, strict=True))
    ]


def map_sequence(runner: Runner, step: Step, given: list[Any], live: dict[str, Any]) -> tuple[Any, ...]:
    """SequenceMap: a graph for each element of sequences; what is no sequence is the same for all."""
    body: Graph = step.node.get("body")
    values = [_plain(runner, value) for value in given]
    names, around = [port.name for port in body.inputs], _around(body, live)
    results: list[list[Any]] = [[] for _ in body.outputs]
    for number in range(len(values[0])):
        each = [value[number] if isinstance(value, list) else value for value in values]
        found = runner.inner(body)({**around, **dict(zip(names, each, strict=True))})
        for result, value in zip(results, found, strict=True):
            result.append(_plain(runner, value))
    return tuple(results)


FUNCTIONS: Final[dict[tuple[str, str], Control]] = {
    ("", "If"): choose,
    ("", "Loop"): loop,
    ("", "Scan"): scan,
    ("", "SequenceMap"): map_sequence,
    ("ai.onnx.preview", "FlexAttention"): previews.attend,
    ("ai.onnx.preview.training", "Gradient"): previews.differentiate,
}


_ISOLATED: Final = frozenset(FUNCTIONS)


def _attempt(make: Callable[[], Any]) -> Any:
    """A loop as a node of the graph that is traced; None if it cannot be one, as one whose states grow."""
    try:
        return make()
    except ANSWERS:
        trace = current()
        if trace is not None and trace.failure is not None:
            raise
        return None


def _around(graph: Graph, live: dict[str, Any]) -> dict[str, Any]:
    return {name: live[name] for name in graph.outer}


def _truth(value: Any) -> bool:
    """A condition: of the host, or read from a tensor."""
    return bool(_host(value).reshape(-1)[0])


def _host(value: Any) -> Any:
    """A value on the host; reading a tensor is an error while a function is traced, which ends the part."""
    if isinstance(value, Constant):
        value = value.array()
    if isinstance(value, Sizes):
        raise Undecided("what a graph in a graph does")
    return value.numpy() if isinstance(value, Tensor) else np.asarray(value)


def _plain(runner: Runner, value: Any) -> Any:
    """A value without what is known about it."""
    return runner.value(value, False) if isinstance(value, Constant) else value


def _is_written_out(rounds: int) -> bool:
    """Whether rounds become a part of the program that is traced; else the loop stands between programs."""
    trace = current()
    if trace is None:
        return False
    if rounds > MOST_WRITTEN_OUT:
        raise trace.fail("onnx: a long loop is run round by round", "", "This stays inside of whit.")
    return True


def _as_data(value: Any, device: str | None) -> Any:
    """Numbers as a tensor in memory: they differ in each round, and the program shall not. None: a loop that is written
    out, where they may."""
    if device is None:
        return value
    if isinstance(value, Derived) and not isinstance(value.value(), np.ndarray | Tensor):
        return value.value()
    if isinstance(value, Constant):
        return value.tensor(device) if value.element != _STRING else value.array()
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return Tensor(value, device=device).realize()
    return value


_STRING: Final = 8


def _axes(given: list[int] | None, ndims: list[int]) -> list[int]:
    axes = given or [0] * len(ndims)
    return [axis % ndim for axis, ndim in zip(axes, ndims, strict=True)]


def _stacked(values: list[Any], axis: int, runner: Runner, body: Graph, output: int) -> Any:
    """What the rounds of a loop gave, along a new axis; of no rounds, nothing of the declared type."""
    if values:
        return _join(values, axis, runner)
    declared = body.outputs[output].type
    sizes = [size if isinstance(size, int) else 0 for size in declared.shape or ()]
    sizes.insert(axis if axis >= 0 else axis + len(sizes) + 1, 0)
    return Tensor.zeros(*sizes, dtype=declared.dtype or "float32", device=runner.context.device)


def _join(values: list[Any], axis: int, runner: Runner) -> Any:
    plain = [_plain(runner, value) for value in values]
    if all(isinstance(value, np.ndarray) for value in plain):
        return np.stack(plain, axis=axis)
    tensors = [lifted(value, runner.context.device) for value in plain]
    return Tensor.stack(*tensors, dim=axis)
