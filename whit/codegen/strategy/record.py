"""Strategies as records: a tuple of them for each kind of machine, of which the first that takes a kernel builds it.

    for strategy in backend.strategies:
        tiled = strategy.build(body, job)         None: this kernel is not of its kind

`cpu/backend.py` and `gpu/backend.py` have the tuples. The order of a tuple is the choice: every `why` says what makes
its strategy the best of those that are left, and the last takes every kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from whit.ir.uop import UOp
from whit.target import Target

if TYPE_CHECKING:
    from whit.codegen.strategy.choice import Choice


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


@dataclass(frozen=True, slots=True)
class Strategy:
    """One way to compute a kernel."""

    name: str
    why: str
    build: Callable[[UOp, Job], Tiled | None]


def unchanged(body: UOp) -> UOp:
    """A kernel that needs nothing here."""
    return body


@dataclass(frozen=True, slots=True)
class Backend:
    """What codegen does for one kind of machine alone."""

    strategies: tuple[Strategy, ...]  # tried in order
    write_sort: Callable[[UOp, Target], Tiled]  # the program of a kernel that sorts
    prepare: Callable[[UOp], UOp]  # what would hide from the strategies what a kernel is
    join_loads: Callable[[UOp], UOp] = unchanged  # once lanes are vectors
    widen_bits: Callable[[UOp], UOp] = unchanged  # once columns are loaded as rows
    prefetch: Callable[[UOp], UOp] = unchanged  # once instructions are in order
