"""LAPACK's packed forms, in batches: both triangles of a decomposition in one matrix. One graph for all steps.

LU        U, and below its diagonal L without its ones; row k was exchanged with row pivots[k] - 1
QR        R, and below its diagonal the reflections, each without its first one; and a factor for each
"""

from __future__ import annotations

from collections.abc import Sequence

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.uop import UOp, const
from whit.tensor.core import broadcast_scalar
from whit.tensor.engine import repeat
from whit.tensor.graphs.linear_algebra.eliminate import at, broadcast_batch, pivoted, positions_of


def _eliminate(k: UOp, state: Sequence[UOp]) -> list[UOp]:
    """Row k is exchanged with that of the pivot; the factors of the rows below take the place of their zeros."""
    matrix, pivots = state
    _, row, column = positions_of(matrix.shape)
    pivot, old, top, factor = pivoted(matrix, k)
    below = (column > k).where((-factor).fma(top, old), column.eq(k).where(factor, old))
    _, place = positions_of(pivots.shape)
    number = broadcast_batch(pivot, pivots.shape).cast(pivots.dtype) + 1.0
    return [(row > k).where(below, old), place.eq(k).where(number, pivots)]


def packed_lu(matrix: UOp, pivots: UOp, device: str) -> tuple[UOp, UOp]:
    """(batch, m, n) and numbers (batch, min(m, n)) -> both triangles, and the row of each pivot, counted from 1."""
    result, rows = repeat(_eliminate, [matrix, pivots], pivots.shape[1], device)
    return result, rows


def exchanged(pivots: UOp, rows: UOp, device: str) -> UOp:
    """The numbers (batch, m) of rows, exchanged as the pivots say."""

    def step(k: UOp, state: Sequence[UOp]) -> list[UOp]:
        (order,) = state
        shape = order.shape
        batch, row = positions_of(shape)
        lines = positions_of(shape[:1])[0]
        other = at(pivots, lines, k, shape=shape[:1]).cast(dtypes.int32).cast(dtypes.weakint) - 1
        chosen = broadcast_batch(other, shape)
        source = row.eq(k).where(chosen, row.eq(chosen).where(broadcast_scalar(k, shape), row))
        return [at(order, batch, source, shape=shape)]

    return repeat(step, [rows], pivots.shape[1], device)[0]


def _reflect(k: UOp, state: Sequence[UOp]) -> list[UOp]:
    """A reflection makes column k zero below row k; it takes the place of the zeros."""
    matrix, factors = state
    shape = matrix.shape
    lines = shape[:2]
    batch, row = positions_of(lines)
    column = at(matrix, batch, row, k, shape=lines)
    below = (row > k).where(column, 0.0)
    low = (row >= k).where(column, 0.0)
    scale = abs(low).reduce(ops.MAX, (1,))  # so that squares neither overflow nor vanish
    part = low / broadcast_batch(scale.eq(0.0).where(1.0, scale), lines)
    length = (scale * (part * part).reduce(ops.ADD, (1,)).sqrt()).stage()
    corner = at(matrix, positions_of(length.shape)[0], k, k, shape=length.shape)
    end = (corner < 0.0).where(length, -length)
    is_zero = abs(below).reduce(ops.MAX, (1,)).eq(0.0)  # then there is nothing to do, says LAPACK
    tau = is_zero.where(0.0, (end - corner) / is_zero.where(1.0, end)).stage()
    divisor = broadcast_batch(is_zero.where(1.0, corner - end), lines)
    u = (row > k).where(low / divisor, row.eq(k).where(const(matrix.dtype, 1.0), 0.0)).stage()
    spread_u = u.reshape((*lines, 1)).expand(shape)
    along = (spread_u * matrix).reduce(ops.ADD, (1,))
    along = (along * broadcast_batch(tau, along.shape)).stage()
    changed = (-spread_u).fma(along.reshape((shape[0], 1, shape[2])).expand(shape), matrix)
    _, row, column = positions_of(shape)
    kept = (row > k).where(spread_u, broadcast_batch(is_zero.where(corner, end), shape))
    result = (row >= k).where(column.eq(k).where(kept, (column > k).where(changed, matrix)), matrix)
    _, place = positions_of(factors.shape)
    return [result, place.eq(k).where(broadcast_batch(tau, factors.shape), factors)]


def packed_qr(matrix: UOp, factors: UOp, device: str) -> tuple[UOp, UOp]:
    """(batch, m, n) and zeros (batch, min(m, n)) -> R with the reflections below, and their factors."""
    result, found = repeat(_reflect, [matrix, factors], factors.shape[1], device)
    return result, found
