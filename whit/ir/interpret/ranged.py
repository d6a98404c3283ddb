"""Arrays over ranges, the values of the nodes of a kernel graph: how they line up, move and are indexed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from whit.errors import InternalError, OutOfRangeError, ShapeError
from whit.ir import ops
from whit.ir.interpret.values import Array, gather
from whit.ir.op import Op
from whit.ir.shapes import filled
from whit.ir.uop import UOp


@dataclass(frozen=True, slots=True)
class Value:
    """An array whose first axes are ranges, in the order in which they nest, and whose others are the node's own."""

    array: Array
    ranges: tuple[UOp, ...] = ()

    @property
    def rank(self) -> int:
        """The number of the node's own axes."""
        return self.array.ndim - len(self.ranges)


def _place(node: UOp) -> tuple[tuple[int, int], str, int]:
    return node.arg.order, node.arg.kind.value, id(node)


def in_order(value: Value) -> Value:
    """The same value with its ranges in order."""
    order = sorted(range(len(value.ranges)), key=lambda i: _place(value.ranges[i]))
    own = range(len(order), value.array.ndim)
    return Value(np.transpose(value.array, (*order, *own)), tuple(value.ranges[i] for i in order))


def align(values: Sequence[Value], ranges: Sequence[UOp] = ()) -> tuple[tuple[UOp, ...], list[Array]]:
    """All ranges of the values, and arrays that broadcast: an axis for each range, then the most own axes of any."""
    union = tuple(sorted({r for value in values for r in value.ranges} | set(ranges), key=_place))
    rank = max((value.rank for value in values), default=0)
    arrays = []
    for value in values:
        sizes = dict(zip(value.ranges, value.array.shape, strict=False))
        own = value.array.shape[len(value.ranges) :]
        arrays.append(value.array.reshape((*(sizes.get(r, 1) for r in union), *(1,) * (rank - len(own)), *own)))
    return union, arrays


def bind(value: Value, ranges: Sequence[Value]) -> tuple[tuple[UOp, ...], Array]:
    """Turns ranges into last axes, in this order: the ranges that stay free, and the array [free, own, bound]."""
    bound = [r.ranges[0] for r in ranges]
    kept = tuple(r for r in value.ranges if r not in bound)
    array = value.array
    names: list[Any] = [*value.ranges, *range(value.rank)]
    for each in ranges:
        (node,) = each.ranges
        if node not in names:  # the value is the same for all of the range
            array = np.broadcast_to(array[..., None], (*array.shape, len(each.array)))
            names.append(node)
    order = [*kept, *range(value.rank), *bound]
    return kept, np.transpose(array, [names.index(name) for name in order])


def move(node: UOp, value: Value, sizes: Sequence[Value]) -> Value:
    """A movement op on the node's own axes."""
    if any(size.ranges for size in sizes):
        raise InternalError(f"{node.op.name}: a size depends on a range", node.short())
    assert node.op.python is not None, "a movement op has a meaning in Python"
    shift = len(value.ranges)
    leading = value.array.shape[:shift]
    arg = filled(node.arg, [int(size.array) for size in sizes])
    if node.op is ops.SHRINK:
        _check_window(node, arg, value.array.shape[shift:])
    beside = BESIDE_RANGES.get(node.op)
    arg = (*leading, *arg) if beside is None else beside(arg, leading)
    try:
        return Value(np.asarray(node.op.python(np, value.array, arg), value.array.dtype), value.ranges)
    except ValueError as error:
        raise ShapeError(
            f"{node.op.name}: {arg} does not fit an array of shape {value.array.shape}", node.short()
        ) from error


# The argument of a movement op for an array whose first axes are ranges, of these sizes. Of others it is a shape.
BESIDE_RANGES: dict[Op, Callable[[Any, Sequence[int]], Any]] = {
    ops.PERMUTE: lambda order, leading: (*range(len(leading)), *(axis + len(leading) for axis in order)),
    ops.FLIP: lambda axes, leading: tuple(axis + len(leading) for axis in axes),
    ops.PAD: lambda pads, leading: (*((0, 0) for _ in leading), *pads),
    ops.SHRINK: lambda windows, leading: (*((0, size) for size in leading), *windows),
}


def _check_window(node: UOp, windows: Sequence[tuple[int, int]], shape: Sequence[int]) -> None:
    for axis, ((start, size), length) in enumerate(zip(windows, shape, strict=True)):
        if start < 0 or size < 0 or start + size > length:
            raise OutOfRangeError(
                f"shrink: {start}..{start + size} is not inside axis {axis} of size {length}", node.short()
            )


def at_positions(node: UOp, x: Value, positions: Sequence[Value], gate: Value | None, fill: Any = 0) -> Value:
    """x at positions of its own first axes, for every value of all ranges; `fill` where the gate is false."""
    picks = [*positions] if gate is None else [*positions, gate]
    ranges, places = align(picks, x.ranges)
    wanted = None if gate is None else places.pop()
    axes = len(ranges) + max((pick.rank for pick in picks), default=0)
    # Where x depends on a range, the element for each value of the range lies at that position of its axis.
    own = []
    for r, size in zip(x.ranges, x.array.shape, strict=False):
        shape = [1] * axes
        shape[ranges.index(r)] = size
        own.append(np.arange(size).reshape(shape))
    return Value(gather(node, x.array, [*own, *places], wanted, fill, first_axis=-len(own)), ranges)
