"""BUFFERs without memory: their numbers are negative. They stand for values that are not known, or for other nodes.

Numbers tell what for: those of `new_stand_in`, which are used while a graph is transformed, are far below the others.
"""

from __future__ import annotations

import itertools

from whit.dtype import DType
from whit.ir import ops
from whit.ir.op import Shape
from whit.ir.uop import UOp

FIRST_STAND_IN = -(1 << 40)
_ids = itertools.count(-1, -1)
_stand_in_ids = itertools.count(FIRST_STAND_IN, -1)


def new_placeholder(dtype: DType, shape: Shape, device: str | None) -> UOp:
    """A BUFFER without memory."""
    return UOp.buffer(next(_ids), dtype, shape, device)


def is_placeholder(node: UOp) -> bool:
    """Whether a BUFFER only stands for something."""
    return node.op is ops.BUFFER and node.arg.id < 0


def new_stand_in(dtype: DType, shape: Shape, device: str | None) -> UOp:
    """A BUFFER without memory, for a transform."""
    return UOp.buffer(next(_stand_in_ids), dtype, shape, device)


def is_stand_in(node: UOp) -> bool:
    """Whether a BUFFER is one of `new_stand_in`."""
    return node.op is ops.BUFFER and node.arg.id <= FIRST_STAND_IN
