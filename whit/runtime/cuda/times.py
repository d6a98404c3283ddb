"""When things ran on a GPU, on the clock of the host: events between them, which are read later.

    begin = times.mark(stream)
    gpu.launch(...)
    times.tell([begin, times.mark(stream)], told)       # told([start, end]) in nanoseconds of `perf_counter_ns`

Nothing waits: what has finished is read when something is marked next, the rest by `settle`. An anchor is an event
whose moment is known on the host, where nothing was to be done before it. Times between events are floats of 32 bits in
milliseconds, so every event that was read is the anchor of the next. The anchor is set anew when the GPU is idle, as
clocks drift apart.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from whit.errors import WhitError
from whit.recording import Told, hooks

if TYPE_CHECKING:
    from whit.runtime.cuda.gpu import Gpu

STALE_NS = 1_000_000_000  # the age of an anchor that is set anew as soon as the GPU is idle
MOST_WAITING_LISTS = 4096  # lists of events that nobody has read yet


class Times:
    """The events of one GPU."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self._free: list[Any] = []  # events that can be used again
        self._waiting: deque[tuple[Sequence[Any], Told]] = deque()
        self._anchor: tuple[Any, int] | None = None  # an event, and its moment
        self._set_at = 0  # when it was last compared with the host's clock
        hooks.clocks.add(self)

    def mark(self, stream: Any) -> Any:
        """An event in a stream."""
        event = self.new()
        self.gpu.check("cuEventRecord", self.gpu.driver.function("cuEventRecord")(event, stream))
        return event

    def new(self) -> Any:
        """An event that is still to be put into a stream."""
        if self._anchor is None or (not self._waiting and perf_counter_ns() - self._set_at > STALE_NS):
            self._set_anchor()
        return self._event()

    def _event(self) -> Any:
        return self._free.pop() if self._free else self.gpu.number("cuEventCreate", ctypes.c_void_p, 0)

    def _set_anchor(self) -> None:
        """Waits for what the GPU does, for 10 us if that is nothing."""
        self.gpu.synchronize()
        if self._anchor is not None:
            self._free.append(self._anchor[0])
        event = self._event()
        before = perf_counter_ns()
        self.gpu.checked(self.gpu.driver.cuEventRecord, event, self.gpu.stream)
        self.gpu.checked(self.gpu.driver.cuEventSynchronize, event)
        self._set_at = perf_counter_ns()
        self._anchor = event, (before + self._set_at) // 2

    def tell(self, events: Sequence[Any], told: Told) -> None:
        """Says when marked events of one stream were, as soon as that is known; they are used up by this."""
        with self.gpu.lock:
            if not events:
                told([])
                return
            self._waiting.append((events, told))
            while self._waiting and (len(self._waiting) > MOST_WAITING_LISTS or self._is_done(self._waiting[0][0][-1])):
                self._read(*self._waiting.popleft())

    def _is_done(self, event: Any) -> bool:
        return not self.gpu.driver.function("cuEventQuery")(event)

    def _read(self, events: Sequence[Any], told: Told) -> None:
        assert self._anchor is not None, "an anchor is set before the first event is recorded"
        known, moment = self._anchor
        moments = []
        milliseconds = ctypes.c_float()
        elapsed = self.gpu.driver.function("cuEventElapsedTime")
        self.gpu.checked(self.gpu.driver.cuEventSynchronize, events[-1])
        for event in events:
            self.gpu.check("cuEventElapsedTime", elapsed(ctypes.byref(milliseconds), known, event))
            moment += round(milliseconds.value * 1e6)
            moments.append(moment)
            self._free.append(known)
            known = event
        self._anchor = known, moment
        told(moments)

    def settle(self) -> None:
        """Waits for all events, and says when they were; nothing of a device that has failed."""
        with self.gpu.lock:
            try:
                self.gpu.use()
                while self._waiting:
                    self._read(*self._waiting.popleft())
            except WhitError:
                self._waiting.clear()
