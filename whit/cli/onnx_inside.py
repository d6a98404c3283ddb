"""A graph inside of a node as a model of its own: the branch of an If that is taken, the first round of a Loop.

    standalone(data, model, step, values)       (bytes of a model, its inputs), or None

What the graph reads from around it becomes inputs. So a search for the first node that differs goes on inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from whit.onnx import Model
from whit.onnx.constants import Constant
from whit.onnx.graph import Graph, Step, reads_of
from whit.onnx.places import graphs_in
from whit.onnx.proto import GraphProto, read_model
from whit.onnx.tensors import NUMPY
from whit.onnx.weights import all_graphs
from whit.onnx.wire import Span, Wire
from whit.onnx.writing.wire import field, port
from whit.tensor.source import open_source

ELEMENTS = {np.dtype(dtype): element for element, dtype in reversed(NUMPY.items())}
IR_VERSION, GRAPH, IMPORTS, FUNCTIONS = 1, 7, 8, 25  # fields of ModelProto
NODES, INPUTS = 1, 11  # of GraphProto
OUTPUTS, ATTRIBUTES = 2, 5  # of NodeProto
NAME, SUBGRAPH = 1, 6  # of AttributeProto
Ask = Callable[[Sequence[str]], "Mapping[str, Any] | None"]


def standalone(data: bytes, model: Model, inputs: Mapping[str, Any], step: Step, ask: Ask) -> tuple[bytes, Any] | None:
    """The model of the graph that a node runs first, and values for its inputs. `ask` gives values of the model."""
    known = _Known(model, inputs, ask, step)
    chosen = _chosen(step, known)
    if chosen is None:
        return None
    attribute, own = chosen
    wire = Wire(open_source("onnx", data))
    found = _graph(wire, step, attribute)
    if found is None:
        return None
    bare = _model(wire, found)
    proto = read_model(Wire(open_source("onnx", bare))).graph
    wanted = [] if proto is None else _free(proto)
    values = known(wanted)
    if values is None or any(
        not isinstance(value, np.ndarray) or value.dtype not in ELEMENTS for value in values.values()
    ):
        return None
    ports = b"".join(field(INPUTS, port(n, ELEMENTS[v.dtype], v.shape)) for n, v in values.items())
    return _model(wire, found + ports), {**values, **own}


class _Known:
    """Values of the graph around."""

    def __init__(self, model: Model, inputs: Mapping[str, Any], ask: Ask, step: Step) -> None:
        self.inputs, self.ask = inputs, ask
        graphs = [each for graph in graphs_in(step) for each in all_graphs(graph)]
        self.constants: dict[str, Constant] = {}  # what is read inside alone, only the graphs there have
        for graph in reversed([model.graph, *graphs]):
            self.constants |= graph.constants

    def __call__(self, names: Iterable[str]) -> dict[str, Any] | None:
        """Arrays by name; None if they cannot be had."""
        found: dict[str, Any] = {}
        missing = []
        for name in names:
            constant = self.constants.get(name)
            if name in self.inputs:
                found[name] = np.asarray(self.inputs[name])
            elif isinstance(constant, Constant):
                found[name] = np.asarray(constant.array())
            else:
                missing.append(name)
        asked = self.ask(missing) if missing else {}
        return None if asked is None or asked.keys() < set(missing) else found | dict(asked)


def _chosen(step: Step, known: _Known) -> tuple[str, dict[str, Any]] | None:
    """Which attribute of a node has the graph that runs, and values of the graph's own inputs."""
    if step.node.op_type == "If":
        values = known(step.inputs[:1])
        if values is None:
            return None
        name = "then_branch" if bool(np.asarray(values[step.inputs[0]]).reshape(-1)[0]) else "else_branch"
        return name, {}
    if step.node.op_type != "Loop":
        return None
    body: Graph = step.node.get("body")
    values = known(name for name in step.inputs[2:] if name)
    if values is None:
        return None
    given: list[Any] = [np.array(0, np.int64), np.array(True), *(values.get(name) for name in step.inputs[2:])]
    own = {port.name: value for port, value in zip(body.inputs, given, strict=False)}
    for one in body.inputs[:2]:
        own[one.name] = own[one.name].reshape((1,) * len(one.type.shape or ()))
    return "body", own


def _graph(wire: Wire, step: Step, attribute: str) -> bytes | None:
    """The bytes of the graph in an attribute of a node, which is found by what it makes."""
    made = next(name for name in step.outputs if name).encode()
    for graph in _inner(wire, wire.whole, GRAPH):
        for node in _inner(wire, graph, NODES):
            if made not in [wire.read(output) for output in _inner(wire, node, OUTPUTS)]:
                continue
            for one in _inner(wire, node, ATTRIBUTES):
                if attribute.encode() in [wire.read(name) for name in _inner(wire, one, NAME)]:
                    return b"".join(wire.read(inner) for inner in _inner(wire, one, SUBGRAPH))
    return None


def _inner(wire: Wire, span: Span, number: int) -> Iterator[Span]:
    """The messages and texts of one field."""
    for place, value in wire.fields(span):
        if place == number and isinstance(value, Span):
            yield value


def _model(wire: Wire, graph: bytes) -> bytes:
    """A model of the same versions and functions."""
    found = b""
    for number, value in wire.fields(wire.whole):
        if number == IR_VERSION and not isinstance(value, Span):
            found += field(IR_VERSION, int(value))
        elif number in (IMPORTS, FUNCTIONS) and isinstance(value, Span):
            found += field(number, wire.read(value))
    return found + field(GRAPH, graph)


def _free(graph: GraphProto) -> list[str]:
    """What a graph reads and does not make."""
    made = {name for node in graph.nodes for name in node.outputs} | {one.name for one in graph.inputs}
    made |= {tensor.name for tensor in graph.initializers}
    read = [name for node in graph.nodes for name in reads_of(node)] + [one.name for one in graph.outputs]
    inside = {name for node in graph.nodes for name in _made_inside(node)}
    return [name for name in dict.fromkeys(read) if name not in made and name not in inside]


def _made_inside(node: Any) -> set[str]:
    """What graphs of a node make themselves."""
    found: set[str] = set()
    stack = [graph for one in node.attributes for graph in (*one.graphs, one.g) if graph is not None]
    while stack:
        graph = stack.pop()
        found |= {one.name for one in graph.inputs} | {tensor.name for tensor in graph.initializers}
        for inner in graph.nodes:
            found.update(inner.outputs)
            stack += [each for one in inner.attributes for each in (*one.graphs, one.g) if each is not None]
    return found
