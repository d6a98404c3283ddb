"""The self-check: are compiled kernels right, and how fast are they?

    result = self_check(quick=False)        # about two seconds
    result.ok, result.matmul_gflops, result.copy_gbs

Right means: a few kernels of different kinds give what the interpreter gives for the same graph.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from whit.engine.report.roofline import best_seconds
from whit.tensor import Tensor

TOLERANCE = 1e-5  # of the largest element: sums are added in another order

# name -> the computation, over float32 (12, 33) and (33, 17); small, because the interpreter is slow
CASES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "elementwise": lambda a, b: (a * 2 + 1).exp().sin() + a.abs().sqrt(),
    "sum": lambda a, b: a.sum(1),
    "softmax": lambda a, b: a.softmax(1),
    "matmul": lambda a, b: (a @ b).relu(),
    "gather": lambda a, b: a[:, Tensor([3, 0, 32], device=a.device)],
    "sort": lambda a, b: a.sort(1)[0],
}


@dataclass(frozen=True, slots=True)
class Case:
    """One comparison with the interpreter."""

    name: str
    error: float  # the largest difference, as a part of the largest element
    ok: bool


@dataclass(frozen=True, slots=True)
class Check:
    """What the self-check found."""

    cases: tuple[Case, ...]
    matmul_size: int
    matmul_gflops: float
    copy_bytes: int
    copy_gbs: float
    sum_gbs: float
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether every kernel is right."""
        return all(case.ok for case in self.cases)


def self_check(quick: bool = False) -> Check:
    """Compares and measures on the device CPU; `quick`: tiny sizes, for a look at whether it runs."""
    start = time.perf_counter()
    cases = compare()
    size, nbytes, seconds = (64, 1 << 16, 0.0) if quick else (1024, 1 << 26, 0.4)
    a = Tensor(np.ones((size, size), np.float32), device="CPU").realize()
    x = Tensor(np.ones(nbytes // 4, np.float32), device="CPU").realize()
    matmul = best_seconds(lambda: (a @ a).realize(), seconds)
    copy = best_seconds(lambda: (x + 1).realize(), seconds / 2)
    total = best_seconds(lambda: x.sum().realize(), seconds / 2)
    return Check(
        cases=cases,
        matmul_size=size,
        matmul_gflops=2 * size**3 / matmul / 1e9,
        copy_bytes=nbytes,
        copy_gbs=2 * nbytes / copy / 1e9,
        sum_gbs=nbytes / total / 1e9,
        seconds=time.perf_counter() - start,
    )


def compare() -> tuple[Case, ...]:
    """Every case on the device CPU and by the interpreter."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in ((12, 33), (33, 17))]
    cases = []
    for name, case in CASES.items():
        ours, wanted = (
            case(*[Tensor(array, device=device) for array in arrays]).numpy() for device in ("CPU", "PYTHON")
        )
        error = relative_error(ours, wanted)
        cases.append(Case(name, error, error <= TOLERANCE))
    return tuple(cases)


def relative_error(found: Any, wanted: Any) -> float:
    """The largest difference as a part of the largest element; infinite where one is no number or has no such shape."""
    if found.shape != wanted.shape:
        return float("inf")
    if not found.size:
        return 0.0
    error = float(np.max(np.abs(found - wanted)) / max(float(np.max(np.abs(wanted))), 1e-30))
    return error if error == error else float("inf")
