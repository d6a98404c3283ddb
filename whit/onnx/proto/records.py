"""The messages of ONNX as records: names as in `onnx.proto`, whole words, lists as tuples.

`read_model(wire)` gives a `ModelProto`; tensors have the places of their data, not the data.
"""

from __future__ import annotations

from typing import Any

from whit.onnx.proto.schema import (
    Message,
    integer,
    integers,
    message,
    messages,
    parse,
    place,
    places,
    raw,
    raws,
    real,
    reals,
    text,
    texts,
)
from whit.onnx.wire import Span, Wire
from whit.records import dataclass


@dataclass(frozen=True, slots=True)
class Pair:
    """A name and a text: metadata, places of external data."""

    key: str = ""
    value: str = ""


@dataclass(frozen=True, slots=True)
class TensorProto:
    """A tensor: `data_type` is a number of `whit.onnx.types`, its elements lie in one of the other fields."""

    dims: tuple[int, ...] = ()
    data_type: int = 0
    float_data: tuple[int | Span, ...] = ()
    int32_data: tuple[int | Span, ...] = ()
    string_data: tuple[bytes, ...] = ()
    int64_data: tuple[int | Span, ...] = ()
    name: str = ""
    raw_data: Span | None = None
    double_data: tuple[int | Span, ...] = ()
    uint64_data: tuple[int | Span, ...] = ()
    external_data: tuple[Pair, ...] = ()
    data_location: int = 0  # 1: in another file


@dataclass(frozen=True, slots=True)
class SparseTensorProto:
    """The values of a tensor that are not zero, and where they are."""

    values: TensorProto = TensorProto()
    indices: TensorProto = TensorProto()
    dims: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class DimensionProto:
    """One size of a shape: a number, or a name; None and "" where nothing is said."""

    value: int | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class ShapeProto:
    """The sizes of a shape."""

    dims: tuple[DimensionProto, ...] = ()


@dataclass(frozen=True, slots=True)
class TensorTypeProto:
    """The type of a tensor; `shape` is None if even the number of axes is not said."""

    elem_type: int = 0
    shape: ShapeProto | None = None


@dataclass(frozen=True, slots=True)
class ElementTypeProto:
    """What a sequence or an optional is of."""

    elem_type: Any = None


@dataclass(frozen=True, slots=True)
class MapTypeProto:
    """The types of the keys and of the values of a map."""

    key_type: int = 0
    value_type: Any = None


@dataclass(frozen=True, slots=True)
class TypeProto:
    """The type of a value: one of the fields is there."""

    tensor_type: TensorTypeProto | None = None
    sequence_type: ElementTypeProto | None = None
    map_type: MapTypeProto | None = None
    sparse_tensor_type: TensorTypeProto | None = None
    optional_type: ElementTypeProto | None = None


@dataclass(frozen=True, slots=True)
class ValueInfoProto:
    """A named value and its type."""

    name: str = ""
    type: TypeProto = TypeProto()


@dataclass(frozen=True, slots=True)
class AttributeProto:
    """An attribute of a node: `type` says which of the fields counts (0 in very old files)."""

    name: str = ""
    ref_attr_name: str = ""
    type: int = 0
    f: float = 0.0
    i: int = 0
    s: bytes = b""
    t: TensorProto | None = None
    g: Any = None
    sparse_tensor: SparseTensorProto | None = None
    tp: TypeProto | None = None
    floats: tuple[float, ...] = ()
    ints: tuple[int, ...] = ()
    strings: tuple[bytes, ...] = ()
    tensors: tuple[TensorProto, ...] = ()
    graphs: tuple[Any, ...] = ()
    sparse_tensors: tuple[SparseTensorProto, ...] = ()
    type_protos: tuple[TypeProto, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeProto:
    """A call of an operator or a function."""

    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    name: str = ""
    op_type: str = ""
    attributes: tuple[AttributeProto, ...] = ()
    domain: str = ""
    overload: str = ""


@dataclass(frozen=True, slots=True)
class GraphProto:
    """Nodes in the order in which they run, and what goes in and out."""

    nodes: tuple[NodeProto, ...] = ()
    name: str = ""
    initializers: tuple[TensorProto, ...] = ()
    inputs: tuple[ValueInfoProto, ...] = ()
    outputs: tuple[ValueInfoProto, ...] = ()
    sparse_initializers: tuple[SparseTensorProto, ...] = ()


@dataclass(frozen=True, slots=True)
class OperatorSetProto:
    """Which version of the operators of a domain is meant."""

    domain: str = ""
    version: int = 0


@dataclass(frozen=True, slots=True)
class FunctionProto:
    """A function of the model: an operator that is made of others."""

    name: str = ""
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()  # names of those that have no default
    attribute_defaults: tuple[AttributeProto, ...] = ()
    nodes: tuple[NodeProto, ...] = ()
    opset_imports: tuple[OperatorSetProto, ...] = ()
    domain: str = ""
    overload: str = ""


@dataclass(frozen=True, slots=True)
class ModelProto:
    """A model: its graph, the versions of what it calls, who wrote it."""

    ir_version: int = 0
    producer_name: str = ""
    producer_version: str = ""
    domain: str = ""
    model_version: int = 0
    graph: GraphProto | None = None
    opset_imports: tuple[OperatorSetProto, ...] = ()
    metadata: tuple[Pair, ...] = ()
    functions: tuple[FunctionProto, ...] = ()


# ---- the numbers of the fields

PAIR = Message(Pair, {1: text("key"), 2: text("value")})
TENSOR = Message(
    TensorProto,
    {
        1: integers("dims"),
        2: integer("data_type"),
        4: places("float_data"),
        5: places("int32_data"),
        6: raws("string_data"),
        7: places("int64_data"),
        8: text("name"),
        9: place("raw_data"),
        10: places("double_data"),
        11: places("uint64_data"),
        13: messages("external_data", lambda: PAIR),
        14: integer("data_location"),
    },
)
SPARSE_TENSOR = Message(
    SparseTensorProto,
    {1: message("values", lambda: TENSOR), 2: message("indices", lambda: TENSOR), 3: integers("dims")},
)
DIMENSION = Message(DimensionProto, {1: integer("value"), 2: text("name")})
SHAPE = Message(ShapeProto, {1: messages("dims", lambda: DIMENSION)})
TENSOR_TYPE = Message(TensorTypeProto, {1: integer("elem_type"), 2: message("shape", lambda: SHAPE)})
ELEMENT_TYPE = Message(ElementTypeProto, {1: message("elem_type", lambda: TYPE)})
MAP_TYPE = Message(MapTypeProto, {1: integer("key_type"), 2: message("value_type", lambda: TYPE)})
TYPE: Message = Message(
    TypeProto,
    {
        1: message("tensor_type", lambda: TENSOR_TYPE),
        4: message("sequence_type", lambda: ELEMENT_TYPE),
        5: message("map_type", lambda: MAP_TYPE),
        8: message("sparse_tensor_type", lambda: TENSOR_TYPE),
        9: message("optional_type", lambda: ELEMENT_TYPE),
    },
)
VALUE_INFO = Message(ValueInfoProto, {1: text("name"), 2: message("type", lambda: TYPE)})
ATTRIBUTE = Message(
    AttributeProto,
    {
        1: text("name"),
        2: real("f"),
        3: integer("i"),
        4: raw("s"),
        5: message("t", lambda: TENSOR),
        6: message("g", lambda: GRAPH),
        7: reals("floats"),
        8: integers("ints"),
        9: raws("strings"),
        10: messages("tensors", lambda: TENSOR),
        11: messages("graphs", lambda: GRAPH),
        14: message("tp", lambda: TYPE),
        15: messages("type_protos", lambda: TYPE),
        20: integer("type"),
        21: text("ref_attr_name"),
        22: message("sparse_tensor", lambda: SPARSE_TENSOR),
        23: messages("sparse_tensors", lambda: SPARSE_TENSOR),
    },
)
NODE = Message(
    NodeProto,
    {
        1: texts("inputs"),
        2: texts("outputs"),
        3: text("name"),
        4: text("op_type"),
        5: messages("attributes", lambda: ATTRIBUTE),
        7: text("domain"),
        8: text("overload"),
    },
)
GRAPH: Message = Message(
    GraphProto,
    {
        1: messages("nodes", lambda: NODE),
        2: text("name"),
        5: messages("initializers", lambda: TENSOR),
        11: messages("inputs", lambda: VALUE_INFO),
        12: messages("outputs", lambda: VALUE_INFO),
        15: messages("sparse_initializers", lambda: SPARSE_TENSOR),
    },
)
OPERATOR_SET = Message(OperatorSetProto, {1: text("domain"), 2: integer("version")})
FUNCTION = Message(
    FunctionProto,
    {
        1: text("name"),
        4: texts("inputs"),
        5: texts("outputs"),
        6: texts("attributes"),
        7: messages("nodes", lambda: NODE),
        9: messages("opset_imports", lambda: OPERATOR_SET),
        10: text("domain"),
        11: messages("attribute_defaults", lambda: ATTRIBUTE),
        13: text("overload"),
    },
)
MODEL = Message(
    ModelProto,
    {
        1: integer("ir_version"),
        2: text("producer_name"),
        3: text("producer_version"),
        4: text("domain"),
        5: integer("model_version"),
        7: message("graph", lambda: GRAPH),
        8: messages("opset_imports", lambda: OPERATOR_SET),
        14: messages("metadata", lambda: PAIR),
        25: messages("functions", lambda: FUNCTION),
    },
)


def read_model(wire: Wire) -> ModelProto:
    """A whole file."""
    found: ModelProto = parse(wire, wire.whole, MODEL)
    return found
