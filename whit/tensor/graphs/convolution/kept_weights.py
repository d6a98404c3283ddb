"""Convolutions on CPUs whose weights do not change: channels last, and weights as the kernels read them.

    x (batch, in, h, w)      ->  kept as (batch, h + pads, w + pads, in): zeros around it are in memory
    w (out, in, i, j)        ->  kept as (i, j, in, out); whoever captures the program makes them once (`prune`)
    y[b, h, w, o] = sum over i, j, c of x[b, h + i, w + j, c] * w[i, j, c, o]       shown as (batch, out, h, w)

Rows of such a product are pixels that are read where they are, and its columns channels: nothing is copied, and the
multiply-adds reach their peak. Where each channel is convolved by itself, vectors are channels. The scheduler keeps
what is made of y in the order of y (`raise_permutes`), so that nothing is turned between two convolutions.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.uop import UOp
from whit.kernel.convolution_cost import best_tile_of_kept_weights, fastest_winograd_tile
from whit.tensor.graphs.convolution.sliding import windows

if TYPE_CHECKING:
    from whit.tensor.graphs.convolution.convolve import Sliding


def has_kept_form(x: UOp, w: UOp, slide: Sliding) -> bool:
    """Whether a convolution has this form: images of floats and of known sizes, in one group or in one for each
    channel."""
    shape = (*x.shape, *w.shape)
    if x.dtype is not dtypes.float32 or len(slide.kernel) != 2 or not all(isinstance(size, int) for size in shape):
        return False
    is_empty = 0 in (*shape, *slide.outputs)
    return not is_empty and (slide.groups == 1 or _is_depthwise(w, slide))


def _is_depthwise(w: UOp, slide: Sliding) -> bool:
    return w.shape[:2] == (slide.groups, 1)


def by_kept_weights(x: UOp, w: UOp, slide: Sliding) -> UOp:
    """(batch, in, h, w) with (out, in / groups, i, j) -> (batch, out, h, w), kept with channels last."""
    total = _by_channel(x, w, slide) if slide.groups > 1 else _product(x, w, slide)
    return total.permute((0, 3, 1, 2))


def _product(x: UOp, w: UOp, slide: Sliding) -> UOp:
    """(batch, h, w, out)"""
    last = x.permute((0, 2, 3, 1))
    m = _tile(x, w, slide)
    if m:
        from whit.tensor.graphs.convolution.winograd_last import winograd_last  # lazy: loads fractions

        return winograd_last(last if _is_memory(x) else last.stage(), w, m, slide.padding, slide.outputs)
    if any(map(any, slide.padding)):
        inside = last if _is_memory(x) else last.stage()  # parts of a whole are computed where they lie in it
        last = inside.pad([(0, 0), *slide.padding, (0, 0)])
    kernel = w if prod(slide.kernel) == 1 else w.permute((2, 3, 1, 0)).stage().permute((3, 2, 0, 1))
    outputs, inputs = w.shape[:2]
    full = (x.shape[0], *slide.outputs, outputs, *slide.kernel, inputs)
    seen = _seen(last.stage(), slide).permute((0, 2, 3, 4, 5, 1))
    seen = seen.reshape((*seen.shape[:3], 1, *seen.shape[3:])).expand(full)
    kernel = kernel.permute((0, 2, 3, 1)).reshape((1, 1, 1, *full[3:])).expand(full)
    return (seen * kernel).reduce(ops.ADD, (4, 5, 6))


def _tile(x: UOp, w: UOp, slide: Sliding) -> int:
    """The tile of Winograd's algorithm, 0 for none."""
    never, always = 0, 1  # of the setting WINO
    if slide.winograd == never or slide.kernel != (3, 3) or {*slide.stride, *slide.dilation} != {1}:
        return 0
    outputs, inputs = w.shape[:2]
    if slide.winograd == always:
        return fastest_winograd_tile(x.shape[0], inputs, outputs, 1, slide.outputs)
    return best_tile_of_kept_weights(x.shape[0], inputs, outputs, slide.outputs)


def _is_memory(x: UOp) -> bool:
    while x.op in ops.MOVEMENT:
        x = x.src[0]
    return x.op in (ops.PARAM, ops.BUFFER)


def _by_channel(x: UOp, w: UOp, slide: Sliding) -> UOp:
    """(batch, h, w, channels)"""
    last = x.permute((0, 2, 3, 1)).stage()
    if any(map(any, slide.padding)):
        last = last.pad([(0, 0), *slide.padding, (0, 0)])
    seen = _seen(last, slide).permute((0, 2, 3, 1, 4, 5))  # (batch, h, w, channels, i, j)
    kernel = w.permute((2, 3, 0, 1)).stage().permute((2, 3, 0, 1)).reshape((1, 1, 1, w.shape[0], *slide.kernel))
    return (seen * kernel.expand(seen.shape)).reduce(ops.ADD, (4, 5))


def spread_by_kept_weights(y: UOp, w: UOp, slide: Sliding) -> UOp:
    """The transposed convolution of windows side by side: (batch, out, h, w) with (out, in, i, j) -> (batch, in, h * i,
    w * j). Each pixel is multiplied by all of the weight."""
    batch, outputs, height, width = y.shape
    inputs, (down, across) = w.shape[1], slide.kernel
    full = (batch, height, width, down, across, inputs, outputs)
    last = y.permute((0, 2, 3, 1)).stage().reshape((batch, height, width, 1, 1, 1, outputs)).expand(full)
    kernel = w.permute((0, 2, 3, 1)).stage().permute((1, 2, 3, 0))
    kernel = kernel.reshape((1, 1, 1, *full[3:])).expand(full)
    total = (last * kernel).reduce(ops.ADD, (6,)).stage()  # a product, which its reader lays side by side
    return (
        total.permute((0, 1, 3, 2, 4, 5)).reshape((batch, height * down, width * across, inputs)).permute((0, 3, 1, 2))
    )


def _seen(last: UOp, slide: Sliding) -> UOp:
    """(batch, h, w, channels) -> (batch, channels, *outputs, i, j)"""
    return windows(last.permute((0, 3, 1, 2)), slide.kernel, slide.stride, slide.dilation)
