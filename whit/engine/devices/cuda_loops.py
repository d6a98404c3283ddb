"""Loops on a GPU whose steps nobody counted before: the host starts the kernels of each step, and reads the bool.

Scans of a known length are no loops here: a schedule for a GPU has the kernels of all steps. What is left are while
loops, choices, and scans of a symbolic length. The host waits for the GPU where it has to know a bool.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from whit.engine.memory.storage import nbytes_of, size_value
from whit.engine.plan.plan import Plan, PlanStep
from whit.ir import ops
from whit.ir.args import RepeatArg
from whit.ir.uop import UOp

Start = Callable[[Any, Sequence[int], Mapping[str, int]], None]  # (loaded plan, addresses of its table, variables)
Copy = Callable[[int, int, int], None]  # (target, source, bytes)


def addresses_of(plan: Plan, slots: Sequence[int], arena: int) -> list[int]:
    """The address of each place in the table of a plan."""
    found = [*slots, *(arena + temporary.offset for temporary in plan.temporaries)]
    for place, start in plan.parts:
        found.append(found[place] + start)
    return found


class HostLoop:
    """One loop, on memory at these addresses."""

    def __init__(self, step: PlanStep, inner: Sequence[Any], addresses: Sequence[int]) -> None:
        assert step.repeat is not None, "a loop has one"
        self.repeat: UOp = step.repeat
        self.arg: RepeatArg = step.repeat.arg
        self.inner = inner
        operands = [source for source in self.repeat.src if source.op is ops.PARAM]
        self.places = [addresses[place] for place in step.places]
        self.arena = self.places[-1]
        self.parts = [nbytes_of(each.dtype, each.shape[1:]) if each.shape else 0 for each in operands]
        self.sizes = [nbytes_of(each.dtype, each.shape) for each in operands]

    def run(self, start: Start, copy: Copy, read: Callable[[int], bool], variables: Mapping[str, int]) -> None:
        """Starts everything; `read` tells whether a byte of the GPU is not 0."""
        if self.arg.kind == "cond":
            chosen = self.inner[0 if read(self.places[self.arg.decides]) else 1]
            start(chosen, self.table(chosen.plan, 0, 1), variables)
            return
        if self.arg.kind == "while":
            count, length = 0, -1
            body, test = self.inner
            start(test, self.table(test.plan, count, length), variables)
            while read(self.places[self.arg.decides]):
                start(body, self.table(body.plan, count, length), variables)
                count += 1
                start(test, self.table(test.plan, count, length), variables)
        else:
            size = self.arg.length
            count = length = size_value(self.repeat.src[-1], variables) if size is None else size
            for step in range(length):
                start(self.inner[0], self.table(self.inner[0].plan, step, length), variables)
        for target, slot in enumerate(self.arg.finals):
            source = self.moved(slot, count, length)
            if source != self.places[target]:
                copy(self.places[target], source, self.sizes[target])

    def table(self, plan: Plan, step: int, length: int) -> list[int]:
        """The addresses of a step."""
        slots = [0 if param is None else self.moved(slot, step, length) for slot, param in enumerate(plan.params)]
        return addresses_of(plan, slots, self.arena)

    def moved(self, slot: int, step: int, length: int) -> int:
        """Where a param lies in a step."""
        move = self.arg.moves[slot]
        if step == 0 and move.first >= 0:
            return self.places[move.first]
        number = move.odd if (length - 1 - step) % 2 else move.even
        if not move.is_part:
            return self.places[number]
        place = length - 1 - step if self.arg.is_reversed else step
        if move.is_before:
            place += 1 if self.arg.is_reversed else -1
        return self.places[number] + place * self.parts[number]


def byte_at(gpu: Any, address: int) -> bool:
    """Whether a byte of the GPU is not 0, once everything before has run."""
    found = (ctypes.c_uint8 * 1)()
    gpu.checked(gpu.driver.cuMemcpyDtoHAsync_v2, ctypes.addressof(found), address, 1, gpu.stream)
    gpu.synchronize()
    return bool(found[0])
