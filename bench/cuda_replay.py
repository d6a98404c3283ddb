"""What a replay costs on the device CUDA, and whether copies run beside kernels.

    python bench/cuda_replay.py

Python is CPU time of the calling thread, the least of many calls, without waiting for the GPU. Beside it the same when
kernels are started one by one, as they are where memory is not aligned, and the time of the GPU by events.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from whit import Device, Tensor, TinyJit, Variable
from whit.engine.devices import cuda_resident
from whit.engine.programs import program

CALLS = 200
LANES = cuda_resident.LANES


def python_time(run: Callable[[], Any]) -> float:
    """Microseconds of Python in the quickest of many calls."""
    best = float("inf")
    for i in range(CALLS):
        start = time.thread_time_ns()
        kept = run()
        best = min(best, time.thread_time_ns() - start)
        del kept
        if i % 10 == 0:
            Device["CUDA"].synchronize()
    return best / 1e3


def gpu_time(run: Callable[[], Any]) -> float:
    """Microseconds from the first kernel to the last, of a few calls in a row."""
    gpu = Device["CUDA"].gpu  # type: ignore[attr-defined]
    best = float("inf")
    for _ in range(20):
        start = gpu.event()
        _kept = [run() for _ in range(4)]
        best = min(best, gpu.event().since(start) / 4)
    return best * 1e6


@contextmanager
def one_by_one() -> Iterator[None]:
    """Programs that are captured inside start their kernels from Python."""
    before, program.can_submit = program.can_submit, lambda *_: False  # type: ignore[attr-defined]
    try:
        yield
    finally:
        program.can_submit = before  # type: ignore[attr-defined]


def chain(count: int) -> Callable[[Tensor], Tensor]:
    def f(x: Tensor) -> Tensor:
        for _ in range(count - 1):
            x = (x + x.sum()).contiguous()
        return x * 2

    return f


def wide(count: int) -> Callable[[Tensor], Tensor]:
    """Kernels that all read the argument, and nothing of each other."""

    def f(x: Tensor) -> Tensor:
        parts = [(x * (i + 2)).sum(0, keepdim=True).contiguous() for i in range(count - 1)]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total

    return f


def row(name: str, function: Callable[..., Any], arguments: Callable[[], tuple[Any, ...]]) -> None:
    """One line: with the graph, with other arguments in every call, one by one."""
    first, second = arguments(), arguments()
    turn = [first, second]
    with one_by_one():
        plain = TinyJit(lambda *args: function(*args))
        plain(*first)
        before = python_time(lambda: plain(*first))
        alone = gpu_time(lambda: plain(*first))
    step = TinyJit(lambda *args: function(*args))
    step(*first)
    same = python_time(lambda: step(*first))

    def other() -> Any:
        turn.reverse()
        return step(*turn[0])

    changed = python_time(other)
    beside = f"{gpu_time(lambda: step(*first)):9.1f} {alone:9.1f}"
    print(f"{name:28s} {step.kernels:6d} {same:9.1f} {changed:9.1f} {before:9.1f}   {beside}", flush=True)


def replays() -> None:
    print("program                      kernels   same us  other us   1 by 1      GPU us    1 by 1")

    def vector() -> tuple[Any, ...]:
        return (Tensor(np.full(1024, 1e-3, np.float32), device="CUDA").realize(),)

    def square() -> tuple[Any, ...]:
        return (Tensor.ones(512, 512, device="CUDA").contiguous().realize(),)

    for count in (1, 10, 100, 1000):
        row(f"a chain of {count}", chain(count), vector)
    for most in (1, 2, 4, 8, 64):
        cuda_resident.LANES = most
        row(f"100 side by side, {most} lanes", wide(100), square)
    cuda_resident.LANES = LANES
    row("10 side by side", wide(10), square)
    n = Variable("n", 1, 64)
    cache = Tensor.ones(64, 64, device="CUDA").contiguous().realize()

    def decode(x: Tensor, k: Any) -> Tensor:
        for _ in range(20):
            x = x + (cache[:k] @ x).softmax(0).sum(0)
        return x

    turn = [0]

    def symbolic() -> tuple[Any, ...]:
        turn[0] += 1
        return Tensor.ones(64, device="CUDA").contiguous().realize(), n.bind(turn[0])

    row("20 layers, a variable", decode, symbolic)


def overlap() -> None:
    """A copy of the argument to the GPU beside kernels that do not need it."""
    data = Tensor(np.ones((1 << 25,), np.float32)).realize()
    w = Tensor(np.full((4096, 4096), 1e-4, np.float32), device="CUDA").realize()

    def kernels(x: Tensor) -> Tensor:
        y = w
        for _ in range(4):
            y = (y @ w).contiguous()
        return y.sum()

    def both(x: Tensor) -> Tensor:
        return kernels(x) + x.to("CUDA").sum()

    def measured(function: Callable[[Tensor], Tensor]) -> float:
        step = TinyJit(function)
        step(data).item()
        best = float("inf")
        for _ in range(5):
            start = time.perf_counter()
            step(data).item()
            best = min(best, time.perf_counter() - start)
        return best * 1e3

    parts = {"kernels": kernels, "copy of 128 MiB": lambda x: x.to("CUDA").sum(), "both": both}
    times = {name: measured(function) for name, function in parts.items()}
    with one_by_one():
        times["both, one after the other"] = measured(lambda x: both(x))
    for name, milliseconds in times.items():
        print(f"{name:28s} {milliseconds:9.2f} ms", flush=True)


def loader() -> None:
    """A new batch for each step: the copy of the next one beside the kernels of the last one."""
    batches = [np.full((1 << 24,), i, np.float32) for i in range(3)]
    w = Tensor(np.full((4096, 4096), 1e-4, np.float32), device="CUDA").realize()

    @TinyJit
    def step(x: Tensor) -> Tensor:
        y = x.reshape(4096, 4096)
        for _ in range(2):
            y = (y @ w).contiguous()
        return y.sum()

    def seconds(new: bool, run: bool) -> float:
        x = Tensor(batches[0], device="CUDA").realize()
        step(x).item()
        start = time.perf_counter()
        for i in range(10):
            x = Tensor(batches[i % 3], device="CUDA").realize() if new else x
            result = step(x) if run else x
        Device["CUDA"].synchronize()
        del result
        return (time.perf_counter() - start) * 100

    for name, new, run in (("64 MiB for each step", True, False), ("steps", False, True), ("both", True, True)):
        print(f"{name:28s} {min(seconds(new, run) for _ in range(3)):9.2f} ms", flush=True)


if __name__ == "__main__":
    print(Device["CUDA"].gpu.name)  # type: ignore[attr-defined]
    replays()
    overlap()
    loader()
