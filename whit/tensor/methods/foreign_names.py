"""Methods under the names that PyTorch and NumPy have for them.

Each does what it does there, in the words of another method. Names that cannot simply work are in `whit/names.py`, with
what to write instead; docs/migration.md lists both.
"""

from __future__ import annotations

from typing import Any, Self, overload

from whit.dtype import DTypeLike, dtypes
from whit.errors import ShapeError
from whit.ir.op import spell_shape
from whit.tensor.core import Core, check_gradient, mark_leaf
from whit.tensor.methods.movement.views import Some, Views
from whit.tensor.topic import Topic


class Aliases(Topic):
    """What users of PyTorch and NumPy type first."""

    __slots__ = ()

    # ---- dtypes and devices

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
        """Sets `requires_grad` (PyTorch). A result of operations that takes gradients gets `.grad` as leaves do."""
        check_gradient(requires_grad, self.dtype)
        self.requires_grad = requires_grad
        if requires_grad:
            mark_leaf(self)
        return self

    # ---- shapes

    def block_until_ready(self) -> Self:
        """The same as `realize` (JAX)."""
        return self.realize()

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

    def narrow_copy(self, dim: int, start: int, length: int) -> Self:
        """`narrow`, as a copy (PyTorch)."""
        return self.narrow(dim, start, length).clone()

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

    def flipud(self) -> Self:
        """The first axis back to front (NumPy, PyTorch)."""
        return self.flip(0)

    def fliplr(self) -> Self:
        """The second axis back to front (NumPy, PyTorch)."""
        return self.flip(1)

    # ---- arithmetic

    def amax(self, axis: Any = None, keepdim: bool = False, dim: Any = None, keepdims: bool = False) -> Self:
        """The largest along axes (NumPy, PyTorch)."""
        return self.max(axis=axis, keepdim=keepdim, dim=dim, keepdims=keepdims)

    def amin(self, axis: Any = None, keepdim: bool = False, dim: Any = None, keepdims: bool = False) -> Self:
        """The smallest along axes (NumPy, PyTorch)."""
        return self.min(axis=axis, keepdim=keepdim, dim=dim, keepdims=keepdims)

    def clamp_min(self, min: Any) -> Self:
        """Not below min (PyTorch)."""
        return self.clamp(min)

    def clamp_max(self, max: Any) -> Self:
        """Not above max (PyTorch)."""
        return self.clamp(None, max)

    # ---- new tensors

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


def _listed(shape: tuple[Any, ...]) -> Any:
    return shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
