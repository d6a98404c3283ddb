"""From the messages of a file to graphs that can run: checked, in order, without what nobody reads.

    builder = Builder(model_proto, store)
    graph = builder.main()          a Graph: its steps, its constants, what it reads from around it

A step is a node with all that its operator is told. Calls of functions of the model become steps with a graph of their
own, in which the attributes of the call stand. Nodes may stand in any order; a value that is read and made nowhere,
made twice, or needs itself is an error before anything runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import prod
from typing import Any, Final

import numpy as np

from whit.errors import NotSupportedError, ParseError, nearest
from whit.onnx import types
from whit.onnx.constants import MOST_HOST_FLOATS, Constant, Derived, Given, Sparse, Stored
from whit.onnx.operators.registry import Node
from whit.onnx.problems import check_node
from whit.onnx.proto import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto
from whit.onnx.tensors import Store
from whit.onnx.types import ValueType, of_type_proto
from whit.records import dataclass
from whit.tensor.source import shown

MOST_STEPS: Final = 2_000_000  # of a model, with its functions written out
MOST_NAMES: Final = (
    50_000_000  # that all subgraphs together see around them; a thousand subgraphs in ten thousand nodes
)
MOST_FUNCTION_DEPTH: Final = 100
FIX: Final = "The model is wrong: export it again, or check it with the program that wrote it."

NOT_FOLDED: Final = frozenset(  # results that are large and quickly made, or another one in each run
    {
        *("ConstantOfShape", "Expand", "Tile", "EyeLike", "Range", "OneHot"),
        *(
            "RandomNormal",
            "RandomUniform",
            "RandomNormalLike",
            "RandomUniformLike",
            "Multinomial",
            "Bernoulli",
            "Dropout",
        ),
    }
)
NARROW: Final = frozenset({2, 3, 17, 18, 19, 20, 21, 22, 23, 25, 26})  # numbers of types of eight bits and fewer
KEEPS_TYPE: Final = frozenset(  # the type of the first output is that of the first input
    {"Reshape", "Transpose", "Identity", "Squeeze", "Unsqueeze", "Flatten", "Slice", "Concat", "Gather", "Pad", "Split"}
)


@dataclass(frozen=True, slots=True)
class Port:
    """A named value that goes in or out, and its type."""

    name: str
    type: ValueType


@dataclass(frozen=True, slots=True)
class Step:
    """A node: its operator, names of what it reads ("" is left out) and makes, and what its subgraphs read besides.

    `body` is there if the operator is a function of the model."""

    node: Node
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    outer: tuple[str, ...] = ()
    body: Graph | None = None

    def reads(self) -> tuple[str, ...]:
        """All names that it needs."""
        return self.inputs + self.outer


@dataclass(frozen=True, eq=False)
class Graph:
    """Steps in an order in which they can run. `outer` are names of values that it reads from around it; `number` is
    the same whenever the model is loaded."""

    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    steps: tuple[Step, ...]
    constants: Mapping[str, Constant]
    outer: tuple[str, ...]
    last_use: Mapping[str, int]  # the number of the last step that reads a value; of outputs, that of all steps
    number: int = -1


Compute = Callable[[Step, Mapping[str, Constant]], tuple[Any, ...]]  # of a step whose inputs are constants


class Builder:
    """Builds the graphs of one model. `compute` is called for what can be computed before the model runs. `stored` is
    told of each tensor of the file; what is computed of one that is open is no constant."""

    def __init__(
        self, model: ModelProto, store: Store, compute: Compute, stored: Callable[[Stored], object] = bool
    ) -> None:
        self._model = model
        self._store = store
        self._compute = compute
        self._stored = stored
        self._functions = {_function_key(f.domain, f.name, f.overload): f for f in model.functions}
        self._stack: list[tuple[str, str, str]] = []
        self._built: dict[Any, tuple[Graph, int]] = {}  # of functions, and how many steps they have with those in them
        self._graphs = 0
        self._left = MOST_STEPS
        self._names_left = MOST_NAMES

    def main(self) -> Graph:
        """The graph of the model."""
        if self._model.graph is None:
            raise ParseError("onnx: the model has no graph", fix="Check what the file is: it may be cut off.")
        versions = _versions(self._model.opset_imports)
        if not versions:
            if self._model.ir_version >= 3 or not self._model.ir_version:
                raise ParseError("onnx: the model does not say which version of the operators it means", "", FIX)
            versions = {"": 1}
        return self.graph(self._model.graph, versions, {}, {}, frozenset())

    def graph(
        self,
        proto: GraphProto,
        versions: Mapping[str, int],
        around: Mapping[str, Constant],
        attributes: Mapping[str, AttributeProto],
        outer: frozenset[str],
    ) -> Graph:
        """A graph. `around` are constants that it may read from outside, `outer` the names of other values there;
        `attributes` are those of the call, in a function."""
        self._names_left -= len(around) + len(outer)
        if self._names_left < 0:
            raise ParseError("onnx: the model has too many subgraphs", f"of {MOST_STEPS} nodes", "Split the model.")
        inputs = tuple(_port(info) for info in proto.inputs)
        constants = self._initializers(proto)
        body = _Body(self, versions, {**around, **constants}, attributes)
        body.declare(inputs, proto.name)
        own = frozenset(port.name for port in inputs) - constants.keys()
        body.known = {name: around_constant for name, around_constant in body.known.items() if name not in own}
        steps, missing = body.build(proto.nodes, own | constants.keys(), outer | around.keys(), proto.name)
        outputs = tuple(_port(info) for info in proto.outputs)
        return self._finish(proto.name, inputs, outputs, steps, body.known, missing, outer | around.keys())

    def function(self, key: tuple[str, str, str], given: Mapping[str, AttributeProto]) -> Graph:
        """A function of the model with the attributes of one call; calls with equal ones share a graph."""
        called = (key, tuple(sorted(given.items(), key=lambda item: item[0])))
        if called in self._built:
            graph, steps = self._built[called]
            self.count(steps)
            return graph
        before = self._left
        graph = self._build_function(key, given)
        self._built[called] = graph, before - self._left
        return graph

    def _build_function(self, key: tuple[str, str, str], given: Mapping[str, AttributeProto]) -> Graph:
        proto = self._functions[key]
        if key in self._stack or len(self._stack) >= MOST_FUNCTION_DEPTH:
            path = " -> ".join(name for _, name, _ in [*self._stack[-4:], key])
            raise ParseError("onnx: a function of the model calls itself", path, FIX)
        defaults = {attribute.name: attribute for attribute in proto.attribute_defaults}
        self._stack.append(key)
        versions = _versions(proto.opset_imports) or _versions(self._model.opset_imports)
        body = _Body(self, versions, {}, {**defaults, **given})
        own = frozenset(proto.inputs)
        steps, missing = body.build(proto.nodes, own, frozenset(), proto.name)
        self._stack.pop()
        inputs = tuple(Port(name, types.UNKNOWN) for name in proto.inputs)
        outputs = tuple(Port(name, types.UNKNOWN) for name in proto.outputs)
        return self._finish(proto.name, inputs, outputs, steps, body.known, missing, frozenset())

    def _finish(self, *parts: Any) -> Graph:
        self._graphs += 1
        return _finish(self._graphs, *parts)

    def find_function(self, node: NodeProto) -> tuple[str, str, str] | None:
        """The function of the model that a node calls; None if it is an operator."""
        key = _function_key(node.domain, node.op_type, node.overload)
        return key if key in self._functions else None

    def count(self, steps: int = 1) -> None:
        """Counts steps: functions in functions could become any number."""
        self._left -= steps
        if self._left < 0:
            raise ParseError("onnx: the model has too many nodes", f"more than {MOST_STEPS}", "Split the model.")

    def attribute(self, proto: AttributeProto, body: _Body) -> Any:
        """The value of an attribute."""
        kind = proto.type or _kind_of(proto)
        store = self._store
        if kind in _PLAIN:
            return _PLAIN[kind](proto)
        if kind in (9, 10, 12, 14):
            parts: dict[int, list[Any]] = {
                9: [store.array(tensor) for tensor in proto.tensors],
                10: [body.subgraph(graph) for graph in proto.graphs],
                12: [store.dense(tensor) for tensor in proto.sparse_tensors],
                14: [of_type_proto(inner) for inner in proto.type_protos],
            }
            return parts[kind]
        if kind == 4 and proto.t is not None:
            return store.array(proto.t)
        if kind == 5 and proto.g is not None:
            return body.subgraph(proto.g)
        if kind == 11 and proto.sparse_tensor is not None:
            return store.dense(proto.sparse_tensor)
        if kind == 13:
            return of_type_proto(proto.tp)
        raise ParseError(f'onnx: the attribute "{proto.name}" has no value', f"type {kind}", FIX)

    def constant(self, name: str, node: NodeProto) -> Constant | None:
        """What a node Constant gives; None if that depends on the call of a function."""
        if len(node.attributes) != 1 or node.attributes[0].ref_attr_name:
            return None
        (attribute,) = node.attributes
        if attribute.name == "value" and attribute.t is not None:
            return self._of_file(attribute.t)
        if attribute.name == "sparse_value" and attribute.sparse_tensor is not None:
            return Sparse(self._store, attribute.sparse_tensor)
        if attribute.name in _CONSTANT_KINDS:
            element, dtype = _CONSTANT_KINDS[attribute.name]
            return Given(self._store, name, element, np.array(self.attribute(attribute, _NO_BODY), dtype))
        return None

    def _of_file(self, proto: TensorProto) -> Stored:
        found = Stored(self._store, proto)
        self._stored(found)
        return found

    def fold(self, step: Step, known: Mapping[str, Constant]) -> dict[str, Constant]:
        """The outputs of a step that reads constants alone."""
        memory: list[tuple[Any, ...]] = []

        def compute() -> tuple[Any, ...]:
            if not memory:
                memory.append(self._compute(step, known))
            return memory[0]

        first = step.inputs[0] if step.inputs else ""
        element = known[first].element if first and step.node.op_type in KEEPS_TYPE else 0
        if step.node.op_type == "QuantizeLinear":
            zero = known[step.inputs[2]].element if step.inputs[2:] and step.inputs[2] else 2
            element = step.node.get("output_dtype", 0) or zero
        sources = tuple(known[name] for name in step.reads() if name)
        named = [(number, name) for number, name in enumerate(step.outputs) if name]
        return {name: Derived(self._store, name, element, sources, compute, number) for number, name in named}

    def _initializers(self, proto: GraphProto) -> dict[str, Constant]:
        found: dict[str, Constant] = {tensor.name: self._of_file(tensor) for tensor in proto.initializers}
        for sparse in proto.sparse_initializers:
            found[sparse.values.name] = Sparse(self._store, sparse)
        return found


class _Body:
    """The steps of one graph or function while they are built."""

    def __init__(
        self,
        builder: Builder,
        versions: Mapping[str, int],
        known: Mapping[str, Constant],
        attributes: Mapping[str, AttributeProto],
    ) -> None:
        self.known: dict[str, Constant] = dict(known)
        self._builder = builder
        self._versions = versions
        self._attributes = attributes
        self._elements: dict[str, int] = {name: constant.element for name, constant in known.items()}
        self._names: frozenset[str] = frozenset()  # of values that are no constants, where a step stands

    def declare(self, ports: Iterable[Port], graph: str) -> None:
        """Notes the types of inputs."""
        seen: set[str] = set()
        for port in ports:
            if port.name in seen:
                raise ParseError(f'onnx: graph "{graph}" has two inputs "{port.name}"', "", FIX)
            seen.add(port.name)
            if port.type.kind == "tensor":
                self._elements[port.name] = port.type.element

    def build(
        self, nodes: tuple[NodeProto, ...], own: frozenset[str], outer: frozenset[str], name: str
    ) -> tuple[list[Step], set[str]]:
        """The steps in order, and the names that they read from around the graph."""
        made = set(own)
        for node in nodes:
            for output in node.outputs:
                if output and output in made:
                    raise ParseError(f'onnx: "{output}" is made twice in graph "{name}"', "", FIX)
                made.add(output)
            made.discard("")
        steps, missing = [], set()
        self._names = frozenset(made | outer)
        for node in _in_order(nodes, own, made, name):
            step = self._step(node)
            if step is None:
                continue
            for read in step.reads():
                if read and read not in made and read not in self.known:
                    if read not in outer:
                        raise ParseError(
                            f'onnx: {step.node} reads "{read}", which nothing makes',
                            f'in graph "{name}"',
                            nearest(read, made).strip() or FIX,
                        )
                    missing.add(read)
            if self._can_fold(step):
                self.known.update(self._builder.fold(step, self.known))
            else:
                steps.append(step)
        return steps, missing

    def subgraph(self, proto: GraphProto) -> Graph:
        """The graph of an attribute: it sees what is around it."""
        return self._builder.graph(proto, self._versions, self.known, self._attributes, self._names)

    def _step(self, node: NodeProto) -> Step | None:
        """A node as a step; None if it is a constant."""
        builder = self._builder
        builder.count()
        if node.op_type == "Constant" and self._is_constant(node):
            return None
        resolved = {attribute.name: self._resolved(attribute) for attribute in node.attributes}
        given = {name: proto for name, proto in resolved.items() if proto is not None}
        function = builder.find_function(node)
        if function is not None:
            body = builder.function(function, given)
            return Step(
                Node(node.op_type, node.domain, 0, node.name, len(node.outputs), {}),
                node.inputs,
                node.outputs,
                (),
                body,
            )
        values = {name: builder.attribute(proto, self) for name, proto in given.items()}
        record = self._record(node, values)
        check_node(record, node.inputs, node.outputs, Graph)
        self._note_types(record, node)
        return Step(record, node.inputs, node.outputs, _read_by_graphs(values.values()))

    def _is_constant(self, node: NodeProto) -> bool:
        """Notes what a node Constant gives; whether it is one."""
        if node.domain not in ("", "ai.onnx") or len(node.outputs) != 1:
            return False
        constant = self._builder.constant(node.outputs[0], node)
        if constant is None:
            return False
        self.known[node.outputs[0]] = constant
        self._elements[node.outputs[0]] = constant.element
        return True

    def _record(self, node: NodeProto, values: Mapping[str, Any]) -> Node:
        """What the operator is told."""
        version = self._versions.get(_domain(node.domain))
        if version is None:
            version = _assumed_version(node)
        elements = tuple(self._elements.get(name, 0) for name in node.inputs)
        outputs = len(node.outputs)
        while outputs and not node.outputs[outputs - 1]:
            outputs -= 1
        return Node(node.op_type, _domain(node.domain), version, node.name, outputs, values, elements)

    def _resolved(self, proto: AttributeProto) -> AttributeProto | None:
        """In a function, an attribute that stands for one of the call; None if that was not given."""
        return self._attributes.get(proto.ref_attr_name) if proto.ref_attr_name else proto

    def _note_types(self, record: Node, node: NodeProto) -> None:
        """The types of results, as far as they are more than a dtype here: int4 is kept in int8."""
        element = 0
        if record.op_type == "Cast":
            element = _whole(record.get("to"))
        elif record.op_type == "QuantizeLinear":
            element = _whole(record.get("output_dtype")) or record.type_of(2)
        elif record.op_type in KEEPS_TYPE:
            element = record.type_of(0)
        elif record.op_type in ("CastLike", "BitCast"):
            element = _whole(record.get("to")) or record.type_of(1)
        if element:
            self._elements.update(dict.fromkeys(filter(None, node.outputs), element))

    def _can_fold(self, step: Step) -> bool:
        if step.node.op_type in NOT_FOLDED or step.body is not None or not step.inputs:
            return False
        if not all(not name or self._is_fixed(name) for name in step.reads()):
            return False
        return step.node.op_type != "DequantizeLinear" or not _is_packed(self.known.get(step.inputs[0]))

    def _is_fixed(self, name: str) -> bool:
        constant = self.known.get(name)
        return constant is not None and not (isinstance(constant, Stored) and constant.is_open)


def _is_packed(weight: Constant | None) -> bool:
    """Whether a constant is a weight of bytes or fewer bits: four times as large once it is floats."""
    if weight is None:
        return False
    is_few = isinstance(weight, Stored) and prod(weight.shape) <= MOST_HOST_FLOATS
    return weight.element in NARROW and not is_few


def _finish(
    graph: int,
    name: str,
    inputs: tuple[Port, ...],
    outputs: tuple[Port, ...],
    steps: list[Step],
    known: Mapping[str, Constant],
    missing: set[str],
    outer: frozenset[str],
) -> Graph:
    """Leaves out what nobody reads, and notes until when values are needed."""
    made = {output for step in steps for output in step.outputs} | {port.name for port in inputs} | known.keys()
    made.discard("")
    for port in outputs:
        if port.name not in made and port.name not in outer:
            raise ParseError(f'onnx: nothing makes the output "{port.name}" of graph "{name}"', "", FIX)
    missing |= {port.name for port in outputs} - made
    kept = _needed(steps, outputs)
    last_use = {read: number for number, step in enumerate(kept) for read in step.reads()}
    last_use.pop("", None)
    last_use.update((port.name, len(kept)) for port in outputs)
    constants = {key: known[key] for key in last_use if key in known}
    constants |= {port.name: known[port.name] for port in inputs if port.name in known}
    return Graph(
        name, inputs, outputs, tuple(kept), constants, tuple(sorted(missing & last_use.keys())), last_use, graph
    )


def _needed(steps: list[Step], outputs: tuple[Port, ...]) -> list[Step]:
    """The steps that outputs depend on."""
    needed, kept = {port.name for port in outputs}, []
    for step in reversed(steps):
        if not needed.isdisjoint(step.outputs):
            kept.append(step)
            needed.update(step.reads())
    return kept[::-1]


def _read_by_graphs(values: Iterable[Any]) -> tuple[str, ...]:
    """What the graphs among attributes read from around them."""
    found: dict[str, None] = {}
    for value in values:
        for graph in value if isinstance(value, list) else [value]:
            if isinstance(graph, Graph):
                found.update(dict.fromkeys(graph.outer))
    return tuple(found)


def _in_order(nodes: tuple[NodeProto, ...], own: frozenset[str], made: set[str], name: str) -> Iterable[NodeProto]:
    """Nodes after those whose results they read; most files have them so already."""
    ready = set(own)
    for node in nodes:
        if any(read in made and read not in ready for read in reads_of(node)):
            return _sorted(nodes, name)
        ready.update(node.outputs)
    return nodes


def _sorted(nodes: tuple[NodeProto, ...], name: str) -> list[NodeProto]:
    maker = {output: number for number, node in enumerate(nodes) for output in node.outputs}
    waiting = [{maker[read] for read in maker.keys() & set(reads_of(node))} for node in nodes]
    readers = _readers(waiting)
    ready = [number for number, makers in enumerate(waiting) if not makers]
    for number in ready:  # grows while it is walked
        for reader in readers.get(number, ()):
            waiting[reader].discard(number)
        ready += [reader for reader in dict.fromkeys(readers.get(number, ())) if not waiting[reader]]
    if len(ready) == len(nodes):
        return [nodes[number] for number in ready]
    stuck = next(node for node, makers in zip(nodes, waiting, strict=True) if makers)
    raise ParseError(
        f'onnx: nodes of graph "{name}" wait for each other',
        f'{stuck.op_type} "{stuck.name}", which makes {shown(list(stuck.outputs))}, is one of them',
        FIX,
    )


def _readers(waiting: list[set[int]]) -> dict[int, list[int]]:
    """The nodes that wait for each."""
    found: dict[int, list[int]] = {}
    for number, makers in enumerate(waiting):
        for maker in makers:
            found.setdefault(maker, []).append(number)
    return found


def reads_of(node: NodeProto) -> list[str]:
    """The names that a node needs, with those that its subgraphs read from around them."""
    found = [name for name in node.inputs if name]
    graphs = [graph for a in node.attributes for graph in (*a.graphs, a.g) if graph is not None]
    while graphs:
        graph = graphs.pop()
        for inner in graph.nodes:
            found += inner.inputs
            graphs += [g for a in inner.attributes for g in (*a.graphs, a.g) if g is not None]
        found += [port.name for port in graph.outputs]
    return [name for name in found if name]


def _port(info: ValueInfoProto) -> Port:
    return Port(info.name, of_type_proto(info.type))


def _whole(value: Any) -> int:
    """A number of a type; 0 of what is none."""
    return value if isinstance(value, int) else 0


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _function_key(domain: str, name: str, overload: str) -> tuple[str, str, str]:
    return _domain(domain), name, overload


def _versions(imports: Iterable[Any]) -> dict[str, int]:
    return {_domain(one.domain): one.version for one in imports}


def _assumed_version(node: NodeProto) -> int:
    """The version of a domain that a model does not import: other runtimes take the first one of their own."""
    if node.domain in ("", "ai.onnx"):
        raise NotSupportedError(f"onnx: {node.op_type} is used, and the model does not say of which version", "", FIX)
    return 1


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


_PLAIN: Final[dict[int, Callable[[AttributeProto], Any]]] = {  # by AttributeProto.type
    1: lambda proto: proto.f,
    2: lambda proto: proto.i,
    3: lambda proto: _text(proto.s),
    6: lambda proto: list(proto.floats),
    7: lambda proto: list(proto.ints),
    8: lambda proto: [_text(value) for value in proto.strings],
}
_CONSTANT_KINDS: Final[dict[str, tuple[int, Any]]] = {
    "value_float": (types.FLOAT, np.float32),
    "value_floats": (types.FLOAT, np.float32),
    "value_int": (types.INT64, np.int64),
    "value_ints": (types.INT64, np.int64),
    "value_string": (types.STRING, object),
    "value_strings": (types.STRING, object),
}


def _kind_of(proto: AttributeProto) -> int:
    """The type of an attribute in files that do not say it: which field is there."""
    there = [
        *((5, proto.g), (4, proto.t), (11, proto.sparse_tensor), (13, proto.tp)),
        *((6, proto.floats), (7, proto.ints), (8, proto.strings), (9, proto.tensors), (10, proto.graphs)),
        *((3, proto.s), (1, proto.f), (2, proto.i)),
    ]
    return next((kind for kind, value in there if value), 2)


_NO_BODY: Final[Any] = None  # attributes of a Constant have no graphs
