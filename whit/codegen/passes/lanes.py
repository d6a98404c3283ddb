"""The lanes of a vector: their numbers, and masks that leave some of them out; gates in general."""

from __future__ import annotations

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.graph import joined
from whit.ir.map_graph import map_graph
from whit.ir.op import Sources
from whit.ir.uop import UOp, const


def lane_numbers(width: int) -> UOp:
    """The vector (0, 1, ..., width-1)."""
    return UOp.stack(*(const(dtypes.weakint, i) for i in range(width)))


def all_of(*gates: UOp | None) -> UOp | None:
    """All of the conditions that there are."""
    both: UOp | None = None
    for gate in gates:
        both = gate if both is None else both if gate is None else both & gate
    return both


def without_each(store: UOp) -> UOp:
    """A store whose gate leaves to others how often it is carried out."""
    if not store.arg.gated:
        return store
    target, value, position, gate = store.src
    clauses = [clause for clause in joined(gate, ops.AND) if clause.op is not ops.EACH]
    return target.store(value, position, combine=store.arg.combine, gate=all_of(*clauses))


def masked(graph: UOp, mask: UOp) -> UOp:
    """The graph with every access by lanes restricted to those of the mask.

    What a horizontal reduction makes of a vector has lanes of its own, so its inside stays as it is; so does what fills
    a panel, whose lanes may run along another axis. A store to one place, of something that a row has once, has none.
    """

    def under_mask(node: UOp, src: Sources) -> UOp | None:
        if node.op is ops.STAGE or (node.op is ops.REDUCE and node.arg.axes):
            return node
        if node.op is ops.INDEX and src[1].shape == mask.shape:
            param, position, *gate = src
            return param.index(position, gate=all_of(*gate, mask))
        if node.op is ops.STORE and src[2].shape == mask.shape:
            target, value, position, *gate = src
            return target.store(value, position, combine=node.arg.combine, gate=all_of(*gate, mask))
        return None

    return map_graph(graph, under_mask)
