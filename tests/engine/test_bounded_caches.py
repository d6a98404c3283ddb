"""Programs of ever new sizes: memory stays flat, and machine code that nobody needs is freed."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from pathlib import Path

import pytest

from whit import Tensor
from whit.engine.compile import compile as compiling
from whit.engine.plan import find_plan
from whit.onnx.run import MOST_PARTS

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.filterwarnings("ignore:realize")  # that a Variable would do
def test_plans_and_machine_code_of_sizes_that_nobody_uses_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find_plan._plans, "most", 8)
    monkeypatch.setattr(compiling._kernels, "most", 4)
    libraries: weakref.WeakSet[object] = weakref.WeakSet()
    for size in range(301, 313):
        assert (Tensor.full((size,), 2.0).contiguous().realize() * 3).sum().item() == 6 * size
        for kernel, _ in compiling.linked_kernels():
            libraries.add(kernel.library)
    gc.collect()
    assert len(compiling._kernels) == 4
    assert find_plan._plans._weight <= 8
    assert len(libraries) <= 8  # of these kernels, and of the plans that are kept


MANY = """
import gc, sys
import numpy as np
sys.path.insert(0, "tests")
from onnx_models.write import model, node, tensor, value
from whit import onnx
from whit.onnx import many_sizes
from whit.onnx.capture import Program

if ALONE:
    many_sizes.MOST_TRIES = 0  # no program for many sizes is tried

def resident():
    gc.collect()
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS")) / 1024

ends = [tensor("zero", np.array([0], np.int64)), tensor("one", np.array([1], np.int64))]
nodes = [node("Neg", ["x"], ["n"]), node("Relu", ["n"], ["r"])]
nodes += [node("Slice", ["r", "zero", "one"], ["p"]), node("Squeeze", ["p"], ["y"])] if ALONE else []
outputs = [value("y" if ALONE else "r")]
run = onnx.load(model(nodes, [value("x", 1, ["n", "m"])], outputs, ends if ALONE else []))
for number in range(COUNT):
    run(x=np.zeros((2 + number % 37, 2 + number), np.float32))
    if number == COUNT // 2:
        before = resident()
kept = sum(isinstance(found, Program) for found in gc.get_objects())
print(resident() - before, run.captures, kept)
"""


def grown(count: int, alone: bool) -> tuple[float, int, int]:
    """MiB more in the second half of so many sizes, programs made, and kept. `alone`: each size has its own."""
    script = f"COUNT, ALONE = {count}, {alone}\n{MANY}"
    found = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    more, programs, kept = found.stdout.split()
    return float(more), int(programs), int(kept)


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_memory_is_flat_over_500_sizes_of_a_model() -> None:
    more, programs, _ = grown(500, alone=False)
    assert programs < 12
    assert more < 4


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_memory_grows_little_where_each_of_500_sizes_has_a_program() -> None:
    more, programs, kept = grown(500, alone=True)
    assert programs == 500
    assert 0 < kept <= 2 * MOST_PARTS
    assert more < 40
