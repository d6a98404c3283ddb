"""The device NULL: plans and compiles, and runs nothing. Its buffers have no memory.

`NULL` compiles for this machine, `NULL:LLVM:cortex-a76` for another, which need not be here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from whit.engine.counters import GlobalCounters
from whit.engine.cpu import CpuDevice, LoadedPlan
from whit.runtime.buffer import Buffer


class NullDevice(CpuDevice):
    """A processor that does nothing."""

    is_linked = False

    def run(self, loaded: LoadedPlan, buffers: Sequence[Buffer], variables: Mapping[str, int]) -> None:
        """Counts the kernels, and the memory of the temporaries."""
        _arena = Buffer(self.name, loaded.plan.arena_bytes)
        GlobalCounters.add(self.name, loaded.counts)


def open_device(name: str) -> NullDevice:
    """The device of that name."""
    return NullDevice(name)
