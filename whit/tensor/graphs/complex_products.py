"""Products of many complex numbers, which no reduction computes: halves are multiplied, and halves of these.

    product of (a, b, c, d, e)  ->  (a * c) * (b * d) * e

Goes in: a node of complex64 or complex128, whose axes have known sizes. Comes out: one of the same dtype.
"""

from __future__ import annotations

from math import prod

from whit.errors import NotSupportedError
from whit.ir.op import spell_shape
from whit.ir.uop import UOp


def product(value: UOp, axes: tuple[int, ...], keepdim: bool = False) -> UOp:
    """The product along axes; 1 of no elements."""
    _check_known("prod", value)
    rank = len(value.shape)
    kept = tuple(axis for axis in range(rank) if axis not in axes)
    lead, count = tuple(value.shape[axis] for axis in kept), prod(value.shape[axis] for axis in axes)
    shape = tuple(1 if axis in axes else size for axis, size in enumerate(value.shape)) if keepdim else lead
    rows = value.permute((*kept, *axes)).reshape((*lead, count))
    left_over: list[UOp] = []
    while count > 1:
        half = count // 2
        if count % 2:
            left_over.append(_part(rows, count - 1, 1))
        rows = _part(rows, 0, half) * _part(rows, half, half)
        count = half
    if not count:
        return value.constant(1.0).reshape((1,) * len(shape)).expand(shape)
    for one in left_over:
        rows = rows * one
    return rows.reshape(shape)


def running_product(value: UOp, axis: int) -> UOp:
    """The product of all elements up to each, in as many steps as its number has bits."""
    _check_known("cumprod", value)
    rank, count = len(value.shape), value.shape[axis]
    place = UOp.arange(count).reshape(tuple(count if i == axis else 1 for i in range(rank))).expand(value.shape)
    step = 1
    while step < count:
        window = [(0, count - step if i == axis else size) for i, size in enumerate(value.shape)]
        earlier = value.shrink(window).pad([(step if i == axis else 0, 0) for i in range(rank)])
        value = value * (place < step).where(value.constant(1.0), earlier)
        step *= 2
    return value


def _part(rows: UOp, start: int, size: int) -> UOp:
    """A window of the last axis."""
    return rows.shrink([*((0, size) for size in rows.shape[:-1]), (start, size)])


def _check_known(name: str, value: UOp) -> None:
    if not all(isinstance(size, int) for size in value.shape):
        raise NotSupportedError(
            f"{name}: of complex numbers of the symbolic shape {spell_shape(value.shape)}",
            fix="Give the axes known sizes, or take the product of the magnitudes and the sum of the angles.",
        )
