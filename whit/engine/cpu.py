"""The device CPU: kernels in machine code, called one after another, each on all cores where it has work for them.

A loaded plan is a list of launches: the code, where its pointers start in one table that is filled in each run, the
values of its variables likewise. So a run builds two arrays, whatever the number of kernels, and several Python threads
can run the same plan at once.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

from whit.config import DEBUG
from whit.engine.compile import Kernel, get_kernel
from whit.engine.counters import Counts, GlobalCounters
from whit.engine.plan import Plan, Step
from whit.engine.show import show_kernel
from whit.runtime.buffer import Buffer
from whit.target import parse_target

POINTER = 8  # bytes


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel call of a plan."""

    kernel: Kernel
    pointers: int  # byte offset of its pointers in the table
    variables: int  # byte offset of its variables in theirs
    step: Step


@dataclass(frozen=True, slots=True)
class LoadedPlan:
    """A plan with its kernels."""

    plan: Plan
    launches: tuple[Launch, ...]
    places: tuple[int, ...]  # what the table of pointers is filled with: places in the plan's table of buffers
    variables: tuple[str, ...]  # the same for variables: their names
    counts: Counts  # of one run


class CpuDevice:
    """The processor of this machine."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.target = parse_target("CPU")

    def load(self, plan: Plan) -> LoadedPlan:
        """Compiles what is not compiled yet."""
        launches: list[Launch] = []
        places: list[int] = []
        variables: list[str] = []
        counts = Counts()
        for step in plan.steps:
            kernel = get_kernel(step.function, self.target)
            launches.append(Launch(kernel, len(places) * POINTER, len(variables) * POINTER, step))
            places += step.places
            variables += kernel.variables
            counts.add(_counts(kernel))
        return LoadedPlan(plan, tuple(launches), tuple(places), tuple(variables), counts)

    def run(self, loaded: LoadedPlan, buffers: Sequence[Buffer], variables: Mapping[str, int]) -> None:
        """Calls the kernels in order."""
        addresses = [buffer.address for buffer in buffers]
        plan = loaded.plan
        if plan.temporaries:
            arena = Buffer(self.name, plan.arena_bytes)
            start = arena.address
            addresses += [start + temporary.offset for temporary in plan.temporaries]
        table = array("Q", [addresses[place] for place in loaded.places])
        numbers = array("q", [variables[name] for name in loaded.variables])
        pointers, _ = table.buffer_info()
        values, _ = numbers.buffer_info()
        if DEBUG >= 2:
            self._run_timed(loaded, pointers, values)
            return
        for launch in loaded.launches:
            kernel = launch.kernel
            kernel.function(pointers + launch.pointers, values + launch.variables, 0, kernel.total)
        GlobalCounters.add(self.name, loaded.counts)

    def _run_timed(self, loaded: LoadedPlan, pointers: int, values: int) -> None:
        for launch, call in zip(loaded.launches, loaded.plan.linear.src, strict=True):
            kernel = launch.kernel
            start = perf_counter()
            kernel.function(pointers + launch.pointers, values + launch.variables, 0, kernel.total)
            seconds = perf_counter() - start
            counts = _counts(kernel)
            counts.time_sum_s = seconds
            GlobalCounters.add(self.name, counts)
            show_kernel(self.name, launch.step.function.arg.name, call.src[1:2], counts, seconds)

    def synchronize(self) -> None:
        """Kernels have finished when `run` returns."""


def _counts(kernel: Kernel) -> Counts:
    return Counts(
        kernel_count=1, global_ops=kernel.ops, bytes_read=kernel.bytes_read, bytes_written=kernel.bytes_written
    )


def open_device(name: str) -> CpuDevice:
    """The device of that name."""
    return CpuDevice(name)
