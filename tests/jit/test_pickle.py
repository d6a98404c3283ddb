"""Captured functions in pickles and copies: found again by their names, or made again of their functions."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from whit import Tensor, TinyJit, Variable, function, nn


@TinyJit
def doubled(x: Tensor) -> Tensor:
    return x * 2


def plain(x: Tensor) -> Tensor:
    return x * 3


tripled = TinyJit(plain, prune=True)


@function
def squared(x: Tensor) -> Tensor:
    return x * x


class Model:
    def __init__(self) -> None:
        self.layer = nn.Linear(2, 2)
        self.run = TinyJit(self.forward)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)

    @TinyJit
    def step(self, x: Tensor) -> Tensor:
        return self.layer(x) + 1


def test_a_captured_function_is_found_again_by_its_name() -> None:
    doubled(Tensor([1.0]))
    assert pickle.loads(pickle.dumps(doubled)) is doubled
    assert copy.deepcopy(doubled) is doubled and copy.copy(doubled) is doubled
    assert pickle.loads(pickle.dumps(Model.step)) is Model.step
    assert pickle.loads(pickle.dumps(squared))(Tensor([3.0])).tolist() == [9]


def test_a_captured_function_under_another_name_is_made_again() -> None:
    tripled(Tensor([1.0]))
    other = pickle.loads(pickle.dumps(tripled))
    assert other is not tripled and other.captured == [] and other._prune
    assert other(Tensor([2.0])).tolist() == [6]
    local = TinyJit(lambda x: x + 1)
    assert copy.deepcopy(local)(Tensor([1.0])).tolist() == [2]
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(local)


@pytest.mark.parametrize("how", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_model_with_captured_functions_is_copied_with_its_own_weights(how: Any) -> None:
    model, x = Model(), Tensor([[1.0, 2.0]]).realize()
    ran, stepped = model.run(x).numpy(), model.step(x).numpy()
    other = how(model)
    other.layer.weight.assign(other.layer.weight * 2).realize()
    other.layer.bias.assign(other.layer.bias * 2).realize()
    assert np.allclose(other.run(x).numpy(), ran * 2) and np.allclose(other.step(x).numpy(), (stepped - 1) * 2 + 1)
    assert np.allclose(model.run(x).numpy(), ran) and np.allclose(model.step(x).numpy(), stepped)


OPTIMISERS = ["SGD", "Adam", "AdamW", "LAMB", "LARS", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam"]
OPTIMISERS += ["Adafactor", "Rprop", "ASGD", "LBFGS", "Muon"]


@pytest.mark.parametrize("name", OPTIMISERS)
def test_a_model_and_its_optimiser_stay_together(name: str) -> None:
    layer = nn.Linear(2, 2, bias=False)
    optimizer = getattr(nn.optim, name)(layer.parameters(), lr=0.1)
    for model, other in (copy.deepcopy((layer, optimizer)), pickle.loads(pickle.dumps((layer, optimizer)))):
        assert other.params[0] is model.weight
        before = model.weight.numpy()
        model(Tensor([[1.0, 2.0]])).square().sum().backward()
        if name != "LBFGS":  # asks the loss again
            other.step()
            assert not np.array_equal(model.weight.numpy(), before)
        assert np.array_equal(layer.weight.numpy(), before)


def test_variables_with_and_without_values_are_pickled() -> None:
    n = Variable("n", 1, 8)
    assert pickle.loads(pickle.dumps(n)) is n and copy.deepcopy(n) is n
    bound = n.bind(3)
    assert pickle.loads(pickle.dumps(bound)) is bound and copy.deepcopy(bound) is bound
    assert pickle.loads(pickle.dumps({"n": bound, "x": Tensor([1.0])}))["n"] is bound
    assert pickle.loads(pickle.dumps(Tensor.ones(8)[:bound].contiguous().numpy())).shape == (3,)
