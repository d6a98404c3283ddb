"""Layers that normalise: each brings means to 0 and variances to 1 over some axes, then scales and shifts."""

from __future__ import annotations

import math

from whit.dtype import dtypes
from whit.errors import ShapeError
from whit.nn.module import Module
from whit.tensor import Tensor


class BatchNorm(Module):
    """Over the batch and every axis after the channels, which are axis 1.

    While training (`Tensor.training`) the statistics are those of the batch, and running ones are kept; otherwise the
    running ones are used.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        affine: bool = True,
        track_running_stats: bool = True,
        momentum: float = 0.1,
    ) -> None:
        self.num_features, self.eps = num_features, eps
        self.momentum, self.track_running_stats = momentum, track_running_stats
        self.weight = Tensor.ones(num_features) if affine else None
        self.bias = Tensor.zeros(num_features) if affine else None
        if track_running_stats:
            self.running_mean = Tensor.zeros(num_features, requires_grad=False)
            self.running_var = Tensor.ones(num_features, requires_grad=False)
            self.num_batches_tracked = Tensor.zeros(dtype=dtypes.int64, requires_grad=False)
            # As constants they would make the first step another program than the second, and both be compiled.
            Tensor.realize(self.running_mean, self.running_var, self.num_batches_tracked)

    def calc_stats(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of each channel: of the batch while training, else the running ones."""
        if self.track_running_stats and not Tensor.training:
            return self.running_mean, self.running_var
        axes = tuple(axis for axis in range(x.ndim) if axis != 1)
        variance, mean = x.var_mean(axis=axes, correction=0)
        return mean, variance

    @property
    def affine(self) -> bool:
        """Whether it scales and shifts."""
        return self.weight is not None

    def __call__(self, x: Tensor) -> Tensor:
        """x of shape (batch, num_features, ...) gives the same shape."""
        mean, variance = self.calc_stats(x)
        if self.track_running_stats and Tensor.training:
            count = math.prod(x.shape) // x.shape[1]
            unbiased = variance.detach() * (count / max(count - 1, 1))
            self.running_mean.assign(self.running_mean * (1 - self.momentum) + mean.detach() * self.momentum)
            self.running_var.assign(self.running_var * (1 - self.momentum) + unbiased * self.momentum)
            self.num_batches_tracked += 1
        return x.batchnorm(self.weight, self.bias, mean, (variance + self.eps).rsqrt())


class BatchNorm1d(BatchNorm):
    """BatchNorm under PyTorch's name for (batch, channels) and (batch, channels, length)."""


class BatchNorm2d(BatchNorm):
    """BatchNorm under PyTorch's name for images."""


class BatchNorm3d(BatchNorm):
    """BatchNorm under PyTorch's name for volumes."""


class LayerNorm(Module):
    """Over the last axes, which have this shape."""

    def __init__(
        self, normalized_shape: int | tuple[int, ...], eps: float = 1e-5, elementwise_affine: bool = True
    ) -> None:
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.axis = tuple(range(-len(self.normalized_shape), 0))
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.weight = Tensor.ones(*self.normalized_shape) if elementwise_affine else None
        self.bias = Tensor.zeros(*self.normalized_shape) if elementwise_affine else None

    def __call__(self, x: Tensor) -> Tensor:
        """x of shape (..., *normalized_shape) gives the same shape."""
        if x.shape[-len(self.normalized_shape) :] != self.normalized_shape:
            raise ShapeError(
                f"LayerNorm: the last axes of {x.shape} are not {self.normalized_shape}",
                fix="It is made for one shape of the last axes.",
            )
        normal = x.layernorm(eps=self.eps, axis=self.axis)
        return normal if self.weight is None or self.bias is None else normal * self.weight + self.bias


class LayerNorm2d(LayerNorm):
    """Over the channels of images (batch, channels, height, width)."""

    def __call__(self, x: Tensor) -> Tensor:
        """x of shape (batch, channels, height, width) gives the same shape."""
        return super().__call__(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class RMSNorm(Module):
    """x divided by the root of the mean of its squares along the last axis."""

    def __init__(self, dim: int, eps: float = 1e-6, elementwise_affine: bool = True) -> None:
        self.dim, self.eps = dim, eps
        self.weight = Tensor.ones(dim) if elementwise_affine else None

    @property
    def elementwise_affine(self) -> bool:
        """Whether it scales."""
        return self.weight is not None

    def __call__(self, x: Tensor) -> Tensor:
        """x of shape (..., dim) gives the same shape."""
        wide = x.float() if x.dtype.itemsize < 4 else x
        normal = (wide * (wide.square().mean(-1, keepdim=True) + self.eps).rsqrt()).cast(x.dtype)
        return normal if self.weight is None else normal * self.weight


class GroupNorm(Module):
    """Over groups of channels, and every axis after them."""

    def __init__(self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True) -> None:
        if num_channels % num_groups:
            raise ShapeError(
                f"GroupNorm: {num_channels} channels do not divide into {num_groups} groups",
                fix="The channels must be a multiple of the groups.",
            )
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.weight = Tensor.ones(num_channels) if affine else None
        self.bias = Tensor.zeros(num_channels) if affine else None

    @property
    def affine(self) -> bool:
        """Whether it scales and shifts."""
        return self.weight is not None

    def __call__(self, x: Tensor) -> Tensor:
        """x of shape (batch, channels, ...) gives the same shape."""
        grouped = x.reshape(x.shape[0], self.num_groups, -1)
        normal = grouped.layernorm(eps=self.eps).reshape(x.shape)
        if self.weight is None or self.bias is None:
            return normal
        shape = (1, -1, *(1 for _ in x.shape[2:]))
        return normal * self.weight.reshape(shape) + self.bias.reshape(shape)


class InstanceNorm(GroupNorm):
    """Over every axis after the channels."""

    def __init__(self, num_features: int, eps: float = 1e-5, affine: bool = True) -> None:
        super().__init__(num_features, num_features, eps, affine)
        self.num_features = num_features
