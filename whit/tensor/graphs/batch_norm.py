"""Squares from a mean, and values shifted and scaled by numbers of their channel, with gradients in one pass each.

    v = sum of (x - mean(x))**2             dx = 2 * dv * (x - mean(x))
    y = (x - m) * s + b                     dx = dy * s,  db = sum(dy),  ds = sum(dy * (x - m)),  dm = -s * db

Operation by operation the first would also send a gradient through the mean: the sum of all differences, which is zero,
and another pass over the elements. Of the second m would get a sum of its own over dy * s. As they are written here, a
batch norm reads dy and x once for all its sums, and once more for dx. What there is one number of for each channel has
that shape alone, without axes of size 1, so that it is computed by one kernel.
"""

from __future__ import annotations

from functools import partial

from whit.ir import ops
from whit.ir.uop import UOp
from whit.tensor.graphs.softmax import broadcast_like, kept_shape, reduced
from whit.transform import FORMULAS, Form, derivative

Axes = tuple[int, ...]  # those that are summed


def squares_from_mean(x: UOp, middle: UOp, axes: Axes) -> UOp:
    """The sum along axes of the squares of what differs from the mean."""
    away = _away(x, middle, axes)
    name = f"squares from the mean along {axes}"
    if name not in FORMULAS:
        derivative(name, Form.COMPOSED)(partial(_of_squares, axes))
    return reduced(away * away, ops.ADD, axes).formula(name, x, middle)


def _of_squares(axes: Axes, y: UOp, dy: UOp, x: UOp, middle: UOp) -> tuple[UOp | None, ...]:
    return _away(x, middle, axes) * _broadcast_along(dy * 2.0, x, axes), None


def scaled(x: UOp, axes: Axes, middle: UOp, scale: UOp, offset: UOp) -> UOp:
    """(x - middle) * scale + offset, which have no such axes."""
    value = _away(x, middle, axes) * _broadcast_along(scale, x, axes) + _broadcast_along(offset, x, axes)
    name = f"scaled along {axes}"
    if name not in FORMULAS:
        derivative(name, Form.COMPOSED)(partial(_of_scaled, axes))
    return value.formula(name, x, middle, scale, offset)


def _of_scaled(axes: Axes, y: UOp, dy: UOp, x: UOp, middle: UOp, scale: UOp, offset: UOp) -> tuple[UOp, ...]:
    total = reduced(dy, ops.ADD, axes)
    along = reduced(dy * _away(x, middle, axes), ops.ADD, axes)
    return dy * _broadcast_along(scale, x, axes), -(scale * total), along, total


def _away(x: UOp, middle: UOp, axes: Axes) -> UOp:
    return x - _broadcast_along(middle, x, axes)


def _broadcast_along(value: UOp, like: UOp, axes: Axes) -> UOp:
    """Along the axes that it has not."""
    return broadcast_like(value.reshape(kept_shape(like, axes)) if axes else value, like)
