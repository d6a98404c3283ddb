"""Matrix products on the device CUDA beside PyTorch (cuBLAS) on the same GPU. Results are checked; times are the best
of many.

python bench/gpu_products.py                 all tables of milliseconds and TFLOP/s
python bench/gpu_products.py models bytes    some of them: squares, models, small, around, bytes
"""

# mypy: disable-error-code="misc"
from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from gpu import best_of_both, kernels_of

from whit import Context, Device, Tensor
from whit.dtype import DType, dtypes

OURS: dict[Any, DType] = {
    torch.bfloat16: dtypes.bfloat16,
    torch.float16: dtypes.float16,
    torch.float32: dtypes.float32,
    torch.float8_e4m3fn: dtypes.fp8e4m3,
    torch.float8_e5m2: dtypes.fp8e5m2,
    torch.int8: dtypes.int8,
}
BITS = {1: (torch.uint8, dtypes.uint8), 2: (torch.int16, dtypes.int16), 4: (torch.int32, dtypes.int32)}
TOLERANCE = {torch.bfloat16: 1e-2, torch.float16: 2e-3, torch.float32: 1e-5}
BF16 = torch.bfloat16
CHECKED = 512  # rows of a result that are compared
SQUARES = [(BF16, (n, n, n)) for n in (4096, 8192)] + [(torch.float16, (n, n, n)) for n in (4096, 8192)]
EXACT = [(torch.float32, (4096, 4096, 4096)), (torch.float32, (2048, 2048, 2048))]
# rows, depth, columns: projections and MLPs of GPT-2 (16 x 1024 tokens), BERT (32 x 512) and Llama 8B
LLAMA = ((4096, 6144), (4096, 4096), (4096, 28672), (14336, 4096))
MODELS = [
    (4000, 3000, 5000),
    *((16384, k, n) for k, n in ((768, 2304), (768, 768), (768, 3072), (3072, 768), (768, 50304))),
    *((16384, k, n) for k, n in ((1024, 3072), (1024, 1024), (1024, 4096), (4096, 1024))),
    *((4096, k, n) for k, n in LLAMA),
    *((512, k, n) for k, n in LLAMA),
]
MORE = [(1024, 4096, 4096), (1024, 4096, 28672), (2048, 4096, 6144), (2048, 14336, 4096), (8192, 4096, 4096)]
# gradients of inputs are dy @ w.T, of weights x.T @ dy: GPT-2, BERT, Llama 8B
OF_INPUTS = [(16384, 2304, 768), (16384, 3072, 768), (16384, 768, 3072), (16384, 4096, 1024), (4096, 28672, 4096)]
OF_WEIGHTS = [(768, 16384, 2304), (768, 16384, 768), (768, 16384, 3072), (3072, 16384, 768), (4096, 4096, 4096)]
SMALL = [(m, 4096, n) for m in (17, 32, 64, 128) for n in (4096, 14336)]
HEADS = [(16 * 12, 1024, 64, 1024), (16 * 12, 1024, 1024, 64), (64, 4096, 128, 4096), (64, 4096, 4096, 128)]


def row(name: str, flops: float, compute: Callable[[], Tensor], theirs: Callable[[], Any], tolerance: float) -> float:
    """Prints a line; their time over ours."""
    result, run = kernels_of(compute)
    expected = theirs()[..., :CHECKED, :].float().cpu().numpy()
    ours, torch_time = best_of_both(run, theirs)
    got = result[..., :CHECKED, :].cast(dtypes.float32).numpy()
    error = float(np.abs(got - expected).max() / np.abs(expected).max())
    wrong = "" if error < tolerance else f"   WRONG: {error:.1e}"
    rates = [flops / seconds / 1e12 for seconds in (ours, torch_time)]
    mine, other = f"{ours * 1e3:8.3f} ms {rates[0]:6.0f} TFLOP/s", f"{torch_time * 1e3:8.3f} ms {rates[1]:6.0f}"
    print(f"{name:36s} {mine}   torch {other}   {torch_time / ours:5.2f}x{wrong}", flush=True)
    return torch_time / ours


def random(kind: Any, *shape: int, scale: float = 1.0) -> tuple[Any, Tensor]:
    """The same numbers on both sides."""
    numbers = torch.randn(shape, device="cuda") * scale
    t = (numbers * 32).clamp(-127, 127).to(kind) if kind is torch.int8 else numbers.to(kind)
    bits, ours = BITS[t.element_size()]
    return t, Tensor(t.view(bits).cpu().numpy(), dtype=ours, device="CUDA").bitcast(OURS[kind]).realize()


def mean(ratios: Sequence[float]) -> None:
    print(f"geometric mean {float(np.exp(np.mean(np.log(ratios)))):.3f}", flush=True)


def products(rows: Sequence[tuple[Any, Sequence[int]]], form: str = "a @ b", tolerance: float = 0.0) -> list[float]:
    """A table; their times over ours. A form with a T has that operand turned in memory."""
    ratios = []
    for kind, (*batch, m, k, n) in rows:
        (a, x), (b, y) = (
            random(kind, *batch, *(sizes[::-1] if f"{side}.T" in form else sizes))
            for side, sizes in (("a", (m, k)), ("b", (k, n)))
        )
        if "a.T" in form:
            a, x = a.mT, x.transpose(-1, -2)
        if "b.T" in form:
            b, y = b.mT, y.transpose(-1, -2)
        name = f"{str(kind)[6:]} {' x '.join(map(str, (*batch, m, k, n)))}" + (f", {form}" if "T" in form else "")
        flops = 2.0 * np.prod([*batch, m, n, k], dtype=np.float64)
        try:
            ratios.append(
                row(name, flops, lambda x=x, y=y: x @ y, lambda a=a, b=b: a @ b, tolerance or TOLERANCE[kind])
            )
        except Exception as error:  # one that fails must not hide the others
            print(f"{name}: {type(error).__name__}: {str(error)[:300]}", flush=True)
        del a, b, x, y
    return ratios


def squares() -> None:
    mean(products(SQUARES + EXACT))
    with Context(TF32=1):
        products(EXACT[:1], tolerance=1e-3)


def models() -> None:
    """32 shapes of three models, forward and both gradients."""
    found = products([(BF16, sizes) for sizes in (*MODELS[1:], *MORE)])
    found += products([(BF16, sizes) for sizes in OF_INPUTS], "a @ b.T")
    mean(found + products([(BF16, sizes) for sizes in OF_WEIGHTS], "a.T @ b"))


def small() -> None:
    """Few rows, and many small products."""
    products([(BF16, sizes) for sizes in SMALL])
    products([(BF16, sizes) for sizes in SMALL[2:6]], "a @ b.T")
    products([(BF16, sizes) for sizes in HEADS])
    products([(BF16, sizes) for sizes in ((4001, 4003, 4005), (4000, 3000, 5000), (4096, 4100, 4102))])


def around() -> None:
    """What is around a product."""
    kind, n = BF16, 4096
    (a, x), (b, y), (c, z), (d, u) = (
        random(kind, n, n), random(kind, n, n, scale=0.02), random(kind, n), random(kind, n, n))  # fmt: skip
    flops, tolerance = 2.0 * n**3, TOLERANCE[kind]
    functional = torch.nn.functional
    row("relu(a @ b + c)", flops, lambda: (x @ y + z).relu(), lambda: torch.relu(a @ b + c), tolerance)
    row("gelu(a @ b)", flops, lambda: (x @ y).gelu(), lambda: functional.gelu(a @ b, approximate="tanh"), tolerance)
    row("gelu(a @ d), large", flops, lambda: (x @ u).gelu(), lambda: functional.gelu(a @ d, approximate="tanh"), 1e-2)
    row("a @ b + c + d", flops, lambda: x @ y + z + u, lambda: a @ b + c + d, tolerance)
    row("silu(a @ b) * d", flops, lambda: (x @ y).silu() * u, lambda: functional.silu(a @ b) * d, tolerance)
    row("(a * 2) @ b", flops, lambda: (x * 2) @ y, lambda: (a * 2) @ b, tolerance)
    row("relu(a) @ b", flops, lambda: x.relu() @ y, lambda: a.relu() @ b, tolerance)
    row("a @ (b * 2)", flops, lambda: x @ (y * 2), lambda: a @ (b * 2), tolerance)
    row("layer norm(a) @ b", flops, lambda: x.layernorm() @ y, lambda: functional.layer_norm(a, (n,)) @ b, 2e-2)


def bytes_of_four() -> None:
    """fp8 (torch._scaled_mm with scales of 1, of bfloat16 results) and int8."""
    one = torch.ones((), device="cuda")
    for n in (4096, 8192):
        for left, right in ((torch.float8_e4m3fn,) * 2, (torch.float8_e4m3fn, torch.float8_e5m2)):
            (a, x), (b, y) = random(left, n, n), random(right, n, n)
            for fast in (False, True):
                row(
                    f"{str(left)[12:]} @ {str(right)[12:]}.T {n}, {'fast' if fast else 'exact'} torch", 2.0 * n**3,
                    lambda x=x, y=y: x.matmul(y.T, dtype=dtypes.bfloat16),
                    lambda a=a, b=b, fast=fast: torch._scaled_mm(
                        a, b.T, one, one, out_dtype=BF16, use_fast_accum=fast), 2e-2)  # fmt: skip
        (a, x), (b, y) = random(torch.int8, n, n), random(torch.int8, n, n)
        row(f"int8 a @ b.T {n}", 2.0 * n**3, lambda x=x, y=y: x @ y.T, lambda a=a, b=b: torch._int_mm(a, b.T), 1e-9)
        row(f"int8 a @ b {n}", 2.0 * n**3, lambda x=x, y=y: x @ y, lambda a=a, b=b: torch._int_mm(a, b), 1e-9)


TABLES = {"squares": squares, "models": models, "small": small, "around": around, "bytes": bytes_of_four}

if __name__ == "__main__":
    torch.backends.cuda.matmul.allow_tf32 = False
    print(f"{Device['CUDA'].gpu.name}, torch {torch.__version__}")  # type: ignore[attr-defined]
    for table in sys.argv[1:] or TABLES:
        TABLES[table]()
