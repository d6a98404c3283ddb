"""The tangent of an elementwise op, by the rule of its gradient.

    y = x * w               gradients  dy*w, dy*x             tangent  dx*w + dw*x

Each element of the result depends on the same element of each operand alone, so that what the gradient multiplies by is
what the tangent does. Nothing is imported here: the records of ops stand on this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whit.ir.uop import UOp


def pointwise(node: UOp, tangents: tuple[UOp | None, ...]) -> UOp | None:
    """The sum of what each operand's tangent gives."""
    total = None
    for place, tangent in enumerate(tangents):
        if tangent is None or node.op.grad is None:
            continue
        piece = node.op.grad(node, tangent)[place]
        if piece is not None:
            total = piece if total is None else total + piece
    return total
