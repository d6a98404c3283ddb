"""One kernel for people: why it is tiled as it is, what the machine allows, and what was achieved.

    kernel = (a @ b).kernels()[0]
    kernel.measure()                    runs it on memory of its own; the seconds of the fastest run
    print(kernel.explain())

Nothing is computed and no machine code is made before `measure`; `explain` looks at the limits of this machine once in
a process, which takes half a second, and only for kernels that can run on it; what a GPU allows its driver says."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from whit.config import NOOPT
from whit.engine.compile.compile import get_kernel, known_tuning, prepare_pool
from whit.engine.devices.device import Device
from whit.engine.report.launch_words import NO_NAME, LaunchName
from whit.engine.report.show import UNTILED
from whit.engine.report.timings import best_time, note_time
from whit.errors import ArgumentError
from whit.ir import ops
from whit.ir.uop import UOp
from whit.kernel.cost import Cost
from whit.kernel.rates import GPUS, Rates, rates_of
from whit.target import Target, missing_features


@dataclass(frozen=True)
class KernelReport:
    """A kernel that would run on a device."""

    function: UOp
    device: str
    target: Target | None  # None: the interpreter
    result: str  # dtype and shape of what it writes first
    units: str = ""  # of a GPU: what computes, where that is known
    launch: LaunchName = NO_NAME  # what it computes, in the user's words

    @property
    def name(self) -> str:
        """As in recordings and under DEBUG."""
        return str(self.function.arg.name)

    @property
    def label(self) -> str:
        """What it computes, and in which line of the program: "blocks.3.attn softmax  model.py:31"."""
        return str(self.launch)

    def where(self) -> list[str]:
        """The user's line, the name of the code if it is called otherwise, and what else it computes."""
        if not self.launch:
            return []
        lines = [", ".join(filter(None, (self.launch.line, f"kernel {self.name}")))]
        return [*lines, f"with {self.launch.also}"] if self.launch.also else lines

    @property
    def body(self) -> UOp:
        """What it computes."""
        return self.function.src[0]

    @property
    def ops(self) -> int:
        """Operations on elements, of one run."""
        return self.cost.operations

    @property
    def bytes_read(self) -> int:
        """Bytes of its inputs."""
        return self.cost.bytes_read

    @property
    def bytes_written(self) -> int:
        """Bytes of its results."""
        return self.cost.bytes_written

    @functools.cached_property
    def cost(self) -> Cost:
        """The same together, before it is tiled."""
        from whit.kernel.estimate import estimate  # lazy: only when something is to be explained

        return estimate(self.body)

    @property
    def amounts(self) -> str:
        """Operations and bytes, in words."""
        read, written = spell_bytes(self.bytes_read), spell_bytes(self.bytes_written)
        return f"{spell_count(self.ops)} operations, reads {read}, writes {written}"

    @functools.cached_property
    def _programs(self) -> tuple[Any, ...]:
        """The programs that it is: several on a GPU, where loops have nothing to do with each other."""
        assert self.target is not None, "a kernel without a target has no programs"
        if self.body.op is ops.REPEAT:
            return ()
        from whit.codegen import Choice, generate  # lazy: only when something is to be explained

        if self.target.is_gpu:
            from whit.codegen.gpu.separate import separate  # lazy: a kernel for a CPU loads nothing of GPUs

            return tuple(generate(part, self.target) for part in separate(self.body))
        tuned = None if NOOPT else known_tuning(self.function, self.target)
        choice = None if tuned is None or tuned.choice is None else Choice(tuned.choice)
        return (generate(self.body, self.target, choice=choice),)

    @functools.cached_property
    def reasons(self) -> tuple[str, ...]:
        """Why it is tiled as it is."""
        if self.target is None:
            return ("by the interpreter",)
        if self.body.op is ops.REPEAT:
            return (_steps_of(self.body),)
        found = [line for program in self._programs for line in program.explanation.splitlines()]
        return tuple(found) or (UNTILED,)

    @property
    def best_seconds(self) -> float | None:
        """The time of its fastest run that was timed: by `measure`, under PROFILE=1 or DEBUG=2, or in a recording."""
        return best_time(self.function, self.device)

    def measure(self, seconds: float = 0.1) -> float:
        """Runs it for so long on random inputs of its own; the time of the fastest run."""
        has_variables = any(node.op is ops.VARIABLE for node in self.body.topological())
        if has_variables or not (self._runs_here or self._is_on_gpu):
            raise ArgumentError(
                f"measure: {self.name} cannot run alone on {self.device}",
                fix="Only kernels for this processor, without symbolic sizes, are measured so. Use DEBUG=2 elsewhere.",
            )
        best = self._measure_on_gpu(seconds) if self._is_on_gpu else self._measure_here(seconds)
        note_time(self.function, self.device, best)
        return best

    def _measure_here(self, seconds: float) -> float:
        from whit.engine.compile.tune.alone import Alone  # lazy: few programs measure
        from whit.engine.compile.tune.check import values  # lazy: the same

        assert self.target is not None, "a kernel without a target cannot be run"
        prepare_pool()
        alone = Alone(self.body)
        alone.fill({slot: values(param, "random", False, slot) for slot, param in alone.params.items()})
        return alone.best_seconds(get_kernel(self.function, self.target), seconds)

    def _measure_on_gpu(self, seconds: float) -> float:
        from whit.engine.report.cuda import measure  # lazy: loads the driver

        return measure(self.function, self.device, seconds)

    @property
    def _runs_here(self) -> bool:
        is_host = self.target is not None and not self.target.is_gpu and not missing_features(self.target)
        return is_host and self.device.startswith("CPU")

    @property
    def _is_on_gpu(self) -> bool:
        return self.device.startswith("CUDA")

    def explain(self) -> str:
        """Tiling, roofline, and what was achieved."""
        where = self.device if self.target is None else f"{self.device} ({self.target})"
        lines = [f"{self.launch.name or self.name} on {where}, {self.result}", *(f"  {line}" for line in self.where())]
        lines += [f"  {self.amounts}", "tiling:"]
        lines += [f"  {reason}" for reason in self.reasons]
        if self._is_on_gpu:
            from whit.engine.report.cuda import occupancies  # lazy: loads the driver

            found = occupancies(self.function, self.device)
            lines += ["occupancy:", *(f"  {line}" for line in found)] if found else []
        return "\n".join([*lines, *self._roofline()])

    @functools.cached_property
    def roof(self) -> tuple[Rates, str] | None:
        """What the device allows, and its name; None where that is not known here."""
        if self.target is not None and self.target.is_gpu:
            return self._gpu_roof()
        if not self._runs_here:
            return None
        from whit.engine.report.roofline import roofline_of_this_machine  # lazy: measures

        roof = roofline_of_this_machine()
        return roof, f"this machine: {roof.bytes_per_second / 1e9:.1f} GB/s, {spell_rate(roof.flops_per_second)}"

    def _gpu_roof(self) -> tuple[Rates, str]:
        """By its driver; of a GPU that is not here, by a data sheet."""
        from whit.engine.compile.cuda import units_of  # lazy: only when something is to be explained

        assert self.target is not None, "a kernel without a target has no roof"
        if self._is_on_gpu:
            from whit.engine.report.cuda import known_units, roofline_of  # lazy: loads the driver

            gpu = Device[self.device].gpu  # type: ignore[attr-defined]
            units = self.units or known_units(self.function, self.device) or units_of(self._programs)
            roof, name = roofline_of(gpu, units), gpu.name
        else:
            units = units_of(self._programs)
            roof, name = rates_of(self.target, units), f"{GPUS[self.target.arch].name}, by its data sheet"
        speed = f"{roof.bytes_per_second / 1e9:.0f} GB/s, {spell_rate(roof.flops_per_second)}"
        return roof, f"{name}: {speed} of {units}"

    @property
    def least_seconds(self) -> float:
        """What one run takes at least, where the roof is known."""
        assert self.roof is not None, "callers ask for the roof first"
        return self.cost.seconds(self.roof[0])

    def bound(self) -> str:
        """The least time, and what needs it; where the roof is known."""
        assert self.roof is not None, "callers ask for the roof first"
        waits_for = "bytes" if self.cost.limit(self.roof[0]) == "memory" else "operations"
        return f"at least {self.least_seconds * 1e6:.1f} us, bound by {waits_for}"

    def _roofline(self) -> list[str]:
        moved = self.cost.bytes_moved
        lines = [f"roofline: {self.ops / max(moved, 1):.2f} operations a byte"]
        if self.roof is None:
            return [*lines, "  what the machine allows is measured there, not here"]
        lines.append(f"  {self.roof[1]}; {self.bound()}")
        best = self.best_seconds
        if self.device.startswith("NULL"):
            return lines
        if best is None:
            return [*lines, "achieved: not timed yet; kernel.measure(), PROFILE=1 or DEBUG=2 do that"]
        speed = f"{spell_rate(self.ops / best)}, {moved / best / 1e9:.1f} GB/s"
        return [*lines, f"achieved: best {best * 1e6:.1f} us, {speed}, {self._share():.0f} % of the roof"]

    def achieved(self) -> str:
        """The fastest run beside the least time, where there was one."""
        if self.best_seconds is None:
            return ""
        return f"; best {self.best_seconds * 1e6:.1f} us, {self._share():.0f} % of the roof"

    def _share(self) -> float:
        assert self.best_seconds is not None, "only what was measured has a share of the roof"
        return 100 * self.least_seconds / self.best_seconds


def spell_rate(flops: float) -> str:
    """Operations a second for people."""
    return f"{flops / 1e12:.1f} TFLOP/s" if flops >= 1e13 else f"{flops / 1e9:.1f} GFLOP/s"


def spell_count(count: int) -> str:
    """A number for people: exact as long as it can be read."""
    for unit, size in (("T", 10**12), ("G", 10**9), ("M", 10**6)):
        if count >= max(size, 10**7):
            return f"{count / size:.2f} {unit}"
    return str(count)


def spell_bytes(count: int) -> str:
    """A number of bytes for people."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.2f} {unit}"
    return f"{count} B"


def _steps_of(repeat: UOp) -> str:
    """The kernels of a loop, in words."""
    lists = [each.src[0].src for each in repeat.src if each.op is ops.FUNCTION]
    named = [", ".join(str(call.src[0].arg.name) for call in calls) or "nothing" for calls in lists]
    if repeat.arg.kind == "cond":
        return f"one of: {named[0]}; or {named[1]}"
    if repeat.arg.kind == "while":
        return f"again and again: {named[0]}; as long as holds: {named[1]}"
    times = "a symbolic number of" if repeat.arg.length is None else f"each of {repeat.arg.length}"
    return f"in {times} steps: {named[0]}"
