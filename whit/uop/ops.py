"""The node of graphs, and sizes that may depend on variables.

from whit.uop.ops import UOp, resolve, sint
resolve(n < 5)              # whether it holds for all values of n; True if that is open
"""

from __future__ import annotations

from whit.ir.sizes import decided
from whit.ir.uop import UOp

__all__ = ["UOp", "Variable", "resolve", "sint"]

sint = int | UOp  # a size: a number, or a node that depends on variables
Variable = UOp.variable


def resolve(condition: bool | UOp, default: bool = True) -> bool:
    """Whether a comparison of sizes holds for all values of their variables; the default where that is open."""
    if not isinstance(condition, UOp):
        return bool(condition)
    found = decided(condition)
    return default if found is None else found
