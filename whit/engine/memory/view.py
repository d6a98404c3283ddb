"""Which views are a contiguous part of a buffer, so that they need no kernel.

b.shrink(((2, 3), (0, 4))) of a (8, 4) buffer      rows 2..4: the 12 elements from 8 on
b.reshape((32,)), b.bitcast(int32)                 all of it
"""

from __future__ import annotations

from whit.engine.memory.storage import computed, is_known
from whit.ir import ops
from whit.ir.contiguous import start_of_view
from whit.ir.uop import UOp

SAME_ORDER = frozenset({ops.RESHAPE, ops.SHRINK, ops.BITCAST, ops.DETACH, ops.PERMUTE, ops.EXPAND, ops.PAD, ops.FLIP})


def view_of_buffer(node: UOp) -> tuple[UOp, int] | None:
    """The BUFFER or PARAM that a node is a contiguous part of, and the byte it starts at; None if it is not one."""
    offset = 0
    while node.op is not ops.BUFFER and node.op is not ops.PARAM:
        known = computed(node)
        if known is not None:
            node = known
            continue
        if node.op not in SAME_ORDER or len(node.src) != 1:  # symbolic sizes: their memory lies apart
            return None
        start = start_of_view(node)
        if start is None:
            return None
        offset += start * node.dtype.itemsize
        (node,) = node.src
    return (node, offset) if is_known(node.shape) else None
