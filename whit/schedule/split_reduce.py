"""Long reductions to few results, in two steps.

    sum of (16777216,)   ->   sum over 64 of kept( sum over 262144 of (64, 262144) )

A kernel runs its output elements on all cores. A reduction to a handful of elements would use one core, so its longest
axis of known size is cut into `PIECES` and the partial results are kept. If the axis does not divide, it is padded, and
the padding replaced by the identity of the op.
"""

from __future__ import annotations

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.rules import Rules, function_rule
from whit.ir.uop import UOp, const
from whit.schedule.lower import is_serial

PIECES = 64
FEWEST = 16  # pieces that are worth a kernel


@function_rule(ops.REDUCE)
def split_serial_reduce(node: UOp) -> UOp | None:
    """reduce over n -> reduce over 64 of stage of reduce over n/64"""
    (value,) = node.src
    known = [axis for axis in node.arg.axes if isinstance(value.shape[axis], int)]
    if not known or not is_serial(node):
        return None
    axis = max(known, key=lambda a: value.shape[a])
    size = value.shape[axis]
    pieces = _divisor(size)
    if pieces is None and size < PIECES * 64:
        pieces = size  # short beside the others: one for each
    if pieces is not None and pieces < FEWEST:
        return None
    if pieces is None:
        value, pieces = _padded(value, axis, node), PIECES
        size = value.shape[axis]
    shape = (*value.shape[:axis], pieces, size // pieces, *value.shape[axis + 1 :])
    inner_axes = tuple(a + 1 if a >= axis else a for a in node.arg.axes)
    partial = value.reshape(shape).reduce(node.arg.op, inner_axes).stage()
    kept_before = sum(a < axis for a in range(len(value.shape)) if a not in node.arg.axes)
    return partial.reduce(node.arg.op, (kept_before,))


def _divisor(size: int) -> int | None:
    """A number of pieces near 64 that divides the size."""
    return next((p for p in (64, 60, 72, 56, 48, 80, 40, 96, 32, 100, 50) if size % p == 0), None)


def _padded(value: UOp, axis: int, node: UOp) -> UOp:
    size: int = value.shape[axis]
    extra = -size % PIECES
    pads = [(0, extra if a == axis else 0) for a in range(len(value.shape))]
    padded = value.pad(pads)
    identity = node.arg.op.identity(value.dtype)
    if identity == 0 and node.arg.op is ops.ADD:
        return padded
    ones = tuple(size + extra if a == axis else 1 for a in range(len(value.shape)))
    inside: UOp = (UOp.arange(size + extra, dtypes.int64) < size).reshape(ones).expand(padded.shape)
    return inside.where(padded, const(value.dtype, identity))


SPLIT_REDUCE = Rules("split_reduce", (split_serial_reduce,))
