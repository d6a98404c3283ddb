"""One kernel for people: why it is tiled as it is, what the machine allows, and what was achieved.

    kernel = (a @ b).kernels()[0]
    kernel.measure()                    runs it on memory of its own; the seconds of the fastest run
    print(kernel.explain())

Nothing is computed and no machine code is made before `measure`; `explain` looks at the limits of this machine once in
a process, which takes half a second, and only for kernels that can run on it."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from whit.config import NOOPT
from whit.engine.compile import get_kernel, known_tuning, prepare_pool
from whit.engine.show import UNTILED
from whit.engine.timings import best_time, note_time
from whit.errors import ArgumentError
from whit.ir import ops
from whit.ir.uop import UOp
from whit.target import Target, missing_features


@dataclass(frozen=True)
class KernelReport:
    """A kernel that would run on a device."""

    function: UOp
    device: str
    target: Target | None  # None: the interpreter
    result: str  # dtype and shape of what it writes first

    @property
    def name(self) -> str:
        """As in recordings and under DEBUG."""
        return str(self.function.arg.name)

    @property
    def body(self) -> UOp:
        """What it computes."""
        return self.function.src[0]

    @property
    def ops(self) -> int:
        """Operations on elements, of one run."""
        return self._amounts[0]

    @property
    def bytes_read(self) -> int:
        """Bytes of its inputs."""
        return self._amounts[1]

    @property
    def bytes_written(self) -> int:
        """Bytes of its results."""
        return self._amounts[2]

    @functools.cached_property
    def _amounts(self) -> tuple[int, int, int]:
        from whit.codegen.estimate import estimate  # lazy: only when something is to be explained

        return estimate(self.body)

    @property
    def amounts(self) -> str:
        """Operations and bytes, in words."""
        read, written = spell_bytes(self.bytes_read), spell_bytes(self.bytes_written)
        return f"{self.ops} operations, reads {read}, writes {written}"

    @functools.cached_property
    def reasons(self) -> tuple[str, ...]:
        """Why it is tiled as it is."""
        if self.target is None:
            return ("by the interpreter",)
        from whit.codegen import Choice, generate  # lazy: only when something is to be explained

        tuned = None if NOOPT or self.target.is_gpu else known_tuning(self.function, self.target)
        choice = None if tuned is None or tuned.choice is None else Choice(tuned.choice)
        found = tuple(generate(self.body, self.target, choice=choice).explanation.splitlines())
        return found or (UNTILED,)

    @property
    def best_seconds(self) -> float | None:
        """The time of its fastest run that was timed: by `measure`, under DEBUG=2, or in a recording."""
        return best_time(self.function, self.device)

    def measure(self, seconds: float = 0.1) -> float:
        """Runs it for so long on random inputs of its own; the time of the fastest run."""
        if not self._runs_here or any(node.op is ops.VARIABLE for node in self.body.topological()):
            raise ArgumentError(
                f"measure: {self.name} cannot run alone on {self.device}",
                fix="Only kernels for this processor, without symbolic sizes, are measured so. Use DEBUG=2 elsewhere.",
            )
        from whit.engine.tune.alone import Alone  # lazy: few programs measure
        from whit.engine.tune.check import values  # lazy: the same

        assert self.target is not None
        prepare_pool()
        alone = Alone(self.body)
        alone.fill({slot: values(param, "random", False, slot) for slot, param in alone.params.items()})
        best = alone.best_seconds(get_kernel(self.function, self.target), seconds)
        note_time(self.function, self.device, best)
        return best

    @property
    def _runs_here(self) -> bool:
        is_host = self.target is not None and not self.target.is_gpu and not missing_features(self.target)
        return is_host and self.device.startswith("CPU")

    def explain(self) -> str:
        """Tiling, roofline, and what was achieved."""
        where = self.device if self.target is None else f"{self.device} ({self.target})"
        lines = [f"{self.name} on {where}, {self.result}", f"  {self.amounts}", "tiling:"]
        lines += [f"  {reason}" for reason in self.reasons]
        return "\n".join([*lines, *self._roofline()])

    def _roofline(self) -> list[str]:
        moved = self.bytes_read + self.bytes_written
        lines = [f"roofline: {self.ops / max(moved, 1):.2f} operations a byte"]
        if not self._runs_here:
            return [*lines, "  what the machine allows is measured there, not here"]
        from whit.engine.roof import roof_of_this_machine  # lazy: measures

        roof = roof_of_this_machine()
        floor, limit = roof.floor(moved, self.ops)
        lines.append(
            f"  this machine: {roof.bandwidth / 1e9:.1f} GB/s, {roof.flops / 1e9:.1f} GFLOP/s; "
            f"at least {floor * 1e6:.1f} us, bound by {'bytes' if limit == 'memory' else 'operations'}"
        )
        best = self.best_seconds
        if best is None:
            return [*lines, "achieved: not timed yet; kernel.measure(), DEBUG=2 or a recording do that"]
        speed = f"{self.ops / best / 1e9:.1f} GFLOP/s, {moved / best / 1e9:.1f} GB/s"
        return [*lines, f"achieved: best {best * 1e6:.1f} us, {speed}, {100 * floor / best:.0f} % of the roof"]


def spell_bytes(count: int) -> str:
    """A number of bytes for people."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.2f} {unit}"
    return f"{count} B"
