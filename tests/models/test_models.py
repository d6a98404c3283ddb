"""Whole models: outputs, losses and all gradients of two steps are those of PyTorch.

Each test is every row of `table.py`. What is compared with are fingerprints of what PyTorch computes in float64
(`expected.json`; `record.py` writes it), so that PyTorch need not be installed.

How far results may be off, as a part of the norm of what is compared: one rounding in float64 is 1e-16, and the longest
sums here have some thousand terms in some tens of layers, each of which a norm may make ten times larger; 1e-9 leaves
three digits, and a wrong or missing term of a gradient is off by 1e-3 or more. In float32 the same reasoning says
1e-7 * 1e4. Adam corrects its averages by numbers that are kept in float32, so what follows its steps is right to 1e-7.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from models.table import CASES, Case
from models.training import gradients_at_once, problems, train, train_theirs
from whit import Context

EXPECTED = json.loads(Path(__file__).with_name("expected.json").read_text())


def tolerance_of(case: Case, dtype: str) -> float:
    """How far two steps may be off."""
    return 2e-3 if dtype == "float32" else 1e-9 if case.optimizer == "sgd" else 1e-6


pytestmark = pytest.mark.slow
every_model = pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.name, marks=[pytest.mark.large] * case.is_large) for case in CASES]
)


@every_model
def test_gradients_that_are_realised_together_are_those_of_pytorch(case: Case) -> None:
    assert problems(gradients_at_once(case, "float64"), EXPECTED[case.name], 1e-9) == []


@every_model
def test_two_captured_steps_of_training_are_those_of_pytorch(case: Case) -> None:
    assert problems(train(case, "float32", is_captured=True), EXPECTED[case.name], tolerance_of(case, "float32")) == []


@every_model
def test_gradients_by_the_interpreter_are_those_of_pytorch(case: Case) -> None:
    found = gradients_at_once(case, "float64", "PYTHON")
    assert problems(found, EXPECTED[case.name], 1e-9) == []


@every_model
@pytest.mark.large
@pytest.mark.parametrize("is_captured", [False, True], ids=["plain", "captured"])
def test_two_steps_in_float64_are_those_of_pytorch(case: Case, is_captured: bool) -> None:
    assert problems(train(case, "float64", is_captured), EXPECTED[case.name], tolerance_of(case, "float64")) == []


@every_model
@pytest.mark.large
def test_gradients_without_optimisation_are_those_of_pytorch(case: Case) -> None:
    with Context(NOOPT=1):
        found = gradients_at_once(case, "float64")
    assert problems(found, EXPECTED[case.name], 1e-9) == []


@every_model
@pytest.mark.large
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_element_is_that_of_pytorch(case: Case, dtype: str) -> None:
    pytest.importorskip("torch")
    expected = train_theirs(case, "float64")
    assert problems(train(case, dtype, is_captured=True), expected, tolerance_of(case, dtype)) == []
    assert problems(gradients_at_once(case, dtype), expected, tolerance_of(case, dtype)) == []


@pytest.mark.parametrize("name", ["2 gradient of first.weight", "1 output", "1 gradient of last.bias"])
def test_a_wrong_element_is_seen(name: str) -> None:
    """What the tests above rest on: one element of one array, a thousandth of its norm off."""
    found = train(CASES[0], "float64", is_captured=False)
    assert problems(found, EXPECTED["mlp"], 1e-6) == []
    found[name].reshape(-1)[3] += 1e-3 * abs(found[name]).max()
    (problem,) = problems(found, EXPECTED["mlp"], 1e-6)
    assert problem.startswith(f"{name} is off by ")


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.name in ("unet", "siamese")], ids=lambda case: case.name
)
def test_some_models_are_right_without_optimisation(case: Case) -> None:
    """`make models` asks this of all of them."""
    with Context(NOOPT=1):
        found = gradients_at_once(case, "float64")
    assert problems(found, EXPECTED[case.name], 1e-9) == []
