"""BUFFERs without memory: their numbers are negative. They stand for values that are not known, or for other nodes."""

from __future__ import annotations

import itertools

from whit.dtype import DType
from whit.ir import ops
from whit.ir.op import Shape
from whit.ir.uop import UOp

_ids = itertools.count(-1, -1)


def new_placeholder(dtype: DType, shape: Shape, device: str | None) -> UOp:
    """A BUFFER without memory."""
    return UOp.buffer(next(_ids), dtype, shape, device)


def is_placeholder(node: UOp) -> bool:
    """Whether a BUFFER only stands for something."""
    return node.op is ops.BUFFER and node.arg.id < 0
