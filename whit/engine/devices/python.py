"""The device PYTHON: runs schedules with the interpreter of the IR, slowly and obviously right."""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import starmap
from operator import call
from time import perf_counter_ns
from typing import Any

import numpy as np

from whit.config import DEBUG
from whit.engine.devices.device import NOTHING, Calls, Rendering
from whit.engine.memory.storage import concrete_shape
from whit.engine.plan.plan import Plan, plan_of
from whit.engine.programs.dependencies import written_by
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

    def run(self, loaded: Any, buffers: Sequence[Buffer], variables: Mapping[str, int], then: Calls = NOTHING) -> None:
        """Executes a plan on these buffers, and makes the calls of C in `then`: both or, if an interrupt comes,
        neither. So where there are such calls it works on copies, of which the bytes are moved together with them."""
        if not then:
            self.execute(loaded, buffers, variables)
            return
        results = {slot: buffers[slot] for slot in _written(plan_of(loaded))}
        copies = {slot: Buffer(self.name, buffer.nbytes, is_counted=False) for slot, buffer in results.items()}
        for slot, copy in copies.items():
            copy.copy_from(results[slot])
        self.execute(loaded, [copies.get(slot, buffer) for slot, buffer in enumerate(buffers)], variables)
        moves = [(ctypes.memmove, results[slot].address, copy.address, copy.nbytes) for slot, copy in copies.items()]
        deque(starmap(call, [*moves, *then]), maxlen=0)

    def execute(self, loaded: Any, buffers: Sequence[Buffer], variables: Mapping[str, int]) -> None:
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
        for number, kernel in enumerate(loaded.linear.src):
            times.append(perf_counter_ns())
            run(kernel, values)
            times.append(perf_counter_ns())
            seconds = (times[-1] - times[-2]) * 1e-9
            counts = _counts(kernel, seconds, variables)
            GlobalCounters.add(self.name, counts)
            if DEBUG >= 2:
                announce(kernel.src[0])
                show_kernel(self.name, kernel.src[0].arg.name, kernel.src[1:2], counts, seconds, names[number])
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


def _written(plan: Plan) -> set[int]:
    """The slots that the steps of a plan write to, or to parts of."""
    found = set()
    for kernel in plan.linear.src:
        function, *arguments = kernel.src
        for number in written_by(function):
            memory = [argument for argument in arguments if argument.op is not ops.BIND][number]
            while memory.op is not ops.PARAM and memory.src:
                (memory, *_) = memory.src
            if memory.op is ops.PARAM:
                found.add(memory.arg.slot)
    return found


def _array(node: UOp, buffer: Buffer, variables: Mapping[str, int]) -> Any:
    shape = concrete_shape(node.shape, variables)
    count = int(np.prod(shape))
    storage = numpy_dtype(node.dtype)
    memory = buffer.memory()[: count * storage.itemsize]
    return np.frombuffer(memory, storage, count).reshape(shape)


def open_device(name: str) -> PythonDevice:
    """The device of that name."""
    return PythonDevice(name)
