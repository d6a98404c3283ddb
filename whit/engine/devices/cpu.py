"""The device CPU: kernels in machine code, run in order by native code, each on all cores where it has work for them.

A loaded plan is one list of launches for the pool of threads (`runtime.pool`), and one table of pointers that they
point into. A run fills the table and makes one native call, whatever the number of kernels. List and table are a
`Frame`; each run has one to itself, so that several Python threads can run one plan at once.
"""

from __future__ import annotations

import weakref
from array import array
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import starmap
from operator import call
from time import perf_counter, perf_counter_ns
from typing import Any

from whit.config import DEBUG
from whit.engine.compile.compile import get_kernels, prepare_pool
from whit.engine.devices.cpu_loops import Filled, Layout, kernel_count, shares, with_loops
from whit.engine.devices.device import NOTHING, Calls, Rendering, target_text
from whit.engine.devices.disk import allocate
from whit.engine.memory.storage import size_value
from whit.engine.plan.plan import Plan, kernels_in
from whit.engine.report.counters import Counts, GlobalCounters
from whit.engine.report.launch_names import running_names
from whit.engine.report.show import show_kernel, show_load
from whit.engine.report.timings import note_time
from whit.errors import DeviceError
from whit.recording import hooks
from whit.records import dataclass, field
from whit.runtime.buffer import Buffer
from whit.runtime.pool.repeat import KINDS
from whit.runtime.pool.threads import native_call, run_native, thread_count
from whit.target import host_target, missing_features, parse_target

WORD_BYTES = 8  # bytes
WORDS_A_LAUNCH = 6  # words of a launch: kernel, buffers, variables, total, chunk, threads
CALLED_FROM_PYTHON = 2  # kernels: up to two that have no work for more cores are called without the pool, 0.5 us each


@dataclass(slots=True)
class Frame:
    """What one run at a time uses; the arrays never move."""

    pointers: array[int]
    numbers: array[int]  # values of variables
    launches: array[int]


@dataclass(slots=True)
class LoadedPlan:
    """A plan with its kernels."""

    plan: Plan
    kernels: tuple[Any, ...]  # a CompiledKernel for each step, or a CompiledLoop
    places: tuple[int, ...]  # what the first pointers are: places in the plan's table of buffers
    variables: tuple[str, ...]  # what the numbers are
    counts: Counts  # of one run
    threads: int  # the most that a kernel uses
    layout: Layout  # of its loops
    filled: tuple[Filled, ...]  # words of loops that are addresses
    records: tuple[int, ...]  # the words where loops begin
    frames: list[Frame] = field(default_factory=list)  # those not in use; `pop` and `append` are atomic

    def new_frame(self) -> Frame:
        """A list of launches and its tables."""
        layout = self.layout
        start = len(self.places)
        pointers = array("Q", [*[0] * start, *layout.words])
        numbers = array("q", bytes(len(self.variables) * WORD_BYTES))
        pointer, number = pointers.buffer_info()[0], numbers.buffer_info()[0]
        words = pointer + start * WORD_BYTES
        for word, other in layout.own:
            pointers[start + word] = words + other * WORD_BYTES
        for word, first in layout.numbers:
            pointers[start + word] = number + first * WORD_BYTES
        launches = array("Q")
        records = iter(self.records)
        number += len(layout.variables) * WORD_BYTES
        for step, kernel in zip(self.plan.steps, self.kernels, strict=True):
            if step.inner:
                kind = KINDS[step.function.src[0].arg.kind] % (1 << 64)
                launches.extend((0, words + next(records) * WORD_BYTES, 0, 0, 1, kind))
                continue
            threads = min(self.threads, kernel.total)
            launches.extend((kernel.address, pointer, number, *shares(kernel.total, threads)))
            pointer += len(step.places) * WORD_BYTES
            number += len(kernel.variables) * WORD_BYTES
        return Frame(pointers, numbers, launches)

    def set_variables(self, frame: Frame, variables: Mapping[str, int]) -> None:
        """Tells kernels and loops what variables are."""
        frame.numbers[:] = array("q", [variables[name] for name in self.variables])
        for word, size in self.layout.lengths:
            frame.pointers[len(self.places) + word] = size_value(size, variables)


class CpuDevice(Rendering):
    """The processor of this machine, or one that it can stand in for."""

    is_linked = True  # whether code is made to run here

    def __init__(self, name: str) -> None:
        self.name = name
        self.target = parse_target(target_text(name))

    def load(self, plan: Plan) -> LoadedPlan:
        """Compiles what is not compiled yet."""
        start = perf_counter()
        compiled = get_kernels(kernels_in(plan), self.target, self.is_linked)
        kernels = with_loops(plan, list(compiled))
        counts = Counts()
        for kernel in kernels:
            counts.add(_counts(kernel))
        threads = min(thread_count(), max((kernel.total for kernel in compiled), default=1))
        layout = Layout(threads)
        records, filled = [], []
        for step, kernel in zip(plan.steps, kernels, strict=True):
            if step.inner:
                record, more = layout.record(step, kernel)
                records.append(record)
                filled += more
        if self.is_linked and (threads > 1 or records or len(kernels) > CALLED_FROM_PYTHON):
            prepare_pool()
        places = tuple(place for step in plan.steps if not step.inner for place in step.places)
        variables = (*layout.variables, *(name for kernel in kernels for name in kernel.variables))
        if DEBUG >= 1:
            show_load(self.name, self.target, len(kernels), plan.arena_bytes, perf_counter() - start)
        return LoadedPlan(plan, kernels, places, variables, counts, threads, layout, tuple(filled), tuple(records))

    def run(
        self, loaded: LoadedPlan, buffers: Sequence[Buffer], variables: Mapping[str, int], then: Calls = NOTHING
    ) -> None:
        """Runs the kernels in order, and then the calls of C in `then`, without Python in between."""
        addresses = [buffer.address for buffer in buffers]
        plan = loaded.plan
        if plan.temporaries:
            arena = Buffer(self.name, plan.arena_bytes)  # lives until this function returns
            start = arena.address
            addresses += [start + temporary.offset for temporary in plan.temporaries]
        for place, start in plan.parts:
            addresses.append(addresses[place] + start)
        try:
            frame = loaded.frames.pop()
        except IndexError:
            frame = loaded.new_frame()
        frame.pointers[: len(loaded.places)] = array("Q", [addresses[place] for place in loaded.places])
        for word, place, offset in loaded.filled:
            frame.pointers[len(loaded.places) + word] = addresses[place] + offset
        if loaded.variables or loaded.layout.lengths:
            loaded.set_variables(frame, variables)
        if DEBUG >= 2 or hooks.timers():
            self._run_timed(loaded, frame)
            deque(starmap(call, then), maxlen=0)
        else:
            _launch(loaded, frame, then)
            GlobalCounters.add(self.name, loaded.counts)
        loaded.frames.append(frame)

    def _run_timed(self, loaded: LoadedPlan, frame: Frame) -> None:
        """One by one, with a line for each, for a recording or a profile."""
        launches = frame.launches.buffer_info()[0]
        prepare_pool()
        run_native(launches, 0, loaded.threads)  # starts threads, which is not to be counted
        is_shown = DEBUG >= 2
        names = running_names(len(loaded.plan.steps)) if is_shown else ()
        times: list[int] = []
        for i, step in enumerate(loaded.plan.linear.src):
            start = perf_counter_ns()
            run_native(launches + i * WORDS_A_LAUNCH * WORD_BYTES, 1, loaded.threads)
            end = perf_counter_ns()
            times += (start, end)
            note_time(step.src[0], self.name, (end - start) * 1e-9)
            if is_shown:
                counts = _counts(loaded.kernels[i])
                counts.time_sum_s = seconds = (end - start) * 1e-9
                GlobalCounters.add(self.name, counts)
                show_kernel(self.name, step.src[0].arg.name, step.src[1:2], counts, seconds, names[i])
        if not is_shown:
            GlobalCounters.add(self.name, loaded.counts)
        for timer in hooks.timers():
            timer.started(self.name, loaded.plan, loaded.kernels, "")(times)

    def synchronize(self) -> None:
        """Kernels have finished when `run` returns."""


_arenas: weakref.WeakValueDictionary[str, Buffer] = weakref.WeakValueDictionary()


def shared_arena(device: str, nbytes: int) -> Buffer:
    """Memory for the temporaries of plans that never run at the same time."""
    arena = _arenas.get(device)
    if arena is None or arena.nbytes < nbytes:
        arena = _arenas[device] = allocate(device, nbytes)
    return arena


class Resident:
    """A loaded plan that stays ready: it has a frame and an arena, and writes only pointers that change. Residents
    share their arena, so their users take turns (`replayer.running`). `launches` makes native calls of residents.

    So a run costs the same however many kernels there are; `CpuDevice.run` takes 30 ns for each argument of each.
    """

    __slots__ = ("_addresses", "_arena", "_places", "frame", "loaded")

    def __init__(self, device: CpuDevice, loaded: LoadedPlan) -> None:
        plan = loaded.plan
        slots = len(plan.params)
        self.loaded = loaded
        self.frame = loaded.new_frame()
        self._arena = shared_arena(device.name, plan.arena_bytes)
        self._addresses = [0] * slots
        self._places: list[list[tuple[int, int]]] = [[] for _ in range(slots)]  # slot -> pointers, bytes after it
        start = self._arena.address
        count = len(loaded.places)
        filled = [(count + word, place, offset) for word, place, offset in loaded.filled]
        for position, place, offset in [*((i, place, 0) for i, place in enumerate(loaded.places)), *filled]:
            if place >= slots + len(plan.temporaries):
                place, more = plan.parts[place - slots - len(plan.temporaries)]
                offset += more
            if place < slots:
                self._places[place].append((position, offset))
            else:
                self.frame.pointers[position] = start + plan.temporaries[place - slots].offset + offset

    def prepare(
        self, buffers: Sequence[Buffer], variables: Mapping[str, int], changed: Iterable[int] | None = None
    ) -> bool:
        """Says where the slots are this time: all of them, or those that may have changed. Always possible: True."""
        addresses = self._addresses
        for slot in range(len(addresses)) if changed is None else changed:
            address = buffers[slot].address
            if address != addresses[slot]:
                addresses[slot] = -1  # an interrupt may come before the end
                pointers = self.frame.pointers
                for position, offset in self._places[slot]:
                    pointers[position] = address + offset
                addresses[slot] = address
        loaded = self.loaded
        if loaded.variables or loaded.layout.lengths:
            loaded.set_variables(self.frame, variables)
        return True


def _launch(loaded: LoadedPlan, frame: Frame, then: Calls) -> None:
    calls: list[tuple[Any, ...]]
    if loaded.threads > 1 or loaded.records or len(loaded.kernels) > CALLED_FROM_PYTHON:
        calls = [native_call(frame.launches.buffer_info()[0], len(loaded.kernels), loaded.threads)]
    else:
        words = frame.launches
        starts = range(0, len(loaded.kernels) * WORDS_A_LAUNCH, WORDS_A_LAUNCH)
        pairs = zip(starts, loaded.kernels, strict=True)
        calls = [(kernel.function, words[at + 1], words[at + 2], 0, kernel.total) for at, kernel in pairs]
    deque(starmap(call, [*calls, *then]), maxlen=0)


def _counts(kernel: Any) -> Counts:
    """A loop counts the kernels that it has, and the work of all its steps."""
    return Counts(
        kernel_count=kernel_count(kernel),
        global_ops=kernel.ops,
        bytes_read=kernel.bytes_read,
        bytes_written=kernel.bytes_written,
    )


def open_device(name: str) -> CpuDevice:
    """The device of that name; an error if this machine cannot run its code."""
    device = CpuDevice(name)
    missing = missing_features(device.target)
    if missing:
        raise DeviceError(
            f"device: {name} cannot be opened: this machine cannot run code for {device.target.arch}",
            f"it is {host_target().arch} and has no {', '.join(missing)}",
            f'Use "NULL:{name.partition(":")[2]}" to compile only, or "CPU" to run.',
        )
    return device
