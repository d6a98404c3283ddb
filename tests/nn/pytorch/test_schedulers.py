"""Learning rates over time beside PyTorch's, by the same expression; what PyTorch gives is in a file, too."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whit import GlobalCounters, Tensor, TinyJit
from whit.errors import ArgumentError
from whit.nn import optim

FILE = Path(__file__).parent / "expected" / "schedulers.json"
STEPS = 16

CASES = [
    "StepLR(o, 3, 0.5)",
    "MultiStepLR(o, [2, 5, 5], gamma=0.3)",
    "ConstantLR(o, 0.5, 4)",
    "LinearLR(o)",
    "LinearLR(o, 0.25, 0.75, 6)",
    "ExponentialLR(o, 0.9)",
    "PolynomialLR(o, 6, 2.0)",
    "CosineAnnealingLR(o, 5, 0.01)",
    "CosineAnnealingWarmRestarts(o, 4)",
    "CosineAnnealingWarmRestarts(o, 2, 2, 0.01)",
    "OneCycleLR(o, 0.3, total_steps=20, cycle_momentum=False)",
    "OneCycleLR(o, [0.3, 0.2], epochs=4, steps_per_epoch=5, anneal_strategy='linear', three_phase=True, "
    "cycle_momentum=False)",
    "CyclicLR(o, 0.01, 0.2, 3, cycle_momentum=False)",
    "CyclicLR(o, 0.01, [0.2, 0.3], 2, 3, 'triangular2', cycle_momentum=False)",
    "CyclicLR(o, 0.01, 0.2, 3, mode='exp_range', gamma=0.9, cycle_momentum=False)",
    "LambdaLR(o, lambda e: 0.9**e)",
    "LambdaLR(o, [lambda e: 1 / (e + 1), lambda e: 0.5])",
    "MultiplicativeLR(o, lambda e: 0.8 if e % 2 else 1.1)",
    "SequentialLR(o, [s.ConstantLR(o, 0.1, 3), s.ExponentialLR(o, 0.9), s.StepLR(o, 2)], [4, 9])",
    "ChainedScheduler([s.ConstantLR(o, 0.1, 3), s.ExponentialLR(o, 0.9)])",
]
METRICS = [5, 4, 3, 3.1, 3.2, 3, 3.3, 2, 2.1, 2.2, 2.3, 2.4, 2.5, 2.6, 2.7, 2.8]
PLATEAUS = [
    "ReduceLROnPlateau(o, patience=1)",
    "ReduceLROnPlateau(o, 'max', 0.5, 0, 0.1, 'abs', 2, [0.02, 0.001])",
]
GROUPS = "[{'params': [a]}, {'params': [b], 'lr': 0.2}]"


def scheduler(opt: Any, module: Any, call: str) -> Any:
    return eval(f"s.{call}", {"s": module, "o": opt})


def ours() -> optim.Optimizer:
    return optim.SGD([{"params": [Tensor([1.0])]}, {"params": [Tensor([1.0])], "lr": 0.2}], lr=0.1)


def rates(opt: Any, made: Any, call: str, steps: range) -> list[list[float]]:
    found = []
    for step in steps:
        found.append([float(group["lr"]) if not isinstance(group["lr"], Tensor) else group["lr"].item()
                      for group in opt.param_groups])  # fmt: skip
        if call in PLATEAUS:
            made.step(METRICS[step])
        else:
            made.step()
    return found


def by_torch(call: str) -> list[list[float]]:
    import torch

    a, b = torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True)
    opt = torch.optim.SGD([{"params": [a]}, {"params": [b], "lr": 0.2}], lr=0.1)
    made = scheduler(opt, torch.optim.lr_scheduler, call)
    opt.step()
    return rates(opt, made, call, range(STEPS))


def expected(call: str) -> Any:
    return json.loads(FILE.read_text("utf-8"))[call]


@pytest.mark.parametrize("call", CASES + PLATEAUS)
def test_rates_are_those_of_torch(call: str) -> None:
    opt = ours()
    made = scheduler(opt, optim.lr_scheduler, call)
    assert made.get_last_lr() == pytest.approx([group["lr"].item() for group in opt.param_groups])
    np.testing.assert_allclose(rates(opt, made, call, range(STEPS)), expected(call), rtol=1e-5, atol=1e-9)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", CASES + PLATEAUS)
def test_the_file_is_what_torch_gives(call: str) -> None:
    pytest.importorskip("torch")
    np.testing.assert_allclose(by_torch(call), expected(call), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("call", CASES + PLATEAUS)
def test_a_schedule_goes_on_from_its_state(call: str) -> None:
    opt = ours()
    made = scheduler(opt, optim.lr_scheduler, call)
    rates(opt, made, call, range(6))
    kept, of_opt = made.state_dict(), opt.state_dict()
    other = ours()
    again = scheduler(other, optim.lr_scheduler, call)
    other.load_state_dict(of_opt)
    again.load_state_dict(kept)
    np.testing.assert_allclose(rates(other, again, call, range(6, STEPS)), expected(call)[6:], rtol=1e-5, atol=1e-9)


def test_a_captured_step_follows_the_schedule() -> None:
    weight = Tensor([0.0]).contiguous().realize()
    opt = optim.SGD([weight], lr=1.0)
    schedule = optim.lr_scheduler.ExponentialLR(opt, 0.5)

    @TinyJit
    def step(x: Tensor) -> None:
        weight.grad = x
        opt.step()

    x = Tensor([1.0]).contiguous().realize()
    for _ in range(6):
        step(x)
        schedule.step()
    assert weight.item() == -sum(0.5**n for n in range(6))
    assert len(step.captured) == 1, "a new rate is no new program"
    GlobalCounters.reset()
    step(x)
    assert GlobalCounters.kernel_count == 1


def test_schedules_of_functions_have_a_rate_for_each_group() -> None:
    opt = ours()
    schedule = optim.Schedule(opt, lambda at: 1 / (at + 1))
    schedule.step()
    assert [group["lr"].item() for group in opt.param_groups] == pytest.approx([0.05, 0.1])
    other = ours()
    again = optim.Schedule(other, lambda at: 1 / (at + 1))
    again.load_state_dict(schedule.state_dict())
    assert [group["lr"].item() for group in other.param_groups] == pytest.approx([0.05, 0.1])


def test_mistakes_with_schedulers() -> None:
    opt, s = ours(), optim.lr_scheduler
    for call, message in (
        ("StepLR(o, 0)", r"StepLR: step_size=0"),
        ("LambdaLR(o, [math.sin])", r"LambdaLR: 1 functions for 2 groups"),
        ("OneCycleLR(o, 0.1)", r"OneCycleLR: how many steps\?"),
        ("OneCycleLR(o, 0.1, 5, cycle_momentum=True)", r"OneCycleLR: cycle_momentum=True"),
        ("ReduceLROnPlateau(o, 'least')", r"mode='least'"),
        ("ExponentialLR(3, 0.5)", r"ExponentialLR: 3 is no optimiser"),
        ("ExponentialLR(o, 0.5, 3)", r"last_epoch=3, and group 0 has no initial_lr"),
        ("StepLR(o, 2).load_state_dict({'T_max': 3})", r"no state of a StepLR: T_max"),
        ("SequentialLR(o, [], [1])", r"0 schedulers and 1 milestones"),
    ):
        with pytest.raises(ArgumentError, match=message):
            eval(f"s.{call}", {"s": s, "o": ours(), "math": math})
    short = s.OneCycleLR(opt, 0.1, 2)
    short.step()
    short.step()
    with pytest.raises(ArgumentError, match=r"step 4 of 2"):
        short.step()


if __name__ == "__main__":
    lines = [f"{json.dumps(call)}: {json.dumps(by_torch(call))}" for call in CASES + PLATEAUS]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
