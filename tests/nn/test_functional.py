"""A model as a function of its tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from whit import Tensor, grad, jvp, nn, vmap
from whit.errors import ArgumentError, MissingError
from whit.nn.state import functional_call, get_state_dict


@dataclass
class Scale:
    by: Tensor


class Net:
    def __init__(self) -> None:
        self.layers: list[Any] = [nn.Linear(4, 6), Tensor.tanh, nn.Linear(6, 3)]
        self.scale = Scale(Tensor([2.0]))
        self.tied = {"first": self.layers[0].weight}
        self.itself = self
        self.calls = 0

    def __call__(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x.sequential(self.layers) * self.scale.by + (x @ self.tied["first"].T).sum(-1, keepdim=True)


def test_a_model_is_called_with_other_tensors() -> None:
    model, other, x = Net(), Net(), Tensor.randn(5, 4)
    tensors = get_state_dict(model)
    found = functional_call(model, get_state_dict(other), x)
    np.testing.assert_allclose(found.numpy(), other(x).numpy(), rtol=1e-6)
    assert get_state_dict(model) == tensors and model.calls == 0


def test_some_tensors_by_one_of_their_names() -> None:
    model, x = Net(), Tensor.randn(5, 4)
    weight = Tensor.randn(6, 4)
    found = functional_call(model, {"tied.first": weight, "scale.by": Tensor([1.0])}, x)
    model.layers[0].weight, model.tied["first"], model.scale.by = weight, weight, Tensor([1.0])
    np.testing.assert_allclose(found.numpy(), model(x).numpy(), rtol=1e-6)


def test_gradients_of_each_example() -> None:
    model, x = nn.Linear(4, 3), Tensor.randn(5, 4)
    tensors = get_state_dict(model)
    loss = lambda p, x: (functional_call(model, p, x) ** 2).sum()  # noqa: E731
    each = vmap(grad(loss), (None, 0))(tensors, x)
    assert {name: dx.shape for name, dx in each.items()} == {"weight": (5, 3, 4), "bias": (5, 3)}
    whole = grad(loss)(tensors, x)
    np.testing.assert_allclose(each["weight"].sum(0).numpy(), whole["weight"].numpy(), rtol=1e-5, atol=1e-5)


def test_a_batch_of_models() -> None:
    models, x = [nn.Linear(4, 3) for _ in range(3)], Tensor.randn(5, 4)
    together = {name: Tensor.stack([get_state_dict(m)[name] for m in models]) for name in ("weight", "bias")}
    found = vmap(lambda p: functional_call(models[0], p, x))(together)
    np.testing.assert_allclose(found.numpy(), np.stack([m(x).numpy() for m in models]), rtol=1e-5, atol=1e-6)
    one = get_state_dict(models[0])
    _, tangent = jvp(lambda p: functional_call(models[0], p, x), (one,), (one,))
    np.testing.assert_allclose(tangent.numpy(), models[0](x).numpy(), rtol=1e-5, atol=1e-6)


def test_statistics_of_a_batch_norm_are_written_into_what_was_given() -> None:
    model, x = nn.BatchNorm(4), Tensor.randn(8, 4)
    tensors = {name: tensor.clone() for name, tensor in get_state_dict(model).items()}
    with Tensor.train():
        functional_call(model, tensors, x)
    np.testing.assert_allclose(tensors["running_mean"].numpy(), x.numpy().mean(0) * 0.1, rtol=1e-4, atol=1e-6)
    assert not model.running_mean.numpy().any()


def test_wrong_calls_say_what_is_wrong() -> None:
    model = nn.Linear(4, 3)
    with pytest.raises(MissingError, match="the model has no tensor 'wieght'"):
        functional_call(model, {"wieght": model.weight}, Tensor.ones(4))
    with pytest.raises(ArgumentError, match="is no dictionary"):
        functional_call(model, [model.weight], Tensor.ones(4))  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="cannot be called"):
        functional_call(3, {}, Tensor.ones(4))


@pytest.mark.parametrize("name", ["celu_", "elu_", "hardtanh_", "leaky_relu_", "relu_", "rrelu_", "selu_"])
def test_activations_with_an_underscore_write_into_their_input(name: str) -> None:
    x = Tensor([-2.0, -0.5, 0.5, 2.0])
    wanted = getattr(nn.functional, name.removesuffix("_"))(x).numpy()
    view = x[:2]
    assert getattr(nn.functional, name)(x) is x
    assert np.array_equal(x.numpy(), wanted) and np.array_equal(view.numpy(), wanted[:2])


def test_upsample_is_interpolate_under_its_older_names() -> None:
    x = Tensor.arange(4).float().reshape(1, 1, 2, 2)
    assert nn.functional.upsample(x, scale_factor=2).tolist() == nn.functional.upsample_nearest(x, 4).tolist()
    assert nn.functional.upsample_bilinear(x, 3).tolist() == [[[[0, 0.5, 1], [1, 1.5, 2], [2, 2.5, 3]]]]
    assert nn.functional.threshold_(Tensor([1.0, 3.0]), 2, 9).tolist() == [9, 3]
