"""Algebra on kernels with vectors.

    reduce add over the lanes of (x, y, z, w) * 0      ->      reduce add over the lanes of (0, 0, 0, 0)

A number stands for a vector of it wherever one is combined with others, so simplification may leave a number where a
vector was. Not so below a horizontal reduction, which is over as many lanes as there were, nor where lanes are picked
or change places. So these are taken out, their vectors simplified beside the rest, and put back.
"""

from __future__ import annotations

from whit.ir import ops
from whit.ir.args import LANES_SLOT
from whit.ir.graph import topological
from whit.ir.map_graph import map_graph
from whit.ir.op import Sources
from whit.ir.uop import UOp, make
from whit.simplify import simplify

MEMORY = (ops.PARAM, ops.BUFFER, ops.AFTER)


def needs_lanes(node: UOp) -> bool:
    """Whether the sources of a node must be vectors."""
    if node.op is ops.INDEX:
        return bool(node.src[0].shape) and node.src[0].op not in MEMORY
    return node.op is ops.SHUFFLE or (node.op is ops.REDUCE and bool(node.arg.axes))


def simplify_lanes(body: UOp) -> UOp:
    """The kernel simplified, what needs lanes with as many as before."""
    found = [node for node in topological((body,)) if needs_lanes(node)]
    if not found:
        return simplify(body)
    meanwhile = {node: UOp.param(LANES_SLOT + i, node.dtype, node.shape) for i, node in enumerate(found)}
    sources = [source for node in found for source in node.src]
    *simplified, result = simplify(UOp.group(*sources, body).substitute(meanwhile)).src
    done: dict[UOp, UOp] = {}  # what everything has become, the params first
    rest = iter(simplified)
    for node in found:  # inner ones first
        src = tuple([_as_wide(map_graph(next(rest), _as_it_is, done), source) for source in node.src])
        done[meanwhile[node]] = make(node.op, src, node.arg)
    return map_graph(result, _as_it_is, done)


def _as_it_is(node: UOp, src: Sources) -> None:
    """What has become of its sources is all that changes."""


def _as_wide(value: UOp, before: UOp) -> UOp:
    """A value with the lanes that it had before it was simplified."""
    if value.shape or not before.shape:
        return value
    return UOp.stack(*([value] * before.shape[0]))
