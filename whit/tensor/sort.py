"""Order: sorting, the largest few, and what is read off sorted elements.

Sorting is stable, and NaN counts as larger than every number: last in ascending order, first in descending order. 0.0
and -0.0 are equal. Where the values and the positions of one sort are both realised together, one kernel (two for a
single long row) makes both; asking for one does not compute the other. Positions are int32, and int64 for axes that
need them.
"""

from __future__ import annotations

from typing import Any, Self

from whit.dtype import dtypes
from whit.errors import OutOfRangeError
from whit.ir.op import spell_shape
from whit.ir.uop import UOp
from whit.tensor.index import Indexing


class Sorting(Indexing):
    """`dim=` or `axis=`: the axis along which elements are ordered."""

    __slots__ = ()

    def _ordered(self, name: str, dim: Any, descending: bool, count: int | None = None) -> tuple[UOp, UOp]:
        """The first so many elements in order, and their positions."""
        axis = self._axis(name, dim)
        x = self.uop if self.shape else self.uop.reshape((1,))
        size = x.shape[axis]
        dtype = dtypes.int32 if size <= dtypes.int32.max else dtypes.int64
        alone = tuple(size if i == axis else 1 for i in range(len(x.shape)))
        places = UOp.arange(size, dtype).reshape(alone).expand(x.shape)
        kept = size if count is None else count
        both = x.sort(x, axis, kept, descending), x.sort(places, axis, kept, descending)
        return both if self.shape or kept != 1 else (both[0].reshape(()), both[1].reshape(()))

    def sort(self, dim: int = -1, descending: bool = False, axis: int | None = None) -> tuple[Self, Self]:
        """The elements in order along an axis, and the positions they came from."""
        values, places = self._ordered("sort", dim if axis is None else axis, descending)
        return self._wrap(values), self._wrap(places)

    def argsort(self, dim: int = -1, descending: bool = False, axis: int | None = None) -> Self:
        """The positions of the elements in order along an axis."""
        return self._wrap(self._ordered("argsort", dim if axis is None else axis, descending)[1])

    def topk(
        self, k: int, dim: int = -1, largest: bool = True, sorted_: bool = True, axis: int | None = None
    ) -> tuple[Self, Self]:
        """The k largest (or smallest) elements along an axis in order, and their positions; of equals, the first.

        They are in order also if that is not asked for.
        """
        place = self._axis("topk", dim if axis is None else axis)
        size = self.shape[place] if self.shape else 1
        if not 0 <= k <= size:
            raise OutOfRangeError(
                f"topk: {k} of the {size} elements along axis {place} of {spell_shape(self.shape)}",
                self._made(),
                "k is at least 0 and at most the size of the axis.",
            )
        values, places = self._ordered("topk", place, largest, k)
        return self._wrap(values), self._wrap(places)
