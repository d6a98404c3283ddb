"""Algebra on kernels with vectors.

    reduce add over the lanes of (x, y, z, w) * 0      ->      reduce add over the lanes of (0, 0, 0, 0)

A number stands for a vector of it wherever one is combined with others, so simplification may leave a number where a
vector was. Not so below a horizontal reduction, which is over as many lanes as there were. So these are taken out,
their vectors simplified beside the rest, and put back.
"""

from __future__ import annotations

from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.uop import UOp, make
from whit.simplify import simplify

FIRST_SLOT = 1_000_000  # of the params that stand for reductions meanwhile


def simplify_lanes(body: UOp) -> UOp:
    """The kernel simplified, its horizontal reductions over as many lanes as before."""
    across = [node for node in topological((body,)) if node.op is ops.REDUCE and node.arg.axes]
    if not across:
        return simplify(body)
    meanwhile = {node: UOp.param(FIRST_SLOT + i, node.dtype) for i, node in enumerate(across)}
    vectors = [node.src[0] for node in across]
    *simplified, result = simplify(UOp.group(*vectors, body).substitute(meanwhile)).src
    back: dict[UOp, UOp] = {}
    for node, vector, value in zip(across, vectors, simplified, strict=True):  # inner ones first
        lanes = value.substitute(back)
        if not lanes.shape:
            lanes = UOp.stack(*([lanes] * vector.shape[0]))
        back[meanwhile[node]] = make(ops.REDUCE, (lanes,), node.arg)
    return result.substitute(back)
