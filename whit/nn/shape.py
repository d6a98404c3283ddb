"""Layers without weights that change shapes: axes as one, other sizes, windows as columns, channels as space."""

from __future__ import annotations

from typing import Any

from whit.nn import functional as F
from whit.nn.functional.pooling import Sizes
from whit.nn.module import Module
from whit.tensor import Tensor


class Identity(Module):
    """x itself; arguments are accepted, and mean nothing."""

    def __init__(self, *args: Any, **given: Any) -> None:
        pass

    def __call__(self, x: Tensor) -> Tensor:
        return x


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


class Upsample(Module):
    """`interpolate` to a size, or by a factor; "nearest" by default."""

    def __init__(
        self,
        size: Sizes | None = None,
        scale_factor: float | tuple[float, ...] | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        self.size, self.scale_factor, self.mode, self.align_corners = size, scale_factor, mode, align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def __call__(self, x: Tensor) -> Tensor:
        return F.interpolate(
            x, self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor
        )


class UpsamplingNearest2d(Upsample):
    """Upsample of images by the nearest pixel."""

    def __init__(self, size: Sizes | None = None, scale_factor: float | tuple[float, ...] | None = None) -> None:
        super().__init__(size, scale_factor, "nearest")


class UpsamplingBilinear2d(Upsample):
    """Upsample of images by lines between the centres of pixels; corners stay."""

    def __init__(self, size: Sizes | None = None, scale_factor: float | tuple[float, ...] | None = None) -> None:
        super().__init__(size, scale_factor, "bilinear", True)


class Unfold(Module):
    """Windows of images as columns: (batch, channels * window, windows)."""

    def __init__(self, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1) -> None:
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def __call__(self, x: Tensor) -> Tensor:
        return F.unfold(x, self.kernel_size, self.dilation, self.padding, self.stride)


class Fold(Module):
    """Columns of windows as images: where windows overlap, they are added up."""

    def __init__(
        self,
        output_size: Sizes,
        kernel_size: Sizes,
        dilation: Sizes = 1,
        padding: Sizes = 0,
        stride: Sizes = 1,
    ) -> None:
        self.output_size = output_size
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def __call__(self, x: Tensor) -> Tensor:
        return F.fold(x, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)


class PixelShuffle(Module):
    """(..., channels * f * f, height, width) -> (..., channels, height * f, width * f)."""

    def __init__(self, upscale_factor: int) -> None:
        self.upscale_factor = upscale_factor

    def __call__(self, x: Tensor) -> Tensor:
        return F.pixel_shuffle(x, self.upscale_factor)


class PixelUnshuffle(Module):
    """(..., channels, height * f, width * f) -> (..., channels * f * f, height, width)."""

    def __init__(self, downscale_factor: int) -> None:
        self.downscale_factor = downscale_factor

    def __call__(self, x: Tensor) -> Tensor:
        return F.pixel_unshuffle(x, self.downscale_factor)


class ChannelShuffle(Module):
    """Channels of groups one after the other -> one of each group by turns."""

    def __init__(self, groups: int) -> None:
        self.groups = groups

    def __call__(self, x: Tensor) -> Tensor:
        return F.channel_shuffle(x, self.groups)


class CosineSimilarity(Module):
    """The cosine of the angle between vectors along an axis."""

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        self.dim, self.eps = dim, eps

    def __call__(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """The norm of differences along the last axis."""

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def __call__(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
