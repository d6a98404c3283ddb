"""Attention by blocks: where it is found, and that no matrix of scores is stored then. Nothing is compiled."""

import math
from collections.abc import Callable

import pytest

from whit import Context, Tensor, Variable

N = 64
SCORES = f"{N}, {N})"


def some(*shape: int) -> Tensor:
    return Tensor.empty(*shape, device="NULL")


def heads(count: int = 3) -> list[Tensor]:
    return [some(2, 4, N, 32) for _ in range(count)]


def gradients_of(program: Callable[..., Tensor], tensors: list[Tensor]) -> list[Tensor]:
    result = program(*tensors)
    upstream = Tensor.empty(*result.shape, dtype=result.dtype, device="NULL")
    return list(result.gradient(*tensors, gradient=upstream))


def softmax_by_hand(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    power = (q @ k.transpose(-2, -1) * 0.2).exp()
    return (power / power.sum(-1, keepdim=True)) @ v


def with_largest(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = q @ k.transpose(-2, -1)
    power = (scores - scores.max(-1, keepdim=True)).exp()
    return (power / power.sum(-1, keepdim=True)) @ v


def with_logsumexp(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = q @ k.transpose(-2, -1)
    return (scores - scores.logsumexp(-1, keepdim=True)).exp() @ v


def softcap(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return ((q @ k.transpose(-2, -1) / 30).tanh() * 30).softmax() @ v


def window(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    i, j = Tensor.arange(N, device="NULL").reshape(N, 1), Tensor.arange(N, device="NULL").reshape(1, N)
    return ((j <= i) & (j > i - 9)).where(q @ k.transpose(-2, -1), -math.inf).softmax() @ v


PROGRAMS: dict[str, Callable[..., Tensor]] = {
    "plain": lambda q, k, v: q.scaled_dot_product_attention(k, v),
    "causal": lambda q, k, v: q.scaled_dot_product_attention(k, v, is_causal=True),
    "half": lambda q, k, v: q.half().scaled_dot_product_attention(k.half(), v.half()),
    "masked": lambda q, k, v: q.scaled_dot_product_attention(k, v, some(N, N) > 0),
    "added": lambda q, k, v: q.scaled_dot_product_attention(k, v, some(2, 1, N, N)),
    "shared heads": lambda q, k, v: q.scaled_dot_product_attention(k[:, :2], v[:, :2], enable_gqa=True),
    "softmax": lambda q, k, v: (q @ k.transpose(-2, -1)).softmax() @ v,
    "by hand": softmax_by_hand,
    "largest": with_largest,
    "logsumexp": with_logsumexp,
    "softcap": softcap,
    "window": window,
    "other layout": lambda q, k, v: q.scaled_dot_product_attention(k, v).transpose(1, 2).contiguous(),
}


BY_HAND = ("by hand", "softmax", "largest", "logsumexp")


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_attention_is_one_kernel_that_stores_no_scores(name: str) -> None:
    report = PROGRAMS[name](*heads()).explain()
    assert "on NULL: 1 kernel," in report
    assert "attention by blocks" in report and "temporaries 0 B" in report


@pytest.mark.slow
@pytest.mark.parametrize("name", ["causal", "added", "shared heads", "by hand", "softmax", "largest", "logsumexp"])
def test_gradients_store_no_scores(name: str) -> None:
    tensors = heads()
    gradients = gradients_of(PROGRAMS[name], tensors)
    report = Tensor.stack(*gradients).explain()
    assert report.count("attention by blocks") >= 2  # the result, of which the gradients are made, and the gradients
    assert SCORES not in report
    if name in (*BY_HAND, "causal"):
        rows, result = 2 * 4 * N * 4, 2 * 4 * N * 32 * 4
        numbers = 3 if name in BY_HAND else 2  # of a row: the sum of what is given times the result, and of weights
        assert "on NULL: 4 kernels," in report
        assert f"temporaries {(3 * result + numbers * rows) / 1e3:.2f} kB" in report  # results, before they are stacked


def test_queries_keys_and_values_have_their_gradients_in_one_kernel() -> None:
    tensors = heads()
    gradients = gradients_of(PROGRAMS["causal"], tensors)
    report = Tensor.stack(*gradients).explain()
    assert report.count("attention by blocks") == 2
    assert "row i sees those up to i" in report


@pytest.mark.slow
def test_scores_that_something_else_reads_are_stored() -> None:
    q, k, v = heads()
    weights = (q @ k.transpose(-2, -1)).softmax()
    assert "attention by blocks" not in Tensor.stack(weights @ v, weights[..., :32] * 2).explain()
    mask = some(N, N)
    (gradient,) = q.scaled_dot_product_attention(k, v, mask).sum().gradient(mask)
    assert "attention by blocks" not in gradient.explain()


@pytest.mark.slow
def test_what_is_short_symbolic_or_not_wanted_is_computed_as_written() -> None:
    q, k, v = heads()
    assert "attention by blocks" not in q[:, :, :1].scaled_dot_product_attention(k, v).explain()
    length = Variable("length", 1, N).bind(40)
    decoded = q.scaled_dot_product_attention(k[:, :, :length], v[:, :, :length])
    assert "attention by blocks" not in decoded.explain()
    with Context(FLASH_ATTENTION=0):
        assert "attention by blocks" not in PROGRAMS["plain"](q, k, v).explain()


def test_two_products_without_a_softmax_are_two_kernels() -> None:
    q, k, v = (some(N, N) for _ in range(3))
    assert "on NULL: 2 kernels," in ((q @ k).relu() @ v).explain()
