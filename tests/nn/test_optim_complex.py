"""Optimisers change complex parameters as their two parts, which is what PyTorch does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from whit import Tensor
from whit.errors import DTypeError
from whit.nn import optim

NUMBERS = np.array([[1 + 2j, -0.5 + 0.3j], [0.1 - 1j, 2 + 0j]], np.complex64)
CASES: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.1, "amsgrad": True}),
    ("AdamW", {"lr": 0.1, "maximize": True, "fused": True}),
    ("RMSprop", {"lr": 0.1, "centered": True}),
    ("Rprop", {"lr": 0.1}),
    ("LAMB", {"lr": 0.1}),
]


def loss_of(z: Tensor) -> Tensor:
    return ((z * (1.5 - 0.5j) - 1j).abs() ** 2).sum()


@pytest.mark.parametrize(("name", "settings"), CASES)
def test_a_complex_parameter_goes_where_its_parts_go(name: str, settings: dict[str, Any]) -> None:
    whole = Tensor(NUMBERS, requires_grad=True)
    parts = Tensor(NUMBERS.view(np.float32).reshape(2, 2, 2), requires_grad=True)
    first, second = getattr(optim, name)([whole], **settings), getattr(optim, name)([parts], **settings)
    for _ in range(3):
        first.zero_grad()
        second.zero_grad()
        loss_of(whole).backward()
        loss_of(parts.view_as_complex()).backward()
        first.step()
        second.step()
    assert whole.numpy().dtype == np.complex64
    assert np.abs(whole.numpy() - NUMBERS).max() > 0.05
    np.testing.assert_allclose(whole.numpy().view(np.float32).reshape(2, 2, 2), parts.numpy(), rtol=1e-5, atol=1e-6)


def test_states_of_complex_parameters_are_complex_and_go_on() -> None:
    ends = []
    for is_resumed in (False, True):
        z = Tensor(NUMBERS, requires_grad=True)
        opt = optim.Adam([z], lr=0.1)
        for step in range(4):
            if step == 2 and is_resumed:
                kept = opt.state_dict()
                assert kept["state"][0]["exp_avg"].shape == (2, 2) and kept["state"][0]["exp_avg"].dtype.is_complex
                opt = optim.Adam([z], lr=0.1)
                opt.load_state_dict(kept)
            opt.zero_grad()
            loss_of(z).backward()
            opt.step()
        ends.append(z.numpy())
    np.testing.assert_array_equal(ends[0], ends[1])


def test_lbfgs_finds_complex_numbers() -> None:
    z = Tensor(NUMBERS, requires_grad=True)
    opt = optim.LBFGS([z], line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        opt.zero_grad()
        loss = loss_of(z)
        loss.backward()
        return loss

    opt.step(closure)
    np.testing.assert_allclose(z.numpy(), np.full((2, 2), 1j / (1.5 - 0.5j)), atol=1e-4)


@pytest.mark.parametrize("name", ["Adafactor", "Muon"])
def test_some_optimisers_refuse_complex_parameters(name: str) -> None:
    with pytest.raises(DTypeError, match=f"{name}: parameter 0 is complex64, and {name} takes real parameters"):
        getattr(optim, name)([Tensor(NUMBERS)])
