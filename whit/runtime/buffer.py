"""Buffers: memory on a device, its views, and how much of it is in use.

    b = Buffer("CPU", 1024)                 # memory, freed when the last reference to it goes
    part = b.view(256, 512)                 # 512 bytes of it, without a copy; keeps b alive
    b.memory()[:4] = b"abcd"                # a memoryview
    wrapped = Buffer.wrap("CPU", array)     # somebody else's memory, kept alive; read-only unless asked

`usage(device)` counts the bytes that buffers ask for, now and at most: exact numbers, independent of what the cache of
freed blocks does. Devices whose names differ (`CPU`, `CPU:1`) are counted apart. `NULL` buffers have no memory at all.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from time import perf_counter_ns
from typing import Any, TypeVar

from whit.errors import ArgumentError, DeviceError, InternalError, OutOfRangeError, WhitError, user_line
from whit.recording import hooks
from whit.records import dataclass
from whit.runtime.blocks import MiB, cached_bytes, give_back, release, take

INSIDE = "inside the machine"  # what copies of its memory are called in profiles
LISTED_BUFFERS = 5  # the largest buffers that an out-of-memory error names
LARGE_BYTES = 1 * MiB  # buffers of this size and more remember where they were made, 1 us


class OutOfMemoryError(WhitError, MemoryError):
    """A device has no memory left for a buffer."""


@dataclass(slots=True)
class Usage:
    """Bytes in buffers of one device."""

    now: int = 0
    peak: int = 0


views_made = 0  # by all buffers: as long as it stays, no buffer gets one
_usage: dict[str, Usage] = {}
_usage_lock = threading.RLock()
_large: weakref.WeakSet[Buffer] = weakref.WeakSet()


def usage(device: str) -> Usage:
    """The counter of a device; it changes as buffers come and go."""
    found = _usage.get(device)
    if found is None:
        with _usage_lock:
            found = _usage.setdefault(device, Usage())
    return found


def all_usage() -> Iterable[Usage]:
    """The counters of all devices."""
    return list(_usage.values())


def usage_by_device() -> dict[str, int]:
    """Bytes in use by device."""
    return {device: counter.now for device, counter in _usage.items()}


def reset_peaks() -> None:
    """From now on the peak is counted from what is in use now."""
    for counter in all_usage():
        counter.peak = counter.now


def _count(device: str, nbytes: int) -> None:
    counter = usage(device)
    with _usage_lock:
        counter.now += nbytes
        if counter.now > counter.peak:
            counter.peak = counter.now


class Buffer:
    """Memory on a device. `shares` counts the live views of it and of its views. What the engine keeps for itself, such
    as the numbers of a program, is not counted as memory in use."""

    __slots__ = (
        "__weakref__",
        "_block",
        "_counted",
        "_owner",
        "address",
        "base",
        "device",
        "made_at",
        "nbytes",
        "shares",
        "writable",
    )

    def __init__(self, device: str, nbytes: int, is_counted: bool = True) -> None:
        if nbytes < 0:
            raise ArgumentError(f"buffer: {nbytes} bytes", fix="Sizes are not negative.")
        self.device = device
        self.nbytes = nbytes
        self.base: Buffer | None = None
        self.writable = True
        self.shares = 0
        self.made_at = ""
        self.address = 0
        self._owner: Any = None
        self._block: Any = None
        self._counted = 0
        self._acquire()
        if not is_counted:
            return
        _count(device, nbytes)
        self._counted = nbytes
        if nbytes >= LARGE_BYTES:
            self.made_at = user_line()
            _large.add(self)
        if (recorder := hooks.recorder) is not None and nbytes:
            recorder.allocated(self)

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if is_finalizing():  # the names of this module may be gone; the memory goes with the process
            return
        base = getattr(self, "base", None)
        if base is not None:
            with _usage_lock:
                base.shares -= 1
        if getattr(self, "_block", None) is not None:
            self._give_back()
        if getattr(self, "_counted", 0):
            _count(self.device, -self._counted)
            if (recorder := hooks.recorder) is not None:
                recorder.freed(self)

    def _acquire(self) -> None:
        """Takes memory for a new buffer."""
        if is_on_host(self.device):
            self._block = _take(self.device, self.nbytes)
            self.address = self._block.address
        elif has_memory(self.device):
            raise InternalError(f"buffer: {self.device} has buffers of its own kind", fix="Use engine.disk.allocate.")

    def _give_back(self) -> None:
        """Gives the memory of the buffer back."""
        give_back(self._block)

    def __repr__(self) -> str:
        where = f" made at {self.made_at}" if self.made_at else ""
        return f"<Buffer of {self.nbytes} bytes on {self.device}{where}>"

    @staticmethod
    def wrap(device: str, memory: Any, *, writable: bool = False) -> Buffer:
        """The memory of an object with the buffer protocol, not copied and not counted; the object stays alive.

        Unless `writable`, whit never writes to it.
        """
        view = memoryview(memory)
        if not view.c_contiguous:
            raise ArgumentError("buffer: the memory to wrap has gaps", f"strides {view.strides}", "Copy it first.")
        if writable and view.readonly:
            raise ArgumentError("buffer: the memory to wrap is read-only", fix="Leave out writable.")
        return _external(device, address_of(view), view.nbytes, view, writable)

    @staticmethod
    def at_address(device: str, address: int, nbytes: int, *, owner: Any = True, writable: bool = True) -> Buffer:
        """Memory that somebody else manages; `owner` is kept alive."""
        return _external(device, address, nbytes, owner, writable)

    def view(self, offset: int, nbytes: int) -> Buffer:
        """A part of this buffer, without a copy."""
        if offset < 0 or nbytes < 0 or offset + nbytes > self.nbytes:
            raise OutOfRangeError(
                f"buffer: bytes {offset}..{offset + nbytes} of a buffer of {self.nbytes}", fix="Stay inside."
            )
        global views_made  # noqa: PLW0603  a counter on a hot path
        base = self if self.base is None else self.base
        part = self._part(offset, nbytes)
        part.made_at = self.made_at
        part.base = base
        with _usage_lock:
            views_made += 1
            base.shares += 1
        return part

    def _part(self, offset: int, nbytes: int) -> Buffer:
        return _external(self.device, self.address + offset if self.address else 0, nbytes, None, self.writable)

    @property
    def is_shared(self) -> bool:
        """Whether the memory can be reached through another buffer: a write here would be seen there."""
        return self.shares > 0 if self.base is None else True

    def memory(self) -> memoryview:
        """The bytes, to read and to write. The view keeps the buffer alive."""
        if not has_memory(self.device):
            raise _no_data(self.device)
        array: Any = (ctypes.c_char * self.nbytes).from_address(self.address)
        array.buffer = self
        view = memoryview(array).cast("B")
        return view if self.writable else view.toreadonly()

    def fetched(self) -> Buffer:
        """The same bytes where Python can read them: this buffer, or a copy."""
        return self

    def write(self, data: memoryview, offset: int = 0) -> None:
        """Writes bytes from `offset` on."""
        start = perf_counter_ns()
        self.memory()[offset : offset + data.nbytes] = data
        hooks.copied(self.device, INSIDE, data.nbytes, start)

    def fill(self, data: memoryview) -> None:
        """Writes all bytes of a buffer that nobody has used yet."""
        self.write(data)

    def fill_from(self, other: Buffer) -> None:
        """`copy_from`, for a buffer that nobody has used yet."""
        if is_on_host(other.device) and has_memory(self.device):
            self._check_copy(other)
            self.fill(other.memory())
        else:
            self.copy_from(other)

    def _check_copy(self, other: Buffer) -> None:
        if other.nbytes != self.nbytes:
            raise ArgumentError(
                f"buffer: a copy of {other.nbytes} bytes into {self.nbytes}", fix="Sizes must be equal."
            )
        if not self.writable:
            raise ArgumentError("buffer: a copy into read-only memory", repr(self), "Copy it into a new buffer.")

    def copy_from(self, other: Buffer) -> None:
        """All bytes of another buffer of the same size."""
        self._check_copy(other)
        if has_memory(self.device):
            other.copy_to(self)

    def copy_to(self, target: Buffer) -> None:
        """The second half of `copy_from`, where the source is known and the target has memory."""
        if not has_memory(self.device):
            raise _no_data(self.device)
        if self.nbytes:
            start = perf_counter_ns()
            ctypes.memmove(target.address, self.address, self.nbytes)
            hooks.copied(target.device, INSIDE, self.nbytes, start)


Kind = TypeVar("Kind", bound=Buffer)


def _no_data(device: str) -> DeviceError:
    return DeviceError(
        f"buffer: {device} has no data", fix="NULL plans and compiles, and runs nothing. Use another device."
    )


def has_memory(device: str) -> bool:
    """Whether buffers of this device hold data."""
    return not device.startswith("NULL")


def is_on_host(device: str) -> bool:
    """Whether buffers of this device lie in the machine's memory, where Python can read and write them."""
    return not device.startswith(("NULL", "CUDA", "DISK"))


def _external(device: str, address: int, nbytes: int, owner: Any, writable: bool) -> Buffer:
    return plain_buffer(Buffer, device, address, nbytes, owner, writable)


def plain_buffer(kind: type[Kind], device: str, address: int, nbytes: int, owner: Any, writable: bool) -> Kind:
    """A buffer without memory of its own."""
    buffer = object.__new__(kind)
    buffer.device = device
    buffer.nbytes = nbytes
    buffer.address = address
    buffer.base = None
    buffer.writable = writable
    buffer.shares = 0
    buffer.made_at = ""
    buffer._block = None
    buffer._counted = 0
    buffer._owner = owner
    return buffer


class _PyBuffer(ctypes.Structure):
    """Python's Py_buffer up to the field that is needed; the rest is room."""

    _fields_ = (("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("rest", ctypes.c_byte * 128))


def address_of(view: memoryview) -> int:
    """Where the memory begins. ctypes' `from_buffer` refuses read-only memory, so Python is asked itself."""
    info = _PyBuffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(view), ctypes.byref(info), 0)
    address = int(info.buf or 0)
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(info))
    return address


def _take(device: str, nbytes: int) -> Any:
    try:
        return take(nbytes)
    except MemoryError:
        gc.collect()  # buffers in reference cycles
        release()
    try:
        return take(nbytes)
    except MemoryError:
        raise out_of_memory(device, nbytes, f"{cached_bytes():,} are kept for reuse") from None


def out_of_memory(device: str, nbytes: int, left: str) -> OutOfMemoryError:
    """The error that names the largest buffers in the same memory; `left` says what else is known."""
    here = [buffer for buffer in _large if is_on_host(device) or buffer.device == device]
    live = sorted(here, key=lambda buffer: -buffer.nbytes)
    lines = [f"{usage(device).now:,} bytes are in use on {device}, {left}"]
    for buffer in live[:LISTED_BUFFERS]:
        made = f", made at {buffer.made_at}" if buffer.made_at else ""
        lines.append(f"{buffer.nbytes:,} bytes on {buffer.device}{made}")
    line = user_line()
    return OutOfMemoryError(
        f"out of memory: {nbytes:,} bytes on {device}" + (f", asked for at {line}" if line else ""),
        "\n".join(lines),
        "Use smaller batches or dtypes, or let go of tensors that are no longer needed.",
    )


def _after_fork() -> None:
    global _usage_lock  # noqa: PLW0603  a fork: nobody would release it
    _usage_lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
