"""What `cpu.py` runs: works by group, each written once for whit and once for PyTorch.

    main      the kernels that a network spends its time in beside matrix products, at sizes that memory limits
    matmul    four matrix products
    odd       short, odd and strided ones, other axes, bfloat16, gradients

The reference is NumPy in float64; where it is None, PyTorch in float64.
"""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from whit import Tensor

try:
    import torch
    import torch.nn.functional as f
except ImportError:
    torch = f = None  # type: ignore[assignment, unused-ignore]  # whether torch is installed

M = 1 << 20
Function = Callable[..., Any]


@dataclass
class Work:
    """One computation, written for each contestant over the same inputs."""

    name: str
    shapes: list[tuple[int, ...]]
    ours: Function
    theirs: Function
    reference: Function | None = None
    moved: int = 0  # bytes: inputs and outputs, each once
    below: int = 0  # the last input is integers below this, if it is given
    dtype: str = "float32"
    times: dict[str, float] = field(default_factory=dict)  # milliseconds of each contestant
    operations: int = 0  # of one run, as the kernels count them


# ---- references


def gelu_numpy(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))


def softmax_numpy(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def layernorm_numpy(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)


def cross_entropy_numpy(x: np.ndarray, i: np.ndarray) -> np.ndarray:
    top = x.max(1, keepdims=True)
    return np.mean(np.log(np.exp(x - top).sum(1)) + top[:, 0] - x[np.arange(len(x)), i])


def pool_numpy(x: np.ndarray) -> np.ndarray:
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    return np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::2, ::2].max((4, 5))


def added(a: np.ndarray, b: np.ndarray, i: np.ndarray) -> np.ndarray:
    result = a.copy()
    np.add.at(result, i.astype(np.int64), b)
    return result


# ---- groups


def same(name: str, shapes: list[tuple[int, ...]], both: Function, moved: int = 0, **more: Any) -> Work:
    """A work that is written alike for all: `reference` says if that goes for NumPy too."""
    return Work(name, shapes, both, both, moved=moved, **more)


def main_works() -> list[Work]:
    """The line of norms, reductions, scans, sorts and movements."""
    return [
        Work(
            "gelu chain 8M",
            [(8 * M,)] * 2,
            lambda a, b: (a * 2 + 1).gelu() * b + a,
            lambda a, b: f.gelu(a * 2 + 1, approximate="tanh") * b + a,
            lambda a, b: gelu_numpy(a * 2 + 1) * b + a,
            moved=3 * 32 * M,
        ),
        same("add 8M", [(8 * M,)] * 2, lambda a, b: a + b, 3 * 32 * M, reference=np.add),
        same("sum 16M", [(16 * M,)], lambda a: a.sum(), 64 * M, reference=np.sum),
        same("sum axis 0 4096^2", [(4096, 4096)], lambda a: a.sum(0), 64 * M, reference=lambda a: a.sum(0)),
        same("sum axis 1 4096^2", [(4096, 4096)], lambda a: a.sum(1), 64 * M, reference=lambda a: a.sum(1)),
        same("softmax 2048x4096", [(2048, 4096)], lambda a: a.softmax(1), 2 * 32 * M, reference=softmax_numpy),
        Work(
            "layernorm 2048x1024",
            [(2048, 1024)],
            lambda a: a.layernorm(),
            lambda a: f.layer_norm(a, (1024,)),
            layernorm_numpy,
            moved=2 * 8 * M,
        ),
        Work(
            "rmsnorm 2048x1024",
            [(2048, 1024), (1024,)],
            lambda a, w: a * (a.square().mean(1, keepdim=True) + 1e-5).rsqrt() * w,
            lambda a, w: f.rms_norm(a, (1024,), w, 1e-5),
            lambda a, w: a / np.sqrt((a**2).mean(1, keepdims=True) + 1e-5) * w,
            moved=2 * 8 * M,
        ),
        Work(
            "cross entropy 512x32000",
            [(512, 32000), (512,)],
            lambda a, i: a.cross_entropy(i),
            lambda a, i: f.cross_entropy(a, i),
            cross_entropy_numpy,
            moved=4 * 512 * 32000,
            below=32000,
        ),
        Work(
            "max pool 32x64x56^2",
            [(32, 64, 56, 56)],
            lambda a: a.max_pool2d(3, 2, padding=1),
            lambda a: f.max_pool2d(a, 3, 2, 1),
            pool_numpy,
            moved=4 * 32 * 64 * (56**2 + 28**2),
        ),
        same("transpose 2048^2", [(2048, 2048)], lambda a: a.T.contiguous(), 2 * 16 * M, reference=np.transpose),
        same("cumsum 256x8192", [(256, 8192)], lambda a: a.cumsum(1), 2 * 8 * M, reference=lambda a: a.cumsum(1)),
        same("sort 1M", [(M,)], lambda a: a.sort(), 4 * M + 12 * M, reference=np.sort),
        same(
            "topk 256x8192, 10",
            [(256, 8192)],
            lambda a: a.topk(10),
            8 * M,
            reference=lambda a: np.sort(a, 1)[:, :-11:-1],
        ),
        same(
            "gather 4096 rows of 512",
            [(32000, 512), (4096,)],
            lambda a, i: a[i],
            2 * 8 * M,
            reference=lambda a, i: a[i],
            below=32000,
        ),
        same(
            "scatter-add 4096 rows of 512",
            [(32000, 512), (4096, 512), (4096,)],
            lambda a, b, i: a.index_add(0, i, b),
            2 * 4 * 32000 * 512 + 8 * M,
            reference=added,
            below=32000,
        ),
        Work(
            "cat 4 of 1024x1024, axis 1",
            [(1024, 1024)] * 4,
            lambda *a: Tensor.cat(*a, dim=1),
            lambda *a: torch.cat(a, 1),
            lambda *a: np.concatenate(a, 1),
            moved=2 * 16 * M,
        ),
        Work(
            "cat 8 of 1M",
            [(M,)] * 8,
            lambda *a: Tensor.cat(*a),
            lambda *a: torch.cat(a),
            lambda *a: np.concatenate(a),
            moved=2 * 32 * M,
        ),
    ]


def matmul_works() -> list[Work]:
    """Products: `contractions.py` has many more."""
    sizes = {"512^3": (512,) * 3, "1024^3": (1024,) * 3, "2048^3": (2048,) * 3, "1000x777x999": (1000, 777, 999)}
    return [
        same(f"matmul {name}", [(m, k), (k, n)], lambda a, b: a @ b, 4 * (m * k + k * n + m * n), reference=np.matmul)
        for name, (m, k, n) in sizes.items()
    ]


def odd_works() -> list[Work]:
    """Where others, or we, may have a cliff."""
    return [*_odd_reductions(), *_odd_movements(), *_odd_places(), *_odd_gradients()]


def _odd_reductions() -> list[Work]:
    d = 4 * 4096 * 768
    weights: list[tuple[int, ...]] = [(768,), (768,)]
    return [
        same("softmax 65536x10", [(65536, 10)], lambda a: a.softmax(1), 2 * 4 * 65536 * 10),
        same("softmax 4096x197", [(4096, 197)], lambda a: a.softmax(1), 2 * 4 * 4096 * 197),
        same("softmax axis 0 1024x1000", [(1024, 1000)], lambda a: a.softmax(0), 2 * 4 * 1024000),
        same("log softmax 1024x1000", [(1024, 1000)], lambda a: a.log_softmax(1), 2 * 4 * 1024000),
        same("logsumexp 1024x1000", [(1024, 1000)], lambda a: a.logsumexp(1), 4 * 1024000),
        same("sum middle axis 64x512x512", [(64, 512, 512)], lambda a: a.sum(1), 64 * M),
        same("sum axis 1 of 65536x10", [(65536, 10)], lambda a: a.sum(1), 4 * 65536 * 11),
        same("sum axes 0, 2 of 32x64x3136", [(32, 64, 3136)], lambda a: a.sum((0, 2)), 4 * 32 * 64 * 3136),
        same("mean 2048x1024", [(2048, 1024)], lambda a: a.mean(1), 8 * M),
        same("var 2048x1024", [(2048, 1024)], lambda a: a.var(1), 8 * M),
        same("std axis 0 2048x1024", [(2048, 1024)], lambda a: a.std(0), 8 * M),
        same("argmax 4096x1000", [(4096, 1000)], lambda a: a.argmax(1), 4 * 4096000),
        same("argmax axis 0 4096x1000", [(4096, 1000)], lambda a: a.argmax(0), 4 * 4096000),
        same("max axis 1 4096x1000", [(4096, 1000)], lambda a: a.amax(1) if f and torch.is_tensor(a) else a.max(1)),
        Work(
            "layernorm 4096x768, weights",
            [(4096, 768), *weights],
            lambda a, w, b: a.layernorm() * w + b,
            lambda a, w, b: f.layer_norm(a, (768,), w, b),
            moved=2 * d,
        ),
        Work(
            "layernorm 4096x768, bfloat16",
            [(4096, 768), *weights],
            lambda a, w, b: a.float().layernorm().bfloat16() * w + b,
            lambda a, w, b: f.layer_norm(a, (768,), w, b),
            moved=d,
            dtype="bfloat16",
        ),
        same("softmax 4096x768, bfloat16", [(4096, 768)], lambda a: a.softmax(1), d, dtype="bfloat16"),
        same("sum axis 1 4096x768, bfloat16", [(4096, 768)], lambda a: a.sum(1), d // 2, dtype="bfloat16"),
        same("add 8M, bfloat16", [(8 * M,)] * 2, lambda a, b: a + b, 3 * 16 * M, dtype="bfloat16"),
        same("relu 8M", [(8 * M,)], lambda a: a.relu(), 2 * 32 * M),
        same("add a row 4096x1024", [(4096, 1024), (1024,)], lambda a, b: a + b, 2 * 16 * M),
        same("scale by a column 4096x1024", [(4096, 1024), (4096, 1)], lambda a, b: a * b, 2 * 16 * M),
        same("outer sum 2048^2", [(2048, 1), (1, 2048)], lambda a, b: a + b, 16 * M),
        same("cumsum axis 0 8192x256", [(8192, 256)], lambda a: a.cumsum(0), 2 * 8 * M),
        same("cumsum 4M", [(4 * M,)], lambda a: a.cumsum(0), 2 * 16 * M),
    ]


def _odd_movements() -> list[Work]:
    square = 2 * 4 * 2047 * 1999
    return [
        same("transpose 2047x1999", [(2047, 1999)], lambda a: a.T.contiguous(), square),
        same("transpose 16384x64", [(16384, 64)], lambda a: a.T.contiguous(), 2 * 4 * M),
        same("permute 021 of 32x197x768", [(32, 197, 768)], lambda a: a.permute(0, 2, 1).contiguous(), 8 * 4841472),
        same("permute 102 of 512x16x768", [(512, 16, 768)], lambda a: a.permute(1, 0, 2).contiguous(), 8 * 6291456),
        same("permute 210 of 128x96x200", [(128, 96, 200)], lambda a: a.permute(2, 1, 0).contiguous(), 8 * 2457600),
        same("heads 8x512x12x64", [(8, 512, 12, 64)], lambda a: a.permute(0, 2, 1, 3).contiguous(), 8 * 3145728),
        same("NCHW to NHWC 32x64x56^2", [(32, 64, 56, 56)], lambda a: a.permute(0, 2, 3, 1).contiguous(), 8 * 6422528),
        same("transpose 2048^2, bfloat16", [(2048, 2048)], lambda a: a.T.contiguous(), 16 * M, dtype="bfloat16"),
        Work(
            "cat 3 of 4096x64, last axis",
            [(4096, 64)] * 3,
            lambda *a: Tensor.cat(*a, dim=1),
            lambda *a: torch.cat(a, 1),
            moved=2 * 3 * M,
        ),
        Work(
            "cat 1000x33 and 1000x31",
            [(1000, 33), (1000, 31)],
            lambda *a: Tensor.cat(*a, dim=1),
            lambda *a: torch.cat(a, 1),
        ),
        Work("stack 4 of 1M", [(M,)] * 4, lambda *a: Tensor.stack(*a), lambda *a: torch.stack(a), moved=2 * 16 * M),
        Work(
            "stack 4 of 1M, last axis",
            [(M,)] * 4,
            lambda *a: Tensor.stack(*a, dim=-1),
            lambda *a: torch.stack(a, -1),
            moved=2 * 16 * M,
        ),
        same("flip 2048^2", [(2048, 2048)], lambda a: a.flip(1).contiguous(), 2 * 16 * M),
        same("roll 2048^2", [(2048, 2048)], lambda a: a.roll(5, 1).contiguous(), 2 * 16 * M),
        Work(
            "pad 32x64x56^2",
            [(32, 64, 56, 56)],
            lambda a: a.pad((1, 1, 1, 1)).contiguous(),
            lambda a: f.pad(a, (1, 1, 1, 1)),
            moved=4 * 32 * 64 * (56**2 + 58**2),
        ),
        same("tril 2048^2", [(2048, 2048)], lambda a: a.tril(), 2 * 16 * M),
        same("every second 8M", [(8 * M,)], lambda a: a[::2].contiguous(), 32 * M + 16 * M),
    ]


def _odd_places() -> list[Work]:
    return [
        same("gather 65536 rows of 8", [(100000, 8), (65536,)], lambda a, i: a[i], below=100000),
        same("gather 65536 numbers", [(100000,), (65536,)], lambda a, i: a[i], below=100000),
        same("gather along axis 1, 4096x1000", [(4096, 1000), (4096, 100)], lambda a, i: a.gather(1, i), below=1000),
        same(
            "index_add 65536 rows of 8",
            [(100000, 8), (65536, 8), (65536,)],
            lambda a, b, i: a.index_add(0, i, b),
            below=100000,
        ),
        Work(
            "scatter-add 1M into 1000",
            [(1000,), (M,), (M,)],
            lambda a, b, i: a.scatter_reduce(0, i, b, "sum"),
            lambda a, b, i: a.scatter_add(0, i, b),
            below=1000,
        ),
        same("topk 4096x1000, 5", [(4096, 1000)], lambda a: a.topk(5), 4 * 4096000),
        same("topk 1M, 10", [(M,)], lambda a: a.topk(10), 4 * M),
        same("sort rows 256x8192", [(256, 8192)], lambda a: a.sort(1), 8 * M),
        same("sort rows 4096x100", [(4096, 100)], lambda a: a.sort(1), 4 * 409600),
        same("sort axis 0 1000x256", [(1000, 256)], lambda a: a.sort(0), 4 * 256000),
        same("nonzero 1M", [(M,)], lambda a: (a > 1).nonzero(), 4 * M),
        same("masked select 1M", [(M,)], lambda a: a.masked_select(a > 1), 4 * M),
    ]


def _gradient(function: Function, *given: Any, of: int = 0) -> Any:
    """The gradient of the sum of the cubes of a result, by either: that of the squares is 0 for norms."""
    if torch is None or not torch.is_tensor(given[0]):
        return _cubes(function(*given)).gradient(given[of])[0]
    with torch.enable_grad():
        leaves = [x.detach().requires_grad_(x.is_floating_point()) for x in given]
        return torch.autograd.grad(_cubes(function(*leaves)), leaves[of])[0]


def _cubes(result: Any) -> Any:
    return (result * result * result).sum()


def _odd_gradients() -> list[Work]:
    def graded(
        name: str, shapes: list[tuple[int, ...]], ours: Function, theirs: Function | None = None, below: int = 0
    ) -> Work:
        def of(function: Function) -> Function:
            return lambda *given: _gradient(function, *given)

        return Work(f"d {name}", shapes, of(ours), of(theirs or ours), below=below)

    return [
        graded(
            "max pool 32x64x56^2",
            [(32, 64, 56, 56)],
            lambda a: a.max_pool2d(3, 2, padding=1),
            lambda a: f.max_pool2d(a, 3, 2, 1),
        ),
        graded("max pool 2 of 32x64x56^2", [(32, 64, 56, 56)], lambda a: a.max_pool2d(2), lambda a: f.max_pool2d(a, 2)),
        graded("avg pool 2 of 32x64x56^2", [(32, 64, 56, 56)], lambda a: a.avg_pool2d(2), lambda a: f.avg_pool2d(a, 2)),
        graded("embedding 4096 of 32000x512", [(32000, 512), (4096,)], lambda a, i: a[i], below=32000),
        graded("softmax 2048x1024", [(2048, 1024)], lambda a: a.softmax(1)),
        graded("layernorm 2048x1024", [(2048, 1024)], lambda a: a.layernorm(), lambda a: f.layer_norm(a, (1024,))),
        graded(
            "cross entropy 512x32000",
            [(512, 32000), (512,)],
            lambda a, i: a.cross_entropy(i),
            lambda a, i: f.cross_entropy(a, i),
            below=32000,
        ),
        graded("cumsum 256x8192", [(256, 8192)], lambda a: a.cumsum(1)),
    ]


GROUPS: dict[str, Callable[[], list[Work]]] = {"main": main_works, "matmul": matmul_works, "odd": odd_works}
