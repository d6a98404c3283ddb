"""Buffers in the memory of a GPU. Their bytes are read and written by copies.

b = CudaBuffer("CUDA", 1024)
b.write(memoryview(data))           # copied before it returns
b.memory()                          # a copy in the machine's memory, read-only
"""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress

from whit.errors import ArgumentError, BackendError
from whit.runtime.buffer import Buffer, address_of, is_on_host, out_of_memory, plain_buffer
from whit.runtime.cuda.gpu import CudaMemoryError, Gpu, open_gpu


def ordinal_of(device: str) -> int:
    """The number of a GPU, of its canonical name."""
    return int(device.partition(":")[2] or 0)


MOST_PINNED_BYTES = 64 << 20  # bytes of pinned memory for one copy of a program: it is taken from all others


def pinned_buffer(device: str, nbytes: int, source: str) -> Buffer:
    """A buffer on the host that a GPU writes by itself; an ordinary one if it is very large."""
    if not 0 < nbytes <= MOST_PINNED_BYTES:
        return Buffer(device, nbytes)
    pinned = PinnedBuffer(open_gpu(ordinal_of(source)), nbytes)
    return Buffer.at_address(device, pinned.address, nbytes, owner=pinned)


class PinnedBuffer:
    """Memory of the machine that a GPU reads and writes by itself."""

    __slots__ = ("address", "gpu")

    def __init__(self, gpu: Gpu, nbytes: int) -> None:
        self.gpu = gpu
        self.address = 0
        self.address = int(gpu.number("cuMemHostAlloc", ctypes.c_void_p, max(nbytes, 1), 0))

    def __del__(self) -> None:
        if self.address and not self.gpu.is_gone:
            with self.gpu.visited(), suppress(BackendError):
                self.gpu.checked(self.gpu.driver.cuCtxSynchronize)  # copies may be on their way
                self.gpu.checked(self.gpu.driver.cuMemFreeHost, self.address)


class CudaBuffer(Buffer):
    """Memory on a GPU."""

    __slots__ = ("gpu",)

    gpu: Gpu

    def _acquire(self) -> None:
        self.gpu = open_gpu(ordinal_of(self.device))
        try:
            self.address = self.gpu.take(self.nbytes)
        except CudaMemoryError:
            gc.collect()  # buffers in reference cycles
            self.gpu.release()
            try:
                self.address = self.gpu.take(self.nbytes)
            except CudaMemoryError:
                free, total = self.gpu.free_bytes()
                have = f"{free:,} of {total:,} bytes are free on the device"
                raise out_of_memory(self.device, self.nbytes, have) from None
        self._block = self.address

    def _give_back(self) -> None:
        self.gpu.give_back(self._block)

    def _part(self, offset: int, nbytes: int) -> Buffer:
        part = plain_buffer(CudaBuffer, self.device, self.address + offset, nbytes, None, self.writable)
        part.gpu = self.gpu
        return part

    def memory(self) -> memoryview:
        """The bytes as they are once everything that was started is done, in memory of their own, read-only."""
        return self.fetched().memory().toreadonly()

    def fetched(self) -> Buffer:
        """The same bytes in the machine's memory."""
        host = Buffer("CPU", self.nbytes)
        if self.nbytes:
            self.gpu.transfers.download(host.address, self.address, self.nbytes)
        return host

    def write(self, data: memoryview, offset: int = 0) -> None:
        """Writes bytes from `offset` on."""
        if offset + data.nbytes > self.nbytes:
            raise ArgumentError(f"buffer: {data.nbytes} bytes into {self.nbytes - offset}", fix="Stay inside.")
        if data.nbytes:
            self.gpu.transfers.upload(self.address + offset, address_of(data), data.nbytes)

    def fill(self, data: memoryview) -> None:
        """Writes all bytes of a buffer that nobody has used yet."""
        if data.nbytes:
            self.gpu.transfers.fill(self.address, address_of(data), data.nbytes)

    def copy_from(self, other: Buffer) -> None:
        """All bytes of another buffer of the same size."""
        self._check_copy(other)
        if not self.nbytes:
            return
        if isinstance(other, CudaBuffer) and other.gpu is self.gpu:
            self.gpu.transfers.copy(self.address, other.address, self.nbytes)
        elif isinstance(other, CudaBuffer):
            self.gpu.transfers.copy_from(other.gpu, self.address, other.address, self.nbytes)
        else:
            self.write(other.memory())

    def copy_to(self, target: Buffer) -> None:
        """Into memory of the machine."""
        if isinstance(target, CudaBuffer):
            target.copy_from(self)
        elif not is_on_host(target.device):
            target.write(self.memory())
        elif self.nbytes:
            self.gpu.transfers.download(target.address, self.address, self.nbytes)
