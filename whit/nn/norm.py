"""Layers that normalise: each brings means to 0 and variances to 1 over some axes, then scales and shifts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from whit.dtype import DTypeLike, dtypes
from whit.errors import ArgumentError, ShapeError
from whit.ir.op import spell_shape
from whit.nn.functional.norms import (
    check_last,
    group_norm,
    instance_norm,
    keep_running,
    local_response_norm,
    rms_norm,
    shifted_and_scaled,
)
from whit.nn.module import Module
from whit.nn.placed import placed
from whit.tensor import Tensor
from whit.tensor.told import told


class _Running(Module):
    """Weights for each channel, and statistics that are kept while training."""

    num_features: int
    eps: float
    momentum: float | None
    track_running_stats: bool
    weight: Tensor | None
    bias: Tensor | None

    def _make(
        self, num_features: int, eps: float, momentum: float | None, affine: bool, track_running_stats: bool
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

    @property
    def affine(self) -> bool:
        """Whether it scales and shifts."""
        return self.weight is not None

    def _counted(self) -> float | Tensor:
        """One more batch; the share that it has in the running statistics. Without a momentum all batches are equal."""
        self.num_batches_tracked += 1
        return 1.0 / self.num_batches_tracked.float() if self.momentum is None else self.momentum


class BatchNorm(_Running):
    """Over the batch and every axis after the channels, which are axis 1. `sz=` is `num_features=`.

    While training (`Tensor.training`, or `model.train()`) the statistics are those of the batch, and running ones are
    kept; otherwise the running ones are used. BatchNorm1d, 2d and 3d have PyTorch's order of arguments.
    """

    aliases: ClassVar = {"sz": "num_features"}

    @placed
    def __init__(
        self,
        num_features: int | None = None,
        eps: float = 1e-5,
        affine: bool = True,
        track_running_stats: bool = True,
        momentum: float | None = 0.1,
        sz: int | None = None,
        device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        count = sz if num_features is None else num_features
        if count is None:
            raise ArgumentError(f"{type(self).__name__}: how many channels?", fix="Give num_features.")
        self._make(count, eps, momentum, affine, track_running_stats)

    def calc_stats(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of each channel: of the batch while training, else the running ones."""
        if self.track_running_stats and not self.training:
            return self.running_mean, self.running_var
        axes = tuple(axis for axis in range(x.ndim) if axis != 1)
        variance, mean = x.var_mean(axis=axes, correction=0)
        return mean, variance

    def __call__(self, x: Tensor) -> Tensor:
        """x of shape (batch, num_features, ...) gives the same shape."""
        mean, variance = self.calc_stats(x)
        if self.track_running_stats and self.training:
            keep_running(x, mean, variance, self.running_mean, self.running_var, self._counted())
        result = x.batchnorm(self.weight, self.bias, mean, (variance + self.eps).rsqrt())
        if self.training or not self.track_running_stats:
            return result
        return told("batch_norm", result, x, self.weight, self.bias, mean, variance, eps=self.eps)


class BatchNorm2d(BatchNorm):
    """BatchNorm under PyTorch's name for images, with its order of arguments."""

    @placed
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        name = type(self).__name__
        if isinstance(momentum, bool):
            raise ArgumentError(
                f"{name}: momentum={momentum!r}",
                fix="The third argument is PyTorch's momentum here; tinygrad's is affine: write affine= or momentum=.",
            )
        self._make(num_features, eps, momentum, affine, track_running_stats)


class BatchNorm1d(BatchNorm2d):
    """BatchNorm under PyTorch's name for (batch, channels) and (batch, channels, length)."""


class BatchNorm3d(BatchNorm2d):
    """BatchNorm under PyTorch's name for volumes."""


class LayerNorm(Module):
    """Over the last axes, which have this shape."""

    @placed
    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.axis = tuple(range(-len(self.normalized_shape), 0))
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.weight = Tensor.ones(*self.normalized_shape) if elementwise_affine else None
        self.bias = Tensor.zeros(*self.normalized_shape) if elementwise_affine and bias else None

    def __call__(self, x: Tensor) -> Tensor:
        """x of shape (..., *normalized_shape) gives the same shape."""
        check_last("LayerNorm", x, self.normalized_shape)
        return shifted_and_scaled(x, self.weight, self.bias, self.axis, self.eps)


class LayerNorm2d(LayerNorm):
    """Over the channels of images (batch, channels, height, width)."""

    def __call__(self, x: Tensor) -> Tensor:
        """x of shape (batch, channels, height, width) gives the same shape."""
        return super().__call__(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class RMSNorm(Module):
    """x divided by the root of the mean of its squares along the last axes. PyTorch's eps is that of the dtype."""

    @placed
    def __init__(
        self,
        dim: int | Sequence[int],
        eps: float | None = 1e-6,
        elementwise_affine: bool = True,
        device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        self.dim = dim if isinstance(dim, int) else tuple(dim)
        self.eps = eps
        self.weight = Tensor.ones(*self.normalized_shape) if elementwise_affine else None

    @property
    def normalized_shape(self) -> tuple[int, ...]:
        """The last axes of x."""
        return (self.dim,) if isinstance(self.dim, int) else self.dim

    @property
    def elementwise_affine(self) -> bool:
        """Whether it scales."""
        return self.weight is not None

    def __call__(self, x: Tensor) -> Tensor:
        """x of shape (..., dim) gives the same shape."""
        return rms_norm(x, self.normalized_shape, self.weight, self.eps)


class GroupNorm(Module):
    """Over groups of channels, and every axis after them."""

    @placed
    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
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
        return group_norm(x, self.num_groups, self.weight, self.bias, self.eps)


class InstanceNorm(GroupNorm):
    """Over every axis after the channels. InstanceNorm1d, 2d and 3d have PyTorch's arguments, and no weights unless
    they are asked for."""

    @placed
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__(num_features, num_features, eps, affine)
        self.num_features = num_features


class InstanceNorm2d(_Running):
    """Over height and width of images; the batch may be missing."""

    axes = 2

    @placed
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        self._make(num_features, eps, momentum, affine, track_running_stats)

    def __call__(self, x: Tensor) -> Tensor:
        """x of shape (batch, channels, ...) gives the same shape."""
        if x.ndim not in (self.axes + 1, self.axes + 2):
            raise ShapeError(
                f"{type(self).__name__}: {spell_shape(x.shape)}",
                x._made(),
                f"It is (batch, channels) and {self.axes} axes, or without the batch.",
            )
        rows = x if x.ndim == self.axes + 2 else x.unsqueeze(0)
        mean, variance = (self.running_mean, self.running_var) if self.track_running_stats else (None, None)
        momentum: float | Tensor = 0.0
        if self.track_running_stats and self.training:
            momentum = self._counted()
        uses_input = self.training or not self.track_running_stats
        found = instance_norm(
            rows,
            mean if self.training or not uses_input else None,
            variance if self.training or not uses_input else None,
            self.weight,
            self.bias,
            uses_input,
            momentum,
            self.eps,
        )
        return found if x.ndim == self.axes + 2 else found.squeeze(0)


class InstanceNorm1d(InstanceNorm2d):
    """Over the length of (batch, channels, length)."""

    axes = 1


class InstanceNorm3d(InstanceNorm2d):
    """Over the space of volumes."""

    axes = 3


class LocalResponseNorm(Module):
    """x / (k + alpha * mean of squares of `size` channels around) ** beta."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def __call__(self, x: Tensor) -> Tensor:
        """x of shape (batch, channels, ...) gives the same shape."""
        return local_response_norm(x, self.size, self.alpha, self.beta, self.k)
