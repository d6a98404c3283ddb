"""Algebra on kernels with vectors.

    reduce add over the lanes of (x, y, z, w) * 0      ->      reduce add over the lanes of (0, 0, 0, 0)

A number stands for a vector of it wherever one is combined with others, so simplification may leave a number where a vector
was. Not so below a horizontal reduction, which is over as many lanes as there were.
"""

from __future__ import annotations

from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.uop import UOp, make
from whit.simplify import simplify


def simplify_lanes(body: UOp) -> UOp:
    """The kernel simplified, its horizontal reductions over as many lanes as before."""
    done: dict[UOp, UOp] = {}
    for node in topological((body,)):
        if node.op is ops.REDUCE and node.arg.axes:
            (vector,) = node.src
            value = simplify(vector.substitute(done))
            if not value.shape:
                value = UOp.stack(*([value] * vector.shape[0]))
            done[node] = make(ops.REDUCE, (value,), node.arg)
    return simplify(body.substitute(done))
