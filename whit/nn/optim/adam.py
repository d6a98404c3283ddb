"""Optimisers that divide a mean of gradients by the root of a mean of their squares: Adam, AdamW, LAMB."""

from __future__ import annotations

from typing import ClassVar, Unpack

from whit.dtype import dtypes
from whit.errors import ArgumentError
from whit.nn.optim.base import Params, StateOptions
from whit.nn.optim.groups import Group, Hidden
from whit.nn.optim.norms import Normed
from whit.tensor import Tensor


class LAMB(Normed):
    """AdamW whose rate for a parameter is in proportion to norm(parameter) / norm(change).

    m, v: the means of gradients and of their squares. They start at 0 and are divided by `correction`, which is
    (1 - b1**t, 1 - b2**t, t) after t steps: it is kept itself, because 1 - b2**t of a float32 b2**t has few digits.
    `betas` are b1 and b2 together. Groups with other betas have their own in `corrections`.
    """

    saved: ClassVar = {"exp_avg": "m", "exp_avg_sq": "v", "max_exp_avg_sq": "top"}

    def __init__(
        self,
        params: Params,
        lr: float = 0.001,
        b1: float | tuple[float, float] = 0.9,
        b2: float = 0.999,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        adam: bool = False,
        fused: bool | None = False,
        betas: tuple[float, float] | None = None,
        amsgrad: bool = False,
        **kept: Unpack[StateOptions],
    ) -> None:
        pair = betas if betas is not None else b1 if isinstance(b1, tuple | list) else (b1, b2)
        self._has_norms, self.adam = not adam, adam
        settings = {"betas": pair, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad}
        super().__init__(params, lr, fused, settings, **kept)
        self.m, self.v = self._keep(), self._keep()
        self.top = self._keep() if self._asked("amsgrad") else []
        self._paces: list[tuple[float, float]] = list(dict.fromkeys(each["betas"] for each in self.param_groups))
        self.correction, *self.corrections = [self._three(0.0, 0.0, 0.0) for _ in self._paces]
        self._rates = Hidden([self._three(*each, 1.0) for each in self._paces])
        self._rests = Hidden([self._three(1 - first, 1 - second, 1.0) for first, second in self._paces])

    def _three(self, *numbers: float) -> Tensor:
        return Tensor(list(numbers), dtype=dtypes.float32, device=self.device, requires_grad=False)

    def _begin(self) -> list[Tensor]:
        known = [self.correction, *self.corrections]
        for kept, rate, rest in zip(known, self._rates.content, self._rests.content, strict=True):
            self._write(kept, kept * rate + rest)
        return known

    def _count(self) -> Tensor | None:
        return self.correction[2]

    def _set_count(self, steps: float) -> None:
        for kept, (first, second) in zip([self.correction, *self.corrections], self._paces, strict=True):
            kept.assign(self._three(1 - first**steps, 1 - second**steps, steps)).realize()

    def _correction(self, group: Group) -> Tensor:
        """What the means of a group are divided by."""
        if group["betas"] not in self._paces:
            raise ArgumentError(
                f"{type(self).__name__}: betas {group['betas']} that no group was made with",
                fix="Make the optimiser again, and load its state_dict().",
            )
        return [self.correction, *self.corrections][self._paces.index(group["betas"])]

    def _change(self, index: int, weight: Tensor, grad: Tensor) -> Tensor:
        group = self._group(index)
        (b1, b2), decay = group["betas"], group["weight_decay"]
        correction = self._correction(group)
        first, second = (self._number(correction, weight, i) for i in range(2))
        mean = self._mix(self.m[index], grad, b1)
        square = self._mix(self.v[index], grad * grad, b2)
        if group["amsgrad"]:
            square = self._write(self.top[index], self.top[index].cast(square.dtype).maximum(square))
        change = (mean / first) / ((square / second).sqrt() + group["eps"])
        if decay and self._is_decoupled:
            change = change + decay * weight
        if not self.adam:
            size, length = self._norms(index, weight, change)
            change = self._for_each_element(index, ((size > 0) & (length > 0)).where(size / length, 1.0)) * change
        step: Tensor = self._rate(index, weight) * change
        return step

    _is_decoupled = True

    def _mix(self, state: Tensor, value: Tensor, rate: float) -> Tensor:
        """A running mean with one more value in it."""
        return self._write(state, rate * state.cast(value.dtype) + (1 - rate) * value)


class AdamW(LAMB):
    """Adam, with a decay of weights that does not go through the means."""

    def __init__(
        self,
        params: Params,
        lr: float = 0.001,
        b1: float | tuple[float, float] = 0.9,
        b2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        fused: bool | None = False,
        betas: tuple[float, float] | None = None,
        *,
        amsgrad: bool = False,
        **kept: Unpack[StateOptions],
    ) -> None:
        super().__init__(
            params, lr, b1, b2, eps, weight_decay, adam=True, fused=fused, betas=betas, amsgrad=amsgrad, **kept
        )


class Adam(LAMB):
    """Means of gradients over the roots of means of squares, both corrected for their start at 0.

    `weight_decay` times the weight is added to the gradient, before the means (PyTorch); see AdamW.
    """

    def __init__(
        self,
        params: Params,
        lr: float = 0.001,
        b1: float | tuple[float, float] = 0.9,
        b2: float = 0.999,
        eps: float = 1e-8,
        fused: bool | None = False,
        betas: tuple[float, float] | None = None,
        *,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        decoupled_weight_decay: bool = False,
        **kept: Unpack[StateOptions],
    ) -> None:
        self._is_decoupled = decoupled_weight_decay
        super().__init__(
            params, lr, b1, b2, eps, weight_decay, adam=True, fused=fused, betas=betas, amsgrad=amsgrad, **kept
        )

    def _change(self, index: int, weight: Tensor, grad: Tensor) -> Tensor:
        return super()._change(index, weight, grad if self._is_decoupled else self._decayed(index, weight, grad))
