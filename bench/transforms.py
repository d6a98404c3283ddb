"""What transforms cost beside what they are made of: batches, gradients of each example, Hessians times vectors.

    python bench/transforms.py              with PyTorch's torch.func beside it, where that is installed
    python bench/transforms.py --threads 1  one thread each

Every line says how many kernels run, its milliseconds, and those of the plain form that it stands beside. Calls are
captured. The least of many rounds, in turns.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from whit import Context, Tensor, TinyJit, grad, hvp, jacobian, nn, vmap

try:
    import torch
except ImportError:
    torch = None

Run = Callable[[], Any]
numbers = np.random.default_rng(0)
BATCH, WIDE, CLASSES = 64, 256, 10


def floats(*shape: int) -> np.ndarray:
    return np.asarray(numbers.standard_normal(shape) / shape[-1] ** 0.5, "float32")


def captured(function: Callable[..., Any], *args: Tensor) -> tuple[int, Run]:
    """Kernels of a captured function, and a call of it."""
    jit: Any = TinyJit(function)
    for _ in range(3):
        jit(*args)
    return jit.kernels, lambda: jit(*args)


WEIGHTS = [floats(WIDE, WIDE), floats(WIDE, WIDE), floats(CLASSES, WIDE)]


def network(library: Any, tensor: Callable[[np.ndarray], Any]) -> tuple[Callable[..., Any], list[Any]]:
    """A loss of an MLP with three layers as a function of its weights, and these."""

    def loss(weights: Any, x: Any, y: Any) -> Any:
        first, second, third = weights
        hidden = (x @ first.T).tanh()
        hidden = (hidden @ second.T).tanh()
        return library.functional.cross_entropy(hidden @ third.T, y)

    return loss, [tensor(weight) for weight in WEIGHTS]


def lines() -> dict[str, tuple[tuple[int, Run], tuple[int, Run]]]:
    """name -> the transform, and what it stands beside."""
    loss, weights = network(nn, lambda array: Tensor(array).realize())
    x, y = Tensor(floats(BATCH, WIDE)).realize(), Tensor(numbers.integers(0, CLASSES, BATCH)).realize()
    left, right = Tensor(floats(BATCH, WIDE, WIDE)).realize(), Tensor(floats(BATCH, WIDE, WIDE)).realize()
    directions = [Tensor(floats(*weight.shape)).realize() for weight in weights]
    gradient = captured(lambda *w: grad(loss)(list(w), x, y), *weights)

    def one(w: list[Tensor], x: Tensor, y: Tensor) -> Tensor:
        return loss(w, x.unsqueeze(0), y.unsqueeze(0))  # type: ignore[no-any-return]

    each = captured(lambda *w: vmap(grad(one), (None, 0, 0))(list(w), x, y), *weights)

    def norm(w: list[Tensor], x: Tensor, y: Tensor) -> Tensor:
        found: Any = grad(one)(w, x, y)
        total: Tensor = sum(part.square().sum() for part in found)
        return total

    norms = captured(lambda *w: vmap(norm, (None, 0, 0))(list(w), x, y), *weights)
    product = captured(lambda *w: hvp(lambda v: loss(v, x, y), (list(w),), (directions,)), *weights)
    small = Tensor(floats(32)).realize()
    matrix = Tensor(floats(32, 32)).realize()

    def curved(v: Tensor) -> Tensor:
        return (matrix @ v).tanh()

    return {
        "vmap of x @ y / the batched product": (
            captured(lambda a, b: vmap(lambda p, q: p @ q)(a, b), left, right),
            captured(lambda a, b: a @ b, left, right),
        ),
        "vmap of x @ w / one product": (
            captured(lambda a, b: vmap(lambda row: row @ b)(a), x, weights[0]),
            captured(lambda a, b: a @ b, x, weights[0]),
        ),
        "gradients of each example / of the batch": (each, gradient),
        "norms of gradients of each example / of the batch": (norms, gradient),
        "Hessian times vector / gradient": (product, gradient),
        "jacobian of 32 by 32 / the function": (
            captured(lambda v: jacobian(curved)(v), small),
            captured(curved, small),
        ),
    }


def theirs() -> dict[str, tuple[Run, Run]]:
    """The same by torch.func, eager."""
    if torch is None:
        return {}
    func, nothing = torch.func, (lambda: None)
    loss, weights = network(torch.nn, torch.from_numpy)
    x, y = torch.from_numpy(floats(BATCH, WIDE)), torch.from_numpy(numbers.integers(0, CLASSES, BATCH))
    directions = [torch.from_numpy(floats(*weight.shape)) for weight in weights]

    def one(w: Any, x: Any, y: Any) -> Any:
        return loss(w, x[None], y[None])

    def gradient() -> Any:
        return func.grad(loss)(weights, x, y)

    def product() -> Any:
        return func.jvp(func.grad(lambda w: loss(w, x, y)), (weights,), (directions,))

    return {
        "gradients of each example / of the batch": (
            lambda: func.vmap(func.grad(one), (None, 0, 0))(weights, x, y),
            gradient,
        ),
        "Hessian times vector / gradient": (product, gradient),
        "": (nothing, nothing),
    }


def least(runs: tuple[Run, ...], seconds: float) -> list[float]:
    """Milliseconds of the quickest call of each, in turns."""
    best = [float("inf")] * len(runs)
    for run in runs:
        run()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for place, run in enumerate(runs):
            for _ in range(5):
                start = time.perf_counter()
                run()
                best[place] = min(best[place], time.perf_counter() - start)
    return [seconds * 1000 for seconds in best]


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=0, help="how many; 0: all cores")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each line")
    options = parser.parse_args()
    if options.threads and torch is not None:
        torch.set_num_threads(options.threads)
    print("| transform / plain form | kernels | ms | plain ms | ratio | PyTorch's ms, plain, ratio |")
    print("|---|---|---|---|---|---|")
    with Context(THREADS=options.threads):
        others = theirs()
        for name, ((many, run), (few, plain)) in lines().items():
            here, beside, *there = least((run, plain, *others.get(name, ())), options.seconds)
            text = f"{there[0]:.3f}, {there[1]:.3f}, {there[0] / there[1]:.2f}" if there else ""
            print(f"| {name} | {many} / {few} | {here:.3f} | {beside:.3f} | {here / beside:.2f} | {text} |", flush=True)


if __name__ == "__main__":
    main()
