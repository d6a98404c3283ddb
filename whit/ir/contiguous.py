"""Views that keep the order of elements and leave no gaps: what they show begins at one element of their source.

x of (8, 4): x.shrink(((2, 3), (0, 4)))     8: the 12 elements from there on
x.shrink(((0, 8), (1, 2)))                  None: its elements lie apart
"""

from __future__ import annotations

from math import prod

from whit.ir import ops
from whit.ir.op import Shape
from whit.ir.uop import UOp


def start_of_view(view: UOp) -> int | None:
    """The element of the source at which a view starts, if it keeps the order of elements and leaves no gaps."""
    (source,) = view.src
    shape = source.shape
    if not _is_known(shape):
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


def _is_known(shape: Shape) -> bool:
    return set(map(type, shape)) <= {int}
