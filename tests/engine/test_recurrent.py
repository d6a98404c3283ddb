"""Steps of a recurrent layer are the same kernels, however many there are, and are scheduled once."""

from collections.abc import Callable

import numpy as np
import pytest

from whit import Tensor, function, nn
from whit.engine.realize.parametrise import below, parametrise
from whit.ir import ops
from whit.ir.uop import UOp
from whit.schedule import schedule


def weights(layer: object) -> None:
    """Gives a layer weights that need no kernel."""
    for tensor in nn.state.get_parameters(layer):
        tensor.replace(Tensor.empty(*tensor.shape))


def scheduled(*values: Tensor) -> tuple[UOp, ...]:
    """The calls of kernels for these values. Nothing is compiled."""
    roots = [value.uop for value in values]
    return schedule(parametrise(roots, below(roots)[0]).graph).src


def over_layer(kind: Callable[..., nn.LSTM | nn.GRU], steps: int) -> tuple[UOp, ...]:
    layer = kind(3, 32)
    weights(layer)
    return scheduled(layer(Tensor.empty(steps, 4, 3))[0])


def by_hand(steps: int) -> tuple[UOp, ...]:
    cell, state = nn.LSTMCell(3, 32), None
    weights(cell)
    x = Tensor.empty(steps, 4, 3)
    for t in range(steps):
        state = cell(x[t], state)
    assert state is not None
    return scheduled(*state)


@pytest.mark.parametrize(("kind", "kernels"), [(nn.LSTM, 2), (nn.GRU, 1)])
def test_layers_over_more_time_are_the_same_step(kind: Callable[..., nn.LSTM | nn.GRU], kernels: int) -> None:
    short, long = over_layer(kind, 8), over_layer(kind, 64)
    steps = [
        [call.src[0].src[0].src[0] for call in calls if call.src[0].src[0].op is ops.REPEAT] for calls in (short, long)
    ]
    assert len(short) == len(long)
    assert steps[0] == steps[1]
    assert [len(step.src[0].src) for step in steps[0]] == [kernels]


@pytest.mark.parametrize(("kind", "read"), [(nn.LSTM, 4), (nn.RNN, 3), (nn.GRU, 4)])
def test_steps_read_a_bias_only_where_it_is_not_added_to_the_input(kind: Callable[..., nn.LSTM], read: int) -> None:
    outputs = kind(3, 32)(Tensor.empty(9, 4, 3))[0]
    (loop,) = [node for node in outputs.uop.topological() if node.op is ops.LOOP]
    assert len(loop.src) - loop.arg.functions == read, "states, inputs, weights, and the bias of a GRU"


def test_a_cell_in_a_loop_has_the_same_kernels_in_every_step() -> None:
    short, long = by_hand(8), by_hand(64)
    assert {call.src[0] for call in short} == {call.src[0] for call in long}
    assert len(long) - len(short) == (64 - 8) * 3


def test_results_of_calls_that_are_stacked_are_not_copied() -> None:
    @function
    def half(x: Tensor, w: Tensor) -> Tensor:
        return x @ w * 0.25

    x, w = Tensor.empty(40, 5, 5), Tensor.empty(5, 5)
    parts = [half(x[t], w) for t in range(40)]
    assert len(scheduled(parts[0].stack(*parts[1:]))) == 40
    assert len(scheduled(parts[0].stack(*parts[1:], dim=1))) == 41


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_stacks_of_results_beside_each_other_hold_them(dim: int) -> None:
    @function
    def product(x: Tensor, w: Tensor) -> Tensor:
        return (x @ w).tanh()

    rng = np.random.default_rng(0)
    x, w = (rng.normal(size=(3, 4, 4)).astype(np.float32) for _ in range(2))
    found = [[product(Tensor(each), Tensor(weight)) for each in x] for weight in w[:2]]
    first, second = (parts[0].stack(*parts[1:]) for parts in found)
    wanted = np.concatenate([np.tanh(x @ weight) for weight in w[:2]], dim)
    np.testing.assert_allclose(first.cat(second, dim=dim).numpy(), wanted, atol=1e-5)


def test_parts_of_a_value_that_is_computed_are_passed_without_copies() -> None:
    @function
    def square(x: Tensor) -> Tensor:
        return x @ x

    x = Tensor.empty(6, 5, 5)
    kernels = scheduled(*[square((x * 0.3)[t]) for t in range(6)])
    assert len(kernels) == 7  # one for x * 0.3


def test_a_small_part_of_a_value_is_computed_alone() -> None:
    @function
    def square(x: Tensor) -> Tensor:
        return x @ x

    first, _ = scheduled(square((Tensor.empty(100, 5, 5) * 0.3)[3]))
    assert first.src[1].shape == (5, 5)


def reference(x: np.ndarray, h: np.ndarray, c: np.ndarray, state: dict[str, Tensor]) -> np.ndarray:
    """An LSTM in float64."""

    def sigmoid(z: np.ndarray) -> np.ndarray:
        return np.asarray(1 / (1 + np.exp(-z)))

    for layer in range(len(h)):
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        w_ih, w_hh, b_ih, b_hh = (state[f"{name}_l{layer}"].numpy().astype(np.float64) for name in names)
        outputs, hidden, memory = [], h[layer], c[layer]
        for step in x:
            both = step @ w_ih.T + b_ih + hidden @ w_hh.T + b_hh
            take, forget, new, give = np.split(both, 4, axis=-1)
            memory = sigmoid(forget) * memory + sigmoid(take) * np.tanh(new)
            hidden = sigmoid(give) * np.tanh(memory)
            outputs.append(hidden)
        x = np.stack(outputs)
    return x


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
@pytest.mark.parametrize("steps", [1, 3, 40])
def test_values_over_time(device: str, steps: int) -> None:
    Tensor.manual_seed(1)
    layer = nn.LSTM(3, 4, num_layers=2)
    for tensor in nn.state.get_parameters(layer):
        tensor.replace(tensor.to(device).realize())
    rng = np.random.default_rng(steps)
    x, h, c = (rng.normal(size=shape).astype(np.float32) for shape in ((steps, 2, 3), (2, 2, 4), (2, 2, 4)))
    given = [Tensor(values, device=device) for values in (x, h, c)]
    found, _ = layer(given[0], (given[1], given[2]))
    np.testing.assert_allclose(found.numpy(), reference(x, h, c, layer.state_dict()), atol=1e-5)


def test_gradients_through_calls_over_time() -> None:
    def loss(step: Callable[[Tensor, Tensor], Tensor], x: Tensor, w: Tensor) -> Tensor:
        h = Tensor.zeros(2, 3)
        for t in range(6):
            h = step(x[t] + h, w)
        return h.sum()

    def step(x: Tensor, w: Tensor) -> Tensor:
        return (x @ w).tanh()

    rng = np.random.default_rng(0)
    x, w = Tensor(rng.normal(size=(6, 2, 3)).astype(np.float32)), Tensor(rng.normal(size=(3, 3)).astype(np.float32))
    plain, called = loss(step, x, w).gradient(x, w), loss(function(step), x, w).gradient(x, w)
    for one, other in zip(plain, called, strict=True):
        np.testing.assert_allclose(other.numpy(), one.numpy(), rtol=1e-5, atol=1e-6)
