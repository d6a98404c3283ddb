"""The device PYTHON: runs schedules with the interpreter of the IR, slowly and obviously right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter_ns
from typing import Any

import numpy as np

from whit.config import DEBUG
from whit.engine.devices.device import Rendering
from whit.engine.memory.storage import concrete_shape
from whit.engine.plan.plan import Plan
from whit.engine.report.counters import Counts, GlobalCounters
from whit.engine.report.launch_names import running_names
from whit.engine.report.show import announce, show_kernel
from whit.ir import ops
from whit.ir.interpret import numpy_dtype, run
from whit.ir.uop import UOp
from whit.recording import hooks
from whit.runtime.buffer import Buffer


class PythonDevice(Rendering):
    """The interpreter as a device."""

    target = None

    def __init__(self, name: str) -> None:
        self.name = name

    def load(self, plan: Plan) -> Plan:
        """The plan itself: there is nothing to compile."""
        return plan

    def run(self, loaded: Plan, buffers: Sequence[Buffer], variables: Mapping[str, int]) -> None:
        """Executes the plan on these buffers."""
        values: dict[UOp, Any] = {
            param: _array(param, buffer, variables)
            for param, buffer in zip(loaded.params, buffers, strict=True)
            if param is not None
        }
        arena = Buffer(self.name, loaded.arena_bytes)
        for temporary in loaded.temporaries:
            part = arena.view(temporary.offset, temporary.nbytes)
            values[temporary.node] = _array(temporary.node, part, variables)
        for node in loaded.linear.topological(enter_functions=True):
            if node.op is ops.VARIABLE and node.arg.name in variables:
                values[node] = variables[node.arg.name]
        times: list[int] = []
        names = running_names(len(loaded.steps)) if DEBUG >= 2 else ()
        for number, call in enumerate(loaded.linear.src):
            times.append(perf_counter_ns())
            run(call, values)
            times.append(perf_counter_ns())
            seconds = (times[-1] - times[-2]) * 1e-9
            counts = _counts(call, seconds, variables)
            GlobalCounters.add(self.name, counts)
            if DEBUG >= 2:
                announce(call.src[0])
                show_kernel(self.name, call.src[0].arg.name, call.src[1:2], counts, seconds, names[number])
        for timer in hooks.timers():
            timer.started(self.name, loaded, (), "")(times)

    def synchronize(self) -> None:
        """Nothing runs in the background."""


def _counts(call: UOp, seconds: float, variables: Mapping[str, int]) -> Counts:
    """One kernel; bytes as if each argument were read or written once."""
    function, *arguments = call.src
    (body,) = function.src
    written = {node.src[0] for node in body.topological() if node.op is ops.STORE}
    slots = {node.arg.slot for target in written for node in target.topological() if node.op is ops.PARAM}
    counts = Counts(kernel_count=1, time_sum_s=seconds)
    for slot, argument in enumerate(arguments):
        nbytes = int(np.prod(concrete_shape(argument.shape, variables))) * argument.dtype.itemsize
        if slot in slots:
            counts.bytes_written += nbytes
        else:
            counts.bytes_read += nbytes
    return counts


def _array(node: UOp, buffer: Buffer, variables: Mapping[str, int]) -> Any:
    shape = concrete_shape(node.shape, variables)
    count = int(np.prod(shape))
    storage = numpy_dtype(node.dtype)
    memory = buffer.memory()[: count * storage.itemsize]
    return np.frombuffer(memory, storage, count).reshape(shape)


def open_device(name: str) -> PythonDevice:
    """The device of that name."""
    return PythonDevice(name)
