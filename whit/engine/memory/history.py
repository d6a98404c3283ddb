"""What realised tensors were before, for gradients of graphs that were built then.

    y = x * 2; loss = (y * y).sum(); y.realize()        y is a BUFFER, and x * 2 to the loss: the same value
    w += 1; w.realize()                                 what w was is another value: a gradient by w is an error

Nodes are held weakly: what no graph refers to any more does not matter. Only as long as a node lives is the BUFFER kept
that has its value, so that nobody writes into its memory.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import NamedTuple

from whit.engine.memory.node_table import NodeTable
from whit.ir import ops
from whit.ir.uop import UOp


class _Past(NamedTuple):
    """What tensors of a BUFFER were."""

    nodes: tuple[weakref.ref[UOp], ...]
    is_computed: bool  # from others: it had a graph


_NONE = _Past((), False)
_now: NodeTable[UOp] = NodeTable()  # a node -> the BUFFER that a tensor of this node has become
_was: NodeTable[_Past] = NodeTable()


def note_realised(node: UOp, buffer: UOp) -> None:
    """A tensor of this node has become a tensor of this BUFFER."""
    if node is buffer or node.op is ops.BUFFER or not _is_own(node):
        return
    nodes = [weakref.ref(node), *(_was.get(buffer) or _NONE).nodes]
    if node.op is ops.AFTER:
        nodes += [reference for content in _contents_before(node) for reference in _with_former(content)]
    _now[node] = buffer
    _was[buffer] = _Past(tuple(nodes), node.op is not ops.LEAF)


def note_written(buffer: UOp, before: UOp) -> None:
    """What was a tensor of one BUFFER got a new value, in another one."""
    _was[buffer] = _Past(tuple(_with_former(before)), False)


def buffer_now(node: UOp) -> UOp | None:
    """The BUFFER that a tensor of this node has become."""
    return _now.get(node)


def has_former(buffer: UOp) -> bool:
    """Whether a graph still has the node of a tensor that has become this BUFFER."""
    return any(reference() is not None for reference in (_was.get(buffer) or _NONE).nodes)


def is_realised(node: UOp) -> bool:
    """Whether a BUFFER was computed from others: it has no graph, but had one."""
    return (_was.get(node) or _NONE).is_computed


def former(node: UOp) -> Iterator[tuple[UOp, bool]]:
    """What a tensor of this node was, as far as anybody still refers to it, and whether that is the same value."""
    for content in _contents_before(node):
        for reference in _with_former(content):
            if (found := reference()) is not None:
                yield found, False
    for reference in (_was.get(node) or _NONE).nodes:
        if (found := reference()) is not None:
            yield found, _now.get(found) is node


def _with_former(node: UOp) -> list[weakref.ref[UOp]]:
    past = _was.get(node) or _NONE
    return [weakref.ref(node), *[reference for reference in past.nodes if reference() is not None]]


def _contents_before(node: UOp) -> Iterator[UOp]:
    """What a tensor was before each of the writes to it."""
    while node.op is ops.AFTER:
        node = node.src[0]
        if _is_own(node):
            yield node


def _is_own(node: UOp) -> bool:
    """Whether a node belongs to a tensor. Constants are everywhere, and tell nothing."""
    return node.device is not None or node.op is ops.LEAF
