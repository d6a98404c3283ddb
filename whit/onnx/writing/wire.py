"""Protobuf's wire format, written: the messages of an ONNX file as bytes.

    node("Relu", ["x"], ["y"], {})          # the bytes of a NodeProto, for a field of a graph

Numbers of fields are those of the standard's `onnx.proto`; `whit.onnx.proto.records` reads the same.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from whit.onnx.types import Size
from whit.records import dataclass

FLOAT, INT, STRING, GRAPH, INTS = 1, 2, 3, 5, 7  # AttributeProto.type


@dataclass(frozen=True, slots=True)
class Subgraph:
    """The bytes of a GraphProto, as an attribute of a node."""

    data: bytes


def varint(value: int) -> bytes:
    """A number, seven bits in each byte; negative ones have 64 bits."""
    value &= (1 << 64) - 1
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def field(number: int, value: int | float | str | bytes) -> bytes:
    """One field: a number, a float of 32 bits, or the bytes of text and of messages."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def fields(number: int, values: Sequence[int | float | str | bytes]) -> bytes:
    """A field several times."""
    return b"".join(field(number, value) for value in values)


def tensor(name: str, element: int, shape: Sequence[int], data: bytes) -> bytes:
    """A TensorProto; `element` is the number of its type."""
    return fields(1, shape) + field(2, element) + field(8, name) + field(9, data)


def tensor_beside(name: str, element: int, shape: Sequence[int], file: str, start: int, size: int) -> bytes:
    """A TensorProto whose data lie in another file."""
    place = {"location": file, "offset": str(start), "length": str(size)}
    entries = [field(1, key) + field(2, value) for key, value in place.items()]
    return fields(1, shape) + field(2, element) + field(8, name) + fields(13, entries) + field(14, 1)


def port(name: str, element: int, shape: Sequence[Size]) -> bytes:
    """A ValueInfoProto: what goes in or out. A size is a number or a name, or None where nothing is known."""
    dims = [field(1, n) if isinstance(n, int) else field(2, n) if n else b"" for n in shape]
    described = field(1, element) + field(2, fields(1, dims))
    return field(1, name) + field(2, field(1, described))


def attribute(name: str, value: Any) -> bytes:
    """An AttributeProto."""
    start = field(1, name)
    if isinstance(value, int):
        return start + field(3, value) + field(20, INT)
    if isinstance(value, float):
        return start + field(2, value) + field(20, FLOAT)
    if isinstance(value, str):
        return start + field(4, value) + field(20, STRING)
    if isinstance(value, Subgraph):
        return start + field(6, value.data) + field(20, GRAPH)
    return start + fields(8, value) + field(20, INTS)


def node(
    kind: str, inputs: Sequence[str], outputs: Sequence[str], attributes: Mapping[str, Any], name: str = ""
) -> bytes:
    """A NodeProto of the standard's domain, named after its first output if nothing is said."""
    given = [attribute(key, value) for key, value in attributes.items()]
    called = name or outputs[0]
    return fields(1, inputs) + fields(2, outputs) + field(3, called) + field(4, kind) + fields(5, given)


def graph(
    name: str, nodes: Sequence[bytes], inputs: Sequence[bytes], outputs: Sequence[bytes], tensors: Sequence[bytes] = ()
) -> bytes:
    """A GraphProto."""
    return fields(1, nodes) + field(2, name) + fields(5, tensors) + fields(11, inputs) + fields(12, outputs)


def model(
    data: bytes, opset: int, ir_version: int, producer: tuple[str, str], said: str, metadata: Mapping[str, str]
) -> bytes:
    """A ModelProto around a graph: by whom, with what text, with what pairs of key and value."""
    head = field(1, ir_version) + field(2, producer[0]) + field(3, producer[1])
    head += field(6, said) if said else b""
    pairs = [field(1, key) + field(2, value) for key, value in metadata.items()]
    return head + field(7, data) + field(8, field(1, "") + field(2, opset)) + fields(14, pairs)
