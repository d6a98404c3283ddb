"""Strategies as records: a tuple of them for each kind of machine, of which the first that takes a kernel builds it.

    for strategy in backend.strategies:
        tiled = strategy.build(body, job)         None: this kernel is not of its kind

`cpu/backend.py` and `gpu/backend.py` have the tuples. The order of a tuple is the choice: every `why` says what makes
its strategy the best of those that are left, and the last takes every kernel.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from whit.ir.uop import UOp
from whit.records import dataclass, field
from whit.target import Target


class UnfitError(Exception):
    """A choice that is none for this kernel."""


@dataclass(frozen=True, slots=True)
class Choice:
    """How a kernel is tiled, as text (`choice`), always spelled the same, so that choices can be compared."""

    text: str

    @property
    def data(self) -> dict[str, Any]:
        """What the text says; an UnfitError if that is nothing."""
        try:
            found = json.loads(self.text)
        except ValueError:
            raise UnfitError("no JSON") from None
        if not isinstance(found, dict) or found.get("kind") not in ("panels", "loops"):
            raise UnfitError("no choice")
        return found


@dataclass(slots=True)
class Job:
    """What passes and strategies know besides the graph."""

    target: Target
    reasons: list[str] = field(default_factory=list)  # why the kernel was tiled as it was
    choice: Choice | None = None  # how it is to be tiled; None: as is estimated to be best
    strategy: str = ""  # the name of the one that was taken


@dataclass(frozen=True, slots=True)
class Tiled:
    """A kernel over cores or blocks, threads, loops and lanes, or a whole program; and why it is so."""

    body: UOp
    reasons: tuple[str, ...] = ()


Build = Callable[[UOp, Job], Tiled | None]  # None: the kernel is not of this kind


@dataclass(frozen=True, slots=True)
class Strategy:
    """One way to compute a kernel."""

    name: str
    why: str
    build: Build


def unchanged(body: UOp) -> UOp:
    """A kernel that needs nothing here."""
    return body


def unhinted(linear: UOp, job: Job) -> UOp:
    """A program of which the hardware is told nothing."""
    return linear


@dataclass(frozen=True, slots=True)
class Backend:
    """What codegen does for one kind of machine alone."""

    strategies: tuple[Strategy, ...]  # tried in order
    write_sort: Callable[[UOp, Target], Tiled]  # the program of a kernel that sorts
    prepare: Callable[[UOp], UOp]  # what would hide from the strategies what a kernel is
    join_loads: Callable[[UOp], UOp] = unchanged  # once lanes are vectors
    widen_bits: Callable[[UOp], UOp] = unchanged  # once columns are loaded as rows
    prefetch: Callable[[UOp], UOp] = unchanged  # once instructions are in order
    hint: Callable[[UOp, Job], UOp] = unhinted  # of the program
