"""Elimination in batches of square matrices, real or complex: Gauss with pivots, Cholesky, substitution. One graph for
all steps.

Goes in: BUFFERs (batch, n, columns). Comes out: BUFFERs. Step k changes the whole array at once, what it leaves alone
being copied, so that its kernels do not depend on k: the work is n steps over n * columns elements.
"""

from __future__ import annotations

from collections.abc import Sequence

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.op import Shape
from whit.ir.uop import UOp, const
from whit.tensor.core import broadcast_scalar
from whit.tensor.engine import repeat
from whit.tensor.graphs.linear_algebra.field import conjugate, real_part, size, subtracted, widened_to
from whit.tensor.graphs.positions import positions_along


def at(x: UOp, *positions: UOp | int, shape: Shape) -> UOp:
    """x at positions, each a node of this shape, a scalar node or a number."""
    nodes = [const(dtypes.weakint, p) if isinstance(p, int) else p for p in positions]
    return x.index(*(broadcast_scalar(p, shape) if not p.shape else p for p in nodes))


def positions_of(shape: Shape) -> list[UOp]:
    """The position on each axis, at every element."""
    return [positions_along(shape, axis) for axis in range(len(shape))]


def broadcast_batch(values: UOp, shape: Shape) -> UOp:
    """(batch,) at every element of (batch, ...)."""
    return values.reshape((shape[0], *(1,) * (len(shape) - 1))).expand(shape)


def largest_below(column: UOp, k: UOp) -> UOp:
    """(batch, n) -> (batch,): where the largest magnitude from row k on is; the first of equals, k if all are NaN."""
    shape = column.shape
    _, row = positions_of(shape)
    sizes = (row >= k).where(size(column), -1.0)
    largest = broadcast_batch(sizes.reduce(ops.MAX, (1,)), shape)
    here = sizes.eq(largest).where(row.cast(dtypes.int32), shape[1])
    first = here.reduce(ops.MIN, (1,)).cast(dtypes.weakint)
    found: UOp = (first < shape[1]).where(first, k)
    return found


def pivoted(matrix: UOp, k: UOp) -> tuple[UOp, UOp, UOp, UOp]:
    """Step k of an elimination: the row of the pivot; the matrix with row k and that exchanged; the row of the pivot in
    every row; and the multiple of it that each row has."""
    shape = matrix.shape
    batch, row, column = positions_of(shape)
    lines = shape[:2]
    pivot = largest_below(at(matrix, *positions_of(lines), k, shape=lines), k).cast(dtypes.int32).stage()
    chosen = broadcast_batch(pivot, shape).cast(dtypes.weakint)
    source = row.eq(k).where(chosen, row.eq(chosen).where(broadcast_scalar(k, shape), row))
    old, top = at(matrix, batch, source, column, shape=shape), at(matrix, batch, chosen, column, shape=shape)
    left, corner = at(matrix, batch, source, k, shape=shape), at(matrix, batch, chosen, k, shape=shape)
    return pivot, old, top, corner.eq(0.0).where(0.0, left / corner)


def _eliminate(k: UOp, state: Sequence[UOp]) -> list[UOp]:
    """Row k is exchanged with that of the pivot, and multiples of it are subtracted from those below, so that column k
    is 0 there. Where the pivot is 0, the whole column is, and nothing is subtracted."""
    matrix, sign = state
    _, row, column = positions_of(matrix.shape)
    pivot, old, top, factor = pivoted(matrix, k)
    below = (column > k).where(subtracted(factor, top, old), 0.0)
    result = ((row > k) & (column >= k)).where(below, old)
    return [result, pivot.cast(dtypes.weakint).eq(broadcast_scalar(k, sign.shape)).where(sign, -sign)]


def eliminated(matrix: UOp, sign: UOp, device: str) -> tuple[UOp, UOp]:
    """(batch, n, columns) -> the first n columns upper triangular, the same done to the others; the sign of the
    exchanges of rows, times `sign`."""
    result, signs = repeat(_eliminate, [matrix, sign], matrix.shape[1], device)
    return result, signs


def substituted(upper: UOp, values: UOp, device: str) -> UOp:
    """The solution x of upper @ x = values, from the last row up; `upper` may have more columns, which are ignored."""
    n = values.shape[1]

    def step(number: UOp, state: Sequence[UOp]) -> list[UOp]:
        (x,) = state
        k = -number + (n - 1)
        shape = x.shape
        batch, row, column = positions_of(shape)
        corner = at(upper, batch, k, k, shape=shape)
        solved = at(x, batch, k, column, shape=shape) / corner
        rest = subtracted(at(upper, batch, row, k, shape=shape), solved, x)
        return [(row < k).where(rest, row.eq(k).where(solved, x))]

    return repeat(step, [values], n, device)[0]


def _cholesky(k: UOp, state: Sequence[UOp]) -> list[UOp]:
    """Column k of the factor, and what its product with itself leaves of the columns after it."""
    (matrix,) = state
    shape = matrix.shape
    batch, row, column = positions_of(shape)
    root = widened_to(real_part(at(matrix, batch, k, k, shape=shape)).sqrt(), matrix)
    left = at(matrix, batch, row, k, shape=shape) / root
    above = conjugate(at(matrix, batch, column, k, shape=shape)) / root
    rest = (row >= column).where(subtracted(left, above, matrix), 0.0)
    after = (column > k).where(rest, matrix)
    return [column.eq(k).where((row > k).where(left, row.eq(k).where(root, 0.0)), after)]


def factored(matrix: UOp, device: str) -> UOp:
    """The lower triangular factor of symmetric (Hermitian) matrices, of which the lower triangle is read."""
    return repeat(_cholesky, [matrix], matrix.shape[1], device)[0]
