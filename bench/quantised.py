"""Packed weights beside the time it takes to read their bytes, and products of bytes and small floats beside PyTorch.

    python bench/quantised.py                    all
    python bench/quantised.py packed --threads 2
    python bench/quantised.py products

Packed: a vector (or more rows) times a 4096 x 4096 weight, from several copies of the weight in turn, so that no cache
holds it; the floor is the sum of as many bytes of float32 from as many copies, in the same turns. Kernels alone, least
of many runs: by the processor's time with one thread, so that a machine that others use can run it, by the clock with
more. Every result is compared with NumPy's before it is timed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import whit.engine.devices.cpu as engine
from whit import Context, Tensor, dtypes
from whit.nn.state.gguf_blocks import KINDS

RNG = np.random.default_rng(0)
SIDE, COPIES = 4096, 8
OFFSETS = {"Q4_0": (0,), "Q8_0": (0,), "Q4_K": (0, 2), "Q6_K": (208,)}  # places of scales in a block
PACKED = {kind.name: kind for kind in KINDS.values()}


class Clock:
    """The time of kernels alone."""

    def __init__(self, threads: int) -> None:
        self.now = time.thread_time if threads == 1 else time.perf_counter
        self.spent, self.launch = 0.0, engine._launch
        engine._launch = self.timed  # type: ignore[assignment]

    def timed(self, *arguments: Any) -> None:
        start = self.now()
        self.launch(*arguments)
        self.spent += self.now() - start

    def of(self, work: Callable[[], Any]) -> float:
        self.spent = 0.0
        work()
        return self.spent

    def of_other(self, work: Callable[[], Any]) -> float:
        start = self.now()
        work()
        return self.now() - start


def packed_row(name: str, rows: int, clock: Clock, seconds: float) -> str:
    kind = PACKED[name]
    unpack = kind.unpack
    assert unpack is not None
    raw = RNG.integers(0, 256, (SIDE * SIDE // kind.elements, kind.nbytes), np.uint8)
    for place in OFFSETS[name]:
        raw[:, place : place + 2] = np.full((len(raw), 1), 0.01, np.float16).view(np.uint8)
    x = RNG.standard_normal((rows, SIDE)).astype(np.float32)
    given = Tensor(x).realize()
    weights = [Tensor(raw).realize() for _ in range(COPIES)]
    floats = [Tensor(np.ones(raw.nbytes // 4, np.float32)).realize() for _ in range(COPIES)]
    want = x @ unpack(Tensor(raw)).reshape(SIDE, SIDE).numpy().T
    error = np.max(np.abs((given @ unpack(weights[0]).reshape(SIDE, SIDE).T).numpy() - want)) / np.max(np.abs(want))
    if not error < 1e-5:
        raise SystemExit(f"{name} is wrong by {error}")
    best, floor, end = float("inf"), float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        for weight in weights:
            best = min(best, clock.of((given @ unpack(weight).reshape(SIDE, SIDE).T).realize))
        for array in floats:
            floor = min(floor, clock.of(array.sum().realize))
    bandwidth = f"{raw.nbytes / best / 1e9:.1f} | {raw.nbytes / floor / 1e9:.1f} | {floor / best:.2f}"
    return f"| {name}, {rows} rows | {best * 1e3:.2f} | {floor * 1e3:.2f} | {bandwidth} |"


def product_row(name: str, layout: str, size: int, clock: Clock, seconds: float) -> str:
    dtype = {"int8": torch.int8, "bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}[name]
    reach = (-128, 128) if name == "int8" else (-4, 5)  # sums that float16 can hold
    a, b = (RNG.integers(*reach, (size, size)).astype(np.int8) for _ in range(2))
    turned = layout == "nt"
    left, right = (Tensor(x).cast(name).realize() for x in (a, b))
    first, second = (torch.from_numpy(x).to(dtype) for x in (a, b))

    def ours() -> Tensor:
        return left.matmul(right.T if turned else right, dtype=dtypes.int32 if name == "int8" else None)

    def theirs() -> Any:
        other = second.T if turned else second
        return torch._int_mm(first, other) if name == "int8" else first @ other

    want = a.astype(np.float64) @ (b.T if turned else b)
    error = np.max(np.abs(ours().float().numpy() - want)) / np.max(np.abs(want))
    if not error <= {"int8": 1e-7, "float32": 1e-5}.get(name, 1e-2):
        raise SystemExit(f"{name} is wrong by {error}")
    best, their_best, end = float("inf"), float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        best = min(best, clock.of(ours().realize))
        their_best = min(their_best, clock.of_other(theirs)) if name != "float16" else float("nan")
    speed = f"{their_best / best:.2f} | {2 * size**3 / best / 1e9:.0f}"
    return f"| {name} {size}^3 {layout} | {best * 1e3:.2f} | {their_best * 1e3:.2f} | {speed} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", default=["packed", "products"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--rows", type=int, nargs="*", default=[1, 8, 32], help="of what is multiplied by packed weights"
    )
    parser.add_argument("--seconds", type=float, default=2.0, help="time for each work")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    clock = Clock(options.threads)
    with Context(THREADS=options.threads):
        if "packed" in options.groups:
            print("| work | whit ms | floor ms | whit GB/s | read GB/s | part of floor |\n|---|---|---|---|---|---|")
            for rows in options.rows:
                for name in ("Q4_0", "Q8_0", "Q4_K", "Q6_K"):
                    print(packed_row(name, rows, clock, options.seconds), flush=True)
        if "products" in options.groups:
            print("\n| work | whit ms | torch ms | ratio | whit GOP/s |\n|---|---|---|---|---|")
            for name in ("float32", "int8", "bfloat16", "float16"):
                for layout in ("nn", "nt"):
                    print(product_row(name, layout, 1024, clock, options.seconds), flush=True)


if __name__ == "__main__":
    main()
