"""Tensors as sets: which elements occur in others, which follow each other, what two have in common; bins and places.

How many elements there are depends on the data where the result is one of them; that is computed at once.
"""

from __future__ import annotations

from typing import Any, Self

from whit.dtype import dtypes
from whit.errors import ArgumentError, ShapeError
from whit.ir.op import spell_shape
from whit.ir.uop import UOp, const
from whit.tensor.core import broadcast_scalar, whole
from whit.tensor.graphs.positions import counting_dtype
from whit.tensor.methods.indexing.sort import Sorting


class Sets(Sorting):
    """Membership, bins, coordinates."""

    __slots__ = ()

    # ---- membership

    def isin(self, test_elements: Any, assume_unique: bool = False, invert: bool = False) -> Self:
        """Whether each element occurs in another tensor; NaN occurs nowhere."""
        other = self._scalar_or_operand("isin", test_elements).flatten()
        x, members = self._together("isin", (other,))
        count = members.numel()
        if not count:
            return self._wrap(broadcast_scalar(const(dtypes.bool, invert), self.shape))
        ordered = members.sort(0)[0]
        place = ordered.searchsorted(x.flatten(), out_dtype=counting_dtype(count)).clamp(0, count - 1)
        found = ordered.gather(0, place).reshape(x.shape).eq(x)
        return found.logical_not() if invert else found

    def _scalar_or_operand(self, name: str, other: Any) -> Self:
        return type(self)(other) if isinstance(other, bool | int | float | complex) else self._operand(name, other)

    def union1d(self, other: Any) -> Self:
        """The different elements of two tensors, in order (NumPy)."""
        return self.flatten().cat(self._operand("union1d", other).flatten()).unique()  # type: ignore[no-any-return]

    def intersect1d(self, other: Any) -> Self:
        """The different elements that are in both tensors, in order (NumPy)."""
        found = self.unique()
        return found[found.isin(other)]  # type: ignore[no-any-return]

    def setdiff1d(self, other: Any) -> Self:
        """The different elements that are not in the other tensor, in order (NumPy)."""
        found = self.unique()
        return found[found.isin(other, invert=True)]  # type: ignore[no-any-return]

    def setxor1d(self, other: Any) -> Self:
        """The different elements that are in one of the tensors only, in order (NumPy)."""
        right = self._operand("setxor1d", other)
        return self.setdiff1d(right).union1d(right.setdiff1d(self))

    def unique_consecutive(
        self, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
    ) -> Any:
        """The elements that differ from the one before, or the slices along an axis that do.

        With `return_inverse` also which of them each element belongs to, with `return_counts` how many do: a tuple.
        """
        x, axis = (self.flatten(), 0) if dim is None else (self, self._axis("unique_consecutive", dim, False))
        size = x.shape[axis]
        rows = x.moveaxis(axis, 0).reshape((size, -1 if size and x.numel() else 0))
        begins = self._first_of_equals(rows)
        results = self._groups(x, axis, begins, return_inverse, return_counts)
        if return_inverse and dim is None:
            results[1] = results[1].reshape(self.shape)
        return results[0] if len(results) == 1 else tuple(results)

    def _first_of_equals(self, rows: Self) -> Self:
        """Whether each row differs from the one before; the first does."""
        size, width = rows.shape
        if not size:
            return rows.sum(1).cast(dtypes.bool)
        before = rows.uop.shrink([(0, size - 1), (0, width)]).pad([(1, 0), (0, 0)])
        differs = self._wrap(rows.uop.ne(before)).any(1).uop
        return self._wrap(differs | UOp.arange(size, dtypes.int32).eq(0))

    def _groups(self, x: Self, axis: int, begins: Self, with_inverse: bool, with_counts: bool) -> list[Self]:
        """The slices that begin a group; for each slice the number of its group; how many slices each has."""
        starts = begins.nonzero().flatten()
        results = [x.take(starts, axis)]
        if with_inverse:
            results.append(begins.cast(dtypes.default_int).cumsum(0) - 1)
        if with_counts:
            size = x.shape[axis]
            ends = starts[1:].pad(((0, 1),), value=size) if starts.shape[0] else starts
            results.append(ends - starts)
        return results

    # ---- bins

    def bucketize(self, boundaries: Any, out_int32: bool = False, right: bool = False) -> Self:
        """In which bin each element lies: before boundary 0, between boundaries 0 and 1 ..."""
        edges = self._operand("bucketize", boundaries)
        wanted = dtypes.int32 if out_int32 else dtypes.default_int
        return edges.searchsorted(self, right=right, out_dtype=wanted)

    def digitize(self, bins: Any, right: bool = False) -> Self:
        """In which bin each element lies, of edges that grow or shrink (NumPy)."""
        edges = self._operand("digitize", bins)
        if edges.ndim != 1:
            raise ShapeError(f"digitize: bins of shape {spell_shape(edges.shape)}", edges._made(), "Give one row.")
        count = edges.shape[0]
        growing = edges.searchsorted(self, right=not right)
        if count < 2:
            return growing
        shrinking = edges.flip(0).searchsorted(self, right=right) * -1 + count
        return edges[0].le(edges[count - 1]).where(growing, shrinking)

    def histc(self, bins: int = 100, min: float = 0, max: float = 0) -> Self:
        """How many elements lie in each of equal bins from min to max; from the smallest to the largest if both are
        0. What lies outside is not counted (PyTorch)."""
        span = None if min == 0 and max == 0 else (min, max)
        if span is None or min == max:
            flat = self.flatten()
            inside = flat if span is None else flat.masked_select(flat.ge(min).logical_and(flat.le(max)))
            low, high = (float(inside.min().item()), float(inside.max().item())) if inside.numel() else (0.0, 1.0)
            span = (low, high) if low != high else (low - 1, high + 1)
        counts, _ = self.histogram(whole("histc", "bins", bins, self._made()), range=span)
        return counts.cast(self.dtype)

    # ---- coordinates

    def unravel_index(self, shape: Any) -> tuple[Self, ...]:
        """The coordinates, one tensor for each axis of a shape, of places in the flattened array."""
        self._require("unravel_index", self.dtype.is_int, "places are integers", "Cast it.")
        sizes = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
        rest = self
        found = []
        for size in reversed(sizes):
            found.append(rest % whole("unravel_index", "size", size, self._made()))
            rest = rest.div(size, rounding_mode="floor")
        return tuple(reversed(found))

    def ravel_multi_index(self, dims: Any, *others: Any) -> Self:
        """The places in the flattened array of coordinates: one tensor for each axis, or their stack."""
        given: Any = self
        parts = list(given) if isinstance(given, list | tuple) else [self, *others] if others else list(self.unbind(0))
        if len(parts) != len(dims):
            raise ArgumentError(
                f"ravel_multi_index: {len(parts)} coordinates for {len(dims)} axes", fix="Give one for each axis."
            )
        total = parts[0]
        for part, size in zip(parts[1:], list(dims)[1:], strict=True):
            total = total * size + part
        return total

    # ---- order without all of it

    def partition(self, kth: int, axis: int = -1) -> Self:
        """The elements with the k-th smallest in its place, smaller ones before it and larger ones after: in order."""
        return self.sort(axis)[0]

    def argpartition(self, kth: int, axis: int = -1) -> Self:
        """The positions of the elements of `partition`."""
        return self.argsort(axis)

    def lexsort(self, axis: int = -1) -> Self:
        """The positions that put several keys in order, the last row of keys counting most (NumPy)."""
        keys = self.unbind(0) if self.ndim > 1 else (self,)
        order = keys[0].argsort(axis)
        for key in keys[1:]:
            place = key._axis("lexsort", axis)
            order = order.gather(place, key.gather(place, order).argsort(place))
        return order
