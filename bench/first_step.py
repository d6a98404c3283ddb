"""How long the first step of training takes in a fresh process: nothing compiled before, and from the disk cache.

    python bench/first_step.py

Columns: seconds of wall-clock and of processor time, kernels in a step, and how many different ones are compiled.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time


def measure(name: str) -> None:
    """One line about one step, of this process."""
    from training_models import MODELS

    from whit import GlobalCounters
    from whit.engine import compile as compiler

    training = MODELS[name]()
    before = len(compiler._kernels)
    GlobalCounters.reset()
    wall, processor = time.perf_counter(), time.process_time()
    training.step()
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    print(f"{wall:8.2f} {processor:8.2f} {GlobalCounters.kernel_count:8d} {len(compiler._kernels) - before:10d}")


def main() -> None:
    """Prints a table; each line is a process of its own."""
    if len(sys.argv) == 2:
        measure(sys.argv[1])
        return
    print(f"{'model':10s} {'cache':8s} {'wall s':>8s} {'cpu s':>8s} {'kernels':>8s} {'different':>10s}")
    for name in ("mlp", "convnet", "gpt"):
        with tempfile.TemporaryDirectory() as folder:
            for state in ("empty", "full"):
                settings = {**os.environ, "CACHE_DIR": folder}
                command = [sys.executable, __file__, name]
                result = subprocess.run(command, check=True, capture_output=True, text=True, env=settings)
                print(f"{name:10s} {state:8s} {result.stdout.rstrip()}")


if __name__ == "__main__":
    main()
