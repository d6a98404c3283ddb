"""Layers that combine neighbours: pools of windows, and of as many windows as asked for."""

from __future__ import annotations

from typing import Any

from whit.nn.functional import pooling
from whit.nn.functional.fractional import fractional_max_pool
from whit.nn.functional.pooling import Sizes
from whit.nn.module import Module
from whit.tensor import Tensor


class MaxPool2d(Module):
    """The largest element of each window of images (batch, channels, height, width)."""

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
        return pooling.max_pool(
            x,
            self.axes,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            self.ceil_mode,
            self.return_indices,
        )


class MaxUnpool2d(Module):
    """Each element at the place that MaxPool2d found it, zeros elsewhere."""

    axes = 2

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> None:
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding

    def __call__(self, x: Tensor, indices: Tensor, output_size: tuple[int, ...] | None = None) -> Tensor:
        return pooling.max_unpool(x, self.axes, indices, self.kernel_size, self.stride, self.padding, output_size)


class AvgPool2d(Module):
    """The mean of each window of images (batch, channels, height, width)."""

    axes = 2

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self.ceil_mode, self.count_include_pad, self.divisor_override = ceil_mode, count_include_pad, divisor_override

    def __call__(self, x: Tensor) -> Tensor:
        return pooling.avg_pool(
            x,
            self.axes,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class LPPool2d(Module):
    """The norm of each window of images (batch, channels, height, width)."""

    axes = 2

    def __init__(
        self, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
    ) -> None:
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode

    def __call__(self, x: Tensor) -> Tensor:
        return pooling.lp_pool(x, self.axes, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)


class AdaptiveAvgPool2d(Module):
    """Means of as many windows of images as asked for; None keeps a size."""

    axes = 2

    def __init__(self, output_size: Any) -> None:
        self.output_size = output_size

    def __call__(self, x: Tensor) -> Tensor:
        return pooling.adaptive_avg_pool(x, self.axes, self.output_size)


class AdaptiveMaxPool2d(Module):
    """The largest elements of as many windows of images as asked for; None keeps a size."""

    axes = 2

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        self.output_size, self.return_indices = output_size, return_indices

    def __call__(self, x: Tensor) -> Any:
        return pooling.adaptive_max_pool(x, self.axes, self.output_size, self.return_indices)


class FractionalMaxPool2d(Module):
    """The largest elements of windows of images that begin at random places: `output_size` of them, or the size times
    `output_ratio`."""

    axes = 2

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        self.kernel_size, self.output_size, self.output_ratio = kernel_size, output_size, output_ratio
        self.return_indices = return_indices
        self._random_samples = _random_samples

    def __call__(self, x: Tensor) -> Any:
        return fractional_max_pool(
            x,
            self.axes,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            self._random_samples,
        )


class FractionalMaxPool3d(FractionalMaxPool2d):
    """The same of volumes (batch, channels, depth, height, width)."""

    axes = 3


class MaxPool1d(MaxPool2d):
    """The same of (batch, channels, length)."""

    axes = 1


class MaxPool3d(MaxPool2d):
    """The same of volumes (batch, channels, depth, height, width)."""

    axes = 3


class MaxUnpool1d(MaxUnpool2d):
    """The same of (batch, channels, length)."""

    axes = 1


class MaxUnpool3d(MaxUnpool2d):
    """The same of volumes (batch, channels, depth, height, width)."""

    axes = 3


class AvgPool1d(AvgPool2d):
    """The same of (batch, channels, length)."""

    axes = 1


class AvgPool3d(AvgPool2d):
    """The same of volumes (batch, channels, depth, height, width)."""

    axes = 3


class LPPool1d(LPPool2d):
    """The same of (batch, channels, length)."""

    axes = 1


class LPPool3d(LPPool2d):
    """The same of volumes (batch, channels, depth, height, width)."""

    axes = 3


class AdaptiveAvgPool1d(AdaptiveAvgPool2d):
    """The same of (batch, channels, length)."""

    axes = 1


class AdaptiveAvgPool3d(AdaptiveAvgPool2d):
    """The same of volumes (batch, channels, depth, height, width)."""

    axes = 3


class AdaptiveMaxPool1d(AdaptiveMaxPool2d):
    """The same of (batch, channels, length)."""

    axes = 1


class AdaptiveMaxPool3d(AdaptiveMaxPool2d):
    """The same of volumes (batch, channels, depth, height, width)."""

    axes = 3
