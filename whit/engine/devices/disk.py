"""The device DISK:path: tensors that are parts of a file. It stores, and computes nothing.

    weights = file_buffer("DISK:/data/weights")     # all of the file; nothing is read
    weights.view(8, 400).memory()                   # reads 400 bytes
    weights.view(8, 400).copy_from(buffer)          # writes 400 bytes

A file shows what it holds when it is read, also what other tensors and other processes wrote to it. Within this process
a copy to another device that was asked for before a write has the content from before it: copies that have not been
carried out are listed here (`reads_of`), and a write carries them out first.
"""

from __future__ import annotations

import weakref
from contextlib import suppress
from typing import Any, NoReturn

from whit.engine.devices.device import NOTHING, Calls, Rendering, is_disk
from whit.engine.report.counters import Counts, GlobalCounters
from whit.errors import ArgumentError, DeviceError, FileError, FileMissingError, OutOfRangeError
from whit.ir.uop import UOp
from whit.runtime.buffer import Buffer, is_on_host, plain_buffer
from whit.runtime.disk import File, open_file

CHUNK_BYTES = 16 << 20  # bytes that a copy from file to file has in memory at once


class DiskBuffer(Buffer):
    """Bytes `start` to `start + nbytes` of a file."""

    __slots__ = ("file", "start")

    file: File
    start: int

    @staticmethod
    def of(device: str, file: File, start: int, nbytes: int) -> DiskBuffer:
        """A part of an open file."""
        buffer = plain_buffer(DiskBuffer, device, 0, nbytes, None, True)
        buffer.file = file
        buffer.start = start
        return buffer

    def view(self, offset: int, nbytes: int) -> Buffer:
        """A part of this part."""
        if offset < 0 or nbytes < 0 or offset + nbytes > self.nbytes:
            raise OutOfRangeError(
                f"buffer: bytes {offset}..{offset + nbytes} of a buffer of {self.nbytes}", fix="Stay inside."
            )
        return DiskBuffer.of(self.device, self.file, self.start + offset, nbytes)

    @property
    def is_shared(self) -> bool:
        """A file can always be reached by others, and a write is meant to be seen there."""
        return False

    def memory(self) -> memoryview:
        """The bytes as they are now, in memory of their own, read-only."""
        data = bytearray(self.nbytes)
        self.read_into(memoryview(data))
        return memoryview(data).toreadonly()

    def read_into(self, target: memoryview, offset: int = 0) -> None:
        """Reads the bytes from `offset` on, as many as fit."""
        self.file.read_into(self.start + offset, target)
        GlobalCounters.add(self.device, Counts(bytes_read=len(target)))

    def write(self, data: memoryview, offset: int = 0) -> None:
        """Writes bytes from `offset` on."""
        self.file.write(self.start + offset, data)
        GlobalCounters.add(self.device, Counts(bytes_written=len(data)))

    def copy_to(self, target: Buffer) -> None:
        """Reads all bytes into memory."""
        if not is_on_host(target.device):
            target.write(self.memory())
        elif target.address:
            self.read_into(target.memory())

    def copy_from(self, other: Buffer) -> None:
        """All bytes of another buffer of the same size."""
        if other.nbytes != self.nbytes:
            raise ArgumentError(
                f"buffer: a copy of {other.nbytes} bytes into {self.nbytes}", fix="Sizes must be equal."
            )
        if not isinstance(other, DiskBuffer):
            self.write(other.memory())
            return
        if other.file is self.file and other.start == self.start:
            return
        # Overlapping parts of one file: from the end where the target lies behind.
        starts = range(0, self.nbytes, CHUNK_BYTES)
        for start in reversed(starts) if other.file is self.file and other.start < self.start else starts:
            chunk = memoryview(bytearray(min(CHUNK_BYTES, self.nbytes - start)))
            other.read_into(chunk, start)
            self.write(chunk, start)


def file_buffer(device: str) -> DiskBuffer:
    """All of the file that a device is called after; it must exist."""
    file = open_file(device.partition(":")[2])
    size = file.size
    if not size and _has_more(file):
        raise FileError(
            f"file: {file.path} does not say how long it is",
            "as files in /proc",
            "Read its bytes, and build a tensor of them.",
        )
    return DiskBuffer.of(device, file, 0, size)


def _has_more(file: File) -> bool:
    try:
        file.read_into(0, memoryview(bytearray(1)))
    except FileError:
        return False
    return True


def new_file_buffer(device: str, nbytes: int) -> DiskBuffer:
    """The first bytes of the file that a device is called after. It is made or grows as needed, and never shrinks."""
    file = open_file(device.partition(":")[2], create=True)
    file.grow(nbytes)
    return DiskBuffer.of(device, file, 0, nbytes)


def allocate(device: str, nbytes: int, is_counted: bool = True) -> Buffer:
    """New memory on a device."""
    if is_disk(device):
        return new_file_buffer(device, nbytes)
    if device.startswith("CUDA"):
        from whit.runtime.cuda.buffer import CudaBuffer  # lazy: loads the driver

        return CudaBuffer(device, nbytes, is_counted)
    return Buffer(device, nbytes, is_counted)


# ---- copies that were asked for and are not carried out yet

_reads: weakref.WeakKeyDictionary[File, weakref.WeakSet[UOp]] = weakref.WeakKeyDictionary()


def note_read(file: File, copy: UOp) -> None:
    """A COPY of a part of the file will be wanted as it is now."""
    _reads.setdefault(file, weakref.WeakSet()).add(copy)


def reads_of(file: File) -> list[UOp]:
    """The noted copies that somebody still holds; they are forgotten here."""
    return list(_reads.pop(file, ()))


# ---- the device


class DiskDevice(Rendering):
    """A file as a device."""

    target = None

    def __init__(self, name: str) -> None:
        self.name = name

    def load(self, plan: Any) -> NoReturn:
        """Refuses: there is nothing that could compute."""
        raise not_computed(self.name)

    def run(self, loaded: Any, buffers: Any, variables: Any, then: Calls = NOTHING) -> NoReturn:
        """Refuses: there is nothing that could compute."""
        raise not_computed(self.name)

    def synchronize(self) -> None:
        """Waits until what was written is on the disk itself; a file that is gone has nothing to wait for."""
        with suppress(FileMissingError):
            open_file(self.name.partition(":")[2]).synchronize()


def not_computed(device: str, name: str = "realize", details: str = "") -> DeviceError:
    """The error about arithmetic on a file."""
    return DeviceError(f"{name}: nothing is computed on {device}", details, 'Move it first: x.to("CPU").')


def open_device(name: str) -> DiskDevice:
    """The device of that name."""
    return DiskDevice(name)
