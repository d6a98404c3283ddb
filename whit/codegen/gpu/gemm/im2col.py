"""Operands of matrix products that are windows of images: convolutions as implicit GEMM, and their gradients.

    index p1, n*3136*c + (h + i)*56*c + (w + j)*c + k - 57*c,  where -1 < h + i - 1 < 56, -1 < w + j - 1 < 56

    ->  images   3136*c apart
        axis     56 lines,  56*c apart, 3 taps, 1 before         rows   n, h, w
        axis     56 pixels, c apart,    3 taps, 1 before         depth  i, j, k

One side of the operand counts windows (ranges n, h, w), the other their elements: taps (i, j), and channels (k), which
are neighbours in memory; there are a multiple of 64, so that 64 of them are of one tap. A tap moves along the axis of a
range of the windows; what is under a condition there is outside of the image, and 0. The copy engine counts all of that
by itself (TMA's im2col). Either side may be the depth: of a convolution the window, of the gradient of its weight the
image.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, gcd, prod

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.args import AxisArg, MatrixArg
from whit.ir.graph import joined
from whit.ir.uop import UOp, as_index
from whit.kernel.contraction import Contraction
from whit.kernel.ranges import size_of, sizes_of
from whit.simplify.sums import linear_form
from whit.target import GPU_LIMITS

PIECE = 64  # channels that are copied together; windows along a depth that are
MOST_STEP = GPU_LIMITS.window_step
CORNERS = dict(enumerate(GPU_LIMITS.window_corners, 1))  # how far a window may be outside, by the number of axes
ALIGNED = 8  # halves: 16 bytes
Strides = dict[UOp, int]


@dataclass(slots=True)
class _Axis:
    """An axis while its taps and conditions are collected. Positions along it: window * step + tap * gap, in units."""

    window: UOp
    tap: UOp | None
    unit: int  # elements
    step: int
    gap: int
    low: int  # the first and last position that is inside
    high: int

    def size(self, r: UOp | None) -> int:
        return 1 if r is None else size_of(r)

    def keep(self, part: UOp) -> bool:
        """Keeps to a condition, if it is one on positions along this axis."""
        if part.op is not ops.LT or part.src[1].op is not ops.CONST:
            return False
        terms, offset = linear_form(part.src[0])
        factor = Fraction(terms.get(self.window, 0), self.step)
        expected = {self.window: factor * self.step} | ({} if self.tap is None else {self.tap: factor * self.gap})
        if not factor or terms != expected:
            return False
        limit = (part.src[1].arg - offset) / factor
        if factor > 0:
            self.high = min(self.high, ceil(limit) - 1)
        else:
            self.low = max(self.low, floor(limit) + 1)
        return True

    def argument(self) -> AxisArg:
        size = self.high - self.low + 1
        return AxisArg(size, self.unit, self.size(self.window), self.step, self.size(self.tap), self.gap, self.low)


def find_window(found: Contraction, value: UOp, rows: list[UOp]) -> tuple[UOp, MatrixArg, UOp] | None:
    """The memory of an operand that is windows of images, how they lie there, and which image is the first."""
    load, parts = _load_under(value)
    if load is None:
        return None
    memory, position = load.src[:2]
    terms, start = linear_form(position)
    if not _goes_along(terms, {*rows, *found.along}, found.batch):
        return None
    is_row_window = terms[found.along[-1]] != 1  # the other side counts windows
    windows, inside = (found.along, rows) if is_row_window else (rows, found.along)
    *taps, channel = inside
    if terms[channel] != 1 or size_of(channel) % PIECE:
        return None
    axes = _bounded_axes(windows, taps, terms, parts)
    batch = {r: terms[r] for r in found.batch if r in terms}
    images = _images(axes, batch) if axes else None
    if images is None:
        return None
    start += sum(axis.low * axis.unit for axis in axes)
    arguments = (images, *map(_Axis.argument, axes))
    if not _fits(start, arguments) or (is_row_window and batch and prod(sizes_of(windows)) % PIECE):
        return None
    return memory, _matrix(start, arguments, size_of(channel), is_row_window), _first_image(batch, images)


def _goes_along(terms: Strides, ranges: set[UOp], batch: list[UOp]) -> bool:
    """Whether a position goes forward along each of these ranges, and along nothing else but a batch."""
    return set(terms) - set(batch) == ranges and min(terms.values()) > 0


def _matrix(start: int, axes: tuple[AxisArg, ...], channels: int, is_row_window: bool) -> MatrixArg:
    """A matrix whose rows, or depth, are channels; the other side goes along the innermost axis."""
    row, depth = (1, axes[-1].stride) if is_row_window else (axes[-1].stride, 1)
    return MatrixArg(start, row, depth, copied=16, axes=axes, channels=channels)


def _first_image(batch: Strides, images: AxisArg) -> UOp:
    """The first image of a batch."""
    first = as_index(0)
    for r, step in batch.items():
        first = first + r * (step // images.stride)
    return first


def _load_under(value: UOp) -> tuple[UOp | None, list[UOp]]:
    """The element of memory that an operand is where all conditions hold, and 0 elsewhere; the conditions."""
    parts: dict[UOp, None] = {}
    while value.op in (ops.CAST, ops.WHERE):
        if value.op is ops.WHERE:
            condition, yes, no = value.src
            if no.op is not ops.CONST or no.arg != 0:
                return None, []
            parts.update(dict.fromkeys(joined(condition, ops.AND)))
            value = yes
        elif value.dtype is not dtypes.float32:
            return None, []
        else:
            value = value.src[0]
    if value.op is not ops.INDEX or value.dtype not in dtypes.float16s or value.src[0].op is not ops.PARAM:
        return None, []
    parts.update(dict.fromkeys(joined(value.src[2], ops.AND) if value.arg else ()))
    return value, [part for part in parts if part.op is not ops.CONST or not part.arg]


def _bounded_axes(windows: list[UOp], taps: list[UOp], terms: Strides, parts: list[UOp]) -> list[_Axis]:
    """The axes of windows, as long as conditions say; none if a condition is not one of positions along an axis."""
    axes = _axes(windows, taps, terms, parts) or []
    return axes if all(any(axis.keep(part) for axis in axes) for part in parts) else []


def _axes(windows: list[UOp], taps: list[UOp], terms: Strides, parts: list[UOp]) -> list[_Axis] | None:
    """The axes of windows, each with its tap; without the images, if these are windows by themselves."""
    together: dict[UOp, UOp] = {}  # tap -> window
    for tap in taps:
        named = [r for part in parts if tap in part.topological() for r in windows if r in part.topological()]
        near = sorted(windows, key=lambda r: max(Fraction(terms[r], terms[tap]), Fraction(terms[tap], terms[r])))
        together[tap] = (named or near)[0]
    order = [windows.index(window) for window in together.values()]
    if order != sorted(set(order)):
        return None
    tap_of = {window: tap for tap, window in together.items()}
    axes = []
    for window in windows:
        tap_or_none = tap_of.get(window)
        unit = gcd(terms[window], terms[tap_or_none]) if tap_or_none is not None else terms[window]
        step, gap = terms[window] // unit, terms[tap_or_none] // unit if tap_or_none is not None else 1
        reach = (size_of(window) - 1) * step + (0 if tap_or_none is None else (size_of(tap_or_none) - 1) * gap)
        axes.append(_Axis(window, tap_or_none, unit, step, gap, 0, reach))
    return axes


def _images(axes: list[_Axis], batch: Strides) -> AxisArg | None:
    """The outermost axis, which is taken from the others if it has no windows; and on which a batch lies."""
    first = axes[0]
    is_image = len(axes) > 1 and first.tap is None and (first.low, first.high) == (0, size_of(first.window) - 1)
    if is_image:
        del axes[0]
    stride = first.unit if is_image else gcd(*batch.values()) if batch else first.unit * (first.high + 1)
    if any(step % stride for step in batch.values()):
        return None
    count = size_of(first.window) if is_image else 1
    return AxisArg(count + sum((size_of(r) - 1) * (step // stride) for r, step in batch.items()), stride, count)


def _fits(start: int, axes: tuple[AxisArg, ...]) -> bool:
    """Whether the copy engine can do it."""
    if not 1 <= len(axes) - 1 <= len(CORNERS):
        return False
    if start < 0 or start % ALIGNED or any(axis.stride % ALIGNED or axis.size < 1 for axis in axes):
        return False
    most = CORNERS[len(axes) - 1]
    for axis in axes[1:]:
        last = (axis.count - 1) * axis.step - axis.before - (axis.size - 1)
        if axis.step > MOST_STEP or axis.before > most or not -most <= last < most:
            return False
        if (axis.taps - 1) * axis.gap >= 2 * most:
            return False
    return True
