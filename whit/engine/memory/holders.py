"""Who can ask for what a memory holds: tensors, as long as they live, and nodes that are kept on purpose.

    x.uop: b, y.uop: b * 2          a write to x must leave b alone: y is a holder, and its graph reads b
    del y                           b may be written over

A tensor becomes a holder when it is made, and again whenever its node is set (`hold`, `holding`). `Kept` holds a node
for code that will ask for it later and has no tensor of it. Nothing else counts: neither local variables nor lists of
nodes. A UOp that no tensor shows is a recipe, not a value: if the memory that it reads has been written over by then,
computing it is an error (`storage`).

Holders are numbered by the clock that also numbers BUFFERs (`storage`), and a node is made after all that it reads. So
who can see a memory has a higher number than its BUFFER: questions look at the newest holders only (`newer_than`).
"""

from __future__ import annotations

import itertools
import weakref
from _weakref import _remove_dead_weakref  # type: ignore[attr-defined]
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import starmap, takewhile
from operator import call
from typing import Any, TypeVar

from whit.engine.programs.overlay import slot_of
from whit.ir.uop import UOp

clock = itertools.count()
_ignore = deque[Any](maxlen=0).extend
Kind = TypeVar("Kind", bound="Holder")


class Holder(weakref.ref[Any]):
    """An object with a node in its field `uop`, as long as it lives. Compared by identity: tensors compare elements."""

    __slots__ = ("number",)
    number: int  # of the clock, when its node was set
    __hash__ = object.__hash__
    __eq__ = object.__eq__

    def node(self) -> UOp | None:
        """What it holds; None if it is gone."""
        tensor = self()
        return None if tensor is None else slot_of("uop").__get__(tensor)  # what it is to everybody, also in a trace


class _KeptHolder(Holder):
    """A `Kept`."""

    __slots__ = ()

    def node(self) -> UOp | None:
        kept = self()
        return None if kept is None else kept.uop


class ComputedHolder(Holder):
    """A node whose value is remembered: whoever builds it again gets that."""

    __slots__ = ()

    def node(self) -> UOp | None:
        return self()


holders: dict[Holder, Holder] = {}  # each under itself, by number, the oldest first
# What is called with a holder whose object is gone: of C, as an interrupt in a function of Python would be lost.
forget = partial(_remove_dead_weakref, holders)


def add(holder: Holder) -> None:
    """One more holder."""
    holder.number = next(clock)
    holders[holder] = holder


_set_number = vars(Holder)["number"].__set__


class Kept:
    """A node whose value will be asked for: as long as this lives, what it reads is not written over."""

    __slots__ = ("__weakref__", "uop")

    def __init__(self, uop: UOp) -> None:
        self.uop = uop
        add(_KeptHolder(self, forget))


@contextmanager
def keeping(nodes: Iterable[UOp]) -> Iterator[None]:
    """Nodes are held inside of this."""
    kept = [Kept(node) for node in nodes]
    yield
    kept.clear()


def hold(tensor: Any, kind: type[Kind]) -> Kind:
    """The tensor is a holder of this kind, of the node that it has now."""
    before = getattr(tensor, "_holder", None)
    holder = tensor._holder = kind(tensor, forget)
    add(holder)
    if before is not None:
        holders.pop(before, None)
    return holder


def holding(tensor: Any) -> list[tuple[Any, ...]]:
    """The calls, of C, that say that a tensor has another node, to be made after the one that sets it. They return
    nothing."""
    holder: Holder = tensor._holder
    return [(_ignore, map(holders.pop, (holder,), (None,))), *_adding(holder)]


def renew(tensor: Any) -> None:
    """A tensor has another node."""
    deque(starmap(call, holding(tensor)), maxlen=0)


def computing(node: UOp) -> list[tuple[Any, ...]]:
    """The calls, of C, that say that the value of a node is remembered."""
    return _adding(ComputedHolder(node, forget))


def _adding(holder: Holder) -> list[tuple[Any, ...]]:
    number = _ignore, map(_set_number, (holder,), clock)  # drawn by the call
    return [number, (holders.update, ((holder, holder),))]


def newest() -> int:
    """The number of the newest holder."""
    holder = next(reversed(holders), None)
    return -1 if holder is None else holder.number


def newer_than(number: int) -> list[Holder]:
    """The holders with a higher number, the newest first. Older ones cost nothing, however many there are."""
    while True:
        try:
            return list(takewhile(lambda holder: holder.number > number, reversed(holders)))
        except RuntimeError:  # holders came or went meanwhile: in another thread, or collected with what they held
            continue
