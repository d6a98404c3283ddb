"""The device CUDA beside PyTorch on the same GPU: copies, and kernels that memory limits. Best of many, by events.

python bench/cuda.py            a table of milliseconds and GB/s
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from whit import Device, Tensor

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]

REPEATS = 20


def timed(run: Callable[[], Any]) -> float:
    """Seconds of one run on the device: the best of many, a few in a row each so that Python is not measured."""
    gpu = Device["CUDA"].gpu  # type: ignore[attr-defined]
    run()
    gpu.synchronize()
    best = float("inf")
    for _ in range(REPEATS):
        start = gpu.event()
        _kept = [run() for _ in range(4)]
        best = min(best, gpu.event().since(start) / 4)
    return best


def torch_timed(run: Callable[[], Any]) -> float:
    """The same for PyTorch."""
    run()
    torch.cuda.synchronize()
    best = float("inf")
    for _ in range(REPEATS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(4):
            run()
        end.record()
        end.synchronize()
        best = min(best, start.elapsed_time(end) / 4e3)
    return best


def row(name: str, nbytes: int, ours: float, theirs: float | None) -> None:
    rate = f"{nbytes / ours / 1e9:8.0f} GB/s"
    beside = f"{theirs * 1e3:9.3f} ms {nbytes / theirs / 1e9:8.0f} GB/s  {theirs / ours:5.2f}x" if theirs else ""
    print(f"{name:36s} {ours * 1e3:9.3f} ms {rate}   {beside}", flush=True)


def copies() -> None:
    data = np.ones(1 << 28, np.uint8)
    x = Tensor(data, device="CUDA").realize()
    up = down = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        x = Tensor(data, device="CUDA").realize()
        Device["CUDA"].synchronize()
        up = min(up, time.perf_counter() - start)
        start = time.perf_counter()
        x.numpy()
        down = min(down, time.perf_counter() - start)
    row("host to device, 256 MiB", data.nbytes, up, None)
    row("device to host, 256 MiB", data.nbytes, down, None)


def kernels() -> None:
    n, rows, columns = 1 << 28, 16384, 8192
    rng = np.random.default_rng(0)
    flat = rng.standard_normal(n // 16, np.float32)
    x = Tensor(np.tile(flat, 16), device="CUDA").realize()
    matrix = x[: rows * columns].reshape(rows, columns).realize()
    square = x[: 1 << 24].reshape(4096, 4096).realize()
    t = torch.from_numpy(np.tile(flat, 16)).cuda() if torch else None
    tm = t[: rows * columns].view(rows, columns) if torch else None
    ts = t[: 1 << 24].view(4096, 4096) if torch else None
    f, m, s = 4 * n, 4 * rows * columns, 4 << 24
    both: list[tuple[str, int, Callable[[], Any], Callable[[], Any]]] = [
        ("x * 2 + 1, 2^28 f32", 2 * f, lambda: (x * 2 + 1).realize(), lambda: t * 2 + 1),
        ("gelu(x*2+1)*x, 2^28 f32", 2 * f, lambda: ((x * 2 + 1).gelu() * x).realize(),
         lambda: torch.nn.functional.gelu(t * 2 + 1, approximate="tanh") * t),
        ("sum of 2^28 f32", f, lambda: x.sum().realize(), lambda: t.sum()),
        ("sum of rows, 16384x8192", m, lambda: matrix.sum(1).realize(), lambda: tm.sum(1)),
        ("sum of columns, 16384x8192", m, lambda: matrix.sum(0).realize(), lambda: tm.sum(0)),
        ("softmax, 16384x8192", 2 * m, lambda: matrix.softmax(-1).realize(), lambda: tm.softmax(-1)),
        ("layer norm, 16384x8192", 2 * m, lambda: matrix.layernorm().realize(),
         lambda: torch.nn.functional.layer_norm(tm, (columns,))),
        ("transpose, 4096x4096", 2 * s, lambda: square.transpose(0, 1).contiguous().realize(),
         lambda: ts.t().contiguous()),
        ("cumsum of rows, 4096x4096", 2 * s, lambda: square.cumsum(1).realize(), lambda: ts.cumsum(1)),
        ("matmul f32 4096^3 (bytes: 3 matrices)", 3 * s, lambda: (square @ square).realize(), lambda: ts @ ts),
    ]  # fmt: skip
    for name, nbytes, ours, theirs in both:
        try:
            row(name, nbytes, timed(lambda run=ours: run()), torch_timed(theirs) if torch else None)  # type: ignore[misc]
        except Exception as error:  # a table with a hole is better than none
            print(f"{name:36s} {type(error).__name__}: {error}", flush=True)


if __name__ == "__main__":
    print(f"{Device['CUDA'].gpu.name}, {Device['CUDA'].target}; torch {torch.__version__ if torch else 'not here'}")  # type: ignore[attr-defined]
    copies()
    kernels()
