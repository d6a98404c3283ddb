"""Reductions of those elements that are not NaN."""

from __future__ import annotations

import math
from typing import Any, Self

from whit.dtype import DTypeLike, dtypes
from whit.ir.uop import UOp
from whit.tensor.core import either, keeps
from whit.tensor.methods.indexing.sort import check_fractions, check_interpolation
from whit.tensor.methods.reduction.running import Running
from whit.tensor.results import ValuesAndIndices


class IgnoringNaN(Running):
    """Integers and bools have none: of them, these are the methods without "nan"."""

    __slots__ = ()

    def nansum(
        self,
        axis: Any = None,
        keepdim: bool = False,
        dtype: DTypeLike | None = None,
        dim: Any = None,
        keepdims: bool = False,
    ) -> Self:
        """The sum of those that are not NaN."""
        return self._without_nan().sum(either("nansum", axis, dim), keeps(keepdim, keepdims), dtype)

    def nanmean(self, axis: Any = None, keepdim: bool = False, dim: Any = None, keepdims: bool = False) -> Self:
        """The mean of those that are not NaN; NaN if there are none."""
        axis = either("nanmean", axis, dim)
        count = self.isnan().logical_not().sum(axis, keeps(keepdim, keepdims))
        total = self._wrap(self._without_nan()._wide()).sum(axis, keeps(keepdim, keepdims))
        return self._narrow((total / count).uop)

    def _without_nan(self) -> Self:
        return self._with_for_nan(0.0)

    def _with_for_nan(self, value: float) -> Self:
        """Another number where it is NaN."""
        if not self.dtype.is_continuous:
            return self
        return self._wrap(self.isnan().uop.where(self.uop.constant(value), self.uop))

    def nanprod(self, axis: Any = None, keepdim: bool = False, dtype: DTypeLike | None = None) -> Self:
        """The product of those that are not NaN."""
        return self._with_for_nan(1.0).prod(axis, keepdim, dtype)

    def nancumsum(self, axis: int | None = None) -> Self:
        """At each position the sum up to it of those that are not NaN."""
        return self._without_nan().cumsum(axis)

    def nancumprod(self, axis: int | None = None) -> Self:
        """At each position the product up to it of those that are not NaN."""
        return self._with_for_nan(1.0).cumprod(axis)

    def _only_nan(self, axis: Any, keepdim: bool) -> Self:
        return self.isnan().all(axis, keepdim)

    def nanmax(self, axis: Any = None, keepdim: bool = False) -> Self:
        """The largest of those that are not NaN; NaN if there are none."""
        found = self._with_for_nan(-math.inf).max(axis, keepdim)
        return self._only_nan(axis, keepdim).where(math.nan, found) if self.dtype.is_float else found

    def nanmin(self, axis: Any = None, keepdim: bool = False) -> Self:
        """The smallest of those that are not NaN; NaN if there are none."""
        found = self._with_for_nan(math.inf).min(axis, keepdim)
        return self._only_nan(axis, keepdim).where(math.nan, found) if self.dtype.is_float else found

    def nanargmax(self, axis: int | None = None, keepdim: bool = False) -> Self:
        """The position of the first largest element of those that are not NaN; 0 if there are none."""
        return self._with_for_nan(-math.inf).argmax(axis, keepdim)

    def nanargmin(self, axis: int | None = None, keepdim: bool = False) -> Self:
        """The position of the first smallest element of those that are not NaN; 0 if there are none."""
        return self._with_for_nan(math.inf).argmin(axis, keepdim)

    def nanvar(self, axis: Any = None, keepdim: bool = False, correction: int = 0) -> Self:
        """The variance of those that are not NaN, divided by their number less the correction (NumPy)."""
        if not self.dtype.is_float:
            return self.var(axis, keepdim, correction)
        x = self._wrap(self._wide())
        there = x.isnan().logical_not()
        count = there.sum(axis, True)
        mean = x._without_nan().sum(axis, True) / count
        away = there.where(x - mean, 0.0)
        left = (count - correction).sum(axis, keepdim) if not keepdim else count - correction
        total = (away * away).sum(axis, keepdim)
        return self._narrow(left.gt(0).where(total / left, math.nan).uop)

    def nanstd(self, axis: Any = None, keepdim: bool = False, correction: int = 0) -> Self:
        """The square root of `nanvar` (NumPy)."""
        return self.nanvar(axis, keepdim, correction).sqrt()

    # ---- by order

    def nanmedian(self, dim: int | None = None, keepdim: bool = False) -> Any:
        """The middle of those that are not NaN, or the lower of the two; NaN if there are none.

        Of all elements it is a tensor; along an axis a pair, the values and their positions.
        """
        ordered, axis = self._row("nanmedian", dim)
        values, places = ordered.sort(axis)
        middle = ordered._last_number(axis).div(2, rounding_mode="floor")
        found = [self._reduced_row(x.gather(axis, middle), axis, dim, keepdim) for x in (values, places)]
        return found[0] if dim is None else ValuesAndIndices(*found)

    def _row(self, name: str, dim: int | None) -> tuple[Self, int]:
        """This tensor with an axis to go along, and that axis; without one, all elements in a row."""
        flat = self if dim is not None and self.shape else self.reshape((self.numel(),))
        axis = self._axis(name, dim) if dim is not None else 0
        flat._not_empty(name, (axis,))
        return flat, axis

    def _last_number(self, axis: int) -> Self:
        """The place of the last number along an axis in order; 0 if there is none."""
        return (self.isnan().logical_not().sum(axis, True) - 1).clamp(0)

    def _reduced_row(self, x: Self, axis: int, dim: int | None, keepdim: bool) -> Self:
        """What is left of such an axis, in the shape of a reduction."""
        if dim is None or not self.shape:
            return x.reshape((1,) * self.ndim if keepdim else ())
        return x if keepdim else x.squeeze(axis)

    def nanquantile(self, q: Any, dim: int | None = None, keepdim: bool = False, interpolation: str = "linear") -> Self:
        """`quantile` of those that are not NaN; NaN if there are none."""
        check_interpolation("nanquantile", interpolation)
        given = q.tolist() if isinstance(q, IgnoringNaN) else q
        several = isinstance(given, tuple | list)
        fractions = check_fractions("nanquantile", given if several else [given], given, self._made())
        row, axis = self._row("nanquantile", dim)
        ordered = row._wrap(row.sort(axis)[0]._wide())
        last = row._last_number(axis)
        found = [ordered._between_places(axis, last, fraction, interpolation) for fraction in fractions]
        nodes = [self._reduced_row(x, axis, dim, keepdim).uop for x in found]
        return self._narrow(UOp.stack(*nodes) if several else nodes[0])

    def _between_places(self, axis: int, last: Self, fraction: float, interpolation: str) -> Self:
        """The element at a fraction of the way to the last position of each row, this being in order."""
        exact = last.cast(dtypes.float64) * fraction
        if interpolation == "nearest":
            exact = exact.round()
        low, high = exact.floor().cast(dtypes.int64), exact.ceil().cast(dtypes.int64)
        below, above = self.gather(axis, low), self.gather(axis, high)
        if interpolation == "lower":
            return below
        if interpolation == "higher":
            return above
        share = (exact - low).cast(self.dtype) if interpolation != "midpoint" else 0.5
        return below + (above - below) * share

    def percentile(
        self,
        q: Any,
        axis: int | None = None,
        keepdim: bool = False,
        method: str = "linear",
    ) -> Self:
        """`quantile` of q / 100 (NumPy)."""
        return self.quantile(_hundredths(q), axis, keepdim, interpolation=method)

    def nanpercentile(
        self,
        q: Any,
        axis: int | None = None,
        keepdim: bool = False,
        method: str = "linear",
    ) -> Self:
        """`nanquantile` of q / 100 (NumPy)."""
        return self.nanquantile(_hundredths(q), axis, keepdim, method)


def _hundredths(q: Any) -> Any:
    given = q.tolist() if hasattr(q, "tolist") else q
    return [each / 100 for each in given] if isinstance(given, list | tuple) else given / 100
