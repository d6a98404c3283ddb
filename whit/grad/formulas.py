"""Derivatives of functions that are several ops: what a FORMULA node gives its operands.

    @derivative("sigmoid")
    def sigmoid(y, dy, x): return (dy * y * (1 - y),)

The ops of a formula are chosen for the accuracy of its value (polynomials, branches, bits); the gradient of the
function itself is shorter, and finite where theirs would not be. A rule gets the value, dy and the operands, and gives
one gradient for each operand. The functions of `whit.tensor` register theirs here when they are defined.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from whit.errors import InternalError

if TYPE_CHECKING:
    from whit.ir.uop import UOp

Derivative = Callable[..., "tuple[UOp | None, ...]"]  # (y, dy, *operands) -> a gradient for each operand

FORMULAS: dict[str, Derivative] = {}
RESTATED = "restated"  # a FORMULA of a better value, the expression as it was written, and the operands of both


def derivative(name: str) -> Callable[[Derivative], Derivative]:
    """Registers the derivative of the function of that name."""

    def register(rule: Derivative) -> Derivative:
        if name in FORMULAS:
            raise InternalError(f"derivative: {name!r} has one already")
        FORMULAS[name] = rule
        return rule

    return register


def formula_gradients(node: UOp, dy: UOp) -> tuple[UOp | None, ...]:
    """The gradients of a FORMULA node's sources: its first one is the value, and gets none."""
    value, *operands = node.src
    return (None, *FORMULAS[node.arg.name](value, dy, *operands))
