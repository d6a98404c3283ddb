"""The names of other libraries, as docs/names/*.txt lists them: which are here, how they are tried, how they differ."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "names"
LINE = re.compile(r"(?P<name>[\w.\[\]\"()]+) ?(?P<kind>[:=?-]) (?P<rest>.*)")
SAME, UNTRIED, MISSING, NOT_HERE = ":", "=", "?", "-"


@dataclass(frozen=True)
class Name:
    """A name of another library."""

    name: str
    kind: str  # one of the four above
    arguments: str  # of the call that is compared
    words: str  # how it differs, or why it is not compared, or not here

    @property
    def is_here(self) -> bool:
        """Whether it can be used."""
        return self.kind in (SAME, UNTRIED)


def read(library: str) -> list[Name]:
    """The names of a library, in the order of its file."""
    names = []
    for line in (FOLDER / f"{library}.txt").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        found = LINE.fullmatch(line)
        if found is None:
            raise ValueError(f"docs/names/{library}.txt: {line!r} is no line")
        rest = found["rest"]
        arguments, _, words = rest.partition(" ; ") if found["kind"] == SAME else ("", "", rest)
        names.append(Name(found["name"], found["kind"], arguments, words))
    return names


def coverage(names: list[Name]) -> tuple[int, int]:
    """How many are here, of how many that make sense."""
    sensible = [name for name in names if name.kind != NOT_HERE]
    return sum(name.is_here for name in sensible), len(sensible)
