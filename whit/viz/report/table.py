"""Columns of text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

Data = dict[str, Any]


def table(header: Sequence[str], rows: Iterable[Sequence[str]], left: Sequence[int] = (0,)) -> str:
    """Rows under a header; columns named in `left` are aligned there, the others on the right."""
    lines = [tuple(header), *(tuple(row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    shown = []
    for line in lines:
        cells = [cell.ljust(width) if i in left else cell.rjust(width) for i, (cell, width) in _cells(line, widths)]
        shown.append("  ".join(cells).rstrip())
    return "\n".join(shown)


def _cells(line: Sequence[str], widths: Sequence[int]) -> Iterable[tuple[int, tuple[str, int]]]:
    return enumerate(zip(line, widths, strict=True))


def ms(nanoseconds: float) -> str:
    """A duration in milliseconds."""
    return f"{nanoseconds / 1e6:.3f}"


def amount(nbytes: float) -> str:
    """Bytes with a unit that suits them: `16.4 kB`."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(nbytes) >= scale:
            return f"{nbytes / scale:.1f} {unit}"
    return f"{nbytes:.0f} B"


def plural(count: int, what: str) -> str:
    """`1 kernel`, `2 kernels`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def printable(text: str) -> str:
    """Text from a file without what would move the cursor or change colours."""
    return "".join(c if c.isprintable() or c in "\n\t" else "?" for c in text)
