"""A graph of ONNX while it is written: nodes in order, and tensors that they read.

    sheet = Sheet()
    y = sheet.add("Relu", "x")              # the name of the result
    sheet.numbers([2, 3])                   # the name of an int64 tensor

Equal nodes are one. Graphs inside (of loops, of conditions) see the names of those around them; their tensors are kept
in the outermost one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np

from whit.errors import NotSupportedError
from whit.onnx import types
from whit.onnx.writing import wire
from whit.records import dataclass

MOST_BYTES = (1 << 31) - 1  # of a file without others beside it
LARGE_BYTES = 1024  # of a tensor, from which on it goes into the file beside
ALIGNMENT = 64  # bytes; tensors in a file that is mapped begin at a cache line
OUTSIDE = "reads outside"  # of a node: what graphs in it read from around them. No attribute of ONNX


@dataclass(frozen=True, slots=True)
class Line:
    """A node."""

    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    name: str = ""

    def renamed(self, name: str, other: str) -> Line:
        """The same with another name of a value."""
        if name not in self.inputs and name not in self.outputs:
            return self
        inputs = tuple(other if each == name else each for each in self.inputs)
        outputs = tuple(other if each == name else each for each in self.outputs)
        return Line(self.kind, inputs, outputs, self.attributes, self.name)


class Beside:
    """A file of data beside the model's."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self.name = name
        self._stream = stream

    def write(self, data: bytes | memoryview) -> tuple[int, int]:
        """Where the data begin, and how many bytes they are."""
        self._stream.write(bytes(-self._stream.tell() % ALIGNMENT))
        start = self._stream.tell()
        view = memoryview(data).cast("B")
        self._stream.write(view)
        return start, len(view)


class Sheet:
    """The nodes of one graph."""

    def __init__(self, outer: Sheet | None = None, beside: Beside | None = None) -> None:
        self.outer = outer
        self.beside = beside  # of the outermost graph: where large tensors go, if not into the file
        self.scope = ""  # of the nodes that are added: "/blocks.0/attn"
        self.lines: list[Line] = []
        self.main: Sheet = self if outer is None else outer.main
        self.tensors: dict[str, bytes] = {}  # of the outermost graph: name -> TensorProto
        self._results: set[str] = set()  # outputs that nodes give under their names
        self.taken: set[str] = set()  # names, there
        self._known: dict[Any, tuple[str, ...]] = {}
        self._count = 0
        self._bytes = 0  # of tensors in the file

    def new_name(self, like: str) -> str:
        """A name that nothing has yet."""
        main = self.main
        name = like
        while not name or name in main.taken:
            main._count += 1
            name = f"{like}_{main._count}"
        main.taken.add(name)
        return name

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """The result of a node."""
        return self.add_many(kind, inputs, 1, **attributes)[0]

    def add_many(self, kind: str, inputs: Sequence[str], count: int, **attributes: Any) -> tuple[str, ...]:
        """The results of a node that has several."""
        key = (kind, tuple(inputs), count, tuple(attributes.items()))
        found = self._known.get(key)
        if found is None:
            found = tuple(self.new_name(f"{kind}_{len(self.lines)}") for _ in range(count))
            self._known[key] = found
            name = f"{self.scope}/{found[0]}" if self.scope else found[0]
            self.lines.append(Line(kind, tuple(inputs), found, attributes, name))
        return found

    def tensor(self, element: int, shape: Sequence[int], data: bytes | memoryview, name: str = "") -> str:
        """The name of a tensor with this content. One without a name of its own is shared with equal ones."""
        main = self.main
        key = None if name else (element, tuple(shape), bytes(data))
        found = None if name else main._known.get(key)
        if found is None:
            found = (main.new_name(name or f"constant_{len(main.tensors)}"),)
            main.tensors[found[0]] = main._stored(found[0], element, shape, data)
            if not name:
                main._known[key] = found
        return found[0]

    def _stored(self, name: str, element: int, shape: Sequence[int], data: bytes | memoryview) -> bytes:
        """A TensorProto, with its data or with the place of them in the file beside."""
        size = memoryview(data).nbytes
        if self.beside is None or size < LARGE_BYTES:
            self._bytes += size
            if self._bytes > MOST_BYTES:
                raise NotSupportedError(
                    f"onnx.export: weights of more than {MOST_BYTES} bytes, which is the most of a message of protobuf",
                    fix="Put them into a file beside the model's: external_data=True.",
                )
            return wire.tensor(name, element, shape, bytes(data))
        start, size = self.beside.write(data)
        return wire.tensor_beside(name, element, shape, self.beside.name, start, size)

    def numbers(self, values: Iterable[int]) -> str:
        """A list of whole numbers: sizes, axes."""
        array = np.array([*values], np.int64)
        return self.tensor(types.INT64, array.shape, array.tobytes())

    def scalar(self, value: int) -> str:
        """A whole number."""
        return self.tensor(types.INT64, (), value.to_bytes(8, "little", signed=True))

    def result(self, name: str, value: str) -> None:
        """Gives a value the name of an output."""
        if any(value in line.attributes.get(OUTSIDE, ()) for line in self.lines) or value in self._results:
            self.lines.append(Line("Identity", (value,), (name,), {}))
            return
        made = any(value in line.outputs for line in self.lines)
        if made:
            self._results.add(name)
            self.lines = [line.renamed(value, name) for line in self.lines]
        else:
            self.lines.append(Line("Identity", (value,), (name,), {}))

    def live(self, outputs: Iterable[str]) -> list[Line]:
        """The nodes that the outputs need, in order."""
        wanted = set(outputs)
        found = []
        for line in reversed(self.lines):
            if not wanted.isdisjoint(line.outputs):
                found.append(line)
                wanted.update(line.inputs)
                wanted.update(line.attributes.get(OUTSIDE, ()))
        return found[::-1]

    def graph(self, name: str, inputs: Sequence[bytes], outputs: Sequence[bytes], results: Sequence[str]) -> bytes:
        """The bytes of the graph; `outputs` describe the `results`."""
        lines = self.live(results)
        nodes = [wire.node(line.kind, line.inputs, line.outputs, _given(line), line.name) for line in lines]
        read = set(self.reads(results))
        tensors = [data for tensor, data in self.tensors.items() if tensor in read]
        return wire.graph(name, nodes, inputs, outputs, tensors)

    def reads(self, results: Sequence[str]) -> tuple[str, ...]:
        """All names that the nodes read, those of the graphs around among them."""
        found = dict.fromkeys(results)
        for line in self.live(results):
            found.update(dict.fromkeys((*line.inputs, *line.attributes.get(OUTSIDE, ()))))
        return tuple(found)


def _given(line: Line) -> dict[str, Any]:
    return {name: value for name, value in line.attributes.items() if name != OUTSIDE}
