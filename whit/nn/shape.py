"""Layers without weights that change shapes, leave out elements or combine neighbours."""

from __future__ import annotations

from typing import Any

from whit.errors import ShapeError
from whit.ir.op import spell_shape
from whit.nn.module import Module
from whit.tensor import Tensor

Sizes = int | tuple[int, ...]


class Identity(Module):
    """x itself; arguments are accepted, and mean nothing."""

    def __init__(self, *args: Any, **given: Any) -> None:
        pass

    def __call__(self, x: Tensor) -> Tensor:
        return x


class Dropout(Module):
    """While training (`Tensor.train()`) each element is 0 with probability p, and the others are larger for it."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        self.p = p

    def __call__(self, x: Tensor) -> Tensor:
        return x.dropout(self.p)


class Flatten(Module):
    """Axes `start_dim` to `end_dim` as one: by default all but the batch."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        self.start_dim, self.end_dim = start_dim, end_dim

    def __call__(self, x: Tensor) -> Tensor:
        return x.flatten(self.start_dim, self.end_dim)


class Unflatten(Module):
    """One axis as several."""

    def __init__(self, dim: int, unflattened_size: tuple[int, ...]) -> None:
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def __call__(self, x: Tensor) -> Tensor:
        return x.unflatten(self.dim, self.unflattened_size)


class MaxPool2d(Module):
    """The largest element of each window of (batch, channels, height, width)."""

    axes = 2

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        self.kernel_size, self.stride, self.padding, self.dilation = kernel_size, stride, padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def __call__(self, x: Tensor) -> Any:
        return x.max_pool2d(
            kernel_size=_each(self.kernel_size, self.axes),
            stride=self.stride,
            dilation=self.dilation,
            padding=self.padding,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )


class MaxPool1d(MaxPool2d):
    """The largest element of each window of (batch, channels, length)."""

    axes = 1


class AvgPool2d(Module):
    """The mean of each window of (batch, channels, height, width)."""

    axes = 2

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def __call__(self, x: Tensor) -> Tensor:
        return x.avg_pool2d(
            kernel_size=_each(self.kernel_size, self.axes),
            stride=self.stride,
            padding=self.padding,
            ceil_mode=self.ceil_mode,
            count_include_pad=self.count_include_pad,
        )


class AvgPool1d(AvgPool2d):
    """The mean of each window of (batch, channels, length)."""

    axes = 1


class AdaptiveAvgPool2d(Module):
    """Means of equal windows, as many as asked for; the image must divide into them."""

    def __init__(self, output_size: Sizes) -> None:
        self.output_size = output_size

    def __call__(self, x: Tensor) -> Tensor:
        rows, columns = _each(self.output_size, 2)
        height, width = x.shape[-2:]
        if height % rows or width % columns:
            raise ShapeError(
                f"AdaptiveAvgPool2d: {spell_shape(x.shape)} does not divide into {rows} x {columns} windows",
                x._made(),
                "Use interpolate() or avg_pool2d() with windows that overlap.",
            )
        return x.avg_pool2d(kernel_size=(height // rows, width // columns))


class Upsample(Module):
    """`interpolate` to a size, or by a factor; "nearest" by default."""

    def __init__(
        self,
        size: Sizes | None = None,
        scale_factor: float | tuple[float, ...] | None = None,
        mode: str = "nearest",
        align_corners: bool = False,
    ) -> None:
        self.size, self.scale_factor, self.mode, self.align_corners = size, scale_factor, mode, align_corners

    def __call__(self, x: Tensor) -> Tensor:
        size: Any = (self.size,) * (x.ndim - 2) if isinstance(self.size, int) else self.size
        return x.interpolate(
            size=size, mode=self.mode, align_corners=self.align_corners, scale_factor=self.scale_factor
        )


def _each(sizes: Sizes, axes: int) -> tuple[int, ...]:
    return (sizes,) * axes if isinstance(sizes, int) else tuple(sizes)
