"""Where the time went: what ran on each device, summed up by kernel and by kind of copy.

    PROFILE=1 python program.py             a table on stderr when the program ends; PROFILE=2: of all kernels,
                                            PROFILE=3: also by name of what was launched
    with Context(PROFILE=1): ...            the same for a block of one thread, at its end
    with whit.profile() as profile: ...     as an object
    print(profile), profile.kernels[0].seconds

Times are those of the device: events on the stream of a GPU, which are read later and for which nothing waits; the
clock of the host around what a processor does. To be timed, kernels run one by one, as in recordings (docs/viz.md).
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from math import prod
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from whit.config import PROFILE
from whit.engine.report.launch_names import running_names, watch
from whit.errors import ArgumentError, ParseError
from whit.ir.op import spell_shape
from whit.ir.uop import UOp
from whit.recording import Told, hooks
from whit.records import dataclass, field

if TYPE_CHECKING:
    from whit.engine.report.kernel import KernelReport
    from whit.engine.report.launch_words import LaunchName

ALL = 2  # the level that leaves out nothing
BY_NAME = 3  # the level that also shows launches by name
MOST_SPANS = 1 << 16  # intervals that are kept before the earlier half of them is added up


@dataclass(slots=True)
class Times:
    """How often something ran, and how long."""

    calls: int = 0  # those that were started
    timed: int = 0  # those whose times are known: none on NULL
    seconds: float = 0.0  # all together
    best_seconds: float = 0.0

    def add(self, nanoseconds: int) -> None:
        """One more is known."""
        seconds = nanoseconds * 1e-9
        self.best_seconds = min(self.best_seconds, seconds) if self.timed else seconds
        self.seconds += seconds
        self.timed += 1

    @property
    def mean_seconds(self) -> float:
        return self.seconds / max(self.timed, 1)


@dataclass(slots=True)
class KernelTimes(Times):
    """The runs of one kernel on one device."""

    function: UOp = field(kw_only=True)
    device: str = field(kw_only=True)
    result: str = field(kw_only=True)  # dtype and shape of what it writes first
    largest: str = field(kw_only=True)  # those of its largest input, where they differ
    units: str = field(kw_only=True)  # of a GPU: what computes
    labels: dict[str, None] = field(default_factory=dict)  # which lines and layers its launches compute
    _report: KernelReport | None = None

    @property
    def name(self) -> str:
        """As in recordings and under DEBUG; kernels that are not the same may have one name."""
        return str(self.function.arg.name)

    @property
    def label(self) -> str:
        """The lines and layers of the program that it computes: "blocks.*.attn softmax  model.py:31"."""
        from whit.engine.report.launch_words import merged  # lazy: few programs are profiled

        return merged(self.labels)

    @property
    def report(self) -> KernelReport:
        """What is known of it: operations, bytes, tiling, roofline."""
        if self._report is None:
            from whit.engine.devices.device import Device  # lazy: few programs are profiled
            from whit.engine.report.kernel import KernelReport  # lazy: the same

            target = Device[self.device].target
            self._report = KernelReport(self.function, self.device, target, self.result, self.units)
        return self._report

    @property
    def ops(self) -> int:
        """Operations of all timed calls."""
        return self.report.ops * self.timed

    @property
    def nbytes(self) -> int:
        """Bytes that all timed calls have read and written."""
        return self.report.cost.bytes_moved * self.timed

    def roof(self) -> tuple[str, float] | None:
        """What limits it, "memory" or "compute", and the least time as a part of the measured one; None where the
        limits of the device are not known."""
        if not self.seconds or self.report.roof is None:
            return None
        rates, cost = self.report.roof[0], self.report.cost
        return cost.limit(rates), cost.seconds(rates) * self.timed / self.seconds


@dataclass(slots=True)
class LaunchTimes(Times):
    """The launches of one name on one device."""

    device: str = field(kw_only=True)
    name: str = field(kw_only=True)  # "blocks.3.attn softmax"; of the kernel, where nothing else is known
    kernel: str = field(kw_only=True)  # the first of those that ran
    layer: str = field(kw_only=True)
    phase: str = field(kw_only=True)  # "forward", "backward" or "step"
    fused: tuple[str, ...] = field(kw_only=True)  # all that it computes: "blocks.3.attn softmax", "blocks.3.attn mul"
    steps: dict[int, tuple[KernelTimes, int]] = field(default_factory=dict)  # its kernels, and how often each ran

    def floor_seconds(self) -> float | None:
        """What its calls would take at the limits of the device; None where those are not known."""
        found = 0.0
        for step, count in self.steps.values():
            if step.report.roof is None:
                return None
            found += count * step.report.cost.seconds(step.report.roof[0])
        return found


@dataclass(slots=True)
class CopyTimes(Times):
    """The copies of one kind that a device has made."""

    device: str = field(kw_only=True)
    what: str = field(kw_only=True)  # "host to device"
    nbytes: int = 0  # of all calls


class Spans:
    """When a device did something."""

    def __init__(self) -> None:
        self.first = 0
        self.last = 0
        self._busy = 0  # nanoseconds up to `_until`
        self._until = 0
        self._spans: list[tuple[int, int]] = []

    def add(self, start: int, end: int) -> None:
        """Something took from start to end; what overlaps counts once."""
        self.first = min(self.first, start) if self.last else start
        self.last = max(self.last, end)
        self._spans.append((start, end))
        if len(self._spans) > MOST_SPANS:
            self._spans.sort()
            self._fold(MOST_SPANS // 2)

    def _fold(self, count: int) -> None:
        for start, end in self._spans[:count]:
            self._busy += max(end - max(start, self._until), 0)
            self._until = max(end, self._until)
        del self._spans[:count]

    def busy(self) -> int:
        """Nanoseconds in which it did something."""
        self._spans.sort()
        self._fold(len(self._spans))
        return self._busy


class Profile:
    """What ran while it was in force."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.spans: dict[str, Spans] = {}  # by device
        self.preparing: dict[str, Times] = {}  # scheduling and compiling, by device
        self.begin = perf_counter_ns()
        self.end = 0
        self._kernels: dict[tuple[str, UOp], KernelTimes] = {}
        self._steps: dict[tuple[str, UOp], list[KernelTimes]] = {}  # of each plan
        self._copies: dict[tuple[str, str], CopyTimes] = {}
        self._launches: dict[tuple[str, str], LaunchTimes] = {}
        self._lock = threading.RLock()

    @property
    def kernels(self) -> list[KernelTimes]:
        """Kernels by device, those that took longest first."""
        return sorted(self._kernels.values(), key=lambda row: (row.device, -row.seconds))

    @property
    def launches(self) -> list[LaunchTimes]:
        """Launches by what they compute, those that took longest first."""
        return sorted(self._launches.values(), key=lambda row: -row.seconds)

    @property
    def copies(self) -> list[CopyTimes]:
        """Kinds of copies, in the same order."""
        return sorted(self._copies.values(), key=lambda row: (row.device, -row.seconds))

    @property
    def seconds(self) -> float:
        """How long it was in force."""
        return ((self.end or perf_counter_ns()) - self.begin) * 1e-9

    def __str__(self) -> str:
        return self.text()

    def text(self, most: int | None = None, by: str = "kernel") -> str:
        """The table, with at most `most` kernels of each device; `by="name"`: of launches by what they compute."""
        from whit.engine.report import profile_table  # lazy: few programs are profiled

        tables = {"kernel": profile_table.table, "name": profile_table.name_table}
        if by not in tables:
            raise ArgumentError(f"profile: a table by {by!r}", fix='Tables are by "kernel" or by "name".')
        return tables[by](self, profile_table.MOST_KERNELS_SHOWN if most is None else most)

    # ---- what `whit.recording` tells

    def started(self, device: str, plan: Any, kernels: Sequence[Any], queue: str) -> Told:
        """A plan was started; its times are told later."""
        with self._lock:
            steps = self._steps.get((device, plan.linear))
            if steps is None:
                calls = zip_longest(plan.linear.src, kernels)
                steps = self._steps[device, plan.linear] = [self._step(device, *each) for each in calls]
            launches = []
            for step, name in zip(steps, running_names(len(steps)), strict=True):
                step.calls += 1
                if name:
                    step.labels[str(name)] = None
                launches.append(self._launch(device, step, name))
        return lambda moments: self._add(device, list(zip(steps, launches, strict=True)), moments)

    def _launch(self, device: str, step: KernelTimes, name: LaunchName) -> LaunchTimes:
        """The row of what a launch computes, which has been called once more."""
        called = name.name or step.name
        row = self._launches.get((device, called))
        if row is None:
            row = self._launches[device, called] = LaunchTimes(
                device=device,
                name=called,
                kernel=step.name if name else "",
                layer=name.layer,
                phase=name.phase,
                fused=name.fused,
            )
        row.calls += 1
        row.steps[id(step)] = step, row.steps.get(id(step), (step, 0))[1] + 1
        return row

    def _step(self, device: str, call: UOp, kernel: Any) -> KernelTimes:
        function, *arguments = call.src
        key = device, function.src[0]
        if key not in self._kernels:
            result, *inputs = [f"{node.dtype.name}{spell_shape(node.shape)}" for node in arguments] or [""]
            sizes = [_size(node) for node in arguments[1:]]
            largest = inputs[sizes.index(max(sizes))] if inputs else ""
            shown = "" if largest == result else largest
            self._kernels[key] = KernelTimes(
                function=function, device=device, result=result, largest=shown, units=getattr(kernel, "units", "")
            )
        return self._kernels[key]

    def copied(self, device: str, what: str, nbytes: int) -> Told:
        """A copy was started; when it began and ended is told later."""
        with self._lock:
            row = self._copies.setdefault((device, what), CopyTimes(device=device, what=what))
            row.calls += 1
            row.nbytes += nbytes
        return lambda moments: self._add(device, [(row,)], moments)

    def prepared(self, device: str, start: int, end: int) -> None:
        """A graph was scheduled and compiled."""
        with self._lock:
            times = self.preparing.setdefault(device, Times())
            times.calls += 1
            times.add(end - start)

    def _add(self, device: str, rows: Sequence[tuple[Times, ...]], moments: list[int]) -> None:
        with self._lock:
            spans = self.spans.setdefault(device, Spans())
            for together, start, end in zip(rows, moments[::2], moments[1::2], strict=True):
                for row in together:
                    row.add(end - start)
                spans.add(start, end)

    def finish(self) -> None:
        """Waits for what was started, and ends it. A child of `fork` has no part in it."""
        if self.process == os.getpid():
            hooks.settle()
            self.end = perf_counter_ns()


def _size(node: UOp) -> int:
    """Bytes; symbolic sizes count as one."""
    return node.dtype.itemsize * prod(size for size in node.shape if isinstance(size, int))


@contextmanager
def profile() -> Iterator[Profile]:
    """Times what this thread runs inside, by kernel: `with whit.profile() as p: ...` and then `print(p)`."""
    found = Profile()
    end, end_watch = hooks.set_profiles_here((found, *hooks.profiles_here())), watch()
    try:
        yield found
    finally:
        end()
        end_watch()
        found.finish()


# ---- the setting


def _begin(level: int) -> Callable[[], None]:
    """The start of `with Context(PROFILE=level)`; what is to be done at its end."""
    if not level:
        return hooks.set_profiles_here(())
    block = profile()
    found = block.__enter__()

    def end() -> None:
        block.__exit__(None, None, None)
        _show(found, level)

    return end


PROFILE.begin = _begin


def start_from_environment() -> None:
    """Profiles this process from now on, if PROFILE says so."""
    try:
        level = PROFILE.value
    except ParseError as error:  # which must not fail `import whit`
        print(error, file=sys.stderr)
        return
    if level:
        found = Profile()
        hooks.profiles = (found,)
        atexit.register(_end, found, level, watch())


def _end(found: Profile, level: int, end_watch: Callable[[], None]) -> None:
    hooks.profiles = ()
    end_watch()
    found.finish()
    _show(found, level)


def _show(found: Profile, level: int) -> None:
    if found.process == os.getpid():
        most = sys.maxsize if level >= ALL else None
        print(found.text(most), file=sys.stderr, flush=True)
        if level >= BY_NAME:
            print(f"\n{found.text(most, by='name')}", file=sys.stderr, flush=True)


def _after_fork() -> None:
    hooks.profiles = ()
    hooks.set_profiles_here(())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
