"""Schedules on disk, so that the next process does not make them again.

    linear = find_or_make(graph, "CPU", schedule)        # LINEAR of CALLs; `schedule` is called if there is none yet

A schedule is kept as text, which reads back as the very same nodes, among the compiled kernels (`disk_cache`). It is
found under a digest of the text of its graph, the target, the settings that change results, and whit's own sources: a
changed scheduler never finds old schedules. A process whose schedules and kernels are all on disk loads neither
scheduler nor compiler: the first step of GPT-2 in a process takes 2.7 s -> 0.7 s (H200, bench/gpu_models.py --first).

Nothing is looked up while somebody watches how schedules are made: in recordings, where rules are
counted, and under DEBUG=3, which prints why values are stored.
"""

from __future__ import annotations

from collections.abc import Callable

from whit.config import CACHE, DEBUG, TRACK_MATCH_STATS, settings_key
from whit.engine.compile import disk_cache
from whit.engine.compile.compile import digest, sources_digest, target_text_of
from whit.errors import WhitError
from whit.ir import ops
from whit.ir.text.parse import parse
from whit.ir.text.write import to_text
from whit.ir.uop import UOp
from whit.recording import hooks

WITH_SCHEDULES = 1  # the value of CACHE that keeps them
# What a schedule depends on: a change in any of these files makes new entries.
SOURCES = ("dtype.py", "target.py", "config.py", "ir", "simplify", "kernel", "schedule", "engine")


def find_or_make(graph: UOp, device: str, make: Callable[[UOp], UOp]) -> UOp:
    """The schedule of a graph for a device: from the disk, or made and kept."""
    if CACHE != WITH_SCHEDULES or hooks.recorder is not None or TRACK_MATCH_STATS or DEBUG >= 3:
        return make(graph)
    key = schedule_key(graph, device)
    linear = _find(key)
    if linear is None:
        linear = make(graph)
        _keep(key, linear)
    return linear


def schedule_key(graph: UOp, device: str) -> str:
    """What the schedule of a graph is kept under."""
    settings = repr(settings_key())
    return digest("schedule", to_text(graph, types=False), target_text_of(device), settings, sources_digest(SOURCES))


def _find(key: str) -> UOp | None:
    """The schedule under a key."""
    entry = disk_cache.find(key)
    linear = None if entry is None else _read(entry[1])
    return linear if linear is not None and linear.op is ops.LINEAR else None


def _keep(key: str, linear: UOp) -> None:
    """Stores a schedule, if it reads back as the same."""
    text = to_text(linear, types=False).encode()
    if _read(text) is linear:
        disk_cache.keep(key, {"name": "schedule", "title": f"schedule of {len(linear.src)} calls"}, text)


def _read(text: bytes) -> UOp | None:
    """What a text says; None if it makes no sense."""
    try:
        return parse(text.decode())
    except (WhitError, UnicodeDecodeError):
        return None
