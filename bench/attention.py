"""Attention and its gradients, beside PyTorch in the same run.

    python bench/attention.py                  on one core, by the processor's time: others may use the machine
    python bench/attention.py --threads 2      by the clock
    python bench/attention.py --no-compile     without torch.compile (its first calls take long)
    python bench/attention.py --only "(2, 8, 512, 64) causal"   works whose names begin so

Contestants take turns; a number is the least of many runs, in milliseconds. Every result is compared with PyTorch's
before it is timed. "as written" is whit with FLASH_ATTENTION=0: two matrix products and a softmax.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # no processes that are left over to disturb times
import torch

from whit import Context, Tensor, TinyJit

SHAPES = [(2, 8, 512, 64), (8, 4, 64, 32), (4, 4, 128, 64), (1, 12, 1024, 64), (1, 2, 2048, 64)]  # batch, heads, t, d
TURNS, TURN = 10, 3  # runs of a contestant before the next: the threads of the one before look for work for a while
Run = Callable[[], Any]


def ours(arrays: list[np.ndarray], is_causal: bool, is_training: bool, blocks: int) -> Run:
    q, k, v, g = (Tensor(array).realize() for array in arrays)

    def compute(q: Tensor, k: Tensor, v: Tensor, g: Tensor) -> list[Tensor]:
        out = q.scaled_dot_product_attention(k, v, is_causal=is_causal)
        results = [out, *out.gradient(q, k, v, gradient=g)] if is_training else [out]
        Tensor.realize(*results)
        return results

    function = TinyJit(compute)
    with Context(FLASH_ATTENTION=blocks):
        for _ in range(3):
            function(q, k, v, g)

    def run() -> Any:
        with Context(FLASH_ATTENTION=blocks):
            return function(q, k, v, g)

    return run


def theirs(arrays: list[np.ndarray], is_causal: bool, is_training: bool, is_compiled: bool) -> Run:
    q, k, v, g = (torch.tensor(array) for array in arrays)

    def attention(q: Any, k: Any, v: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal)

    function = torch.compile(attention) if is_compiled else attention
    if not is_training:
        return lambda: [function(q, k, v)]
    leaves = [t.requires_grad_() for t in (q, k, v)]

    def step() -> list[Any]:
        out = function(*leaves)
        return [out, *torch.autograd.grad(out, leaves, g)]

    return step


def least(runs: list[Run], clock: Callable[[], float]) -> list[float]:
    found = [float("inf")] * len(runs)
    for _ in range(TURNS):
        for i, run in enumerate(runs):
            for _ in range(TURN):
                start = clock()
                run()
                found[i] = min(found[i], clock() - start)
    return [1e3 * seconds for seconds in found]


def check(mine: list[Tensor], right: list[Any]) -> None:
    for a, b in zip(mine, right, strict=True):
        wanted = b.detach().numpy()
        assert np.abs(a.numpy() - wanted).max() <= 1e-5 * max(np.abs(wanted).max(), 1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--only", default="", help="the beginning of a name: shape and what, as in the table")
    options = parser.parse_args()
    os.environ["THREADS"] = str(options.threads)
    torch.set_num_threads(options.threads)
    clock = time.process_time if options.threads == 1 else time.perf_counter
    rng = np.random.default_rng(0)
    print("| batch, heads, length, depth | | whit | as written | torch | torch.compile | times torch's best |")
    print("|---|---|---|---|---|---|---|")
    with Context(THREADS=options.threads):
        for shape in SHAPES:
            arrays = [rng.standard_normal(shape).astype(np.float32) for _ in range(4)]
            for is_causal in (False, True):
                for is_training in (False, True):
                    what = ("causal, " if is_causal else "") + ("with gradients" if is_training else "forward")
                    if not f"{shape} {what}".startswith(options.only):
                        continue
                    runs = [ours(arrays, is_causal, is_training, blocks) for blocks in (1, 0)]
                    runs.append(theirs(arrays, is_causal, is_training, False))
                    if not options.no_compile:
                        runs.append(theirs(arrays, is_causal, is_training, True))
                    results = [run() for run in runs]
                    for result in results[:2]:
                        check(result, results[2])
                    times = least(runs, clock)
                    best = min(times[2:])
                    cells = [f"{t:.2f}" for t in times] + [""] * (4 - len(times))
                    print(f"| {shape} | {what} | {' | '.join(cells)} | {best / times[0]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
