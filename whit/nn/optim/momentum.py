"""Optimisers that go along the gradient, or a running sum of gradients: SGD, LARS, Muon."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any, ClassVar, Unpack

from whit.dtype import dtypes
from whit.errors import ArgumentError
from whit.nn.optim.base import Optimizer, Params, StateOptions, number
from whit.nn.optim.norms import Normed
from whit.tensor import Tensor


class SGD(Normed):
    """Gradient descent.

    momentum        b = momentum * b + (1 - dampening) * grad, and b is the way to go; with `nesterov`, grad +
                    momentum * b. The first b is grad
    weight_decay    added to the gradient, times the parameter
    classic         the learning rate is in b, so that a new rate does not reach what is in it already
    """

    _has_norms = False
    saved: ClassVar = {"momentum_buffer": "b"}

    def __init__(
        self,
        params: Params,
        lr: float = 0.001,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        classic: bool = False,
        fused: bool | None = False,
        *,
        dampening: float = 0.0,
        **kept: Unpack[StateOptions],
    ) -> None:
        settings = {"momentum": momentum, "weight_decay": weight_decay, "nesterov": nesterov, "dampening": dampening}
        super().__init__(params, lr, fused, {**settings, **self._more_settings()}, **kept)
        self.classic = classic
        for group in self.param_groups:
            if group["nesterov"] and (not group["momentum"] or group["dampening"]):
                raise ArgumentError(
                    f"{type(self).__name__}: nesterov without momentum",
                    fix="Give momentum= too, and no dampening=.",
                )
        self.b = self._keep() if self._asked("momentum") else []
        if self._asked("dampening"):
            self.steps = Tensor([0.0], dtype=dtypes.float32, device=self.device, requires_grad=False).realize()

    def _more_settings(self) -> dict[str, Any]:
        return {}

    @property
    def momentum(self) -> float:
        """That of the first group."""
        return float(self.param_groups[0]["momentum"])

    def _begin(self) -> list[Tensor]:
        if not self._asked("dampening"):
            return []
        self._write(self.steps, self.steps + 1)
        return [self.steps]

    def _set_count(self, steps: float) -> None:
        if self._asked("dampening"):
            self.steps.assign(Tensor([max(steps, 1.0)], device=self.device)).realize()

    def _change(self, index: int, weight: Tensor, grad: Tensor) -> Tensor:
        return self._along(index, self._decayed(index, weight, grad), self._rate(index, weight))

    def _along(self, index: int, grad: Tensor, rate: Tensor) -> Tensor:
        """The gradient through the momentum, times the rate."""
        group = self._group(index)
        momentum, dampening = group["momentum"], group["dampening"]
        if self.classic:
            grad = grad * rate
        if momentum:
            share: Any = grad
            if dampening:
                share = (self._number(self.steps, grad) == 1).where(grad, (1 - dampening) * grad)
            total = self._write(self.b[index], momentum * self.b[index].cast(grad.dtype) + share)
            grad = grad + momentum * total if group["nesterov"] else total
        return grad if self.classic else grad * rate


class LARS(SGD):
    """SGD whose rate for a parameter is in proportion to norm(parameter) / norm(gradient).

    `pre_wd`: the weight decay is in the momentum; else it is added afterwards.
    """

    _has_norms = True

    def __init__(
        self,
        params: Params,
        lr: float = 0.001,
        momentum: float = 0.9,
        weight_decay: float = 1e-4,
        nesterov: bool = False,
        classic: bool = True,
        pre_wd: bool = True,
        tcoef: float = 0.001,
        fused: bool | None = False,
        **kept: Unpack[StateOptions],
    ) -> None:
        self._tcoef, self.pre_wd = number("LARS", "tcoef", tcoef), pre_wd
        super().__init__(params, lr, momentum, weight_decay, nesterov, classic, fused, **kept)

    def _more_settings(self) -> dict[str, Any]:
        return {"tcoef": self._tcoef}

    def _change(self, index: int, weight: Tensor, grad: Tensor) -> Tensor:
        group = self._group(index)
        decay, share = group["weight_decay"], group["tcoef"]
        size, slope = self._norms(index, weight, grad)
        trust = ((size > 0) & (slope > 0)).where(share * size / (slope + decay * size), 1.0)
        rate = self._rate(index, weight)
        if self.pre_wd and decay:
            grad = grad + decay * weight
        change = self._along(index, grad, rate * self._for_each_element(index, trust))
        return change if self.pre_wd or not decay else change + rate * decay * weight


class Muon(Optimizer):
    """Momentum whose matrix is made orthogonal: every direction is followed as far, by Newton-Schulz steps.

    For weights of two axes and more; those of more are taken as (first, all others). Biases and embeddings belong to
    another optimiser. Tall matrices go sqrt(rows / columns) as far, as in PyTorch. `weight_decay` is AdamW's.
    With `fused`, matrices of one shape are changed as one: the number of kernels depends on the shapes alone.
    """

    below: ClassVar = {"momentum": 1.0}
    takes_complex = False
    saved: ClassVar = {"momentum_buffer": "b"}

    def __init__(
        self,
        params: Params,
        lr: float = 0.001,
        momentum: float = 0.95,
        weight_decay: float = 0.1,
        ns_steps: int = 5,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        nesterov: bool = True,
        eps: float = 1e-7,
        fused: bool | None = False,
        **kept: Unpack[StateOptions],
    ) -> None:
        settings = {"momentum": momentum, "weight_decay": weight_decay, "nesterov": nesterov, "eps": eps}
        super().__init__(params, lr, fused, settings, **kept)
        if isinstance(ns_steps, bool) or not isinstance(ns_steps, int) or ns_steps < 0:
            raise ArgumentError(f"Muon: ns_steps={ns_steps!r}", fix="It is an integer, 0 or more.")
        self.ns_steps, self.ns_coefficients = ns_steps, tuple(ns_coefficients)
        self.b = self._keep()

    def _check_fused(self, fused: bool) -> None:
        for tensor in self.params:
            if tensor.ndim < 2:
                raise ArgumentError(
                    f"Muon: a parameter of shape {tensor.shape} is no matrix",
                    f"parameter {tensor._made()}",
                    "Give it to another optimiser: OptimizerGroup(Muon(matrices), AdamW(others)).",
                )

    def _kind(self, tensor: Tensor) -> tuple[Hashable, ...]:
        return *super()._kind(tensor), tensor.reshape(tensor.shape[0], -1).shape

    def _change(self, index: int, weight: Tensor, grad: Tensor) -> Tensor:
        group, state = self._group(index), self.b[index]
        momentum = group["momentum"]
        mean = self._write(state, momentum * state.cast(grad.dtype) + (1 - momentum) * grad)
        way = momentum * mean + (1 - momentum) * grad if group["nesterov"] else mean
        first = self.params[self._members[index][0]]
        rows, columns = first.reshape(first.shape[0], -1).shape
        matrices = way.reshape(-1, rows, columns)
        straight = matrices.newton_schulz(self.ns_steps, self.ns_coefficients, group["eps"]).reshape(way.shape)
        further = math.sqrt(max(1.0, rows / columns))
        change: Tensor = self._rate(index, weight) * (further * straight + group["weight_decay"] * weight)
        return change
