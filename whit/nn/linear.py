"""Layers with a weight that is multiplied: linear and bilinear ones, and convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from whit.dtype import DTypeLike
from whit.errors import ArgumentError
from whit.ir.op import spell_shape
from whit.nn.functional.linear import bilinear
from whit.nn.module import Module
from whit.nn.placed import placed
from whit.tensor import Tensor


def uniform_weight(*shape: int, fan_in: int) -> Tensor:
    """Uniform in 1/sqrt(fan_in) around 0: what PyTorch starts linear layers and convolutions with, weight and bias."""
    bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0.0
    return Tensor.uniform(*shape, low=-bound, high=bound) if bound else Tensor.zeros(*shape)


class Linear(Module):
    """x @ weight.T + bias."""

    @placed
    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
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


PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _Conv(Module):
    """What convolutions of any number of axes have in common."""

    axes = 2
    any_axes = False  # a kernel of more or fewer axes is one of those

    @placed
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
        padding_mode: str = "zeros",
        device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        name = type(self).__name__
        if padding_mode not in PADDING_MODES:
            raise ArgumentError(
                f"{name}: padding_mode={padding_mode!r}", fix=f"Use one of {', '.join(map(repr, PADDING_MODES))}."
            )
        self.padding_mode = padding_mode
        if in_channels % groups or out_channels % groups:
            raise ArgumentError(
                f"{name}: {in_channels} channels in and {out_channels} out do not divide into {groups} groups",
                fix="Both must be multiples of groups.",
            )
        if self.any_axes and not isinstance(kernel_size, int):
            self.axes = len(tuple(kernel_size))
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
        """x of shape (batch, in_channels, ...) gives (batch, out_channels, ...); the batch may be missing."""
        if x.ndim == self.axes + 1:
            return self(x.unsqueeze(0)).squeeze(0)
        padding = self.padding
        if self.padding_mode != "zeros":
            x, padding = x.pad(self._around(), self.padding_mode), 0
        return x.conv2d(
            self.weight, self.bias, groups=self.groups, stride=self.stride, dilation=self.dilation, padding=padding
        )

    def _around(self) -> tuple[int, ...]:
        """The padding as `pad` takes it: before and after each axis, the last one first."""
        given = one_for_each_axis("padding", self.padding, self.axes) if isinstance(self.padding, int) else self.padding
        if len(given) == 2 * self.axes:
            return tuple(given)
        return tuple(size for each in reversed(given) for size in (each, each))


class Conv2d(_Conv):
    """Convolution over two axes: (batch, channels, height, width). A kernel of three numbers makes it one of three."""

    any_axes = True


class Conv1d(_Conv):
    """Convolution over one axis: (batch, channels, length)."""

    axes = 1


class Conv3d(_Conv):
    """Convolution over three axes: (batch, channels, depth, height, width)."""

    axes = 3


class _ConvTranspose(_Conv):
    """The same turned round: each input spreads over a window of the output."""

    @placed
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] = 0,
        output_padding: int | tuple[int, ...] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | tuple[int, ...] = 1,
        padding_mode: str = "zeros",
        device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias)
        if padding_mode != "zeros":
            raise ArgumentError(f"{type(self).__name__}: padding_mode={padding_mode!r}", fix='It is "zeros".')
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

    def _more(self, x: Tensor, output_size: Sequence[int]) -> tuple[int, ...]:
        """The output_padding that gives a size."""
        settings = (self.stride, self.padding, self.dilation)
        steps, pads, gaps = (one_for_each_axis("output_size", each, self.axes) for each in settings)
        found = []
        for axis, wanted in enumerate(tuple(output_size)[-self.axes :]):
            n, kernel = x.shape[axis - self.axes], self.kernel_size[axis]
            least = (n - 1) * steps[axis] - 2 * pads[axis] + gaps[axis] * (kernel - 1) + 1
            if not 0 <= wanted - least < max(steps[axis], gaps[axis]):
                raise ArgumentError(
                    f"{type(self).__name__}: output_size={tuple(output_size)!r} of {spell_shape(x.shape)}",
                    fix=f"Axis {axis} is at least {least}, and less than a stride more.",
                )
            found.append(wanted - least)
        return tuple(found)

    def __call__(self, x: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """x of shape (batch, in_channels, ...) gives (batch, out_channels, ...); the batch may be missing."""
        if x.ndim == self.axes + 1:
            return self(x.unsqueeze(0), output_size).squeeze(0)
        return x.conv_transpose2d(
            self.weight,
            self.bias,
            groups=self.groups,
            stride=self.stride,
            dilation=self.dilation,
            padding=self.padding,
            output_padding=self.output_padding if output_size is None else self._more(x, output_size),
        )


class ConvTranspose2d(_ConvTranspose):
    """Transposed convolution over two axes."""


class ConvTranspose1d(_ConvTranspose):
    """Transposed convolution over one axis."""

    axes = 1


class ConvTranspose3d(_ConvTranspose):
    """Transposed convolution over three axes."""

    axes = 3


class Bilinear(Module):
    """sum over i and j of x1[..., i] * weight[out, i, j] * x2[..., j], plus bias."""

    @placed
    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.weight = uniform_weight(out_features, in1_features, in2_features, fan_in=in1_features)
        self.bias = uniform_weight(out_features, fan_in=in1_features) if bias else None

    def __call__(self, x1: Tensor, x2: Tensor) -> Tensor:
        """x1 of shape (..., in1_features) and x2 of (..., in2_features) give (..., out_features)."""
        return bilinear(x1, x2, self.weight, self.bias)
