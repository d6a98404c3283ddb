"""Memory of GPUs that other libraries use on streams of their own, and theirs: whose work waits for whose.

    lend(memory, 1)                 work on their stream waits for what was started here
    they let go of it               what takes the memory next waits for what they had started on that stream
    borrow("CUDA", address, ...)    they were asked to make this stream wait for theirs, as DLPack has it
    we let go of it                 they are told so when what was started here is done

All of it are events: nothing here waits on the host, except where a library may have used a stream that is gone.
"""

from __future__ import annotations

import ctypes
from typing import Any

from whit.runtime.buffer import Buffer, plain_buffer
from whit.runtime.cuda.buffer import CudaBuffer, ordinal_of
from whit.runtime.cuda.gpu import Gpu, open_gpu
from whit.runtime.cuda.transfers import NO_TIMING
from whit.runtime.dlpack import CUDA

LEGACY = 1  # the stream that libraries use where they name none
NO_STREAM = -1  # they take care of it themselves
DEVICE_MEMORY = 2


def stream_of(ordinal: int) -> int:
    """The handle of the stream on which a GPU works."""
    return int(open_gpu(ordinal).stream)


def is_on_device(device: str, address: int) -> bool:
    """Whether the driver knows an address as memory of a GPU."""
    return open_gpu(ordinal_of(device)).memory_type(address) == DEVICE_MEMORY


def lend(memory: Buffer, stream: int | None) -> tuple[Lent, tuple[int, int]]:
    """What keeps the memory while somebody else uses it, and the device as DLPack names it."""
    assert isinstance(memory, CudaBuffer), "memory of a CUDA device is a CudaBuffer"
    gpu, theirs = memory.gpu, LEGACY if stream is None else stream
    if theirs not in (NO_STREAM, gpu.stream):
        with gpu.visited():
            _order(gpu, gpu.stream, theirs)
    return Lent(memory, theirs), (CUDA, gpu.ordinal)


class Lent:
    """Memory that another library uses. Goes when it lets go of it, in any thread."""

    __slots__ = ("_memory", "_stream")

    def __init__(self, memory: CudaBuffer, stream: int) -> None:
        self._memory = memory
        self._stream = stream

    def __del__(self) -> None:
        gpu = self._memory.gpu
        if gpu.is_gone or self._stream == gpu.stream:
            return
        with gpu.visited():
            if self._stream == LEGACY:
                _order(gpu, LEGACY, gpu.stream)
            else:  # it may be gone, or be another one in this thread
                gpu.driver.cuCtxSynchronize()


def borrow(device: str, address: int, nbytes: int, owner: Any, is_in_order: bool) -> CudaBuffer:
    """Memory of somebody else. Unless they know that it is used here, this waits for what they do on their default
    stream."""
    gpu = open_gpu(ordinal_of(device))
    with gpu.visited():
        gpu.let_go()
        if not is_in_order:
            _order(gpu, LEGACY, gpu.stream)
    buffer = plain_buffer(CudaBuffer, device, address, nbytes, Borrowed(gpu, owner), False)
    buffer.gpu = gpu
    return buffer


class Borrowed:
    """Keeps somebody else's memory as long as it is used here."""

    __slots__ = ("_gpu", "_owner")

    def __init__(self, gpu: Gpu, owner: Any) -> None:
        self._gpu = gpu
        self._owner = owner

    def __del__(self) -> None:
        if self._owner is not None and not self._gpu.is_gone:
            with self._gpu.visited():
                self._gpu.keep_until_done(self._owner)


def _order(gpu: Gpu, first: Any, then: Any) -> None:
    """Work on one stream waits for what was started on another."""
    event = gpu.number("cuEventCreate", ctypes.c_void_p, NO_TIMING)
    gpu.checked(gpu.driver.cuEventRecord, event, first)
    gpu.checked(gpu.driver.cuStreamWaitEvent, then, event, 0)
    gpu.driver.cuEventDestroy_v2(event)  # the driver keeps it as long as somebody waits for it
