"""`x.at[i].set(v)` and others, as in JAX: copies with other elements; the tensor itself stays what it is.

    x.at[2:4].set(0)        x.at[[1, 1]].add(5)         x.at[mask].max(1)

A position that is named twice is added to twice, as `index_put(..., accumulate=True)` does and `y[i] += v` does not.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from whit.ir import ops
from whit.ir.op import Op
from whit.tensor.methods.indexing.subscript import Subscripts

Some = TypeVar("Some", bound=Subscripts)


class Updates(Subscripts):
    """Copies with other elements."""

    __slots__ = ()

    @property
    def at(self) -> Places[Any]:
        """`x.at[i].set(v)`: a copy with v at an index; also `add`, `multiply`, `min`, `max`, `power`, `get` (JAX)."""
        return Places(self)


class Places(Generic[Some]):
    """A tensor that waits for an index."""

    __slots__ = ("_tensor",)

    def __init__(self, tensor: Some) -> None:
        self._tensor = tensor

    def __getitem__(self, index: Any) -> Place[Some]:
        return Place(self._tensor, index)


class Place(Generic[Some]):
    """Some elements of a tensor, to be changed in a copy. The options of JAX (`mode=` and others) change nothing:
    positions must be inside."""

    __slots__ = ("_index", "_tensor")

    def __init__(self, tensor: Some, index: Any) -> None:
        self._tensor, self._index = tensor, index

    def _with(self, values: Any, combine: Op | None) -> Some:
        copy = self._tensor._wrap(self._tensor.uop)
        copy._put("at", self._index, values, combine)
        return copy

    def get(self, **options: Any) -> Some:
        """The elements."""
        return self._tensor[self._index]

    def set(self, values: Any, **options: Any) -> Some:
        """With these elements."""
        return self._with(values, None)

    def add(self, values: Any, **options: Any) -> Some:
        """With these added."""
        return self._with(values, ops.ADD)

    def subtract(self, values: Any, **options: Any) -> Some:
        """With these taken away."""
        return self._with(-values, ops.ADD)

    def multiply(self, values: Any, **options: Any) -> Some:
        """Times these."""
        return self._with(values, ops.MUL)

    mul = multiply

    def divide(self, values: Any, **options: Any) -> Some:
        """Divided by these."""
        return self._with(1 / values, ops.MUL)

    def min(self, values: Any, **options: Any) -> Some:
        """The smaller of both."""
        return self._with(values, ops.MIN)

    def max(self, values: Any, **options: Any) -> Some:
        """The larger of both."""
        return self._with(values, ops.MAX)

    def power(self, values: Any, **options: Any) -> Some:
        """To the power of these."""
        return self.set(self.get() ** values)

    def apply(self, function: Any, **options: Any) -> Some:
        """A function of the elements."""
        return self.set(function(self.get()))
