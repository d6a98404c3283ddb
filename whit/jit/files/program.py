"""A `Program` as something that JSON can hold, and back: what a file of captured functions consists of.

    {"parts": [{"device": "CPU", "linear": "f = function ...", "kernels": [[header, [start, length]]], ...}], "size": 5}

Beside the JSON a file has two tables, written by `JsonWriter` and read by `JsonReader`: nodes, in the text form of the
IR, and bytes (machine code, constants). JSON refers to both by number. BUFFERs, of which there are hundreds, are rows
of the JSON: their numbers are negative. Sizes that depend on variables are nodes; so that no placeholder of a file is
taken for one of this process, the reader gives them new numbers.

What is read is checked: every place is in the table, and what is put there has room for what kernels read and write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from whit.dtype import DType, to_dtype
from whit.engine.compile.compile import add_kernel, code_of
from whit.engine.devices.cpu import CpuDevice
from whit.engine.devices.device import Device
from whit.engine.devices.disk import allocate
from whit.engine.memory.placeholder import is_placeholder, new_placeholder
from whit.engine.memory.storage import nbytes_of
from whit.engine.plan.plan import kernels_in, make_plan, plan_of
from whit.engine.programs.parts import ALL, ProgramPart
from whit.engine.programs.program import Program, on_other_leaves, resident_of
from whit.engine.realize.assume import Assumption
from whit.engine.realize.parametrise import Parametrised
from whit.ir import ops
from whit.ir.args import Memory
from whit.ir.graph import topological
from whit.ir.op import Shape
from whit.ir.sizes import is_size
from whit.ir.text.parse import parse, parse_all
from whit.ir.text.write import to_text
from whit.ir.uop import UOp
from whit.runtime.blocks import ALIGNMENT
from whit.runtime.buffer import Buffer, has_memory

MOST_ARENA_BYTES = 1 << 48  # of temporaries
MOST_PLACES = 1 << 20  # of memory in one program, in a file that is believed

Json = dict[str, Any]


class JsonWriter:
    """The tables of a file that is being written."""

    def __init__(self) -> None:
        self.data = bytearray()
        self._nodes: dict[UOp, int] = {}
        self._buffers: dict[UOp, int] = {}
        self._known: dict[bytes, list[int]] = {}

    def node(self, node: UOp) -> int:
        """The number of a node."""
        if node.op is ops.BUFFER and not node.src and node.arg.memory is Memory.GLOBAL:
            return -1 - self._buffers.setdefault(node, len(self._buffers))
        return self._nodes.setdefault(node, len(self._nodes))

    def array(self, dtype: DType, shape: Shape, device: str) -> int:
        """The number of a node that has this dtype, this shape and this device."""
        return self.node(UOp.buffer(0, dtype, shape, device))

    def nodes(self) -> Json:
        """All nodes."""
        rows = [[b.arg.id, b.dtype.name, b.shape, b.device] for b in self._buffers]
        return {"text": to_text(self._nodes, types=False), "buffers": rows}

    def bytes(self, data: bytes) -> list[int]:
        """Where bytes are; equal ones are there once."""
        if data not in self._known:
            self._known[data] = [len(self.data), len(data)]
            self.data += data
        return self._known[data]

    def memory(self, buffer: Buffer) -> list[int]:
        """Where the content of a buffer is."""
        return self.bytes(bytes(buffer.fetched().memory()) if has_memory(buffer.device) else b"")


class JsonReader:
    """The tables of a file. A number that is not in them raises, as does everything else that cannot be."""

    def __init__(self, nodes: Json, data: bytes) -> None:
        roots = parse_all(nodes["text"]) if nodes["text"] else ()
        buffers = [_buffer_from(row) for row in nodes["buffers"]]
        placeholders = [node for node in (*buffers, *topological(roots)) if is_placeholder(node)]
        own = {node: new_placeholder(node.dtype, node.shape, node.device) for node in dict.fromkeys(placeholders)}
        self._nodes = on_other_leaves(roots, own) if roots else []
        self._buffers = [own.get(node, node) for node in buffers]
        self._data = data

    def places(self, number: Any) -> int:
        """How many places there are: thousands in large programs."""
        if type(number) is not int or not 0 <= number <= MOST_PLACES:
            raise ValueError(f"{number!r:.40} places")
        return number

    def offset(self, number: Any) -> int:
        """Where a temporary begins in the arena."""
        if type(number) is not int or not 0 <= number <= MOST_ARENA_BYTES or number % ALIGNMENT:
            raise ValueError(f"an offset {number!r:.40}")
        return number

    def node(self, number: int) -> UOp:
        """A node by its number."""
        node: UOp = at(self._nodes, number) if number >= 0 else at(self._buffers, -1 - number)
        return node

    def bytes(self, where: list[int]) -> bytes:
        """Bytes by where they are."""
        start, length = where
        if not 0 <= start <= start + length <= len(self._data):
            raise ValueError(f"bytes {start} to {start + length} of {len(self._data)}")
        return self._data[start : start + length]

    def fill(self, buffer: Buffer, where: list[int]) -> Buffer:
        """A buffer with these bytes."""
        if has_memory(buffer.device):
            data = self.bytes(where)
            if len(data) != buffer.nbytes:
                raise ValueError(f"{len(data)} bytes for {buffer.nbytes}")
            buffer.write(memoryview(data))
        return buffer


def at(values: Sequence[Any], number: int) -> Any:
    """One of some values; counting from the end is a mistake."""
    if not 0 <= number < len(values):
        raise IndexError(f"{number} of {len(values)}")
    return values[number]


def _buffer_from(row: list[Any]) -> UOp:
    """A BUFFER of a file."""
    number, dtype, shape, device = row
    if type(number) is not int or not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError(f"a buffer {row!r:.80}")
    return UOp.buffer(number, to_dtype(dtype), tuple(shape), device)


# ---- writing


def program_to(program: Program, writer: JsonWriter) -> Json:
    """What is kept of a program."""
    known = {place for node, place in program.inputs.items() if not is_placeholder(node)}
    return {
        "parts": [_part_to(part, writer) for part in program.parts],
        "size": program.size,
        "outputs": program.outputs,
        "inputs": [[writer.node(node), place] for node, place in program.inputs.items() if is_placeholder(node)],
        "fixed": [
            [place, buffer.device, buffer.nbytes, writer.memory(buffer) if place in known else None]
            for place, buffer in program.fixed.items()
        ],
        "pruned": [writer.node(node) for node in program.pruned],
        "before": None if program.before is None else program_to(program.before, writer),
        "donations": [[number, writer.node(node)] for number, node in program.donations.items()],
        "assumptions": [
            [writer.node(one.room), one.text, [size_to(size, writer) for size in one.sizes]]
            for one in program.assumptions
        ],
    }


def size_to(size: int | UOp, writer: JsonWriter) -> int | list[int]:
    """A number, or a list of the number of a node."""
    return size if isinstance(size, int) else [writer.node(size)]


def _part_to(part: ProgramPart, writer: JsonWriter) -> Json:
    places = None if part.places is ALL else part.places
    if part.graph is None:
        return {"device": part.device, "places": places, "linear": None}
    plan = plan_of(part.loaded)
    functions = dict.fromkeys(kernels_in(plan))
    codes = [code_of(function, part.device) for function in functions] if _has_code(part.device) else []
    return {
        "device": part.device,
        "places": places,
        "linear": to_text(plan.linear, types=False),
        "slots": len(plan.params),
        "offsets": [temporary.offset for temporary in plan.temporaries],
        "variables": dict(part.variables or {}),
        "kernels": [[header, writer.bytes(code)] for header, code in codes],
    }


def _has_code(device: str) -> bool:
    """Whether a file has machine code for a device; others make what they run when a program is loaded."""
    backend = Device[device]
    return isinstance(backend, CpuDevice) and backend.is_linked


# ---- reading


def program_from(data: Json, reader: JsonReader, given: Mapping[int, int]) -> Program:
    """The program that was written. `given` are the bytes of what its user puts into the places of results."""
    program = Program(size=reader.places(data["size"]))
    program.inputs = {reader.node(number): place for number, place in data["inputs"]}
    program.outputs = [_place(program, place) for place in data["outputs"]]
    program.pruned = [reader.node(number) for number in data["pruned"]]
    program.donations = {number: reader.node(node) for number, node in data["donations"]}
    program.assumptions = [_assumption_from(one, reader) for one in data["assumptions"]]
    rooms = {place: [nbytes] for place, nbytes in given.items()}
    for place, device, nbytes, where in data["fixed"]:
        buffer = program.fixed[_place(program, place)] = allocate(device, nbytes)
        rooms.setdefault(place, []).append(nbytes)
        if where is not None:
            reader.fill(buffer, where)
    for node, place in program.inputs.items():
        rooms.setdefault(_place(program, place), []).append(nbytes_of(node.dtype, node.shape))
    if data["before"] is not None:
        sizes = [nbytes_of(node.dtype, node.shape) for node in program.pruned]
        results = zip(data["before"]["outputs"], sizes, strict=True)
        program.before = program_from(data["before"], reader, dict(results))
    for part in data["parts"]:
        program.parts.append(_part_from(part, reader, program, rooms))
    return program


def size_from(data: int | list[int], reader: JsonReader) -> int | UOp:
    """A size, checked to be one."""
    if type(data) is int:
        return data
    node = reader.node(*data)  # type: ignore[misc]
    if not is_size(node):
        raise ValueError(f"{node.short()} is no size")
    return node


def _assumption_from(data: list[Any], reader: JsonReader) -> Assumption:
    """What is taken for granted of variables; the text is filled once, so that one that cannot be is found now."""
    number, text, sizes = data
    room = reader.node(number)
    found = Assumption(room, text, tuple(size_from(size, reader) for size in sizes))
    if not is_size(room):
        raise ValueError(f"{room.short()} is no size")
    found.error("", {})
    return found


def _place(program: Program, place: int) -> int:
    if not 0 <= place < program.size:
        raise IndexError(f"place {place} of {program.size}")
    return place


def _part_from(data: Json, reader: JsonReader, program: Program, rooms: Mapping[int, list[int]]) -> ProgramPart:
    device = data["device"]
    places = list(range(program.size)) if data["places"] is None else data["places"]
    for place in places:
        _place(program, place)
    if data["linear"] is None:
        target, source = places
        return ProgramPart(device, [target, source])
    linear = parse(data["linear"])
    offsets = [reader.offset(offset) for offset in data["offsets"]]
    plan = make_plan(linear, reader.places(data["slots"]), offsets)
    functions = dict.fromkeys(kernels_in(plan))
    if _has_code(device):
        for function, (header, where) in zip(functions, data["kernels"], strict=True):
            add_kernel(function, device, header, reader.bytes(where))
    for place, param in zip(places, plan.params, strict=True):
        needed = 0 if param is None else nbytes_of(param.dtype, param.shape)
        if needed > min(rooms.get(place, [0])):
            raise ValueError(f"{needed} bytes in place {place}, which has {rooms.get(place)}")
    loaded = Device[device].load(plan)
    graph = Parametrised(linear, 0, (), ())
    part = ProgramPart(device, ALL if data["places"] is None else places, graph, loaded, resident_of(device, loaded))
    part.variables = {str(name): int(value) for name, value in data["variables"].items()}
    return part
