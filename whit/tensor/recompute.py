"""`checkpoint(fn, *args)`: memory for time. What is inside of a block is computed again when its gradient is.

    for layer in layers:
        h = checkpoint(layer, h)          # kept for the gradient: h, and nothing of what the layer computes

The value and the gradients are those of `fn(*args)`. Recomputed is everything that is made of the tensors among the
arguments, also in lists, tuples and dictionaries; other tensors that `fn` uses, as weights, get their gradients, and
what is made of them alone is computed once. Random numbers inside are the same both times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from whit.errors import ArgumentError
from whit.ir.uop import UOp
from whit.tensor.core import Core
from whit.tensor.nested import map_tensors, tensors_in
from whit.transform.checkpoint import checkpointed, depends

Result = TypeVar("Result")


def checkpoint(fn: Callable[..., Result], *args: Any, **kwargs: Any) -> Result:
    """fn(*args, **kwargs), whose gradient computes it again instead of keeping its intermediate values."""
    inputs: list[UOp] = []

    def enter(tensor: Core) -> Core:
        # A name of its own, so that nothing in the block is equal to what was computed outside of it.
        inside = tensor._wrap(tensor.uop.leaf())
        inputs.append(inside.uop)
        return inside

    given, named = map_tensors(enter, args), map_tensors(enter, kwargs)
    if not inputs:
        raise ArgumentError(
            "checkpoint: there is no tensor among the arguments",
            f"function {getattr(fn, '__name__', repr(fn))!s:.60}",
            "Pass the tensors from which the block is to be computed again: checkpoint(layer, x).",
        )
    result: Any = fn(*given, **named)
    found = tensors_in(result)
    inside = depends([tensor.uop for tensor in found], inputs)
    values = list(dict.fromkeys(t.uop for t in found if t.dtype.is_continuous and t.uop in inside))
    if not values:
        return result  # type: ignore[no-any-return]
    nodes = dict(zip(values, checkpointed(values, inputs), strict=True))
    return map_tensors(lambda tensor: tensor._wrap(nodes.get(tensor.uop, tensor.uop)), result)  # type: ignore[no-any-return]
