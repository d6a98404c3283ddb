"""Nodes that stand for others while a graph is transformed, and are gone from what comes out.

    x = stand_in(X.dtype, X.shape[1:], X.device)          one example of X

Who asks for the value of one, as a gradient of the user that computes with NumPy, is told that it has none.
"""

from __future__ import annotations

from whit.dtype import DType
from whit.ir.op import Shape
from whit.ir.placeholder import is_placeholder, new_placeholder
from whit.ir.uop import UOp

_stand_ins: set[int] = set()  # numbers of placeholders


def stand_in(dtype: DType, shape: Shape, device: str | None) -> UOp:
    """A node without a value, which is no other node."""
    node = new_placeholder(dtype, shape, device)
    _stand_ins.add(node.arg.id)
    return node.leaf()


def is_stand_in(node: UOp) -> bool:
    """Whether a BUFFER is below a node of `stand_in`."""
    return is_placeholder(node) and node.arg.id in _stand_ins
