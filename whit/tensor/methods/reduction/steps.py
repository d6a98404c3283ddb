"""Differences of neighbours, areas below them, ranges, means by weights: what is read off elements in their order."""

from __future__ import annotations

from typing import Any, Self

from whit.dtype import least_upper_float
from whit.errors import ArgumentError, ShapeError
from whit.ir.op import spell_shape
from whit.tensor.core import whole
from whit.tensor.results import SmallestAndLargest
from whit.tensor.topic import Topic


class Steps(Topic):
    """Along an axis."""

    __slots__ = ()

    # ---- differences and areas

    def diff(self, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Self:
        """The differences of neighbours along an axis, n times; prepend and append are put at its ends before."""
        if whole("diff", "n", n, self._made()) < 0:
            raise ArgumentError(f"diff: {n} times", self._made(), "n is 0 or more.")
        axis = self._axis("diff", dim, scalars=False)
        ends = [None if part is None else self._end("diff", part, axis) for part in (prepend, append)]
        parts = [part for part in (ends[0], self, ends[1]) if part is not None]
        x: Self = parts[0].cat(*parts[1:], dim=axis) if len(parts) > 1 else self
        for _ in range(min(n, x.shape[axis])):
            size = x.shape[axis]
            later = x.shrink([(1, size) if i == axis else None for i in range(x.ndim)])
            earlier = x.shrink([(0, size - 1) if i == axis else None for i in range(x.ndim)])
            x = self._wrap((later.uop ^ earlier.uop) if x.dtype.is_bool else (later.uop - earlier.uop))
        return x

    def _end(self, name: str, part: Any, axis: int) -> Self:
        """What is put before or after an axis; one number is repeated beside it."""
        given = (
            type(self)(part, dtype=self.dtype) if isinstance(part, int | float | complex) else self._operand(name, part)
        )
        if given.ndim:
            return given
        return given.expand((*self.shape[:axis], 1, *self.shape[axis + 1 :]))

    def ediff1d(self) -> Self:
        """The differences of neighbours in the flattened tensor (NumPy)."""
        return self.flatten().diff()

    def _areas(self, name: str, x: Any, dx: Any, dim: int) -> tuple[Self, int]:
        """The area between each two neighbours, and the axis."""
        axis = self._axis(name, dim, scalars=False)
        size = self.shape[axis]
        y = self if self.dtype.is_float else self.cast(least_upper_float(self.dtype))
        if not size:
            return y, axis
        later = y.shrink([(1, size) if i == axis else None for i in range(y.ndim)])
        earlier = y.shrink([(0, size - 1) if i == axis else None for i in range(y.ndim)])
        middle = (later + earlier) * 0.5
        if x is None:
            return middle * dx, axis
        places = self._operand(name, x)
        if places.ndim == 1:
            places = places.reshape((places.shape[0], *(1,) * (self.ndim - 1 - axis)))
        return middle * places.diff(dim=axis - self.ndim), axis

    def trapezoid(self, x: Any = None, dx: Any = 1.0, dim: int = -1) -> Self:
        """The area below the elements of an axis, at places x, or dx apart: that of trapezia between neighbours."""
        areas, axis = self._areas("trapezoid", x, dx, dim)
        return areas.sum(axis)

    def cumulative_trapezoid(self, x: Any = None, dx: Any = 1.0, dim: int = -1) -> Self:
        """The area up to each element but the first."""
        areas, axis = self._areas("cumulative_trapezoid", x, dx, dim)
        return areas.cumsum(axis)

    # ---- ranges and means

    def aminmax(self, *, dim: int | None = None, keepdim: bool = False) -> SmallestAndLargest[Self]:
        """The smallest and the largest along an axis, or of all; NaN if there is one."""
        return SmallestAndLargest(self.min(dim, keepdim), self.max(dim, keepdim))

    def ptp(self, axis: Any = None, keepdim: bool = False) -> Self:
        """The largest less the smallest (NumPy)."""
        return self.max(axis, keepdim) - self.min(axis, keepdim)

    def average(self, axis: Any = None, weights: Any = None, returned: bool = False, keepdim: bool = False) -> Any:
        """The mean by weights; with `returned` also the sums of the weights (NumPy)."""
        factors = self.full(self.shape, 1.0, least_upper_float(self.dtype), self._in_memory())
        if weights is not None:
            given = self._operand("average", weights)
            if given.shape != self.shape:
                axes = self._axes("average", axis)
                if axis is None or given.shape != tuple(self.shape[i] for i in axes):
                    raise ShapeError(
                        f"average: weights {spell_shape(given.shape)} for {spell_shape(self.shape)}",
                        given._made(),
                        "Give one for each element, or one for each position of the axes.",
                    )
                given = given.reshape(tuple(size if i in axes else 1 for i, size in enumerate(self.shape)))
            factors = given.expand(self.shape)
        total = factors.sum(axis, keepdim)
        result = (self * factors).sum(axis, keepdim) / total
        return (result, total.cast(result.dtype).expand(result.shape)) if returned else result

    # ---- along a line

    def interp(self, xp: Any, fp: Any, left: Any = None, right: Any = None) -> Self:
        """The value at each element of straight lines between points (xp, fp), xp growing; beyond the ends the values
        there, or `left` and `right` (NumPy)."""
        places, values = self._operand("interp", xp), self._operand("interp", fp)
        if places.ndim != 1 or places.shape != values.shape or not places.shape[0]:
            raise ShapeError(
                f"interp: points at {spell_shape(places.shape)} with values {spell_shape(values.shape)}",
                places._made(),
                "Give two rows of one length.",
            )
        count = places.shape[0]
        dtype = least_upper_float(self._together("interp", (places, values))[0].dtype)
        x, places, values = (t.cast(dtype) for t in (self, places, values))
        above = places.searchsorted(x, right=True).clamp(1, max(count - 1, 1)) if count > 1 else None
        first, last = values[0], values[count - 1]
        if above is None:
            inside: Self = first.expand(x.shape)
        else:
            x0, x1, y0, y1 = (
                t.take(at) for t, at in ((places, above - 1), (places, above), (values, above - 1), (values, above))
            )
            inside = y0 + (y1 - y0) * ((x - x0) / (x1 - x0))
        found = x.lt(places[0]).where(first if left is None else left, inside)
        found = x.gt(places[count - 1]).where(last if right is None else right, found)
        found = x.eq(places[count - 1]).where(last, found)
        return x.isnan().where(x, found).cast(dtype)

    def convolve(self, v: Any, mode: str = "full") -> Self:
        """The convolution of two rows: all sums of products, those of the longer one's length ("same"), or those where
        they overlap wholly ("valid") (NumPy)."""
        return self._slid("convolve", self._operand("convolve", v).flip(0), mode)

    def correlate(self, v: Any, mode: str = "valid") -> Self:
        """The sums of products of a row and another one that is moved along it (NumPy)."""
        other = self._operand("correlate", v)
        if other.numel() > self.numel() and self.ndim == other.ndim == 1:
            return other._slid("correlate", self, mode).flip(0)
        return self._slid("correlate", other, mode)

    def _slid(self, name: str, other: Self, mode: str) -> Self:
        """The sums of products of a row and another one at every place."""
        if self.ndim != 1 or other.ndim != 1 or not self.numel() or not other.numel():
            raise ShapeError(
                f"{name}: shapes {spell_shape(self.shape)} and {spell_shape(other.shape)}",
                f"left {self._made()}, right {other._made()}",
                "Use two rows of 1 or more.",
            )
        if mode not in ("full", "same", "valid"):
            raise ArgumentError(f"{name}: there is no mode {mode!r}", self._made(), 'Use "full", "same" or "valid".')
        a, b = self._together(name, (other,))
        if a.numel() < b.numel():
            a, b = b.flip(0), a.flip(0)
        m = b.numel()
        before = {"full": m - 1, "same": m // 2, "valid": 0}[mode]
        after = {"full": m - 1, "same": m - 1 - m // 2, "valid": 0}[mode]
        windows = a.pad(((before, after),)).unfold(0, m, 1)
        result = windows @ b if not a.dtype.is_bool else (windows * b).any(1)
        return result.cast(a.dtype)
