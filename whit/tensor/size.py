"""`x.size`: the number of elements, which also answers as the method that PyTorch and tinygrad have by that name.

x.size            6, in NumPy and in the Array API standard, where it is an attribute
x.size()          (2, 3), in PyTorch and tinygrad, where it is a method
x.size(-1)        3
"""

from __future__ import annotations

from typing import Any, Protocol


class Sized(Protocol):
    """What has axes."""

    @property
    def shape(self) -> tuple[Any, ...]: ...
    def _axis(self, name: str, axis: Any, scalars: bool = True) -> int: ...
    def numel(self) -> Any: ...


def size_of(tensor: Sized, dim: int | None = None, *, axis: int | None = None) -> Any:
    """The shape, or the size of one axis."""
    named = axis if dim is None else dim
    return tensor.shape if named is None else tensor.shape[tensor._axis("size", named, scalars=False)]


class Size(int):
    """The number of elements; called, the shape, or the size of an axis."""

    tensor: Sized

    def size(self, dim: int | None = None, *, axis: int | None = None) -> Any:
        """The shape, or the size of one axis."""
        return size_of(self.tensor, dim, axis=axis)

    __call__ = size  # messages know it by that name


class SymbolicSize:
    """The same of a tensor whose number of elements depends on variables: it can be called, and is no number."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Sized) -> None:
        self.tensor = tensor

    def size(self, dim: int | None = None, *, axis: int | None = None) -> Any:
        """The shape, or the size of one axis."""
        return size_of(self.tensor, dim, axis=axis)

    __call__ = size  # messages know it by that name


def size_answer(tensor: Sized) -> Any:
    """What `x.size` gives."""
    count = tensor.numel()
    if not isinstance(count, int):
        return SymbolicSize(tensor)
    result = Size(count)
    result.tensor = tensor
    return result
