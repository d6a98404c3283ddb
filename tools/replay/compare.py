"""Which kernels differ between two sides: pairs of what a kernel was and is, and what came and went.

A side is {(work, target): record}. Kernels of one piece of work are compared in their order: those with the same text
are the same, and between two of these, the first is compared with the first. A kernel that many graphs have is counted
once for each target.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Place = tuple[str, str]  # work, target
Records = Mapping[Place, dict[str, Any]]
RENAMED = "only names of values differ"
DIGEST, NAME, OPS, READ, WRITTEN = range(5)  # fields of a kernel

# Names of values end in numbers, counted from the first on, so that one more value changes all names after it. Types,
# functions and constants are no names: "%add.14" and "mul14" are, "i64", "int64_t" and "exp2(" are not.
TYPE = r"(?:[ifx]|u?int|b?float|double|fp|bf)\d"
VALUE = re.compile(rf"(%[A-Za-z_.$]*|(?<![\w.%])(?!{TYPE})[a-z]+|(?<![\w%])[$][A-Za-z_]*)\d[\w.]*(?![\w(])")
NUMBER = re.compile(r"\b(0[xdfXDF][0-9a-fA-F]+|\d+(\.\d+)?(e[+-]?\d+)?)")


@dataclass(slots=True)
class Change:
    """A kernel that is another one now; without a digest before or after, it came or went."""

    target: str
    before: str
    after: str
    names: tuple[str, str]
    works: list[str] = field(default_factory=list)  # which have it


@dataclass(slots=True)
class Totals:
    """Numbers of one side: each kernel as often as graphs run it, and the distinct ones."""

    runs: int = 0
    nbytes: int = 0
    ops: int = 0
    seconds: float = 0.0
    errors: int = 0
    distinct: set[str] = field(default_factory=set)

    def add(self, record: dict[str, Any]) -> None:
        """What one piece of work has."""
        for kernel in record["kernels"]:
            self.runs += 1
            self.ops += kernel[OPS]
            self.nbytes += kernel[READ] + kernel[WRITTEN]
            self.distinct.add(kernel[DIGEST])
        self.seconds += record["seconds"]
        self.errors += bool(record["error"])


@dataclass(slots=True)
class Comparison:
    """All that differs."""

    changes: list[Change] = field(default_factory=list)
    failures: list[tuple[Place, str, str]] = field(default_factory=list)  # where the errors of both sides differ
    counts: list[tuple[Place, int, int]] = field(default_factory=list)  # where the number of kernels differs
    moved: list[tuple[Place, int, int]] = field(default_factory=list)  # where the bytes differ
    totals: dict[str, tuple[Totals, Totals]] = field(default_factory=dict)  # by target
    graphs: int = 0  # pieces of work

    @property
    def is_same(self) -> bool:
        return not (self.changes or self.failures or self.moved)


def compare(before: Records, after: Records) -> Comparison:
    """What differs, work by work. Both sides must have the same."""
    found = Comparison(graphs=len({work for work, _ in before}))
    changes: dict[tuple[str, str, str], Change] = {}
    for place in before:
        old, new = before[place], after[place]
        work, target = place
        totals = found.totals.setdefault(target, (Totals(), Totals()))
        totals[0].add(old)
        totals[1].add(new)
        if old["error"] != new["error"]:
            found.failures.append((place, old["error"], new["error"]))
        if len(old["kernels"]) != len(new["kernels"]):
            found.counts.append((place, len(old["kernels"]), len(new["kernels"])))
        nbytes = _bytes(old), _bytes(new)
        if nbytes[0] != nbytes[1]:
            found.moved.append((place, *nbytes))
        for left, right in _pairs(old["kernels"], new["kernels"]):
            key = target, left[DIGEST] if left else "", right[DIGEST] if right else ""
            names = left[NAME] if left else "", right[NAME] if right else ""
            changes.setdefault(key, Change(*key, names)).works.append(work)
    found.changes = list(changes.values())
    return found


def _bytes(record: dict[str, Any]) -> int:
    return sum(kernel[READ] + kernel[WRITTEN] for kernel in record["kernels"])


def _pairs(old: list[Any], new: list[Any]) -> list[tuple[Any, Any]]:
    """Kernels that are not the same, side by side; None where there is nothing beside one."""
    before, after = [kernel[DIGEST] for kernel in old], [kernel[DIGEST] for kernel in new]
    if before == after:
        return []
    pairs: list[tuple[Any, Any]] = []
    for tag, a, b, c, d in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag != "equal":
            left, right = old[a:b], new[c:d]
            length = max(len(left), len(right))
            pairs += zip(left + [None] * (length - len(left)), right + [None] * (length - len(right)), strict=True)
    return pairs


# ---- the same change in many kernels


@dataclass(slots=True)
class Group:
    """Changes that are the same but for names of values and numbers."""

    title: str
    changes: list[Change]
    lines: list[str]  # of the shortest one

    @property
    def targets(self) -> dict[str, int]:
        """How many kernels of each target."""
        found: dict[str, int] = {}
        for change in self.changes:
            found[change.target] = found.get(change.target, 0) + 1
        return found


def group(changes: list[Change], text_of: Callable[[str], str]) -> list[Group]:
    """The largest groups first."""
    groups: dict[tuple[str, ...], Group] = {}
    for change in changes:
        title, lines, signature = _described(change, text_of)
        known = groups.setdefault((title, *signature), Group(title, [], lines))
        known.changes.append(change)
        if len(lines) < len(known.lines):
            known.lines = lines
    return sorted(groups.values(), key=lambda each: (-len(each.changes), each.title, len(each.lines)))


def _described(change: Change, text_of: Callable[[str], str]) -> tuple[str, list[str], tuple[str, ...]]:
    """What happened, the lines that show it, and what equal changes have in common."""
    if not change.before or not change.after:
        what, digest = ("gone", change.before) if change.before else ("new", change.after)
        text = text_of(digest).splitlines()
        return what, text, (without_sizes(change.names[0] or change.names[1]),)
    before, after = text_of(change.before).splitlines(), text_of(change.after).splitlines()
    plain = renamed(before), renamed(after)
    if plain[0] == plain[1]:
        return RENAMED, diff(before, after, str), ()
    lines = diff(before, after, without_numbers) or diff(*plain, str)
    signature = sorted({without_sizes(without_numbers(line)) for line in lines if line[:1] in "+-"})
    return "changed", lines, tuple(signature)


def diff(before: list[str], after: list[str], seen_as: Callable[[str], str], context: int = 2) -> list[str]:
    """A unified diff of lines, which are equal if they are seen as the same."""
    lines: list[str] = []
    plain = [seen_as(line) for line in before], [seen_as(line) for line in after]
    matcher = difflib.SequenceMatcher(None, *plain, autojunk=False)
    for opcodes in matcher.get_grouped_opcodes(context):
        first, last = opcodes[0], opcodes[-1]
        lines.append(f"@@ lines {first[1] + 1}-{last[2]} of {len(before)} -> {first[3] + 1}-{last[4]} of {len(after)}")
        for tag, a, b, c, d in opcodes:
            if tag == "equal":
                lines += [f" {line}" for line in after[c:d]]
            else:
                lines += [f"-{line}" for line in before[a:b]] + [f"+{line}" for line in after[c:d]]
    return lines


def renamed(lines: list[str]) -> list[str]:
    """A text whose values are numbered as they appear: two that differ in names alone become the same."""
    names: dict[str, str] = {}

    def rename(match: re.Match[str]) -> str:
        return names.setdefault(match[0], f"{_mark(match)}v{len(names)}")

    return [VALUE.sub(rename, line) for line in lines]


def without_numbers(line: str) -> str:
    """A line without names of values: "%12 = add i64 %add11, 4" -> "%# = add i64 %#, 4"."""
    return VALUE.sub(lambda match: f"{_mark(match)}#", line)


def _mark(match: re.Match[str]) -> str:
    """What a name begins with in this language, whatever it says: "%" of "%add11"."""
    return match[1][0] if match[1][0] in "%$" else ""


def without_sizes(line: str) -> str:
    """A line without constants."""
    return NUMBER.sub("#", line)
