"""How long it takes to make the class of a record: the standard library's `dataclass`, and that of `whit.records`.

    python bench/records.py

Columns: milliseconds of processor time, the least of 300 times.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Any

from whit import records

TIMES = 300


def new_class() -> type:
    """Five fields, two of them with a default."""

    class Record:
        """What is decorated."""

        name: str
        number: int
        sizes: tuple[int, ...]
        is_kept: bool = False
        factor: float = 1.0

    return Record


def milliseconds(dataclass: Any, **options: bool) -> float:
    """The least time of a decorator."""
    found = []
    for _ in range(TIMES):
        plain = new_class()
        start = time.thread_time_ns()
        dataclass(**options)(plain)
        found.append(time.thread_time_ns() - start)
    return min(found) / 1e6


def main() -> None:
    """One line for each kind of record."""
    print(f"{'options':22} standard  whit")
    for options in ({}, {"frozen": True}, {"frozen": True, "slots": True}):
        standard, ours = (milliseconds(each, **options) for each in (dataclasses.dataclass, records.dataclass))
        print(f"{' '.join(options) or '-':22} {standard:8.2f} {ours:5.2f}    {standard / ours:.1f} times")


if __name__ == "__main__":
    main()
