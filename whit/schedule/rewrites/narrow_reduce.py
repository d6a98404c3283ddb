"""Reductions that are the same along an axis are computed once, and repeated.

    sum over k of expand(a[k, n] to [m, k, n])   ->   expand(sum over k of a[k, n] to [m, n])

The gradient of a weight under a sum is such a reduction: it is the same in every row. Nobody writes it so; it comes of
a product with ones, of which nothing is left. Read as it is, each element of the result would add up a column again.
"""

from __future__ import annotations

from math import prod
from typing import Any

from whit.ir import ops
from whit.ir.op import Shape
from whit.ir.rules import Rules, function_rule
from whit.ir.uop import UOp
from whit.schedule.values import prod_of

MOST_NODES = 32  # to look at: what is further away is taken to vary
LEAST = 4  # equal results, and operations that are saved: from there on the reduction is worth a kernel of its own
LEAST_SAVED = 1 << 15


@function_rule(ops.REDUCE)
def narrow_reduce(node: UOp) -> UOp | None:
    """reduce over k of what is the same along m -> expand of reduce over k of the first along m"""
    (value,) = node.src
    shape, reduced = value.shape, set(node.arg.axes)
    if not reduced:
        return None
    kept = frozenset(a for a, size in enumerate(shape) if a not in reduced and type(size) is int and size > 1)
    same = kept - _varying(value, kept, [MOST_NODES])
    times = prod([shape[a] for a in same])
    if times < LEAST or prod_of(shape) // times * (times - 1) < LEAST_SAVED:
        return None
    first = value.shrink([(0, 1 if axis in same else size) for axis, size in enumerate(shape)])
    return first.reduce(node.arg.op, node.arg.axes).expand(node.shape)


def _varying(value: UOp, axes: frozenset[int], left: list[int]) -> frozenset[int]:
    """Those of some axes along which a value may differ. `left` counts the nodes that may still be looked at."""
    left[0] -= 1
    if not axes or not value.shape:
        return frozenset()
    if left[0] < 0:
        return axes
    op = value.op
    if op in _THROUGH:
        return _THROUGH[op](value, axes, left)
    if not (op.elementwise or op is ops.CAST or op is ops.DETACH):
        return axes
    found: frozenset[int] = frozenset()
    for source in value.src:
        found |= _varying(source, axes - found, left)
    return found


def _through_expand(value: UOp, axes: frozenset[int], left: list[int]) -> frozenset[int]:
    """The same of axes that are not repeated."""
    source = value.src[0]
    return _varying(source, frozenset(a for a in axes if _is_same(source.shape[a], value.shape[a])), left)


def _through_permute(value: UOp, axes: frozenset[int], left: list[int]) -> frozenset[int]:
    """The same of axes in another order."""
    back = {value.arg[a]: a for a in axes}
    return frozenset(back[a] for a in _varying(value.src[0], frozenset(back), left))


def _through_reshape(value: UOp, axes: frozenset[int], left: list[int]) -> frozenset[int]:
    """The same of axes that are made of others: each may differ where one of those that it is made of does."""
    groups = _groups(value.src[0].shape, value.shape)
    wanted = {here: old for old, new in groups for here in new if here in axes}
    if len(wanted) < len(axes):
        return axes
    inside = _varying(value.src[0], frozenset(a for old in wanted.values() for a in old), left)
    return frozenset(here for here, old in wanted.items() if not inside.isdisjoint(old))


def _groups(old: Shape, new: Shape) -> list[tuple[list[int], list[int]]]:
    """Axes with as many elements together before and after, as few together as there can be; none of symbolic sizes."""
    if any(type(size) is not int for size in (*old, *new)) or prod(old) == 0:
        return []
    groups: list[tuple[list[int], list[int]]] = []
    here = there = 0
    while there < len(new):
        before, after, left, right = list[int](), [there], 1, new[there]
        there += 1
        while left != right or (here < len(old) and old[here] == 1):
            if left < right or left == right:
                left, here = left * old[here], here + 1
                before.append(here - 1)
            else:
                right, there = right * new[there], there + 1
                after.append(there - 1)
        groups.append((before, after))
    return groups


def _is_same(size: Any, other: Any) -> bool:
    """Whether two sizes are: numbers, or nodes that stand for equal ones."""
    return bool(size == other) if type(size) is int and type(other) is int else size is other


_THROUGH = {ops.EXPAND: _through_expand, ops.PERMUTE: _through_permute, ops.RESHAPE: _through_reshape}
NARROW_REDUCE = Rules("narrow_reduce", (narrow_reduce,))
