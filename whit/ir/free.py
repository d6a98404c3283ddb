"""The ranges that a node is inside of: those that it depends on and that nothing below it binds.

    x[i, k]                         i, k
    reduce add over k of x[i, k]    i           REDUCE and STAGE bind ranges, as SORT does with the one it sorts along
    scan add over k of x[i, k]      i, k        there is a result for each k
    k < i                           i, k        the size of a range may depend on others
    store p, x[i, k], i             i, k        the loops in which an effect happens
    a function                      none        its body has ranges of its own

It is the one rule for this: the value of a node is the same for all values of any other range, and an array with an
axis for each of these (`whit.ir.interpret`).
"""

from __future__ import annotations

from whit.ir import ops
from whit.ir.op import Sources
from whit.ir.uop import UOp

Free = dict[UOp, frozenset[UOp]]
NO_RANGES: frozenset[UOp] = frozenset()


def bound_ranges(node: UOp) -> Sources:
    """The ranges that a node binds: nothing above it is inside of them by it."""
    if node.op is ops.REDUCE or node.op is ops.STAGE:
        return node.src[1:]
    return node.src[2:3] if node.op is ops.SORT else ()


def free_ranges(root: UOp, known: Free | None = None) -> Free:
    """For every node below and including root the ranges that are free in it, sources first.

    `known` has those of nodes that were asked about before, and is filled with the others. Iterative: the depth does
    not matter.
    """
    known = {} if known is None else known
    stack = [root]
    while stack:
        node = stack.pop()
        if node in known:
            continue
        missing = [] if node.op.opaque else [s for s in node.src if s not in known]
        if missing:
            stack.append(node)
            missing.reverse()
            stack.extend(missing)
        else:
            known[node] = _free_in(node, known)
    return known


def _free_in(node: UOp, known: Free) -> frozenset[UOp]:
    """The ranges that are free in one node, over those of its sources."""
    if node.op.opaque:
        return NO_RANGES
    found = NO_RANGES
    for s in node.src:
        inside = known[s]
        if inside and inside is not found:
            found = found | inside if found else inside
    if node.op is ops.RANGE:
        return found | {node}
    bound = bound_ranges(node)
    return found.difference(bound) if bound and found else found
