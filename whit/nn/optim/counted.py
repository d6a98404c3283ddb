"""What optimisers share whose steps are numbered: the number in memory, and numbers that depend on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from whit.dtype import dtypes
from whit.nn.optim.base import Optimizer, Params, StateOptions
from whit.nn.optim.groups import Group, Hidden
from whit.tensor import Tensor


class Counted(Optimizer):
    """`steps` is how many were made, one element. What depends on it is computed once a step for each group."""

    def __init__(
        self,
        params: Params,
        lr: float,
        fused: bool | None,
        settings: Mapping[str, Any],
        **kept: Unpack[StateOptions],
    ) -> None:
        super().__init__(params, lr, fused, settings, **kept)
        self.steps = Tensor([0.0], dtype=dtypes.float32, device=self.device, requires_grad=False).realize()
        self._pace: Hidden = Hidden({})  # while a step is made: the numbers of each group

    def _begin(self) -> list[Tensor]:
        now = self._write(self.steps, self.steps + 1)
        for group in self._groups.content:
            found = self._numbers_at(now, group)
            if found:
                first, *others = found
                self._pace.content[id(group)] = first.cat(*others).contiguous() if others else first.contiguous()
        return [self.steps]

    def schedule_step(self, skip: Tensor | None = None) -> list[Tensor]:
        """The tensors to realise. Nothing of the step is kept besides: a captured one could not bring it back."""
        try:
            return super().schedule_step(skip)
        finally:
            self._pace.content.clear()

    def _numbers_at(self, step: Tensor, group: Group) -> list[Tensor]:
        """Numbers of a step, one element each, that do not depend on parameters."""
        return []

    def _numbered(self, index: int, like: Tensor, count: int) -> list[Tensor]:
        """The same beside a tensor that is changed."""
        kept = self._pace.content[id(self._group(index))]
        return [self._number(kept, like, place) for place in range(count)]

    def _count(self) -> Tensor | None:
        return self.steps

    def _set_count(self, steps: float) -> None:
        self.steps.assign(Tensor([steps], dtype=dtypes.float32, device=self.device)).realize()

    def _mix(self, state: Tensor, value: Tensor, rate: float) -> Tensor:
        """A running mean with one more value in it."""
        return self._write(state, rate * state.cast(value.dtype) + (1 - rate) * value)
