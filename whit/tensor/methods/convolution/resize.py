"""Other sizes of the last axes by interpolation: nearest, linear, cubic, one axis after the other.

Position i of the result lies at (a*i + b) / d of the source, with integers a, b and d, so that neighbours are found
exactly and weights are rounded once:

    pixels are areas     ((2i + 1) * in - out) / (2 * out)
    align_corners        i * (in - 1) / (out - 1)
    scale_factor         in / out replaced by the inverse of the factor
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor
from typing import Any, Self

from whit.dtype import dtypes, least_upper_float
from whit.errors import ArgumentError, ShapeError
from whit.ir.op import spell_shape
from whit.ir.uop import UOp
from whit.records import dataclass
from whit.tensor.core import check_number, whole
from whit.tensor.graphs.convolution.sliding import taken
from whit.tensor.methods.reduction.reduce import sum_dtype
from whit.tensor.told import told
from whit.tensor.topic import Topic

_MODES = {
    "nearest": "nearest",
    "nearest-exact": "nearest-exact",
    "linear": "linear",
    "bilinear": "linear",
    "trilinear": "linear",
    "cubic": "cubic",
    "bicubic": "cubic",
}
_A = -0.75  # of the cubic kernel, as in PyTorch and OpenCV
_MOST = 10**6  # the largest denominator of a scale


@dataclass(frozen=True, slots=True)
class Line:
    """Where the positions of a result lie in its source: (slope * i + offset) / unit."""

    slope: int
    offset: int
    unit: int

    def at(self, count: int) -> UOp:
        """The numerators of the first positions."""
        return UOp.arange(count) * self.slope + self.offset


def _ratio(value: float) -> tuple[int, int]:
    """A quotient of small integers as close to a float as they come: its continued fraction, cut off."""
    above, below = value.as_integer_ratio()
    (a, b), (c, d) = (0, 1), (1, 0)
    while below and (above // below) * d + b <= _MOST:
        whole, rest = divmod(above, below)
        (a, b), (c, d) = (c, d), (whole * c + a, whole * d + b)
        above, below = below, rest
    return c, d


def _line(mode: str, source: int, count: int, scale: float | None, align_corners: bool) -> Line:
    if align_corners:
        return Line(source - 1, 0, count - 1) if count > 1 else Line(0, 0, 1)
    step, unit = (source, count) if scale is None else _ratio(1 / scale)
    if mode == "nearest":
        return Line(step, 0, unit)
    if mode == "nearest-exact":  # (i + 1/2) * step / unit
        return Line(2 * step, step, 2 * unit)
    return Line(2 * step, step - unit, 2 * unit)


class Resizing(Topic):
    """`interpolate`."""

    __slots__ = ()

    def interpolate(
        self,
        size: int | Sequence[int] | None = None,
        mode: str | None = None,
        align_corners: bool = False,
        scale_factor: float | Sequence[float] | None = None,
    ) -> Self:
        """The last axes in another size, or in their size times a factor.

        Modes: "nearest", "nearest-exact", "linear" (also spelled "bilinear", "trilinear"), "cubic" ("bicubic").
        """
        if mode is not None and mode not in _MODES:
            raise ArgumentError(
                f"interpolate: there is no mode {mode!r}", self._made(), f"Use one of {', '.join(_MODES)}."
            )
        counts, scales = self._new_sizes(size, scale_factor)
        if mode is None:
            raise ArgumentError(
                "interpolate: no mode is given",
                self._made(),
                'Give one: it is mode="nearest" in PyTorch and mode="linear" in tinygrad if it is left out.',
            )
        kind = _MODES[mode]
        if align_corners and kind.startswith("nearest"):
            raise ArgumentError(f"interpolate: align_corners with mode {mode!r}", self._made(), "Leave it out.")
        lead = self.ndim - len(counts)
        keeps = kind.startswith("nearest")
        x = self.uop if keeps else self.uop.cast(sum_dtype(least_upper_float(self.dtype)))
        for axis, (count, scale) in enumerate(zip(counts, scales, strict=True), lead):
            source = x.shape[axis]
            if count == source and scale is None:
                continue
            if not source:
                raise ShapeError(
                    f"interpolate: axis {axis} of {spell_shape(self.shape)} has no elements", self._made(), "Pad it."
                )
            x = _resized(x, axis, count, kind, _line(kind, source, count, scale, align_corners))
        if self.dtype is dtypes.uint8 and not keeps:  # images: their own dtype, as in PyTorch
            return self._wrap(x.round().maximum(0.0).minimum(255.0).cast(dtypes.uint8))
        result = self._wrap(x if keeps else x.cast(least_upper_float(self.dtype)))
        return told("interpolate", result, self, mode=mode, align_corners=align_corners, scales=scales)

    def _new_sizes(self, size: Any, scale_factor: Any) -> tuple[list[int], list[float | None]]:
        if (size is None) == (scale_factor is None):
            raise ArgumentError("interpolate: give either size or scale_factor", self._made(), "One of them.")
        given = size if scale_factor is None else scale_factor
        values = list(given) if isinstance(given, tuple | list) else [given] * max(self.ndim - 2, 1)
        what = "size" if scale_factor is None else "scale_factor"
        for value in values:
            check_number("interpolate", what, value, self._made())
            if scale_factor is None:
                whole("interpolate", what, value, self._made())
        if not 0 < len(values) <= self.ndim or any(value <= 0 for value in values):
            raise ShapeError(
                f"interpolate: {given!r} for the axes of {spell_shape(self.shape)}",
                self._made(),
                "Give a number above 0 for each of the last axes.",
            )
        if scale_factor is None:
            return [int(value) for value in values], [None] * len(values)
        space = self.shape[self.ndim - len(values) :]
        counts = [floor(n * factor) for n, factor in zip(space, values, strict=True)]
        if not all(counts):
            raise ShapeError(
                f"interpolate: nothing is left of {spell_shape(space)} times {given!r}", self._made(), "Use more."
            )
        return counts, [float(value) for value in values]


def _resized(x: UOp, axis: int, count: int, kind: str, line: Line) -> UOp:
    """One axis in another size."""
    last = x.shape[axis] - 1
    if kind.startswith("nearest"):
        return taken(x, axis, (line.at(count) // line.unit).maximum(0).minimum(last))
    place = line.at(count)
    if kind == "linear":
        place = place.maximum(0)
    low = place // line.unit
    alone = tuple(count if i == axis else 1 for i in range(len(x.shape)))
    shape = tuple(count if i == axis else size for i, size in enumerate(x.shape))
    part = ((place % line.unit).cast(x.dtype) * (1 / line.unit)).reshape(alone).expand(shape)

    def tap(distance: int) -> UOp:
        return taken(x, axis, (low + distance).maximum(0).minimum(last))

    if kind == "linear":
        return tap(0) * (1.0 - part) + tap(1) * part
    weights = (_far(part + 1.0), _near(part), _near(1.0 - part), _far(2.0 - part))
    first, *rest = (tap(distance) * weight for distance, weight in zip(range(-1, 3), weights, strict=True))
    for term in rest:
        first = first + term
    return first


def _near(t: UOp) -> UOp:
    """Keys' kernel up to 1 away."""
    return ((t * (_A + 2.0) - (_A + 3.0)) * t * t) + 1.0


def _far(t: UOp) -> UOp:
    """Keys' kernel from 1 to 2 away."""
    return ((t * _A - 5.0 * _A) * t + 8.0 * _A) * t - 4.0 * _A
