"""What nodes are called in reports: the launches that compute a node have its name, with the scopes that it is in.

    "/encoder/layer.0/attention/MatMul"     encoder.layer.0.attention.MatMul
    "" that makes "y"                       y

So a model from a file is seen as a model of layers is (`whit.engine.report`): nodes are its layers, in those of their
scopes; inside of an If or a Loop, and of functions of the model, in the node that runs them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from whit.engine.report.layers import layer_at
from whit.onnx.constants import Stored
from whit.onnx.graph import Graph, Step
from whit.onnx.types import dtype_of, name_of
from whit.tensor.place import Place, inside, leave, path_here

__all__ = ["Place", "enter", "leave", "path_of", "paths"]

MOST_LETTERS = 200  # of a path


def path_of(step: Step, outer: str = "") -> str:
    """The path of a node, in the one of the node whose graph it is in."""
    name = step.node.name or next((output for output in step.outputs if output), step.node.op_type)
    scopes = [part for part in name.split("/") if part] or [step.node.op_type]
    scopes[-1] = scopes[-1].replace(".", "_")  # a dot there is part of a name, and no scope
    path = ".".join(scopes)[-MOST_LETTERS:]
    return path if not outer or path.startswith(f"{outer}.") else f"{outer}.{path}"


def paths(graph: Graph, outer: str = "") -> dict[str, Step]:
    """The nodes of a graph and of those inside of it, by path."""
    found: dict[str, Step] = {}
    for step in graph.steps:
        path = path_of(step, outer)
        found.setdefault(path, step)
        for inner in graphs_in(step):
            found |= paths(inner, path)
    return found


def graphs_in(step: Step) -> list[Graph]:
    """The graphs that a node runs."""
    graphs = [] if step.body is None else [step.body]
    for value in step.node.attributes.values():
        graphs += [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, Graph)]
    return graphs


def enter(step: Step) -> Any:
    """Tensors from now on are parts of this node, up to `leave` of the result."""
    return inside(path_of(step, path_here()), step.node.op_type)


def note(step: Step, given: Iterable[Any]) -> None:
    """Says that the node that was entered has made a tensor of these inputs."""
    layer = layer_at(path_here(), step.node.op_type)
    if layer is not None and not layer.parameters:
        for value in given:
            if isinstance(value, Stored) and not value.is_small():
                _note(layer.parameters, value)


def _note(known: dict[str, tuple[str, tuple[int, ...], int]], weight: Stored) -> None:
    """A weight of the node, by the last part of its name: "weight" of "encoder.0.weight"."""
    dtype, count = dtype_of(weight.element), 1
    for size in weight.shape:
        count *= size
    last = weight.name.rpartition(".")[2]
    name = last if last.isidentifier() and last not in known else weight.name
    known[name] = (name_of(weight.element), weight.shape, count * (dtype.itemsize if dtype is not None else 0))
