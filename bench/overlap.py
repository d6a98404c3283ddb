"""Copies between CPU devices beside kernels, and kernels beside each other, in one list for the thread pool.

    python bench/overlap.py         milliseconds of a replay, the least of many: with groups of launches, and without

The two take turns in one process. It takes more than one core, and a machine that does nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from whit import Tensor, TinyJit
from whit.engine.programs.launches import LaunchList

REPEATS = 30
_grouped = LaunchList._is_shared


def row(name: str, function: Callable[..., Any], arguments: tuple[Tensor, ...]) -> None:
    programs = []
    for rule in (_grouped, lambda self, group: False):
        LaunchList._is_shared = rule  # type: ignore[method-assign]
        programs.append(TinyJit(lambda *given: function(*given)))
        programs[-1](*arguments)
    LaunchList._is_shared = _grouped  # type: ignore[method-assign]
    best = [float("inf")] * 2
    for _ in range(REPEATS):
        for i, program in enumerate(programs):
            start = time.perf_counter()
            program(*arguments)
            best[i] = min(best[i], time.perf_counter() - start)
    print(f"{name:40s} {best[0] * 1e3:9.3f} {best[1] * 1e3:9.3f}", flush=True)


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    large, medium = (Tensor(rng.standard_normal(1 << n, np.float32)).realize() for n in (25, 22))
    rows = [Tensor(rng.standard_normal((2, 1 << 20), np.float32)).realize() for _ in range(4)]
    square = Tensor(rng.standard_normal((1024, 1024), np.float32)).realize()
    print(f"{'':40s} {'groups':>9s} {'without':>9s}")
    row("128 MiB to CPU:1", lambda x: x.to("CPU:1")[:8] * 2, (large,))
    row("a cumsum of 2^22", lambda x: x.cumsum(0), (medium,))
    row("both", lambda x, y: (x.to("CPU:1")[:8] * 2, y.cumsum(0)), (large, medium))
    row("a matmul of 1024", lambda x: x @ x, (square,))
    row("128 MiB to CPU:1, and a matmul", lambda x, y: (x.to("CPU:1")[:8] * 2, y @ y), (large, square))
    row("four cumsums of 2 x 2^20", lambda *xs: [x.cumsum(1).contiguous() for x in xs], tuple(rows))
