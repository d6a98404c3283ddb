"""What runs now inside of a transform, for the few functions that compute at once instead of building a graph.

    value, = computed([node], run)          run([node]); in a function that is mapped, of all examples

Equations and decompositions of matrices compute while a function runs. In one that is mapped, or whose derivative is
made for directions that are not known, nodes stand for other values; whoever made them says what is computed instead.
The innermost transform is asked first, and passes on what it does not know.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from whit.ir.uop import UOp

Compute = Callable[[Sequence[UOp]], list[UOp]]  # nodes -> the BUFFERs of their values
Step = Callable[[UOp, Sequence[UOp]], Sequence[UOp]]  # (number, state) -> the next state
Repeat = Callable[[Step, Sequence[UOp]], list[UOp]]  # a step and BUFFERs -> the BUFFERs after all steps
Read = Callable[[UOp], float]


class Transform(Protocol):
    """A transform that is under way."""

    def computed(self, nodes: Sequence[UOp], compute: Compute) -> list[UOp]:
        """What stands for the values of nodes."""

    def repeated(self, step: Step, state: Sequence[UOp], repeat: Repeat) -> list[UOp]:
        """What stands for a state after many steps."""

    def greatest(self, node: UOp, read: Read) -> float:
        """A number that decides whether to go on: the greatest there is."""


class _Stack(threading.local):
    """The transforms that this thread is in, the innermost last."""

    def __init__(self) -> None:
        self.transforms: tuple[Transform, ...] = ()


_stack = _Stack()


def active() -> tuple[Transform, ...]:
    """The transforms that this thread is in, the innermost last."""
    return _stack.transforms


@contextmanager
def during(transform: Transform | None, also: tuple[Transform, ...] | None = None) -> Iterator[None]:
    """Meanwhile a transform is the innermost one, around it those that were there, or those that are given."""
    before = _stack.transforms
    _stack.transforms = (*(before if also is None else also), *(() if transform is None else (transform,)))
    try:
        yield
    finally:
        _stack.transforms = before


def computed(nodes: Sequence[UOp], compute: Compute) -> list[UOp]:
    """The values of nodes, or what stands for them."""
    if not _stack.transforms:
        return compute(nodes)
    *outer, inner = _stack.transforms

    def further(nodes: Sequence[UOp]) -> list[UOp]:
        with during(None, tuple(outer)):
            return computed(nodes, compute)

    return inner.computed(nodes, further)


def repeated(step: Step, state: Sequence[UOp], repeat: Repeat) -> list[UOp]:
    """A state after many steps, or what stands for it."""
    if not _stack.transforms:
        return repeat(step, state)
    *outer, inner = _stack.transforms

    def further(step: Step, state: Sequence[UOp]) -> list[UOp]:
        with during(None, tuple(outer)):
            return repeated(step, state, repeat)

    return inner.repeated(step, state, further)


def greatest(node: UOp, read: Read) -> float:
    """A number, or the greatest of those that it stands for."""
    if not _stack.transforms:
        return read(node)
    *outer, inner = _stack.transforms

    def further(node: UOp) -> float:
        with during(None, tuple(outer)):
            return greatest(node, read)

    return inner.greatest(node, further)
