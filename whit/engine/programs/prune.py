"""Work that does not depend on the arguments of a captured function, found and taken out: it is done once.

    x @ (w * scale)         w and scale captured, never written:    x @ q,   q = w * scale

Goes in: the values of a trace, and the placeholders of captured tensors that it only reads. Comes out: the values over
further placeholders, and what these stand for. Movement alone is left where it is: it costs nothing. So is a value that
takes more memory than what it is made of, such as weights that are unpacked: what it is made of is looked at instead,
unless somebody wanted it kept (STAGE).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod

from whit.engine.memory.placeholder import new_placeholder
from whit.engine.memory.storage import is_known, nbytes_of
from whit.engine.report.launch_names import keep_made
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.map_graph import map_graphs, rebuilt
from whit.ir.uop import UOp

LEFT = frozenset({ops.BUFFER, ops.CONST, *ops.MOVEMENT, *ops.SAME_VALUE, ops.BITCAST})


def prune(values: Sequence[UOp], fixed: Collection[UOp]) -> tuple[list[UOp], list[tuple[UOp, UOp]]]:
    """The values, and for each new placeholder what it stands for."""
    order = topological(tuple(values))
    is_fixed: set[UOp] = set(fixed)
    costs: set[UOp] = set()  # of the fixed ones those that take work
    for node in order:
        if _can_be_fixed(node) and _depends_only_on(is_fixed, node):
            is_fixed.add(node)
            if node.op not in LEFT or not costs.isdisjoint(node.src):
                costs.add(node)
    read = {source for node in order if node not in is_fixed for source in node.src}
    taken = _worth_keeping(costs & read.union(values), costs, fixed)
    done = {node: new_placeholder(node.dtype, node.shape, str(node.device)) for node in order if node in taken}
    found = [(placeholder, node) for node, placeholder in done.items()]
    done = map_graphs(values, _over, done)
    return [done[value] for value in values], found


def _over(node: UOp, src: tuple[UOp, ...]) -> UOp:
    """A node over other sources, made where it was: launches are called after that."""
    return node if src == node.src else keep_made(rebuilt(node, src), node)


def _worth_keeping(found: Collection[UOp], costs: Collection[UOp], fixed: Collection[UOp]) -> set[UOp]:
    """Of values that take work, or else of what they are made of, those that are worth their memory."""
    taken: set[UOp] = set()
    stack, seen = [*found], {*found}
    while stack:
        node = stack.pop()
        is_moved = node.op in ops.MOVEMENT and prod(node.shape) >= prod(node.src[0].shape)
        if not is_moved and (node.op is ops.STAGE or _nbytes(node) <= _nbytes_below(node, fixed)):
            taken.add(node)
            continue
        fresh = [source for source in node.src if source in costs and source not in seen]
        seen.update(fresh)
        stack.extend(fresh)
    return taken


def _nbytes_below(node: UOp, fixed: Collection[UOp]) -> int:
    """Bytes of the captured tensors that a value is made of."""
    return sum(_nbytes(leaf) for leaf in topological((node,)) if leaf in fixed)


def _nbytes(node: UOp) -> int:
    return nbytes_of(node.dtype, node.shape)


def _can_be_fixed(node: UOp) -> bool:
    """Whether a node is a value of its own, of which the memory is known."""
    is_value = not node.op.opaque and node.op not in (ops.AFTER, ops.STORE, ops.COPY, ops.BIND, ops.VARIABLE)
    return is_value and node.device is not None and is_known(node.shape)


def _depends_only_on(fixed: Collection[UOp], node: UOp) -> bool:
    """Whether a node is made of some values, and besides of nothing but numbers."""
    others = [source for source in node.src if source not in fixed]
    return len(others) < len(node.src) and all(source.device is None for source in others)
