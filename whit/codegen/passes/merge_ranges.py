"""Neighbouring ranges that are always walked as one become one.

    r0 < 6, r1 < 8, every position r0*8 + r1       ->       r < 48, position r

Fewer loops, longer vectors. The test is algebra: with r0 = r//8 and r1 = r%8 the kernel must simplify to one in which r
is not divided.
"""

from __future__ import annotations

from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.sizes import settled
from whit.ir.uop import UOp
from whit.kernel.ranges import free_ranges, in_order, replace_ranges
from whit.simplify import simplify


def runs_apart(body: UOp) -> bool:
    """Whether a kernel has loops that nothing connects, one after the other."""
    free = free_ranges(body)
    first, *others = sorted({free[store] for store in body.src}, key=len, reverse=True)
    return any(first.isdisjoint(other) for other in others)


def merge_ranges(body: UOp) -> UOp:
    """The kernel over as few ranges as can be; as it is, if its loops have nothing in common."""
    if runs_apart(body):
        return body
    body = _merge_all(body, in_order(free_ranges(body)[body]))
    for ranges in _reduced_together(body):
        body = _merge_all(body, ranges)
    return body


def _merge_all(body: UOp, ranges: list[UOp]) -> UOp:
    """Merges neighbours from the innermost outward, as far as it goes."""
    while len(ranges) > 1:
        *rest, first, second = ranges
        merged = _merge(body, first, second)
        if merged is None:
            ranges = ranges[:-1]
        else:
            body, ranges = merged[0], [*rest, merged[1]]
    return body


def _merge(body: UOp, first: UOp, second: UOp) -> tuple[UOp, UOp] | None:
    """The kernel with two ranges as one, unless the one would have to be divided."""
    if not isinstance(second.size, int) or first.arg.kind is not second.arg.kind:
        return None
    if any(node.op is ops.SCAN and node.src[1] in (first, second) for node in topological((body,))):
        return None
    one = first.resized(settled(first.size * second.size))  # so that rules find nothing to do in it: it is looked for
    values = {first: one // second.size, second: one % second.size}
    merged = simplify(replace_ranges(body, values, {first: (one,), second: ()}))
    free = free_ranges(merged)
    for node in topological((merged,)):
        if node.op in (ops.FLOORDIV, ops.FLOORMOD) and one in free[node]:
            return None
    return merged, one


def _reduced_together(body: UOp) -> list[list[UOp]]:
    """Lists of ranges that every reduction binds together or not at all."""
    lists = dict.fromkeys(node.src[1:] for node in topological((body,)) if node.op is ops.REDUCE)
    alone = [ranges for ranges in lists if not any(set(ranges) & set(o) for o in lists if o != ranges)]
    return [list(ranges) for ranges in alone if len(ranges) > 1]
