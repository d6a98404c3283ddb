"""Limits of gradients, between `backward()` and a step. Everything stays lazy."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from whit.errors import ArgumentError
from whit.nn.optim.base import number, wide_dtype
from whit.nn.optim.flat import by_kind, joined
from whit.tensor import Tensor


def clip_grad_norm(params: Iterable[Tensor], max_norm: float, norm_type: float = 2.0) -> Tensor:
    """Scales all gradients together so that their norm is no more than `max_norm`; returns the norm before."""
    limit = number("clip_grad_norm", "max_norm", max_norm)
    if not isinstance(norm_type, int | float) or not norm_type > 0:
        raise ArgumentError(f"clip_grad_norm: norm_type={norm_type!r}", fix="It is above 0; math.inf is the largest.")
    found = [tensor for tensor in params if tensor.grad is not None]
    if not found:
        raise ArgumentError("clip_grad_norm: no parameter has a gradient", fix="Call backward() first.")
    total = norm_of_all([tensor.grad for tensor in found], norm_type)
    scale = (limit / (total + 1e-6)).minimum(1.0)
    for tensor in found:
        tensor.grad = tensor.grad * scale.to(tensor.device).cast(tensor.grad.dtype)
    return total


def clip_grad_value(params: Iterable[Tensor], clip_value: float) -> None:
    """Limits each element of each gradient to [-clip_value, clip_value]."""
    limit = number("clip_grad_value", "clip_value", clip_value)
    for tensor in params:
        if tensor.grad is not None:
            tensor.grad = tensor.grad.clip(-limit, limit)


def norm_of_all(gradients: Sequence[Tensor], kind: float) -> Tensor:
    """The norm of all gradients, in a number of kernels that does not depend on theirs."""
    parts = [whole.cast(wide_dtype(whole.dtype)).abs() for whole in joined_by_kind(gradients)]
    if math.isinf(kind):
        return _one_number([part.max() for part in parts]).max()
    sums = _one_number([(part.square() if kind == 2 else part**kind).sum() for part in parts]).sum()
    return sums.sqrt() if kind == 2 else sums ** (1 / kind)


def joined_by_kind(tensors: Sequence[Tensor]) -> list[Tensor]:
    """All elements, in one flat tensor for each dtype and device."""
    return [joined([tensors[i].detach() for i in places]) for places in by_kind(tensors).values()]


def _one_number(numbers: list[Tensor]) -> Tensor:
    """Numbers of several kinds side by side."""
    first, *others = numbers
    return first.stack(*(other.to(first.device).cast(first.dtype) for other in others)) if others else first
