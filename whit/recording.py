"""Where a recorder of what happens hooks in: None while nothing is recorded, and that is all the hooks look at.

    if hooks.recorder is not None:
        hooks.recorder.allocated(buffer)

One recorder serves the whole process: memory is freed, and kernels run, on any thread. `whit.viz` has the only one.
When kernels and copies ran is also for profiles (`whit.engine.report.profile`), of the process or of a block in one
thread:

    for timer in hooks.timers():
        timer.started("CPU", plan, kernels, "")([start, end])
"""

from __future__ import annotations

import contextvars
import weakref
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any, Protocol

Told = Callable[[list[int]], None]


class KernelLog(Protocol):
    """Follows the compilation of one kernel."""

    def passed(self, step: Any, graph: Any) -> None:
        """A pass has made this graph."""

    def rendered(self, program: Any, source: str) -> None:
        """The source was written."""

    def compiled(self, code: bytes, assembly: Callable[[], str]) -> None:
        """Machine code was made, which `assembly` spells: the end."""


class Timer(Protocol):
    """Is told when kernels and copies ran, on the clock of `perf_counter_ns`."""

    def started(self, device: str, plan: Any, kernels: Any, queue: str) -> Told:
        """A plan was started on a queue of a device. What this returns is told the times before and after each kernel
        in turn, later; nothing of a device that runs nothing."""

    def copied(self, device: str, what: str, nbytes: int) -> Told:
        """The same for a copy ("host to device"), which has a beginning and an end."""

    def prepared(self, device: str, start: int, end: int) -> None:
        """A graph was scheduled and compiled."""


class Recorder(Timer, Protocol):
    """What the hooks call. Nodes, plans and buffers are `Any`: this module lies below them."""

    wants_rewrites: bool

    def begin_schedule(self) -> None:
        """A graph is about to be scheduled."""

    def scheduled(self, graph: Any, plan: Any, device: str) -> None:
        """A normalised graph has its plan."""

    def kernel(self, function: Any, target: Any) -> KernelLog:
        """A kernel is about to be compiled."""

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
    """Holds the recorder, if there is one, profiles, and the clocks that are to be settled when one of these ends."""

    __slots__ = ("_inside", "clocks", "profiles", "recorder")

    def __init__(self) -> None:
        self.recorder: Recorder | None = None
        self.profiles: tuple[Timer, ...] = ()  # of the whole process
        self._inside: contextvars.ContextVar[tuple[Timer, ...] | None]
        self._inside = contextvars.ContextVar("whit.profiles", default=None)
        self.clocks: weakref.WeakSet[Clock] = weakref.WeakSet()

    def profiles_here(self) -> tuple[Timer, ...]:
        """Those of the blocks that this thread or task is in, and of the process."""
        inside = self._inside.get()
        return self.profiles if inside is None else inside

    def set_profiles_here(self, profiles: tuple[Timer, ...]) -> Callable[[], None]:
        """These instead, up to the call of what this returns."""
        token = self._inside.set(profiles)
        return lambda: self._inside.reset(token)

    def timers(self) -> tuple[Timer, ...]:
        """Who wants to know when something ran that is started here: mostly nobody."""
        profiles = self.profiles_here()
        return profiles if self.recorder is None else (self.recorder, *profiles)

    def copied(self, device: str, what: str, nbytes: int, start: int) -> None:
        """This thread has copied something, from `start` on: for profiles. Recordings have only copies of devices that
        work by themselves."""
        for profile in self.profiles_here():
            profile.copied(device, what, nbytes)([start, perf_counter_ns()])

    def settle(self) -> None:
        """Waits for devices that work by themselves, and tells their times."""
        for clock in list(self.clocks):
            clock.settle()


hooks = Hooks()
