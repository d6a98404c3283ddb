"""Optimisers that divide a mean of gradients by the root of a mean of their squares: Adam, AdamW, LAMB."""

from __future__ import annotations

from collections.abc import Iterable

from whit.dtype import dtypes
from whit.nn.optim.base import Optimizer, number
from whit.nn.optim.momentum import norm, one_by_one
from whit.tensor import Tensor


class LAMB(Optimizer):
    """AdamW whose rate for a parameter is in proportion to norm(parameter) / norm(change).

    m, v: the means of gradients and of their squares. They start at 0 and are divided by `correction`, which is
    (1 - b1**t, 1 - b2**t) after t steps: it is kept itself, because 1 - b2**t of a float32 b2**t has few digits.
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
    ) -> None:
        name = type(self).__name__
        if fused and not adam:
            raise one_by_one(name, "norm")
        super().__init__(params, lr, fused)
        self.b1, self.b2 = number(name, "b1", b1, below=1.0), number(name, "b2", b2, below=1.0)
        self.eps, self.wd = number(name, "eps", eps), number(name, "weight_decay", weight_decay)
        self.adam = adam
        self.m, self.v = self._keep(), self._keep()
        self.correction = self._pair(0.0, 0.0)
        self._rates, self._rests = self._pair(self.b1, self.b2), self._pair(1 - self.b1, 1 - self.b2)

    def _pair(self, first: float, second: float) -> Tensor:
        return Tensor([first, second], dtype=dtypes.float32, device=self.device, requires_grad=False)

    def _begin(self) -> list[Tensor]:
        self.correction.assign(self.correction * self._rates + self._rests)
        return [self.correction]

    def _states(self) -> list[Tensor]:
        return [*self.m, *self.v]

    def _change(self, index: int, weight: Tensor, grad: Tensor) -> Tensor:
        mean, square = self.m[index], self.v[index]
        mean.assign(self.b1 * mean + (1 - self.b1) * grad)
        square.assign(self.b2 * square + (1 - self.b2) * (grad * grad))
        first, second = (self.correction[i].cast(weight.dtype) for i in range(2))
        change = (mean / first) / ((square / second).sqrt() + self.eps)
        if self.wd:
            change = change + self.wd * weight
        if not self.adam:
            size, length = norm(weight), norm(change)
            change = ((size > 0) & (length > 0)).where(size / length, 1.0) * change
        return self.lr.cast(weight.dtype) * change


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
    ) -> None:
        super().__init__(params, lr, b1, b2, eps, weight_decay, adam=True, fused=fused)


class Adam(LAMB):
    """Means of gradients over the roots of means of squares, both corrected for their start at 0."""

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 0.001,
        b1: float = 0.9,
        b2: float = 0.999,
        eps: float = 1e-8,
        fused: bool = False,
    ) -> None:
        super().__init__(params, lr, b1, b2, eps, adam=True, fused=fused)
