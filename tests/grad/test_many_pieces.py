"""A gradient that is the sum of many pieces: a few nodes for rows of one tensor and for results of calls."""

import numpy as np
import pytest

from whit import Tensor, function
from whit.ir import ops
from whit.transform.reverse import MANY_PIECES

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(0)


def rows_used(x: Tensor, places: list[int]) -> Tensor:
    total = x[places[0]] * 1.0
    for number, place in enumerate(places[1:], 1):
        total = total + x[place] * float(number + 1)
    return total.sum()


@pytest.mark.parametrize(
    "places",
    [
        list(range(24)),
        list(range(24))[::-1],
        [place for place in range(24) if place % 4],  # some rows have none
        [place % 20 for place in range(44)],  # some have several
        list(range(4)),
        list(range(MANY_PIECES, 24)),
    ],
)
def test_rows_of_one_tensor(places: list[int]) -> None:
    x = Tensor(RNG.normal(size=(24, 2, 3)).astype(np.float32)).realize()
    (found,) = rows_used(x, places).gradient(x)
    wanted = np.zeros((24, 2, 3))
    for number, place in enumerate(places):
        wanted[place] += number + 1
    np.testing.assert_allclose(found.numpy(), wanted)


def test_rows_are_stacked_instead_of_padded() -> None:
    x = Tensor(RNG.normal(size=(24, 2, 3)).astype(np.float32)).realize()
    (found,) = rows_used(x, list(range(24))).gradient(x)
    assert not any(node.op is ops.PAD for node in found.uop.topological())


@pytest.mark.parametrize("steps", [3, MANY_PIECES, 40])
def test_results_of_calls(steps: int) -> None:
    def step(x: Tensor, w: Tensor) -> Tensor:
        return (x @ w).tanh()

    x = Tensor(RNG.normal(size=(steps, 2, 3)).astype(np.float32)).realize()
    w = Tensor(RNG.normal(size=(3, 3)).astype(np.float32)).realize()

    def loss(fn: object) -> Tensor:
        h = Tensor.zeros(2, 3)
        for t in range(steps):
            h = fn(x[t] + h, w)  # type: ignore[operator]
        return h.sum()

    for one, other in zip(loss(step).gradient(x, w), loss(function(step)).gradient(x, w), strict=True):
        np.testing.assert_allclose(other.numpy(), one.numpy(), rtol=1e-4, atol=1e-5)


def test_second_order_through_rows() -> None:
    x = Tensor(RNG.normal(size=(20, 3)).astype(np.float32)).realize()
    total = Tensor(0.0)
    for t in range(20):
        total = total + (x[t] ** 3).sum()
    (first,) = total.gradient(x)
    (second,) = first.sum().gradient(x)
    np.testing.assert_allclose(second.numpy(), 6 * x.numpy(), rtol=1e-5)


@pytest.mark.parametrize("uses", [MANY_PIECES - 1, MANY_PIECES, 40])
def test_a_number_that_is_used_many_times(uses: int) -> None:
    number, total = Tensor([0.5, 0.25]).sum(), Tensor(0.0)
    for i in range(uses):
        total = total + (number * float(i)).sin()
    (found,) = total.gradient(number)
    assert found.item() == pytest.approx(sum(i * np.cos(0.75 * i) for i in range(uses)), rel=1e-4)
