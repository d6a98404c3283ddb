"""Limits of gradients with PyTorch's arguments; `whit.nn.optim` has the functions."""

from __future__ import annotations

from collections.abc import Iterable

from whit.errors import UserError
from whit.nn.optim.clip import clip_grad_norm, clip_grad_value, norm_of_all
from whit.tensor import Tensor

Tensors = Tensor | Iterable[Tensor]


def _listed(parameters: Tensors) -> list[Tensor]:
    return [parameters] if isinstance(parameters, Tensor) else list(parameters)


def clip_grad_norm_(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scales all gradients together so that their norm is no more than `max_norm`; returns the norm before.

    Everything stays lazy, but with `error_if_nonfinite`, which reads the norm.
    """
    found = [tensor for tensor in _listed(parameters) if tensor.grad is not None]
    if not found:
        return Tensor(0.0)
    total = clip_grad_norm(found, max_norm, norm_type)
    if error_if_nonfinite and not bool(total.isfinite().item()):
        raise UserError(f"clip_grad_norm_: the norm is {total.item()}", fix="Look for the gradient that is not finite.")
    return total


def clip_grad_value_(parameters: Tensors, clip_value: float, foreach: bool | None = None) -> None:
    """Limits each element of each gradient to [-clip_value, clip_value]."""
    clip_grad_value(_listed(parameters), clip_value)


def get_total_norm(
    tensors: Tensors, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """The norm of all elements of some tensors."""
    found = _listed(tensors)
    return norm_of_all(found, norm_type) if found else Tensor(0.0)


def clip_grads_with_norm_(
    parameters: Tensors, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scales all gradients by max_norm / total_norm, if that makes them smaller."""
    scale = (max_norm / (total_norm + 1e-6)).minimum(1)
    for tensor in _listed(parameters):
        if tensor.grad is not None:
            tensor.grad = tensor.grad * scale.cast(tensor.grad.dtype)
