"""Pooling with PyTorch's arguments: windows that slide, and windows that are as many as asked for (adaptive)."""

from __future__ import annotations

from math import prod
from typing import Any

from whit.dtype import dtypes
from whit.errors import ArgumentError, ShapeError
from whit.ir.op import spell_shape
from whit.tensor import Tensor

Sizes = int | tuple[int, ...]


def each_axis(sizes: Any, axes: int) -> tuple[Any, ...]:
    """One number for all axes, or one for each."""
    return tuple(sizes) if isinstance(sizes, tuple | list) else (sizes,) * axes


def max_pool(
    input: Tensor,
    axes: int,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window of the last axes."""
    return input.max_pool2d(
        kernel_size=each_axis(kernel_size, axes),
        stride=stride,
        dilation=dilation,
        padding=padding,
        ceil_mode=ceil_mode,
        return_indices=return_indices,
    )


def max_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Of (batch, channels, length)."""
    return max_pool(input, 1, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Of images."""
    return max_pool(input, 2, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Of volumes."""
    return max_pool(input, 3, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_unpool(
    input: Tensor,
    axes: int,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: tuple[int, ...] | None = None,
) -> Tensor:
    """Each element at the place that max_pool found it, zeros elsewhere."""
    return input.max_unpool2d(
        indices,
        kernel_size=each_axis(kernel_size, axes),
        stride=stride,
        padding=padding,
        output_size=None if output_size is None else tuple(output_size)[-axes:],
    )


def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: tuple[int, ...] | None = None,
) -> Tensor:
    """Of (batch, channels, length)."""
    return max_unpool(input, 1, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: tuple[int, ...] | None = None,
) -> Tensor:
    """Of images."""
    return max_unpool(input, 2, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: tuple[int, ...] | None = None,
) -> Tensor:
    """Of volumes."""
    return max_unpool(input, 3, indices, kernel_size, stride, padding, output_size)


def avg_pool(
    input: Tensor,
    axes: int,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window of the last axes, or its sum divided by a number."""
    kernel = each_axis(kernel_size, axes)
    if divisor_override is None:
        return input.avg_pool2d(
            kernel_size=kernel,
            stride=stride,
            padding=padding,
            ceil_mode=ceil_mode,
            count_include_pad=count_include_pad,
        )
    if divisor_override == 0:
        raise ArgumentError("avg_pool: divisor_override=0", fix="Sums are divided by it.")
    padded = input.pad(((0, 0),) * (input.ndim - axes) + tuple((p, p) for p in each_axis(padding, axes)))
    mean = padded.avg_pool2d(kernel_size=kernel, stride=stride, padding=0, ceil_mode=ceil_mode, count_include_pad=True)
    if ceil_mode:
        ones = Tensor.ones(*padded.shape, dtype=mean.dtype, device=input.device)
        share = ones.pad(((0, 0),) * (input.ndim - axes) + tuple((0, k) for k in kernel))
        counts = share.avg_pool2d(kernel_size=kernel, stride=stride)
        mean = mean * counts[tuple(slice(0, size) for size in mean.shape)]
    sums: Tensor = mean * float(prod(kernel))
    return sums / divisor_override


def avg_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Of (batch, channels, length)."""
    return avg_pool(input, 1, kernel_size, stride, padding, ceil_mode, count_include_pad)


def avg_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Of images."""
    return avg_pool(input, 2, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def avg_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Of volumes."""
    return avg_pool(input, 3, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def lp_pool(
    input: Tensor,
    axes: int,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """(sum of x ** norm_type) ** (1 / norm_type) of each window; sums below 0 count as 0."""
    kernel = each_axis(kernel_size, axes)
    powers = input.square() if norm_type == 2 else input**norm_type
    mean = powers.avg_pool2d(kernel_size=kernel, stride=stride, ceil_mode=ceil_mode)
    sums = mean * float(prod(kernel))
    return sums.relu() ** (1.0 / norm_type)


def lp_pool1d(
    input: Tensor, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
) -> Tensor:
    """Of (batch, channels, length)."""
    return lp_pool(input, 1, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
) -> Tensor:
    """Of images."""
    return lp_pool(input, 2, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    input: Tensor, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
) -> Tensor:
    """Of volumes."""
    return lp_pool(input, 3, norm_type, kernel_size, stride, ceil_mode)


# ---- as many windows as asked for: window i of o on an axis of n begins at i*n//o and ends before ceil((i+1)*n/o)


def _adaptive_sizes(name: str, input: Tensor, output_size: Any, axes: int) -> tuple[int, ...]:
    given = each_axis(output_size, axes)
    space = input.shape[input.ndim - axes :]
    if input.ndim < axes + 1 or len(given) != axes or any(size is not None and size < 1 for size in given):
        raise ShapeError(
            f"{name}: output_size={output_size!r} for {spell_shape(input.shape)}",
            input._made(),
            f"Give one number above 0 for each of the last {axes} axes; None keeps a size.",
        )
    if not all(space):
        raise ShapeError(f"{name}: {spell_shape(input.shape)} has no elements to look at", input._made())
    return tuple(n if size is None else size for size, n in zip(given, space, strict=True))


def _places(n: int, outputs: int, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """For each window of an axis, one a row: the places of its elements, which of them count, and how many."""
    longest = max(-(-(i + 1) * n // outputs) - i * n // outputs for i in range(outputs))
    window = Tensor.arange(outputs, device=like.device).reshape(-1, 1)
    begin, end = window * n // outputs, ((window + 1) * n + outputs - 1) // outputs
    place = begin + Tensor.arange(longest, device=like.device).reshape(1, -1)
    return place.minimum(n - 1), place < end, end - begin


def adaptive_avg_pool(input: Tensor, axes: int, output_size: Any) -> Tensor:
    """Means of as many windows as asked for."""
    sizes = _adaptive_sizes("adaptive_avg_pool", input, output_size, axes)
    space = input.shape[input.ndim - axes :]
    if all(n % size == 0 for n, size in zip(space, sizes, strict=True)):
        return input.avg_pool2d(kernel_size=tuple(n // size for n, size in zip(space, sizes, strict=True)))
    x = input
    for axis, size in enumerate(sizes, input.ndim - axes):
        place, counts, number = _places(x.shape[axis], size, x)
        rows = counts.where(x.transpose(axis, -1)[..., place], 0).sum(-1) / number.reshape(-1).cast(x.dtype)
        x = rows.transpose(axis, -1)
    return x


def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """Of (batch, channels, length)."""
    return adaptive_avg_pool(input, 1, output_size)


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Of images."""
    return adaptive_avg_pool(input, 2, output_size)


def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Of volumes."""
    return adaptive_avg_pool(input, 3, output_size)


def adaptive_max_pool(input: Tensor, axes: int, output_size: Any, return_indices: bool = False) -> Any:
    """The largest elements of as many windows as asked for; with `return_indices` also where they are."""
    sizes = _adaptive_sizes("adaptive_max_pool", input, output_size, axes)
    space = input.shape[input.ndim - axes :]
    if all(n % size == 0 for n, size in zip(space, sizes, strict=True)):
        kernel = tuple(n // size for n, size in zip(space, sizes, strict=True))
        return max_pool(input, axes, kernel, return_indices=return_indices)
    lead = input.shape[: input.ndim - axes]
    flat, counts = Tensor(0, device=input.device), Tensor(True, device=input.device)
    for axis, (n, size) in enumerate(zip(space, sizes, strict=True)):
        place, is_inside, _ = _places(n, size, input)
        shape = [1] * (2 * axes)
        shape[axis], shape[axes + axis] = place.shape
        flat, counts = flat * n + place.reshape(shape), counts & is_inside.reshape(shape)
    flat, counts = (each.reshape(*sizes, -1) for each in (flat, counts))
    window = counts.where(input.reshape(*lead, prod(space))[..., flat], -float("inf"))
    if not return_indices:
        return window.max(-1)
    best = window.argmax(-1, keepdim=True)
    found = flat.expand(window.shape).gather(-1, best).squeeze(-1)
    return window.gather(-1, best).squeeze(-1), found.cast(dtypes.int64)


def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Of (batch, channels, length)."""
    return adaptive_max_pool(input, 1, output_size, return_indices)


def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Of images."""
    return adaptive_max_pool(input, 2, output_size, return_indices)


def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Of volumes."""
    return adaptive_max_pool(input, 3, output_size, return_indices)
