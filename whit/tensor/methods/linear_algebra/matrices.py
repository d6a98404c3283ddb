"""Functions of matrices that are made of products and decompositions, and matrices of a certain form."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Self

from whit.dtype import dtypes
from whit.errors import ArgumentError, ShapeError
from whit.ir import ops
from whit.ir.op import spell_shape
from whit.ir.uop import const
from whit.tensor.core import Core, whole
from whit.tensor.graphs.positions import positions_along
from whit.tensor.topic import Topic

_TAYLOR_TERMS = 18  # of exp(x), right to the last bit of float64 where the norm of x is at most 1
_MOST_SQUARINGS = 24  # for norms up to 2**24


class Matrices(Topic):
    """The last two axes are matrices; those before them are batches."""

    __slots__ = ()

    def logdet(self) -> Self:
        """The logarithm of the determinant; -inf of 0, NaN below. Of a complex one, the complex logarithm."""
        sign, size = self.slogdet()
        if sign.dtype.is_complex:
            return sign.angle()._as_imaginary(size)
        return sign.lt(0).where(float("nan"), size)

    def cholesky_inverse(self, upper: bool = False) -> Self:
        """The inverse of the matrix whose Cholesky factor this is."""
        return self._of_factor("cholesky_inverse", self, upper).inv()

    def cholesky_solve(self, input2: Any, upper: bool = False) -> Self:
        """x of a @ x = self, input2 being the Cholesky factor of a."""
        return self._of_factor("cholesky_solve", self._operand("cholesky_solve", input2), upper).solve(self)

    def _of_factor(self, name: str, factor: Self, upper: bool) -> Self:
        """The matrix that a triangle and its transpose are the factors of; what is beyond the triangle is not read."""
        if factor.ndim < 2:
            raise ShapeError(f"{name}: {spell_shape(factor.shape)} is no matrix", factor._made(), "Use a matrix.")
        other = factor.triu() if upper else factor.tril()
        turned = other.transpose(-2, -1)
        return turned.matmul(other) if upper else other.matmul(turned)

    def matrix_exp(self) -> Self:
        """The exponential of square matrices: 1 + x + x @ x / 2 + ..., not that of the elements.

        x is halved until its norm is at most 1, the series is summed, and the sum squared as often.
        """
        if self.ndim < 2 or self.shape[-1] != self.shape[-2]:
            raise ShapeError(
                f"matrix_exp: {spell_shape(self.shape)} has no square matrices", self._made(), "Use square matrices."
            )
        x = self._wrap(self._wide())
        size = self.shape[-1]
        if not size:
            return self
        norm = x.abs().sum(-2, keepdim=True).max(-1, keepdim=True)
        halvings = self._wrap(norm.uop.maximum(1.0).log2().ceil().minimum(float(_MOST_SQUARINGS)).detach())
        x = x * (-halvings).exp2()
        one = self.eye(size, dtype=x.dtype, device=self._in_memory())
        total = one + x / _TAYLOR_TERMS
        for k in range(_TAYLOR_TERMS - 1, 0, -1):
            total = one + x.matmul(total) / k
        for step in range(_MOST_SQUARINGS):
            total = halvings.gt(step).where(total.matmul(total), total)
        return self._narrow(total.uop)

    def adjoint(self) -> Self:
        """The last two axes exchanged, and complex numbers conjugated (PyTorch)."""
        return self.transpose(-2, -1).conj()

    def matrix_transpose(self) -> Self:
        """The last two axes exchanged (NumPy)."""
        return self.transpose(-2, -1)

    @property
    def mH(self) -> Self:  # noqa: N802  # the name that PyTorch has
        """The last two axes exchanged, and complex numbers conjugated (PyTorch)."""
        return self.transpose(-2, -1).conj()

    @property
    def H(self) -> Self:  # noqa: N802  # the name that PyTorch has
        """A matrix with its axes exchanged, and complex numbers conjugated (PyTorch)."""
        if self.ndim not in (0, 2):
            raise ShapeError(
                f"H: {spell_shape(self.shape)} is no matrix", self._made(), "Use mH for the last two axes."
            )
        return (self.transpose(0, 1) if self.ndim else self).conj()

    def vecdot(self, x: Any, dim: int = -1) -> Self:
        """The sum of products along an axis, of the conjugates of self (PyTorch, NumPy)."""
        product = self.conj().mul(x)
        return product.any(dim) if product.dtype.is_bool else product.sum(dim, dtype=product.dtype)

    def chain_matmul(self, *matrices: Any) -> Self:
        """The product of several matrices, from left to right or in the order that takes the fewest multiplications."""
        given: Any = self
        first, *rest = (*given, *matrices) if isinstance(given, list | tuple) else (given, *matrices)
        if not rest:
            return first  # type: ignore[no-any-return]
        letters = [chr(ord("a") + i) for i in range(len(rest) + 2)]
        formula = ",".join(a + b for a, b in pairwise(letters))
        result: Self = first.einsum(f"{formula}->{letters[0]}{letters[-1]}", first, *rest)
        return result

    # ---- of a certain form

    def vander(self, N: int | None = None, increasing: bool = False) -> Self:  # noqa: N803  # its name everywhere
        """The powers of each element of a row, in a row of the matrix: from N - 1 down to 0, or the other way."""
        if self.ndim != 1:
            raise ShapeError(f"vander: {spell_shape(self.shape)} is no row", self._made(), "Use ravel() first.")
        count = self.shape[0] if N is None else whole("vander", "N", N, self._made())
        if count < 0:
            raise ArgumentError(f"vander: {count} columns", self._made(), "Ask for zero or more.")
        shape = (self.shape[0], count)
        x = self.uop.cast(dtypes.default_int) if self.dtype.is_bool else self.uop
        if not count:
            return self._wrap(x.reshape((*self.shape, 1)).shrink([(0, self.shape[0]), (0, 0)]))
        base = x.reshape((*self.shape, 1)).expand(shape)
        first = positions_along(shape, 1, dtypes.int32).eq(0)
        powers = first.where(const(x.dtype, 1), base).scan(ops.MUL, 1)
        return self._wrap(powers if increasing else powers.flip((1,)))

    def block_diag(self, *tensors: Any) -> Self:
        """Matrices one after another on the diagonal, zeros elsewhere. Vectors are rows."""
        given: Any = self
        parts = (*given, *tensors) if isinstance(given, list | tuple) else (given, *tensors)
        if not parts or not isinstance(parts[0], Core):
            raise ArgumentError("block_diag: there are no tensors", fix="Give one or more: Tensor.block_diag(a, b).")
        first: Any = parts[0]
        same = first._together("block_diag", tuple(parts[1:]))
        for part in same:
            if part.ndim > 2:
                raise ShapeError(
                    f"block_diag: {spell_shape(part.shape)} is no matrix", part._made(), "Use at most 2 axes."
                )
        blocks = [part if part.ndim == 2 else part.reshape((1, part.numel())) for part in same]
        total, before = sum(block.shape[1] for block in blocks), 0
        rows = []
        for block in blocks:
            width = block.shape[1]
            rows.append(block.pad(((0, 0), (before, total - before - width))))
            before += width
        return rows[0].cat(*rows[1:]) if len(rows) > 1 else rows[0]  # type: ignore[no-any-return]
