"""Bytes to be read as a model file: of a path, of a tensor, or in memory.

    source = open_source("safe_load", "model.safetensors")
    source.read(0, 8)                                   # bytes, now
    source.tensor(8, dtypes.float32, (3, 4))            # a tensor, whose bytes are read when they are needed

Files are hostile until shown otherwise: no size in a file is believed before it is compared with the bytes there are,
so that nothing larger than the file is ever allocated for it.
"""

from __future__ import annotations

import functools
import os
import reprlib
import struct
from math import prod
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from whit.dtype import DType, dtypes
from whit.engine.devices.device import is_disk
from whit.errors import ArgumentError, ParseError
from whit.ir.op import spell_shape
from whit.tensor import Tensor
from whit.tensor.engine import from_memory

if TYPE_CHECKING:
    from whit.engine.devices.disk import DiskBuffer
    from whit.runtime.buffer import Buffer

CHUNK_BYTES = 1 << 16  # bytes that a `Reader` has at once
MOST_ELEMENTS = 1 << 58  # what a product of sizes may reach: their bytes are a number of 63 bits, for NumPy too
MOST_AXES = 64


@functools.cache
def _engine() -> tuple[ModuleType, ModuleType, ModuleType]:
    from whit.engine.devices import file_views  # lazy: they load the runtime, which `import whit` must not
    from whit.engine.memory import layout, storage  # lazy: they load the runtime, which `import whit` must not

    return file_views, layout, storage


class Source:
    """The bytes of a file or of memory. `reader` and `name` are for messages: who reads, and what."""

    __slots__ = ("_file", "_memory", "name", "reader", "size")

    def __init__(self, reader: str, name: str, data: Buffer | memoryview) -> None:
        self.reader = reader
        self.name = name
        self.size = data.nbytes
        self._file = None if isinstance(data, memoryview) else cast("DiskBuffer", data)
        self._memory = data if isinstance(data, memoryview) else None

    @property
    def is_file(self) -> bool:
        """Whether tensors of this are parts of a file."""
        return self._file is not None

    def read(self, start: int, count: int) -> bytes:
        """`count` bytes from `start` on; an error if there are fewer."""
        self._check(start, count)
        if self._memory is not None:
            return bytes(self._memory[start : start + count])
        assert self._file is not None, "what is not in memory is a file"
        target = bytearray(count)
        self._file.read_into(memoryview(target), start)
        return bytes(target)

    def read_up_to(self, start: int, count: int) -> bytes:
        """The same, and fewer where the end comes first."""
        return self.read(min(start, self.size), max(0, min(count, self.size - start)))

    def part(self, start: int, count: int, name: str) -> Source:
        """Some of the bytes, as a source of their own."""
        self._check(start, count)
        if self._memory is not None:
            return Source(self.reader, name, self._memory[start : start + count])
        assert self._file is not None, "what is not in memory is a file"
        return Source(self.reader, name, self._file.view(start, count))

    def tensor(self, start: int, dtype: DType, shape: tuple[int, ...]) -> Tensor:
        """Elements that lie one behind the other. Of a file they are read when they are needed."""
        count = prod(shape) * dtype.itemsize
        self._check(start, count)
        if self._file is not None:
            return Tensor(_engine()[2].attach(self._file.view(start, count), dtype, shape))
        assert self._memory is not None, "what is no file is in memory"
        memory = self._memory[start : start + count]
        if dtype.is_bool:  # any byte may stand where a bool is expected
            return Tensor(from_memory(memory, dtypes.uint8, shape, "CPU")).ne(0)
        return Tensor(from_memory(memory, dtype, shape, "CPU"))

    def read_tensor(self, start: int, dtype: DType, shape: tuple[int, ...], device: str) -> Tensor:
        """The same on a device, read now: hundreds of weights of a file in 10 us each."""
        count = prod(shape) * dtype.itemsize
        _, _, storage = _engine()
        if self._file is None or not count or not storage.is_on_host(device):
            return self.tensor(start, dtype, shape).to(device).realize()
        self._check(start, count)
        node = storage.new_buffer(dtype, shape, device)
        self._file.read_into(storage.storage(node).memory(), start)
        return Tensor._of_buffer(node, None)

    def _check(self, start: int, count: int) -> None:
        if start < 0 or count < 0 or start + count > self.size:
            raise self.error(f"it ends at byte {self.size}", f"{count} bytes from {start} on are needed", CUT_OFF)

    def error(self, what: str, details: str = "", fix: str = "") -> ParseError:
        """Something is wrong with these bytes."""
        return ParseError(f"{self.reader}: {self.name}: {what}", details, fix)


CUT_OFF = "The file is damaged or was cut off. Get it again."


def open_source(reader: str, data: Any) -> Source:
    """A path, a tensor of bytes, or bytes themselves."""
    if isinstance(data, str | os.PathLike):
        path = Path(os.fspath(data))
        return _of_tensor(reader, path.name, Tensor(path))
    if isinstance(data, Tensor):
        return _of_tensor(reader, "a tensor", data)
    if isinstance(data, bytes | bytearray | memoryview):
        return Source(reader, "bytes", memoryview(data).cast("B"))
    raise ArgumentError(
        f"{reader}: cannot read a {type(data).__name__}", fix="Give a path, a tensor of uint8, or bytes."
    )


def _of_tensor(reader: str, name: str, tensor: Tensor) -> Source:
    if tensor.dtype is not dtypes.uint8 or tensor.ndim != 1:
        raise ArgumentError(
            f"{reader}: a tensor {tensor.dtype.name}{spell_shape(tensor.shape)} is not the bytes of a file",
            fix="Give one axis of uint8: x.bitcast(dtypes.uint8).flatten().",
        )
    if not is_disk(tensor.device):
        return Source(reader, name, tensor.data())
    file_views, layouts, _ = _engine()
    found = file_views.file_under(tensor.uop)
    if found is not None:
        file, base, chain = found
        layout, done = layouts.follow(layouts.row_major(base.shape), chain)
        if done == len(chain) and layout.steps == (1,):
            return Source(reader, name, file.view(layout.start, layout.sizes[0]))
    return Source(reader, name, tensor.to("CPU").data())


class Reader:
    """Reads one thing after the other, from `start` on and never past `end`."""

    __slots__ = ("_chunk", "_first", "end", "place", "source")

    def __init__(self, source: Source, start: int = 0, end: int | None = None) -> None:
        self.source = source
        self.place = start
        self.end = source.size if end is None else min(end, source.size)
        self._chunk = b""
        self._first = start  # the place of the chunk

    @property
    def left(self) -> int:
        """Bytes that are still there."""
        return self.end - self.place

    def take(self, count: int) -> bytes:
        """The next `count` bytes; an error if there are fewer."""
        if not 0 <= count <= self.left:
            raise self.source.error(
                f"it ends at byte {self.end}", f"{count} bytes from {self.place} on are needed", CUT_OFF
            )
        offset = self.place - self._first
        if offset + count > len(self._chunk):
            self._chunk = self.source.read(self.place, min(max(count, CHUNK_BYTES), self.left))
            self._first, offset = self.place, 0
        self.place += count
        return self._chunk[offset : offset + count]

    def number(self, code: str) -> Any:
        """The next number, by its character in the struct module, little-endian."""
        return struct.unpack(f"<{code}", self.take(struct.calcsize(f"<{code}")))[0]

    def line(self, most: int) -> bytes:
        """Bytes up to the next newline, which is taken too."""
        found = bytearray()
        while len(found) <= most:
            byte = self.take(1)
            if byte == b"\n":
                return bytes(found)
            found += byte
        raise self.source.error("a line of it is too long", f"more than {most} bytes from {self.place} on", CUT_OFF)


_short = reprlib.Repr()
_short.maxlevel, _short.maxstring, _short.maxother = 2, 80, 80


def shown(value: Any) -> str:
    """A value out of a file, for a message: little of lists in lists, where one value may be found a billion times."""
    return _short.repr(value)


def checked_numbers(source: Source, what: str, values: Any) -> tuple[int, ...]:
    """Whole numbers of at least 0 out of a file, not too many of them."""
    numbers = tuple(values) if isinstance(values, list | tuple) and len(values) <= MOST_AXES else None
    if numbers is None or not all(type(number) is int and 0 <= number <= MOST_ELEMENTS for number in numbers):
        raise source.error(f"{what}: these are no sizes", shown(values), CUT_OFF)
    return numbers


def checked_shape(source: Source, name: str, sizes: Any) -> tuple[int, ...]:
    """Sizes out of a file, whose product is a number of elements that can exist."""
    shape = checked_numbers(source, f'the shape of "{name}"', sizes)
    if prod(size or 1 for size in shape) > MOST_ELEMENTS:
        raise source.error(f'the shape of "{name}" is too large', f"{shape}", CUT_OFF)
    return shape
