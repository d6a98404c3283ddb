"""Work that does not depend on the arguments of a captured function, found and taken out: it is done once.

    x @ (w * scale)         w and scale captured, never written:    x @ q,   q = w * scale

Of functions whose weights shall stay as they are, only what was asked to be stored (`contiguous`) is taken out.

Goes in: the values of a trace, and the placeholders of captured tensors that it only reads. Comes out: the values over
further placeholders, and what these stand for. Movement alone is left where it is: it costs nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from whit.engine.memory.placeholder import new_placeholder
from whit.engine.memory.storage import is_known
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.map_graph import map_graphs
from whit.ir.uop import UOp

LEFT = frozenset({ops.BUFFER, ops.CONST, *ops.MOVEMENT, *ops.SAME_VALUE, ops.BITCAST})


def prune(
    values: Sequence[UOp], fixed: Collection[UOp], only_stored: bool = False
) -> tuple[list[UOp], list[tuple[UOp, UOp]]]:
    """The values, and for each new placeholder what it stands for. `only_stored`: of what was asked to be stored."""
    order = topological(tuple(values))
    is_fixed: set[UOp] = set(fixed)
    for node in order:
        if _can_be_fixed(node) and _depends_only_on(is_fixed, node):
            is_fixed.add(node)
    read = {source for node in order if node not in is_fixed for source in node.src}
    taken = _worth_taking(
        [node for node in order if node in is_fixed and (node in read or node in values)], is_fixed, only_stored
    )
    done = {node: new_placeholder(node.dtype, node.shape, str(node.device)) for node in order if node in taken}
    found = [(placeholder, node) for node, placeholder in done.items()]
    done = map_graphs(values, lambda node, src: None, done)
    return [done[value] for value in values], found


def _worth_taking(read: list[UOp], is_fixed: Collection[UOp], only_stored: bool) -> set[UOp]:
    """The topmost fixed values that take work, below what is read. Not what is moved, which may be expanded."""
    found: set[UOp] = set()
    seen: set[UOp] = set()
    while read:
        node = read.pop()
        if node in seen or node not in is_fixed:
            continue
        seen.add(node)
        if node.op is ops.STAGE or not (only_stored or node.op in LEFT):
            found.add(node)
        else:
            read += node.src
    return found


def _can_be_fixed(node: UOp) -> bool:
    """Whether a node is a value of its own, of which the memory is known."""
    is_value = not node.op.opaque and node.op not in (ops.AFTER, ops.STORE, ops.COPY, ops.BIND, ops.VARIABLE)
    return is_value and node.device is not None and is_known(node.shape)


def _depends_only_on(fixed: Collection[UOp], node: UOp) -> bool:
    """Whether a node is made of some values, and besides of nothing but numbers."""
    others = [source for source in node.src if source not in fixed]
    return len(others) < len(node.src) and all(source.device is None for source in others)
