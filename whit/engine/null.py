"""The device NULL: plans and compiles, and runs nothing. Its buffers have no memory.

`NULL` compiles for this machine, `NULL:LLVM:cortex-a76` for another, which need not be here, and `NULL:PTX:sm_90a` for
a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from whit.engine.counters import GlobalCounters
from whit.engine.cpu import CpuDevice
from whit.engine.device import is_gpu
from whit.runtime.buffer import Buffer


class NullDevice(CpuDevice):
    """A processor that does nothing."""

    is_linked = False

    def run(self, loaded: Any, buffers: Sequence[Buffer], variables: Mapping[str, int]) -> None:
        """Counts the kernels, and the memory of the temporaries."""
        _arena = Buffer(self.name, loaded.plan.arena_bytes)
        GlobalCounters.add(self.name, loaded.counts)


def open_device(name: str) -> NullDevice:
    """The device of that name."""
    if not is_gpu(name):
        return NullDevice(name)
    from whit.engine.null_gpu import NullGpu  # lazy: what compiles for GPUs

    return NullGpu(name)
