"""Small ONNX files, written by hand: protobuf in thirty lines, for tests that need no package.

model([node("Relu", ["x"], ["y"])], [value("x", 1, ["n", 3])], [value("y", 1)])      # bytes
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

TYPES = {
    "float32": 1,
    "uint8": 2,
    "int8": 3,
    "int32": 6,
    "int64": 7,
    "object": 8,
    "bool": 9,
    "float16": 10,
    "float64": 11,
}


def number(value: int) -> bytes:
    """A varint."""
    value &= (1 << 64) - 1
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def field(place: int, value: int | float | str | bytes) -> bytes:
    """One field of a message."""
    if isinstance(value, int):
        return number(place << 3) + number(value)
    if isinstance(value, float):
        return number(place << 3 | 5) + struct.pack("<f", value)
    data = value.encode() if isinstance(value, str) else value
    return number(place << 3 | 2) + number(len(data)) + data


def fields(place: int, values: Sequence[Any]) -> bytes:
    """A field several times."""
    return b"".join(field(place, value) for value in values)


def tensor(name: str, array: Any, *, is_raw: bool = True, external: dict[str, str] | None = None) -> bytes:
    """A TensorProto."""
    array = np.asarray(array)
    found = fields(1, array.shape) + field(2, TYPES[array.dtype.name]) + field(8, name)
    if external is not None:
        return found + fields(13, [field(1, key) + field(2, text) for key, text in external.items()]) + field(14, 1)
    if array.dtype.kind == "O":
        return found + fields(6, array.reshape(-1).tolist())
    if is_raw:
        return found + field(9, array.tobytes())
    if array.dtype == np.float32:
        return found + field(4, array.tobytes())
    place = 7 if array.dtype == np.int64 else 5
    return found + field(place, b"".join(map(number, array.reshape(-1).tolist())))


def value(name: str, kind: int = 1, shape: Sequence[int | str] | None = None) -> bytes:
    """A ValueInfoProto of a tensor."""
    sizes = [field(1, size) if isinstance(size, int) else field(2, size) for size in shape or ()]
    described = field(1, kind) + (b"" if shape is None else field(2, fields(1, sizes)))
    return field(1, name) + field(2, field(1, described))


def attribute(name: str, given: Any) -> bytes:
    """An AttributeProto; bytes are a graph, arrays a tensor, "@x" an attribute of the function's call."""
    start = field(1, name)
    if isinstance(given, str) and given.startswith("@"):
        return start + field(21, given[1:]) + field(20, 2)
    if isinstance(given, int):
        return start + field(3, given) + field(20, 2)
    if isinstance(given, float):
        return start + field(2, given) + field(20, 1)
    if isinstance(given, str):
        return start + field(4, given) + field(20, 3)
    if isinstance(given, bytes):
        return start + field(6, given) + field(20, 5)
    if isinstance(given, np.ndarray):
        return start + field(5, tensor("", given)) + field(20, 4)
    return start + fields(8, given) + field(20, 7)


def node(kind: str, inputs: Sequence[str], outputs: Sequence[str], domain: str = "", **attributes: Any) -> bytes:
    """A NodeProto."""
    given = [attribute(name, each) for name, each in attributes.items()]
    return fields(1, inputs) + fields(2, outputs) + field(4, kind) + fields(5, given) + field(7, domain)


def graph(
    nodes: Sequence[bytes], inputs: Sequence[bytes], outputs: Sequence[bytes], tensors: Sequence[bytes] = ()
) -> bytes:
    """A GraphProto."""
    return fields(1, nodes) + field(2, "g") + fields(5, tensors) + fields(11, inputs) + fields(12, outputs)


def function(
    name: str, nodes: Sequence[bytes], inputs: Sequence[str], outputs: Sequence[str], attributes: Sequence[str] = ()
) -> bytes:
    """A FunctionProto of the domain "own"."""
    head = field(1, name) + fields(4, inputs) + fields(5, outputs) + fields(6, attributes)
    return head + fields(7, nodes) + field(9, opset("", 18)) + field(9, opset("own", 1)) + field(10, "own")


def opset(domain: str, version: int) -> bytes:
    """An OperatorSetIdProto."""
    return field(1, domain) + field(2, version)


def model(
    nodes: Sequence[bytes],
    inputs: Sequence[bytes],
    outputs: Sequence[bytes],
    tensors: Sequence[bytes] = (),
    functions: Sequence[bytes] = (),
    version: int = 18,
) -> bytes:
    """A ModelProto."""
    imports = field(8, opset("", version)) + field(8, opset("own", 1))
    return field(1, 10) + field(7, graph(nodes, inputs, outputs, tensors)) + imports + fields(25, functions)
