"""Optimisers that go along the gradient, or a running sum of gradients: SGD, LARS, Muon."""

from __future__ import annotations

import math
from collections.abc import Iterable

from whit.errors import ArgumentError, NotSupportedError
from whit.nn.optim.base import Optimizer, number
from whit.tensor import Tensor


class SGD(Optimizer):
    """Gradient descent.

    momentum        b = momentum * b + grad, and b is the way to go; with `nesterov`, grad + momentum * b
    weight_decay    added to the gradient, times the parameter
    classic         the learning rate is in b, so that a new rate does not reach what is in it already
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 0.001,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        classic: bool = False,
        fused: bool = False,
    ) -> None:
        super().__init__(params, lr, fused)
        name = type(self).__name__
        self.momentum = number(name, "momentum", momentum)
        self.wd = number(name, "weight_decay", weight_decay)
        self.nesterov, self.classic = nesterov, classic
        if nesterov and not momentum:
            raise ArgumentError(f"{name}: nesterov without momentum", fix="Give momentum= too.")
        self.b = self._keep() if momentum else []

    def _states(self) -> list[Tensor]:
        return self.b

    def _change(self, index: int, weight: Tensor, grad: Tensor) -> Tensor:
        if self.wd:
            grad = grad + self.wd * weight
        return self._along(index, grad, self.lr)

    def _along(self, index: int, grad: Tensor, rate: Tensor) -> Tensor:
        """The gradient through the momentum, times the rate."""
        if self.classic:
            grad = grad * rate.cast(grad.dtype)
        if self.momentum:
            total = self.b[index]
            total.assign(self.momentum * total + grad)
            grad = grad + self.momentum * total if self.nesterov else total
        return grad if self.classic else grad * rate.cast(grad.dtype)


class LARS(SGD):
    """SGD whose rate for a parameter is in proportion to norm(parameter) / norm(gradient).

    `pre_wd`: the weight decay is in the momentum; else it is added afterwards.
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 0.001,
        momentum: float = 0.9,
        weight_decay: float = 1e-4,
        nesterov: bool = False,
        classic: bool = True,
        pre_wd: bool = True,
        tcoef: float = 0.001,
        fused: bool = False,
    ) -> None:
        if fused:
            raise one_by_one("LARS", "norm")
        super().__init__(params, lr, momentum, weight_decay, nesterov, classic)
        self.tcoef, self.pre_wd = number("LARS", "tcoef", tcoef), pre_wd

    def _change(self, index: int, weight: Tensor, grad: Tensor) -> Tensor:
        size, slope = norm(weight), norm(grad)
        trust = ((size > 0) & (slope > 0)).where(self.tcoef * size / (slope + self.wd * size), 1.0)
        rate = self.lr.cast(grad.dtype) * trust
        if self.pre_wd and self.wd:
            grad = grad + self.wd * weight
        change = self._along(index, grad, rate)
        return change if self.pre_wd or not self.wd else change + self.lr * self.wd * weight


class Muon(Optimizer):
    """Momentum whose matrix is made orthogonal: every direction is followed as far, by Newton-Schulz steps.

    For weights of two axes and more; those of more are taken as (first, all others). Biases and embeddings belong to
    another optimiser. Tall matrices go sqrt(rows / columns) as far, as in PyTorch. `weight_decay` is AdamW's.
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 0.001,
        momentum: float = 0.95,
        weight_decay: float = 0.1,
        ns_steps: int = 5,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        nesterov: bool = True,
        eps: float = 1e-7,
        fused: bool = False,
    ) -> None:
        if fused:
            raise one_by_one("Muon", "matrix")
        super().__init__(params, lr)
        for tensor in self.params:
            if tensor.ndim < 2:
                raise ArgumentError(
                    f"Muon: a parameter of shape {tensor.shape} is no matrix",
                    f"parameter {tensor._made()}",
                    "Give it to another optimiser: OptimizerGroup(Muon(matrices), AdamW(others)).",
                )
        self.momentum = number("Muon", "momentum", momentum, below=1.0)
        self.wd = number("Muon", "weight_decay", weight_decay)
        self.eps = number("Muon", "eps", eps)
        self.nesterov, self.ns_steps, self.ns_coefficients = nesterov, ns_steps, tuple(ns_coefficients)
        self.b = self._keep()

    def _states(self) -> list[Tensor]:
        return self.b

    def _change(self, index: int, weight: Tensor, grad: Tensor) -> Tensor:
        mean = self.b[index]
        mean.assign(self.momentum * mean + (1 - self.momentum) * grad)
        way = self.momentum * mean + (1 - self.momentum) * grad if self.nesterov else mean
        matrix = way.reshape(way.shape[0], -1)
        rows, columns = matrix.shape
        straight = matrix.newton_schulz(self.ns_steps, self.ns_coefficients, self.eps).reshape(way.shape)
        further = math.sqrt(max(1.0, rows / columns))
        return self.lr.cast(weight.dtype) * (further * straight + self.wd * weight)


def norm(tensor: Tensor) -> Tensor:
    """The root of the sum of squares."""
    return tensor.square().sum().sqrt()


def one_by_one(name: str, what: str) -> NotSupportedError:
    """Why an optimiser has no fused form."""
    return NotSupportedError(f"{name}: fused=True", f"It needs the {what} of each parameter.", "Leave fused out.")
