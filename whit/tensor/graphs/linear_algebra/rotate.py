"""Jacobi's rotations, in batches: singular values (one-sided) and eigenvalues of symmetric matrices (two-sided). Of
complex matrices, one column of each pair is turned first, so that their product is real.

A rotation of two columns makes them orthogonal (makes one element off the diagonal zero). n / 2 pairs of columns are
independent, and n - 1 rounds of them meet all pairs: that is a sweep. In a round columns i and n - 1 - i are a pair;
then all columns but the first move on by one place, so that every round is the same graph, and after a sweep every
column is where it was. An odd n gets a column of zeros, which is never rotated.

Each sweep squares what is left, once it is small: matrices of 256 take 8 to 12. A round is two kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.uop import UOp, const
from whit.tensor.engine import compute, greatest_item, repeat
from whit.tensor.graphs.linear_algebra.contract import product_of
from whit.tensor.graphs.linear_algebra.eliminate import at, broadcast_batch, positions_of
from whit.tensor.graphs.linear_algebra.field import conjugate, direction, real_part, size, widened_to

MOST_SWEEPS = 40


def _tangent(difference: UOp, product: UOp, small: UOp) -> UOp:
    """t of the rotation that makes `product` zero: the smaller root of t**2 + 2 z t - 1, z = difference / (2 product);
    0 where the product is not above `small`."""
    z = difference / (product * 2.0)
    t = (z < 0.0).where(const(z.dtype, -1.0), 1.0) / (abs(z) + (z * z + 1.0).sqrt())
    return (abs(product) > small).where(t, 0.0)


def _moved(column: UOp, n: int) -> UOp:
    """Where the column that goes to this place stands now: 0, then n - 1, then 1, 2, ..."""
    return column.eq(0).where(column, column.eq(1).where(column.constant(n - 1), column - 1))


def _angles(tangent: UOp) -> tuple[UOp, UOp]:
    """1 - cosine and sine. A rotation by little changes little: x + (s y - (1 - c) x) instead of c x + s y."""
    cosine = (tangent * tangent + 1.0).sqrt().reciprocal()
    sine = cosine * tangent
    return (sine * sine / (cosine + 1.0)).stage(), sine.stage()


def _rotated(x: UOp, y: UOp, angles: Sequence[UOp], batch: UOp, column: UOp, n: int) -> UOp:
    """x after the rotation of the pair that it is in, y being the other."""
    is_first = column < n // 2
    pair = is_first.where(column, -column + (n - 1))
    versine, sine = (table.index(batch, pair) for table in angles)
    return x + (is_first.where(-sine, sine) * y - versine * x)


def _orthogonalise(rows: int, number: UOp, state: Sequence[UOp]) -> list[UOp]:
    """One round on the columns of [matrix; product of the rotations], the matrix being the first rows."""
    (both,) = state
    shape = both.shape
    batches, _, n = shape
    matrix = both.shrink([(0, batches), (0, rows), (0, n)])
    first = matrix.shrink([(0, batches), (0, rows), (0, n // 2)])
    second = matrix.flip((2,)).shrink([(0, batches), (0, rows), (0, n // 2)])
    pairs = ((first,) * 2, (second,) * 2, (first, second))
    alpha, beta, gamma = ((conjugate(x) * y).reduce(ops.ADD, (1,)) for x, y in pairs)
    alpha, beta = real_part(alpha), real_part(beta)
    epsilon = 2.0**-alpha.dtype.mantissa_bits
    small = (alpha * beta).sqrt() * epsilon
    batch, row, column = positions_of(shape)
    here = _moved(column, n)
    x, y = (at(both, batch, row, place, shape=shape) for place in (here, -here + (n - 1)))
    if not both.dtype.is_complex:
        return [_rotated(x, y, _angles(_tangent(beta - alpha, gamma, small)), batch, here, n)]
    length = size(gamma)
    turn = (length > small).where(conjugate(direction(gamma)), gamma.constant(1.0)).stage()
    angles = _angles(_tangent(beta - alpha, length, small))
    is_first = here < n // 2
    turned = turn.index(batch, is_first.where(here, -here + (n - 1)))  # the second column of a pair, times this
    x, y = is_first.where(x, x * turned), is_first.where(y * turned, y)
    return [_rotated(x, y, tuple(widened_to(each, both) for each in angles), batch, here, n)]


def _correlation(rows: int, both: UOp) -> UOp:
    """The largest cosine between two columns; tiny columns count as if they were larger."""
    batches, _, n = both.shape
    matrix = both.shrink([(0, batches), (0, rows), (0, n)])
    full = (batches, n, n, rows)
    transposed = matrix.permute((0, 2, 1))
    left = transposed.reshape((batches, n, 1, rows)).expand(full)
    right = transposed.reshape((batches, 1, n, rows)).expand(full)
    gram = size((conjugate(left) * right).reduce(ops.ADD, (3,))).stage()
    batch, row, column = positions_of(gram.shape)
    squares = _squares(transposed, 2).stage()
    largest = broadcast_batch(squares.reduce(ops.MAX, (1,)), gram.shape)
    scale = (squares.index(batch, row) * squares.index(batch, column)).sqrt() + largest * 2.0**-52
    cosines = (row.ne(column) & (scale > 0.0)).where(gram / scale, 0.0)
    return cosines.reduce(ops.MAX, (0, 1, 2))


def _squares(x: UOp, axis: int) -> UOp:
    """The sum of the squares of magnitudes along an axis."""
    return real_part((conjugate(x) * x).reduce(ops.ADD, (axis,)))


def _diagonalise(number: UOp, state: Sequence[UOp]) -> list[UOp]:
    """One round on [matrix; product of the rotations]: rows and columns of the matrix, columns of the product."""
    (both,) = state
    shape = both.shape
    n = shape[2]
    half = (shape[0], n // 2)
    batch, place = positions_of(half)
    other = -place + (n - 1)
    off = at(both, batch, place, other, shape=half)
    low, high = at(both, batch, place, place, shape=half), at(both, batch, other, other, shape=half)
    angles = _angles(_tangent(high - low, off, const(both.dtype, 0.0)))
    batch, row, column = positions_of(shape)
    here = _moved(column, n)
    there = -here + (n - 1)
    is_matrix = row < n
    line = is_matrix.where(_moved(row, n), row)
    mate = is_matrix.where(-line + (n - 1), row)
    across, below = (
        _rotated(
            at(both, batch, place, here, shape=shape),
            at(both, batch, place, there, shape=shape),
            angles,
            batch,
            here,
            n,
        )
        for place in (line, mate)
    )
    rotated = is_matrix.where(_rotated(across, below, angles, batch, is_matrix.where(line, 0), n), across)
    return [(is_matrix & line.eq(there)).where(0.0, rotated)]  # what the rotation makes zero is zero


def _remainder(both: UOp) -> UOp:
    """The largest element off the diagonal, relative to the largest of all."""
    batches, _, n = both.shape
    matrix = abs(both.shrink([(0, batches), (0, n), (0, n)]))
    _, row, column = positions_of(matrix.shape)
    off = row.ne(column).where(matrix, 0.0).reduce(ops.MAX, (1, 2))
    largest = matrix.reduce(ops.MAX, (1, 2))
    return largest.eq(0.0).where(0.0, off / largest).reduce(ops.MAX, (0,))


Round = Callable[[UOp, Sequence[UOp]], Sequence[UOp]]


def _swept(both: UOp, step: Round, left: Callable[[UOp], UOp], limit: float, device: str) -> UOp:
    """Sweeps until what is left is below the limit. NaN is not above it, so that ends too."""
    (state,) = compute([both], device)
    for _ in range(MOST_SWEEPS):
        (state,) = repeat(step, [state], both.shape[2] - 1, device)
        if not greatest_item(left(state), device) > limit:
            break
    return state


def _with_identity(matrix: UOp) -> UOp:
    """(batch, m, n) -> [matrix; identity], (batch, m + n', n') with n' even."""
    batch, m, n = matrix.shape
    even = max(n + n % 2, 2)
    row, column = positions_of((even, even))
    identity = row.eq(column).where(const(matrix.dtype, 1.0), 0.0).reshape((1, even, even))
    below = identity.expand((batch, even, even)).pad([(0, 0), (m, 0), (0, 0)])
    return matrix.pad([(0, 0), (0, even), (0, even - n)]) + below


def orthogonalised(matrix: UOp, device: str) -> tuple[UOp, UOp]:
    """(batch, m, n) -> V orthogonal (batch, n, n) and W = matrix @ V with orthogonal columns, longest first."""
    batch, m, n = matrix.shape
    both = _with_identity(matrix)
    limit = 2.0**-52 * max(m, 4)
    result = _swept(both, partial(_orthogonalise, m), partial(_correlation, m), limit, device)
    result = result.shrink([(0, batch), (0, m + n), (0, n)])
    w = result.shrink([(0, batch), (0, m), (0, n)])
    order = ranked(-_squares(w, 1))
    result = _columns(result, order)
    return result.shrink([(0, batch), (m, n), (0, n)]), result.shrink([(0, batch), (0, m), (0, n)])


def diagonalised(matrix: UOp, device: str) -> tuple[UOp, UOp]:
    """(batch, n, n) symmetric -> eigenvalues (batch, n), ascending, and their vectors as columns (batch, n, n)."""
    if matrix.dtype.is_complex:
        return _diagonalised_hermitian(matrix, device)
    batch, _, n = matrix.shape
    even = max(n + n % 2, 2)
    both = _with_identity(matrix.pad([(0, 0), (0, even - n), (0, even - n)]))
    limit = 2.0**-matrix.dtype.mantissa_bits * max(n, 4) / 4
    result = _swept(both, _diagonalise, _remainder, limit, device)
    batches, place = positions_of((batch, n))
    values = result.index(batches, place, place)
    order = ranked(values)
    vectors = result.shrink([(0, batch), (even, n), (0, n)])
    return values.index(batches, order), _columns(vectors, order)


def _diagonalised_hermitian(matrix: UOp, device: str) -> tuple[UOp, UOp]:
    """The same of complex matrices. With a multiple of the identity added that leaves no eigenvalue below 0, the
    eigenvectors are the singular vectors; the eigenvalues are the lengths of the matrix along these."""
    batch, _, n = matrix.shape
    _, row, column = positions_of(matrix.shape)
    bound = size(matrix).reduce(ops.ADD, (2,)).reduce(ops.MAX, (1,))
    shift = widened_to(broadcast_batch(bound, matrix.shape), matrix)
    (shifted,) = compute([matrix + row.eq(column).where(shift, 0.0)], device)
    vectors, _ = orthogonalised(shifted, device)
    (vectors,) = compute([vectors], device)
    values = real_part((conjugate(vectors) * product_of(matrix, vectors, (batch,))).reduce(ops.ADD, (1,)))
    (values,) = compute([values], device)
    order = ranked(values)
    batches, _ = positions_of((batch, n))
    return values.index(batches, order), _columns(vectors, order)


def _columns(x: UOp, order: UOp) -> UOp:
    """The columns in another order."""
    batch, row, column = positions_of(x.shape)
    return x.index(batch, row, order.index(batch, column))


def ranked(values: UOp) -> UOp:
    """(batch, n) -> the order that sorts ascending, equals as they are, NaN last. n is small: all are compared."""
    batch, n = values.shape
    full = (batch, n, n)
    mine, other = values.reshape((batch, n, 1)).expand(full), values.reshape((batch, 1, n)).expand(full)
    _, row, column = positions_of(full)
    is_nan = mine.ne(mine)
    before = (other < mine) | (is_nan & other.eq(other))
    equal = ~(before | (mine < other) | (other.ne(other) & mine.eq(mine)))
    rank = (
        (before | (equal & (column < row))).where(const(dtypes.int32, 1), 0).reduce(ops.ADD, (2,)).stage()
    )  # (batch, n)
    wanted = rank.reshape((batch, 1, n)).expand(full).eq(row.cast(dtypes.int32))
    order = wanted.where(column.cast(dtypes.int32), 0).reduce(ops.ADD, (2,)).stage()
    return order.cast(row.dtype)
