"""What a command gives back: the same facts for programs and for people, and an exit code.

    Answer({"bytes": 3_400_000}, "3.2 MiB")             ok
    Answer({"findings": [...]}, "1 problem", PROBLEM)   the command ran, and found something wrong

Text is ASCII wherever whit writes it, so that it can be shown everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

OK = 0
PROBLEM = 1  # something is wrong: a finding of the command, or an error on the way
USAGE = 2  # the command line makes no sense; what argparse exits with too
STOPPED = 130  # Ctrl-C


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a command."""

    data: dict[str, Any]  # what --json prints, after "command", "schema" and "whit"
    text: str  # what is printed otherwise
    code: int = OK


class UsageError(Exception):
    """A command line that argparse accepts and that makes no sense all the same."""


def spell_bytes(count: float) -> str:
    """A number of bytes for people: 512 B, 3.2 MiB."""
    if count < 1024:
        return f"{count:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        count /= 1024
        if count < 1024:
            return f"{count:.1f} {unit}"
    return f"{count / 1024:.1f} TiB"


def spell_count(count: int, noun: str) -> str:
    """1 file, 2 files, 1 entry, 2 entries."""
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun[:-1]}ies" if noun.endswith("ry") else f"{count} {noun}s"


def columns(rows: Sequence[Sequence[str]], right: Iterable[int] = (), indent: str = "  ") -> list[str]:
    """Rows as lines with aligned columns; those in `right` end at the same place."""
    ends = set(right)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if i in ends else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append((indent + "  ".join(cells)).rstrip())
    return lines
