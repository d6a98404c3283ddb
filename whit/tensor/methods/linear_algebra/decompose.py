"""Equations and decompositions of dense matrices: solve, inverse, determinant, QR, SVD, eigenvalues, least squares.

    a.solve(b); a.inv(); a.det(); a.cholesky()
    q, r = a.qr();  u, s, vh = a.svd();  values, vectors = a.eigh()

The matrices are the last two axes, everything before them is a batch. These methods compute at once: they realise the
tensor, and run one small set of kernels as often as there are rows (or rounds of rotations). All of them work in
float64, or complex128, and round the result to the dtype of the tensor, so that float32 results are as good as float32
can hold unless the matrix is very badly conditioned. Sizes up to a few hundred are what they are made for
(docs/linalg.md).
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple, Self

from whit.dtype import DType, dtypes, least_upper_dtype, part_dtype
from whit.errors import ArgumentError, ShapeError
from whit.ir import ops
from whit.ir.op import Shape, spell_shape
from whit.ir.uop import UOp, const
from whit.tensor.core import broadcast_scalar, expand_to, join_shapes
from whit.tensor.engine import compute
from whit.tensor.graphs import formulas
from whit.tensor.graphs.complex_products import product
from whit.tensor.graphs.linear_algebra.contract import product_of
from whit.tensor.graphs.linear_algebra.eliminate import (
    at,
    broadcast_batch,
    eliminated,
    factored,
    positions_of,
    substituted,
)
from whit.tensor.graphs.linear_algebra.field import conjugate, direction, real_part, size, widened_to
from whit.tensor.topic import Topic

WORK = dtypes.float64


class LeastSquares(NamedTuple):
    """What `lstsq` gives."""

    solution: Any
    residuals: Any  # squared lengths of a @ x - b
    rank: Any
    singular_values: Any


class Decompositions(Topic):
    """Methods of matrices."""

    __slots__ = ()

    # ---- in and out

    def _matrices(self, name: str, square: bool = False) -> UOp:
        """(batch, m, n) in float64 or complex128, realised."""
        self._check_matrix(name, square)
        wide = self.uop.cast(self._work()).reshape((prod(self.shape[:-2]), *self.shape[-2:]))
        return compute([wide], self.device)[0]

    def _work(self) -> DType:
        """The dtype to compute in."""
        return dtypes.complex128 if self.dtype.is_complex else WORK

    def _check_matrix(self, name: str, square: bool) -> None:
        if self.ndim < 2 or (square and self.shape[-1] != self.shape[-2]):
            raise ShapeError(
                f"{name}: {spell_shape(self.shape)} is no {'square ' if square else ''}matrix",
                self._made(),
                "The last two axes are the matrix, those before them a batch.",
            )
        self._require(name, not self.dtype.is_bool, "bools are not numbers here", "Cast it.")

    def _result_dtype(self) -> DType:
        return self.dtype if self.dtype.is_continuous else dtypes.default_float

    def _computed(self, node: UOp, batch: Shape | None = None) -> UOp:
        """(batch, ...) as a BUFFER with the axes and the dtype of the tensor."""
        lead = self.shape[:-2] if batch is None else batch
        wanted = self._result_dtype()
        dtype = wanted if node.dtype.is_complex else part_dtype(wanted) if node.dtype.is_float else node.dtype
        return compute([node.reshape((*lead, *node.shape[1:])).cast(dtype)], self.device)[0]

    def _known(self, value: UOp, name: str, *others: UOp) -> Self:
        """A BUFFER as the function `name` of this tensor and others: that is what `decompose_gradients` needs."""
        return self._wrap(value.formula(name, self._as_float(), *others))

    def _result(self, node: UOp, name: str) -> Self:
        """Both."""
        return self._known(self._computed(node), name)

    # ---- equations

    def solve(self, b: Any) -> Self:
        """x with self @ x = b, by elimination with pivots. b is a vector, or the columns of a matrix.

        A singular matrix gives infinities and NaN.
        """
        right = self._operand("solve", b)
        self._one_device("solve", right)
        self._check_matrix("solve", square=True)
        n = self.shape[-1]
        vector = right.ndim == 1 or (right.ndim == self.ndim - 1 and right.shape == self.shape[:-1])
        columns = right.unsqueeze(-1) if vector else right
        batch = join_shapes(self.shape[:-2], columns.shape[:-2]) if columns.ndim > 1 else None
        if batch is None or columns.shape[-2] != n:
            raise ShapeError(
                f"solve: a matrix {spell_shape(self.shape)} and a right side {spell_shape(right.shape)}",
                f"the matrix {self._made()}, the right side {right._made()}",
                "It has as many rows as the matrix; the axes before the last two broadcast.",
            )
        count = prod(batch)
        if self.dtype.is_complex != columns.dtype.is_complex:
            result = self._to_common(columns).solve(columns._to_common(self))
            return result.squeeze(-1) if vector else result
        matrix = self._matrices("solve", square=True)
        left = expand_to(matrix.reshape((*self.shape[:-2], n, n)), (*batch, n, n)).reshape((count, n, n))
        wide = expand_to(columns.uop.cast(self._work()), (*batch, *columns.shape[-2:])).reshape(
            (count, n, columns.shape[-1])
        )
        solved = _solved(left, wide, self.device)
        result = self._known(self._computed(solved, batch), "solve", columns._as_float())
        return result.squeeze(-1) if vector else result

    def _to_common(self, other: Self) -> Self:
        """This in the dtype that both meet in."""
        return self.cast(least_upper_dtype(self._as_float().dtype, other._as_float().dtype))

    def inv(self) -> Self:
        """The inverse; infinities and NaN of a singular matrix."""
        matrix = self._matrices("inv", square=True)
        return self._result(_solved(matrix, _identity(matrix.shape, matrix.dtype), self.device), "inv")

    def det(self) -> Self:
        """The determinant."""
        diagonal, sign = self._eliminated("det")
        return self._result(_multiplied(diagonal) * sign, "det")

    def slogdet(self) -> tuple[Self, Self]:
        """The sign of the determinant (-1, 0 or 1; of a complex one its direction), and the logarithm of its
        magnitude."""
        diagonal, sign = self._eliminated("slogdet")
        signs = _multiplied(direction(diagonal)) * sign
        logarithm = formulas.log(size(diagonal)).reduce(ops.ADD, (1,))
        return self._result(signs, "det_sign"), self._result(logarithm, "logdet")

    def _eliminated(self, name: str) -> tuple[UOp, UOp]:
        """The diagonal (batch, n) after elimination, and the sign of the exchanges."""
        matrix = self._matrices(name, square=True)
        batch, n, _ = matrix.shape
        ones = broadcast_scalar(matrix.constant(1.0), (batch,))
        if 0 in matrix.shape:
            return broadcast_scalar(matrix.constant(1.0), (batch, n)), ones
        upper, sign = eliminated(matrix, compute([ones], self.device)[0], self.device)
        return _diagonal(upper), sign

    def cholesky(self, upper: bool = False) -> Self:
        """The lower triangular L with L @ L.mH = self (upper: U.mH @ U), of which the lower triangle is read.

        NaN from the first column on at which the matrix is not positive definite.
        """
        matrix = self._matrices("cholesky", square=True)
        if 0 not in matrix.shape:
            matrix = factored(matrix, self.device)
        factor = self._result(matrix, "cholesky")
        return factor.transpose(-2, -1).conj() if upper else factor

    def matrix_power(self, n: int) -> Self:
        """self @ self @ ... n times; of a negative n, of the inverse."""
        if isinstance(n, bool) or not hasattr(n, "__index__"):
            raise ArgumentError(f"matrix_power: {n!r} is no integer", self._made(), "Powers are integers.")
        if self.ndim < 2 or self.shape[-1] != self.shape[-2]:
            self._matrices("matrix_power", square=True)
        base, power = (self.inv(), -n) if n < 0 else (self, n)
        result: Self | None = None
        while power:
            if power & 1:
                result = base if result is None else result @ base
            power >>= 1
            base = base @ base if power else base
        if result is not None:
            return result
        ones = _identity((prod(self.shape[:-2]), *self.shape[-2:]), WORK).reshape(self.shape)
        return self._wrap(ones.cast(self.dtype))

    # ---- decompositions

    def qr(self, mode: str = "reduced") -> tuple[Self, Self]:
        """Orthonormal columns Q and an upper triangular R with Q @ R = self, by reflections.

        "reduced": Q is (m, k) and R (k, n), k the smaller of m and n; "complete": (m, m) and (m, n).
        """
        if mode not in ("reduced", "complete"):
            raise ArgumentError(f"qr: there is no mode {mode!r}", self._made(), 'Use "reduced" or "complete".')
        matrix = self._matrices("qr")
        batch, m, n = matrix.shape
        k = min(m, n) if mode == "reduced" else m
        whole = _reflected(matrix, self.device)
        cut = whole[0].shrink([(0, batch), (0, m), (0, k)]), whole[1].shrink([(0, batch), (0, k), (0, n)])
        q, r = (self._computed(part) for part in cut)
        return self._known(q, "qr_q", q, r), self._known(r, "qr_r", q, r)

    def svd(self, full_matrices: bool = True) -> tuple[Self, Self, Self]:
        """U, S, Vh with U @ diag(S) @ Vh = self: U and Vh orthogonal, S descending.

        U is (m, m) and Vh (n, n), or without full_matrices (m, k) and (k, n), k the smaller of m and n.
        """
        u, s, v = self._svd("svd", full_matrices)
        u, s, vh = (self._computed(part) for part in (u, s, conjugate(v.permute((0, 2, 1)))))
        return self._known(u, "svd_u"), self._known(s, "svd_s", u, vh), self._known(vh, "svd_vh")

    def _svd(self, name: str, full: bool) -> tuple[UOp, UOp, UOp]:
        """U, S and V of the matrices in float64."""
        matrix = self._matrices(name)
        batch, m, n = matrix.shape
        k = min(m, n)
        if m >= n:
            u, s, v = _singular(matrix, self.device)
        else:
            v, s, u = _singular(compute([conjugate(matrix.permute((0, 2, 1)))], self.device)[0], self.device)
        if full:
            return u, s, v
        return u.shrink([(0, batch), (0, m), (0, k)]), s, v.shrink([(0, batch), (0, n), (0, k)])

    def eigh(self) -> tuple[Self, Self]:
        """Eigenvalues, ascending, and orthonormal eigenvectors as columns of symmetric (Hermitian) matrices, of which
        the lower triangle is read."""
        matrix = self._matrices("eigh", square=True)
        if 0 in matrix.shape:
            return self._result(real_part(matrix).reduce(ops.ADD, (2,)), "empty"), self._result(matrix, "empty")
        from whit.tensor.graphs.linear_algebra.rotate import diagonalised  # lazy: few programs decompose matrices

        _, row, column = positions_of(matrix.shape)
        if self.dtype.is_complex:
            matrix = row.eq(column).where(real_part(matrix).cast(matrix.dtype), matrix)
        scaled, scale = _scaled((row >= column).where(matrix, conjugate(matrix.permute((0, 2, 1)))))
        values, vectors = diagonalised(scaled, self.device)
        parts = values * broadcast_batch(scale, values.shape), vectors
        w, v = (self._computed(part) for part in parts)
        return self._known(w, "eigh_values", v), self._known(v, "eigh_vectors", w)

    # ---- by singular values

    def _small(self, rcond: float | None) -> float:
        if rcond is not None:
            return rcond
        return float(2.0 ** -part_dtype(self._result_dtype()).mantissa_bits * max(self.shape[-2:]))

    def matrix_rank(self, tol: float | None = None) -> Self:
        """How many singular values are above tol; by default the largest of them times the rounding of the dtype."""
        _, s, _ = self._svd("matrix_rank", False)
        limit = _largest(s) * self._small(None) if tol is None else const(WORK, tol)
        return self._wrap(self._computed(_count(s, limit)))

    def pinv(self, rcond: float | None = None) -> Self:
        """The pseudo-inverse; singular values up to rcond times the largest count as 0."""
        u, s, v = self._svd("pinv", False)
        inverse = widened_to(_inverted(s, self._small(rcond)), v)
        adjoint = conjugate(u.permute((0, 2, 1)))
        return self._result(product_of(v * _as_row(inverse, v.shape), adjoint, (s.shape[0],)), "pinv")

    def lstsq(self, b: Any, rcond: float | None = None) -> LeastSquares:
        """The shortest x for which self @ x is nearest to b, column by column of b (or of the vector b)."""
        right = self._operand("lstsq", b)
        self._one_device("lstsq", right)
        vector = right.ndim == self.ndim - 1
        columns = right.unsqueeze(-1) if vector else right
        if self.ndim < 2 or columns.shape[:-1] != self.shape[:-1]:
            raise ShapeError(
                f"lstsq: a matrix {spell_shape(self.shape)} and a right side {spell_shape(right.shape)}",
                f"the matrix {self._made()}, the right side {right._made()}",
                "It has the rows and the batch of the matrix.",
            )
        if self.dtype.is_complex != columns.dtype.is_complex:
            return self._to_common(columns).lstsq(right._to_common(self), rcond)
        u, s, v = self._svd("lstsq", False)
        small = self._small(rcond)
        batch = (s.shape[0],)
        wide = columns.uop.cast(self._work()).reshape((*batch, *columns.shape[-2:]))
        parts = product_of(conjugate(u.permute((0, 2, 1))), wide, batch).stage()
        scaled = parts * widened_to(_inverted(s, small), v).reshape((*s.shape, 1)).expand(parts.shape)
        (x,) = compute([product_of(v, scaled, batch)], self.device)
        rest = product_of(self.uop.cast(self._work()).reshape((*batch, *self.shape[-2:])), x, batch) - wide
        lengths = self._computed(real_part(conjugate(rest) * rest).reduce(ops.ADD, (1,)))
        residuals = self._known(lengths, "lstsq", columns._as_float())
        solution = self._known(self._computed(x), "lstsq", columns._as_float())
        if vector:
            residuals, solution = residuals.squeeze(-1), solution.squeeze(-1)
        rank = self._wrap(self._computed(_count(s, _largest(s) * small)))
        return LeastSquares(solution, residuals, rank, self._result(s, "lstsq"))


# ---- on nodes (batch, rows, columns)


def _identity(shape: Shape, dtype: DType) -> UOp:
    _, row, column = positions_of(shape)
    return row.eq(column).where(const(dtype, 1.0), 0.0)


def _multiplied(values: UOp) -> UOp:
    """The product along axis 1."""
    return product(values, (1,)) if values.dtype.is_complex else values.reduce(ops.MUL, (1,))


def _diagonal(matrix: UOp) -> UOp:
    """(batch, m, n) -> (batch, k)."""
    shape = (matrix.shape[0], min(matrix.shape[1:]))
    batch, place = positions_of(shape)
    return at(matrix, batch, place, place, shape=shape)


def _solved(matrix: UOp, right: UOp, device: str) -> UOp:
    """The solution of matrix @ x = right."""
    batch, n, count = right.shape
    if 0 in right.shape:
        return right
    both = matrix.pad([(0, 0), (0, 0), (0, count)]) + right.pad([(0, 0), (0, 0), (n, 0)])
    state, ones = compute([both, broadcast_scalar(both.constant(1.0), (batch,))], device)
    upper, _ = eliminated(state, ones, device)
    (values,) = compute([upper.shrink([(0, batch), (0, n), (n, count)])], device)
    return substituted(upper, values, device)


def _reflected(matrix: UOp, device: str) -> tuple[UOp, UOp]:
    """Q (batch, m, m) and R (batch, m, n), of empty matrices too."""
    from whit.tensor.graphs.linear_algebra.reflect import reflected  # lazy: few programs decompose matrices

    batch, m, _ = matrix.shape
    return (_identity((batch, m, m), matrix.dtype), matrix) if 0 in matrix.shape else reflected(matrix, device)


def _scaled(matrix: UOp) -> tuple[UOp, UOp]:
    """The matrix divided by a power of 2 near its largest element (batch,), so that squares stay in range; and that."""
    largest = size(matrix).reduce(ops.MAX, (1, 2)).stage()
    bits = largest.bitcast(dtypes.int64)
    power = ((bits >> 52) << 52).bitcast(WORK)
    scale = power.eq(0.0).where(1.0, power)
    return matrix / widened_to(broadcast_batch(scale, matrix.shape), matrix), scale


def _singular(matrix: UOp, device: str) -> tuple[UOp, UOp, UOp]:
    """(batch, m, n), m >= n: U (batch, m, m), S (batch, n), V (batch, n, n).

    W = matrix @ V has orthogonal columns, longest first. Its QR has a diagonal R: the singular values; and a Q that is
    orthogonal whatever they are, zeros included.
    """
    batch, m, n = matrix.shape
    if 0 in matrix.shape:
        nothing = broadcast_scalar(const(WORK, 0.0), (batch, n))
        return _identity((batch, m, m), matrix.dtype), nothing, _identity((batch, n, n), matrix.dtype)
    from whit.tensor.graphs.linear_algebra.reflect import reflected  # lazy: as above
    from whit.tensor.graphs.linear_algebra.rotate import orthogonalised  # lazy: as above

    scaled, scale = _scaled(matrix)
    v, w = orthogonalised(scaled, device)
    v, w = compute([v, w], device)
    q, r = reflected(w, device)
    diagonal = _diagonal(r)
    s = size(diagonal).scan(ops.MIN, 1) * broadcast_batch(scale, diagonal.shape)
    is_negative = real_part(diagonal) < 0.0  # the diagonal of R is real
    signs = is_negative.where(matrix.constant(-1.0), 1.0).pad([(0, 0), (0, m - n)])
    _, column = positions_of(signs.shape)
    signs = (column < n).where(signs, 1.0)
    return q * _as_row(signs, q.shape), s, v


def _as_row(values: UOp, shape: Shape) -> UOp:
    """(batch, n) along the columns of (batch, m, n)."""
    batch, n = values.shape
    return values.reshape((batch, 1, n)).expand(shape)


def _largest(s: UOp) -> UOp:
    """(batch, k) -> (batch,)."""
    return s.reduce(ops.MAX, (1,)).maximum(0.0)


def _count(s: UOp, limit: UOp) -> UOp:
    above = s > (limit if not limit.shape else broadcast_batch(limit, s.shape))
    return above.where(const(dtypes.int32, 1), 0).reduce(ops.ADD, (1,))


def _inverted(s: UOp, small: float) -> UOp:
    """1 / s, and 0 of what is at most `small` times the largest."""
    limit = broadcast_batch(_largest(s) * small, s.shape)
    return (s > limit).where(s.reciprocal(), s.ne(s).where(s, 0.0))
