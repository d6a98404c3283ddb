"""Matrix products on the device CUDA beside PyTorch (cuBLAS) on the same GPU. Results are checked; times are the best
of many.

python bench/gpu_products.py    a table of milliseconds and TFLOP/s
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from gpu import TOLERANCE, random, row

from whit import Context, Device

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


def products(rows: Sequence[tuple[Any, Sequence[int]]], tolerance: float = 0.0) -> None:
    """A table, and the geometric mean of their time over ours."""
    ratios = []
    for kind, (m, k, n) in rows:
        (a, x), (b, y) = random(kind, m, k), random(kind, k, n)
        name = f"{str(kind)[6:]} {m} x {k} x {n}"
        ratios.append(
            row(name, 2.0 * m * n * k, lambda x=x, y=y: x @ y, lambda a=a, b=b: a @ b, tolerance or TOLERANCE[kind])
        )
    print(f"geometric mean {float(np.exp(np.mean(np.log(ratios)))):.3f}")


def others() -> None:
    """What is around a product, or is one."""
    kind, n = torch.bfloat16, 4096
    (a, x), (b, y), (c, z) = random(kind, n, n), random(kind, n, n, scale=0.02), random(kind, n)
    flops, tolerance = 2.0 * n**3, TOLERANCE[kind]
    gelu = torch.nn.functional.gelu
    row("a.T @ b.T", flops, lambda: x.T @ y.T, lambda: a.T @ b.T, tolerance)
    row("relu(a @ b + c)", flops, lambda: (x @ y + z).relu(), lambda: torch.relu(a @ b + c), tolerance)
    row("gelu(a @ b)", flops, lambda: (x @ y).gelu(), lambda: gelu(a @ b, approximate="tanh"), tolerance)
    row("(a * 2) @ b", flops, lambda: (x * 2) @ y, lambda: (a * 2) @ b, tolerance)
    (h, q) = random(kind, 16, 12, 1024, 64)
    row("16 x 12 heads: q @ k.T, 1024 x 64", 2.0 * 192 * 1024 * 1024 * 64, lambda: q @ q.transpose(-1, -2),
        lambda: h @ h.transpose(-1, -2), tolerance)  # fmt: skip
    (odd, u), (even, v) = random(kind, 4001, 4003), random(kind, 4003, 4005)
    row("4001 x 4003 x 4005", 2.0 * 4001 * 4003 * 4005, lambda: u @ v, lambda: odd @ even, tolerance)
    (image, i), (w3, k3), (w1, k1) = (
        random(kind, *shape) for shape in ((64, 256, 56, 56), (256, 256, 3, 3), (256, 256, 1, 1))
    )
    last = image.to(memory_format=torch.channels_last)
    flops = 2.0 * 64 * 56 * 56 * 256 * 256
    row("conv 3x3, 256 -> 256, 64x56x56", 9 * flops, lambda: i.conv2d(k3, padding=1),
        lambda: torch.conv2d(last, w3.to(memory_format=torch.channels_last), padding=1), tolerance)  # fmt: skip
    row("conv 1x1, 256 -> 256, 64x56x56", flops, lambda: i.conv2d(k1), lambda: torch.conv2d(last, w1), tolerance)


if __name__ == "__main__":
    torch.backends.cuda.matmul.allow_tf32 = False
    print(f"{Device['CUDA'].gpu.name}, torch {torch.__version__}")  # type: ignore[attr-defined]
    products(SQUARES + EXACT)
    with Context(TF32=1):
        products(EXACT[:1], tolerance=1e-3)
    products([(torch.bfloat16, sizes) for sizes in MODELS])
    others()
