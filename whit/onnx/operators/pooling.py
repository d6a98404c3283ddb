"""Windows that slide over images and become one number each: the largest, the mean, a norm; and the way back."""

from __future__ import annotations

import math
from typing import Any

from whit.dtype import dtypes
from whit.onnx.operators.byte_products import largest
from whit.onnx.operators.origins import dequantised, origin
from whit.onnx.operators.registry import Node, Value, host_int_list, operator, unary
from whit.onnx.operators.windows import Window, per_axis, window_of
from whit.records import replace
from whit.tensor import Tensor
from whit.tensor.told import told


def _window(node: Node, x: Tensor) -> Window:
    return window_of(node, x.shape[2:], [int(size) for size in node.get("kernel_shape")])


def _least(x: Tensor) -> Any:
    return x.dtype.min if x.dtype.is_float else int(x.dtype.min)


@operator("MaxPool", since=(1, 8, 10, 11, 12, 22))
def max_pool(node: Node, x: Tensor) -> Value:
    """The largest of each window, and where in the whole tensor it is if the node has two outputs."""
    window = _window(node, x)
    ceil, with_places = bool(node.get("ceil_mode", 0)), node.outputs > 1
    count, pads = len(window.kernel), window.pads
    fits = all(max(pair) < reach for pair, reach in zip(pads, window.reach, strict=True))
    found = origin(x)
    if found is not None and found.axis is None and fits and x.ndim == 4 and not (ceil or with_places):
        return dequantised(replace(found, values=largest(window, found.values)))
    source = x
    if not fits:  # windows of padding alone: what is around is smaller than everything
        source, pads = x.pad([(0, 0), (0, 0), *pads], value=_least(x)), ((0, 0),) * count
    options: dict[str, Any] = {
        "kernel_size": window.kernel,
        "stride": window.strides,
        "dilation": window.dilations,
        "padding": [*pads],
        "ceil_mode": ceil,
    }
    if not with_places:
        return source.max_pool2d(**options)
    best, place = source.max_pool2d(**options, return_indices=True)
    return best, _places_in_all(node, x, place.cast(dtypes.int64), source.shape[2:], window if not fits else None)


def _places_in_all(node: Node, x: Tensor, place: Tensor, space: Any, moved: Window | None) -> Tensor:
    """A position in the (padded) image of a channel -> one in the whole tensor; images by columns if the node says."""
    steps = [*x.shape[2:]]
    digits, rest = [], place
    for size in reversed([int(n) for n in space]):
        digits.append(rest % size)
        rest = rest // size
    digits.reverse()
    if moved is not None:
        digits = [digit - before for digit, (before, _) in zip(digits, moved.pads, strict=True)]
    order = range(len(steps)) if not node.get("storage_order", 0) else reversed(range(len(steps)))
    flat = place * 0
    for axis in order:
        flat = flat * steps[axis] + digits[axis]
    lead = math.prod(x.shape[:2])
    start = Tensor.arange(lead, device=x.device, dtype=dtypes.int64) * math.prod(steps)
    result: Tensor = flat + start.reshape((*x.shape[:2], *(1,) * len(steps)))
    return result


@operator("AveragePool", since=(1, 7, 10, 11, 19, 22))
def average_pool(node: Node, x: Tensor) -> Tensor:
    """The mean of each window, of what is inside or with `count_include_pad` also of the padding."""
    window = _window(node, x)
    return x.avg_pool2d(
        kernel_size=window.kernel,
        stride=window.strides,
        dilation=window.dilations,
        padding=[*window.pads],
        ceil_mode=bool(node.get("ceil_mode", 0)),
        count_include_pad=bool(node.get("count_include_pad", 0)),
    )


@operator("LpPool", since=(1, 2, 11, 18, 22))
def lp_pool(node: Node, x: Tensor) -> Tensor:
    """The norm of each window."""
    window, p = _window(node, x), node.get("p", 2)
    pads = window.rounded_up(x.shape[2:]) if node.get("ceil_mode", 0) else window.pads
    powers = (x.abs() ** p).pad([(0, 0), (0, 0), *pads])
    mean = powers.avg_pool2d(kernel_size=window.kernel, stride=window.strides, dilation=window.dilations)
    result: Tensor = (mean * math.prod(window.kernel)) ** (1 / p)
    return result


def _space(x: Tensor) -> tuple[int, ...]:
    return tuple(range(2, x.ndim))


unary("GlobalAveragePool", lambda x: told("global_average", x.mean(_space(x), True), x), (1, 22))
unary("GlobalMaxPool", lambda x: x.max(_space(x), True), (1, 22))


@operator("GlobalLpPool", since=(1, 2, 22))
def global_lp_pool(node: Node, x: Tensor) -> Tensor:
    """The norm of each channel."""
    p = node.get("p", 2)
    result: Tensor = (x.abs() ** p).sum(_space(x), True) ** (1 / p)
    return result


@operator("MaxUnpool", since=(9, 11, 22), host=(2,))
def max_unpool(node: Node, x: Tensor, indices: Tensor, shape: Value = None) -> Tensor:
    """Each element at its position in the whole result, zeros elsewhere."""
    kernel = [int(size) for size in node.get("kernel_shape")]
    window = window_of(node, x.shape[2:], kernel)
    strides = per_axis(node, "strides", len(kernel))
    natural = [
        (int(n) - 1) * step - sum(pair) + k
        for n, step, pair, k in zip(x.shape[2:], strides, window.pads, kernel, strict=True)
    ]
    sizes = [*x.shape[:2], *natural]
    wanted = host_int_list(shape) if shape is not None else sizes
    flat = Tensor.zeros(math.prod(sizes), dtype=x.dtype, device=x.device)
    places = indices.cast(dtypes.int64).reshape((x.numel(),))
    if wanted == sizes:
        return flat.scatter(0, places, x.reshape((x.numel(),))).reshape(tuple(sizes))
    # Positions are those of the natural size; the result is at the beginning of a larger one.
    around = [(0, want - have) for want, have in zip(wanted, sizes, strict=True)]
    return flat.scatter(0, places, x.reshape((x.numel(),))).reshape(tuple(sizes)).pad(around)
