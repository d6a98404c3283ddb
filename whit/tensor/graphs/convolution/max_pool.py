"""The largest element of each window along two axes, with a gradient that gathers instead of adding up windows.

    y[o] = max over a < k of x[o*s + a]
    dx[q*s + r] = sum over j of g[q - j] where x[q*s + r] = y[q - j] and r + j*s < k         g = dy / how many are equal

Position q*s + r is in at most ceil(k / s) windows along an axis: 4 of all windows for k = 3, s = 2 along two axes. So
each element of dx is one short sum, where windows that are added up would be stored, each element k*k/s/s times.
"""

from __future__ import annotations

from functools import partial

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.uop import UOp, const
from whit.records import dataclass
from whit.tensor.graphs.convolution.sliding import window
from whit.transform import FORMULAS, Form, derivative


@dataclass(frozen=True, slots=True)
class Pooling:
    """Windows along two axes, one after the other."""

    axis: int  # the first of them
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]

    def taps(self, i: int) -> int:
        """Windows that an element may be in."""
        return -(-self.kernel[i] // self.stride[i])


def max_pool_of_images(
    x: UOp,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
    is_last: bool = False,
) -> UOp:
    """The same along the last two axes; halves, or if it `is_last`, with channels last, as convolutions keep them."""
    if x.dtype not in dtypes.float16s and not is_last:
        return max_pool(x, Pooling(2, kernel, stride, padding))
    return max_pool(x.permute((0, 2, 3, 1)), Pooling(1, kernel, stride, padding)).permute((0, 3, 1, 2))


def max_pool(x: UOp, pool: Pooling) -> UOp:
    """The largest of each window."""
    best = _windows(x, pool).reduce(ops.MAX, (pool.axis + 1, pool.axis + 3))
    name = f"max pool {pool.axis} {pool.kernel} {pool.stride} {pool.padding}"
    if name not in FORMULAS:
        derivative(name, Form.COMPOSED)(partial(_gradient, pool))
    return best.formula(name, x)


def _windows(x: UOp, pool: Pooling) -> UOp:
    """(..., n1, n2, ...) -> (..., o1, k1, o2, k2, ...); beside x there is the least number."""
    around = x
    if any(map(any, pool.padding)):
        pads = [(0, 0)] * len(x.shape)
        pads[pool.axis : pool.axis + 2] = pool.padding
        inside = const(dtypes.bool, True).reshape((1,) * len(x.shape)).expand(x.shape).pad(pads)
        around = inside.where(x.pad(pads), const(x.dtype, x.dtype.min))
    first = window(around, pool.axis, pool.kernel[0], pool.stride[0], 1)
    return window(first, pool.axis + 2, pool.kernel[1], pool.stride[1], 1)


def _gradient(pool: Pooling, y: UOp, dy: UOp, x: UOp) -> tuple[UOp]:
    axis, seen = pool.axis, _windows(x, pool)
    best = _with(_with(y, axis + 1, (y.shape[axis + 1], 1)), axis, (y.shape[axis], 1))
    equal = seen.eq(best.expand(seen.shape)).where(seen.constant(1.0), 0.0)
    given = (dy / equal.reduce(ops.ADD, (axis + 1, axis + 3))).stage()
    here, best, given = _in_lines(x, pool), _around(y, pool), _around(given, pool)
    here = here.expand(best.shape)
    part = here.eq(best).where(given, given.constant(0.0))
    for i in (0, 1):
        part = _taps_of(part, pool, i)
    wide = part.cast(dtypes.float32) if part.dtype.itemsize < 4 else part
    total = wide.reduce(ops.ADD, (axis + 2, axis + 5)).cast(x.dtype)  # (..., lines, step, lines, step, ...)
    for i in (0, 1):
        total = _with(total, axis + i, (total.shape[axis + i] * pool.stride[i],), 2)
        total = _placed(total, axis + i, -pool.padding[i][0], x.shape[axis + i])
    return (total,)


def _in_lines(x: UOp, pool: Pooling) -> UOp:
    """(..., n1, n2, ...) -> (..., lines, step, 1, lines, step, 1, ...)"""
    for i in (0, 1):
        axis, step = pool.axis + 3 * i, pool.stride[i]
        lines = (x.shape[axis] + sum(pool.padding[i]) - pool.kernel[i]) // step + pool.taps(i)
        x = _with(_placed(x, axis, pool.padding[i][0], lines * step), axis, (lines, step, 1))
    return x


def _around(y: UOp, pool: Pooling) -> UOp:
    """(..., o1, o2, ...) -> (..., lines, step, taps, lines, step, taps, ...): of the windows around each line."""
    for i in (0, 1):
        axis, taps = pool.axis + 3 * i, pool.taps(i)
        y = window(_placed(y, axis, taps - 1, y.shape[axis] + 2 * (taps - 1)), axis, taps, 1, 1)
        y = _with(y, axis, (y.shape[axis], 1))
        y = y.expand((*y.shape[: axis + 1], pool.stride[i], *y.shape[axis + 2 :]))
    return y


def _taps_of(part: UOp, pool: Pooling, i: int) -> UOp:
    """Without those windows around a line that end before an element of it."""
    axis, step, taps = pool.axis + 3 * i, pool.stride[i], pool.taps(i)
    if step * taps == pool.kernel[i]:
        return part
    places = UOp.arange(step).reshape((step, 1)).expand((step, taps))
    later = UOp.arange(taps).flip((0,)).reshape((1, taps)).expand((step, taps)) * step
    inside = (places + later < pool.kernel[i]).reshape(
        (*(1,) * (axis + 1), step, taps, *(1,) * (len(part.shape) - axis - 3))
    )
    return inside.expand(part.shape).where(part, const(part.dtype, 0.0))


def _placed(x: UOp, axis: int, before: int, size: int) -> UOp:
    """`size` elements of an axis, `before` zeros and then those from the first on, or (less than 0) from a later one
    on."""
    first, kept = max(-before, 0), min(x.shape[axis] - max(-before, 0), size - max(before, 0))
    x = x.shrink([(first, kept) if i == axis else (0, n) for i, n in enumerate(x.shape)])
    pads = (max(before, 0), size - max(before, 0) - kept)
    return x.pad([pads if i == axis else (0, 0) for i in range(len(x.shape))])


def _with(x: UOp, axis: int, sizes: tuple[int, ...], replaced: int = 1) -> UOp:
    """These sizes in the place of `replaced` axes."""
    return x.reshape((*x.shape[:axis], *sizes, *x.shape[axis + replaced :]))
