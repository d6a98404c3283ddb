"""Interval bounds of integer and boolean nodes.

    bounds(x)         x a variable in [0, 9]      (0, 9)
    bounds(x * 2 + 1)                             (1, 19)
    bounds(a)         a an int8 load              (-128, 127)

Exact or too wide, never too narrow. An op's record says what it does to intervals; here is what leaves and conversions
do, and what wrap-around does: a fixed-width result that could leave its dtype gets the dtype's whole range. A node of
dtype weakint may have no known bounds (`None`). Results are kept in the node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whit.dtype import DType, dtypes
from whit.ir import ops
from whit.ir.interval import Interval
from whit.ir.op import Op
from whit.ir.record import set_bounds
from whit.ir.uop import UOp

LIMIT_BITS = 4096  # no larger integers are built: squaring x 60 times would need more memory than there is
_HUGE = 1 << LIMIT_BITS
_GROWING = frozenset({ops.MUL, ops.SHL, ops.FMA})
_UNKNOWN: tuple[int, ...] = ()


def bounds(node: UOp) -> Interval | None:
    """The interval in which the value of an integer or boolean node lies; None where nothing is known."""
    known = node.known_bounds
    if known is None:
        stack = [node]  # only through nodes whose bounds are not known yet, and whatever the depth
        while stack:
            current = stack[-1]
            for s in current.src:
                if s.known_bounds is None:
                    stack.append(s)
            if stack[-1] is current:
                set_bounds(current, _compute(current) or _UNKNOWN)
                stack.pop()
        known = node.known_bounds
    return known or None  # type: ignore[return-value]


def range_of(dtype: DType) -> Interval | None:
    """All values of an integer or boolean dtype."""
    if dtype.is_bool:
        return 0, 1
    return None if dtype is dtypes.weakint or not dtype.is_int else (dtype.min, dtype.max)


def _compute(node: UOp) -> Interval | None:
    dtype = node.dtype
    if dtype is dtypes.weakint:  # most nodes: no wrap-around to think of
        return _of_op(node)
    whole = range_of(dtype)
    found = _of_op(node) if whole is not None else None
    if found is None or whole is None:
        return whole
    low, high = found
    return found if whole[0] <= low and high <= whole[1] else whole


def _of_op(node: UOp) -> Interval | None:
    op = node.op
    if op in _SPECIAL:
        return _SPECIAL[op](node)
    if op.bounds is None:
        return None
    sources: list[Any] = []
    for s in node.src:
        known = s.known_bounds
        if not known:
            return None
        sources.append(known)
    reach = op.bounds(*sources)
    if op in _GROWING and reach is not None and not (reach[0] > -_HUGE and reach[1] < _HUGE):
        return None
    return reach


def _cast(node: UOp) -> Interval | None:
    """Integers that fit stay as they are; a bool is whether the number is not 0."""
    (value,) = node.src
    inside = bounds(value)
    if inside is None:
        return None
    if node.dtype.is_bool:
        low, high = inside
        return int(low > 0 or high < 0), int((low, high) != (0, 0))
    return inside


def _arange(node: UOp) -> Interval | None:
    """The positions of an axis, whose size may be symbolic."""
    if not node.src:
        return 0, max(node.arg.size - 1, 0)
    size = bounds(node.src[0])
    return None if size is None else (0, max(size[1] - 1, 0))


def _first(node: UOp) -> Interval | None:
    return bounds(node.src[0])


def _reduce(node: UOp) -> Interval | None:
    """The largest of numbers in an interval lies in it too, unless there are none."""
    picks = node.arg.op in (ops.MAX, ops.MIN, ops.AND, ops.OR)
    return bounds(node.src[0]) if picks and _is_never_empty(node) and node.dtype is dtypes.weakint else None


def _is_never_empty(node: UOp) -> bool:
    sizes = [node.src[0].shape[axis] for axis in node.arg.axes] or [r.size for r in node.src[1:]]
    return all(isinstance(size, int) and size > 0 for size in sizes)


def _union(node: UOp) -> Interval | None:
    parts = [bounds(s) for s in node.src]
    known = [p for p in parts if p is not None]
    return (min(p[0] for p in known), max(p[1] for p in known)) if len(known) == len(parts) else None


def _index(node: UOp) -> Interval | None:
    """An element; or 0, where a gate may be false."""
    inside = bounds(node.src[0])
    if inside is None or not node.arg:
        return inside
    return min(inside[0], 0), max(inside[1], 0)


_SPECIAL: dict[Op, Callable[[UOp], Interval | None]] = {
    ops.CONST: lambda node: (int(node.arg), int(node.arg)),
    ops.VARIABLE: lambda node: (node.arg.low, node.arg.high),
    ops.ARANGE: _arange,
    ops.CAST: _cast,
    ops.REDUCE: _reduce,
    ops.STACK: _union,
    ops.SHUFFLE: _union,
    ops.INDEX: _index,
    **dict.fromkeys((ops.AFTER, *ops.SAME_VALUE, ops.RECOMPUTE, ops.COPY, ops.STAGE, *ops.MOVEMENT), _first),
    ops.PAD: lambda node: None,
}
