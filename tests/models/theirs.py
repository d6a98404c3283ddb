"""The names of `ours.py` in PyTorch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import (
    GRU,
    LSTM,
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose2d,
    Embedding,
    GroupNorm,
    LayerNorm,
    Linear,
)
from torch.nn import functional as f

__all__ = [
    "GRU",
    "LSTM",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose2d",
    "Embedding",
    "GroupNorm",
    "LayerNorm",
    "Linear",
]


def BatchNorm(features: int, axes: int = 2) -> torch.nn.Module:  # noqa: N802
    return (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d)[axes - 1](features)


def RMSNorm(dim: int) -> torch.nn.Module:  # noqa: N802
    return torch.nn.RMSNorm(dim, eps=1e-6)


class Weight(torch.nn.Module):
    """A bare parameter."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(*shape))

    def forward(self) -> Tensor:
        return self.weight


def cat(parts: list[Tensor], axis: int) -> Tensor:
    return torch.cat(parts, axis)


def stack(parts: list[Tensor], axis: int) -> Tensor:
    return torch.stack(parts, axis)


def pad(x: Tensor, widths: tuple[int, ...]) -> Tensor:
    return f.pad(x, widths)


def arange(size: int) -> Tensor:
    return torch.arange(size)


def gelu(x: Tensor) -> Tensor:
    return f.gelu(x, approximate="tanh")


def silu(x: Tensor) -> Tensor:
    return f.silu(x)


def leaky_relu(x: Tensor) -> Tensor:
    return f.leaky_relu(x, 0.2)


def softplus(x: Tensor) -> Tensor:
    return f.softplus(x)


def max_pool(x: Tensor, size: int, stride: int, padding: int = 0) -> Tensor:
    return f.max_pool2d(x, size, stride, padding)


def avg_pool(x: Tensor, size: int, stride: int, padding: int = 0) -> Tensor:
    return f.avg_pool2d(x, size, stride, padding)


def nearest(x: Tensor, size: tuple[int, ...]) -> Tensor:
    return f.interpolate(x, size, mode="nearest")


def linear_resize(x: Tensor, size: tuple[int, ...]) -> Tensor:
    return f.interpolate(x, size, mode="bilinear", align_corners=False)


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False) -> Tensor:
    return f.scaled_dot_product_attention(q, k, v, mask, is_causal=causal)


def cross_entropy(x: Tensor, y: Tensor) -> Tensor:
    return f.cross_entropy(x, y)


def bce(x: Tensor, y: Any) -> Tensor:
    return f.binary_cross_entropy_with_logits(x, y)


def where(condition: Tensor, yes: Any, no: Any) -> Tensor:
    return torch.where(condition, yes, no)


def largest(x: Tensor, axis: int) -> Tensor:
    return x.amax(axis)


def topk(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    return x.topk(k)


def index_add(x: Tensor, index: Tensor, source: Tensor) -> Tensor:
    return x.index_add(0, index, source)


def take(x: Tensor, axis: int, index: Tensor) -> Tensor:
    return x.gather(axis, index)


def repeat(x: Tensor, count: int, axis: int) -> Tensor:
    return x.repeat_interleave(count, axis)


def pixel_shuffle(x: Tensor, by: int) -> Tensor:
    return f.pixel_shuffle(x, by)
