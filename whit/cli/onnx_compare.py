"""`python -m whit onnx FILE --compare`: the outputs of whit and of onnxruntime, and the first node that differs.

The search asks onnxruntime for values inside: of a model with more outputs, which is the file with bytes behind it. A
few values are asked for at a time, so that models of any size have room: of the nodes that the differing one depends
on, some that are evenly spread; the first that differs is the next to look at, and what those that do not differ depend
on is left out. A node whose inputs are the same, and whose results differ, is the answer.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from whit.cli.onnx_inside import standalone
from whit.cli.onnx_profile import ascii_of
from whit.errors import UserError
from whit.onnx import Model
from whit.onnx.graph import Step
from whit.onnx.places import graphs_in
from whit.onnx.proto import read_model
from whit.onnx.tensors import Store
from whit.onnx.wire import Wire
from whit.onnx.writing.wire import field
from whit.tensor import Tensor
from whit.tensor.source import open_source

FAR = 1e-3  # of the largest value of an output: more is a difference
PROBES = 12  # nodes that are asked for at a time
FOLDER = "session.model_external_initializers_file_folder_path"  # of onnxruntime: where data in other files lies


def compared(file: str, model: Model, inputs: Mapping[str, Any]) -> tuple[dict[str, Any], list[str], bool]:
    """Outputs of both, and where they differ."""
    runtime = Runtime(file, inputs)
    names = [port.name for port in model.outputs]
    expected, seconds = runtime.timed(names)
    found = arrays(model(inputs))
    worst = {name: difference(found[name], value) for name, value in expected.items()}
    is_same = all(each <= FAR for each in worst.values())
    lines = [
        f"compare     {ascii_of(name)}: differs by {each:.1e} of its largest value" for name, each in worst.items()
    ]
    lines.append(f"            onnxruntime takes {seconds * 1e3:.2f} ms")
    node: str | None = None
    why = ""
    if not is_same:
        node, why = first_difference(model, runtime, inputs, [name for name, each in worst.items() if each > FAR])
        lines.append(
            f"            the first node that differs is {ascii_of(node)}" if node else f"            {ascii_of(why)}"
        )
    shown = {name: each if math.isfinite(each) else None for name, each in worst.items()}
    return {"worst": shown, "seconds": seconds, "same": is_same, "first_node": node}, lines, is_same


def arrays(outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Tensors as arrays, of whatever else there is as it is."""
    return {name: value.numpy() if isinstance(value, Tensor) else value for name, value in outputs.items()}


def difference(found: Any, expected: Any) -> float:
    """The largest difference, as a part of the largest value; infinity for other shapes and kinds."""
    if isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        pairs = zip(found, expected, strict=True)
        return max((difference(arrays({"": a})[""], b) for a, b in pairs), default=0.0)
    if not isinstance(found, np.ndarray) or not isinstance(expected, np.ndarray):
        return 0.0 if type(found) is type(expected) else float("inf")
    if found.shape != expected.shape:
        return float("inf")
    if found.dtype.kind not in "biuf" or not found.size:
        return 0.0 if (found == expected).all() else float("inf")
    left, right = found.astype(np.float64), expected.astype(np.float64)
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    if same.all():
        return 0.0
    finite = np.abs(right[np.isfinite(right)])
    with np.errstate(invalid="ignore"):
        apart = float(np.abs(left - right)[~same].max() / max(float(finite.max(initial=0.0)), 1e-6))
    return apart if apart == apart else float("inf")


class Runtime:
    """onnxruntime, asked for values of a model."""

    def __init__(self, file: str, inputs: Mapping[str, Any], data: bytes = b"") -> None:
        if importlib.util.find_spec("onnxruntime") is None:
            raise UserError(
                "onnx: onnxruntime is not installed", fix="pip install onnxruntime, or leave out --compare."
            )
        self.runtime = importlib.import_module("onnxruntime")  # lazy: it is not ours
        self.runtime.set_default_logger_severity(4)
        self.file = file
        self.inputs = dict(inputs)
        self._data = data

    @property
    def data(self) -> bytes:
        """The bytes of the model: of its file, or of a part of that."""
        self._data = self._data or Path(self.file).read_bytes()
        return self._data

    def timed(self, names: Sequence[str]) -> tuple[dict[str, Any], float]:
        """The outputs, and how long the second call takes."""
        try:
            session = self.runtime.InferenceSession(self.file, providers=["CPUExecutionProvider"])
            found = dict(zip(names, session.run(names, self.inputs), strict=True))
            start = time.perf_counter()
            session.run(names, self.inputs)
        except Exception as error:  # its own kinds
            raise UserError("onnx: onnxruntime cannot run the model", str(error).strip()) from error
        return found, time.perf_counter() - start

    def values(self, names: Sequence[str]) -> dict[str, Any] | None:
        """Values inside of the model; None if it cannot give them."""
        options = self.runtime.SessionOptions()
        options.graph_optimization_level = self.runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.add_session_config_entry(FOLDER, str(Path(self.file).resolve().parent))
        try:
            session = self.runtime.InferenceSession(
                with_outputs(self.data, names), options, providers=["CPUExecutionProvider"]
            )
            return dict(zip(names, session.run(list(names), self.inputs), strict=True))
        except Exception as error:  # its own kinds, and what they say is told
            self.problem = str(error).strip().partition("\n")[0]
            return None

    problem = ""


def first_difference(
    model: Model, runtime: Runtime, inputs: Mapping[str, Any], outputs: Sequence[str]
) -> tuple[str | None, str]:
    """The node, or why there is none."""
    steps = model.graph.steps
    makers = {name: number for number, step in enumerate(steps) for name in step.outputs if name}
    wanted = [makers[name] for name in outputs if name in makers]
    if not wanted:
        return None, "the outputs that differ are made of constants alone"
    current, same = wanted[0], set[int]()
    while True:
        before = sorted(_ancestors(steps, makers, current) - same - {current})
        if not before:
            break
        stride = -(-len(before) // PROBES)
        probes = before[stride - 1 :: stride]
        found = _differing(model, runtime, inputs, probes)
        if found is None:
            return None, f"onnxruntime cannot say what is inside: {runtime.problem}"
        for number in probes:
            if number in found:
                current = number
                break
            same |= _ancestors(steps, makers, number)
    step = steps[current]
    node = f"{step.node}, which makes {', '.join(filter(None, step.outputs))}"
    return node + (_inside(model, runtime, inputs, step) if graphs_in(step) else ""), ""


def _inside(model: Model, runtime: Runtime, inputs: Mapping[str, Any], step: Step) -> str:
    """The first node that differs in the graph that a node runs."""
    made = standalone(runtime.data, model, inputs, step, runtime.values)
    if made is None:
        return ", which runs graphs of its own"
    data, given = made
    wire, folder = Wire(open_source("onnx", data)), Path(runtime.file).resolve().parent
    inner = Model(read_model(wire), Store(wire, folder), model.device, jit=False)
    below = Runtime(runtime.file, given, data)
    names = [port.name for port in inner.outputs]
    wanted, found = below.values(names), arrays(inner(given))
    differing = [] if wanted is None else [name for name in names if difference(found[name], wanted[name]) > FAR]
    node, _ = first_difference(inner, below, given, differing) if differing else (None, "")
    return f"; inside of it {node}" if node else ", whose graph gives the same when it runs alone the first time"


def _ancestors(steps: Sequence[Step], makers: Mapping[str, int], number: int) -> set[int]:
    """The nodes that one depends on, itself among them."""
    found, stack = {number}, [number]
    while stack:
        for name in steps[stack.pop()].reads():
            other = makers.get(name)
            if other is not None and other not in found:
                found.add(other)
                stack.append(other)
    return found


def _differing(model: Model, runtime: Runtime, inputs: Mapping[str, Any], numbers: Iterable[int]) -> set[int] | None:
    """Which of some nodes have other results; None if onnxruntime does not say."""
    chosen = {number: [name for name in model.graph.steps[number].outputs if name] for number in numbers}
    names = [name for each in chosen.values() for name in each]
    expected = runtime.values(names)
    if expected is None:
        return None
    found = arrays(model.values(inputs, names))
    return {
        number
        for number, each in chosen.items()
        if any(name in found and difference(found[name], expected[name]) > FAR for name in each)
    }


def with_outputs(data: bytes, names: Sequence[str]) -> bytes:
    """A model with more outputs: of messages that follow each other protobuf makes one."""
    return data + field(7, b"".join(field(12, field(1, name)) for name in names))
