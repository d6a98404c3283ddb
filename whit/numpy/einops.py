"""einops on tensors: importing this module tells einops what a tensor is.

    import whit.numpy.einops
    from einops import rearrange, reduce, repeat
    rearrange(x, "batch channel height width -> batch (height width) channel")

`einops.array_api` needs no such import. This module needs einops, which is not installed with whit. einops asks for a
class for each framework; it finds them among the classes that derive from its own.
"""

from __future__ import annotations

from typing import Any

from einops._backends import AbstractBackend

from whit.numpy.operands import stacked
from whit.tensor import Tensor

__all__ = ["WhitBackend"]


class WhitBackend(AbstractBackend):  # type: ignore[misc]  # einops is not looked into
    """What einops asks of a framework, in the words of Tensor."""

    framework_name = "whit"

    def is_appropriate_type(self, tensor: Any) -> bool:
        """Whether it is one of ours."""
        return isinstance(tensor, Tensor)

    def from_numpy(self, x: Any) -> Tensor:
        """A tensor of an array of NumPy."""
        return Tensor(x)

    def to_numpy(self, x: Tensor) -> Any:
        """The elements as an array of NumPy."""
        return x.numpy()

    def arange(self, start: int, stop: int) -> Tensor:
        """start, start + 1, ... before stop."""
        return Tensor.arange(start, stop)

    def transpose(self, x: Tensor, axes: Any) -> Tensor:
        """The axes in another order."""
        return x.permute(tuple(axes))

    def reduce(self, x: Tensor, operation: str, axes: Any) -> Tensor:
        """A reduction by its name."""
        return getattr(x, operation)(axis=tuple(axes))  # type: ignore[no-any-return]

    def stack_on_zeroth_dimension(self, tensors: list[Tensor]) -> Tensor:
        """Tensors along a new first axis."""
        return stacked(list(tensors))

    def add_axis(self, x: Tensor, new_position: int) -> Tensor:
        """A new axis of size 1."""
        return x.unsqueeze(new_position)

    def tile(self, x: Tensor, repeats: Any) -> Tensor:
        """The whole tensor several times along each axis."""
        return x.tile(tuple(repeats))

    def concat(self, tensors: Any, axis: int) -> Tensor:
        """Tensors one after another."""
        first, *rest = tensors
        return first.cat(*rest, dim=axis) if rest else first  # type: ignore[no-any-return]

    def is_float_type(self, x: Tensor) -> bool:
        """Whether the elements are floats."""
        return x.dtype.is_float

    def einsum(self, pattern: str, *x: Tensor) -> Tensor:
        """A sum of products."""
        return Tensor.einsum(pattern, *x)
