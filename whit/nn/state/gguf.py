"""GGUF, versions 2 and 3: metadata and tensors of language models, most of them quantised.

    "GGUF" | version | number of tensors | number of keys | keys and values | names, shapes, kinds, places | elements

Loading reads everything but the elements. Quantised tensors stay packed: the bytes are read when they are needed, and
what unpacks them is part of the graph that uses them.
"""

from __future__ import annotations

import struct
from math import prod
from typing import Any

from whit.dtype import dtypes
from whit.engine.devices.device import canonicalize
from whit.nn.state.gguf_blocks import KINDS, Kind
from whit.records import dataclass
from whit.tensor import Tensor
from whit.tensor.source import CUT_OFF, Reader, Source, checked_shape, open_source

# The types of values: characters of the struct module, or what is read otherwise.
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
TEXT, ARRAY = 8, 9
MOST_AXES = 4
MOST_ARRAY_DEPTH = 4  # arrays in arrays
LEAST_ENTRY_BYTES = 24  # bytes that a tensor takes in the list of tensors


@dataclass(frozen=True)
class Packed:
    """A tensor as it is in the file."""

    kind: Kind
    shape: tuple[int, ...]
    source: Source
    start: int

    def bytes(self) -> Tensor:
        """Its blocks, (number of blocks, bytes of a block); of kinds that are not packed, its elements."""
        if self.kind.unpack is None:
            return self.source.tensor(self.start, self.kind.dtype, self.shape)
        blocks = prod(self.shape) // self.kind.elements
        return self.source.tensor(self.start, dtypes.uint8, (blocks, self.kind.nbytes))

    def unpacked(self, device: str) -> Tensor:
        """Its elements on a device, nothing read or computed yet."""
        data = self.bytes()
        moved = data if data.device == device else data.to(device)
        return moved if self.kind.unpack is None else self.kind.unpack(moved).reshape(self.shape)


def gguf_load(fn: Any, device: str | None = None) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The metadata and the tensors of a file, on the default device if none is given.

    `fn` is a path, a tensor of bytes, or bytes. Shapes are as in PyTorch, the last axis the fastest one. Quantised
    tensors are float32, computed from the packed bytes where they are used: `realize()` keeps them unpacked.
    """
    name = canonicalize(device)
    metadata, packed = gguf_read(fn)
    return metadata, {key: value.unpacked(name) for key, value in packed.items()}


def gguf_read(fn: Any) -> tuple[dict[str, Any], dict[str, Packed]]:
    """The same with the tensors as they are in the file."""
    source = open_source("gguf_load", fn)
    reader = Reader(source)
    tensors, keys = _header(source, reader)
    metadata: dict[str, Any] = {}
    for _ in range(keys):
        key = _text(reader)
        if key in metadata:
            raise source.error(f"the key {key!r:.80} is there twice", "", CUT_OFF)
        metadata[key] = _value(reader, reader.number("I"), MOST_ARRAY_DEPTH)
    entries = {}
    for _ in range(tensors):
        key, entry = _entry(source, reader)
        if key in entries:
            raise source.error(f"the tensor {key!r:.80} is there twice", "", CUT_OFF)
        entries[key] = entry
    start = _data_start(source, metadata, reader.place)
    _check_places(source, entries, source.size - start)
    packed = {key: Packed(kind, shape, source, start + place) for key, (kind, shape, place) in entries.items()}
    return metadata, packed


def _header(source: Source, reader: Reader) -> tuple[int, int]:
    """The numbers of tensors and of keys, which the file must be long enough for."""
    if source.read_up_to(0, 4) != b"GGUF":
        raise source.error(
            "no GGUF file",
            f"it begins with {source.read_up_to(0, 4)!r}",
            "Check what the file is: .safetensors loads with safe_load, checkpoints of PyTorch with torch_load.",
        )
    reader.take(4)
    version = reader.number("I")
    if version not in (2, 3):
        swapped = version & 0xFFFF == 0 and version
        what = "it is big-endian" if swapped else f"version {version} of GGUF"
        raise source.error(what, "versions 2 and 3, little-endian, can be read", "Convert it with llama.cpp.")
    tensors, keys = reader.number("Q"), reader.number("Q")
    if tensors * LEAST_ENTRY_BYTES > reader.left or keys * 13 > reader.left:
        raise source.error(
            f"{tensors} tensors and {keys} keys do not fit in it", f"{reader.left} bytes follow", CUT_OFF
        )
    return tensors, keys


def _text(reader: Reader) -> str:
    """Text that is not UTF-8, as in some vocabularies, keeps its bytes: `text.encode(errors="surrogateescape")`."""
    return reader.take(reader.number("Q")).decode("utf-8", "surrogateescape")


def _value(reader: Reader, kind: int, depth: int) -> Any:
    if kind in NUMBERS:
        return reader.number(NUMBERS[kind])
    if kind == TEXT:
        return _text(reader)
    if kind != ARRAY or not depth:
        raise reader.source.error(
            "arrays are in arrays too deeply" if kind == ARRAY else f"a value of the unknown type {kind}",
            f"at byte {reader.place}",
            CUT_OFF,
        )
    inner, count = reader.number("I"), reader.number("Q")
    if inner in NUMBERS:
        size = struct.calcsize(f"<{NUMBERS[inner]}")
        return list(struct.unpack(f"<{count}{NUMBERS[inner]}", reader.take(count * size)))
    if count * (8 if inner == TEXT else 12) > reader.left:
        raise reader.source.error(f"an array of {count} values does not fit in it", f"{reader.left} bytes", CUT_OFF)
    return [_value(reader, inner, depth - 1) for _ in range(count)]


Entry = tuple[Kind, tuple[int, ...], int]


def _entry(source: Source, reader: Reader) -> tuple[str, Entry]:
    name = _text(reader)
    axes = reader.number("I")
    if axes > MOST_AXES:
        raise source.error(f"the tensor {name!r:.80} has {axes} axes", f"at most {MOST_AXES}", CUT_OFF)
    shape = checked_shape(source, name, [reader.number("Q") for _ in range(axes)][::-1])
    number, place = reader.number("I"), reader.number("Q")
    kind = KINDS.get(number)
    if kind is None:
        raise source.error(
            f"the tensor {name!r:.80} is of kind {number}",
            f"known: {', '.join(kind.name for kind in KINDS.values())}",
            "Convert it to one of these with llama.cpp.",
        )
    if (shape[-1] if shape else 1) % kind.elements:
        raise source.error(
            f"the tensor {name!r:.80} has rows of {shape[-1] if shape else 1}",
            f"{kind.name} packs {kind.elements} at a time",
            CUT_OFF,
        )
    return name, (kind, shape, place)


def _data_start(source: Source, metadata: dict[str, Any], place: int) -> int:
    alignment = metadata.get("general.alignment", 32)
    if type(alignment) is not int or not 0 < alignment <= 1 << 20:
        raise source.error("general.alignment is no alignment", f"{alignment!r:.40}", CUT_OFF)
    start = -(-place // alignment) * alignment
    return min(start, source.size)  # a file without tensors may end before


def _check_places(source: Source, entries: dict[str, Entry], size: int) -> None:
    end, before = 0, ""
    for name, (kind, shape, place) in sorted(entries.items(), key=lambda item: item[1][2]):
        nbytes = prod(shape) // kind.elements * kind.nbytes
        if nbytes and place < end:
            raise source.error(f"the tensors {before!r:.80} and {name!r:.80} overlap", f"at {place}", CUT_OFF)
        if place + nbytes > size:
            raise source.error(
                f"the tensor {name!r:.80} lies outside of it", f"bytes {place} to {place + nbytes} of {size}", CUT_OFF
            )
        end, before = max(end, place + nbytes), name
