"""softmax(scores) @ values, in the forms in which it is written: gradients are those of what was written.

Where the weights are asked for as well, gradients go through what was written: that is the reference, in float64.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from whit import Tensor, Variable
from whit.dtype import dtypes
from whit.ir import ops
from whit.tensor.graphs.mixing import MIXED

pytestmark = pytest.mark.slow

LENGTH, OTHERS, DEPTH = 5, 7, 4
HIDDEN = np.random.default_rng(9).random((LENGTH, OTHERS)) < 0.3
HIDDEN[0], HIDDEN[:, 2] = False, False


def floats(*shape: int, seed: int = 0) -> Tensor:
    return Tensor(np.random.default_rng(seed).standard_normal(shape), device="PYTHON")


def operands() -> list[Tensor]:
    return [floats(2, LENGTH, DEPTH), floats(2, OTHERS, DEPTH, seed=1), floats(2, OTHERS, 3, seed=2)]


def constant(array: Any) -> Tensor:
    return Tensor(array, device="PYTHON")


def scores_of(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.transpose(-2, -1) * 0.5


def masked(q: Tensor, k: Tensor) -> Tensor:
    return constant(~HIDDEN).where(scores_of(q, k), -math.inf)


def with_largest(s: Tensor) -> Tensor:
    power = (s - s.max(-1, keepdim=True)).exp()
    return power / power.sum(-1, keepdim=True)


def without_largest(s: Tensor) -> Tensor:
    power = s.exp()
    return power / power.sum(-1, keepdim=True)


def dropped(weights: Tensor) -> Tensor:
    return constant(np.random.default_rng(5).random((2, LENGTH, OTHERS)) < 0.7).where(weights / 0.7, 0)


Weights = Callable[[Tensor, Tensor], Tensor]
FORMS: dict[str, Weights] = {
    "softmax": lambda q, k: scores_of(q, k).softmax(-1),
    "hidden": lambda q, k: masked(q, k).softmax(-1),
    "causal": lambda q, k: constant(np.ones((LENGTH, OTHERS), np.bool_)).tril().where(scores_of(q, k), -1e9).softmax(),
    "added": lambda q, k: (scores_of(q, k) + constant(np.where(HIDDEN, -1e9, 0))).softmax(-1),
    "largest": lambda q, k: with_largest(masked(q, k)),
    "powers": lambda q, k: without_largest(scores_of(q, k)),
    "logsumexp": lambda q, k: (scores_of(q, k) - scores_of(q, k).logsumexp(-1, keepdim=True)).exp(),
    "other shape": lambda q, k: (scores_of(q, k) - scores_of(q, k).logsumexp(-1).unsqueeze(-1)).exp(),
    "log_softmax": lambda q, k: masked(q, k).log_softmax(-1).exp(),
    "dropped": lambda q, k: dropped(masked(q, k).softmax(-1)),
    "by numbers": lambda q, k: constant(~HIDDEN).double() * scores_of(q, k).softmax(-1) * 3,
    "in float32": lambda q, k: scores_of(q, k).float().softmax(-1).double(),
}


def is_mixed(y: Tensor) -> bool:
    return any(node.op is ops.FORMULA and node.arg.name == MIXED for node in y.uop.topological())


def both(y: Tensor, weights: Tensor, tensors: list[Tensor], upstream: Tensor) -> list[tuple[Any, Any]]:
    """Gradients, and those of what was written."""
    found = y.gradient(*tensors, gradient=upstream)
    right = y.gradient(*tensors, weights, gradient=upstream)[:-1]
    Tensor.realize(*found, *right)
    return [(a.numpy(), b.numpy()) for a, b in zip(found, right, strict=True)]


@pytest.mark.parametrize("form", FORMS)
def test_gradients_are_those_of_what_was_written(form: str) -> None:
    q, k, v = operands()
    weights = FORMS[form](q, k)
    y = weights @ v
    assert is_mixed(y)
    error = 1e-6 if form == "in float32" else 1e-13
    for found, right in both(y, weights, [q, k, v], floats(*y.shape, seed=3)):
        np.testing.assert_allclose(found, right, rtol=error, atol=error)


@pytest.mark.parametrize("form", ["hidden", "dropped", "logsumexp"])
def test_second_derivatives(form: str) -> None:
    tensors = operands()
    weights = FORMS[form](*tensors[:2])
    y, upstream = weights @ tensors[2], floats(2, LENGTH, 3, seed=3)
    slopes = y.gradient(*tensors, gradient=upstream), y.gradient(*tensors, weights, gradient=upstream)[:-1]
    found, right = (sum(g.square().sum() for g in part).gradient(*tensors) for part in slopes)
    Tensor.realize(*found, *right)
    for a, b in zip(found, right, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9, atol=1e-11)


def test_other_layouts_and_shared_values() -> None:
    q, k, v = floats(2, 3, LENGTH, DEPTH), floats(2, 3, OTHERS, DEPTH, seed=1), floats(OTHERS, 3, seed=2)
    weights = (q @ k.transpose(-2, -1)).softmax(-1)
    upstream = floats(2, 3, LENGTH, 3, seed=3)
    y = weights @ v
    assert is_mixed(y)
    for found, right in both(y, weights, [q, k, v], upstream):
        np.testing.assert_allclose(found, right, rtol=1e-12, atol=1e-13)
    v = floats(2, OTHERS, 3, 3, seed=2)
    for y in (Tensor.einsum("bhqk,bkhd->bqhd", weights, v), Tensor.einsum("bkhd,bhqk->bqhd", v, weights)):
        assert is_mixed(y)
        for found, right in both(y, weights, [q, k, v], upstream.transpose(1, 2)):
            np.testing.assert_allclose(found, right, rtol=1e-12, atol=1e-13)


def test_weights_that_are_used_twice_get_both_gradients() -> None:
    q, k, v = operands()
    weights = FORMS["softmax"](q, k)
    y = (weights @ v).sum() + (weights * weights).sum()
    for found, right in both(y, weights, [q, k, v], Tensor(1.0, dtype=dtypes.float64, device="PYTHON")):
        np.testing.assert_allclose(found, right, rtol=1e-12, atol=1e-13)
    (found,) = (weights @ v).sum().gradient(weights)
    np.testing.assert_allclose(found.numpy(), np.broadcast_to(v.numpy().sum(-1)[:, None], weights.shape), rtol=1e-12)


def test_large_scores_keep_their_digits() -> None:
    """A number for the row, less than the largest score, has more digits than the largest score plus that number."""
    q, k, v = (t.float().realize() for t in operands())
    weights = (scores_of(q, k) + 1e5).softmax(-1)
    for found, right in both(weights @ v, weights, [q, k, v], floats(2, LENGTH, 3, seed=3).float()):
        np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-5)


def test_a_row_of_infinities() -> None:
    """One infinite score takes all; a row that sees nothing has no weights."""
    scores, v = floats(3, 4).numpy(), floats(4, 2, seed=1)
    scores[0, 1], scores[1] = math.inf, -math.inf
    s = constant(scores)
    weights = s.softmax(-1)
    by_scores, by_values = both(weights @ v, weights, [s, v], floats(3, 2, seed=2))
    np.testing.assert_allclose(*by_scores, rtol=1e-12)
    assert np.isnan(by_scores[0][1]).all() and (by_scores[0][0] == 0).all() and np.isnan(by_values[0]).all()


def test_symbolic_lengths() -> None:
    q, k, v = operands()
    length = Variable("length", 1, OTHERS).bind(4)
    weights = FORMS["softmax"](q, k[:, :length])
    y = weights @ v[:, :length]
    found = y.sum().gradient(q, k, v)
    short = FORMS["softmax"](q, k[:, :4]) @ v[:, :4]
    for a, b in zip(found, short.sum().gradient(q, k, v), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12, atol=1e-13)


NO_SOFTMAX: dict[str, Weights] = {
    "another axis": lambda q, k: scores_of(q, k).softmax(-2),
    "less the largest of a column": lambda q, k: (
        (e := (s := scores_of(q, k)).sub(s.max(-2, keepdim=True)).exp()) / e.sum(-1, keepdim=True)
    ),
    "times what has a gradient": lambda q, k: scores_of(q, k).softmax(-1) * k.sum(),
}


@pytest.mark.parametrize("name", NO_SOFTMAX)
def test_what_only_looks_like_one_has_its_own_gradient(name: str) -> None:
    q, k, v = operands()
    weights = NO_SOFTMAX[name](q, k)
    y = weights @ v
    assert is_mixed(y) == (name == "less the largest of a column")  # which has its gradient, too
    for found, right in both(y, weights, [q, k, v], floats(*y.shape, seed=3)):
        np.testing.assert_allclose(found, right, rtol=1e-11, atol=1e-12)


def test_dropout_of_attention() -> None:
    """That of the method drops what the same softmax by hand does."""
    q, k, v = operands()
    upstream = floats(2, LENGTH, 3, seed=3)
    with Tensor.train():
        for p in (0.4, 1.0):
            Tensor.manual_seed(1)
            y = q.scaled_dot_product_attention(k, v, dropout_p=p, scale=0.5)
            Tensor.manual_seed(1)
            right = scores_of(q, k).softmax(-1).dropout(p) @ v
            slopes = [t.gradient(q, k, v, gradient=upstream) for t in (y, right)]
            Tensor.realize(*slopes[0], *slopes[1])
            for a, b in zip(*slopes, strict=True):
                np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12, atol=1e-13)
