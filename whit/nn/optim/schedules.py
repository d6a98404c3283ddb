"""Learning rates over time: a function from the number of the step to the rate, written into `optimizer.lr`.

    schedule = WarmUp(100, CosineAnnealing(opt, steps=1000))
    for ...:
        opt.step()
        schedule.step()

Formulas and the order of calls are PyTorch's: the first rate is set at once, `step()` after each step sets the next.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping

from whit.dtype import dtypes
from whit.errors import ArgumentError
from whit.nn.optim.base import Optimizer, number
from whit.tensor import Tensor


class Schedule:
    """Any function of the number of the step; it is multiplied by the rate that each group was made with."""

    def __init__(self, optimizer: Optimizer, factor: Callable[[int], float]) -> None:
        self.rates = [(group, float(group.lr.item())) for group in optimizer.param_groups]
        self.factor, self.count = factor, 0
        self._write()

    def step(self) -> None:
        """Goes on by one step."""
        self.count += 1
        self._write()

    def get_lr(self) -> float:
        """The rate of the (first) group now."""
        return self.rates[0][1] * self.factor(self.count)

    def state_dict(self) -> dict[str, Tensor]:
        """The number of the step and the rates that it started from, as tensors that `safe_save` takes."""
        rates = [rate for _, rate in self.rates]
        return {"count": Tensor([self.count], dtype=dtypes.int64), "rates": Tensor(rates, dtype=dtypes.float64)}

    def load_state_dict(self, state_dict: Mapping[str, Tensor]) -> None:
        """Goes on where a `state_dict` was made. The schedule itself is made as it was then."""
        if sorted(state_dict) != ["count", "rates"]:
            raise ArgumentError(
                f"load_state_dict: this is no state of a schedule: {', '.join(map(str, state_dict)):.100}",
                fix="Give what state_dict() of a schedule gave.",
            )
        rates = state_dict["rates"].tolist()
        if len(rates) != len(self.rates):
            raise ArgumentError(
                f"load_state_dict: a state of {len(rates)} groups for a schedule of {len(self.rates)}",
                fix="Make the schedule of the same optimisers and groups as then.",
            )
        self.rates = [(group, rate) for (group, _), rate in zip(self.rates, rates, strict=True)]
        self.count = int(state_dict["count"].item())
        self._write()

    def _write(self) -> None:
        factor = self.factor(self.count)
        for group, rate in self.rates:
            group["lr"] = rate * factor


class CosineAnnealing(Schedule):
    """Half a cosine from the rate down to `least` times it, in `steps` steps; it stays there."""

    def __init__(self, optimizer: Optimizer, steps: int, least: float = 0.0) -> None:
        _positive("CosineAnnealing", "steps", steps)
        super().__init__(optimizer, lambda at: cosine(1.0, least, at / steps))


class MultiStep(Schedule):
    """The rate times `gamma` at each milestone."""

    def __init__(self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1) -> None:
        found = sorted(milestones)
        super().__init__(optimizer, lambda at: gamma ** bisect_right(found, at))


class OneCycle(Schedule):
    """Up to the optimiser's rate over `pct_start` of the steps, from 1/div_factor of it; then down to almost 0."""

    def __init__(
        self,
        optimizer: Optimizer,
        steps: int,
        pct_start: float = 0.3,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
    ) -> None:
        _positive("OneCycle", "steps", steps)
        number("OneCycle", "pct_start", pct_start, below=1.0)
        start, end, top, last = 1 / div_factor, 1 / (div_factor * final_div_factor), pct_start * steps - 1, steps - 1

        def factor(at: int) -> float:
            return (
                cosine(start, 1.0, at / top) if at <= top and top > 0 else cosine(1.0, end, (at - top) / (last - top))
            )

        super().__init__(optimizer, factor)


class WarmUp(Schedule):
    """In a straight line from almost nothing to another schedule's rate, over `steps` steps; then that schedule."""

    def __init__(self, steps: int, after: Schedule | Optimizer) -> None:
        _positive("WarmUp", "steps", steps)
        then = after.factor if isinstance(after, Schedule) else lambda _: 1.0
        self.rates = after.rates if isinstance(after, Schedule) else Schedule(after, then).rates
        self.factor = lambda at: (at + 1) / (steps + 1) * then(0) if at < steps else then(at - steps)
        self.count = 0
        self._write()


def cosine(start: float, end: float, share: float) -> float:
    """Between two numbers, along half a cosine; the share of the way is kept between 0 and 1."""
    share = min(max(share, 0.0), 1.0)
    return end + (start - end) * (1 + math.cos(math.pi * share)) / 2


def _positive(name: str, label: str, value: int) -> None:
    if not isinstance(value, int) or value < 1:
        raise ArgumentError(f"{name}: {label}={value!r}", fix="It is an integer, 1 or more.")
