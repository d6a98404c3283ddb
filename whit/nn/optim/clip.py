"""Limits of gradients, between `backward()` and a step. Everything stays lazy."""

from __future__ import annotations

import math
from collections.abc import Iterable

from whit.errors import ArgumentError
from whit.nn.optim.base import number, wide_dtype
from whit.tensor import Tensor


def clip_grad_norm(params: Iterable[Tensor], max_norm: float, norm_type: float = 2.0) -> Tensor:
    """Scales all gradients together so that their norm is no more than `max_norm`; returns the norm before."""
    limit = number("clip_grad_norm", "max_norm", max_norm)
    if norm_type <= 0:
        raise ArgumentError(f"clip_grad_norm: norm_type={norm_type}", fix="It is above 0; math.inf is the largest.")
    found = [tensor for tensor in params if tensor.grad is not None]
    if not found:
        raise ArgumentError("clip_grad_norm: no parameter has a gradient", fix="Call backward() first.")
    parts: list[Tensor] = [tensor.grad.cast(wide_dtype(tensor.grad.dtype)).abs() for tensor in found]
    if math.isinf(norm_type):
        largest = [part.max() for part in parts]
        total = largest[0].stack(*largest[1:]).max()
    else:
        sums = [(part.square() if norm_type == 2 else part**norm_type).sum() for part in parts]
        whole = sums[0].stack(*sums[1:]).sum()
        total = whole.sqrt() if norm_type == 2 else whole ** (1 / norm_type)
    scale = (limit / (total + 1e-6)).minimum(1.0)
    for tensor in found:
        tensor.grad = tensor.grad * scale.cast(tensor.grad.dtype)
    return total


def clip_grad_value(params: Iterable[Tensor], clip_value: float) -> None:
    """Limits each element of each gradient to [-clip_value, clip_value]."""
    limit = number("clip_grad_value", "clip_value", clip_value)
    for tensor in params:
        if tensor.grad is not None:
            tensor.grad = tensor.grad.clip(-limit, limit)
