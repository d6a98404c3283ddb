"""The device CUDA beside PyTorch on the same GPU: copies, and kernels that memory limits. Best of many, by events.

python bench/cuda.py                    a table of milliseconds and GB/s
python bench/cuda.py cumsum scatter     what has these words in its name
"""

from __future__ import annotations

import sys
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


def kernels(words: list[str]) -> None:
    n, rows, columns = 1 << 28, 16384, 8192
    rng = np.random.default_rng(0)
    flat = rng.standard_normal(n // 16, np.float32)
    x = Tensor(np.tile(flat, 16), device="CUDA").realize()
    matrix = x[: rows * columns].reshape(rows, columns).realize()
    square = x[: 1 << 24].reshape(4096, 4096).realize()
    t = torch.from_numpy(np.tile(flat, 16)).cuda() if torch else None
    tm = t[: rows * columns].view(rows, columns) if torch else None
    ts = t[: 1 << 24].view(4096, 4096) if torch else None
    f, m, s, o = 4 * n, 4 * rows * columns, 4 << 24, 4 * rows * (columns - 1)
    odd = x[: rows * (columns - 1)].reshape(rows, columns - 1).realize()
    half, heads = matrix.bfloat16().realize(), x[: 16 * 1024 * 768].reshape(16, 1024, 12, 64).realize()
    batch = x[: 64 * 768 * 1024].reshape(64, 768, 1024).realize()
    tokens = rng.integers(0, 50257, 1 << 20).astype(np.int32)
    places = Tensor(tokens, device="CUDA").realize()
    wide = places[:16384].reshape(16384, 1).expand(16384, 768)
    table, rows768 = x[: 50257 * 768].reshape(50257, 768).realize(), x[: 16384 * 768].reshape(16384, 768).realize()
    counts, ones = (Tensor(np.ones(k, np.int32), device="CUDA").realize() for k in (50257, 1 << 20))
    counts_f = counts.float().realize()
    if torch:
        to, th = t[: rows * (columns - 1)].view(rows, columns - 1), tm.bfloat16()
        thd, tb = t[: 16 * 1024 * 768].view(16, 1024, 12, 64), t[: 64 * 768 * 1024].view(64, 768, 1024)
        tp = torch.from_numpy(tokens.astype(np.int64)).cuda()
        tw, tt = tp[:16384].view(16384, 1).expand(16384, 768), t[: 50257 * 768].view(50257, 768)
        tr768, tc, to1 = t[: 16384 * 768].view(16384, 768), torch.ones_like(tp)[:50257].int(), torch.ones_like(tp).int()
        tcf = tc.float()
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
        ("cumsum of rows, 16384x8192", 2 * m, lambda: matrix.cumsum(1).realize(), lambda: tm.cumsum(1)),
        ("cumsum of columns, 16384x8192", 2 * m, lambda: matrix.cumsum(0).realize(), lambda: tm.cumsum(0)),
        ("cummax of rows, 16384x8192", 2 * m, lambda: matrix.cummax(1).realize(), lambda: tm.cummax(1)),
        ("cumsum of rows, 16384x8191", 2 * o, lambda: odd.cumsum(1).realize(), lambda: to.cumsum(1)),
        ("cumsum of one row of 2^28", 2 * f, lambda: x.cumsum(0).realize(), lambda: t.cumsum(0)),
        ("transpose, 16384x8192", 2 * m, lambda: matrix.transpose(0, 1).contiguous().realize(),
         lambda: tm.t().contiguous()),
        ("transpose, 16384x8191", 2 * o, lambda: odd.transpose(0, 1).contiguous().realize(),
         lambda: to.t().contiguous()),
        ("transpose, 16384x8192 bf16", m, lambda: half.transpose(0, 1).contiguous().realize(),
         lambda: th.t().contiguous()),
        ("permute(0, 2, 1, 3) of 16x1024x12x64", 2 * 4 * 16 * 1024 * 768,
         lambda: heads.permute(0, 2, 1, 3).contiguous().realize(), lambda: thd.permute(0, 2, 1, 3).contiguous()),
        ("permute(0, 2, 1) of 64x768x1024", 2 * 4 * 64 * 768 * 1024,
         lambda: batch.permute(0, 2, 1).contiguous().realize(), lambda: tb.permute(0, 2, 1).contiguous()),
        ("scatter-add f32, 16384 rows of 768", 3 * 4 * 16384 * 768,
         lambda: table.scatter_add(0, wide, rows768).realize(), lambda: tt.scatter_add(0, tw, tr768)),
        ("bincount of 2^20 in 50257", 4 << 20,
         lambda: counts.scatter_add(0, places, ones).realize(), lambda: tc.scatter_add(0, tp, to1)),
        ("scatter-add f32, 2^20 in 50257", 8 << 20,
         lambda: counts_f.scatter_add(0, places, x[: 1 << 20]).realize(), lambda: tcf.scatter_add(0, tp, t[: 1 << 20])),
        ("matmul f32 4096^3 (bytes: 3 matrices)", 3 * s, lambda: (square @ square).realize(), lambda: ts @ ts),
    ]  # fmt: skip
    for name, nbytes, ours, theirs in both:
        if words and not any(word in name for word in words):
            continue
        try:
            row(name, nbytes, timed(lambda run=ours: run()), torch_timed(theirs) if torch else None)  # type: ignore[misc]
        except Exception as error:  # a table with a hole is better than none
            print(f"{name:36s} {type(error).__name__}: {error}", flush=True)


if __name__ == "__main__":
    print(f"{Device['CUDA'].gpu.name}, {Device['CUDA'].target}; torch {torch.__version__ if torch else 'not here'}")  # type: ignore[attr-defined]
    if not sys.argv[1:]:
        copies()
    kernels(sys.argv[1:])
