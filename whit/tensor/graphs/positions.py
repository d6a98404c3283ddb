"""Nodes that are positions: of elements, of index tensors, of what a mask keeps.

Positions are non-negative where they are used, and a gate says where they are in range: outside it nothing is read or
written. What only depends on shapes, or was checked when it was built, has no gate.
"""

from __future__ import annotations

import math
from math import prod
from typing import Any

from whit.dtype import DType, dtypes
from whit.ir import ops
from whit.ir.op import Shape
from whit.ir.uop import UOp, const
from whit.records import dataclass
from whit.tensor.core import broadcast_scalar, expand_to


@dataclass(frozen=True, slots=True)
class Places:
    """Positions on one axis, and where they lie on it; None if everywhere."""

    node: UOp
    gate: UOp | None = None


def positions_along(shape: Shape, axis: int, dtype: DType = dtypes.weakint) -> UOp:
    """The position on one axis, at every element of a shape."""
    alone = tuple(size if i == axis else 1 for i, size in enumerate(shape))
    return UOp.arange(shape[axis], dtype).reshape(alone).expand(shape)


def places_of(index: UOp, size: Any) -> Places:
    """Positions from data: negative ones count from the end, and any may lie outside."""
    dtype = index.dtype
    if dtype.is_unsigned:
        is_always_inside = isinstance(size, int) and size > dtype.max
        return Places(index, None if is_always_inside else index < sized(size, dtype))
    node = index.cast(dtypes.int64 if dtype.itemsize == 8 else counting_dtype(size))  # sized, so that it can be stored
    limit = sized(size, node.dtype)
    wrapped = (node < 0).where(node + limit, node)
    return Places(wrapped, (wrapped >= 0) & (wrapped < limit))


def sized(size: Any, dtype: DType) -> UOp:
    """A size as a node of a dtype."""
    return const(dtype, size) if isinstance(size, int) else size.cast(dtype)


def both(*gates: UOp | None) -> UOp | None:
    """Where all gates hold; None is everywhere."""
    result: UOp | None = None
    for gate in gates:
        if gate is not None:
            result = gate if result is None else result & gate
    return result


def taken(node: UOp, positions: tuple[UOp, ...], gate: UOp | None) -> UOp:
    """The elements at positions of the first axes. Outside there is no element: NaN, in integers 0, in bools False."""
    found = node.index(*positions, gate=gate)
    if gate is None or not node.dtype.is_float:
        return found
    lead = gate.shape
    shown = gate.reshape(lead + (1,) * (len(found.shape) - len(lead))) if lead else gate
    return expand_to(shown, found.shape).where(found, math.nan)


def counting_dtype(size: Any) -> DType:
    """An integer dtype that holds every position on an axis of `size`."""
    return dtypes.int64 if isinstance(size, int) and size > dtypes.int32.max else dtypes.int32


def rank_of(mask: UOp) -> UOp:
    """How many elements of a mask hold before each one, in row-major order. Where it holds: its place among them."""
    size = prod(mask.shape)
    ones = mask.reshape((size,)).cast(counting_dtype(size))
    return (ones.scan(ops.ADD, 0) - ones).reshape(mask.shape)


def compacted(values: UOp, mask: UOp, size: int, fill: UOp) -> UOp:
    """The values where a mask holds, one after another, in an array of this size; `fill` in what is left of it."""
    count = prod(mask.shape)
    rank, flat = rank_of(mask).reshape((count,)), mask.reshape((count,))
    start = broadcast_scalar(fill, (size,))
    return start.after(start.store(values.reshape((count,)), rank, gate=flat & (rank < size)))


def nonzero_places(mask: UOp, size: int) -> list[UOp]:
    """For each axis of a mask the positions where it holds, `size` of them being asked for; 0 where there are fewer."""
    count = prod(mask.shape)
    dtype = counting_dtype(count)
    flat = compacted(UOp.arange(count, dtype), mask, size, const(dtype, 0))
    places = []
    for axis, length in enumerate(mask.shape):
        step = prod(mask.shape[axis + 1 :])
        place = flat if step == 1 else flat // step
        places.append(place if axis == 0 else place % length)
    return places


def moved_axes(node: UOp, order: list[int]) -> UOp:
    """The axes in another order, without a node if it is the one they have."""
    return node if order == list(range(len(order))) else node.permute(tuple(order))
