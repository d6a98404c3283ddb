"""What a replay costs in Python: programs of 1 to 1,000 kernels, and with many captured tensors.

    python bench/jit.py

Times are the least of many repetitions of CPU time of the calling thread, kernels included: they work on a few numbers.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from whit import Context, Tensor, TinyJit, nn


def least(run: Callable[[], Any], times: int = 400) -> float:
    """Microseconds of the quickest of many runs."""
    best = float("inf")
    for _ in range(times):
        start = time.thread_time_ns()
        run()
        best = min(best, time.thread_time_ns() - start)
    return best / 1000


def chain(count: int) -> tuple[Any, tuple[Tensor, ...]]:
    """A program of so many kernels: each needs all of the one before."""

    def f(x: Tensor) -> Tensor:
        for _ in range(count - 1):
            x = (x + x.sum()).contiguous()
        return x * 2

    return TinyJit(f), (Tensor([1e-3] * 4).realize(),)


def weights(count: int) -> tuple[Any, tuple[Tensor, ...]]:
    """A program that reads and writes so many captured tensors, in few kernels."""
    tensors = [Tensor([float(i)]).realize() for i in range(count)]

    def f(x: Tensor) -> None:
        for tensor in tensors:
            tensor.assign(tensor + x)

    return TinyJit(f), (Tensor([1.0]).realize(),)


def training(layers: int) -> tuple[Any, tuple[Tensor, ...]]:
    """A training step of so many small layers with Adam: six captured tensors a layer, and a result."""
    net = [nn.Linear(2, 2) for _ in range(layers)]
    optimizer = nn.optim.Adam([parameter for layer in net for parameter in nn.state.get_parameters(layer)])

    def f(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        for layer in net:
            x = layer(x).relu()
        loss = x.sum().backward()
        optimizer.step()
        return loss

    return TinyJit(f), (Tensor([[1.0, 2.0]]).realize(),)


PROGRAMS = (
    ("kernels", chain, (1, 10, 100, 1000)),
    ("written tensors", weights, (1, 10, 100, 300)),
    ("layers, Adam", training, (1, 10, 30)),
)


def measure(make: Callable[[int], tuple[Any, tuple[Tensor, ...]]], size: int) -> tuple[int, float]:
    """Kernels of a program, and microseconds of a call."""
    jit, arguments = make(size)
    for _ in range(3):
        jit(*arguments)
    return jit.kernels, least(lambda: jit(*arguments))


def main() -> None:
    """The table."""
    print("| program | kernels | us a call |\n|---|---|---|")
    with Context(THREADS=1):
        for name, make, sizes in PROGRAMS:
            for size in sizes:
                kernels, time_us = measure(make, size)
                print(f"| {size} {name} | {kernels} | {time_us:.1f} |", flush=True)


if __name__ == "__main__":
    main()
