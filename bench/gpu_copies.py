"""Copies between the machine and a GPU, by whit and by PyTorch: GB/s, the best of several, on the clock of the host.

python bench/gpu_copies.py
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from whit import Device, Tensor, TinyJit
from whit.runtime import blocks

try:
    import torch
except ImportError:
    torch = None

REPEATS = 6
SIZES = (1 << 20, 1 << 24, 1 << 26, 1 << 28)


def rate(nbytes: int, run: Callable[[], Any]) -> float:
    """GB/s of the fastest run."""
    run()
    best = float("inf")
    for _ in range(REPEATS):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return nbytes / best / 1e9


def ours(nbytes: int) -> dict[str, float]:
    """By whit: new tensors, arrays, and inside a program."""
    wait = Device["CUDA"].synchronize
    data = np.ones(nbytes // 4, np.float32)
    there, here = Tensor(data, device="CUDA").realize(), Tensor(data, device="CPU").realize()
    up, down = TinyJit(lambda x: x.to("CUDA") + 1), TinyJit(lambda x: (x + 1).to("CPU")[:16] * 1)

    def into_new_memory() -> None:
        blocks.release()
        there.numpy()

    return {
        "up": rate(nbytes, lambda: (Tensor(data, device="CUDA").realize(), wait())),
        "down": rate(nbytes, there.numpy),
        "down, new memory": rate(nbytes, into_new_memory),
        "up in a program": rate(nbytes, lambda: (up(here), wait())),
        "down in a program": rate(nbytes, lambda: down(there)),
    }


def theirs(nbytes: int) -> dict[str, float]:
    """By PyTorch, of memory that is not pinned, and that is."""
    here = torch.ones(nbytes // 4)
    pinned, there = here.pin_memory(), here.cuda()
    wait = torch.cuda.synchronize
    return {
        "torch up": rate(nbytes, lambda: (here.cuda(), wait())),
        "torch down": rate(nbytes, there.cpu),
        "torch up, pinned": rate(nbytes, lambda: (pinned.cuda(), wait())),
    }


if __name__ == "__main__":
    print(Device["CUDA"].gpu.name)  # type: ignore[attr-defined]
    for nbytes in SIZES:
        found = ours(nbytes) | (theirs(nbytes) if torch is not None else {})
        print(
            f"{nbytes >> 20:4d} MiB  " + "   ".join(f"{name} {value:.1f}" for name, value in found.items()), flush=True
        )
