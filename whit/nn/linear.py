"""Layers with a weight that is multiplied: linear, convolutions, and the table of an embedding."""

from __future__ import annotations

import math
from typing import Any

from whit.errors import ArgumentError, DTypeError
from whit.nn.module import Module
from whit.tensor import Tensor


def uniform_weight(*shape: int, fan_in: int) -> Tensor:
    """Uniform in 1/sqrt(fan_in) around 0: what PyTorch starts linear layers and convolutions with, weight and bias."""
    bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0.0
    return Tensor.uniform(*shape, low=-bound, high=bound) if bound else Tensor.zeros(*shape)


class Linear(Module):
    """x @ weight.T + bias."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        self.weight = uniform_weight(out_features, in_features, fan_in=in_features)
        self.bias = uniform_weight(out_features, fan_in=in_features) if bias else None

    @property
    def in_features(self) -> int:
        """The size of the last axis of x."""
        return int(self.weight.shape[1])

    @property
    def out_features(self) -> int:
        """The size of the last axis of the result."""
        return int(self.weight.shape[0])

    def __call__(self, x: Tensor) -> Tensor:
        """x of shape (..., in_features) gives (..., out_features)."""
        return x.linear(self.weight.transpose(), self.bias)


def one_for_each_axis(name: str, value: int | tuple[int, ...], axes: int) -> tuple[int, ...]:
    """One number for each axis."""
    given = (value,) * axes if isinstance(value, int) else tuple(value)
    if len(given) != axes:
        raise ArgumentError(
            f"{name}: {value!r} has {len(given)} numbers", fix=f"Give one, or one for each of {axes} axes."
        )
    return given


class _Conv(Module):
    """What convolutions of any number of axes have in common."""

    axes = 2

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] | str = 0,
        dilation: int | tuple[int, ...] = 1,
        groups: int = 1,
        bias: bool = True,
    ) -> None:
        name = type(self).__name__
        if in_channels % groups or out_channels % groups:
            raise ArgumentError(
                f"{name}: {in_channels} channels in and {out_channels} out do not divide into {groups} groups",
                fix="Both must be multiples of groups.",
            )
        self.kernel_size = one_for_each_axis(name, kernel_size, self.axes)
        self.stride, self.dilation, self.groups = stride, dilation, groups
        self.padding = self._padding(name, padding)
        self.weight, self.bias = self._weights(in_channels, out_channels, bias)

    def _padding(self, name: str, padding: int | tuple[int, ...] | str) -> Any:
        """Numbers, or "same": as many outputs as inputs; before and after each axis, the last one first."""
        if not isinstance(padding, str):
            return padding
        if padding == "valid":
            return 0
        if padding != "same":
            raise ArgumentError(f"{name}: padding={padding!r}", fix='Give numbers, "same" or "valid".')
        if set(one_for_each_axis(name, self.stride, self.axes)) != {1}:
            raise ArgumentError(f'{name}: padding="same" with stride {self.stride}', fix="It needs a stride of 1.")
        dilations = one_for_each_axis(name, self.dilation, self.axes)
        found: list[int] = []
        for dilation, size in zip(dilations[::-1], self.kernel_size[::-1], strict=True):
            total = dilation * (size - 1)
            found += [total // 2, total - total // 2]
        return tuple(found)

    def _weights(self, in_channels: int, out_channels: int, bias: bool) -> tuple[Tensor, Tensor | None]:
        inside = in_channels // self.groups
        fan_in = inside * math.prod(self.kernel_size)
        weight = uniform_weight(out_channels, inside, *self.kernel_size, fan_in=fan_in)
        return weight, uniform_weight(out_channels, fan_in=fan_in) if bias else None

    @property
    def in_channels(self) -> int:
        """The size of axis 1 of x."""
        return int(self.weight.shape[1]) * self.groups

    @property
    def out_channels(self) -> int:
        """The size of axis 1 of the result."""
        return int(self.weight.shape[0])

    def __call__(self, x: Tensor) -> Tensor:
        """x of shape (batch, in_channels, ...) gives (batch, out_channels, ...)."""
        return x.conv2d(
            self.weight,
            self.bias,
            groups=self.groups,
            stride=self.stride,
            dilation=self.dilation,
            padding=self.padding,
        )


class Conv2d(_Conv):
    """Convolution over two axes: (batch, channels, height, width)."""


class Conv1d(_Conv):
    """Convolution over one axis: (batch, channels, length)."""

    axes = 1


class Conv3d(_Conv):
    """Convolution over three axes: (batch, channels, depth, height, width)."""

    axes = 3


class _ConvTranspose(_Conv):
    """The same turned round: each input spreads over a window of the output."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] = 0,
        output_padding: int | tuple[int, ...] = 0,
        dilation: int | tuple[int, ...] = 1,
        groups: int = 1,
        bias: bool = True,
    ) -> None:
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias)
        self.output_padding = output_padding

    def _weights(self, in_channels: int, out_channels: int, bias: bool) -> tuple[Tensor, Tensor | None]:
        inside = out_channels // self.groups
        fan_in = inside * math.prod(self.kernel_size)
        weight = uniform_weight(in_channels, inside, *self.kernel_size, fan_in=fan_in)
        return weight, uniform_weight(out_channels, fan_in=fan_in) if bias else None

    @property
    def in_channels(self) -> int:
        """The size of axis 1 of x."""
        return int(self.weight.shape[0])

    @property
    def out_channels(self) -> int:
        """The size of axis 1 of the result."""
        return int(self.weight.shape[1]) * self.groups

    def __call__(self, x: Tensor) -> Tensor:
        """x of shape (batch, in_channels, ...) gives (batch, out_channels, ...)."""
        return x.conv_transpose2d(
            self.weight,
            self.bias,
            groups=self.groups,
            stride=self.stride,
            dilation=self.dilation,
            padding=self.padding,
            output_padding=self.output_padding,
        )


class ConvTranspose2d(_ConvTranspose):
    """Transposed convolution over two axes."""


class ConvTranspose1d(_ConvTranspose):
    """Transposed convolution over one axis."""

    axes = 1


class Embedding(Module):
    """A row of the table for each index."""

    def __init__(self, vocab_size: int, embed_size: int) -> None:
        self.vocab_size, self.embed_size = vocab_size, embed_size
        self.weight = Tensor.randn(vocab_size, embed_size)

    def __call__(self, idx: Tensor) -> Tensor:
        """Integers of any shape give that shape and an axis of embed_size."""
        if not idx.dtype.is_int:
            raise DTypeError(f"Embedding: the indices are {idx.dtype.name}", fix="Cast them to an integer dtype.")
        return self.weight[idx]
