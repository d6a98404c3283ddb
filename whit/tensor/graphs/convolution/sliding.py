"""Windows that slide over axes, made by movement ops alone.

A window of k elements at stride s and dilation d over an axis of n: element (i, j) is x[i*s + j*d]. In k copies of the
axis, laid end to end and cut again into rows of n + d, row j starts d further on than row j - 1, so that its element at
i*s is the one wanted. Index arithmetic, (j*(n + d) + i*s) % n, is all that is left of it.
"""

from __future__ import annotations

from typing import Any

from whit.ir.sizes import settled
from whit.ir.uop import UOp


def output_size(size: int, k: int, s: int, d: int) -> int:
    return settled((size - d * (k - 1) - 1) // s + 1)  # type: ignore[no-any-return]


def windows(x: UOp, kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...]) -> UOp:
    """(..., n1, n2) -> (..., o1, o2, k1, k2): all positions of a window over the last axes."""
    lead = len(x.shape) - len(kernel)
    for axis, (k, s, d) in enumerate(zip(kernel, stride, dilation, strict=True), lead):
        x = window(x, lead + 2 * (axis - lead), k, s, d)
    count = len(kernel)
    outputs = [lead + 2 * i for i in range(count)]
    return x.permute((*range(lead), *outputs, *(axis + 1 for axis in outputs)))


def window(x: UOp, axis: int, k: int, s: int, d: int) -> UOp:
    """Axis n -> axes (o, k)."""
    o = output_size(x.shape[axis], k, s, d)
    if k == s and d == 1:  # side by side
        return _with(_slice(x, axis, 0, o * s), axis, (o, k))
    used = settled((o - 1) * s + (k - 1) * d + 1)
    x = _slice(x, axis, 0, used)
    if k == 1:
        return _with(strided(x, axis, o, s), axis, (o, 1))
    if not isinstance(used, int):
        return _taken_windows(x, axis, o, k, s, d)
    n = max(used, o * s - d)  # so that a row of n + d holds o pieces of s
    x = _pad_end(x, axis, n - used)
    copies = -(-k * (n + d) // n)
    x = _with(x, axis, (1, n))
    x = x.expand((*x.shape[:axis], copies, *x.shape[axis + 1 :]))
    x = _slice(_with(x, axis, (copies * n,), 2), axis, 0, k * (n + d))
    x = _slice(_with(x, axis, (k, n + d)), axis + 1, 0, o * s)
    x = strided(x, axis + 1, o, s)
    order = [*range(len(x.shape))]
    order[axis], order[axis + 1] = axis + 1, axis
    return x.permute(tuple(order))


def _taken_windows(x: UOp, axis: int, o: Any, k: int, s: int, d: int) -> UOp:
    """The same of an axis whose size depends on variables: positions i*s + j*d are read."""
    place = UOp.arange(o).reshape((o, 1)).expand((o, k)) * s + UOp.arange(k).reshape((1, k)).expand((o, k)) * d
    rank = len(x.shape)
    first = x.permute((axis, *(i for i in range(rank) if i != axis))).index(place)
    return first.permute((*range(2, axis + 2), 0, 1, *range(axis + 2, rank + 1)))


def strided(x: UOp, axis: int, count: int, step: int) -> UOp:
    """Every step-th element."""
    if step == 1:
        return x
    x = _with(_pad_end(x, axis, count * step - x.shape[axis]), axis, (count, step))
    return _with(_slice(x, axis + 1, 0, 1), axis, (count,), 2)


def _pad_end(x: UOp, axis: int, extra: int) -> UOp:
    is_none = isinstance(extra, int) and extra == 0
    return x if is_none else x.pad([(0, extra if i == axis else 0) for i in range(len(x.shape))])


def _slice(x: UOp, axis: int, start: int, size: int) -> UOp:
    if x.shape[axis] == size:
        return x
    return x.shrink([(start, size) if i == axis else (0, n) for i, n in enumerate(x.shape)])


def _with(x: UOp, axis: int, sizes: tuple[int, ...], replaced: int = 1) -> UOp:
    """These sizes in the place of `replaced` axes."""
    return x.reshape((*x.shape[:axis], *sizes, *x.shape[axis + replaced :]))


def taken(x: UOp, axis: int, positions: UOp) -> UOp:
    """The elements at these positions of an axis."""
    rank = len(x.shape)
    first = (axis, *(i for i in range(rank) if i != axis))
    back = (*range(1, axis + 1), 0, *range(axis + 1, rank))
    return x.permute(first).index(positions).permute(back)
