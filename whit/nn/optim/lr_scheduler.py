"""Learning rates over time under PyTorch's names: `torch.optim.lr_scheduler`.

    scheduler = CosineAnnealingLR(opt, T_max=100)
    for ...:
        opt.step()
        scheduler.step()

A rate follows from the one before, as in PyTorch, so that schedulers can be chained. Each rate is a number; it is
written into the tensor of its group at once, so a step that `TinyJit` has captured reads it, and compiles nothing.
`schedules.py` has schedules as functions of the step, whose state is tensors.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from whit.errors import ArgumentError
from whit.nn.optim.base import Optimizer
from whit.nn.optim.groups import Group
from whit.tensor import Tensor

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]


SHARED = ("optimizer",)  # what is not part of a state


class LRScheduler:
    """`last_epoch` counts steps, `base_lrs` are the rates at the beginning; `last_epoch` above -1 goes on there."""

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise ArgumentError(f"{type(self).__name__}: {optimizer!r:.60} is no optimiser")
        self.optimizer = optimizer
        for place, group in enumerate(self.groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group.number())
            elif "initial_lr" not in group:
                raise ArgumentError(
                    f"{type(self).__name__}: last_epoch={last_epoch}, and group {place} has no initial_lr",
                    fix="Load the state of the optimiser first.",
                )
        self.base_lrs = [float(group["initial_lr"]) for group in self.groups]
        self.last_epoch = last_epoch
        self._last_lr: list[float] = []
        self._begin()

    def _begin(self) -> None:
        self.step()

    @property
    def groups(self) -> list[Group]:
        """Those of the optimiser."""
        return self.optimizer.param_groups

    @property
    def rates(self) -> list[float]:
        """The rates now."""
        return [group.number() for group in self.groups]

    def get_lr(self) -> list[float]:
        """The rates at `last_epoch`, from those before."""
        raise NotImplementedError(type(self).__name__)

    def get_last_lr(self) -> list[float]:
        """The rates that were written last."""
        return self._last_lr

    def step(self, epoch: int | None = None) -> None:
        """Goes on by one step."""
        self.last_epoch += 1
        self._write(self.get_lr())

    def _write(self, rates: Sequence[float]) -> None:
        for group, rate in zip(self.groups, rates, strict=True):
            group["lr"] = float(rate)
        self._last_lr = self.rates

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to go on, numbers alone; functions are left out."""
        return {key: value for key, value in vars(self).items() if key not in SHARED and not _is_function(value)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Goes on where a `state_dict` was made. The scheduler itself is made as it was then."""
        unknown = [key for key in state_dict if key not in vars(self)]
        if unknown:
            raise ArgumentError(f"load_state_dict: this is no state of a {type(self).__name__}: {', '.join(unknown)}")
        vars(self).update(state_dict)
        if self._last_lr:
            self._write(self._last_lr)


def _is_function(value: Any) -> bool:
    return callable(value) or (isinstance(value, list) and any(callable(part) for part in value))


def _each(name: str, label: str, value: Any, count: int) -> list[Any]:
    """One for all groups, or one for each."""
    given = list(value) if isinstance(value, list | tuple) else [value] * count
    if len(given) != count:
        raise ArgumentError(f"{name}: {len(given)} {label} for {count} groups", fix="Give one, or one for each group.")
    return given


class LambdaLR(LRScheduler):
    """The first rate times a function of the step; one function, or one for each group."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1) -> None:
        self.lr_lambdas = _each("LambdaLR", "functions", lr_lambda, len(optimizer.param_groups))
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return [base * f(self.last_epoch) for base, f in zip(self.base_lrs, self.lr_lambdas, strict=True)]


class MultiplicativeLR(LambdaLR):
    """The rate times a function of the step, at each step."""

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0:
            return self.rates
        return [rate * f(self.last_epoch) for rate, f in zip(self.rates, self.lr_lambdas, strict=True)]


class _Factor(LRScheduler):
    """Rates that are all multiplied by one factor."""

    def factor(self) -> float:
        """What the rates before `last_epoch` are multiplied by there."""
        raise NotImplementedError(type(self).__name__)

    def get_lr(self) -> list[float]:
        factor = self.factor()
        return [rate * factor for rate in self.rates]


class StepLR(_Factor):
    """The rate times `gamma` every `step_size` steps."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size, self.gamma = _whole("StepLR", "step_size", step_size), gamma
        super().__init__(optimizer, last_epoch)

    def factor(self) -> float:
        return self.gamma if self.last_epoch and self.last_epoch % self.step_size == 0 else 1.0


class MultiStepLR(_Factor):
    """The rate times `gamma` at each milestone."""

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def factor(self) -> float:
        return float(self.gamma ** self.milestones[self.last_epoch])


class ExponentialLR(_Factor):
    """The rate times `gamma` at each step."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def factor(self) -> float:
        return self.gamma if self.last_epoch else 1.0


class ConstantLR(_Factor):
    """The rate times `factor` for the first `total_iters` steps."""

    def __init__(self, optimizer: Optimizer, factor: float = 1 / 3, total_iters: int = 5, last_epoch: int = -1) -> None:
        if not 0 <= factor <= 1:
            raise ArgumentError(f"ConstantLR: factor={factor!r}", fix="It is from 0 to 1.")
        self.share, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def factor(self) -> float:
        if self.last_epoch == 0:
            return self.share
        return 1 / self.share if self.last_epoch == self.total_iters else 1.0


class LinearLR(_Factor):
    """In a straight line from `start_factor` times the rate to `end_factor` times it, in `total_iters` steps."""

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1 or not 0 <= end_factor <= 1:
            raise ArgumentError(
                f"LinearLR: start_factor={start_factor!r}, end_factor={end_factor!r}",
                fix="They are at most 1, and the first is above 0.",
            )
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def factor(self) -> float:
        if self.last_epoch == 0:
            return self.start_factor
        if self.last_epoch > self.total_iters:
            return 1.0
        rise = self.end_factor - self.start_factor
        return 1 + rise / (self.total_iters * self.start_factor + (self.last_epoch - 1) * rise)


class PolynomialLR(_Factor):
    """The rate times (1 - step / total_iters) ** power, down to 0."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters, self.power = _whole("PolynomialLR", "total_iters", total_iters), power
        super().__init__(optimizer, last_epoch)

    def factor(self) -> float:
        at, total = self.last_epoch, self.total_iters
        if at == 0 or at > total:
            return 1.0
        return float(((1 - at / total) / (1 - (at - 1) / total)) ** self.power)


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the rate down to `eta_min` in `T_max` steps, and up again."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:  # noqa: N803
        self.T_max, self.eta_min = _whole("CosineAnnealingLR", "T_max", T_max), eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        at, total = self.last_epoch, self.T_max
        if at == 0:
            return self.rates
        if (at - 1 - total) % (2 * total) == 0:  # from the bottom up: the rate before is eta_min, and tells nothing
            rise = (1 - math.cos(math.pi / total)) / 2
            return [rate + (base - self.eta_min) * rise for rate, base in zip(self.rates, self.base_lrs, strict=True)]
        share = (1 + math.cos(math.pi * at / total)) / (1 + math.cos(math.pi * (at - 1) / total))
        return [share * (rate - self.eta_min) + self.eta_min for rate in self.rates]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine in `T_0` steps, then again in `T_mult` times as many, and so on. `step(epoch)` goes anywhere."""

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,  # noqa: N803
        T_mult: int = 1,  # noqa: N803
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        name = "CosineAnnealingWarmRestarts"
        self.T_0 = self.T_i = _whole(name, "T_0", T_0)
        self.T_mult, self.eta_min, self.T_cur = _whole(name, "T_mult", T_mult), eta_min, float(last_epoch)
        super().__init__(optimizer, last_epoch)

    def _begin(self) -> None:
        self.step()

    def get_lr(self) -> list[float]:
        share = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:  # also between whole steps
        at = self.last_epoch + 1 if epoch is None else epoch
        if at < 0:
            raise ArgumentError(f"CosineAnnealingWarmRestarts: epoch={epoch!r}", fix="It is 0 or more.")
        start, length = 0.0, self.T_0
        if self.T_mult == 1:
            start = at // length * length
        else:
            rounds = int(math.log(at / self.T_0 * (self.T_mult - 1) + 1, self.T_mult)) if at >= self.T_0 else 0
            start = self.T_0 * (self.T_mult**rounds - 1) / (self.T_mult - 1)
            length = self.T_0 * self.T_mult**rounds
        self.T_cur, self.T_i, self.last_epoch = at - start, length, math.floor(at)
        self._write(self.get_lr())


class OneCycleLR(LRScheduler):
    """Up to `max_lr` over `pct_start` of the steps, then far down; `three_phase` stops at the first rate on the way."""

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | Sequence[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = False,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        if total_steps is None and (epochs is None or steps_per_epoch is None):
            raise ArgumentError("OneCycleLR: how many steps?", fix="Give total_steps, or epochs and steps_per_epoch.")
        total = total_steps if total_steps is not None else (epochs or 0) * (steps_per_epoch or 0)
        self.total_steps = _whole("OneCycleLR", "total_steps", total)
        if not 0 <= pct_start <= 1 or anneal_strategy not in ("cos", "linear"):
            raise ArgumentError(f"OneCycleLR: pct_start={pct_start!r}, anneal_strategy={anneal_strategy!r}")
        if cycle_momentum:
            raise ArgumentError(
                "OneCycleLR: cycle_momentum=True",
                fix="A momentum is part of kernels, which would be compiled again at each step: leave it out.",
            )
        tops = _each("OneCycleLR", "max_lr", max_lr, len(optimizer.param_groups))
        starts = [top / div_factor for top in tops]
        ends = [start / final_div_factor for start in starts]
        self.anneal_strategy = anneal_strategy
        last, rise = self.total_steps - 1, pct_start * self.total_steps - 1
        fall = 2 * pct_start * self.total_steps - 2
        self.phases: list[tuple[float, list[float], list[float]]] = [(rise, starts, tops)]  # the end, and rates
        self.phases += [(fall, tops, starts), (last, starts, ends)] if three_phase else [(last, tops, ends)]
        for group, start in zip(optimizer.param_groups, starts, strict=True):
            if last_epoch == -1:
                group["lr"] = start
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        at = self.last_epoch
        if at > self.total_steps:  # once more than there are rates, as after the last step of a loop
            raise ArgumentError(f"OneCycleLR: step {at + 1} of {self.total_steps}", fix="Make it with more steps.")
        begin = 0.0
        for place, (end, first, last) in enumerate(self.phases):
            if at <= end or place == len(self.phases) - 1:
                share = (at - begin) / (end - begin)
                return [self._between(one, other, share) for one, other in zip(first, last, strict=True)]
            begin = end
        return []

    def _between(self, start: float, end: float, share: float) -> float:
        if self.anneal_strategy == "linear":
            return start + (end - start) * share
        return end + (start - end) / 2 * (1 + math.cos(math.pi * share))


class CyclicLR(LRScheduler):
    """Up from `base_lr` to `max_lr` in a line and down again; `mode` "triangular2" halves each time, "exp_range" by
    gamma ** step. `scale_fn` scales in another way, of the cycle or, with `scale_mode="iterations"`, of the step."""

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | Sequence[float],
        max_lr: float | Sequence[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = False,
        last_epoch: int = -1,
    ) -> None:
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ArgumentError(f"CyclicLR: mode={mode!r}", fix='Use "triangular", "triangular2", "exp_range".')
        if cycle_momentum:
            raise ArgumentError(
                "CyclicLR: cycle_momentum=True",
                fix="A momentum is part of kernels, which would be compiled again at each step: leave it out.",
            )
        groups = optimizer.param_groups
        bases = _each("CyclicLR", "base_lr", base_lr, len(groups))
        self.max_lrs = _each("CyclicLR", "max_lr", max_lr, len(groups))
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size, self.step_ratio = float(step_size_up + down), step_size_up / (step_size_up + down)
        self.mode, self.gamma, self.scale_fn, self.scale_mode = mode, gamma, scale_fn, scale_mode
        if last_epoch == -1:
            for group, base in zip(groups, bases, strict=True):
                group["lr"] = base
        super().__init__(optimizer, last_epoch)
        self.base_lrs = bases

    def _scale(self, cycle: float) -> float:
        if self.scale_fn is not None:
            return self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.mode == "exp_range":
            return float(self.gamma**self.last_epoch)
        return 1.0 if self.mode == "triangular" else 1 / 2.0 ** (cycle - 1)

    def get_lr(self) -> list[float]:
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1 + self.last_epoch / self.total_size - cycle
        share = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = self._scale(cycle)
        pairs = zip(self.base_lrs, self.max_lrs, strict=True)
        return [base + (top - base) * share * scale for base, top in pairs]


class SequentialLR(LRScheduler):
    """One scheduler after the other; each begins anew at its milestone."""

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: Sequence[LRScheduler],
        milestones: Sequence[int],
        last_epoch: int = -1,
    ) -> None:
        if len(milestones) != len(schedulers) - 1 or any(each.optimizer is not optimizer for each in schedulers):
            raise ArgumentError(
                f"SequentialLR: {len(schedulers)} schedulers and {len(milestones)} milestones",
                fix="Give schedulers of this optimiser, and one milestone between each two.",
            )
        self.optimizer, self._schedulers, self._milestones = optimizer, list(schedulers), list(milestones)
        self.last_epoch = last_epoch + 1
        for group in self.groups:  # what the others have done when they were made is taken back
            group["lr"] = group["initial_lr"]
        for each in self._schedulers:
            each.last_epoch -= 1
        self._schedulers[0].step()
        self._last_lr = self._schedulers[0].get_last_lr()

    def step(self, epoch: int | None = None) -> None:
        self.last_epoch += 1
        place = bisect_right(self._milestones, self.last_epoch)
        now = self._schedulers[place]
        if place and self._milestones[place - 1] == self.last_epoch:
            for group in self.groups:
                group["lr"] = group["initial_lr"]
            now.last_epoch = -1
            now.step()
        else:
            now.step()
        self._last_lr = now.get_last_lr()

    def state_dict(self) -> dict[str, Any]:
        return _of_all(self)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        _into_all(self, state_dict)


class ChainedScheduler(LRScheduler):
    """Schedulers that all step at once: each goes on from the rate that the others have left."""

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        if not schedulers:
            raise ArgumentError("ChainedScheduler: there are no schedulers")
        self.optimizer, self._schedulers = optimizer or schedulers[0].optimizer, list(schedulers)
        self.last_epoch = schedulers[-1].last_epoch
        self._last_lr = self.rates

    def step(self, epoch: int | None = None) -> None:
        for each in self._schedulers:
            each.step()
        self.last_epoch += 1
        self._last_lr = self.rates

    def state_dict(self) -> dict[str, Any]:
        return _of_all(self)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        _into_all(self, state_dict)


def _of_all(scheduler: SequentialLR | ChainedScheduler) -> dict[str, Any]:
    """The state with those of the schedulers in it."""
    own = {key: value for key, value in vars(scheduler).items() if key not in (*SHARED, "_schedulers")}
    return {**own, "_schedulers": [each.state_dict() for each in scheduler._schedulers]}


def _into_all(scheduler: SequentialLR | ChainedScheduler, state_dict: Mapping[str, Any]) -> None:
    states = state_dict.get("_schedulers", ())
    if len(states) != len(scheduler._schedulers):
        raise ArgumentError(f"load_state_dict: a state of {len(states)} schedulers for {len(scheduler._schedulers)}")
    for each, state in zip(scheduler._schedulers, states, strict=True):
        each.load_state_dict(state)
    LRScheduler.load_state_dict(scheduler, {k: v for k, v in state_dict.items() if k != "_schedulers"})


class ReduceLROnPlateau(LRScheduler):
    """The rate times `factor` where a number has not got better for `patience` steps: `scheduler.step(loss)`."""

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | Sequence[float] = 0.0,
        eps: float = 1e-8,
    ) -> None:
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs") or not factor < 1:
            raise ArgumentError(
                f"ReduceLROnPlateau: mode={mode!r}, threshold_mode={threshold_mode!r}, factor={factor!r}",
                fix='Modes are "min" and "max", "rel" and "abs"; the factor is below 1.',
            )
        self.mode, self.patience, self.threshold, self.threshold_mode = mode, patience, threshold, threshold_mode
        self.factor, self.cooldown, self.eps = factor, cooldown, eps
        self.min_lrs = _each("ReduceLROnPlateau", "min_lr", min_lr, len(optimizer.param_groups))
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = self.cooldown_counter = 0
        super().__init__(optimizer)

    def _begin(self) -> None:
        self.last_epoch = 0
        self._last_lr = self.rates

    def is_better(self, now: float, best: float) -> bool:
        """Whether a number is better by more than the threshold."""
        sign = -1 if self.mode == "min" else 1
        if self.threshold_mode == "abs":
            return now * sign > best * sign + self.threshold
        return now * sign > best * (1 + sign * self.threshold) * sign

    def step(self, metrics: float | Tensor, epoch: int | None = None) -> None:  # type: ignore[override]  # of a number
        now = float(metrics.item()) if isinstance(metrics, Tensor) else float(metrics)
        self.last_epoch += 1
        if self.is_better(now, self.best):
            self.best, self.num_bad_epochs = now, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            for group, least in zip(self.groups, self.min_lrs, strict=True):
                less = max(group.number() * self.factor, least)
                if group.number() - less > self.eps:
                    group["lr"] = less
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = self.rates


def _whole(name: str, label: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ArgumentError(f"{name}: {label}={value!r}", fix="It is an integer, 1 or more.")
    return value
