"""A GPU without one: programs as they are generated for it, run by the interpreter, behind the name of a device.

with emulated_gpu(monkeypatch) as name:
    (Tensor(array, device=name) @ Tensor(array, device=name)).numpy()
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import whit
from whit import Device
from whit.codegen import generate
from whit.codegen.gpu.separate import separate
from whit.engine.devices.python import PythonDevice, _array
from whit.engine.plan.plan import Plan
from whit.ir import ops
from whit.ir.check.verify import verify
from whit.ir.interpret import run
from whit.ir.op import PROGRAM
from whit.ir.uop import UOp
from whit.render import render
from whit.runtime.buffer import Buffer
from whit.target import parse_target

NAME = "PYTHON:1"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A plan, and the programs of each step."""

    plan: Plan
    steps: list[list[Any]]


class EmulatedGpu(PythonDevice):
    """Blocks, threads, barriers, shared memory, matrix instructions: one after another. Texts are made and dropped."""

    target: Any = replace(parse_target("CUDA:PTX:sm_90a"), cores=132)

    def load(self, plan: Plan) -> Any:
        """The plan, and the programs of each step."""
        steps = [[generate(part, self.target) for part in separate(step.function.src[0])] for step in plan.steps]
        for programs in steps:
            for program in programs:
                verify(program.linear, PROGRAM)
            render({f"k{i}": program.linear for i, program in enumerate(programs)}, self.target)
        return Loaded(plan, steps)

    def execute(self, loaded: Any, buffers: Sequence[Buffer], variables: Mapping[str, int]) -> None:
        """Executes the programs on these buffers."""
        plan, steps = loaded.plan, loaded.steps
        arena = Buffer(self.name, plan.arena_bytes)
        memories = [*buffers, *(arena.view(t.offset, t.nbytes) for t in plan.temporaries)]
        memories += [memories[place].view(start, memories[place].nbytes - start) for place, start in plan.parts]
        with np.errstate(all="ignore"):
            for step, programs in zip(plan.steps, steps, strict=True):
                for program in programs:
                    self._run(program.linear, [memories[place] for place in step.places], variables)

    def _run(self, linear: UOp, given: list[Buffer], variables: Mapping[str, int]) -> None:
        nodes = {node for instruction in linear.src for node in instruction.topological()}
        values: dict[UOp, Any] = {n: variables[n.arg.name] for n in nodes if n.op is ops.VARIABLE}
        for node in nodes:
            if node.op is ops.PARAM:
                values[node] = _array(node, given[node.arg.slot], variables)
        run(linear, values)


@contextmanager
def emulated_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a device that is an emulated GPU inside."""
    whit.clear_caches()
    with monkeypatch.context() as patch:
        patch.setitem(Device._open, NAME, EmulatedGpu(NAME))
        yield NAME
    whit.clear_caches()
