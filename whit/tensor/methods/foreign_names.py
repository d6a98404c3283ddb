"""Methods under the names that PyTorch and NumPy have for them.

Each does what it does there, in the words of another method. Names that cannot simply work are in `whit/names.py`, with
what to write instead; docs/migration.md lists both.
"""

from __future__ import annotations

from typing import Any, Self, overload

from whit.dtype import DTypeLike, dtypes
from whit.errors import ShapeError
from whit.ir.op import spell_shape
from whit.tensor.core import Core, check_gradient
from whit.tensor.methods.movement.views import Some, Views
from whit.tensor.topic import Topic


class Aliases(Topic):
    """What users of PyTorch and NumPy type first."""

    __slots__ = ()

    # ---- dtypes and devices

    def astype(self, dtype: DTypeLike) -> Self:
        """The same as `cast` (NumPy)."""
        return self.cast(dtype)

    def type(self, dtype: DTypeLike) -> Self:
        """The same as `cast` (PyTorch)."""
        return self.cast(dtype)

    def type_as(self, other: Core) -> Self:
        """The dtype and device of another tensor (PyTorch)."""
        return self.to(other)

    def byte(self) -> Self:
        """Cast to uint8 (PyTorch)."""
        return self.cast(dtypes.uint8)

    def char(self) -> Self:
        """Cast to int8 (PyTorch)."""
        return self.cast(dtypes.int8)

    def cpu(self) -> Self:
        """`to("CPU")` (PyTorch)."""
        return self.to("CPU")

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Sets `requires_grad` (PyTorch)."""
        check_gradient(requires_grad, self.dtype)
        self.requires_grad = requires_grad
        return self

    # ---- shapes

    def dim(self) -> int:
        """`ndim` (PyTorch)."""
        return self.ndim

    def nelement(self) -> Any:
        """The same as `numel` (PyTorch)."""
        return self.numel()

    def t(self) -> Self:
        """A matrix with its axes exchanged; vectors stay (PyTorch)."""
        if self.ndim > 2:
            raise ShapeError(
                f"t: a tensor of shape {spell_shape(self.shape)} is no matrix",
                self._made(),
                "Use T or permute() for all axes, mT for the last two.",
            )
        return self.transpose() if self.ndim == 2 else self

    @property
    def mT(self) -> Self:  # noqa: N802  # the name that NumPy and PyTorch have
        """The last two axes exchanged (NumPy, PyTorch)."""
        return self.transpose(-2, -1)

    def expand_as(self, other: Core) -> Self:
        """`expand` to the shape of another tensor (PyTorch)."""
        return self.expand(other.shape)

    def view_as(self, other: Core) -> Self:
        """`view` in the shape of another tensor (PyTorch)."""
        return self.view(other.shape)

    def reshape_as(self, other: Core) -> Self:
        """`reshape` to the shape of another tensor (PyTorch)."""
        return self.reshape(other.shape)

    def expand_dims(self, axis: int) -> Self:
        """The same as `unsqueeze` (NumPy)."""
        return self.unsqueeze(axis)

    def select(self, dim: int, index: Any) -> Self:
        """One position of an axis, without it (PyTorch)."""
        place = self._axis("select", dim, scalars=False)
        return self[(slice(None),) * place + (index,)]

    def narrow(self, dim: int, start: int, length: int) -> Self:
        """`length` positions of an axis from `start` on (PyTorch)."""
        place = self._axis("narrow", dim, scalars=False)
        size = self.shape[place]
        first = start + size if start < 0 else start
        if not 0 <= first <= first + length <= size:
            raise ShapeError(
                f"narrow: {length} positions from {start} on, of axis {place} of {spell_shape(self.shape)}",
                self._made(),
                "They must lie inside the axis.",
            )
        return self.shrink([(first, first + length) if axis == place else None for axis in range(self.ndim)])

    @overload
    def concat(self, *args: Any, dim: int = 0, axis: int | None = None) -> Self: ...

    @overload
    def concat(  # type: ignore[misc]  # of a list, called as a function of the class
        self: list[Some] | tuple[Some, ...], *args: int, dim: int = 0, axis: int | None = None
    ) -> Some: ...

    def concat(self, *args: Any, dim: int = 0, axis: int | None = None) -> Any:
        """The same as `cat` (PyTorch)."""
        given: Any = self  # a tensor, or a list of them
        return Views.cat(given, *args, dim=dim, axis=axis)

    @overload
    def concatenate(self, *args: Any, axis: int = 0, dim: int | None = None) -> Self: ...

    @overload
    def concatenate(  # type: ignore[misc]  # of a list, called as a function of the class
        self: list[Some] | tuple[Some, ...], *args: int, axis: int = 0, dim: int | None = None
    ) -> Some: ...

    def concatenate(self, *args: Any, axis: int = 0, dim: int | None = None) -> Any:
        """The same as `cat` (NumPy)."""
        given: Any = self
        return Views.cat(given, *args, dim=axis, axis=dim)

    def swapdims(self, dim0: int, dim1: int) -> Self:
        """The same as `transpose` (PyTorch)."""
        return self.transpose(dim0, dim1)

    def flipud(self) -> Self:
        """The first axis back to front (NumPy, PyTorch)."""
        return self.flip(0)

    def fliplr(self) -> Self:
        """The second axis back to front (NumPy, PyTorch)."""
        return self.flip(1)

    def argwhere(self) -> Self:
        """The same as `nonzero` (NumPy)."""
        return self.nonzero()

    # ---- arithmetic

    def multiply(self, x: Any) -> Self:
        """The same as `mul` (NumPy, PyTorch)."""
        return self.mul(x)

    def subtract(self, x: Any) -> Self:
        """The same as `sub` (NumPy, PyTorch)."""
        return self.sub(x)

    def divide(self, x: Any) -> Self:
        """The same as `div` (NumPy, PyTorch)."""
        return self.div(x)

    def true_divide(self, x: Any) -> Self:
        """The same as `div` (NumPy, PyTorch)."""
        return self.div(x)

    def negative(self) -> Self:
        """The same as `neg` (NumPy, PyTorch)."""
        return self.neg()

    def absolute(self) -> Self:
        """The same as `abs` (NumPy, PyTorch)."""
        return self.abs()

    def arcsin(self) -> Self:
        """The same as `asin` (NumPy, PyTorch)."""
        return self.asin()

    def arccos(self) -> Self:
        """The same as `acos` (NumPy, PyTorch)."""
        return self.acos()

    def arctan(self) -> Self:
        """The same as `atan` (NumPy, PyTorch)."""
        return self.atan()

    def arctan2(self, x: Any) -> Self:
        """The same as `atan2` (NumPy, PyTorch)."""
        return self.atan2(x)

    def amax(self, axis: Any = None, keepdim: bool = False, dim: Any = None, keepdims: bool = False) -> Self:
        """The largest along axes (NumPy, PyTorch)."""
        return self.max(axis=axis, keepdim=keepdim, dim=dim, keepdims=keepdims)

    def amin(self, axis: Any = None, keepdim: bool = False, dim: Any = None, keepdims: bool = False) -> Self:
        """The smallest along axes (NumPy, PyTorch)."""
        return self.min(axis=axis, keepdim=keepdim, dim=dim, keepdims=keepdims)

    def power(self, x: Any) -> Self:
        """The same as `pow` (NumPy)."""
        return self.pow(x)

    def clamp_min(self, min: Any) -> Self:
        """Not below min (PyTorch)."""
        return self.clamp(min)

    def clamp_max(self, max: Any) -> Self:
        """Not above max (PyTorch)."""
        return self.clamp(None, max)

    def greater(self, x: Any) -> Self:
        """The same as `gt` (NumPy, PyTorch)."""
        return self.gt(x)

    def greater_equal(self, x: Any) -> Self:
        """The same as `ge` (NumPy, PyTorch)."""
        return self.ge(x)

    def less(self, x: Any) -> Self:
        """The same as `lt` (NumPy, PyTorch)."""
        return self.lt(x)

    def less_equal(self, x: Any) -> Self:
        """The same as `le` (NumPy, PyTorch)."""
        return self.le(x)

    def not_equal(self, x: Any) -> Self:
        """The same as `ne` (NumPy, PyTorch)."""
        return self.ne(x)

    # ---- products

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

    def inverse(self) -> Self:
        """The same as `inv` (PyTorch)."""
        return self.inv()

    def mv(self, vec: Any) -> Self:
        """`matmul` of a matrix and a vector (PyTorch)."""
        return self._of_rank("mv", 2, vec, 1)

    # ---- new tensors

    def copy(self) -> Self:
        """The same as `clone` (NumPy)."""
        return self.clone()

    def new_zeros(self, *shape: Any, dtype: DTypeLike | None = None, device: str | None = None) -> Self:
        """Zeros of another shape, in this dtype and on this device (PyTorch)."""
        return self.new_full(_listed(shape), 0, dtype, device)

    def new_ones(self, *shape: Any, dtype: DTypeLike | None = None, device: str | None = None) -> Self:
        """Ones of another shape, in this dtype and on this device (PyTorch)."""
        return self.new_full(_listed(shape), 1, dtype, device)

    def new_full(self, shape: Any, fill_value: Any, dtype: DTypeLike | None = None, device: str | None = None) -> Self:
        """One number in another shape, in this dtype and on this device (PyTorch)."""
        return self.full(shape, fill_value, self.dtype if dtype is None else dtype, device or self._in_memory())

    def new_empty(self, *shape: Any, dtype: DTypeLike | None = None, device: str | None = None) -> Self:
        """Memory of arbitrary content, in this dtype and on this device (PyTorch)."""
        return self.empty(
            _listed(shape), dtype=self.dtype if dtype is None else dtype, device=device or self._in_memory()
        )

    def new_tensor(self, data: Any, dtype: DTypeLike | None = None, device: str | None = None) -> Self:
        """Other data in this dtype and on this device (PyTorch)."""
        return self.__class__(data, device or self._in_memory(), self.dtype if dtype is None else dtype)

    # ---- in place

    def add_(self, x: Any, alpha: Any = 1) -> Self:
        """`self += alpha * x` (PyTorch)."""
        return self._become("+=", self + (x if _is_one(alpha) else self._operand("add_", x) * alpha))

    def sub_(self, x: Any, alpha: Any = 1) -> Self:
        """`self -= alpha * x` (PyTorch)."""
        return self._become("-=", self - (x if _is_one(alpha) else self._operand("sub_", x) * alpha))

    def mul_(self, x: Any) -> Self:
        """`self *= x` (PyTorch)."""
        return self._become("*=", self * x)

    def div_(self, x: Any) -> Self:
        """`self /= x` (PyTorch)."""
        return self._become("/=", self / x)

    def clamp_(self, min: Any = None, max: Any = None) -> Self:
        """`clamp`, of this very tensor (PyTorch)."""
        return self.assign(self.clamp(min, max))

    def copy_(self, x: Any) -> Self:
        """`self[...] = x`: cast, moved and repeated to fit (PyTorch)."""
        self[...] = x.to(self.device) if isinstance(x, Topic) else x
        return self

    def fill_(self, value: Any) -> Self:
        """One number everywhere (PyTorch)."""
        return self.copy_(value)

    def zero_(self) -> Self:
        """0 everywhere (PyTorch)."""
        return self.copy_(0)


def _listed(shape: tuple[Any, ...]) -> Any:
    return shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape


def _is_one(alpha: Any) -> bool:
    return isinstance(alpha, int) and alpha == 1
