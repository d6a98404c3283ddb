"""Random numbers in functions that run once for a batch (`whit.vmap`): what each example of it draws.

    with in_batch(batch):
        words = drawn(shape, draw)          draw(shape), or draw((size, *shape)), of which each example sees its own

A batch says what it wants: "error", "same" or "different" numbers. Of batches in batches, inner ones are asked first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from whit.errors import ArgumentError
from whit.ir.op import Shape
from whit.ir.uop import UOp
from whit.tensor.graphs.uniform import Words
from whit.tensor.place import user_method

Draw = Callable[[Shape], list[Words]]


class RandomBatch(Protocol):
    """A batch, as far as random numbers go."""

    randomness: str
    size: Any

    def example(self, node: UOp) -> UOp:
        """What stands for one example of a node with the axis of the batch in front."""


class _Stack(threading.local):
    """The batches that this thread is in, the innermost last."""

    def __init__(self) -> None:
        self.batches: tuple[RandomBatch, ...] = ()


_stack = _Stack()


@contextmanager
def in_batch(batch: RandomBatch) -> Iterator[None]:
    """Meanwhile this thread runs a function for a batch."""
    before = _stack.batches
    _stack.batches = (*before, batch)
    try:
        yield
    finally:
        _stack.batches = before


def drawn(shape: Shape, draw: Draw) -> list[Words]:
    """Random words of a shape, as the batches want them that this thread is in."""
    return _drawn(shape, draw, _stack.batches)


def _drawn(shape: Shape, draw: Draw, batches: tuple[RandomBatch, ...]) -> list[Words]:
    if not batches:
        return draw(shape)
    *outer, batch = batches
    if batch.randomness == "error":
        raise ArgumentError(
            f"vmap: random numbers ({user_method()}) in a function that is mapped",
            "one draw for all examples, and one for each, are two different programs",
            'Say which: vmap(f, randomness="same") or vmap(f, randomness="different"), or draw outside.',
        )
    if batch.randomness == "same":
        return _drawn(shape, draw, tuple(outer))
    pairs = _drawn((batch.size, *shape), draw, tuple(outer))
    return [(batch.example(first), batch.example(second)) for first, second in pairs]
