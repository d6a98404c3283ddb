"""The device NULL: plans and compiles, and runs nothing. Its buffers have no memory.

`NULL` compiles for this machine, `NULL:LLVM:cortex-a76` for another, which need not be here, and `NULL:PTX:sm_90a` for
a GPU.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import starmap
from operator import call
from typing import Any

from whit.engine.devices.cpu import CpuDevice
from whit.engine.devices.device import NOTHING, Calls
from whit.engine.plan.plan import Plan
from whit.engine.report.counters import GlobalCounters
from whit.recording import hooks
from whit.runtime.buffer import Buffer


class NullDevice(CpuDevice):
    """A processor that does nothing."""

    is_linked = False

    def load(self, plan: Plan) -> Any:
        """Compiles what is not compiled yet."""
        if not self.target.is_gpu:
            return super().load(plan)
        from whit.engine.devices.null_gpu import load_plan  # lazy: what compiles for GPUs

        return load_plan(plan, self.name, self.target)

    def run(self, loaded: Any, buffers: Sequence[Buffer], variables: Mapping[str, int], then: Calls = NOTHING) -> None:
        """Counts the kernels, and the memory of the temporaries."""
        _arena = Buffer(self.name, loaded.plan.arena_bytes)
        GlobalCounters.add(self.name, loaded.counts)
        for timer in hooks.timers():
            timer.started(self.name, loaded.plan, (), "")
        deque(starmap(call, then), maxlen=0)


def open_device(name: str) -> NullDevice:
    """The device of that name."""
    return NullDevice(name)
