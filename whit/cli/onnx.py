"""`python -m whit onnx FILE`: what is in a model, what it computes, and whether onnxruntime computes the same."""

from __future__ import annotations

import argparse
import collections
import importlib
import importlib.util
import math
import time
from math import prod
from typing import Any

import numpy as np

from whit.cli.answer import OK, PROBLEM, Answer, UsageError, spell_bytes, spell_count
from whit.errors import UserError
from whit.onnx import Model, load
from whit.onnx.constants import Stored
from whit.onnx.examples import example_inputs
from whit.onnx.types import dtype_of
from whit.tensor import Tensor

FAR = 1e-3  # of the largest value of an output: more is a difference
RUNS = 5
MOST_SHOWN = 12  # operators


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments."""
    parser.description = """\
Reads a model and says what goes in and out and what it consists of. --run calls it with random numbers; --compare calls
onnxruntime, too, and names the first node that differs."""
    parser.add_argument("file", help="a model, as in model.onnx")
    parser.add_argument("--run", action="store_true", help="call it with random numbers, and time it")
    parser.add_argument("--compare", action="store_true", help="compare with onnxruntime, which must be installed")
    parser.add_argument("--size", action="append", default=[], metavar="NAME=N", help="a size that has a name; else 1")
    parser.add_argument("--seed", type=int, default=0, help="of the random numbers; 0")
    parser.add_argument("--device", help="where to run it")


def run(options: argparse.Namespace) -> Answer:
    """The command."""
    model = load(options.file, options.device)
    data, lines, code = _summary(model), _summary_lines(model), OK
    if options.run or options.compare:
        inputs = example_inputs(model.inputs, _sizes(options.size), options.seed)
        found, shown = _timed(model, inputs)
        data["run"], lines = found, lines + shown
        if options.compare:
            compared, shown, is_same = _compared(options.file, model, inputs)
            data["compare"], lines, code = compared, lines + shown, OK if is_same else PROBLEM
    return Answer({"file": options.file, **data}, "\n".join(lines), code)


def _sizes(given: list[str]) -> dict[str, int]:
    found = {}
    for text in given:
        name, _, size = text.rpartition("=")
        if not name or not size.isdigit():
            raise UsageError(f"--size {text}: expected NAME=N, as in batch=4")
        found[name] = int(size)
    return found


def _summary(model: Model) -> dict[str, Any]:
    stored = [constant for constant in model.graph.constants.values() if isinstance(constant, Stored)]
    sizes = [(prod(one.shape), dtype_of(one.element)) for one in stored]
    return {
        "producer": model.producer,
        "opsets": model.opsets,
        "inputs": {port.name: str(port.type) for port in model.inputs},
        "outputs": {port.name: str(port.type) for port in model.outputs},
        "nodes": len(model.graph.steps),
        "operators": dict(collections.Counter(step.node.op_type for step in model.graph.steps).most_common()),
        "parameters": sum(count for count, _ in sizes),
        "parameter_bytes": sum(count * dtype.itemsize for count, dtype in sizes if dtype is not None),
        "run": None,
        "compare": None,
    }


def _summary_lines(model: Model) -> list[str]:
    data = _summary(model)
    operators = [f"{name} {count}" for name, count in list(data["operators"].items())[:MOST_SHOWN]]
    more = len(data["operators"]) - len(operators)
    versions = ", ".join(f"{domain} {version}" for domain, version in model.opsets.items())
    return [
        f"written by  {_ascii(model.producer) or 'nobody says'}; operators of {_ascii(versions)}",
        *[f"input       {_ascii(name)}: {_ascii(kind)}" for name, kind in data["inputs"].items()],
        *[f"output      {_ascii(name)}: {_ascii(kind)}" for name, kind in data["outputs"].items()],
        f"nodes       {data['nodes']}: {', '.join(operators)}{f', {more} more' if more else ''}",
        f"parameters  {data['parameters']:,}, {spell_bytes(data['parameter_bytes'])}",
    ]


def _ascii(text: str) -> str:
    return text.encode("ascii", "backslashreplace").decode()


def _timed(model: Model, inputs: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    times = []
    for _ in range(RUNS + 1):
        start = time.perf_counter()
        _arrays(model(inputs))
        times.append(time.perf_counter() - start)
    first, best = times[0], min(times[1:])
    found = {"first_seconds": first, "seconds": best, "programs": model.captures}
    programs = spell_count(model.captures, "program")
    return found, [f"run         {best * 1e3:.2f} ms, the first call {first:.2f} s; {programs}"]


def _arrays(outputs: dict[str, Any]) -> dict[str, Any]:
    return {name: value.numpy() if isinstance(value, Tensor) else value for name, value in outputs.items()}


def _compared(file: str, model: Model, inputs: dict[str, Any]) -> tuple[dict[str, Any], list[str], bool]:
    """Outputs of both, and where they differ."""
    if importlib.util.find_spec("onnxruntime") is None:
        raise UserError("onnx: onnxruntime is not installed", fix="pip install onnxruntime, or leave out --compare.")
    runtime = importlib.import_module("onnxruntime")  # lazy: it is not ours
    session = runtime.InferenceSession(file, providers=["CPUExecutionProvider"])
    names = [port.name for port in model.outputs]
    expected = dict(zip(names, session.run(names, inputs), strict=True))
    start = time.perf_counter()
    session.run(names, inputs)
    seconds = time.perf_counter() - start
    found = _arrays(model(inputs))
    worst = {name: _difference(found[name], value) for name, value in expected.items()}
    is_same = all(difference <= FAR for difference in worst.values())
    node = None if is_same else _first_difference(file, model, inputs, runtime)
    lines = [
        f"compare     {_ascii(name)}: differs by {difference:.1e} of its largest value"
        for name, difference in worst.items()
    ]
    lines.append(f"            onnxruntime takes {seconds * 1e3:.2f} ms")
    if node is not None:
        lines.append(f"            the first node that differs is {_ascii(node)}")
    shown = {name: difference if math.isfinite(difference) else None for name, difference in worst.items()}
    return {"worst": shown, "seconds": seconds, "same": is_same, "first_node": node}, lines, is_same


def _difference(found: Any, expected: Any) -> float:
    """The largest difference, as a part of the largest value; infinity for other shapes and kinds."""
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
    difference = float(np.abs(left - right)[~same].max() / max(float(finite.max(initial=0.0)), 1e-6))
    return difference if difference == difference else float("inf")


def _first_difference(file: str, model: Model, inputs: dict[str, Any], runtime: Any) -> str | None:
    """The first node whose results differ; asked of onnxruntime by a model with more outputs."""
    values = model.values(inputs)
    with open(file, "rb") as stream:
        data = stream.read()
    steps = [step for step in model.graph.steps if any(name in values for name in step.outputs)]
    names = [name for step in steps for name in step.outputs if name]
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = runtime.InferenceSession(with_outputs(data, names), options, providers=["CPUExecutionProvider"])
        expected = dict(zip(names, session.run(names, inputs), strict=True))
    except Exception:  # its own errors, of models with data in other files for one
        return None
    found = _arrays(values)
    for step in steps:
        for name in step.outputs:
            if name in found and _difference(found[name], expected[name]) > FAR:
                return f"{step.node}, which makes {name}"
    return None


def with_outputs(data: bytes, names: list[str]) -> bytes:
    """A model with more outputs: of messages that follow each other protobuf makes one."""
    outputs = b"".join(_field(12, _field(1, name.encode())) for name in names)
    return data + _field(7, outputs)


def _field(number: int, data: bytes) -> bytes:
    size, found = len(data), bytearray()
    while size > 0x7F:
        found.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([number << 3 | 2, *found, size]) + data
