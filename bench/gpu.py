"""Matrix products on the device CUDA beside PyTorch on the same GPU. Results are checked; times are the best of many.

python bench/gpu.py             a table of milliseconds and TFLOP/s
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from whit import Device, Tensor
from whit.dtype import DType, dtypes

REPEATS, IN_A_ROW = 12, 8
OURS = {torch.bfloat16: dtypes.bfloat16, torch.float16: dtypes.float16, torch.float32: dtypes.float32}
TOLERANCE = {torch.bfloat16: 1e-2, torch.float16: 2e-3, torch.float32: 1e-5}
SQUARES = [(torch.bfloat16, (n, n, n)) for n in (4096, 8192)] + [(torch.float16, (n, n, n)) for n in (4096, 8192)]
EXACT = [(torch.float32, (4096, 4096, 4096)), (torch.float32, (2048, 2048, 2048))]
# rows, depth, columns: projections and MLPs of GPT-2 (16 x 1024 tokens), BERT (32 x 512) and Llama 8B (4096 and 512)
MODELS = [
    (4000, 3000, 5000),
    *((16384, k, n) for k, n in ((768, 2304), (768, 768), (768, 3072), (3072, 768), (768, 50304))),
    *((16384, k, n) for k, n in ((1024, 3072), (1024, 1024), (1024, 4096), (4096, 1024))),
    *((4096, k, n) for k, n in ((4096, 6144), (4096, 4096), (4096, 28672), (14336, 4096))),
    *((512, k, n) for k, n in ((4096, 6144), (4096, 4096), (4096, 28672), (14336, 4096))),
]


def best_of_both(ours: Callable[[], Any], theirs: Callable[[], Any]) -> tuple[float, float]:
    """Seconds of one run of each on the device: the best of many, in turns, since a busy chip lowers its clock."""
    gpu = Device["CUDA"].gpu  # type: ignore[attr-defined]
    found = [float("inf"), float("inf")]
    for _ in range(REPEATS):
        start = gpu.event()
        for _ in range(IN_A_ROW):
            ours()
        found[0] = min(found[0], gpu.event().since(start) / IN_A_ROW)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(IN_A_ROW):
            theirs()
        end.record()
        end.synchronize()
        found[1] = min(found[1], begin.elapsed_time(end) / IN_A_ROW / 1e3)
    return found[0], found[1]


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
    return result, lambda: [original(*arguments) for arguments in seen] and None


def measure(kind: Any, sizes: Sequence[int]) -> tuple[float, float, float]:
    """Our seconds, theirs, and the largest error beside the largest element."""
    m, k, n = sizes
    a, b = (torch.randn(shape, device="cuda", dtype=torch.float32).to(kind) for shape in ((m, k), (k, n)))
    x, y = (_copied(t, OURS[kind]) for t in (a, b))
    result, run = kernels_of(lambda: x @ y)
    a @ b
    ours, theirs = best_of_both(run, lambda: a @ b)
    rows = slice(0, min(m, 512))
    exact = (a[rows].double() @ b.double()).cpu().numpy()
    got = result.cast(dtypes.float32).numpy()[rows]
    return ours, theirs, float(np.abs(got - exact).max() / np.abs(exact).max())


def _copied(t: Any, dtype: DType) -> Tensor:
    return Tensor(t.float().cpu().numpy(), device="CUDA").cast(dtype).realize()


def table(rows: Sequence[tuple[Any, Sequence[int]]]) -> float:
    """Prints a table; the geometric mean of their time over ours."""
    ratios = []
    for kind, (m, k, n) in rows:
        ours, theirs, error = measure(kind, (m, k, n))
        flops = 2 * m * n * k / 1e12
        wrong = "" if error < TOLERANCE[kind] else f"   WRONG: {error:.1e}"
        ratios.append(theirs / ours)
        name = f"{str(kind)[6:]} {m} x {k} x {n}"
        print(f"{name:30s} {ours * 1e3:8.3f} ms {flops / ours:6.0f} TFLOP/s   torch {theirs * 1e3:8.3f} ms "
              f"{flops / theirs:6.0f}   {theirs / ours:5.2f}x{wrong}", flush=True)  # fmt: skip
    mean = float(np.exp(np.mean(np.log(ratios))))
    print(f"geometric mean {mean:.3f}")
    return mean


if __name__ == "__main__":
    torch.backends.cuda.matmul.allow_tf32 = False
    print(f"{Device['CUDA'].gpu.name}, torch {torch.__version__}")  # type: ignore[attr-defined]
    table(SQUARES + EXACT)
    table([(torch.bfloat16, sizes) for sizes in MODELS])
