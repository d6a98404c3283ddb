"""The fastest run of each kernel, where runs are timed one by one: under DEBUG=2 and in recordings."""

from __future__ import annotations

from whit.cache import register_cache
from whit.ir.uop import UOp

_best: dict[tuple[UOp, str], float] = {}
register_cache(_best.clear, "engine.timings")


def note_time(function: UOp, device: str, seconds: float) -> None:
    """A run of a FUNCTION has taken so long."""
    key = (function.src[0], device)
    _best[key] = min(_best.get(key, seconds), seconds)


def best_time(function: UOp, device: str) -> float | None:
    """The seconds of its fastest run; None if none was timed."""
    return _best.get((function.src[0], device))
