"""Copies to, from and inside the memory of a GPU, and between GPUs.

    transfers.upload(address, source, nbytes)       # what was at `source` is taken before this returns
    transfers.download(target, address, nbytes)     # waits
    transfers.copy(target, address, nbytes)         # in the order of other work

The GPU reads and writes pinned memory only. So copies go through pieces of it: while one is on its way, threads fill or
empty another. Copies into memory that was just taken (`fill`) go to a stream of their own: they wait only for what used
that memory before, not for kernels that were started since. Numbers are those of an H200 with 16 cores beside it.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from whit.recording import hooks
from whit.runtime.blocks import MiB
from whit.runtime.cuda.driver import PEER_IS_ENABLED, DriverError
from whit.runtime.pool.threads import copy_memory

if TYPE_CHECKING:
    from whit.runtime.cuda.gpu import Gpu

LARGE_BYTES = MiB  # bytes of memory that may be filled beside kernels; each such block has an event
PIECES = 4  # in which a copy goes through pinned memory, of LEAST_PIECE_BYTES to MOST_PIECE_BYTES bytes
# MOST_PIECE_BYTES suits memory that is new (`copy_memory`): 30 GB/s, 11 with pieces of 8 MiB
LEAST_PIECE_BYTES, MOST_PIECE_BYTES = 2 * MiB, 32 * MiB
IN_FLIGHT = 2
NO_TIMING = 2
NON_BLOCKING = 1


@dataclass(slots=True)
class _Ring:
    """Pinned memory in pieces of one size, and the events after which they are free."""

    memory: int
    events: list[Any]
    size: int


class Transfers:
    """The copies of one GPU."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self._stream: Any = None
        self._rings: dict[int, _Ring] = {}  # for small pieces and for large ones
        self._events: dict[Gpu, tuple[Any, Any]] = {}  # for copies from another GPU: of that one, of this one

    @property
    def stream(self) -> Any:
        """A second stream, for copies beside kernels. Who uses it says what waits for what, by events."""
        if self._stream is None:
            self._stream = self.gpu.number("cuStreamCreate", ctypes.c_void_p, NON_BLOCKING)
        return self._stream

    def _pieces(self, nbytes: int) -> Iterator[tuple[int, Any, int, int]]:
        """Pinned memory in turns, each with the event after which it is free, a place in the copy, and bytes there."""
        size = min(
            max(-(-nbytes // PIECES // LEAST_PIECE_BYTES) * LEAST_PIECE_BYTES, LEAST_PIECE_BYTES), MOST_PIECE_BYTES
        )
        # pinning takes long: what copies little has little of it
        room = MOST_PIECE_BYTES if size > LEAST_PIECE_BYTES else size
        ring = self._rings.get(room)
        if ring is None:
            memory = self.gpu.number("cuMemHostAlloc", ctypes.c_void_p, room * IN_FLIGHT, 0)
            events = [self.gpu.number("cuEventCreate", ctypes.c_void_p, NO_TIMING) for _ in range(IN_FLIGHT)]
            ring = self._rings[room] = _Ring(memory, events, size)
        if size != ring.size:  # pieces lie elsewhere from now on
            for event in ring.events:
                self.gpu.checked(self.gpu.driver.cuEventSynchronize, event)
            ring.size = size
        for number, start in enumerate(range(0, nbytes, size)):
            place = number % IN_FLIGHT
            yield ring.memory + place * size, ring.events[place], start, min(size, nbytes - start)

    # ---- between the machine and the device

    def is_pinned(self, address: int) -> bool:
        """Whether the driver knows this memory of the machine, so that it is read after a copy has been started."""
        return self.gpu.memory_type(address) is not None

    def upload(self, target: int, source: int, nbytes: int) -> None:
        """Copies from the machine's memory. Its content is taken before this returns."""
        self.gpu.use()
        with self.gpu.lock:
            self._upload(target, source, nbytes, self.gpu.stream)

    def fill(self, target: int, source: int, nbytes: int) -> None:
        """The same into memory that was just taken: large copies run beside kernels that were started before."""
        if nbytes < LARGE_BYTES:
            self.upload(target, source, nbytes)
            return
        gpu = self.gpu
        gpu.use()
        with gpu.lock:
            if (before := gpu.last_use(target)) is not None:
                gpu.checked(gpu.driver.cuStreamWaitEvent, self.stream, before, 0)
            last = self._upload(target, source, nbytes, self.stream)
            gpu.checked(gpu.driver.cuStreamWaitEvent, gpu.stream, last, 0)

    def _upload(self, target: int, source: int, nbytes: int, stream: Any) -> Any:
        """Copies on a stream; the event after the last piece."""
        gpu, event, begin = self.gpu, None, None
        for pinned, event, start, count in self._pieces(nbytes):
            gpu.checked(gpu.driver.cuEventSynchronize, event)
            copy_memory(pinned, source + start, count)
            begin = begin or self._begin(stream)
            gpu.checked(gpu.driver.cuMemcpyHtoDAsync_v2, target + start, pinned, count, stream)
            gpu.checked(gpu.driver.cuEventRecord, event, stream)
        self._end(begin, stream, "host to device", nbytes)
        return event

    def download(self, target: int, source: int, nbytes: int) -> None:
        """Copies to the machine's memory, when everything before is done."""
        gpu = self.gpu
        gpu.use()
        waiting: deque[tuple[int, Any, int, int]] = deque()

        def finish() -> None:
            pinned, event, start, count = waiting.popleft()
            gpu.checked(gpu.driver.cuEventSynchronize, event)
            copy_memory(target + start, pinned, count)

        with gpu.lock:
            begin = None
            for pinned, event, start, count in self._pieces(nbytes):
                if len(waiting) == IN_FLIGHT:
                    finish()
                gpu.checked(gpu.driver.cuEventSynchronize, event)
                begin = begin or self._begin(gpu.stream)
                gpu.checked(gpu.driver.cuMemcpyDtoHAsync_v2, pinned, source + start, count, gpu.stream)
                gpu.checked(gpu.driver.cuEventRecord, event, gpu.stream)
                waiting.append((pinned, event, start, count))
            self._end(begin, gpu.stream, "device to host", nbytes)
            while waiting:
                finish()

    # ---- between devices

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copies inside the device's memory."""
        gpu = self.gpu
        gpu.use()
        with gpu.lock:
            begin = self._begin(gpu.stream)
            gpu.checked(gpu.driver.cuMemcpyDtoDAsync_v2, target, source, nbytes, gpu.stream)
            self._end(begin, gpu.stream, "inside the device", nbytes)

    def copy_from(self, other: Gpu, target: int, source: int, nbytes: int) -> None:
        """Copies from the memory of another GPU: directly where they reach each other, else the driver goes through the
        machine's memory. It comes after what the other was given before, and before what it is given then."""
        gpu, driver = self.gpu, self.gpu.driver
        here, there = self._connected(other)
        other.use()
        other.checked(driver.cuEventRecord, there, other.stream)
        gpu.use()
        with gpu.lock:
            gpu.checked(driver.cuStreamWaitEvent, gpu.stream, there, 0)
            begin = self._begin(gpu.stream)
            ends = target, gpu.context, source, other.context
            gpu.checked(driver.cuMemcpyPeerAsync, *ends, nbytes, gpu.stream)
            self._end(begin, gpu.stream, f"from {other.label}", nbytes)
            gpu.checked(driver.cuEventRecord, here, gpu.stream)
        other.use()
        other.checked(driver.cuStreamWaitEvent, other.stream, here, 0)

    def _connected(self, other: Gpu) -> tuple[Any, Any]:
        """An event of this GPU and one of another, which are made once; then they may reach each other's memory."""
        if other not in self._events:
            made = []
            for gpu, peer in ((self.gpu, other), (other, self.gpu)):
                gpu.use()
                made.append(gpu.number("cuEventCreate", ctypes.c_void_p, NO_TIMING))
                if gpu.number("cuDeviceCanAccessPeer", ctypes.c_int, gpu.device, peer.device):
                    try:
                        gpu.driver.cuCtxEnablePeerAccess(peer.context, 0)
                    except DriverError as error:
                        if error.code != PEER_IS_ENABLED:
                            raise
            self._events[other] = made[0], made[1]
        return self._events[other]

    # ---- recordings and profiles

    def _begin(self, stream: Any) -> Any:
        return self.gpu.times.mark(stream) if hooks.timers() else None

    def _end(self, begin: Any, stream: Any, what: str, nbytes: int) -> None:
        if begin is None:
            return
        told = [timer.copied(self.gpu.label, what, nbytes) for timer in hooks.timers()]

        def tell(moments: list[int]) -> None:
            for each in told:
                each(moments)

        self.gpu.times.tell([begin, self.gpu.times.mark(stream)], tell)
