"""Layers that leave out elements, or whole channels, while training."""

from __future__ import annotations

import math

from whit.errors import ArgumentError, ShapeError
from whit.ir.op import spell_shape
from whit.nn.module import Module
from whit.tensor import Tensor

ALPHA_AT_MINUS_INFINITY = -1.6732632423543772 * 1.0507009873554805  # of SELU


def dropped(x: Tensor, p: float, training: bool) -> Tensor:
    """`x.dropout(p)` if `training` says so, whatever `Tensor.training` is."""
    if not training:
        return x
    if Tensor.training:
        return x.dropout(p)
    with Tensor.train():
        return x.dropout(p)


def kept_channels(x: Tensor, p: float, axes: int) -> Tensor:
    """1 / (1 - p) for channels that stay and 0 for others, (batch, channels, 1 ...); while training. `axes` come after
    the channels, and the batch may be missing."""
    if x.ndim not in (axes + 1, axes + 2):
        raise ShapeError(
            f"dropout of channels: a tensor {spell_shape(x.shape)} with {axes} axes after the channels",
            x._made(),
            "It is (batch, channels, ...), or without the batch.",
        )
    lead = x.shape[: x.ndim - axes]
    return dropped(Tensor.ones(*lead, *(1 for _ in range(axes)), dtype=x.dtype, device=x.device), p, True)


def alpha_dropped(x: Tensor, p: float, training: bool, axes: int | None = None) -> Tensor:
    """Elements get the limit of SELU at minus infinity, and the rest is scaled so that mean and variance stay; with
    `axes`, whole channels."""
    check_probability(p)
    if not training or p == 0:
        return x
    if p == 1:
        return x * 0
    a = 1 / math.sqrt((1 - p) * (1 + p * ALPHA_AT_MINUS_INFINITY**2))
    b = -a * ALPHA_AT_MINUS_INFINITY * p
    ones = Tensor.ones(*x.shape, dtype=x.dtype, device=x.device)
    kept = dropped(ones, p, True) if axes is None else kept_channels(x, p, axes)
    return (kept > 0).where(x, ALPHA_AT_MINUS_INFINITY) * a + b


def check_probability(p: float) -> None:
    """Refuses what is no number from 0 to 1."""
    if isinstance(p, bool) or not isinstance(p, int | float) or not 0 <= p <= 1:
        raise ArgumentError(f"dropout: p={p!r} is no probability", fix="Use one from 0 to 1.")


class _Dropout(Module):
    """`inplace` is accepted, and changes nothing here."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        check_probability(p)
        self.p = p


class Dropout(_Dropout):
    """While training each element is 0 with probability p, and the others are larger for it."""

    def __call__(self, x: Tensor) -> Tensor:
        return dropped(x, self.p, self.training)


class Dropout2d(_Dropout):
    """The same with whole channels of (batch, channels, height, width)."""

    axes = 2

    def __call__(self, x: Tensor) -> Tensor:
        return x * kept_channels(x, self.p, self.axes) if self.training and self.p else x


class Dropout1d(Dropout2d):
    """The same with whole channels of (batch, channels, length)."""

    axes = 1


class Dropout3d(Dropout2d):
    """The same with whole channels of (batch, channels, depth, height, width)."""

    axes = 3


class AlphaDropout(_Dropout):
    """Dropout for networks of SELU: mean and variance stay."""

    def __call__(self, x: Tensor) -> Tensor:
        return alpha_dropped(x, self.p, self.training)


class FeatureAlphaDropout(_Dropout):
    """The same with whole channels: all axes after (batch, channels)."""

    def __call__(self, x: Tensor) -> Tensor:
        return alpha_dropped(x, self.p, self.training, max(x.ndim - 2, 0))
