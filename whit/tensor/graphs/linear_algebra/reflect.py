"""QR by Householder's reflections, in batches. One graph for all steps.

A reflection I - tau u u' that makes column k zero below row k is applied to [matrix | identity], which ends as
[R | Q']. A step is four kernels: the length of the column, u, u' times everything, the update. Of complex matrices '
also means the conjugate, and what is left on the diagonal of R is turned to be real.
"""

from __future__ import annotations

from collections.abc import Sequence

from whit.ir import ops
from whit.ir.uop import UOp, const
from whit.tensor.engine import compute, repeat
from whit.tensor.graphs.linear_algebra.eliminate import at, broadcast_batch, positions_of
from whit.tensor.graphs.linear_algebra.field import conjugate, direction, real_part, size, subtracted, widened_to


def _reflect(k: UOp, state: Sequence[UOp]) -> list[UOp]:
    (both,) = state
    shape = both.shape
    lines = shape[:2]
    batch, row = positions_of(lines)
    column = at(both, batch, row, k, shape=lines)
    low = (row >= k).where(column, 0.0)
    scale = size(low).reduce(ops.MAX, (1,))  # so that squares neither overflow nor vanish
    part = size(low) / broadcast_batch(scale.eq(0.0).where(1.0, scale), lines)
    length = (scale * (part * part).reduce(ops.ADD, (1,)).sqrt()).stage()
    corner = at(both, positions_of(length.shape)[0], k, k, shape=length.shape)
    end = _opposite(corner, length)
    is_zero = length.eq(0.0)
    tau = widened_to(is_zero.where(0.0, (length + size(corner)) / length), both)
    divisor = is_zero.where(1.0, corner - end)
    u = (row > k).where(low / broadcast_batch(divisor, lines), row.eq(k).where(const(both.dtype, 1.0), 0.0)).stage()
    spread_u = u.reshape((*lines, 1)).expand(shape)
    along = (conjugate(spread_u) * both).reduce(ops.ADD, (1,))  # (batch, columns)
    along = (along * broadcast_batch(tau, along.shape)).stage()
    result = subtracted(spread_u, along.reshape((shape[0], 1, shape[2])).expand(shape), both)
    _, row, column = positions_of(shape)
    exact = (row > k).where(0.0, broadcast_batch(is_zero.where(corner, end), shape))
    return [(column.eq(k) & (row >= k)).where(exact, result)]


def _opposite(corner: UOp, length: UOp) -> UOp:
    """A number of this length in the direction opposite to the corner: their difference does not cancel."""
    if not corner.dtype.is_complex:
        return (corner < 0.0).where(length, -length)
    turned = corner.eq(0.0).where(corner.constant(1.0), direction(corner))
    return -(turned * widened_to(length, corner))


def reflected(matrix: UOp, device: str) -> tuple[UOp, UOp]:
    """(batch, m, n) -> Q (batch, m, m) and R (batch, m, n) as nodes over one BUFFER."""
    batch, m, n = matrix.shape
    row, column = positions_of((m, m))
    identity = row.eq(column).where(const(matrix.dtype, 1.0), 0.0).reshape((1, m, m)).expand((batch, m, m))
    both = matrix.pad([(0, 0), (0, 0), (0, m)]) + identity.pad([(0, 0), (0, 0), (n, 0)])
    state = compute([both], device)
    (result,) = repeat(_reflect, state, max(min(m - 1, n), 0), device)
    r = result.shrink([(0, batch), (0, m), (0, n)])
    q = conjugate(result.shrink([(0, batch), (0, m), (n, m)]).permute((0, 2, 1)))
    return (q, r) if not matrix.dtype.is_complex else _with_real_diagonal(q, r, device)


def _with_real_diagonal(q: UOp, r: UOp, device: str) -> tuple[UOp, UOp]:
    """The same product, the diagonal of R being real."""
    batch, m, n = r.shape
    k = min(m, n)
    places = positions_of((batch, k))
    turns = direction(at(r, places[0], places[1], places[1], shape=(batch, k)))
    turns = (real_part(turns) < 0.0).where(-turns, turns)
    turns = turns.eq(0.0).where(turns.constant(1.0), turns).pad([(0, 0), (0, m - k)])
    _, place = positions_of((batch, m))
    (turns,) = compute([(place < k).where(turns, turns.constant(1.0))], device)
    back = conjugate(turns).reshape((batch, m, 1)).expand((batch, m, n)) * r
    _, row, column = positions_of((batch, m, n))
    exact = row.eq(column).where(widened_to(real_part(back), back), back)
    return q * turns.reshape((batch, 1, m)).expand((batch, m, m)), exact
