"""The device CUDA: kernels in PTX, started one after another on the stream of a GPU. `run` does not wait for them.

A loaded plan has for each launch an array of arguments and one of pointers to them, filled anew in each run.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import starmap
from operator import call
from time import perf_counter
from typing import Any

from whit.config import DEBUG
from whit.engine.compile.cuda import CudaKernel, Launch, get_cuda_kernels, without_vectors
from whit.engine.devices.device import NOTHING, Calls, Rendering
from whit.engine.plan.plan import Plan, kernels_in
from whit.engine.report.counters import Counts, GlobalCounters
from whit.engine.report.launch_names import running_names
from whit.engine.report.launch_words import LaunchName
from whit.engine.report.show import show_kernel, show_load
from whit.engine.report.timings import note_time
from whit.errors import DeviceError
from whit.recording import hooks
from whit.runtime.buffer import Buffer
from whit.runtime.cuda.buffer import CudaBuffer, ordinal_of
from whit.runtime.cuda.driver import load_driver
from whit.runtime.cuda.gpu import open_gpu
from whit.runtime.cuda.tensor_map import TensorMap
from whit.target import Target, parse_target

# Compute capability -> the newest architecture whose code runs on a GPU that has it, or more.
ARCHS = {
    (12, 0): "sm_120",
    (10, 0): "sm_100",
    (9, 0): "sm_90a",  # its own instructions run on no other, newer ones included
    (8, 9): "sm_89",
    (8, 0): "sm_80",
    (7, 5): "sm_75",
}
SHARED_BYTES_ATTRIBUTE = 97  # of a device: the bytes of shared memory of a block that asks for them
VECTOR_BYTES = 16  # bytes: memory that begins at a multiple of this may be accessed in vectors


NO_KERNEL = CudaKernel((), 0, 0, 0, None)  # in the place of a loop


class Arguments:
    """The arguments of one launch as the driver wants them; the arrays never move."""

    __slots__ = ("launch", "maps", "pointers", "values")

    def __init__(self, launch: Launch) -> None:
        count = len(launch.slots) + len(launch.variables)
        self.launch = launch
        self.values = (ctypes.c_uint64 * max(count, 1))()
        self.maps = [TensorMap(load_driver(), **each) for each in launch.maps]
        start = ctypes.addressof(self.values)
        places = [*(start + 8 * i for i in range(count)), *(each.address for each in self.maps)]
        self.pointers = (ctypes.c_void_p * max(len(places), 1))(*places)

    def fill(self, addresses: Sequence[int], variables: Mapping[str, int]) -> None:
        """The memory of each slot, and the values of variables."""
        launch = self.launch
        for i, slot in enumerate(launch.slots):
            self.values[i] = addresses[slot]
        for i, name in enumerate(launch.variables, len(launch.slots)):
            self.values[i] = variables[name] & 0xFFFF_FFFF_FFFF_FFFF
        for each in self.maps:
            each.encode(addresses[each.slot])


@dataclass(slots=True)
class LoadedPlan:
    """A plan with its kernels."""

    plan: Plan
    kernels: list[CudaKernel]
    arguments: list[list[Arguments]]  # of each step's launches
    counts: Counts  # of one run
    unaligned: dict[int, list[Arguments]]  # of steps that were once given memory that vectors cannot access
    loops: dict[int, list[LoadedPlan]]  # of steps that are loops the plans of their schedules


class CudaDevice(Rendering):
    """A GPU."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.gpu = open_gpu(ordinal_of(name))
        arch = _arch_of(self.gpu.compute, self.gpu.name)
        self.target: Target = replace(
            parse_target(f"CUDA:PTX:{arch}"),
            cores=self.gpu.multiprocessors,
            shared_bytes=self.gpu.attribute(SHARED_BYTES_ATTRIBUTE),
        )

    def load(self, plan: Plan) -> LoadedPlan:
        """Compiles what is not compiled yet."""
        start = perf_counter()
        kernels = list(get_cuda_kernels(kernels_in(plan), self.target, self.gpu))
        if DEBUG >= 1:
            show_load(self.name, self.target, len(kernels), plan.arena_bytes, perf_counter() - start)
        return self._loaded(plan, kernels)

    def _loaded(self, plan: Plan, kernels: list[CudaKernel]) -> LoadedPlan:
        """A plan with its kernels, which are taken from the front of a list."""
        counts = Counts()
        loops: dict[int, list[LoadedPlan]] = {}
        own: list[CudaKernel] = []
        for number, step in enumerate(plan.steps):
            if step.inner:
                loops[number] = [self._loaded(inner, kernels) for inner in step.inner]
                own.append(NO_KERNEL)
                for each in loops[number]:
                    counts.add(each.counts)
            else:
                own.append(kernels.pop(0))
                counts.add(_counts(own[-1]))
        arguments = [[Arguments(launch) for launch in kernel.launches] for kernel in own]
        return LoadedPlan(plan, own, arguments, counts, {}, loops)

    def run(
        self, loaded: LoadedPlan, buffers: Sequence[Buffer], variables: Mapping[str, int], then: Calls = NOTHING
    ) -> None:
        """Starts the kernels in order, and makes the calls of C in `then` without Python in between."""
        addresses = [buffer.address for buffer in buffers]
        plan = loaded.plan
        if plan.temporaries:
            arena = CudaBuffer(self.name, plan.arena_bytes)  # given back as soon as everything is started
            addresses += [arena.address + temporary.offset for temporary in plan.temporaries]
        for place, start in plan.parts:
            addresses.append(addresses[place] + start)
        self.gpu.use()
        with self.gpu.lock:
            if loaded.loops:
                self._run_steps(loaded, addresses, variables)
                deque(starmap(call, then), maxlen=0)
                GlobalCounters.add(self.name, loaded.counts)
                return
            if DEBUG >= 2 or hooks.timers():
                self._run_timed(loaded, addresses, variables)
                deque(starmap(call, then), maxlen=0)
                return
            if then:
                self._start_at_once(loaded, addresses, variables, then)
            else:
                for number in range(len(plan.steps)):
                    for each in self._filled(loaded, number, addresses, variables):
                        self.launch(each)
        GlobalCounters.add(self.name, loaded.counts)

    def _run_steps(self, loaded: LoadedPlan, addresses: Sequence[int], variables: Mapping[str, int]) -> None:
        """Starts the steps of a plan with loops."""
        from whit.engine.devices.cuda_loops import HostLoop, byte_at  # lazy: few plans have loops

        gpu = self.gpu
        for number, step in enumerate(loaded.plan.steps):
            if not step.inner:
                for each in self._filled(loaded, number, addresses, variables):
                    self.launch(each)
                continue
            loop = HostLoop(step, loaded.loops[number], addresses)
            loop.run(
                self._run_steps,
                lambda target, source, nbytes: gpu.checked(
                    gpu.driver.cuMemcpyDtoDAsync_v2, target, source, nbytes, gpu.stream
                ),
                lambda address: byte_at(gpu, address),
                variables,
            )

    def _filled(
        self, loaded: LoadedPlan, number: int, addresses: Sequence[int], variables: Mapping[str, int]
    ) -> list[Arguments]:
        """The launches of a step, on the memory of the places of its plan."""
        given = [addresses[place] for place in loaded.plan.steps[number].places]
        arguments = loaded.arguments[number]
        if any(address % VECTOR_BYTES for address in given):
            arguments = self._unaligned(loaded, number)
        for each in arguments:
            each.fill(given, variables)
        return arguments

    def _start_at_once(
        self, loaded: LoadedPlan, addresses: list[int], variables: Mapping[str, int], then: Calls
    ) -> None:
        """Starts all steps and makes the calls after them. Arguments are filled before: the driver copies them."""
        steps = [self._filled(loaded, number, addresses, variables) for number in range(len(loaded.plan.steps))]
        calls = [self._call_of(each) for step in steps for each in step]
        codes = list(starmap(call, [*calls, *then]))
        for code in codes[: len(calls)]:
            self.gpu.check("cuLaunchKernel", code)

    def _call_of(self, each: Arguments) -> tuple[Any, ...]:
        """The call of the driver that starts a launch whose arguments are filled."""
        launch = each.launch
        self.gpu.recent.append(launch.started)
        sizes = launch.blocks, 1, 1, launch.threads, 1, 1, launch.shared
        start = self.gpu.driver.function("cuLaunchKernel")
        return start, launch.function, *sizes, self.gpu.stream, each.pointers, None

    def launch(self, each: Arguments) -> None:
        """Starts a launch whose arguments are filled."""
        launch = each.launch
        self.gpu.launch(launch.function, launch.blocks, launch.threads, each.pointers, launch.started, launch.shared)

    def _run_timed(self, loaded: LoadedPlan, addresses: list[int], variables: Mapping[str, int]) -> None:
        """With events around each step. They are read after the run for the lines of DEBUG, else later."""
        gpu, plan = self.gpu, loaded.plan
        launches = [self._filled(loaded, number, addresses, variables) for number in range(len(plan.steps))]
        events = self._start_between_events(launches)
        is_shown = DEBUG >= 2
        names = running_names(len(plan.steps)) if is_shown else ()
        told = [timer.started(self.name, plan, loaded.kernels, "stream") for timer in hooks.timers()]

        def note(moments: list[int]) -> None:
            for number, (start, end) in enumerate(zip(moments[::2], moments[1::2], strict=True)):
                note_time(plan.steps[number].function, self.name, (end - start) * 1e-9)
                if is_shown:
                    self._show(loaded, number, (end - start) * 1e-9, names[number])
            for tell in told:
                tell(moments)

        gpu.times.tell(events, note)
        if is_shown:
            self.synchronize()
            gpu.times.settle()
        else:
            GlobalCounters.add(self.name, loaded.counts)

    def _start_between_events(self, launches: list[list[Arguments]]) -> list[Any]:
        """Starts steps, each between two events. What is called is found before: between an event and its kernel there
        is one call of the driver, so that a GPU that waits for them sees little of Python in the time of a kernel."""
        gpu = self.gpu
        record = gpu.driver.function("cuEventRecord")
        events: list[Any] = []
        calls: list[tuple[Any, ...]] = []
        for step in launches:
            events += [gpu.times.new(), gpu.times.new()]
            calls.append((record, events[-2], gpu.stream))
            calls += [self._call_of(each) for each in step]
            calls.append((record, events[-1], gpu.stream))
        for (function, *_), code in zip(calls, list(starmap(call, calls)), strict=True):
            gpu.check(function.__name__, code)
        return events

    def _show(self, loaded: LoadedPlan, number: int, seconds: float, launch: LaunchName) -> None:
        """Counts a step that has run, and prints its line."""
        call = loaded.plan.linear.src[number]
        counts = _counts(loaded.kernels[number])
        counts.time_sum_s = seconds
        GlobalCounters.add(self.name, counts)
        show_kernel(self.name, call.src[0].arg.name, call.src[1:2], counts, seconds, launch)

    def _unaligned(self, loaded: LoadedPlan, number: int) -> list[Arguments]:
        """The same step without vectors."""
        if number not in loaded.unaligned:
            kernel = self.without_vectors(loaded, number)
            loaded.unaligned[number] = [Arguments(launch) for launch in kernel.launches]
        return loaded.unaligned[number]

    def without_vectors(self, loaded: LoadedPlan, number: int) -> CudaKernel:
        """The kernel of a step for memory that is not aligned."""
        function = loaded.plan.steps[number].function
        return get_cuda_kernels([function], without_vectors(self.target), self.gpu)[0]

    def synchronize(self) -> None:
        """Returns when everything that was started has finished."""
        self.gpu.synchronize()


def _arch_of(compute: tuple[int, int], name: str) -> str:
    """The newest architecture whose code runs on a GPU."""
    found = next((arch for least, arch in ARCHS.items() if compute >= least), None)
    if found is None:
        oldest = min(ARCHS)
        raise DeviceError(
            f"CUDA: {name} is too old: its compute capability is {compute[0]}.{compute[1]}",
            f"kernels need {oldest[0]}.{oldest[1]}",
            'Use "CPU".',
        )
    return found


def _counts(kernel: Any) -> Counts:
    return Counts(
        kernel_count=1, global_ops=kernel.ops, bytes_read=kernel.bytes_read, bytes_written=kernel.bytes_written
    )


def open_device(name: str) -> CudaDevice:
    """The device of that name."""
    return CudaDevice(name)
