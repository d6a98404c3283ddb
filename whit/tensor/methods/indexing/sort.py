"""Order: sorting, the largest few, and what is read off sorted elements.

Sorting is stable, and NaN counts as larger than every number: last in ascending order, first in descending order. 0.0
and -0.0 are equal. Where the values and the positions of one sort are both realised together, one kernel (two for a
single long row) makes both; asking for one does not compute the other. Positions are int32, and int64 for axes that
need them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, inf, nan
from typing import Any, Self

from whit.dtype import DType, dtypes
from whit.errors import ArgumentError, NotSupportedError, OutOfRangeError, ShapeError
from whit.ir import ops
from whit.ir.assumed import fits
from whit.ir.op import spell_shape, spell_size
from whit.ir.sizes import reach
from whit.ir.uop import UOp, const
from whit.tensor.core import check_number, keeps, whole
from whit.tensor.graphs import formulas
from whit.tensor.results import ValuesAndIndices
from whit.tensor.topic import Topic


class Sorting(Topic):
    """`dim=` or `axis=`: the axis along which elements are ordered."""

    __slots__ = ()

    def _ordered(self, name: str, dim: Any, descending: bool, count: int | None = None) -> tuple[UOp, UOp]:
        """The first `count` elements in order, and their positions.

        Symbolic axes are sorted as long as they can be: more rows, and along the axis more elements, which come last.
        """
        axis = self._axis(name, dim)
        x = self.uop if self.shape else self.uop.reshape((1,))
        shape = x.shape
        if not all(isinstance(each, int) for each in shape):
            x = _as_long_as_can_be(x, axis, descending)
        size = x.shape[axis]
        dtype = dtypes.int32 if size <= dtypes.int32.max else dtypes.int64
        alone = tuple(size if i == axis else 1 for i in range(len(x.shape)))
        places = UOp.arange(size, dtype).reshape(alone).expand(x.shape)
        kept = size if count is None else count
        both = x.sort(x, axis, kept, descending), x.sort(places, axis, kept, descending)
        if x.shape != shape:
            both = _shown(both[0], shape, axis, count), _shown(both[1], shape, axis, count)
        return both if self.shape or kept != 1 else (both[0].reshape(()), both[1].reshape(()))

    def sort(
        self, dim: int = -1, descending: bool = False, axis: int | None = None, stable: bool = True
    ) -> ValuesAndIndices[Self]:
        """The elements in order along an axis, and the positions they came from."""
        return self._both_of(self._ordered("sort", dim if axis is None else axis, descending))

    def _both_of(self, nodes: tuple[UOp, UOp]) -> ValuesAndIndices[Self]:
        values, places = nodes
        return ValuesAndIndices(self._wrap(values), self._wrap(places))

    def argsort(self, dim: int = -1, descending: bool = False, axis: int | None = None, stable: bool = True) -> Self:
        """The positions of the elements in order along an axis."""
        return self._wrap(self._ordered("argsort", dim if axis is None else axis, descending)[1])

    def topk(
        self, k: int, dim: int = -1, largest: bool = True, sorted_: bool = True, axis: int | None = None
    ) -> ValuesAndIndices[Self]:
        """The k largest (or smallest) elements along an axis in order, and their positions; of equals, the first.

        They are in order also if that is not asked for.
        """
        place = self._axis("topk", dim if axis is None else axis)
        size = self.shape[place] if self.shape else 1
        k = whole("topk", "k", k, self._made())
        if k < 0 or not fits(k, size):
            raise OutOfRangeError(
                f"topk: {k} of the {spell_size(size)} elements along axis {place} of {spell_shape(self.shape)}",
                self._made(),
                "k is at least 0 and at most the size of the axis.",
            )
        return self._both_of(self._ordered("topk", place, largest, k))

    def msort(self) -> Self:
        """The elements in order along the first axis."""
        return self._wrap(self._ordered("msort", 0, False)[0])

    # ---- single elements of the order

    def _known_size(self, name: str, axis: int, size: Any) -> None:
        if not isinstance(size, int):
            raise NotSupportedError(
                f"{name}: the size {spell_size(size)} of axis {axis} is symbolic",
                self._made(),
                "What it computes is another expression for each size: use sort(), whose axis may be symbolic.",
            )

    def _some(self, name: str, axis: int) -> Any:
        """The size of an axis that has elements now."""
        size = self.shape[axis] if self.shape else 1
        if not fits(1, size):
            raise ShapeError(
                f"{name}: no elements along axis {axis} of {spell_shape(self.shape)}",
                self._made(),
                "There is nothing to choose from.",
            )
        return size

    def _element(self, value: UOp, axis: int, place: Any, keepdim: bool) -> UOp:
        """One element along an axis, which goes, or stays with size 1."""
        if not self.shape:
            return value
        parts = [(place, 1) if i == axis else (0, size) for i, size in enumerate(value.shape)]
        found = value.shrink(parts)
        return found if keepdim else found.reshape((*value.shape[:axis], *value.shape[axis + 1 :]))

    def kthvalue(
        self, k: int, dim: int = -1, keepdim: bool = False, axis: int | None = None, keepdims: bool = False
    ) -> ValuesAndIndices[Self]:
        """The k-th smallest element along an axis, counted from 1, and its position; of equals, the earlier first."""
        dim, keepdim = dim if axis is None else axis, keeps(keepdim, keepdims)
        axis = self._axis("kthvalue", dim)
        size = self._some("kthvalue", axis)
        k = whole("kthvalue", "k", k, self._made())
        if k < 1 or not fits(k, size):
            count = spell_size(size)
            raise OutOfRangeError(
                f"kthvalue: there is no element {k} among {count}", self._made(), f"k goes from 1 to {count}."
            )
        values, places = self._ordered("kthvalue", axis, False, k)
        return self._both_of((self._element(values, axis, k - 1, keepdim), self._element(places, axis, k - 1, keepdim)))

    def median(
        self, dim: int | None = None, keepdim: bool = False, axis: int | None = None, keepdims: bool = False
    ) -> Any:
        """The middle element, or the lower of the two; NaN if there is one.

        Of all elements it is a tensor; along an axis a pair, the values and their positions.
        """
        dim, keepdim = dim if axis is None else axis, keeps(keepdim, keepdims)
        flat = self if dim is not None else self.reshape((self.numel(),))
        axis = flat._axis("median", 0 if dim is None else dim)
        size = flat._some("median", axis)
        values, places = flat._ordered("median", axis, False)
        middle, last = (flat._element(values, axis, i, keepdim) for i in ((size - 1) // 2, size - 1))
        where, where_last = (flat._element(places, axis, i, keepdim) for i in ((size - 1) // 2, size - 1))
        if self.dtype.is_float:
            is_nan = formulas.isnan(last)
            middle, where = is_nan.where(last, middle), is_nan.where(where_last, where)
        if dim is not None:
            return self._both_of((middle, where))
        return self._wrap(middle.reshape((1,) * self.ndim) if keepdim else middle)

    def quantile(
        self,
        q: Any,
        dim: int | None = None,
        keepdim: bool = False,
        axis: int | None = None,
        keepdims: bool = False,
        interpolation: str = "linear",
    ) -> Self:
        """Where a fraction q of the elements is below; NaN if there is one.

        q is a number, or several: then they are the first axis of the result. A tensor q is read. Between two
        elements: "linear", or one of them ("lower", "higher", "nearest"), or their mean ("midpoint").
        """
        check_interpolation("quantile", interpolation)
        dim, keepdim = dim if axis is None else axis, keeps(keepdim, keepdims)
        given = q.tolist() if isinstance(q, Sorting) else q
        several = isinstance(given, tuple | list)
        fractions = check_fractions("quantile", given if several else [given], given, self._made())
        flat = self if dim is not None else self.reshape((self.numel(),))
        axis = flat._axis("quantile", 0 if dim is None else dim)
        size = flat._some("quantile", axis)
        flat._known_size("quantile", axis, size)
        ordered = self._wrap(flat._ordered("quantile", axis, False)[0])._wide()
        places = [_place(fraction * (size - 1), interpolation) for fraction in fractions]
        found = [_between(flat, ordered, axis, place, keepdim) for place in places]
        if self.dtype.is_float:
            last = flat._element(ordered, axis, size - 1, keepdim)
            found = [formulas.isnan(last).where(last, x) for x in found]
        if keepdim and dim is None:
            found = [x.reshape((1,) * self.ndim) for x in found]
        return self._narrow(UOp.stack(*found) if several else found[0])

    def mode(
        self, dim: int = -1, keepdim: bool = False, axis: int | None = None, keepdims: bool = False
    ) -> ValuesAndIndices[Self]:
        """The most frequent element along an axis, of several the smallest, and the position of its first."""
        dim, keepdim = dim if axis is None else axis, keeps(keepdim, keepdims)
        axis = self._axis("mode", dim)
        size = self._some("mode", axis)
        if not self.shape:
            return ValuesAndIndices(self, self._wrap(const(dtypes.int32, 0)))
        values, places = self.sort(axis)
        alone = tuple(size if i == axis else 1 for i in range(self.ndim))
        count = UOp.arange(size, dtypes.int32).reshape(alone).expand(self.shape)
        begins = _begins(values.uop, axis).where(count, const(dtypes.int32, 0))
        length = count - begins.scan(ops.MAX, axis)
        last = self._wrap(length).argmax(axis, keepdim=True)
        first = last - self._wrap(length).gather(axis, last)
        found = values.gather(axis, first), places.gather(axis, first)
        return ValuesAndIndices(*(found if keepdim else (x.squeeze(axis) for x in found)))

    # ---- different elements

    def unique(
        self,
        return_inverse: bool = False,
        return_counts: bool = False,
        dim: int | None = None,
        *,
        return_index: bool = False,
        sorted_: bool = True,
        equal_nan: bool = True,
    ) -> Any:
        """The different elements of the whole tensor in order, or the different slices along an axis; all NaNs are one,
        unless `equal_nan` says otherwise.

        How many there are depends on the data, so this computes. With `return_index` also where each is first, with
        `return_inverse` for each element which of them it is, with `return_counts` how often each occurs; then a tuple.
        """
        if dim is not None:
            return self._unique_slices(self._axis("unique", dim, False), return_index, return_inverse, return_counts)
        if self.dtype.is_complex:
            return self._unique_pairs(return_index, return_inverse, return_counts)
        flat = self.reshape((self.numel(),))
        size = flat.numel()
        self._known_size("unique", 0, size)
        values, places = flat.sort(0)
        begins = self._wrap(_begins(values.uop, 0, equal_nan))
        number = begins.cast(dtypes.int32).cumsum(0)
        type(self).realize(values, places, begins, number)
        found = int(number[-1].item()) if size else 0
        rest = begins.uop.eq(False)
        results = [self._wrap(rest.sort(values.uop, 0, found))]
        if return_index:
            results.append(self._wrap(rest.sort(places.uop, 0, found)))
        if return_inverse:
            inverse = places.uop.sort((number - 1).uop, 0, size)
            results.append(self._wrap(inverse).reshape(self.shape))
        if return_counts:
            starts = self._wrap(rest.sort(UOp.arange(size, dtypes.int32), 0, found))
            ends = starts[1:].pad(((0, 1),), value=size) if found else starts
            results.append(ends - starts)
        return results[0] if len(results) == 1 else tuple(results)

    def _unique_pairs(self, with_index: bool, with_inverse: bool, with_counts: bool) -> Any:
        """The same of complex numbers, in the order of their real parts, then their imaginary ones."""
        pairs = self.flatten().view_as_real()  # type: ignore[attr-defined]
        found = pairs._unique_slices(0, with_index, with_inverse, with_counts)
        values, *others = found if isinstance(found, tuple) else (found,)
        if with_inverse:
            others[int(with_index)] = others[int(with_index)].reshape(self.shape)
        return (values.view_as_complex(), *others) if others else values.view_as_complex()

    def _unique_slices(self, axis: int, with_index: bool, with_inverse: bool, with_counts: bool) -> Any:
        """The same of slices, in the order of their first elements, then their second ones ..."""
        size = self.shape[axis]
        rows = self.moveaxis(axis, 0).reshape((size, self.numel() // size if size else 0))
        order = self.arange(size, dtype=dtypes.int32, device=self._in_memory())
        for column in reversed(range(rows.shape[1])):
            order = order.take(rows[:, column].take(order).argsort(0))
        sorted_rows = rows.take(order, 0)
        before = sorted_rows.uop.shrink([(0, max(size - 1, 0)), (0, rows.shape[1])]).pad([(min(size, 1), 0), (0, 0)])
        differs = sorted_rows.uop.ne(before).reduce(ops.OR, (1,)) | UOp.arange(size, dtypes.int32).eq(0)
        begins = self._wrap(differs)
        starts = begins.nonzero().flatten()
        first = order.take(starts)
        results = [self.take(first, axis)]
        if with_index:
            results.append(first)
        if with_inverse:
            number = begins.cast(dtypes.int32).cumsum(0) - 1
            results.append(self._wrap(order.uop.sort(number.uop, 0, size)))
        if with_counts:
            results.append(starts[1:].pad(((0, 1),), value=size) - starts if starts.shape[0] else starts)
        return results[0] if len(results) == 1 else tuple(results)


INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def check_fractions(name: str, values: Sequence[Any], given: Any, made: str) -> list[float]:
    """Numbers from 0 to 1."""
    for value in values:
        check_number(name, "q", value, made)
    fractions = [float(value) for value in values]
    if not fractions or any(not 0 <= f <= 1 for f in fractions):
        raise ArgumentError(f"{name}: q is {given}", made, "Fractions go from 0 to 1.")
    return fractions


def check_interpolation(name: str, interpolation: str) -> None:
    """It is one of those that there are."""
    if interpolation not in INTERPOLATIONS:
        raise ArgumentError(
            f"{name}: there is no interpolation {interpolation!r}", fix=f"Use one of {', '.join(INTERPOLATIONS)}."
        )


def _place(exact: float, interpolation: str) -> float:
    """Where to read what lies between two positions."""
    if interpolation == "linear":
        return exact
    if interpolation == "midpoint":
        return (floor(exact) + ceil(exact)) / 2
    if interpolation == "nearest":
        return round(exact)
    return floor(exact) if interpolation == "lower" else ceil(exact)


def _as_long_as_can_be(x: UOp, axis: int, descending: bool) -> UOp:
    """Every axis of symbolic size as long as it can be; along `axis` with what comes last. It is equal to the last of
    all values, and stands behind it: sorting is stable."""
    shape = x.shape
    padded = x.pad([(0, 0 if isinstance(length, int) else (reach(length)[1] or 0) - length) for length in shape])
    if isinstance(shape[axis], int):
        return padded
    alone = tuple(padded.shape[axis] if i == axis else 1 for i in range(len(shape)))
    is_inside: UOp = UOp.arange(padded.shape[axis]).reshape(alone).expand(padded.shape) < shape[axis]
    return is_inside.where(padded, _last(x.dtype, descending))


def _last(dtype: DType, descending: bool) -> UOp:
    """What comes last in order."""
    if dtype.is_bool:
        return const(dtype, not descending)
    if dtype.is_float:
        return const(dtype, -inf if descending else nan)
    return const(dtype, dtype.min if descending else dtype.max)


def _shown(x: UOp, shape: tuple[Any, ...], axis: int, count: int | None) -> UOp:
    """The part of a sorted tensor that belongs to a shape: along `axis` all that is there, or as many as asked for."""
    first = [(0, size if count is None or i != axis else count) for i, size in enumerate(shape)]
    if count is None or isinstance(shape[axis], int):
        return x.shrink(first)
    left_out = (reach(shape[axis])[1] or 0) - x.shape[axis]
    if left_out:  # by way of all elements, so that there are `count` of them is taken for granted
        x = x.pad([(0, left_out if i == axis else 0) for i in range(len(shape))])
    return x.shrink([(0, size) for size in shape]).shrink(first)


def _between(tensor: Sorting, ordered: UOp, axis: int, place: float, keepdim: bool) -> UOp:
    """The element at a place between two positions."""
    low = tensor._element(ordered, axis, floor(place), keepdim)
    if place == floor(place):
        return low
    high = tensor._element(ordered, axis, ceil(place), keepdim)
    return low + (high - low) * (place - floor(place))


def _begins(ordered: UOp, axis: int, equal_nan: bool = True) -> UOp:
    """Whether an element in order differs from the one before it; the first does."""
    size = ordered.shape[axis]
    if size == 0:
        return ordered.cast(dtypes.bool)
    inner = [(0, size - 1) if i == axis else (0, n) for i, n in enumerate(ordered.shape)]
    outer = [(1, 0) if i == axis else (0, 0) for i in range(len(ordered.shape))]
    before = ordered.shrink(inner).pad(outer)
    differs = ordered.ne(before)
    if ordered.dtype.is_float and equal_nan:
        differs = differs & ~(formulas.isnan(ordered) & formulas.isnan(before))
    alone = tuple(size if i == axis else 1 for i in range(len(ordered.shape)))
    is_first = UOp.arange(size, dtypes.int32).reshape(alone).expand(ordered.shape).eq(0)
    return differs | is_first
