"""The end of the chain of classes: `Tensor`, with the casts that are named after dtypes.

They stand last because, in the body of a class that has a method `float`, the annotation `float` means that method.
"""

from __future__ import annotations

from types import FunctionType
from typing import Self

from whit.dtype import dtypes
from whit.tensor.custom import Custom


class Tensor(Custom):
    """A lazy array: shape, dtype, device, and the graph that computes it."""

    __slots__ = ()

    def bool(self) -> Self:
        """Cast to bool."""
        return self.cast(dtypes.bool)

    def int(self) -> Self:
        """Cast to int32."""
        return self.cast(dtypes.int32)

    def short(self) -> Self:
        """Cast to int16."""
        return self.cast(dtypes.int16)

    def long(self) -> Self:
        """Cast to int64."""
        return self.cast(dtypes.int64)

    def half(self) -> Self:
        """Cast to float16."""
        return self.cast(dtypes.float16)

    def float(self) -> Self:
        """Cast to float32."""
        return self.cast(dtypes.float32)

    def double(self) -> Self:
        """Cast to float64."""
        return self.cast(dtypes.float64)

    def bfloat16(self) -> Self:
        """Cast to bfloat16."""
        return self.cast(dtypes.bfloat16)


def _named_after_tensor() -> None:
    """Users see one class. Python's own messages say "Tensor.sum() got an unexpected keyword argument", too."""
    for part in Tensor.__mro__[:-1]:
        for name, method in vars(part).items():
            function = getattr(method, "__func__", method)
            if isinstance(function, FunctionType):
                function.__qualname__ = f"Tensor.{name}"
                function.__module__ = Tensor.__module__


_named_after_tensor()
