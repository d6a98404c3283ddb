"""Work that does not depend on the arguments of a captured function, found and taken out: it is done once.

    x @ (w * scale)         w and scale captured, never written:    x @ q,   q = w * scale

Goes in: the values of a trace, and the placeholders of captured tensors that it only reads. Comes out: the values over
further placeholders, and what these stand for. Movement alone is left where it is: it costs nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from whit.engine.memory.placeholder import new_placeholder
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.uop import UOp, make

LEFT = frozenset({ops.BUFFER, ops.CONST, *ops.MOVEMENT, *ops.SAME_VALUE, ops.BITCAST})


def prune(values: Sequence[UOp], fixed: Collection[UOp]) -> tuple[list[UOp], list[tuple[UOp, UOp]]]:
    """The values, and for each new placeholder what it stands for."""
    order = topological(tuple(values))
    is_fixed: set[UOp] = set(fixed)
    costs: set[UOp] = set()  # of the fixed ones those that take work
    for node in order:
        if node.op.opaque or node.op in (ops.AFTER, ops.STORE, ops.COPY, ops.BIND, ops.VARIABLE):
            continue
        known = [source for source in node.src if source in is_fixed]
        others = [source for source in node.src if source not in is_fixed and source.device is not None]
        if known and not others and node.device is not None and _has_known_shape(node):
            is_fixed.add(node)
            if node.op not in LEFT or any(source in costs for source in known):
                costs.add(node)
    taken = {node for node in values if node in costs}
    for node in order:
        if node not in is_fixed:
            taken.update(source for source in node.src if source in costs)
    done: dict[UOp, UOp] = {node: new_placeholder(node.dtype, node.shape, str(node.device)) for node in taken}
    found = [(placeholder, node) for node, placeholder in done.items()]
    for node in order:
        if node not in done:
            src = tuple([done[source] for source in node.src])
            done[node] = node if src == node.src else make(node.op, src, node.arg)
    return [done[value] for value in values], found


def _has_known_shape(node: UOp) -> bool:
    return all(isinstance(size, int) for size in node.shape)
