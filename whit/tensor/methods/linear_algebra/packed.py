"""LAPACK's packed forms of decompositions, under PyTorch's names: LU with pivots, QR as reflections, triangles.

lu, pivots = a.lu();  x = b.lu_solve(lu, pivots)
packed, tau = a.geqrf();  q = packed.orgqr(tau)
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

from whit.dtype import dtypes
from whit.errors import ArgumentError, NotSupportedError, ShapeError
from whit.ir.op import spell_shape
from whit.ir.uop import UOp, const
from whit.tensor.core import broadcast_scalar
from whit.tensor.engine import compute
from whit.tensor.graphs.positions import positions_along
from whit.tensor.methods.aliases import same_as, several_as
from whit.tensor.methods.linear_algebra.decompose import WORK, Decompositions


class PackedLU(NamedTuple):
    """Both triangles, and the row that each row was exchanged with, counted from 1."""

    LU: Any
    pivots: Any


class PackedQR(NamedTuple):
    """R with the reflections below its diagonal, and their factors."""

    a: Any
    tau: Any


class TriangularSolve(NamedTuple):
    """The solution, and the matrix."""

    solution: Any
    cloned_coefficient: Any


class Packed(Decompositions):
    """Methods of matrices, and of decompositions in one matrix."""

    __slots__ = ()

    def lu(self, pivot: bool = True, get_infos: bool = False) -> Any:
        """L and U in one matrix, L without its diagonal of ones, and the pivots; with `get_infos`, 0 for each matrix,
        or the place of the first pivot that is 0, counted from 1."""
        if not pivot:
            raise ArgumentError("lu: pivot=False", self._made(), "Rows are always exchanged.")
        from whit.tensor.graphs.linear_algebra.packed import packed_lu  # lazy: few programs decompose matrices

        self._check_real("lu")
        matrix = self._matrices("lu")
        batch, m, n = matrix.shape
        zeros = broadcast_scalar(const(WORK, 0.0), (batch, min(m, n)))
        if 0 in matrix.shape:
            found, rows = matrix, zeros
        else:
            found, rows = packed_lu(matrix, compute([zeros], self.device)[0], self.device)
        pivots = self._wrap(self._computed(rows.cast(dtypes.int32)))
        result = PackedLU(self._known(self._computed(found), "lu", pivots.uop), pivots)
        if not get_infos:
            return result
        is_zero = result.LU.diagonal(0, -2, -1) == 0
        infos = is_zero.any(-1).where(is_zero.int().argmax(-1) + 1, 0).int()
        return (*result, infos)

    lu_factor = several_as("lu")

    def _check_real(self, name: str) -> None:
        """Refuses complex numbers."""
        if self.dtype.is_complex:
            raise NotSupportedError(
                f"{name}: {self.dtype.name}{spell_shape(self.shape)}", self._made(), "Use solve(), inv() or qr()."
            )

    @classmethod
    def lu_unpack(cls, LU_data: Any, LU_pivots: Any) -> tuple[Self, Self, Self]:  # noqa: N803  # PyTorch's names
        """P, L and U with P @ L @ U the matrix that was decomposed."""
        m, n = LU_data.shape[-2:]
        k = min(m, n)
        ones = LU_data._wrap(_eye(m, k, LU_data))
        lower = LU_data[..., :k].tril(-1) + ones
        order = LU_pivots._exchanged(m)  # row i of P.T is the unit vector order[i]
        turned = order.unsqueeze(-1) == LU_data._wrap(positions_along((m,), 0).cast(dtypes.int32))
        return turned.cast(LU_data.dtype).transpose(-2, -1), lower, LU_data[..., :k, :].triu()

    def _exchanged(self, m: int) -> Self:
        """Of pivots: the order of m rows."""
        from whit.tensor.graphs.linear_algebra.packed import exchanged  # lazy: as above

        lead, count = self.shape[:-1], self.shape[-1]
        total = 1
        for size in lead:
            total *= size
        rows = positions_along((total, m), 1).cast(dtypes.int32)
        pivots, order = compute([self.uop.cast(dtypes.int32).reshape((total, count)), rows], self.device)
        found = exchanged(pivots, order, self.device) if total and count else order
        return self._wrap(compute([found.reshape((*lead, m))], self.device)[0])

    def lu_solve(self, LU_data: Any, LU_pivots: Any) -> Self:  # noqa: N803  # PyTorch's names
        """x of a @ x = self, LU_data and LU_pivots being what `lu` gives of a."""
        data, pivots = self._operand("lu_solve", LU_data), self._operand("lu_solve", LU_pivots)
        n = data.shape[-1]
        if data.ndim < 2 or data.shape[-2] != n or pivots.shape != data.shape[:-1] or self.shape[-2:-1] != (n,):
            raise ShapeError(
                f"lu_solve: {spell_shape(self.shape)} of a decomposition {spell_shape(data.shape)}, "
                f"{spell_shape(pivots.shape)}",
                self._made(),
                "The right side has as many rows as the matrix, which is square.",
            )
        order = pivots._exchanged(n).unsqueeze(-1)
        lead = data.shape[:-2] if len(data.shape) >= self.ndim else self.shape[:-2]
        right = self.expand(*lead, *self.shape[-2:]).gather(-2, order.expand(*lead, *self.shape[-2:]))
        forward = right.triangular_solve(data, upper=False, unitriangular=True).solution
        found: Self = forward.triangular_solve(data).solution
        return found

    def triangular_solve(
        self,
        A: Any,  # noqa: N803  # PyTorch's name
        upper: bool = True,
        transpose: bool = False,
        unitriangular: bool = False,
    ) -> TriangularSolve:
        """x of t @ x = self, t being a triangle of the matrix A, or its transpose; what is beyond it is not read.
        unitriangular: the diagonal is ones, whatever A has there."""
        matrix = self._operand("triangular_solve", A)
        matrix._check_matrix("triangular_solve", square=True)
        triangle = matrix.triu(int(unitriangular)) if upper else matrix.tril(-int(unitriangular))
        if unitriangular:
            triangle = triangle + matrix._wrap(_eye(matrix.shape[-2], matrix.shape[-1], matrix))
        if transpose:
            triangle = triangle.transpose(-2, -1)
        if upper != transpose:
            return TriangularSolve(triangle.solve(self), matrix)
        turned = triangle.flip((-2, -1)).solve(self.flip(-2))  # upper: elimination exchanges no rows
        return TriangularSolve(turned.flip(-2), matrix)

    # ---- reflections

    def geqrf(self) -> PackedQR:
        """The QR decomposition as reflections: R, their vectors below its diagonal, and their factors."""
        from whit.tensor.graphs.linear_algebra.packed import packed_qr  # lazy: as above

        self._check_real("geqrf")
        matrix = self._matrices("geqrf")
        batch, m, n = matrix.shape
        zeros = broadcast_scalar(const(WORK, 0.0), (batch, min(m, n)))
        found, factors = matrix, zeros
        if 0 not in matrix.shape:
            found, factors = packed_qr(matrix, compute([zeros], self.device)[0], self.device)
        return PackedQR(self._result(found, "geqrf"), self._result(factors, "geqrf"))

    def orgqr(self, tau: Any) -> Self:
        """The first columns of the product of reflections, which `geqrf` gives: Q, of the shape of this matrix."""
        if self.ndim < 2 or self.shape[-2] < self.shape[-1]:
            raise ShapeError(
                f"orgqr: {spell_shape(self.shape)} has more columns than rows", self._made(), "Cut it to its columns."
            )
        m, n = self.shape[-2:]
        return self._reflect("orgqr", tau, self._wrap(_eye(m, n, self)).expand(*self.shape), transpose=False)

    householder_product = same_as("orgqr")

    def ormqr(self, tau: Any, other: Any, left: bool = True, transpose: bool = False) -> Self:
        """Q @ other, Q being the whole product of the reflections of this matrix; or other @ Q; or Q transposed."""
        right = self._operand("ormqr", other)
        if left:
            return self._reflect("ormqr", tau, right, transpose)
        return self._reflect("ormqr", tau, right.transpose(-2, -1), not transpose).transpose(-2, -1)

    def _reflect(self, name: str, tau: Any, other: Self, transpose: bool) -> Self:
        """Q @ other, as other - V T V' @ other: T is the inverse of a triangle of V' V and 1 / tau. Reflections of
        factor 0 are left out."""
        factors = self._operand(name, tau)
        m, count = self.shape[-2], factors.shape[-1] if factors.ndim else 0
        if factors.ndim != self.ndim - 1 or count > min(m, self.shape[-1]) or other.shape[-2:-1] != (m,):
            raise ShapeError(
                f"{name}: reflections {spell_shape(self.shape)}, factors {spell_shape(factors.shape)}, "
                f"other {spell_shape(other.shape)}",
                self._made(),
                "There is a factor for each column at most, and the other matrix fits into the product.",
            )
        is_there = factors.ne(0)
        columns = self[..., :count].tril(-1) + self._wrap(_eye(m, count, self))
        v = is_there.unsqueeze(-2).where(columns, 0)
        divisor: Any = is_there.where(factors, 1)
        inverse = is_there.where(1 / divisor, 1)
        triangle = (v.transpose(-2, -1) @ v).triu(1) + inverse.unsqueeze(-1) * self._wrap(_eye(count, count, self))
        inside = (v.transpose(-2, -1) @ other).triangular_solve(triangle, transpose=transpose).solution
        result: Self = other - v @ inside
        return result


def _eye(rows: int, columns: int, like: Any) -> UOp:
    """Ones on the diagonal, in the dtype of a tensor."""
    row, column = (positions_along((rows, columns), axis) for axis in (0, 1))
    dtype = like.dtype if like.dtype.is_float else dtypes.default_float
    return row.eq(column).where(const(dtype, 1.0), 0.0)
