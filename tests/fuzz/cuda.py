"""Random graphs on a GPU against the interpreter: `python tests/fuzz/cuda.py --seed 0 --seconds 60`."""

from __future__ import annotations

import argparse
import sys
import time
from math import prod
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from fuzz.check import bounds_of, compare, empty_outputs, expected_of
from fuzz.graphs import make_case
from whit import Device
from whit.engine.plan import make_plan
from whit.ir.interpret import numpy_dtype
from whit.ir.uop import UOp
from whit.runtime.cuda_buffer import CudaBuffer
from whit.schedule import schedule


def problem_of(seed: int) -> str:
    """What differs for a case, or nothing."""
    case = make_case(seed)
    outputs = empty_outputs(case)
    arrays: dict[UOp, np.ndarray] = {**case.inputs, **outputs}
    slots = 1 + max(node.arg.slot for node in arrays)
    plan = make_plan(schedule(case.graph), slots)
    buffers = [CudaBuffer("CUDA", 0) for _ in range(slots)]
    for node, array in arrays.items():
        buffers[node.arg.slot] = CudaBuffer("CUDA", array.nbytes)
        buffers[node.arg.slot].write(memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8)))
    device = Device["CUDA"]
    device.run(device.load(plan), buffers, {})
    found = []
    for node in outputs:
        memory = buffers[node.arg.slot].memory()
        found.append(np.frombuffer(memory, numpy_dtype(node.dtype), prod(node.shape)).reshape(node.shape))
    with np.errstate(all="ignore"):
        return compare(case, expected_of(case), found, bounds_of(case))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60)
    given = parser.parse_args()
    end, seed, bad = time.monotonic() + given.seconds, given.seed, 0
    while time.monotonic() < end:
        problem = problem_of(seed)
        if problem:
            bad += 1
            print(f"---- seed {seed}: {problem}", flush=True)
        seed += 1
    print(f"{seed - given.seed} graphs, {bad} with differences")
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
