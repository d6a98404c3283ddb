"""Kernels on the CPU, beside PyTorch in the same run.

    python bench/cpu.py                 every work; torch eager and torch.compile where they are installed
    python bench/cpu.py softmax sum     only these
    python bench/cpu.py --no-compile    without torch.compile (its first calls take long)
    python bench/cpu.py --json          one JSON object instead of the table

Contestants take turns of a few runs; a number is the least of many runs. Every result is compared with NumPy before it
is timed.
"% of a copy" is the speed of moving the bytes against that of a copy measured in the same run.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from whit import Tensor

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]


TURN = 5  # runs of a contestant before the next: its threads are awake then, and those of the others asleep


@dataclass
class Work:
    """One computation, written for each contestant over the same inputs."""

    name: str
    shapes: list[tuple[int, ...]]
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    reference: Callable[..., np.ndarray]
    moved: int = 0  # bytes
    flops: int = 0
    below: int = 0  # the last input is integers below this, if it is given
    times: dict[str, float] = field(default_factory=dict)


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


def matmul(name: str, m: int, k: int, n: int) -> Work:
    shapes = [(m, k), (k, n)]
    return Work(name, shapes, lambda a, b: a @ b, lambda a, b: a @ b, lambda a, b: a @ b, flops=2 * m * k * n)


def added(a: np.ndarray, b: np.ndarray, i: np.ndarray) -> np.ndarray:
    result = a.copy()
    np.add.at(result, i.astype(np.int64), b)
    return result


def works() -> list[Work]:
    f = torch.nn.functional if torch is not None else None
    million = 1 << 20
    return [
        Work(
            "gelu chain 8M",
            [(8 * million,)] * 2,
            lambda a, b: (a * 2 + 1).gelu() * b + a,
            lambda a, b: f.gelu(a * 2 + 1, approximate="tanh") * b + a,
            lambda a, b: gelu_numpy(a * 2 + 1) * b + a,
            moved=3 * 32 * million,
        ),
        Work("add 8M", [(8 * million,)] * 2, lambda a, b: a + b, lambda a, b: a + b, np.add, moved=3 * 32 * million),
        Work("sum 16M", [(16 * million,)], lambda a: a.sum(), lambda a: a.sum(), np.sum, moved=64 * million),
        Work(
            "sum axis 0 4096^2",
            [(4096, 4096)],
            lambda a: a.sum(0),
            lambda a: a.sum(0),
            lambda a: a.sum(0),
            moved=64 * million,
        ),
        Work(
            "sum axis 1 4096^2",
            [(4096, 4096)],
            lambda a: a.sum(1),
            lambda a: a.sum(1),
            lambda a: a.sum(1),
            moved=64 * million,
        ),
        Work(
            "softmax 2048x4096",
            [(2048, 4096)],
            lambda a: a.softmax(1),
            lambda a: a.softmax(1),
            softmax_numpy,
            moved=2 * 32 * million,
        ),
        Work(
            "layernorm 2048x1024",
            [(2048, 1024)],
            lambda a: a.layernorm(),
            lambda a: f.layer_norm(a, (1024,)),
            layernorm_numpy,
            moved=2 * 8 * million,
        ),
        Work(
            "rmsnorm 2048x1024",
            [(2048, 1024), (1024,)],
            lambda a, w: a * (a.square().mean(1, keepdim=True) + 1e-5).rsqrt() * w,
            lambda a, w: f.rms_norm(a, (1024,), w, 1e-5),
            lambda a, w: a / np.sqrt((a**2).mean(1, keepdims=True) + 1e-5) * w,
            moved=2 * 8 * million,
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
        Work(
            "transpose 2048^2",
            [(2048, 2048)],
            lambda a: a.T.contiguous(),
            lambda a: a.T.contiguous(),
            lambda a: a.T,
            moved=2 * 16 * million,
        ),
        Work(
            "cumsum 256x8192",
            [(256, 8192)],
            lambda a: a.cumsum(1),
            lambda a: a.cumsum(1),
            lambda a: a.cumsum(1),
            moved=2 * 8 * million,
        ),
        Work("sort 1M", [(million,)], lambda a: a.sort(), lambda a: a.sort(), np.sort),
        Work(
            "topk 256x8192, 10",
            [(256, 8192)],
            lambda a: a.topk(10),
            lambda a: a.topk(10),
            lambda a: np.sort(a, 1)[:, :-11:-1],
        ),
        Work(
            "gather 4096 rows of 512",
            [(32000, 512), (4096,)],
            lambda a, i: a[i],
            lambda a, i: a[i],
            lambda a, i: a[i],
            moved=2 * 8 * million,
            below=32000,
        ),
        Work(
            "scatter-add 4096 rows of 512",
            [(32000, 512), (4096, 512), (4096,)],
            lambda a, b, i: a.index_add(0, i, b),
            lambda a, b, i: a.index_add(0, i, b),
            added,
            below=32000,
        ),
        Work(
            "cat 4 of 1024x1024, axis 1",
            [(1024, 1024)] * 4,
            lambda *a: Tensor.cat(*a, dim=1),
            lambda *a: torch.cat(a, 1),
            lambda *a: np.concatenate(a, 1),
            moved=2 * 16 * million,
        ),
        Work(
            "cat 8 of 1M",
            [(million,)] * 8,
            lambda *a: Tensor.cat(*a),
            lambda *a: torch.cat(a),
            lambda *a: np.concatenate(a),
            moved=2 * 32 * million,
        ),
        matmul("matmul 512^3", 512, 512, 512),
        matmul("matmul 1024^3", 1024, 1024, 1024),
        matmul("matmul 2048^3", 2048, 2048, 2048),
        matmul("matmul 1000x777x999", 1000, 777, 999),
    ]


def contestants(work: Work, arrays: list[np.ndarray], with_compile: bool) -> dict[str, Callable[[], Any]]:
    """What to call for each."""
    tensors = [Tensor(a).realize() for a in arrays]
    found: dict[str, Callable[[], Any]] = {"whit": lambda: realized(work.ours(*tensors))}
    if torch is not None:
        given = [torch.from_numpy(a) for a in arrays]
        found["torch"] = lambda: work.theirs(*given)
        if with_compile:
            compiled = torch.compile(work.theirs)
            found["compile"] = lambda: compiled(*given)
    return found


def realized(result: Any) -> Any:
    """A tensor, or several, computed together."""
    return Tensor.realize(*result) if isinstance(result, tuple) else result.realize()


def measure(work: Work, seconds: float, with_compile: bool) -> None:
    """Fills work.times with the least milliseconds of each contestant."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in work.shapes]
    if work.below:
        arrays[-1] = rng.integers(0, work.below, work.shapes[-1])
    calls = contestants(work, arrays, with_compile)
    wanted = work.reference(*(a.astype(np.float64) if a.dtype == np.float32 else a for a in arrays))
    for name, call in calls.items():
        result = call()
        result = result[0] if isinstance(result, tuple) else result  # of a sort, the values
        found = result.numpy() if hasattr(result, "numpy") else np.asarray(result)
        error = np.max(np.abs(found - wanted)) / max(np.max(np.abs(wanted)), 1e-9)
        if not error < 1e-4:
            raise SystemExit(f"{work.name}: {name} is wrong by {error}")
    best = dict.fromkeys(calls, float("inf"))
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, call in calls.items():
            for _ in range(TURN):
                start = time.perf_counter()
                call()
                best[name] = min(best[name], time.perf_counter() - start)
    work.times = {name: t * 1e3 for name, t in best.items()}


def copy_speed() -> float:
    """Bytes a second of a large copy on all cores, reads and writes counted."""
    a = Tensor(np.ones(1 << 24, np.float32)).realize()
    best = float("inf")
    for _ in range(20):
        start = time.perf_counter()
        (a + 1).realize()
        best = min(best, time.perf_counter() - start)
    return 2 * 4 * (1 << 24) / best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="parts of the names of the works to run")
    parser.add_argument("--seconds", type=float, default=2.0, help="time for each work")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if torch is not None:
        torch.set_grad_enabled(False)
    speed = copy_speed()
    chosen = [w for w in works() if not options.names or any(part in w.name for part in options.names)]
    for work in chosen:
        measure(work, options.seconds, not options.no_compile)
        if not options.json:
            print(row(work, speed), flush=True)
    if options.json:
        print(json.dumps({w.name: w.times for w in chosen}))


def row(work: Work, speed: float) -> str:
    """Times, the ratio to the best of the others, and to the floor."""
    ours = work.times["whit"]
    others = [t for name, t in work.times.items() if name != "whit"]
    text = f"{work.name:30}" + "".join(f"{name} {t:9.3f} ms  " for name, t in work.times.items())
    if others:
        text += f"{min(others) / ours:5.2f}x  "
    if work.moved:
        text += f"{work.moved / ours / 1e6:6.1f} GB/s, {work.moved / speed / ours * 1e5:3.0f} % of a copy"
    if work.flops:
        text += f"{work.flops / ours / 1e6:6.1f} GFLOP/s"
    return text


if __name__ == "__main__":
    main()
