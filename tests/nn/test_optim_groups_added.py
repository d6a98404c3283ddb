"""`add_param_group`: one group more, later."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from whit import Tensor
from whit.errors import ArgumentError, UserError
from whit.nn import optim

ALL: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "classic": True}),
    ("Adam", {"lr": 0.1, "betas": (0.8, 0.9), "amsgrad": True, "fused": True}),
    ("AdamW", {"lr": 0.1, "b1": 0.5, "maximize": True}),
    ("LAMB", {"lr": 0.1}),
    ("LARS", {"lr": 0.1, "pre_wd": False}),
    ("Muon", {"lr": 0.1, "ns_steps": 3}),
    ("RMSprop", {"lr": 0.1, "centered": True}),
    ("Adagrad", {"lr": 0.1, "initial_accumulator_value": 0.3}),
    ("Adadelta", {"lr": 0.1}),
    ("Adamax", {"lr": 0.1}),
    ("NAdam", {"lr": 0.1}),
    ("RAdam", {"lr": 0.1}),
    ("Adafactor", {"lr": 0.1}),
    ("Rprop", {"lr": 0.1}),
    ("ASGD", {"lr": 0.1}),
]


def made() -> tuple[Tensor, Tensor]:
    first = Tensor(np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3), requires_grad=True)
    return first, Tensor(np.linspace(2, 3, 4, dtype=np.float32).reshape(2, 2), requires_grad=True)


def train(opt: optim.Optimizer, *params: Tensor, steps: int = 2) -> None:
    for _ in range(steps):
        opt.zero_grad()
        sum(((p * p * p).sum() for p in params), Tensor(0.0)).backward()
        opt.step()


@pytest.mark.parametrize(("name", "settings"), ALL)
def test_a_group_that_is_added_goes_as_one_from_the_beginning(name: str, settings: dict[str, Any]) -> None:
    second = {"lr": 0.01} if name != "Adagrad" else {"lr": 0.01, "lr_decay": 0.1}
    (a, b), (c, d) = made(), made()
    whole = getattr(optim, name)([{"params": [a]}, {"params": [b], **second}], **settings)
    later = getattr(optim, name)([c], **settings)
    later.add_param_group({"params": d, **second})
    assert [group.number() for group in later.param_groups] == pytest.approx([0.1, 0.01])
    assert later.param_groups[1].settings == whole.param_groups[1].settings
    train(whole, a, b)
    train(later, c, d)
    np.testing.assert_allclose(c.numpy(), a.numpy(), rtol=1e-5)
    np.testing.assert_allclose(d.numpy(), b.numpy(), rtol=1e-5)


def test_a_group_that_is_added_counts_its_own_steps_and_is_saved() -> None:
    a, b = made()
    _, alone = made()
    opt = optim.Adam([a], lr=0.1)
    train(opt, a, steps=3)
    opt.add_param_group({"params": [b], "lr": 0.05})
    train(opt, a, b)
    train(optim.Adam([alone], lr=0.05), alone)
    np.testing.assert_allclose(b.numpy(), alone.numpy(), rtol=1e-6)
    kept = opt.state_dict()
    assert [float(kept["state"][place]["step"]) for place in (0, 1)] == [5, 2]
    assert [group["params"] for group in kept["param_groups"]] == [[0], [1]]

    again = [p.detach().clone().realize().requires_grad_(True) for p in (a, b)]
    resumed = optim.Adam([again[0]])
    resumed.add_param_group({"params": [again[1]]})
    resumed.load_state_dict(kept)
    train(opt, a, b)
    train(resumed, *again)
    np.testing.assert_array_equal(again[0].numpy(), a.numpy())
    np.testing.assert_array_equal(again[1].numpy(), b.numpy())


def test_rates_of_all_groups_are_set_at_once_and_by_schedules() -> None:
    a, b = made()
    opt = optim.SGD([a], lr=0.1)
    opt.add_param_group({"params": [b], "lr": 0.4})
    schedule = optim.lr_scheduler.StepLR(opt, 1, gamma=0.5)
    train(opt, a, b, steps=1)
    schedule.step()
    assert [group.number() for group in opt.param_groups] == pytest.approx([0.05, 0.2])
    opt.lr = 0.3
    assert [group.number() for group in opt.param_groups] == pytest.approx([0.3, 0.3])


def test_groups_that_cannot_be_added() -> None:
    a, b = made()
    opt = optim.SGD([a], lr=0.1)
    with pytest.raises(ArgumentError, match="are the same tensor"):
        opt.add_param_group({"params": [a]})
    with pytest.raises(ArgumentError, match='It is a dictionary with "params"'):
        opt.add_param_group([b])  # type: ignore[arg-type]
    with pytest.raises(UserError, match="OptimizerGroup: add_param_group"):
        optim.OptimizerGroup(opt).add_param_group({"params": [b]})
    assert len(opt.param_groups) == 1


# ---- parameters that a loss does not use


@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop", "NAdam"])
def test_parameters_without_a_gradient_stay_as_they_are(name: str) -> None:
    used, unused = made()
    before = unused.numpy().copy()
    alone, _ = made()
    both = getattr(optim, name)([used, unused], lr=0.1, weight_decay=0.1)
    train(both, used)
    train(getattr(optim, name)([alone], lr=0.1, weight_decay=0.1), alone)
    np.testing.assert_array_equal(unused.numpy(), before)
    np.testing.assert_array_equal(used.numpy(), alone.numpy())


def test_a_group_that_is_not_used_waits() -> None:
    first, second = made()
    opt = optim.Adam([first])
    opt.add_param_group({"params": [second]})
    train(opt, first)
    train(opt, second)
    assert [float(opt.state_dict()["state"][place]["step"]) for place in (0, 1)] == [2, 2]


def test_a_step_without_any_gradient_is_a_mistake_and_fused_ones_need_all() -> None:
    first, second = made()
    with pytest.raises(UserError, match="has no gradient"):
        optim.Adam([first, second]).step()
    opt = optim.Adam([first, second], fused=True)
    first.sum().backward()
    with pytest.raises(UserError, match="has no gradient"):
        opt.step()
