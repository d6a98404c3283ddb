"""What searches have found, on disk beside the compiled kernels.

    found = find(key)               a Tuned, or None; what is damaged or makes no sense counts as None
    keep(key, tuned)

The key is made of the kernel's text, the target, the settings that change code and whit's own sources, so a choice
never meets a kernel that it was not measured on. An entry is JSON with a checksum. `python -m whit cache` lists and
removes them."""

from __future__ import annotations

import json
import os
from typing import Any

from whit.engine.compile import disk_cache
from whit.records import dataclass

ENDING = ".tuned"
ANY, LAST = "0" * 64, ".last-tuned"  # the name of a file that each `keep` writes


@dataclass(frozen=True, slots=True)
class Tuned:
    """The best that is known for a kernel."""

    title: str  # of the kernel, for people
    target: str
    choice: str | None  # as `codegen.strategy.choice` spells it; None: nothing was faster than the default
    seconds: float
    default_seconds: float
    beam: int  # of the widest search that came to its end; 0: none has yet
    tried: tuple[str, ...] = ()  # what need not be measured again

    @property
    def gain(self) -> float:
        """How much faster than the default it is: 1.2 is 20 %."""
        return self.default_seconds / self.seconds if self.seconds else 1.0


def find(key: str) -> Tuned | None:
    """What is known under a key."""
    entry = disk_cache.find(key, ENDING)
    return None if entry is None else read(entry[0])


def keep(key: str, tuned: Tuned) -> None:
    """Replaces what is known under a key."""
    header = {
        "title": tuned.title,
        "target": tuned.target,
        "choice": tuned.choice,
        "seconds": tuned.seconds,
        "default_seconds": tuned.default_seconds,
        "beam": tuned.beam,
        "tried": list(tuned.tried),
    }
    disk_cache.keep(key, header, b"", ENDING)
    disk_cache.keep(ANY, {}, b"", LAST)


def generation() -> int:
    """Another number after each `keep`, also of other processes: for what is kept of several kernels together."""
    try:
        return os.stat(os.path.join(disk_cache.folder(), ANY + LAST)).st_mtime_ns
    except OSError:
        return 0


def read(header: dict[str, Any]) -> Tuned | None:
    """An entry as it is on disk; None if it is none."""
    try:
        choice = header["choice"]
        if choice is not None and not isinstance(json.loads(choice), dict):
            return None
        return Tuned(
            str(header["title"]),
            str(header["target"]),
            None if choice is None else str(choice),
            float(header["seconds"]),
            float(header["default_seconds"]),
            int(header["beam"]),
            tuple(str(text) for text in header["tried"]),
        )
    except (KeyError, TypeError, ValueError):
        return None
