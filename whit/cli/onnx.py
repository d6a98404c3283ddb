"""`python -m whit onnx FILE`: what is in a model, what it computes, how long, and whether onnxruntime agrees."""

from __future__ import annotations

import argparse
import collections
import time
from math import prod
from typing import Any

from whit.cli import onnx_profile
from whit.cli.answer import OK, PROBLEM, Answer, spell_bytes, spell_count
from whit.cli.onnx_compare import arrays, compared
from whit.cli.onnx_inputs import given_inputs
from whit.cli.onnx_profile import ascii_of, profiled
from whit.engine.report.counters import GlobalCounters
from whit.errors import UserError, WhitError
from whit.onnx import Model, load
from whit.onnx.constants import Stored
from whit.onnx.types import dtype_of
from whit.onnx.weights import all_graphs

RUNS = 5
MOST_SHOWN = 12  # operators


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments."""
    parser.description = """\
Reads a model and says what goes in and out and what it consists of. --run calls it, with random numbers where nothing
else is given; --profile says which nodes take the time; --compare calls onnxruntime, too, and names the first node
that differs."""
    parser.add_argument("file", help="a model, as in model.onnx")
    parser.add_argument("--run", action="store_true", help="call it, and time it")
    onnx_profile.configure(parser)
    parser.add_argument("--compare", action="store_true", help="compare with onnxruntime, which must be installed")
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an input: a file .npy or .txt, or numbers as in [1, 2.5]; FILE.npz alone has several",
    )
    parser.add_argument(
        "--size", action="append", default=[], metavar="NAME=N", help="a size that has a name, or INPUT:AXIS=N; else 1"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the random numbers; 0")
    parser.add_argument("--device", help="where to run it")


def run(options: argparse.Namespace) -> Answer:
    """The command."""
    model = load(options.file, options.device)
    data, code = _summary(model), OK
    lines = _summary_lines(data)
    if options.run or options.compare or options.profile:
        inputs = given_inputs(model, options.input, options.size, options.seed)
        data["run"], shown = _timed(model, inputs)
        lines += shown
        if options.profile:
            data["profile"], shown = profiled(model, lambda: arrays(model(inputs)), data["run"]["seconds"])
            lines += shown
        if options.compare:
            data["compare"], shown, is_same = compared(options.file, model, inputs)
            lines, code = lines + shown, OK if is_same else PROBLEM
    elif options.input:
        given_inputs(model, options.input, options.size, options.seed)  # which says what is wrong with them
    return Answer({"file": options.file, **data}, "\n".join(lines), code)


def _summary(model: Model) -> dict[str, Any]:
    graphs = all_graphs(model.graph)
    stored = {id(each): each for graph in graphs for each in graph.constants.values() if isinstance(each, Stored)}
    sizes = [(prod(one.shape), dtype_of(one.element)) for one in stored.values()]
    steps = [step for graph in graphs for step in graph.steps]
    return {
        "producer": model.producer,
        "opsets": model.opsets,
        "inputs": {port.name: str(port.type) for port in model.inputs},
        "outputs": {port.name: str(port.type) for port in model.outputs},
        "nodes": len(steps),
        "graphs": len(graphs),
        "operators": dict(collections.Counter(step.node.op_type for step in steps).most_common()),
        "parameters": sum(count for count, _ in sizes),
        "parameter_bytes": sum(count * dtype.itemsize for count, dtype in sizes if dtype is not None),
        "run": None,
        "profile": None,
        "compare": None,
    }


def _summary_lines(data: dict[str, Any]) -> list[str]:
    operators = [f"{name} {count}" for name, count in list(data["operators"].items())[:MOST_SHOWN]]
    more = len(data["operators"]) - len(operators)
    versions = ", ".join(f"{domain} {version}" for domain, version in data["opsets"].items())
    inside = f" in {spell_count(data['graphs'], 'graph')}" if data["graphs"] > 1 else ""
    return [
        f"written by  {ascii_of(data['producer']) or 'nobody says'}; operators of {ascii_of(versions)}",
        *[f"input       {ascii_of(name)}: {ascii_of(kind)}" for name, kind in data["inputs"].items()],
        *[f"output      {ascii_of(name)}: {ascii_of(kind)}" for name, kind in data["outputs"].items()],
        f"nodes       {data['nodes']}{inside}: {', '.join(operators)}{f', {more} more' if more else ''}",
        f"parameters  {data['parameters']:,}, {spell_bytes(data['parameter_bytes'])}",
    ]


def _refused(error: Exception) -> WhitError:
    """An error that is not ours, with what it says about the node."""
    found = UserError(f"onnx: the call fails: {type(error).__name__}: {error}")
    for note in getattr(error, "__notes__", ()):
        found.add_note(note)
    return found


def _timed(model: Model, inputs: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    GlobalCounters.reset()
    times = []
    try:
        for _ in range(RUNS + 1):
            start = time.perf_counter()
            arrays(model(inputs))
            times.append(time.perf_counter() - start)
    except Exception as error:  # what a node says of values that do not fit has many kinds
        shapes = ", ".join(f"{name} {list(getattr(value, 'shape', ()))}" for name, value in inputs.items())
        told = error if isinstance(error, WhitError) else _refused(error)
        told.add_note(f"The model was called with {shapes}; --size and --input give it something else.")
        raise told from error
    first, best, peak = times[0], min(times[1:]), GlobalCounters.mem_peak
    found = {"first_seconds": first, "seconds": best, "programs": model.captures, "peak_bytes": peak}
    programs = spell_count(model.captures, "program")
    return found, [
        f"run         {best * 1e3:.2f} ms, the first call {first:.2f} s; {programs}",
        f"memory      {spell_bytes(peak)} at most, weights and inputs among them",
    ]
