"""Contractions that share a kernel, each with a tile of its own.

    q = x @ a, k = x @ b      over the same rows and columns:

    for each block of rows, on the cores:
        copy the block of x into a panel                 once
        the tiles of q, with a panel of a
        the tiles of k, with a panel of b

One register tile for both would be half as large. The tilings are the best that give the cores as many blocks; where
there are none, the kernel is tiled as any other.
"""

from __future__ import annotations

from whit.codegen.cpu.dot_words import as_dot
from whit.codegen.cpu.panel_sizes import best_by_items
from whit.codegen.passes.linearise import is_panel
from whit.codegen.strategy.fill_panels import FIRST_ID
from whit.codegen.strategy.panels import apply_panels
from whit.ir import ops
from whit.ir.args import Memory, RangeKind
from whit.ir.graph import topological
from whit.ir.map_graph import map_graph
from whit.ir.nesting import Owner
from whit.ir.op import Sources
from whit.ir.uop import UOp, make
from whit.kernel.ranges import free_ranges, next_id
from whit.records import replace
from whit.target import Target


def tile_apart(body: UOp, target: Target) -> tuple[UOp, list[str]] | None:
    """The tiled kernel, and why it is tiled so; None if it does not fall into contractions over the same blocks."""
    parts = [as_dot(part, target) or part for part in _parts(body)]
    if len(parts) < 2 or _reads_twice(parts):
        return None
    plans = [best_by_items(part, target) for part in parts]
    common = set(plans[0]).intersection(*plans)
    if not common:
        return None
    items = min(sorted(common), key=lambda items: sum(of_part[items].cost.total for of_part in plans))
    chosen = [of_part[items] for of_part in plans]
    tiled = [apply_panels(part, plan.found, plan.tiling) for part, plan in zip(parts, chosen, strict=True)]
    free = free_ranges(tiled[0])
    panels = {node for node in topological((tiled[0],)) if is_panel(node) and free[node] <= _cores(tiled[0])}
    stores = list(tiled[0].src)
    for part in tiled[1:]:
        stores.extend(_renumbered(part, topological(stores), panels).src)
    return UOp.group(*stores), [str(plan) for plan in chosen]


def _parts(body: UOp) -> list[UOp]:
    """The stores by the one reduction that each depends on; nothing if a store depends on none, or on several."""
    found: dict[UOp, list[UOp]] = {}
    for store in body.src:
        reduces = [node for node in topological((store,)) if node.op is ops.REDUCE]
        if len(reduces) != 1:
            return []
        found.setdefault(reduces[0], []).append(store)
    return [UOp.group(*stores) for stores in found.values()]


def _reads_twice(parts: list[UOp]) -> bool:
    """Whether two contractions add the same elements to what they store: the first may overwrite them."""
    seen: set[UOp] = set()
    for part in parts:
        free = free_ranges(part)
        reduces = [node for node in topological((part,)) if node.op is ops.REDUCE]
        outside = topological((part,), stop=reduces)
        loads = {node for node in outside if node.op is ops.INDEX and free[node] == free[part.src[0]]}
        if loads & seen:
            return True
        seen |= loads
    return False


def _cores(part: UOp) -> frozenset[UOp]:
    """The range that runs on the cores."""
    return frozenset(r for r in topological((part,)) if r.op is ops.RANGE and r.arg.kind is RangeKind.CORE)


def _renumbered(part: UOp, others: list[UOp], shared: set[UOp]) -> UOp:
    """A tiled contraction with loops and panels that none of the others has, but for the panels that are the same."""
    first_loop = {owner: next_id(owner, others) for owner in Owner}
    last_panel = max((node.arg.id for node in others if node.op is ops.BUFFER), default=FIRST_ID - 1)
    first_panel = 1 + last_panel - FIRST_ID

    def change(node: UOp, src: Sources) -> UOp | None:
        if node.op is ops.RANGE and node.arg.kind is not RangeKind.CORE:
            return make(ops.RANGE, src, replace(node.arg, id=node.arg.id + first_loop[node.arg.owner]))
        if node.op is ops.BUFFER and node.arg.memory is Memory.SHARED:
            return UOp.buffer(node.arg.id + first_panel, node.dtype, node.shape, memory=Memory.SHARED)
        return None

    return map_graph(part, change, {node: node for node in shared})
