"""The queues of GPUs as streams: their copies, and events where one waits for another. All are calls of the driver.

A copy to a GPU returns when its source has been read; one from a GPU returns when it is done. What a program is given
is read before it begins, by several threads, into pinned memory of its own, from where the GPU takes it while kernels
run. The stream of copies begins after all that was started before the program: its kernels may still read what the last
run has copied.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from whit.engine.programs.parts import Calls
from whit.engine.programs.queues import Way, copy_queue
from whit.runtime.buffer import Buffer
from whit.runtime.cuda.buffer import MOST_PINNED_BYTES, PinnedBuffer, ordinal_of
from whit.runtime.cuda.gpu import Gpu, open_gpu
from whit.runtime.cuda.transfers import NO_TIMING
from whit.runtime.pool.threads import copy_memory

UPLOAD, DOWNLOAD, INSIDE = "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuMemcpyDtoDAsync_v2"


@dataclass(slots=True)
class GpuCopy:
    """A copy between a GPU and the machine's memory, or inside of a GPU."""

    gpu: Gpu
    function: str  # of the driver
    target: int  # places in the table
    source: int
    nbytes: int
    stream: Any
    pinned: PinnedBuffer | None = None  # for what is read before the program begins
    taken: Any = None  # the event after which it is free

    def calls(self, table: Sequence[Buffer]) -> Calls:
        """The calls of a run."""
        target, source = table[self.target].address, table[self.source].address
        if self.pinned is not None:
            return self._early(target, source)
        found: Calls = [(self.gpu.driver.function(self.function), target, source, self.nbytes, self.stream)]
        if self.function == DOWNLOAD or (self.function == UPLOAD and self.gpu.transfers.is_pinned(source)):
            found.append((self.gpu.driver.function("cuStreamSynchronize"), self.stream))
        return found

    def _early(self, target: int, source: int) -> Calls:
        assert self.pinned is not None, "copies are early only through pinned memory"
        driver = self.gpu.driver
        self.gpu.checked(driver.cuEventSynchronize, self.taken)
        copy_memory(self.pinned.address, source, self.nbytes)
        return [
            (driver.function(UPLOAD), target, self.pinned.address, self.nbytes, self.stream),
            (driver.function("cuEventRecord"), self.taken, self.stream),
        ]


class GpuQueues:
    """The streams and events of one program."""

    def __init__(self, queues: Iterable[str]) -> None:
        self._streams: dict[str, Any] = {}
        self._events: dict[int, Any] = {}  # by the number of a batch
        self._kept: list[_Event] = []
        self.begin: Calls = []  # what comes first in a run
        for queue in sorted(queues):
            device, _, copies = queue.partition(" ")
            self._gpu = gpu = open_gpu(ordinal_of(device))
            gpu.use()
            self._streams[queue] = gpu.transfers.stream if copies else gpu.stream
            if copies:
                event = self._event(gpu)
                self.begin += [(gpu.driver.function("cuEventRecord"), event, gpu.stream)]
                self.begin += [(gpu.driver.function("cuStreamWaitEvent"), gpu.transfers.stream, event, 0)]

    def _event(self, gpu: Gpu) -> Any:
        self._kept.append(_Event(gpu))
        return self._kept[-1].handle

    def record(self, batch: int, queue: str) -> tuple[Any, ...]:
        """The call that says a batch is done."""
        event = self._events[batch] = self._event(self._gpu)
        return self._gpu.driver.function("cuEventRecord"), event, self._streams[queue]

    def wait(self, queue: str, batch: int) -> tuple[Any, ...]:
        """The call that makes a queue wait for a batch, which was submitted before."""
        return self._gpu.driver.function("cuStreamWaitEvent"), self._streams[queue], self._events[batch], 0

    def copy(self, queue: str, places: Sequence[int], way: Way, is_given: bool) -> GpuCopy:
        """A copy to, from or inside of a GPU, perhaps of what the program was given."""
        target, source = places
        is_upload = queue == copy_queue(way.target)
        function = INSIDE if way.source == way.target else UPLOAD if is_upload else DOWNLOAD
        copy = GpuCopy(self._gpu, function, target, source, way.nbytes, self._streams[queue])
        if is_upload and is_given and way.nbytes <= MOST_PINNED_BYTES:
            copy.pinned, copy.taken = PinnedBuffer(self._gpu, way.nbytes), self._event(self._gpu)
        return copy

    def check(self, function: Any, code: Any) -> None:
        """An error if a call has returned one."""
        if code:
            self._gpu.check(function.__name__, code)


class _Event:
    """A point in a stream, which goes with the program."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.handle = gpu.number("cuEventCreate", ctypes.c_void_p, NO_TIMING)

    def __del__(self) -> None:
        if not self.gpu.is_gone:
            self.gpu.driver.cuEventDestroy_v2(self.handle)
