"""A log is read: its entries, one after the other."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

from whit.errors import FileError

SPECIAL = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}  # numbers that JSON has no word for


def read(path: str | PathLike[str], missing_ok: bool = False) -> Iterator[dict[str, Any]]:
    """The entries of a log. Lines that were not finished are left out; numbers are floats again."""
    try:
        text = Path(path).read_text("utf-8", errors="replace")
    except OSError as error:
        if missing_ok and isinstance(error, FileNotFoundError):
            return
        raise FileError(f"Metrics: {path} cannot be read: {error}") from error
    for line in text.splitlines():
        entry = _parsed(line)
        if entry is None:
            continue
        if "numbers" in entry:
            entry["numbers"] = {name: SPECIAL.get(str(value), value) for name, value in entry["numbers"].items()}
        yield entry


def _parsed(line: str) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    is_entry = isinstance(entry, dict) and isinstance(entry.get("step"), int)
    return entry if is_entry and isinstance(entry.get("time"), int | float) else None
