"""Kernels on the CPU, beside PyTorch in the same run.

    python bench/cpu.py                     the works of `cpu_works.py` in the groups main and matmul
    python bench/cpu.py --group odd         others: short, odd and strided ones, gradients; without torch.compile
    python bench/cpu.py --only softmax sum  only works with one of these in their name
    python bench/cpu.py --no-compile        without torch.compile (its first calls take long; it keeps them on disk)
    python bench/cpu.py --threads 1         both on one thread
    python bench/cpu.py --json              one JSON object instead of the table

Contestants take turns of a few runs; a number is the least of many runs, by the clock, in milliseconds. Every result is
compared with the reference before it is timed. "plain" builds the tensors of every run anew and "jit" replays a
`TinyJit`: both give fresh results. A ratio is the faster of torch eager and torch.compile over ours, for each of the
two. "copy" is the speed of moving the inputs and outputs once, against a copy; "peak" that of the operations against
multiply-adds in registers: both are measured in the same run. "threads" is how much slower one thread is (jit).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from math import exp, log
from typing import Any

import ml_dtypes
import numpy as np
from cpu_works import GROUPS, Work, torch  # type: ignore[attr-defined]  # None where it is not installed

from whit import Context, GlobalCounters, Tensor, TinyJit
from whit.engine.report.roofline import measure_roofline
from whit.kernel.rates import Rates
from whit.runtime.pool.threads import thread_count

TURN = 0.03  # seconds of a contestant before the next: OpenMP's threads spin for 15 ms after their last work
OURS = ("whit", "jit")
Calls = dict[str, Callable[[], Any]]


def contestants(work: Work, arrays: list[np.ndarray], with_compile: bool) -> Calls:
    """What to call for each."""
    tensors = [Tensor(a).realize() for a in arrays]
    replayed: Any = TinyJit(lambda *given: realized(work.ours(*given)))
    found: Calls = {"whit": lambda: realized(work.ours(*tensors))}
    if "nonzero" not in work.name and "select" not in work.name:  # the shape of their result is known when it is there
        found["jit"] = lambda: replayed(*tensors)
    if torch is not None:
        given = theirs(work, arrays)
        found["torch"] = lambda: work.theirs(*given)
        if with_compile:
            compiled = torch.compile(work.theirs, dynamic=False)
            found["compile"] = lambda: compiled(*given)
    return found


def theirs(work: Work, arrays: list[np.ndarray]) -> list[Any]:
    """The inputs as tensors of PyTorch."""
    floats = getattr(torch, work.dtype)
    return [torch.from_numpy(a) if a.dtype.kind == "i" else torch.from_numpy(a.astype("f")).to(floats) for a in arrays]


def realized(result: Any) -> Any:
    """A tensor, or several, computed together."""
    if not isinstance(result, tuple):
        return result.realize()
    Tensor.realize(*result)
    return result


def inputs(work: Work) -> list[np.ndarray]:
    """Normal numbers, and integers below a limit as the last if there is one."""
    rng = np.random.default_rng(0)
    dtype = ml_dtypes.bfloat16 if work.dtype == "bfloat16" else np.float32
    arrays = [rng.standard_normal(shape, np.float32).astype(dtype) for shape in work.shapes]
    if work.below:
        arrays[-1] = rng.integers(0, work.below, work.shapes[-1])
    return arrays


def values(result: Any) -> np.ndarray:
    """Of a sort or topk, the values."""
    result = result[0] if isinstance(result, tuple) else result
    return np.asarray((result.double() if hasattr(result, "double") else result).numpy(), np.float64)


def check(work: Work, arrays: list[np.ndarray], calls: Calls) -> None:
    """Every contestant is right."""
    wide = [a if a.dtype.kind == "i" else a.astype(np.float64) for a in arrays]
    if work.reference is not None:
        wanted = np.asarray(work.reference(*wide))
    else:
        wanted = values(work.theirs(*[torch.from_numpy(a) for a in wide]))
    most = 2e-2 if work.dtype == "bfloat16" else 1e-4
    for name, call in calls.items():
        before = GlobalCounters.global_ops
        found = values(call())
        work.operations = max(work.operations, GlobalCounters.global_ops - before)
        error = np.max(np.abs(found - wanted)) / max(np.max(np.abs(wanted)), 1e-9)
        if found.shape != wanted.shape or not error < most:
            raise SystemExit(f"{work.name}: {name} is wrong by {error}")


def take_turns(calls: Calls, seconds: float) -> dict[str, float]:
    """The least milliseconds of each."""
    best = dict.fromkeys(calls, float("inf"))
    end = time.perf_counter() + seconds
    while True:
        for name, call in calls.items():
            start = now = time.perf_counter()
            while now < start + TURN:
                call()
                now, before = time.perf_counter(), now
                best[name] = min(best[name], now - before)
        if now > end:
            return {name: t * 1e3 for name, t in best.items()}


def measure(work: Work, seconds: float, with_compile: bool) -> None:
    """Fills work.times: all contestants, and ours on one thread."""
    arrays = inputs(work)
    calls = contestants(work, arrays, with_compile)
    check(work, arrays, calls)
    work.times = take_turns(calls, seconds)
    if thread_count() > 1:
        fastest = "jit" if "jit" in calls else "whit"
        with Context(THREADS=1):
            for _ in range(2):
                calls[fastest]()
            work.times["one"] = take_turns({fastest: calls[fastest]}, seconds / 4)[fastest]


HEADER = """| work | plain | jit | torch | compile | plain ratio | jit ratio | GB/s | % of copy | % of peak | threads |
|---|---|---|---|---|---|---|---|---|---|---|"""


def ratios(work: Work) -> dict[str, float]:
    """By which of ours: the faster of theirs over it."""
    best = min((t for name, t in work.times.items() if name in ("torch", "compile")), default=float("nan"))
    return {name: best / work.times[name] for name in OURS if name in work.times}


def row(work: Work, roof: Rates) -> str:
    """A line of the table."""
    best = min(work.times[name] for name in OURS if name in work.times)
    names = ("whit", "jit", "torch", "compile")
    cells = [f"{work.times[name]:.3f}" if name in work.times else "" for name in names]
    found = ratios(work)
    cells += [f"{found[name]:.2f}" if name in found else "" for name in OURS]
    speed = work.moved / best * 1e3
    cells += [f"{speed / 1e9:.1f}", f"{speed / roof.bytes_per_second * 100:.0f}"] if work.moved else ["", ""]
    cells += [f"{work.operations / best * 1e5 / roof.flops_per_second:.0f}"]
    cells += [f"{work.times['one'] / work.times.get('jit', work.times['whit']):.2f}"] if "one" in work.times else [""]
    return f"| {work.name} | " + " | ".join(cells) + " |"


def summary(chosen: list[Work]) -> str:
    """The geometric means, and who is below."""
    lines = []
    for name in OURS:
        found = {w.name: ratios(w)[name] for w in chosen if name in ratios(w)}
        mean = exp(sum(log(ratio) for ratio in found.values()) / max(len(found), 1))
        below = "; ".join(f"{work} {ratio:.2f}" for work, ratio in found.items() if ratio < 1)
        lines.append(
            f"{'plain' if name == 'whit' else name}: mean {mean:.2f} of {len(found)}, below 1: {below or 'none'}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="parts of the names of the works to run")
    parser.add_argument("--only", nargs="+", default=[], help="the same")
    parser.add_argument("--group", choices=GROUPS, action="append", help="main and matmul if none is given")
    parser.add_argument("--seconds", type=float, default=2.0, help="time for each work")
    parser.add_argument("--threads", type=int, default=0, help="for all contestants")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    groups, names = options.group or ("main", "matmul"), [*options.names, *options.only]
    works = [work for group in groups for work in GROUPS[group]()]
    chosen = [w for w in works if not names or any(part in w.name for part in names)]
    if torch is not None:
        torch.set_grad_enabled(False)
        torch.set_num_threads(options.threads or thread_count())
    with Context(THREADS=options.threads):
        roof = measure_roofline(0.5, 1 << 26)
        if not options.json:
            copy, peak = roof.bytes_per_second / 1e9, roof.flops_per_second / 1e9
            print(f"copy {copy:.1f} GB/s, peak {peak:.0f} GFLOP/s, {roof.threads} threads\n")
            print(HEADER)
        for work in chosen:
            measure(work, options.seconds, not options.no_compile and "odd" not in groups)
            if not options.json:
                print(row(work, roof), flush=True)
    print(json.dumps({w.name: w.times for w in chosen}) if options.json else "\n" + summary(chosen))


if __name__ == "__main__":
    main()
