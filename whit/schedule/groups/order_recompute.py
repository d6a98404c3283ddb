"""What is rematerialised comes late: a kernel that computes with an RECOMPUTE runs after what the RECOMPUTE waits for.

    y = f(x)                               forward
    dy = ...                               needs y
    z = g(recompute(x, dy))                    the same numbers as g(x), after dy is known

Goes in: the kernels, and what must run before some of them. Comes out: that, with an entry for each kernel that has an
RECOMPUTE fused: the kernels nearest below what it waits for. It is a wish: where it and the order of writes go round in
a circle, the writes win, and the recomputation comes as it comes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from whit.ir import ops
from whit.ir.uop import UOp
from whit.schedule.stages.choose import StoredValue
from whit.schedule.values import operands_of
from whit.schedule.writes.order import in_circles


def order_recompute(
    kernels: dict[UOp, StoredValue], earlier: Mapping[UOp, Collection[UOp]]
) -> Mapping[UOp, Collection[UOp]]:
    """For each kernel what must run before it although it does not read it."""
    known: dict[UOp, tuple[UOp, ...]] = {}
    found: dict[UOp, list[UOp]] = {}
    for root, kernel in kernels.items():
        waits = [node for node in kernel.fused if node.op is ops.RECOMPUTE and len(node.src) > 1]
        for node in waits:
            if node not in known:
                known[node] = tuple(_nearest(node.src[1:], kernels))
            found.setdefault(root, []).extend(known[node])
    if not found:
        return earlier
    both = {root: [*earlier.get(root, ()), *found.get(root, ())] for root in {**earlier, **found}}
    if not earlier:  # the graph has no circles, so kernels have none
        return both
    needs = {root: {r for r in kernel.reads if r in kernels} for root, kernel in kernels.items()}
    return earlier if in_circles({root: needs[root] | set(both.get(root, ())) for root in kernels}) else both


def _nearest(values: Iterable[UOp], kernels: Collection[UOp]) -> Iterable[UOp]:
    """The kernels that have to run for these values, and no others in between."""
    stack = list(values)
    seen = set(stack)
    while stack:
        node = stack.pop()
        if node in kernels:
            yield node
            continue
        fresh = [s for s in operands_of(node) if s not in seen]
        seen.update(fresh)
        stack.extend(fresh)
