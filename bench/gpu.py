"""All that whit does on a GPU beside PyTorch in the same run: tables of the modules that are named here.

    python bench/gpu.py                          everything, in about half an hour
    python bench/gpu.py --only products models   some of it
    python bench/gpu.py --quick                  without torch.compile, whose first calls take long

Every table is a process of its own, so that what fails hides nothing else; results are checked there. What several of
them use is here too.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from whit import Device, Tensor
from whit.dtype import dtypes

REPEATS, IN_A_ROW = 12, 8
GROUPS: dict[str, list[list[str]]] = {  # a script with its arguments, and what leaves torch.compile out
    "products": [["gpu_products.py"], []],
    "few": [["gpu_few_rows.py"], []],
    "memory": [["gpu_memory.py"], ["--eager"]],
    "convolutions": [["gpu_convolutions.py"], []],
    "attention": [["gpu_attention.py"], []],
    "decode": [["gpu_decode.py", "--compile"], []],
    "models": [["gpu_models.py"], ["--no-compile"]],
    "first": [["gpu_models.py", "gpt2", "--first"], []],
    "replay": [["cuda_replay.py"], []],
}


def best_of_both(ours: Callable[[], Any], theirs: Callable[[], Any]) -> tuple[float, float]:
    """Seconds of one run of each: the best of many, in turns. Runs are started while the device is busy with something
    long, so that they follow one another there: else Python is measured where they are short."""
    gpu = Device["CUDA"].gpu  # type: ignore[attr-defined]
    found = [float("inf"), float("inf")]
    for _ in range(REPEATS):
        keep_busy()()
        start = gpu.event()
        for _ in range(IN_A_ROW):
            ours()
        found[0] = min(found[0], gpu.event().since(start) / IN_A_ROW)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(2_000_000)  # cycles
        begin.record()
        for _ in range(IN_A_ROW):
            theirs()
        end.record()
        end.synchronize()
        found[1] = min(found[1], begin.elapsed_time(end) / IN_A_ROW / 1e3)
    return found[0], found[1]


@cache
def keep_busy() -> Callable[[], None]:
    """What starts something long, of a millisecond."""
    zeros = Tensor.zeros(8192, 8192, dtype=dtypes.bfloat16, device="CUDA").contiguous().realize()
    return kernels_of(lambda: zeros @ zeros)[1]


def kernels_of(compute: Callable[[], Tensor]) -> tuple[Tensor, Callable[[], None]]:
    """The result, and what starts the same kernels again on the same memory: Python is not measured."""
    device: Any = Device["CUDA"]
    seen: list[tuple[Any, ...]] = []
    original = device.run

    def noting(*arguments: Any) -> None:
        seen.append(arguments)
        original(*arguments)

    device.run = noting
    try:
        result = compute().realize()
    finally:
        del device.run

    def again() -> None:
        for arguments in seen:
            original(*arguments)

    return result, again


def main() -> int:
    """Runs the tables; how many of them failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=GROUPS, help="these")
    parser.add_argument("--quick", action="store_true", help="without torch.compile")
    options = parser.parse_args()
    folder = os.path.dirname(os.path.abspath(__file__))
    failed = []
    for group in options.only or GROUPS:
        (script, *arguments), quick = GROUPS[group]
        if options.quick:
            arguments = [word for word in arguments if word != "--compile"] + quick
        print(f"\n=== {group}: python bench/{' '.join([script, *arguments])}", flush=True)
        if subprocess.run([sys.executable, os.path.join(folder, script), *arguments]).returncode:
            failed.append(group)
    print(f"\nfailed: {', '.join(failed) or 'none'}")
    return len(failed)


if __name__ == "__main__":
    sys.exit(bool(main()))
