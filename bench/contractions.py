"""Matrix products, convolutions and their gradients on one core, beside PyTorch in the same run.

    python bench/contractions.py               all groups
    python bench/contractions.py matmul dw     only these

By the processor's time of one thread, of kernels alone, so that a machine that others use can run it. Contestants take
turns; a number is the least of many runs. Every result is compared with PyTorch's before it is timed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

import whit.engine.cpu as engine
from whit import Context, Tensor

Work = tuple[str, list[np.ndarray], Callable[..., Any], Callable[..., Any], int]
RNG = np.random.default_rng(0)


def random(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def matmul(m: int, k: int, n: int, layout: str = "nn", batch: int = 0) -> Work:
    lead = (batch,) if batch else ()
    a = random(*lead, m, k) if layout[0] == "n" else random(*lead, k, m)
    b = random(*lead, k, n) if layout[1] == "n" else random(*lead, n, k)

    def product(a: Any, b: Any) -> Any:
        return (a if layout[0] == "n" else a.T) @ (b if layout[1] == "n" else b.T)

    name = f"{f'{batch} of ' if batch else ''}{m}x{k}x{n} {layout}"
    return name, [a, b], product, product, 2 * max(batch, 1) * m * k * n


def conv(batch: int, c: int, o: int, size: int, k: int, s: int = 1, p: int = 0, g: int = 1, of: str = "y") -> Work:
    """A convolution, or the gradient of its input (x) or weight (w)."""
    out = (size + 2 * p - k) // s + 1
    arrays = [random(batch, c, size, size), random(o, c // g, k, k), random(batch, o, out, out)]

    def ours(x: Tensor, w: Tensor, d: Tensor) -> Tensor:
        y = x.conv2d(w, stride=s, padding=p, groups=g)
        return y if of == "y" else y.gradient(x if of == "x" else w, gradient=d)[0]

    def theirs(x: Any, w: Any, d: Any) -> Any:
        if of == "y":
            return torch.nn.functional.conv2d(x, w, stride=s, padding=p, groups=g)
        wanted = [of == "x", of == "w", False]
        sizes = ([s, s], [p, p], [1, 1], False, [0, 0], g, wanted)
        return torch.ops.aten.convolution_backward(d, x, w, None, *sizes)["xw".index(of)]

    what = {"y": "", "x": "dx ", "w": "dw "}[of]
    name = f"{what}{c}->{o} {k}x{k} s{s} p{p} of {batch}x{size}^2" + (f", {g} groups" if g > 1 else "")
    return name, arrays, ours, theirs, 2 * batch * o * (c // g) * k * k * out**2


CONVOLUTIONS: list[tuple[int, ...]] = [
    *((8, 64, 64, 56, 3, 1, 1), (8, 256, 64, 56, 1), (8, 128, 128, 56, 3, 1, 1, 128), (1, 3, 64, 224, 7, 2, 3)),
    *((64, 1, 32, 28, 5), (64, 32, 32, 24, 5), (64, 32, 64, 10, 3), (16, 64, 64, 32, 3, 1, 1)),
    *((16, 64, 128, 32, 3, 2, 1), (16, 64, 128, 32, 1, 2), (16, 256, 256, 8, 3, 1, 1), (16, 512, 512, 4, 3, 1, 1)),
]
GROUPS: dict[str, Callable[[], Sequence[Work]]] = {
    "matmul": lambda: [
        *(matmul(n, n, n) for n in (512, 1024, 2048)),
        *(matmul(1000, 777, 999), matmul(512, 512, 512, "nt"), matmul(512, 512, 512, "tn")),
    ],
    "small": lambda: [
        *(matmul(64, 64, 64, batch=64), matmul(64, 32, 64, batch=64), matmul(128, 784, 512, "nt")),
        *(matmul(128, 512, 10, "nt"), matmul(512, 128, 784, "tn")),
        *(matmul(m, 4096, 4096, layout) for m in (1, 8) for layout in ("nn", "nt")),
    ],
    "deep": lambda: [
        *(matmul(64, 25600, 64), matmul(64, 25600, 64, "nt"), matmul(32, 40000, 16, "tn"), matmul(256, 16384, 256)),
    ],
    "conv": lambda: [conv(*sizes) for sizes in CONVOLUTIONS],
    "dx": lambda: [conv(*sizes, of="x") for sizes in CONVOLUTIONS],
    "dw": lambda: [conv(*sizes, of="w") for sizes in CONVOLUTIONS],
}


def row(work: Work, seconds: float) -> str:
    name, arrays, ours, theirs, flops = work
    tensors, given = [Tensor(a).realize() for a in arrays], [torch.from_numpy(a) for a in arrays]
    spent, launch = 0.0, engine._launch

    def timed(*arguments: Any) -> None:
        nonlocal spent
        start = time.thread_time()
        launch(*arguments)
        spent += time.thread_time() - start

    wanted = theirs(*given).numpy()
    error = np.max(np.abs(ours(*tensors).numpy() - wanted)) / np.max(np.abs(wanted))
    if not error < 1e-4:
        raise SystemExit(f"{name} is wrong by {error}")
    engine._launch = timed
    best, their_best, end = float("inf"), float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        for _ in range(2):
            spent = 0.0
            ours(*tensors).realize()
            best = min(best, spent)
            start = time.thread_time()
            theirs(*given)
            their_best = min(their_best, time.thread_time() - start)
    engine._launch = launch
    speeds = f"{best * 1e3:.2f} | {their_best * 1e3:.2f} | {their_best / best:.2f} | {flops / best / 1e9:.0f}"
    return f"| {name} | {speeds} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", help=", ".join(GROUPS))
    parser.add_argument("--seconds", type=float, default=1.0, help="time for each work")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    print("| work | whit ms | torch ms | ratio | whit GFLOP/s |\n|---|---|---|---|---|")
    with Context(THREADS=1):
        for group in options.groups or GROUPS:
            for work in GROUPS[group]():
                print(row(work, options.seconds), flush=True)


if __name__ == "__main__":
    main()
