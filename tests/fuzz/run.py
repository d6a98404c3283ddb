"""Random graphs until stopped: `python tests/fuzz/run.py --seed 0 --seconds 3600`, or `--count 100000` of them.

Every case that fails is shown as its smallest failing part: the text of a graph that can be pasted into a test. Cases
run in a child process, so that a kernel that crashes is reported like any other.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from fuzz.check import find_failures, report


def in_child(seeds: list[int]) -> bool:
    """Runs the seeds in a process of its own and prints what fails; whether all passed."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        failures = find_failures(seeds)
        for seed, problem in failures.items():
            print(f"---- {problem.splitlines()[0]}\n{report(seed)}\n", flush=True)
        os._exit(1 if failures else 0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        if len(seeds) == 1:
            print(f"---- seed {seeds[0]} crashes: signal {os.WTERMSIG(status)}", flush=True)
        else:
            for seed in seeds:
                in_child([seed])
    return status == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first case")
    parser.add_argument("--count", type=int, default=1 << 60, help="how many cases")
    parser.add_argument("--seconds", type=float, default=math.inf, help="how long; a batch that was begun is finished")
    parser.add_argument("--batch", type=int, default=25, help="cases compiled together")
    options = parser.parse_args()
    start, bad = time.perf_counter(), 0
    last, seed = options.seed + options.count, options.seed
    while seed < last and time.perf_counter() - start < options.seconds:
        seeds = list(range(seed, min(seed + options.batch, last)))
        seed = seeds[-1] + 1
        bad += not in_child(seeds)
        if sys.stderr.isatty():
            print(f"\r{seed - options.seed} cases, {time.perf_counter() - start:.0f} s", end="", file=sys.stderr)
    print(f"{seed - options.seed} cases, {bad} batches with failures, {time.perf_counter() - start:.1f} s")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
