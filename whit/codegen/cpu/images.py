"""Windows that slide over an image: all of them read one copy of what they see.

    a[i, j] = x[i*2 + j]        i: a range of the rows, j: a range of k

A panel with a row for each i would hold the elements of x again and again. Instead the panel is the part of x that the
rows of a block and a block of k see, with zeros where the operand has none, and the register tile reads its elements at
i*2 + j. An `Axis` is a dimension of that panel: of a pair of ranges such as i and j, or of a range alone. To fill it,
the operand is asked at some i and j that meet at the place: it must not depend on which.
"""

from __future__ import annotations

from math import prod

from whit.dtype import dtypes
from whit.ir.graph import topological
from whit.ir.uop import UOp, as_index
from whit.kernel.contraction import Contraction
from whit.kernel.ranges import free_ranges, size_of, sizes_of, stride
from whit.records import dataclass


@dataclass(frozen=True, slots=True)
class Axis:
    """A dimension of the image, by the ranges that move along it."""

    row: UOp | None  # moves by `step`
    window: UOp | None  # moves by 1
    step: int
    rows: int  # how far the ranges go in a block
    windows: int

    @property
    def size(self) -> int:
        """Elements."""
        return self.step * (self.rows - 1) + self.windows

    @property
    def finest(self) -> UOp:
        """The range that moves from an element to the next."""
        found = self.row if self.window is None else self.window
        assert found is not None, "an image has a row or a window to walk along"
        return found

    def place(self, at: dict[UOp, UOp]) -> UOp:
        """Where the ranges meet."""
        place = as_index(0) if self.row is None else at[self.row] * self.step
        return place if self.window is None else place + at[self.window]

    def ranges_at(self, place: UOp) -> dict[UOp, UOp]:
        """Ranges, all inside of their sizes, that meet at a place."""
        if self.row is None or self.window is None:
            return {self.finest: place}
        row = as_index(self.rows - 1).minimum(place // self.step)
        return {self.row: row, self.window: place - row * self.step}


def sliding_steps(found: Contraction) -> dict[UOp, tuple[UOp, int]]:
    """Range of rows -> the range of k that moves along the same axis of `a`, and the rows' step beside it."""
    steps: dict[UOp, tuple[UOp, int]] = {}
    for row, window in zip(reversed(found.m), reversed(found.along), strict=False):
        step = _step(found.a, row, window)
        if not 1 <= step < size_of(window) <= size_of(row):  # windows that share elements, and many of them
            break
        steps[row] = (window, step)
    return steps


def _step(value: UOp, row: UOp, window: UOp) -> int:
    """How far a row moves beside the window, if the value depends on where they meet alone; 0 if not."""
    free = free_ranges(value)
    found: set[int] = set()
    for node in topological((value,)):
        for place in node.src if node.dtype is not dtypes.weakint else ():
            if place.dtype is not dtypes.weakint:
                continue
            of_row, of_window = stride(place, row, free), stride(place, window, free)
            if of_row == of_window == 0:
                continue
            if not of_row or not of_window or of_row % of_window:
                return 0
            found.add(of_row // of_window)
    return found.pop() if len(found) == 1 else 0


def image_axes(found: Contraction, inside: list[UOp], sizes: list[int], lines: int) -> list[Axis]:
    """The image of a block of k and of `lines` of the outermost rows; empty if nothing slides, or not whole windows."""
    steps = sliding_steps(found)
    windows = {window for window, _ in steps.values()}
    length = dict(zip(inside, sizes, strict=True))
    if not steps or any(length.get(window) != size_of(window) for window in windows):
        return []
    axes = [Axis(None, r, 1, 1, length[r]) for r in inside if r not in windows]
    for r in found.m:
        rows = lines if r is found.m[0] else size_of(r)
        window, step = steps.get(r, (None, 1))
        axes.append(Axis(r, window, step, rows, 1 if window is None else size_of(window)))
    return axes


def tile_rows(m: list[UOp], most: int) -> list[int]:
    """Numbers of rows such that those of a tile are always as far apart in the image."""
    sizes = sizes_of(m)
    found: set[int] = set()
    for i, size in enumerate(sizes):
        after = prod(sizes[i + 1 :])
        found.update(d * after for d in range(1, size + 1) if size % d == 0)
    return sorted(rows for rows in found if most // 2 < rows <= most)
