"""The layers and functions that the models are written with, in whit. `theirs.py` has the same names for PyTorch."""

from __future__ import annotations

from typing import Any

from whit import Tensor
from whit.nn import (
    GRU,
    LSTM,
    Conv1d,
    Conv2d,
    ConvTranspose2d,
    Embedding,
    GroupNorm,
    LayerNorm,
    Linear,
    RMSNorm,
)
from whit.nn import BatchNorm as _BatchNorm

__all__ = [
    "GRU",
    "LSTM",
    "Conv1d",
    "Conv2d",
    "ConvTranspose2d",
    "Embedding",
    "GroupNorm",
    "LayerNorm",
    "Linear",
    "RMSNorm",
]


def BatchNorm(features: int, axes: int = 2) -> _BatchNorm:  # noqa: N802
    """Of one, two or three axes beside the batch and the channels."""
    return _BatchNorm(features)


class Conv3d:
    """A convolution over three axes."""

    def __init__(self, inputs: int, outputs: int, size: int, stride: int = 1, padding: int = 0) -> None:
        self.weight, self.bias = Tensor.zeros(outputs, inputs, size, size, size), Tensor.zeros(outputs)
        self.stride, self.padding = stride, padding

    def __call__(self, x: Tensor) -> Tensor:
        return x.conv2d(self.weight, self.bias, stride=self.stride, padding=self.padding)


class Weight:
    """A bare parameter."""

    def __init__(self, *shape: int) -> None:
        self.weight = Tensor.zeros(*shape)

    def __call__(self) -> Tensor:
        return self.weight


def cat(parts: list[Tensor], axis: int) -> Tensor:
    return Tensor.cat(*parts, dim=axis)


def stack(parts: list[Tensor], axis: int) -> Tensor:
    return Tensor.stack(*parts, dim=axis)


def pad(x: Tensor, widths: tuple[int, ...]) -> Tensor:
    return x.pad(widths)


def arange(size: int) -> Tensor:
    return Tensor.arange(size)


def gelu(x: Tensor) -> Tensor:
    return x.gelu()


def silu(x: Tensor) -> Tensor:
    return x.silu()


def leaky_relu(x: Tensor) -> Tensor:
    return x.leaky_relu(0.2)


def softplus(x: Tensor) -> Tensor:
    return x.softplus()


def max_pool(x: Tensor, size: int, stride: int, padding: int = 0) -> Tensor:
    return x.max_pool2d(kernel_size=size, stride=stride, padding=padding)


def avg_pool(x: Tensor, size: int, stride: int, padding: int = 0) -> Tensor:
    return x.avg_pool2d(kernel_size=size, stride=stride, padding=padding)


def nearest(x: Tensor, size: tuple[int, ...]) -> Tensor:
    return x.interpolate(size, mode="nearest")


def linear_resize(x: Tensor, size: tuple[int, ...]) -> Tensor:
    return x.interpolate(size, mode="linear", align_corners=False)


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False) -> Tensor:
    return q.scaled_dot_product_attention(k, v, mask, is_causal=causal)


def cross_entropy(x: Tensor, y: Tensor) -> Tensor:
    return x.cross_entropy(y)


def bce(x: Tensor, y: Any) -> Tensor:
    return x.binary_crossentropy_logits(y)


def where(condition: Tensor, yes: Any, no: Any) -> Tensor:
    return condition.where(yes, no)


def largest(x: Tensor, axis: int) -> Tensor:
    return x.max(axis)


def topk(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    return x.topk(k)


def index_add(x: Tensor, index: Tensor, source: Tensor) -> Tensor:
    return x.index_add(0, index, source)


def take(x: Tensor, axis: int, index: Tensor) -> Tensor:
    return x.gather(axis, index)


def repeat(x: Tensor, count: int, axis: int) -> Tensor:
    return x.repeat_interleave(count, axis)


def pixel_shuffle(x: Tensor, by: int) -> Tensor:
    n, c, h, w = x.shape
    x = x.reshape(n, c // by**2, by, by, h, w).permute(0, 1, 4, 2, 5, 3)
    return x.reshape(n, c // by**2, h * by, w * by)
