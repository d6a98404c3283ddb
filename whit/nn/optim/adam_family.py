"""Relatives of Adam whose numbers depend on the step: Adamax, NAdam, RAdam."""

from __future__ import annotations

import math
from typing import ClassVar, Unpack

from whit.dtype import dtypes
from whit.nn.optim.base import Params, StateOptions
from whit.nn.optim.counted import Counted
from whit.nn.optim.groups import Group
from whit.tensor import Tensor

MOMENTUM_BASE = 0.96  # of the schedule of momenta in NAdam's paper
LEAST_RHO = 5.0  # below it RAdam has too few squares to divide by


def power(base: float, step: Tensor) -> Tensor:
    """base ** step."""
    return (step * math.log(base)).exp() if base > 0 else step * 0


def correction(base: float, step: Tensor) -> Tensor:
    """1 - base ** step, with all digits."""
    return -(step * math.log(base)).expm1() if base > 0 else step * 0 + 1


class Adamax(Counted):
    """Adam with the largest of fading gradients in place of the root of a mean of squares."""

    saved: ClassVar = {"exp_avg": "m", "exp_inf": "v"}

    def __init__(
        self,
        params: Params,
        lr: float = 0.002,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        fused: bool | None = False,
        **kept: Unpack[StateOptions],
    ) -> None:
        super().__init__(params, lr, fused, {"betas": betas, "eps": eps, "weight_decay": weight_decay}, **kept)
        self.m, self.v = self._keep(), self._keep()

    def _numbers_at(self, step: Tensor, group: Group) -> list[Tensor]:
        return [group.lr / correction(group["betas"][0], step)]

    def _change(self, index: int, weight: Tensor, grad: Tensor) -> Tensor:
        group, grad = self._group(index), self._decayed(index, weight, grad)
        b1, b2 = group["betas"]
        (rate,) = self._numbered(index, weight, 1)
        mean = self._mix(self.m[index], grad, b1)
        largest = (self.v[index].cast(grad.dtype) * b2).maximum(grad.abs() + group["eps"])
        return rate * mean / self._write(self.v[index], largest)


class NAdam(Counted):
    """Adam with Nesterov's momentum, which grows with the steps."""

    saved: ClassVar = {"exp_avg": "m", "exp_avg_sq": "v", "mu_product": "mu_product"}

    def __init__(
        self,
        params: Params,
        lr: float = 0.002,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum_decay: float = 0.004,
        decoupled_weight_decay: bool = False,
        fused: bool | None = False,
        **kept: Unpack[StateOptions],
    ) -> None:
        settings = {"betas": betas, "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay}
        super().__init__(params, lr, fused, {**settings, "decoupled_weight_decay": decoupled_weight_decay}, **kept)
        self.m, self.v = self._keep(), self._keep()
        self.products = [
            Tensor([1.0], dtype=dtypes.float32, device=self.device, requires_grad=False) for _ in self.param_groups
        ]

    @property
    def mu_product(self) -> list[Tensor]:
        """The product of momenta so far, for each tensor that is changed."""
        return [self.products[self._places[members[0]]].reshape(()) for members in self._members]

    def _states(self) -> list[Tensor]:
        return [*self.m, *self.v, *self.products]

    def _pieces(self, states: list[Tensor]) -> list[Tensor]:
        if all(state.ndim for state in states):
            return super()._pieces(states)
        return [self.products[place].reshape(()) for place in self._places]

    def _numbers_at(self, step: Tensor, group: Group) -> list[Tensor]:
        """What gradient and mean are multiplied by, and the correction of squares."""
        b1, b2 = group["betas"]
        now, after = (b1 * (1 - 0.5 * power(MOMENTUM_BASE, at * group["momentum_decay"])) for at in (step, step + 1))
        place = next(i for i, each in enumerate(self._groups.content) if each is group)
        product = self._write(self.products[place], self.products[place] * now)
        first = group.lr * (1 - now) / (1 - product)
        second = group.lr * after / (1 - product * after)
        return [first, second, correction(b2, step)]

    def _change(self, index: int, weight: Tensor, grad: Tensor) -> Tensor:
        group, decay = self._group(index), self._group(index)["weight_decay"]
        grad = grad if group["decoupled_weight_decay"] else self._decayed(index, weight, grad)
        first, second, squares = self._numbered(index, weight, 3)
        b1, b2 = group["betas"]
        left: Tensor | float = 0.0
        if decay and group["decoupled_weight_decay"]:
            left = self._rate(index, weight) * decay * weight
        mean = self._mix(self.m[index], grad, b1)
        root = (self._mix(self.v[index], grad * grad, b2) / squares).sqrt() + group["eps"]
        found: Tensor = left + (first * grad + second * mean) / root
        return found


class RAdam(Counted):
    """Adam that goes along the mean of gradients until the mean of squares is known well enough."""

    saved: ClassVar = {"exp_avg": "m", "exp_avg_sq": "v"}

    def __init__(
        self,
        params: Params,
        lr: float = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        decoupled_weight_decay: bool = False,
        fused: bool | None = False,
        **kept: Unpack[StateOptions],
    ) -> None:
        settings = {"betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, lr, fused, {**settings, "decoupled_weight_decay": decoupled_weight_decay}, **kept)
        self.m, self.v = self._keep(), self._keep()

    def _numbers_at(self, step: Tensor, group: Group) -> list[Tensor]:
        """The rate of the mean, and what roots of squares are divided into; 0 while they are not used."""
        b1, b2 = group["betas"]
        squares = correction(b2, step)
        limit = 2 / (1 - b2) - 1
        rho = limit - 2 * step * power(b2, step) / squares
        known = rho.maximum(LEAST_RHO)
        factor = (known - 4) * (known - 2) * limit / ((limit - 4) * (limit - 2) * known)
        use = (rho > LEAST_RHO).where((factor * squares).sqrt(), 0.0)
        return [group.lr / correction(b1, step), use]

    def _change(self, index: int, weight: Tensor, grad: Tensor) -> Tensor:
        group, decay = self._group(index), self._group(index)["weight_decay"]
        grad = grad if group["decoupled_weight_decay"] else self._decayed(index, weight, grad)
        rate, use = self._numbered(index, weight, 2)
        b1, b2 = group["betas"]
        left: Tensor | float = 0.0
        if decay and group["decoupled_weight_decay"]:
            left = self._rate(index, weight) * decay * weight
        mean = self._mix(self.m[index], grad, b1)
        root = self._mix(self.v[index], grad * grad, b2).sqrt() + group["eps"]
        return left + rate * mean * (use > 0).where(use / root, 1.0)
