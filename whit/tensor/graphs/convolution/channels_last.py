"""Convolutions whose operands lie with their channels last, as matrix units that read windows of memory want them.

    x (batch, in, h, w)       ->  kept as (batch, h, w, in)       one copy, or where the values are computed first
    w (out, in, i, j)         ->  kept as (out, i, j, in)
    y[b, h, w, o] = sum over i, j, c of x[b, h + i, w + j, c] * w[o, i, j, c]       shown as (batch, out, h, w)

Along the sum 64 neighbours in memory are always of one pixel: all inside of the image, or all zeros beside it. The
scheduler keeps what is made of y in the order of y (`raise_permutes`): nothing is turned between two convolutions.
"""

from __future__ import annotations

from math import prod

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.uop import UOp
from whit.kernel.convolution_cost import CHANNELS_TOGETHER, parts_of_images


def is_copied(x: UOp) -> bool:
    """Whether a value (batch, channels, *space) is made of halves, and of enough channels to copy it by the pixel."""
    return is_half_precision(x) and x.shape[1] % CHANNELS_TOGETHER == 0


def is_half_precision(x: UOp) -> bool:
    """Whether a value of known sizes is cast up from halves."""
    return all(isinstance(size, int) and size for size in x.shape) and _narrow(x) is not None


def lies_as_shown(x: UOp) -> bool:
    """Whether a value is memory, each channel's pixels side by side: a matrix of channels and pixels as it is."""
    narrow = _narrow(x)
    while narrow is not None and narrow.op is ops.RESHAPE:
        narrow = narrow.src[0]
    return narrow is not None and narrow.op in (ops.PARAM, ops.BUFFER)


def channels_last(x: UOp) -> UOp:
    """The same value, kept with the channels (axis 1) last."""
    narrow, count = _narrow(x), len(x.shape) - 2
    assert narrow is not None, "callers ask is_of_halves() first"
    kept = narrow.permute((0, *range(2, 2 + count), 1)).stage()
    return kept.permute((0, 1 + count, *range(1, 1 + count))).cast(x.dtype)


def _narrow(x: UOp) -> UOp | None:
    """The halves that a value is cast up from."""
    views = []
    while x.op in ops.MOVEMENT:
        views.append(x)
        x = x.src[0]
    if x.op is not ops.CAST or x.src[0].dtype not in dtypes.float16s:
        return None
    (narrow,) = x.src
    for view in reversed(views):
        narrow = view.replace(src=(narrow, *view.src[1:]))
    return narrow


def summed(x: UOp, w: UOp, count: int) -> UOp:
    """(batch, 1, out, *space, in, *window), both -> (batch, out, *space): summed over windows, channels innermost."""
    batch, _, outputs, *rest = x.shape
    shape = (batch, outputs, *rest)
    order = (0, *range(2, 2 + count), 1, *range(3 + count, 3 + 2 * count), 2 + count)
    left, right = (operand.reshape(shape).permute(order) for operand in (x, w))
    total = (left * right).reduce(ops.ADD, tuple(range(2 + count, 3 + 2 * count)))  # (batch, *space, out)
    return total.permute((0, 1 + count, *range(1, 1 + count)))


def summed_weight(x: UOp, dy: UOp, count: int, cores: int) -> UOp:
    """(batch, 1, out, *space, in, *window), both -> (out, in, *window): summed over pixels, kept channels innermost."""
    batch, _, outputs, *rest = x.shape
    space, (inputs, *kernel) = rest[:count], rest[count:]
    parts = parts_of_images(batch, prod(space), outputs, inputs * prod(kernel), cores)
    shape = (parts, batch // parts, outputs, *rest)
    order = (0, 2, *range(4 + count, 4 + 2 * count), 3 + count, 1, *range(3, 3 + count))
    left, right = (operand.reshape(shape).permute(order) for operand in (x, dy))
    total = (left * right).reduce(ops.ADD, tuple(range(3 + count, 4 + 2 * count))).stage()  # (parts, out, *window, in)
    return total.reduce(ops.ADD, (0,)).permute((0, 1 + count, *range(1, 1 + count)))


def narrowed(total: UOp, like: UOp) -> UOp:
    """A sum, rounded to the dtype that an operand is cast up from: so it is stored, wherever it is added to others."""
    narrow = _narrow(like)
    assert narrow is not None, "callers ask is_of_halves() first"
    return total.cast(narrow.dtype).cast(total.dtype)


def rounded(total: UOp, like: UOp) -> UOp:
    """The same, kept with channels last."""
    return channels_last(narrowed(total, like))
