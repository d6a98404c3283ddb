"""What people write with transforms: whole programs, each against the same without them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from whit import (
    Tensor,
    TinyJit,
    grad,
    hessian,
    jacfwd,
    jacobian,
    jvp,
    map_tensors,
    nn,
    value_and_grad,
    vmap,
)
from whit.nn.state import functional_call, get_state_dict

pytestmark = pytest.mark.slow  # large graphs

Model = list[Tensor]


def net(p: Model, x: Tensor) -> Tensor:
    return (x @ p[0] + p[1]).tanh() @ p[2] + p[3]


def error(p: Model, x: Tensor, y: Tensor) -> Tensor:
    return ((net(p, x) - y) ** 2).mean()


def made(seed: int, *shapes: tuple[int, ...]) -> Model:
    generator = np.random.default_rng(seed)
    return [Tensor(generator.normal(size=shape) * 0.5) for shape in shapes]


def test_learning_to_learn() -> None:
    """A step of gradient descent inside of the loss, for several tasks at once, captured."""
    p = made(0, (1, 16), (16,), (16, 1), (1,))
    x = Tensor(np.linspace(-2, 2, 40).reshape(4, 10, 1))
    y = x.sin() * Tensor([[[0.5]], [[1.0]], [[1.5]], [[2.0]]], dtype="double")

    def adapted(p: Model, x: Tensor, y: Tensor) -> Model:
        return [a - 0.1 * g for a, g in zip(p, grad(error)(p, x, y), strict=True)]

    def task(p: Model, x: Tensor, y: Tensor) -> Tensor:
        return error(adapted(p, x[:5], y[:5]), x[5:], y[5:])

    def loss(p: Model, x: Tensor, y: Tensor) -> Tensor:
        return vmap(task, (None, 0, 0))(p, x, y).mean()

    step = TinyJit(lambda p: value_and_grad(loss)(p, x, y))
    values = []
    for _ in range(5):
        value, slope = step(p)
        values.append(value.item())
        wanted = sum(task(p, x[i], y[i]) for i in range(4)).gradient(*p)
        for found, each in zip(slope, wanted, strict=True):
            np.testing.assert_allclose(found.numpy(), each.numpy() / 4, rtol=1e-9, atol=1e-12)
        p = [(a - 0.05 * g).realize() for a, g in zip(p, slope, strict=True)]
    assert values[-1] < values[0]


@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_of_each_head(is_causal: bool) -> None:
    q, k, v = made(1, (2, 3, 6, 4), (2, 3, 5, 4) if not is_causal else (2, 3, 6, 4), (2, 3, 5 + is_causal, 4))

    def one(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return q.scaled_dot_product_attention(k, v, is_causal=is_causal)

    heads = vmap(vmap(one))
    np.testing.assert_allclose(heads(q, k, v).numpy(), one(q, k, v).numpy(), rtol=1e-12)
    found = grad(lambda *x: (heads(*x) ** 2).sum(), (0, 1, 2))(q, k, v)
    each = vmap(vmap(grad(lambda *x: (one(*x) ** 2).sum(), (0, 1, 2))))(q, k, v)
    for a, b, wanted in zip(found, each, (one(q, k, v) ** 2).sum().gradient(q, k, v), strict=True):
        np.testing.assert_allclose(a.numpy(), wanted.numpy(), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(b.numpy(), wanted.numpy(), rtol=1e-9, atol=1e-12)
    shared = vmap(one, (0, None, None))(q[0], k[0, 0], v[0, 0])
    np.testing.assert_allclose(shared[1].numpy(), one(q[0, 1], k[0, 0], v[0, 0]).numpy(), rtol=1e-12)


def test_newton_from_several_places() -> None:
    def f(x: Tensor) -> Tensor:
        return Tensor.stack([x[0] ** 2 + x[1] - 3, x[0] - x[1] ** 2 + 1])

    x = Tensor(np.array([[1.0, 1.0], [2.0, 0.5], [1.5, 2.0]]))
    for _ in range(8):
        x = vmap(lambda x: x - jacobian(f)(x).solve(f(x)))(x).realize()
    assert np.abs(vmap(f)(x).numpy()).max() < 1e-12


def test_an_equation_with_second_derivatives() -> None:
    """The Laplacian of exp(a . x) is |a|**2 exp(a . x)."""
    a, points = np.array([0.5, -1.0, 0.25]), np.random.default_rng(0).normal(size=(5, 3))
    f = lambda x: (x * Tensor(a)).sum().exp()  # noqa: E731
    by_hessian = vmap(lambda x: hessian(f)(x).diagonal().sum())(Tensor(points))
    one = lambda x, v: jvp(lambda x: jvp(f, (x,), (v,))[1], (x,), (v,))[1]  # noqa: E731
    by_tangents = vmap(lambda x: vmap(one, (None, 0))(x, Tensor.eye(3, dtype="double")).sum())(Tensor(points))
    wanted = (a @ a) * np.exp(points @ a)
    np.testing.assert_allclose(by_hessian.numpy(), wanted)
    np.testing.assert_allclose(by_tangents.numpy(), wanted)


class Images:
    """A small network for images."""

    def __init__(self) -> None:
        self.conv, self.norm, self.last = nn.Conv2d(1, 4, 3), nn.BatchNorm(4), nn.Linear(4 * 9, 10)

    def __call__(self, x: Tensor) -> Tensor:
        return self.last(self.norm(self.conv(x)).relu().max_pool2d((2, 2)).flatten(1))


def test_an_ensemble_of_networks() -> None:
    nets, x = [Images() for _ in range(3)], Tensor.randn(2, 1, 8, 8)
    together = map_tensors(lambda *each: Tensor.stack(each), *map(get_state_dict, nets))
    found = vmap(lambda p: functional_call(nets[0], p, x))(together)
    np.testing.assert_allclose(found.numpy(), np.stack([net(x).numpy() for net in nets]), rtol=1e-4, atol=1e-5)


def test_gradients_of_each_image() -> None:
    model, x, y = Images(), Tensor.randn(4, 1, 8, 8), Tensor([1, 5, 0, 9])
    p = {name: tensor for name, tensor in get_state_dict(model).items() if tensor.requires_grad is not False}

    def loss(p: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return functional_call(model, p, x.unsqueeze(0)).cross_entropy(y.unsqueeze(0))

    each = vmap(grad(loss), (None, 0, 0))(p, x, y)
    for i in range(4):
        for name, wanted in grad(loss)(p, x[i], y[i]).items():
            np.testing.assert_allclose(each[name][i].numpy(), wanted.numpy(), rtol=1e-3, atol=1e-5)


def test_a_recurrent_network_of_each_sequence() -> None:
    cell, x = nn.LSTMCell(3, 5), Tensor.randn(4, 3, 3)

    def last(x: Tensor) -> Tensor:
        state = Tensor.zeros(1, 5), Tensor.zeros(1, 5)
        for t in range(3):
            state = cell(x[t : t + 1], state)
        return state[0][0]

    np.testing.assert_allclose(vmap(last)(x).numpy(), np.stack([last(x[i]).numpy() for i in range(4)]), rtol=1e-5)
    found = vmap(jacfwd(last))(x)
    assert found.shape == (4, 5, 3, 3)
    np.testing.assert_allclose(found[2].numpy(), jacobian(last)(x[2]).numpy(), rtol=1e-4, atol=1e-6)


def test_rows_of_an_embedding_for_each_example() -> None:
    weight, places = Tensor(np.random.default_rng(0).normal(size=(10, 4))), Tensor([[1, 2, 1], [0, 9, 3]])
    found: Any = vmap(grad(lambda w, i: (w[i] ** 3).sum()), (None, 0))(weight, places).numpy()
    for row, chosen in enumerate(([1, 2, 1], [0, 9, 3])):
        wanted = np.zeros((10, 4))
        np.add.at(wanted, chosen, 3 * weight.numpy()[chosen] ** 2)
        np.testing.assert_allclose(found[row], wanted)
