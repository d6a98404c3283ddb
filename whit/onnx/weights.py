"""Which tensors of a file are weights: what a model can be trained by, and what training changes.

    weights_of(graph)               {"conv1.weight": constant, ...}

Tensors that operators compute with on the device are weights: floats with at least one axis, and large tables of whole
numbers. What says how to compute is none: sizes, scales of a Resize, limits, whatever shapes are computed with. Those
stay what the file says, and programs are made for them.

Weights that were given away may change at any time, in place too. So the graph is built again without what was folded
of them (`Stored.is_open`), and programs read the memory that they have now.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from whit.errors import NotSupportedError
from whit.onnx import types
from whit.onnx.constants import Constant, Derived, Stored, is_small
from whit.onnx.control import FUNCTIONS
from whit.onnx.graph import Graph, Step
from whit.onnx.operators.registry import ALL, find
from whit.onnx.places import graphs_in

RUNNING = (3, 4)  # of BatchNormalization: the mean and the variance, which are no parameters
WITH_MODES = frozenset({"BatchNormalization", "Dropout"})  # operators that do something else in training


def weights_of(graph: Graph) -> dict[str, Stored]:
    """The weights of a graph and of those inside of it, by name; a name that is there twice gets a number."""
    graphs = all_graphs(graph)
    pinned = {id(one) for each in graphs for one in _pinned(each)}
    wanted = {id(one) for one in _used(graphs) if id(one) not in pinned and _is_weight(one)}
    found: dict[str, Stored] = {}
    for each in graphs:
        for name, constant in each.constants.items():
            for stored in _sources(constant):
                if id(stored) in wanted:
                    wanted.discard(id(stored))
                    found[_free(stored.name or name, found)] = stored
    return found


def _used(graphs: Iterable[Graph]) -> Iterable[Stored]:
    """What nodes and outputs depend on."""
    for graph in graphs:
        yield from _stored(graph, [name for step in graph.steps for name in step.reads()])
        yield from _stored(graph, [port.name for port in graph.outputs])


def statistics_of(graph: Graph) -> set[int]:
    """The ids of weights that are statistics of batches: no parameters."""
    found = set()
    for each in all_graphs(graph):
        for step in each.steps:
            if step.node.op_type == "BatchNormalization":
                names = [step.inputs[place] for place in RUNNING if place < len(step.inputs)]
                found |= {id(stored) for stored in _stored(each, names)}
    return found


def has_modes(graph: Graph) -> bool:
    """Whether something in it is different in training."""
    return any(step.node.op_type in WITH_MODES for each in all_graphs(graph) for step in each.steps)


def all_graphs(main: Graph) -> list[Graph]:
    """A graph, those inside of it, and functions of the model, each once."""
    found, stack = {id(main): main}, [main]
    while stack:
        for step in stack.pop().steps:
            for graph in graphs_in(step):
                if id(graph) not in found:
                    found[id(graph)] = graph
                    stack.append(graph)
    return list(found.values())


def _is_weight(stored: Stored) -> bool:
    dtype = types.dtype_of(stored.element)
    if dtype is None or not stored.shape:
        return False
    return dtype.is_float or not is_small("i", prod(stored.shape))


def _pinned(graph: Graph) -> Iterable[Stored]:
    """What the host reads: arguments of operators that they read themselves, and numbers that shapes are computed
    with."""
    on_host: set[str] = set()
    for step in graph.steps:
        reads = [name for name in step.inputs if name]
        others = [name for name in reads if name not in graph.constants]
        is_of_shapes = step.node.op_type in ("Shape", "Size")
        if is_of_shapes or (others and on_host.issuperset(others)):
            on_host.update(step.outputs)
            yield from _stored(graph, [] if is_of_shapes else reads)
        yield from _stored(graph, [step.inputs[place] for place in _host_places(step) if place < len(step.inputs)])


def _host_places(step: Step) -> tuple[int, ...]:
    """The inputs that an operator reads itself; one that takes all as they are has no such."""
    node = step.node
    if step.body is not None or (node.domain, node.op_type) in FUNCTIONS:
        return ()
    try:
        places = tuple(find(node.domain, node.op_type, node.version).host)
    except NotSupportedError:  # in a branch that may never run
        return ()
    return () if places == ALL else places


def _stored(graph: Graph, names: Iterable[str]) -> Iterable[Stored]:
    """The tensors of the file that values depend on."""
    for name in names:
        if name in graph.constants:
            yield from _sources(graph.constants[name])


def _sources(constant: Constant) -> Iterable[Stored]:
    stack: list[Constant] = [constant]
    seen: set[int] = set()
    while stack:
        one = stack.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, Stored):
            yield one
        elif isinstance(one, Derived):
            stack += one.sources


def _free(name: str, taken: Iterable[str]) -> str:
    """A name that no weight has yet."""
    found, number = name, 1
    while found in taken:
        number += 1
        found = f"{name}#{number}"
    return found
