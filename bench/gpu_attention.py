"""Attention on the device CUDA beside PyTorch on the same GPU. Results are checked; times are the best of many.

python bench/gpu_attention.py             attention and its gradients by tensor cores; errors against float64
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from itertools import product
from math import inf
from typing import Any

import numpy as np
import torch
from gpu import best_of_both, kernels_of

from whit import Context, Device, GlobalCounters, Tensor
from whit.dtype import dtypes

E4M3 = torch.float8_e4m3fn
OURS = {torch.bfloat16: dtypes.bfloat16, torch.float16: dtypes.float16, E4M3: dtypes.fp8e4m3}


def random(kind: Any, *shape: int, scale: float = 1.0) -> tuple[Any, Tensor]:
    """The same numbers on both sides; PyTorch, whose attention takes no fp8, has them as bfloat16."""
    t = (torch.randn(shape, device="cuda") * scale).to(kind)
    mine = Tensor(t.float().cpu().numpy(), device="CUDA").cast(OURS[kind]).realize()
    return (t.to(torch.bfloat16) if kind is E4M3 else t), mine


# batch, heads, heads of keys, length, depth, causal, dtype
ATTENTIONS = [
    (4, 16, 16, 4096, 128, True, torch.bfloat16),
    (16, 12, 12, 1024, 64, True, torch.bfloat16),
    (4, 16, 16, 4096, 128, False, torch.bfloat16),
    (4, 16, 16, 4096, 64, True, torch.bfloat16),
    (4, 16, 16, 4096, 128, True, torch.float16),
    (4, 32, 8, 2048, 128, True, torch.bfloat16),
    (2, 8, 8, 1000, 96, True, torch.bfloat16),
    (1, 8, 8, 4096, 256, True, torch.bfloat16),
    (4, 16, 16, 4096, 128, True, E4M3),
    (4, 16, 16, 4096, 128, False, E4M3),
    (16, 12, 12, 1024, 64, True, E4M3),
    (4, 32, 8, 2048, 128, True, E4M3),
    (1, 8, 8, 4096, 256, True, E4M3),
]

BY_HAND = ATTENTIONS[:2]  # written as products and a softmax, too


def by_hand(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal attention without its name."""
    seen = Tensor.ones(q.shape[-2], k.shape[-2], dtype=dtypes.bool, device="CUDA").tril()
    return seen.where(q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5, -inf).softmax(-1) @ v


def attention() -> int:
    """The result alone, then the result with all gradients; how many were wrong."""
    wrong = 0
    cases = [(shape, False) for shape in ATTENTIONS] + [(shape, True) for shape in BY_HAND]
    for (shape, is_by_hand), is_training in product(cases, (False, True)):
        try:
            wrong += attention_of(*shape, is_training, is_by_hand)  # type: ignore[call-arg]
        except Exception as error:  # one that fails must not hide the others
            wrong += 1
            print(f"{shape} {'training' if is_training else 'forward'}: {type(error).__name__}: {error}", flush=True)
    return wrong


def attention_of(
    batch: int,
    heads: int,
    shared: int,
    length: int,
    depth: int,
    is_causal: bool,
    kind: Any,
    is_training: bool,
    is_by_hand: bool = False,
) -> bool:
    """Prints a line; whether a result is wrong: further from float64 than twice as far as PyTorch's, or than the right
    one rounded to fp8."""
    shapes = [(batch, heads, length, depth), *[(batch, shared, length, depth)] * 2, (batch, heads, length, depth)]
    (a, q), (b, k), (c, v), (d, g) = (random(kind, *shape) for shape in shapes)
    leaves = [t.requires_grad_() for t in (a, b, c)]
    flags = {"is_causal": is_causal, "enable_gqa": heads != shared}

    def ours() -> list[Tensor]:
        out = by_hand(q, k, v) if is_by_hand else q.scaled_dot_product_attention(k, v, **flags)
        return [out, *out.gradient(q, k, v, gradient=g)] if is_training else [out]

    def theirs(tensors: Sequence[Any] = leaves, upstream: Any = d) -> list[Any]:
        if not is_training:
            with torch.no_grad():
                return [torch.nn.functional.scaled_dot_product_attention(*tensors, **flags)]
        out = torch.nn.functional.scaled_dot_product_attention(*tensors, **flags)
        return [out, *torch.autograd.grad(out, tensors, upstream)]

    start = time.perf_counter()
    with Context(CACHE=0):
        found, run, kernels = all_kernels_of(ours)
    first = time.perf_counter() - start
    ratio = max(further(found, None if kind is E4M3 else theirs(), leaves, d, flags, is_training))
    mine, other = best_of_both(run, theirs)
    passes = 3.5 if is_training else 1.0  # two products forward, five more for the gradients
    flops = passes * 4.0 * batch * heads * length * length * depth / (2 if is_causal else 1)
    name = f"{str(kind)[6:]} b{batch} h{heads}/{shared} t{length} d{depth}{' causal' if is_causal else ''}"
    name += " by hand" if is_by_hand else ""
    rates = [flops / seconds / 1e12 for seconds in (mine, other)]
    what = f"{'training' if is_training else 'forward':8s} {kernels} kernels, first call {first:.1f} s"
    verdict = "" if ratio < 2 else f"   WRONG: {ratio:.1f} times as far from float64 as torch"
    print(
        f"{name:42s} {what}  {mine * 1e3:8.3f} ms {rates[0]:5.0f} TFLOP/s   torch {other * 1e3:8.3f} ms {rates[1]:5.0f}"
        f"   {other / mine:5.2f}x   error {ratio:.2f} of torch's{verdict}",
        flush=True,
    )
    return bool(ratio >= 2)


def all_kernels_of(compute: Callable[[], list[Tensor]]) -> tuple[list[Tensor], Callable[[], None], int]:
    """As `kernels_of`, for several results; and how many kernels there are."""
    found: list[Tensor] = []

    def realized() -> Tensor:
        found.extend(compute())
        Tensor.realize(*found)
        return found[0]

    before = GlobalCounters.kernel_count
    _, run = kernels_of(realized)
    return found, run, GlobalCounters.kernel_count - before


def further(
    found: list[Tensor],
    theirs: list[Any] | None,
    leaves: Sequence[Any],
    upstream: Any,
    flags: dict[str, Any],
    trains: bool,
) -> list[float]:
    """How many times as far from float64 as PyTorch's each result is, by the root of the mean square: of one batch. If
    there are none of PyTorch, as the right ones rounded to fp8."""
    group = leaves[0].shape[1] // leaves[1].shape[1]
    a, b, c = (t[:1].detach().double() for t in leaves)
    a, b, c = (t.requires_grad_() for t in (a, b, c))
    scores = a @ b.repeat_interleave(group, 1).transpose(-1, -2) / a.shape[-1] ** 0.5
    if flags["is_causal"]:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf"))
    right = [scores.softmax(-1) @ c.repeat_interleave(group, 1)]
    if trains:
        right += torch.autograd.grad(right[0], (a, b, c), upstream[:1].double())
    ratios = []
    for mine, other, exact in zip(found, [t.to(E4M3) for t in right] if theirs is None else theirs, right, strict=True):
        near = torch.tensor(mine[:1].cast(dtypes.float32).numpy()).cuda().double()
        errors = [float((x.double() - exact.detach()).pow(2).mean().sqrt()) for x in (near, other[:1].detach())]
        ratios.append(errors[0] / max(errors[1], 1e-12) if np.isfinite(errors[0]) else float("inf"))
    return ratios


if __name__ == "__main__":
    print(f"{Device['CUDA'].gpu.name}, torch {torch.__version__}")  # type: ignore[attr-defined]
    wrong = attention()
    print(f"{wrong} wrong")
    sys.exit(bool(wrong))
