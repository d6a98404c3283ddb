"""Reductions that can run in one loop get one range.

    reduce max over k0 of x[r0, k0], reduce add over k1 of x[r0, k1]
    ->  both over k0, so that x[r0, k0] is read once

Each reduction comes with ranges of its own. Two of them can share if they stand under the same ranges, shared ones of
the same reductions included, have the same size, and neither depends on the other; those that nest equally deep never
do.
"""

from __future__ import annotations

from typing import Any

from whit.ir import ops
from whit.ir.args import RangeKind
from whit.ir.free import free_ranges
from whit.ir.graph import topological
from whit.ir.nesting import Owner
from whit.ir.uop import UOp


def share_loops(root: UOp) -> UOp:
    """The graph with as few reduce ranges as can be."""
    free = free_ranges(root)
    depth: dict[UOp, int] = {}
    shared: dict[Any, UOp] = {}
    renamed: dict[UOp, UOp] = {}
    for node in topological((root,)):
        depth[node] = max((depth[s] for s in node.src), default=0)
        if node.op is not ops.REDUCE or len(node.src) == 1:
            continue
        depth[node] += 1
        outer: tuple[UOp, ...] = ()
        for old in node.src[1:]:
            key = (depth[node], outer, old.src[0], free[node])
            if key not in shared:
                shared[key] = UOp.range(old.src[0], len(shared), RangeKind.REDUCE, Owner.REDUCE)
            renamed[old] = shared[key]
            outer = (*outer, shared[key])
    return root.substitute(renamed)
