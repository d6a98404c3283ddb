"""Products of matrices: a multiplication of expanded operands and a sum over their common axis.

    (m, k) @ (k, n)  ->  sum over k of (m, 1, k) * (1, n, k)

Products are exact and sums are made in the dtype of `sum`: float16 and bfloat16 are cast to float32 before they are
multiplied, int8 to int32; the result of floats is rounded once, to the operands' dtype. Bools give bools.
"""

from __future__ import annotations

from typing import Any, Self

from whit.dtype import DType, DTypeLike
from whit.errors import ShapeError
from whit.ir.op import spell_shape
from whit.tensor.core import join_shapes, storable
from whit.tensor.graphs.linear_algebra.contract import product_of
from whit.tensor.graphs.mixing import restate_mix
from whit.tensor.methods.reduction.reduce import sum_dtype
from whit.tensor.topic import Topic


class Products(Topic):
    """`@`, dot, linear."""

    __slots__ = ()

    def dot(self, w: Any, dtype: DTypeLike | None = None) -> Self:
        """The product of matrices in the last two axes; the axes before them broadcast. Vectors are rows or columns."""
        other = self._operand("matmul", w)
        self._one_device("matmul", other)
        if not self.shape or not other.shape:
            raise ShapeError(
                f"matmul: shapes {spell_shape(self.shape)} and {spell_shape(other.shape)}: one has no axes",
                f"left {self._made()}, right {other._made()}",
                "Use * with a single number.",
            )
        inner = max(other.ndim - 2, 0)
        if self.shape[-1] != other.shape[inner]:
            raise ShapeError(
                f"matmul: shapes {spell_shape(self.shape)} and {spell_shape(other.shape)} do not fit: "
                f"the last axis of the left is {self.shape[-1]}, axis {inner} of the right is {other.shape[inner]}",
                f"left {self._made()}, right {other._made()}",
                "These two must be equal. Transpose one side?",
            )
        batch = join_shapes(self.shape[:-2], other.shape[:-2])
        if batch is None:
            raise ShapeError(
                f"matmul: shapes {spell_shape(self.shape)} and {spell_shape(other.shape)}: "
                f"the axes before the last two, {spell_shape(self.shape[:-2])} and {spell_shape(other.shape[:-2])}, "
                "do not broadcast",
                f"left {self._made()}, right {other._made()}",
                "Sizes on an axis must be equal, or one of them 1.",
            )
        left, right = self._together("matmul", (other,))
        narrow = left.dtype if dtype is None else storable("matmul", dtype)
        wide = narrow if narrow.is_bool else sum_dtype(narrow)
        of_fp8 = all(t.dtype.is_float and t.dtype.bitsize == 8 for t in (self, other))
        x, y = (self, other) if of_fp8 else (left, right)  # two kinds meet in bfloat16, but are multiplied as they are
        total = product_of(x.uop.cast(wide), y.uop.cast(wide), batch)
        result = total.cast(narrow) if narrow.is_float or dtype is not None else total
        return self._wrap(restate_mix(result, left.uop, right.uop))

    def matmul(self, x: Any, reverse: bool = False, dtype: DTypeLike | None = None) -> Self:
        """self @ x."""
        return self._operand("matmul", x).dot(self, dtype) if reverse else self.dot(x, dtype)

    def __matmul__(self, x: Any) -> Self:
        return self.dot(x)

    def __rmatmul__(self, x: Any) -> Self:
        return self._operand("matmul", x).dot(self)

    def __imatmul__(self, x: Any) -> Self:
        return self._become("@=", self.dot(x))

    def linear(self, weight: Any, bias: Any = None, dtype: DType | str | None = None) -> Self:
        """self @ weight + bias, weight being (inputs, outputs); a weight with one axis scales."""
        factor = self._operand("linear", weight)
        if dtype is not None:
            wanted = storable("linear", dtype)
            return self.cast(wanted).linear(factor.cast(wanted), None if bias is None else bias.cast(wanted))
        result = self * factor if factor.ndim == 1 else self.dot(factor)
        return result if bias is None else result + bias
