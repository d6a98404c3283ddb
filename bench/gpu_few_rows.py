"""Products of few rows with large matrices on the device CUDA beside PyTorch (cuBLAS) on the same GPU, in GB/s.

    python bench/gpu_few_rows.py                all rows and matrices
    python bench/gpu_few_rows.py 2 16           some numbers of rows

A chain of products there and back, in one graph on either side: each waits for the one before, and no cache holds the
weights, which both sides share. Bytes are those of the weights and of both vectors; results are compared.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

from whit import Device, Tensor, TinyJit

RUNS, TURNS = 6, 5
MATRICES = ((4096, 4096, 8), (4096, 6144, 6), (4096, 14336, 4), (4096, 128256, 2), (768, 3072, 24), (768, 50304, 4))
ROWS = (2, 4, 8, 16, 24, 32, 64)


def seconds_of(event: Callable[[], Any], since: Callable[[Any, Any], float], run: Callable[[], Any]) -> float:
    """The best of some times."""
    found = []
    for _ in range(TURNS):
        start = event()
        for _ in range(RUNS):
            run()
        found.append(since(event(), start) / RUNS)
    return min(found)


def _their_event() -> Any:
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def _their_seconds(end: Any, start: Any) -> float:
    end.synchronize()
    return float(start.elapsed_time(end)) / 1e3


def contest(rows: int, depth: int, columns: int, count: int, is_turned: bool, kind: Any = torch.bfloat16) -> None:
    """Prints a line."""
    scale = (2 / (depth + columns)) ** 0.5
    shapes = [(columns, depth), (depth, columns)] if is_turned else [(depth, columns), (columns, depth)]
    given = [torch.randn(shapes[i % 2], device="cuda", dtype=kind) * scale for i in range(count)]
    start = torch.randn((rows, depth), device="cuda", dtype=kind)
    torch.cuda.synchronize()
    ours, x = [Tensor.from_dlpack(w) for w in given], Tensor.from_dlpack(start)

    def chain(x: Any, ws: Any) -> Any:
        for w in ws:
            x = x @ (w.T if is_turned else w)
            x = x.contiguous()
        return x

    jitted = TinyJit(lambda x: chain(x, ours))
    result = torch.from_dlpack(jitted(x).realize()).float()
    gpu = Device["CUDA"].gpu  # type: ignore[attr-defined]
    mine = seconds_of(gpu.event, lambda end, start: float(end.since(start)), lambda: jitted(x)) / count
    chain(start, given)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        last = chain(start, given)
    theirs = seconds_of(_their_event, _their_seconds, graph.replay) / count
    error = float((result - last.float()).abs().max() / last.float().abs().max())
    rate = 2 * (depth * columns + rows * (depth + columns)) / mine / 1e9
    name = f"{rows:3d} x {depth} x {columns} and back, {'w.T' if is_turned else 'w':3s}"
    text = f"{name}  {mine * 1e6:7.1f} us {rate:5.0f} GB/s  torch {theirs * 1e6:7.1f} us {theirs / mine:5.2f}x"
    print(text if error < 2e-2 else f"{text}   WRONG: {error:.1e}", flush=True)


def main(rows: tuple[int, ...]) -> None:
    for depth, columns, count in MATRICES:
        for is_turned in (True, False):
            for m in rows:
                try:
                    contest(m, depth, columns, count, is_turned)
                except Exception as error:  # one that fails must not hide the others
                    print(m, depth, columns, is_turned, type(error).__name__, str(error)[-300:], flush=True)


if __name__ == "__main__":
    main(tuple(map(int, sys.argv[1:])) or ROWS)
