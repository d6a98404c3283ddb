"""The fastest run of each kernel, where runs are timed one by one: under DEBUG=2 and in recordings."""

from __future__ import annotations

from whit.cache import RecentlyUsed
from whit.ir.uop import UOp

_best: RecentlyUsed[tuple[UOp, str], float] = RecentlyUsed("engine.timings", 8192)


def note_time(function: UOp, device: str, seconds: float) -> None:
    """A run of a FUNCTION has taken so long."""
    key = (function.src[0], device)
    before = _best.get(key)
    _best[key] = seconds if before is None else min(before, seconds)


def best_time(function: UOp, device: str) -> float | None:
    """The seconds of its fastest run; None if none was timed."""
    return _best.get((function.src[0], device))
