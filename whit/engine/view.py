"""Which views are a contiguous part of a buffer, so that they need no kernel.

b.shrink(((2, 3), (0, 4))) of a (8, 4) buffer      rows 2..4: the 12 elements from 8 on
b.reshape((32,)), b.bitcast(int32)                 all of it
"""

from __future__ import annotations

from math import prod

from whit.engine.storage import computed, is_known
from whit.ir import ops
from whit.ir.op import Shape
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


def start_of_view(view: UOp) -> int | None:
    """The element of the source at which a view starts, if it keeps the order of elements and leaves no gaps."""
    (source,) = view.src
    shape = source.shape
    if not is_known(shape):
        return None
    if view.op is ops.SHRINK:
        return _start_of_window(shape, view.arg)
    if view.op is ops.PERMUTE:
        long = [axis for axis in view.arg if shape[axis] != 1]
        return 0 if long == sorted(long) else None
    if view.op is ops.FLIP:
        return 0 if all(shape[axis] == 1 for axis in view.arg) else None
    return 0 if prod(view.shape) == prod(shape) else None  # an EXPAND or PAD that does nothing; RESHAPE, BITCAST


def _start_of_window(shape: Shape, parts: tuple[tuple[int, int], ...]) -> int | None:
    """Axes of size 1, then one axis of which there is a part, then whole axes."""
    start, stride = 0, 1
    is_whole = True  # all axes to the right are complete
    for size, (first, length) in zip(reversed(shape), reversed(parts), strict=True):
        if not is_whole and length != 1:
            return None
        if length != size:
            is_whole = False
        start += first * stride
        stride *= size
    return start if prod(length for _, length in parts) else 0
