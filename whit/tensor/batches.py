"""Random numbers in functions that run once for a batch (`whit.vmap`): what each example of it draws.

    words = drawn(shape, draw)          draw(shape), or draw((size, *shape)), of which each example sees its own

A batch says what it wants: "error", "same" or "different" numbers. Of batches in batches, inner ones are asked first.
"""

from __future__ import annotations

from collections.abc import Callable

from whit.errors import ArgumentError, NotSupportedError
from whit.ir.op import Shape
from whit.tensor.graphs.threefry import transforms_around
from whit.tensor.graphs.uniform import Words
from whit.tensor.place import user_method
from whit.transform.active import active
from whit.transform.batch import Batch

Draw = Callable[[Shape], list[Words]]


def drawn(shape: Shape, draw: Draw) -> list[Words]:
    """Random words of a shape, as the batches want them that this thread is in."""
    transforms = active()
    outside = transforms[: transforms_around()]
    if any(isinstance(each, Batch) and each.randomness == "different" for each in outside):
        raise NotSupportedError(
            f"vmap: random numbers ({user_method()}) in a loop of each example",
            "a step has one draw, which would have to be one for each example",
            'Draw before the loop, map what is in the loop, or take randomness="same".',
        )
    return _drawn(shape, draw, tuple([each for each in transforms if isinstance(each, Batch)]))


def _drawn(shape: Shape, draw: Draw, batches: tuple[Batch, ...]) -> list[Words]:
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
