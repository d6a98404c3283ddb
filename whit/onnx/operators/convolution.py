"""Convolutions: plain, transposed, with offsets for each place, causal with a state."""

from __future__ import annotations

import itertools
import math

import numpy

from whit.dtype import dtypes
from whit.errors import ArgumentError
from whit.onnx.operators.byte_products import float_convolution
from whit.onnx.operators.origins import origin
from whit.onnx.operators.registry import Node, Value, host_int_list, operator
from whit.onnx.operators.windows import Window, pad_pairs, per_axis, window_of
from whit.onnx.sizes import is_symbolic
from whit.tensor import Tensor


def convolve(node: Node, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """The convolution that the attributes of a node describe."""
    window = window_of(node, x.shape[2:], weight.shape[2:])
    return x.conv2d(
        weight,
        bias,
        groups=int(node.get("group", 1)),
        stride=window.strides,
        dilation=window.dilations,
        padding=window.pads,
    )


@operator("Conv", since=(1, 11, 22))
def conv(node: Node, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """(batch, in, *space) with (out, in / group, *kernel). Of bytes where both stand for them."""
    found = float_convolution(window_of(node, x.shape[2:], weight.shape[2:]), origin(x), origin(weight))
    if found is None:
        return convolve(node, x, weight, bias)
    return found if bias is None else found + bias.reshape((1, -1, 1, 1))


def _transposed_pads(node: Node, space: tuple[int, ...], window: Window) -> list[tuple[int, int]]:
    """What is cut off at both ends of the whole result."""
    wanted = node.get("output_shape")
    how = node.get("auto_pad", "NOTSET")
    extra = per_axis(node, "output_padding", len(space), 0)
    pairs = []
    for i, (n, step, reach) in enumerate(zip(space, window.strides, window.reach, strict=True)):
        full = step * (n - 1) + reach + extra[i]
        if wanted is not None:
            total = full - int(list(wanted)[i - len(space)])
        elif how in ("SAME_UPPER", "SAME_LOWER"):
            total = full - n * step
        else:
            before, after = (0, 0) if how == "VALID" else window.pads[i]
            pairs.append((before, after - extra[i]))
            continue
        cut = max(total, 0)  # what is asked for beyond the whole result is added at the end
        before = cut // 2 if how == "SAME_UPPER" else cut - cut // 2
        pairs.append((before, total - before - extra[i]))
    return pairs


def _blocks(x: Tensor, weight: Tensor) -> Tensor:
    """A transposed convolution whose windows lie side by side: each pixel becomes a block by a product of matrices. Of
    known sizes the general form is cut into such products; of others it multiplies the zeros between pixels, too."""
    inputs, outputs, *kernel = weight.shape
    count, space = len(kernel), tuple(x.shape[2:])
    rows = weight.reshape((inputs, outputs * math.prod(kernel))).transpose(0, 1)
    pixels = x.conv2d(rows.reshape((outputs * math.prod(kernel), inputs, *(1,) * count))).contiguous()
    order = [axis for at in range(count) for axis in (2 + count + at, 2 + at)]
    sizes = tuple(n * k for n, k in zip(space, kernel, strict=True))
    found = pixels.reshape((x.shape[0], outputs, *kernel, *space)).permute((0, 1, *order))
    return found.reshape((x.shape[0], outputs, *sizes))


@operator("ConvTranspose", since=(1, 11, 22))
def conv_transpose(node: Node, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """(batch, in, *space) with (in, out / group, *kernel): the gradient of a convolution."""
    space, count = x.shape[2:], x.ndim - 2
    window = Window(
        tuple(weight.shape[2:]),
        per_axis(node, "strides", count),
        per_axis(node, "dilations", count),
        pad_pairs(node, count),
    )
    groups = int(node.get("group", 1))
    blocks = window.kernel == window.strides and groups == 1 and set(window.dilations) == {1}
    if blocks and is_symbolic(space):
        full = _blocks(x, weight)
    else:
        full = x.conv_transpose2d(weight, groups=groups, stride=window.strides, dilation=window.dilations)
    pairs = _transposed_pads(node, space, window)
    result = full.pad([(0, 0), (0, 0), *((-before, -after) for before, after in pairs)])
    return result if bias is None else result + bias.reshape((1, -1, *(1,) * count))


@operator("CausalConvWithState", since=(27,))
def causal_conv(
    node: Node, x: Tensor, weight: Tensor, bias: Tensor | None = None, past: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Each channel over its own past; the state is the last elements that the next call will look back at."""
    batch, channels, _ = x.shape
    before = weight.shape[2] - 1
    past = Tensor.zeros(batch, channels, before, dtype=x.dtype, device=x.device) if past is None else past
    row = past.cat(x, dim=2)
    result = row.conv2d(weight, bias, groups=channels)
    if node.get("activation", "none") in ("silu", "swish"):
        result = result.silu()
    return result, row[:, :, row.shape[2] - before :]


@operator("Col2Im", since=(18,), host=(1, 2))
def columns_to_image(node: Node, x: Tensor, image: Value, block: Value) -> Tensor:
    """Columns of blocks, added where they overlap: the gradient of taking them."""
    space, kernel = host_int_list(image), host_int_list(block)
    window = window_of(node, space, kernel)
    batch, channels = x.shape[0], x.shape[1] // math.prod(kernel)
    padded = [n + before + after for n, (before, after) in zip(space, window.pads, strict=True)]
    counts = [(n - r) // s + 1 for n, r, s in zip(padded, window.reach, window.strides, strict=True)]
    places = numpy.zeros((*kernel, *counts), dtype=numpy.int64)
    for axis, (k, o, s, d) in enumerate(zip(kernel, counts, window.strides, window.dilations, strict=True)):
        shape = [1] * (2 * len(kernel))
        shape[axis], shape[len(kernel) + axis] = k, o
        along = numpy.arange(k)[:, None] * d + numpy.arange(o)[None, :] * s
        places = places * padded[axis] + along.reshape(shape)
    index = Tensor(places.reshape(1, -1), device=x.device).expand((batch * channels, places.size))
    empty = Tensor.zeros(batch * channels, math.prod(padded), dtype=x.dtype, device=x.device)
    total = empty.scatter_add(1, index, x.reshape((batch * channels, places.size)))
    cut = [(0, 0), (0, 0), *((-before, -after) for before, after in window.pads)]
    return total.reshape((batch, channels, *padded)).pad(cut)


@operator("DeformConv", since=(19, 22))
def deform_conv(
    node: Node, x: Tensor, weight: Tensor, offset: Tensor, bias: Tensor | None = None, mask: Tensor | None = None
) -> Tensor:
    """Each tap of the window reads at a place of its own, between pixels, and may be weighted."""
    if x.ndim != 4:
        raise ArgumentError(f"{node}: {x.ndim - 2} axes of space", fix="Only images are known.")
    window = window_of(node, x.shape[2:], weight.shape[2:])
    taps, parts = math.prod(window.kernel), int(node.get("offset_group", 1))
    batch, channels, height, width = x.shape
    rows, columns = offset.shape[2], offset.shape[3]
    moved = offset.reshape((batch, parts, taps, 2, rows, columns))
    grids = []
    for axis, outputs in enumerate((rows, columns)):
        tap = numpy.array([k[axis] for k in itertools.product(*map(range, window.kernel))])
        shape = [1, 1, taps, 1, 1]
        shape[3 + axis] = outputs
        start = numpy.arange(outputs) * window.strides[axis] - window.pads[axis][0]
        place = tap.reshape(1, 1, taps, 1, 1) * window.dilations[axis] + start.reshape([*shape[:2], 1, *shape[3:]])
        grids.append(moved[:, :, :, axis] + Tensor(place.astype(numpy.float32), device=x.device).cast(x.dtype))
    image = x.reshape((batch * parts, channels // parts, height, width))
    flat = [grid.reshape((batch * parts, taps * rows, columns)) for grid in grids]
    read = sample_between(image, flat[0], flat[1]).reshape((batch, parts, channels // parts, taps, rows, columns))
    if mask is not None:
        read = read * mask.reshape((batch, parts, 1, taps, rows, columns))
    groups, outputs = int(node.get("group", 1)), weight.shape[0]
    columns_of = read.reshape((batch, groups, channels // groups * taps, rows * columns))
    kernels = weight.reshape((groups, outputs // groups, channels // groups * taps))
    result = (kernels @ columns_of).reshape((batch, outputs, rows, columns))
    return result if bias is None else result + bias.reshape((1, outputs, 1, 1))


def sample_between(image: Tensor, row: Tensor, column: Tensor) -> Tensor:
    """Images (n, channels, height, width) at places (n, a, b) between pixels -> (n, channels, a, b); 0 outside."""
    top, left = row.floor(), column.floor()
    down, right = (row - top).unsqueeze(1), (column - left).unsqueeze(1)
    above = _read(image, top, left) * (1 - right) + _read(image, top, left + 1) * right
    below = _read(image, top + 1, left) * (1 - right) + _read(image, top + 1, left + 1) * right
    return above * (1 - down) + below * down


def _read(image: Tensor, row: Tensor, column: Tensor) -> Tensor:
    count, channels, height, width = image.shape
    inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
    place = row.clip(0, height - 1).cast(dtypes.int64) * width + column.clip(0, width - 1).cast(dtypes.int64)
    flat = place.reshape((count, 1, place.numel() // count)).expand((count, channels, place.numel() // count))
    pixels = image.reshape((count, channels, height * width)).gather(2, flat)
    result: Tensor = inside.unsqueeze(1).where(pixels.reshape((count, channels, *row.shape[1:])), 0)
    return result
