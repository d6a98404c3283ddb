"""Tensors that lie in memory with steps, as PyTorch saves them: element (i, j) at offset + i * step_0 + j * step_1.

transposed    shape (4, 3), steps (1, 4)     ->  reshape (3, 4), permute
with gaps     shape (3, 2), steps (4, 1)     ->  pad to 12, reshape (3, 4), the first 2 columns
repeated      shape (5, 3), steps (0, 1)     ->  expand
overlapping   shape (3, 2), steps (1, 1)     ->  a gather
"""

from __future__ import annotations

from collections.abc import Callable

from whit.tensor import Tensor

Take = Callable[[int, int], Tensor]  # (start, count) -> elements as one axis


def strided(take: Take, count: int, offset: int, shape: tuple[int, ...], steps: tuple[int, ...]) -> Tensor:
    """A tensor of elements of one axis of `count`. All places must lie inside; no size is 0."""
    axes = sorted((i for i, size in enumerate(shape) if size > 1 and steps[i]), key=lambda i: (-steps[i], i))
    spans = [1]  # how many elements the axes from here on reach over, innermost first
    for axis in reversed(axes):
        if steps[axis] < spans[0]:
            return _gathered(take, offset, shape, steps)
        spans.insert(0, (shape[axis] - 1) * steps[axis] + spans[0])
    if not axes:
        return take(offset, 1).reshape((1,) * len(shape)).expand(shape)
    # Elements behind the last one are read if they are there: padding cannot be done in a file.
    length = min(shape[axes[0]] * steps[axes[0]], count - offset)
    value = take(offset, length)
    for depth, axis in enumerate(axes):
        before, size, step = value.shape[:-1], shape[axis], steps[axis]
        missing = size * step - value.shape[-1]
        if missing > 0:
            value = value.pad((*[(0, 0)] * depth, (0, missing)))
        value = value.reshape((*before, size, step))
        inner = spans[depth + 1]
        if depth + 1 < len(axes):
            following = axes[depth + 1]
            inner = max(inner, min(step, shape[following] * steps[following]))
        value = value.shrink((*[(0, part) for part in value.shape[:-1]], (0, inner)))
    value = value.reshape(value.shape[:-1])
    value = value.permute(tuple(axes.index(axis) for axis in sorted(axes)))
    alone = tuple(size if steps[i] else 1 for i, size in enumerate(shape))
    return value.reshape(alone).expand(shape)


def _gathered(take: Take, offset: int, shape: tuple[int, ...], steps: tuple[int, ...]) -> Tensor:
    """Elements that several positions share: looked up in memory."""
    reach = sum((size - 1) * step for size, step in zip(shape, steps, strict=True))
    memory = take(offset, reach + 1).to("CPU")
    place = Tensor.zeros(*shape, dtype="int64")
    for axis, (size, step) in enumerate(zip(shape, steps, strict=True)):
        along = [1] * len(shape)
        along[axis] = size
        place = place + (Tensor.arange(size, dtype="int64") * step).reshape(along)
    return memory.gather(0, place.flatten()).reshape(shape)


def is_row_major(shape: tuple[int, ...], steps: tuple[int, ...]) -> bool:
    """Whether the elements lie one behind the other, the last axis fastest."""
    expected = 1
    for size, step in zip(reversed(shape), reversed(steps), strict=True):
        if size != 1 and step != expected:
            return False
        expected *= size
    return True
