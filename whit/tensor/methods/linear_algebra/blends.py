"""Products that are added to something, by PyTorch's names: `x.addmm(a, b)` is `x + a @ b`.

`beta` multiplies what is added to, `alpha` (or `value`) the product. With beta = 0 nothing of the former is left, not
even its NaNs. Integers take whole factors.
"""

from __future__ import annotations

from typing import Any, Self

from whit.errors import DTypeError, ShapeError
from whit.ir.op import spell_shape
from whit.tensor.core import check_number, join_shapes
from whit.tensor.topic import Topic


class Blends(Topic):
    """A tensor plus a product."""

    __slots__ = ()

    def _of_rank(self, name: str, rank: int, other: Any, other_rank: int) -> Self:
        """A product, if the operands have these numbers of axes."""
        right = self._operand(name, other)
        if self.ndim != rank or right.ndim != other_rank:
            raise ShapeError(
                f"{name}: shapes {spell_shape(self.shape)} and {spell_shape(right.shape)}",
                f"left {self._made()}, right {right._made()}",
                f"It takes {rank} axes on the left and {other_rank} on the right; matmul takes all.",
            )
        return self.matmul(right)

    def mm(self, mat2: Any) -> Self:
        """`matmul` of two matrices (PyTorch)."""
        return self._of_rank("mm", 2, mat2, 2)

    def bmm(self, mat2: Any) -> Self:
        """`matmul` of two batches of matrices (PyTorch)."""
        return self._of_rank("bmm", 3, mat2, 3)

    def mv(self, vec: Any) -> Self:
        """`matmul` of a matrix and a vector (PyTorch)."""
        return self._of_rank("mv", 2, vec, 1)

    def addmm(self, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Self:
        """beta * self + alpha * (mat1 @ mat2), of matrices (PyTorch)."""
        return self._blend("addmm", self._operand("addmm", mat1)._of_rank("addmm", 2, mat2, 2), beta, alpha)

    def addmv(self, mat: Any, vec: Any, *, beta: Any = 1, alpha: Any = 1) -> Self:
        """beta * self + alpha * (mat @ vec), of a matrix and a vector (PyTorch)."""
        return self._blend("addmv", self._operand("addmv", mat)._of_rank("addmv", 2, vec, 1), beta, alpha)

    def addr(self, vec1: Any, vec2: Any, *, beta: Any = 1, alpha: Any = 1) -> Self:
        """beta * self + alpha times the products of all pairs of two vectors (PyTorch)."""
        column, row = self._operand("addr", vec1), self._operand("addr", vec2)
        if column.ndim != 1 or row.ndim != 1:
            raise ShapeError(
                f"addr: shapes {spell_shape(column.shape)} and {spell_shape(row.shape)} are no vectors",
                f"left {column._made()}, right {row._made()}",
                "Use ravel() first.",
            )
        return self._blend("addr", column.unsqueeze(1) * row.unsqueeze(0), beta, alpha)

    def baddbmm(self, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Self:
        """beta * self + alpha * (batch1 @ batch2), of batches of matrices (PyTorch)."""
        product = self._operand("baddbmm", batch1)._of_rank("baddbmm", 3, batch2, 3)
        return self._blend("baddbmm", product, beta, alpha)

    def addbmm(self, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Self:
        """beta * self + alpha times the sum of the products of a batch of matrices (PyTorch)."""
        product = self._operand("addbmm", batch1)._of_rank("addbmm", 3, batch2, 3)
        return self._blend("addbmm", product.sum(0, dtype=product.dtype), beta, alpha)

    def addcmul(self, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Self:
        """self + value * tensor1 * tensor2 (PyTorch)."""
        product = self._operand("addcmul", tensor1) * tensor2
        return self + self._times("addcmul", product, value)

    def addcdiv(self, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Self:
        """self + value * tensor1 / tensor2 (PyTorch)."""
        quotient = self._operand("addcdiv", tensor1).mul(value).div(tensor2)
        return self + quotient

    def _blend(self, name: str, product: Self, beta: Any, alpha: Any) -> Self:
        """beta * self + alpha * product, in the shape of the product."""
        if join_shapes(self.shape, product.shape) != product.shape:
            raise ShapeError(
                f"{name}: a tensor of shape {spell_shape(self.shape)} and a product of {spell_shape(product.shape)}",
                self._made(),
                "The tensor must broadcast to the shape of the product.",
            )
        scaled = self._times(name, product, alpha)
        return scaled if _is(beta, 0) else self._times(name, self, beta) + scaled

    def _times(self, name: str, x: Self, factor: Any) -> Self:
        """x * factor in the dtype of x."""
        if not isinstance(factor, Topic):
            check_number(name, "a factor", factor, self._made())
        if isinstance(factor, float) and not x.dtype.is_float:
            raise DTypeError(
                f"{name}: the factor {factor} for {x.dtype.name}", self._made(), "Use a whole number, or cast to float."
            )
        if x.dtype.is_bool and isinstance(factor, int):
            factor = bool(factor)
        return x if _is(factor, 1) else x * factor


def _is(factor: Any, number: int) -> bool:
    return isinstance(factor, int | float) and factor == number
