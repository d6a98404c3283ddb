"""Where the elements of a view lie: a start, and a step for each axis, in elements of the memory.

    b (8, 4)                       start 0, sizes (8, 4), steps (4, 1)
    b[2:8:3, ::-1]                 start 11, sizes (2, 4), steps (12, -1)

`follow` walks along a chain of movement ops as long as what they show can be written like this. What is left of the
chain then works on a copy of what was reached. Only files need this: kernels compute positions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from whit.ir import ops
from whit.ir.op import Op
from whit.ir.uop import UOp
from whit.records import dataclass


@dataclass(frozen=True, slots=True)
class StridedLayout:
    """The places of a view's elements: start + the sum of position * step over the axes."""

    start: int
    sizes: tuple[int, ...]
    steps: tuple[int, ...]  # 0 where an axis is repeated, negative where it goes backwards


def row_major(sizes: Sequence[int], start: int = 0) -> StridedLayout:
    """Elements one behind the other."""
    return StridedLayout(start, tuple(sizes), tuple(prod(sizes[i + 1 :]) for i in range(len(sizes))))


def chain_of(view: UOp) -> tuple[UOp, list[UOp]]:
    """The memory under a view, and the ops between them, the first one first."""
    chain: list[UOp] = []
    while view.op in ops.MOVEMENT or view.op in ops.SAME_VALUE or view.op is ops.BITCAST:
        if view.op not in ops.SAME_VALUE:
            chain.append(view)
        view = view.src[0]
    chain.reverse()
    return view, chain


def follow(layout: StridedLayout, chain: Sequence[UOp]) -> tuple[StridedLayout, int]:
    """The layout after as many ops of a chain as possible, and how many that are."""
    done = 0
    while done < len(chain):
        moved, used = _every(layout, chain[done : done + 3]), 3
        if moved is None:
            moved, used = _moved(layout, chain[done]), 1
        if moved is None:
            break
        layout, done = moved, done + used
    return layout, done


def _moved(layout: StridedLayout, view: UOp) -> StridedLayout | None:
    """The layout of a view of something that has this one; None if its sizes are symbolic, or it has none."""
    return _MOVES[view.op](layout, view) if len(view.src) == 1 else None


def _permuted(layout: StridedLayout, view: UOp) -> StridedLayout:
    axes = view.arg
    return StridedLayout(
        layout.start, tuple(layout.sizes[axis] for axis in axes), tuple(layout.steps[axis] for axis in axes)
    )


def _shrunk(layout: StridedLayout, view: UOp) -> StridedLayout:
    before = sum(first * step for (first, _), step in zip(view.arg, layout.steps, strict=True))
    return StridedLayout(layout.start + before, tuple(length for _, length in view.arg), layout.steps)


def _flipped(layout: StridedLayout, view: UOp) -> StridedLayout:
    flipped = tuple(-step if axis in view.arg else step for axis, step in enumerate(layout.steps))
    to_last = sum((layout.sizes[axis] - 1) * layout.steps[axis] for axis in view.arg)
    return StridedLayout(layout.start + to_last, layout.sizes, flipped)


def _expanded(layout: StridedLayout, view: UOp) -> StridedLayout:
    sizes = zip(layout.sizes, view.shape, layout.steps, strict=True)
    return StridedLayout(
        layout.start, tuple(view.shape), tuple(step if size == new else 0 for size, new, step in sizes)
    )


# How each op changes a layout; None where the elements have none any more.
_MOVES: dict[Op, Callable[[StridedLayout, UOp], StridedLayout | None]] = {
    ops.BITCAST: lambda layout, _: layout,
    ops.PERMUTE: _permuted,
    ops.SHRINK: _shrunk,
    ops.FLIP: _flipped,
    ops.EXPAND: _expanded,
    ops.PAD: lambda layout, view: layout if view.shape == layout.sizes else None,
    ops.RESHAPE: lambda layout, view: _reshaped(layout, tuple(view.shape)),
}


def _reshaped(layout: StridedLayout, shape: tuple[int, ...]) -> StridedLayout | None:
    """Axes are joined where one goes on where the other ends, and split anywhere."""
    if 0 in shape:
        return row_major(shape, layout.start)
    joined: list[tuple[int, int]] = []
    for size, step in zip(layout.sizes, layout.steps, strict=True):
        if size == 1:
            continue
        if joined and joined[-1][1] == size * step:
            joined[-1] = (joined[-1][0] * size, step)
        else:
            joined.append((size, step))
    steps: list[int] = []
    for size in reversed(shape):
        if size == 1:
            steps.append(0)
            continue
        whole, step = joined.pop()
        if whole % size:
            return None
        steps.append(step)
        if whole != size:
            joined.append((whole // size, step * size))
    return StridedLayout(layout.start, shape, tuple(reversed(steps)))


def _every(layout: StridedLayout, chain: Sequence[UOp]) -> StridedLayout | None:
    """A slice with steps: axes padded to a multiple of the step, cut into pieces, and of each piece the first part.
    Nothing that was padded is left."""
    if [view.op for view in chain] != [ops.PAD, ops.RESHAPE, ops.SHRINK] or any(len(view.src) != 1 for view in chain):
        return None
    padded, cut, kept = chain
    if any(before for before, _ in padded.arg) or not _keeps_inside(layout.sizes, padded.shape, cut.shape, kept.arg):
        return None
    pieces = _reshaped(StridedLayout(layout.start, tuple(padded.shape), layout.steps), tuple(cut.shape))
    return None if pieces is None else _moved(pieces, kept)


def _keeps_inside(
    sizes: Sequence[int], padded: Sequence[Any], cut: Sequence[Any], windows: Sequence[tuple[int, int]]
) -> bool:
    """Whether windows of axes that were padded and then cut show only positions below the old sizes."""
    parts = list(zip(cut, windows, strict=True))
    for size, larger in zip(sizes, padded, strict=True):
        inside = larger
        highest = 0
        while inside > 1:
            part, (first, length) = parts.pop(0) if parts else (0, (0, 0))
            if not part or inside % part:
                return False
            inside //= part
            highest += (first + length - 1) * inside
        if highest >= size:
            return False
    return True


@dataclass(frozen=True, slots=True)
class Runs:
    """A layout as memory sees it: forwards, the largest step first, each element once."""

    start: int
    axes: tuple[int, ...]  # the axes of the layout, in this order: those that have a size and a step
    sizes: tuple[int, ...]
    steps: tuple[int, ...]

    @property
    def outer(self) -> int:
        """How many axes in front have gaps: the others together are one run."""
        run = 1
        for i in range(len(self.sizes) - 1, -1, -1):
            if self.steps[i] != run:
                return i + 1
            run *= self.sizes[i]
        return 0


def runs_of(layout: StridedLayout) -> Runs | None:
    """The runs of a layout without empty axes; None where elements would overlap."""
    axes = [axis for axis, size in enumerate(layout.sizes) if size != 1 and layout.steps[axis]]
    axes.sort(key=lambda axis: -abs(layout.steps[axis]))
    sizes = tuple(layout.sizes[axis] for axis in axes)
    steps = tuple(abs(layout.steps[axis]) for axis in axes)
    backwards = [axis for axis in axes if layout.steps[axis] < 0]
    start = layout.start + sum((layout.sizes[axis] - 1) * layout.steps[axis] for axis in backwards)
    end = 1
    for size, step in zip(reversed(sizes), reversed(steps), strict=True):
        if step < end:
            return None
        end = (size - 1) * step + end
    return Runs(start, tuple(axes), sizes, steps)
