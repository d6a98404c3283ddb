"""Images as columns of windows and back, channels as space and back, padding, and other sizes."""

from __future__ import annotations

from typing import Any

from whit.errors import ArgumentError, ShapeError
from whit.ir.op import spell_shape
from whit.nn.functional.pooling import Sizes, adaptive_avg_pool, each_axis
from whit.tensor import Tensor


def pad(input: Tensor, pad: Any, mode: str = "constant", value: float | None = None) -> Tensor:
    """More around the last axes; (before, after) of each, the last axis first."""
    return input.pad(tuple(pad), mode, 0.0 if value is None else value)


def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Other sizes of the axes after the channels; "area" is adaptive_avg_pool."""
    if antialias:
        raise ArgumentError("interpolate: antialias=True", fix="There is none: blur with avg_pool2d before.")
    axes = input.ndim - 2
    sizes = None if size is None else each_axis(size, axes)
    if scale_factor is not None and (recompute_scale_factor or mode == "area"):
        factors = each_axis(scale_factor, axes)
        sizes = tuple(int(n * factor) for n, factor in zip(input.shape[2:], factors, strict=True))
        scale_factor = None
    if mode == "area":
        return adaptive_avg_pool(input, axes, sizes)
    return input.interpolate(size=sizes, mode=mode, align_corners=bool(align_corners), scale_factor=scale_factor)


def upsample(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None
) -> Tensor:
    """`interpolate` under its older name."""
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` of the nearest."""
    return interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` of the four around, with the corners where they were."""
    return interpolate(input, size, scale_factor, "bilinear", align_corners=True)


def unfold(input: Tensor, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1) -> Tensor:
    """Windows of images (batch, channels, height, width) as columns: (batch, channels * window, windows)."""
    if input.ndim not in (3, 4):
        raise ShapeError(f"unfold: {spell_shape(input.shape)}", input._made(), "It takes images.")
    x = input if input.ndim == 4 else input.unsqueeze(0)
    kernel, gaps, pads, steps = (each_axis(each, 2) for each in (kernel_size, dilation, padding, stride))
    x = x.pad(((0, 0), (0, 0), *((p, p) for p in pads)))
    for axis in range(2):
        reach = gaps[axis] * (kernel[axis] - 1) + 1
        x = x.unfold(2 + axis, reach, steps[axis])[..., :: gaps[axis]]
    batch, channels, rows, columns, high, wide = x.shape  # each unfold put its window last
    found = x.permute(0, 1, 4, 5, 2, 3).reshape(batch, channels * high * wide, rows * columns)
    return found if input.ndim == 4 else found.squeeze(0)


def fold(
    input: Tensor,
    output_size: Sizes,
    kernel_size: Sizes,
    dilation: Sizes = 1,
    padding: Sizes = 0,
    stride: Sizes = 1,
) -> Tensor:
    """Columns of windows as images: where windows overlap, they are added up."""
    size, kernel, gaps, pads, steps = (
        each_axis(each, 2) for each in (output_size, kernel_size, dilation, padding, stride)
    )
    counts = [
        (n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, d, p, s in zip(size, kernel, gaps, pads, steps, strict=True)
    ]
    x = input if input.ndim == 3 else input.unsqueeze(0)
    if x.ndim != 3 or x.shape[1] % (kernel[0] * kernel[1]) or x.shape[2] != counts[0] * counts[1]:
        raise ShapeError(
            f"fold: columns {spell_shape(input.shape)} for images of {size} and windows of {kernel}",
            input._made(),
            f"They are (batch, channels * {kernel[0] * kernel[1]}, {counts[0]} * {counts[1]}).",
        )
    x = x.reshape(x.shape[0], x.shape[1] // (kernel[0] * kernel[1]), *kernel, *counts)
    for axis in range(2):  # (batch, channels, kernel, ..., count, ...) -> (batch, channels, ..., ..., size)
        x = _summed(x, size[axis], kernel[axis], gaps[axis], pads[axis], steps[axis])
    return x if input.ndim == 3 else x.squeeze(0)


def _summed(x: Tensor, size: int, kernel: int, gap: int, pad: int, step: int) -> Tensor:
    """(batch, channels, kernel, others, count, others) -> (batch, channels, others, others, size): each position takes
    from all windows that it lies in."""
    middle = 2 + (x.ndim - 2) // 2
    order = [axis for axis in range(x.ndim) if axis not in (2, middle)]
    x = x.permute(*order, middle, 2)
    tap = Tensor.arange(kernel, device=x.device).reshape(1, -1)
    start = Tensor.arange(size, device=x.device).reshape(-1, 1) + pad - tap * gap
    window = start // step
    inside = (start >= 0) & (start % step == 0) & (window < x.shape[-2])
    found = x[..., window.clip(0, x.shape[-2] - 1), tap.expand(window.shape)]
    sums: Tensor = inside.where(found, 0).sum(-1)
    return sums


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """(..., channels * f * f, height, width) -> (..., channels, height * f, width * f)."""
    factor = upscale_factor
    if input.ndim < 3 or factor < 1 or input.shape[-3] % factor**2:
        raise ShapeError(
            f"pixel_shuffle: {spell_shape(input.shape)} by {factor}",
            input._made(),
            "The channels, axis -3, must be a multiple of the factor squared.",
        )
    *lead, channels, height, width = input.shape
    x = input.reshape(*lead, channels // factor**2, factor, factor, height, width)
    n = len(lead)
    x = x.permute(*range(n + 1), n + 3, n + 1, n + 4, n + 2)
    return x.reshape(*lead, channels // factor**2, height * factor, width * factor)


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """(..., channels, height * f, width * f) -> (..., channels * f * f, height, width)."""
    factor = downscale_factor
    if input.ndim < 3 or factor < 1 or input.shape[-1] % factor or input.shape[-2] % factor:
        raise ShapeError(
            f"pixel_unshuffle: {spell_shape(input.shape)} by {factor}",
            input._made(),
            "Height and width must be multiples of the factor.",
        )
    *lead, channels, height, width = input.shape
    x = input.reshape(*lead, channels, height // factor, factor, width // factor, factor)
    n = len(lead)
    x = x.permute(*range(n + 1), n + 2, n + 4, n + 1, n + 3)
    return x.reshape(*lead, channels * factor**2, height // factor, width // factor)


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Channels, axis 1, of groups one after the other -> one of each group by turns."""
    if input.ndim < 3 or groups < 1 or input.shape[1] % groups:
        raise ShapeError(
            f"channel_shuffle: {spell_shape(input.shape)} in {groups} groups",
            input._made(),
            "The channels, axis 1, must be a multiple of the groups.",
        )
    batch, channels, *space = input.shape
    return input.reshape(batch, groups, channels // groups, *space).transpose(1, 2).reshape(input.shape)
