"""Where a recorder of what happens hooks in: None while nothing is recorded, and that is all the hooks look at.

    if hooks.recorder is not None:
        hooks.recorder.allocated(buffer)

One recorder serves the whole process: memory is freed, and kernels run, on any thread. `whit.viz` has the only one.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Protocol


class KernelLog(Protocol):
    """Follows the compilation of one kernel."""

    def passed(self, step: Any, graph: Any) -> None:
        """A pass has made this graph."""

    def rendered(self, program: Any, source: str) -> None:
        """The source was written."""

    def compiled(self, code: bytes, assembly: Callable[[], str]) -> None:
        """Machine code was made, which `assembly` spells: the end."""


class Recorder(Protocol):
    """What the hooks call. Nodes, plans and buffers are `Any`: this module lies below them."""

    wants_rewrites: bool

    def begin_schedule(self) -> None:
        """A graph is about to be scheduled."""

    def scheduled(self, graph: Any, plan: Any, device: str) -> None:
        """A normalised graph has its plan."""

    def kernel(self, function: Any, target: Any) -> KernelLog:
        """A kernel is about to be compiled."""

    def ran(self, device: str, plan: Any, kernels: Any, times: list[int]) -> None:
        """A plan ran: `perf_counter_ns` before and after each kernel in turn."""

    def started(self, device: str, plan: Any, kernels: Any, queue: str) -> Callable[[list[int]], None]:
        """A plan was started on a queue of a device. Its times are told to what this returns, later."""

    def copied(self, device: str, what: str, nbytes: int) -> Callable[[list[int]], None]:
        """The same for a copy ("host to device"), which has a beginning and an end."""

    def allocated(self, buffer: Any) -> None:
        """A buffer has memory."""

    def freed(self, buffer: Any) -> None:
        """It has none any more. Called by the garbage collector, at any moment."""

    def typed(self, buffer: Any, dtype: Any, shape: Any) -> None:
        """What is in a buffer."""

    def rewrote(self, rule: Any, before: Any, after: Any) -> None:
        """A rule replaced a node."""

    def tried(self, rule: Any, hit: bool, nanoseconds: int) -> None:
        """A rule was tried."""

    def event(self, kind: str, **fields: Any) -> None:
        """Anything else, as a JIT that captures or replays: fields are JSON."""


class Clock(Protocol):
    """What knows the times of a device that works by itself."""

    def settle(self) -> None:
        """Waits for what was started, and tells its times."""


class Hooks:
    """Holds the recorder, if there is one, and the clocks that are to be settled when it ends."""

    __slots__ = ("clocks", "recorder")

    def __init__(self) -> None:
        self.recorder: Recorder | None = None
        self.clocks: weakref.WeakSet[Clock] = weakref.WeakSet()


hooks = Hooks()
