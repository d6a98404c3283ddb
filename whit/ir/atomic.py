"""Stores that a GPU combines with memory in one step, so that threads may do so at once, in any order.

store p0, 1:int32, x, combine=add       ->      red.global.add.u32 [p0 + 4*x], 1

Integers alone, whose combinations do not depend on the order: sums of floats would change from run to run.
"""

from __future__ import annotations

from whit.ir import ops
from whit.ir.uop import UOp

ATOMIC = (ops.ADD, ops.MAX, ops.MIN, ops.AND, ops.OR)


def is_atomic(store: UOp) -> bool:
    """Whether a store combines integers of 32 or 64 bits by such an op."""
    dtype = store.src[0].dtype
    return store.arg.combine in ATOMIC and dtype.is_int and dtype.bitsize in (32, 64)
