"""Matrix products, convolutions and their gradients, beside PyTorch in the same run.

    python bench/contractions.py                       all groups, on one thread
    python bench/contractions.py matmul dw             only these
    python bench/contractions.py models --threads 2    64 products of real models, on two threads

Of kernels alone. On one thread by the processor's time, so that a machine that others use can run it; on more by the
clock. Contestants take turns; a number is the least of many runs. Every result is compared with PyTorch's before it is
timed. "% of peak" is against multiply-adds in registers, measured in the same run. At the end: the geometric mean of
the ratios, and the worst of them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from model_shapes import SHAPES

import whit.engine.devices.cpu as engine
from whit import Context, Tensor
from whit.engine.report.roofline import peak_flops

Work = tuple[str, list[np.ndarray], Callable[..., Any], Callable[..., Any], int]
RNG = np.random.default_rng(0)
TURN = 3  # runs of a contestant before the next
WORST = 8  # ratios that the summary shows


def random(*shape: int) -> np.ndarray:
    return RNG.random(shape, np.float32) - np.float32(0.5)


def matmul(m: int, k: int, n: int, layout: str = "nn", batch: int = 0, model: str = "") -> Work:
    lead = (batch,) if batch else ()
    a = random(*lead, m, k) if layout[0] == "n" else random(*lead, k, m)
    b = random(*lead, k, n) if layout[1] == "n" else random(*lead, n, k)

    def product(a: Any, b: Any) -> Any:
        return (a if layout[0] == "n" else a.transpose(-1, -2)) @ (b if layout[1] == "n" else b.transpose(-1, -2))

    name = f"{model} {f'{batch} of ' if batch else ''}{m}x{k}x{n} {layout}".strip()
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
    *((1, 64, 64, 56, 3, 1, 1), (1, 256, 64, 56, 1), (1, 128, 128, 56, 3, 1, 1, 128), (1, 3, 64, 224, 7, 2, 3)),
    *((8, 64, 64, 56, 3, 1, 1), (8, 256, 64, 56, 1), (8, 128, 128, 56, 3, 1, 1, 128), (8, 3, 64, 224, 7, 2, 3)),
    *((64, 1, 32, 28, 5), (64, 32, 32, 24, 5), (64, 32, 64, 10, 3), (16, 64, 64, 32, 3, 1, 1)),
    *((16, 64, 128, 32, 3, 2, 1), (16, 64, 128, 32, 1, 2), (16, 256, 256, 8, 3, 1, 1), (16, 512, 512, 4, 3, 1, 1)),
]
PRODUCTS: dict[str, list[tuple[Any, ...]]] = {
    "matmul": [
        *((n, n, n) for n in (512, 1024, 2048)),
        *((1000, 777, 999), (512, 512, 512, "nt"), (512, 512, 512, "tn")),
    ],
    "small": [
        *((64, 64, 64, "nn", 64), (64, 32, 64, "nn", 64), (128, 784, 512, "nt"), (128, 512, 10, "nt")),
        *((m, 4096, 4096, layout) for m in (1, 2, 4, 8) for layout in ("nn", "nt")),
    ],
    "deep": [(64, 25600, 64), (64, 25600, 64, "nt"), (32, 40000, 16, "tn"), (256, 16384, 256)],
    "models": [(m, k, n, layout, batch, model) for model, batch, m, k, n, layout in SHAPES],
}


def works(group: str) -> Iterator[Work]:
    """The works of a group, made one after the other: their inputs would not fit into memory together."""
    if group in PRODUCTS:
        yield from (matmul(*sizes) for sizes in PRODUCTS[group])
    else:
        yield from (conv(*sizes, of=group[-1] if group != "conv" else "y") for sizes in CONVOLUTIONS)  # type: ignore[arg-type, misc]


GROUPS = (*PRODUCTS, "conv", "dx", "dw")


def measure(work: Work, seconds: float, clock: Callable[[], float]) -> tuple[float, float]:
    """The least seconds of whit's kernels and of PyTorch."""
    name, arrays, ours, theirs, _ = work
    tensors, given = [Tensor(a).realize() for a in arrays], [torch.from_numpy(a) for a in arrays]
    spent, launch = 0.0, engine._launch

    def timed(*arguments: Any) -> None:
        nonlocal spent
        start = clock()
        launch(*arguments)
        spent += clock() - start

    wanted = theirs(*given).numpy()
    error = np.max(np.abs(ours(*tensors).numpy() - wanted)) / np.max(np.abs(wanted))
    if not error < 1e-4:
        raise SystemExit(f"{name} is wrong by {error}")
    engine._launch = timed  # type: ignore[assignment]
    best, their_best, end = float("inf"), float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        for _ in range(TURN):
            spent = 0.0
            ours(*tensors).realize()
            best = min(best, spent)
        for _ in range(TURN):
            start = clock()
            theirs(*given)
            their_best = min(their_best, clock() - start)
    engine._launch = launch
    return best, their_best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", help=", ".join(GROUPS))
    parser.add_argument("--seconds", type=float, default=0.5, help="time for each work")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="", help="works with this in their name")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.set_grad_enabled(False)
    clock = time.thread_time if options.threads == 1 else time.perf_counter
    ratios: dict[str, float] = {}
    with Context(THREADS=options.threads):
        peak = peak_flops(0.3)
        print(f"peak: {peak / 1e9:.0f} GFLOP/s on {options.threads} threads\n")
        print("| work | whit ms | torch ms | ratio | whit GFLOP/s | % of peak |\n|---|---|---|---|---|---|")
        for work in (work for group in options.groups or GROUPS for work in works(group)):
            name, *_, flops = work
            if options.only not in name:
                continue
            ours, theirs = measure(work, options.seconds, clock)
            ratios[name] = theirs / ours
            speeds = f"{ratios[name]:.2f} | {flops / ours / 1e9:.0f} | {flops / ours / peak * 100:.0f}"
            print(f"| {name} | {ours * 1e3:.3f} | {theirs * 1e3:.3f} | {speeds} |", flush=True)
    mean = np.exp(np.mean(np.log(list(ratios.values()))))
    worst = sorted(ratios, key=lambda name: ratios[name])[:WORST]
    print(f"\ngeometric mean of {len(ratios)}: {mean:.2f}; {sum(r < 0.8 for r in ratios.values())} below 0.8")
    print("worst: " + "; ".join(f"{name} {ratios[name]:.2f}" for name in worst))


if __name__ == "__main__":
    main()
