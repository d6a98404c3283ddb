"""Optimisers that go along the gradient, or a running sum of gradients: SGD, LARS, Muon."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from typing import Unpack

from whit.errors import ArgumentError
from whit.nn.optim.base import Optimizer, StateOptions, number
from whit.nn.optim.norms import Normed
from whit.tensor import Tensor


class SGD(Normed):
    """Gradient descent.

    momentum        b = momentum * b + grad, and b is the way to go; with `nesterov`, grad + momentum * b
    weight_decay    added to the gradient, times the parameter
    classic         the learning rate is in b, so that a new rate does not reach what is in it already
    """

    _has_norms = False

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 0.001,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        classic: bool = False,
        fused: bool = False,
        **kept: Unpack[StateOptions],
    ) -> None:
        super().__init__(params, lr, fused, **kept)
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
        return self._along(index, grad, self._number(self.lr, weight))

    def _along(self, index: int, grad: Tensor, rate: Tensor) -> Tensor:
        """The gradient through the momentum, times the rate."""
        if self.classic:
            grad = grad * rate
        if self.momentum:
            total = self._write(self.b[index], self.momentum * self.b[index].cast(grad.dtype) + grad)
            grad = grad + self.momentum * total if self.nesterov else total
        return grad if self.classic else grad * rate


class LARS(SGD):
    """SGD whose rate for a parameter is in proportion to norm(parameter) / norm(gradient).

    `pre_wd`: the weight decay is in the momentum; else it is added afterwards.
    """

    _has_norms = True

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
        **kept: Unpack[StateOptions],
    ) -> None:
        super().__init__(params, lr, momentum, weight_decay, nesterov, classic, fused, **kept)
        self.tcoef, self.pre_wd = number("LARS", "tcoef", tcoef), pre_wd

    def _change(self, index: int, weight: Tensor, grad: Tensor) -> Tensor:
        size, slope = self._norms(index, weight, grad)
        trust = ((size > 0) & (slope > 0)).where(self.tcoef * size / (slope + self.wd * size), 1.0)
        rate = self._number(self.lr, weight)
        if self.pre_wd and self.wd:
            grad = grad + self.wd * weight
        change = self._along(index, grad, rate * self._for_each_element(index, trust))
        return change if self.pre_wd or not self.wd else change + rate * self.wd * weight


class Muon(Optimizer):
    """Momentum whose matrix is made orthogonal: every direction is followed as far, by Newton-Schulz steps.

    For weights of two axes and more; those of more are taken as (first, all others). Biases and embeddings belong to
    another optimiser. Tall matrices go sqrt(rows / columns) as far, as in PyTorch. `weight_decay` is AdamW's.
    With `fused`, matrices of one shape are changed as one: the number of kernels depends on the shapes alone.
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
        **kept: Unpack[StateOptions],
    ) -> None:
        params = list(params)
        for tensor in params:
            if isinstance(tensor, Tensor) and tensor.ndim < 2:
                raise ArgumentError(
                    f"Muon: a parameter of shape {tensor.shape} is no matrix",
                    f"parameter {tensor._made()}",
                    "Give it to another optimiser: OptimizerGroup(Muon(matrices), AdamW(others)).",
                )
        super().__init__(params, lr, fused, **kept)
        self.momentum = number("Muon", "momentum", momentum, below=1.0)
        self.wd = number("Muon", "weight_decay", weight_decay)
        self.eps = number("Muon", "eps", eps)
        if isinstance(ns_steps, bool) or not isinstance(ns_steps, int) or ns_steps < 0:
            raise ArgumentError(f"Muon: ns_steps={ns_steps!r}", fix="It is an integer, 0 or more.")
        self.nesterov, self.ns_steps, self.ns_coefficients = nesterov, ns_steps, tuple(ns_coefficients)
        self.b = self._keep()

    def _states(self) -> list[Tensor]:
        return self.b

    def _kind(self, tensor: Tensor) -> tuple[Hashable, ...]:
        return *super()._kind(tensor), tensor.reshape(tensor.shape[0], -1).shape

    def _change(self, index: int, weight: Tensor, grad: Tensor) -> Tensor:
        state = self.b[index]
        mean = self._write(state, self.momentum * state.cast(grad.dtype) + (1 - self.momentum) * grad)
        way = self.momentum * mean + (1 - self.momentum) * grad if self.nesterov else mean
        first = self.params[self._members[index][0]]
        rows, columns = first.reshape(first.shape[0], -1).shape
        matrices = way.reshape(-1, rows, columns)
        straight = matrices.newton_schulz(self.ns_steps, self.ns_coefficients, self.eps).reshape(way.shape)
        further = math.sqrt(max(1.0, rows / columns))
        return self._number(self.lr, weight) * (further * straight + self.wd * weight)
