"""Random graphs and programs on a GPU against the interpreter: `python tests/fuzz/cuda.py --seed 0 --seconds 60`.

Even numbers are graphs (`graphs.py`); odd ones programs of sizes that tensor cores are used for, every second of them a
part of a network (`programs.py`, `networks.py`).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
import traceback
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from fuzz.check import bounds_of, compare, empty_outputs, expected_of
from fuzz.graphs import FIRST_OUTPUT, make_case
from fuzz.networks import make_part
from fuzz.programs import difference, make_program
from whit import Device
from whit.engine.devices.disk import allocate
from whit.engine.plan.find_plan import load_scheduler
from whit.engine.plan.plan import make_plan
from whit.ir.interpret import numpy_dtype
from whit.ir.uop import UOp

APART = 1_000_000  # between the first numbers of two processes


def run_on(name: str, graph: UOp, arrays: dict[UOp, np.ndarray]) -> None:
    """Runs a graph on a device, scheduled for it, and copies what it stores back into the arrays."""
    slots = 1 + max(node.arg.slot for node in arrays)
    buffers = [allocate(name, 0) for _ in range(slots)]
    for node, array in arrays.items():
        buffers[node.arg.slot] = allocate(name, array.nbytes)
        buffers[node.arg.slot].write(memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8)))  # type: ignore[arg-type]
    device = Device[name]
    device.run(device.load(make_plan(load_scheduler(name)(graph), slots)), buffers, {})
    for node, array in arrays.items():
        if node.arg.slot >= FIRST_OUTPUT:
            memory = buffers[node.arg.slot].memory()
            array[...] = np.frombuffer(memory, numpy_dtype(node.dtype), array.size).reshape(array.shape)


def problem_of(seed: int, name: str = "CUDA") -> str:
    """What differs for a graph, or nothing."""
    case = make_case(seed)
    outputs = empty_outputs(case)
    run_on(name, case.graph, {**case.inputs, **outputs})
    with np.errstate(all="ignore"):
        return compare(case, expected_of(case), list(outputs.values()), bounds_of(case))


def problem_of_program(seed: int, device: str = "CUDA") -> str:
    """What differs for a program or a part of a network, or nothing."""
    program = make_part(seed) if seed % 4 == 3 else make_program(seed)
    with np.errstate(all="ignore"):
        problem = difference(program, program.run("PYTHON"), program.run(device))
    return f"{program.name}: {problem}" if problem else ""


def until(end: float, seed: int) -> int:
    """Cases from a number on, and what is wrong with them; how many fail."""
    first, bad = seed, 0
    while time.monotonic() < end:
        try:
            problem = problem_of_program(seed) if seed % 2 else problem_of(seed)
        except Exception:
            problem = traceback.format_exc(limit=-3)
        if problem:
            bad += 1
            print(f"---- seed {seed}: {problem}", flush=True)
        seed += 1
    print(f"{seed - first} cases from {first} on, {bad} with differences or errors", flush=True)
    return bad


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args()
    if given.processes == 1:
        return until(time.monotonic() + given.seconds, given.seed) != 0
    command = [sys.executable, __file__, "--seconds", str(given.seconds), "--seed"]
    running = [subprocess.Popen([*command, str(given.seed + n * APART)]) for n in range(given.processes)]
    return max(process.wait() for process in running)


if __name__ == "__main__":
    sys.exit(main())
