"""Optimisers that divide a mean of gradients by the root of a mean of their squares: Adam, AdamW, LAMB."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack

from whit.dtype import dtypes
from whit.nn.optim.base import StateOptions, number
from whit.nn.optim.norms import Normed
from whit.tensor import Tensor


class LAMB(Normed):
    """AdamW whose rate for a parameter is in proportion to norm(parameter) / norm(change).

    m, v: the means of gradients and of their squares. They start at 0 and are divided by `correction`, which is
    (1 - b1**t, 1 - b2**t) after t steps: it is kept itself, because 1 - b2**t of a float32 b2**t has few digits.
    `betas` are b1 and b2 together.
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 0.001,
        b1: float = 0.9,
        b2: float = 0.999,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        adam: bool = False,
        fused: bool = False,
        betas: tuple[float, float] | None = None,
        **kept: Unpack[StateOptions],
    ) -> None:
        name = type(self).__name__
        b1, b2 = (b1, b2) if betas is None else betas
        self._has_norms = not adam
        super().__init__(params, lr, fused, **kept)
        self.b1, self.b2 = number(name, "b1", b1, below=1.0), number(name, "b2", b2, below=1.0)
        self.eps, self.wd = number(name, "eps", eps), number(name, "weight_decay", weight_decay)
        self.adam = adam
        self.m, self.v = self._keep(), self._keep()
        self.correction = self._pair(0.0, 0.0)
        self._rates, self._rests = self._pair(self.b1, self.b2), self._pair(1 - self.b1, 1 - self.b2)

    def _pair(self, first: float, second: float) -> Tensor:
        return Tensor([first, second], dtype=dtypes.float32, device=self.device, requires_grad=False)

    def _begin(self) -> list[Tensor]:
        self._write(self.correction, self.correction * self._rates + self._rests)
        return [self.correction]

    def _states(self) -> list[Tensor]:
        return [*self.m, *self.v]

    def _change(self, index: int, weight: Tensor, grad: Tensor) -> Tensor:
        first, second = (self._number(self.correction, weight, i) for i in range(2))
        mean = self._mix(self.m[index], grad, self.b1)
        square = self._mix(self.v[index], grad * grad, self.b2)
        change = (mean / first) / ((square / second).sqrt() + self.eps)
        if self.wd:
            change = change + self.wd * weight
        if not self.adam:
            size, length = self._norms(index, weight, change)
            change = self._for_each_element(index, ((size > 0) & (length > 0)).where(size / length, 1.0)) * change
        return self._number(self.lr, weight) * change

    def _mix(self, state: Tensor, value: Tensor, rate: float) -> Tensor:
        """A running mean with one more value in it."""
        return self._write(state, rate * state.cast(value.dtype) + (1 - rate) * value)


class AdamW(LAMB):
    """Adam, with a decay of weights that does not go through the means."""

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 0.001,
        b1: float = 0.9,
        b2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        fused: bool = False,
        betas: tuple[float, float] | None = None,
        **kept: Unpack[StateOptions],
    ) -> None:
        super().__init__(params, lr, b1, b2, eps, weight_decay, adam=True, fused=fused, betas=betas, **kept)


class Adam(LAMB):
    """Means of gradients over the roots of means of squares, both corrected for their start at 0.

    `weight_decay` times the weight is added to the gradient, before the means (PyTorch); see AdamW.
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 0.001,
        b1: float = 0.9,
        b2: float = 0.999,
        eps: float = 1e-8,
        fused: bool = False,
        betas: tuple[float, float] | None = None,
        *,
        weight_decay: float = 0.0,
        **kept: Unpack[StateOptions],
    ) -> None:
        super().__init__(params, lr, b1, b2, eps, adam=True, fused=fused, betas=betas, **kept)
        self.decay = number("Adam", "weight_decay", weight_decay)

    def _change(self, index: int, weight: Tensor, grad: Tensor) -> Tensor:
        return super()._change(index, weight, grad + self.decay * weight if self.decay else grad)
