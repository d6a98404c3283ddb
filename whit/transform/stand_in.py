"""Nodes that stand for others while a graph is transformed, and are gone from what comes out.

    x = stand_in(X.dtype, X.shape[1:], X.device)          one example of X

Who asks for the value of one, as a gradient of the user that computes with NumPy, is told that it has none.
"""

from __future__ import annotations

from whit.dtype import DType
from whit.ir.op import Shape
from whit.ir.placeholder import new_stand_in
from whit.ir.uop import UOp


def stand_in(dtype: DType, shape: Shape, device: str | None) -> UOp:
    """A node without a value, which is no other node. Writes to it make new values, as to what has no memory."""
    return new_stand_in(dtype, shape, device).leaf()
