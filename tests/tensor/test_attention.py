"""Attention against NumPy, with every mask; PyTorch where it is installed."""

import math
from typing import Any

import numpy as np
import pytest

from tensor.check import FLOATS, same, some, value, wide
from whit import Tensor
from whit.dtype import DType, dtypes
from whit.engine.report.counters import GlobalCounters
from whit.errors import ShapeError


def array(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape)


def attention(q: Any, k: Any, v: Any, mask: Any = None, scale: float | None = None) -> Any:
    """The definition; a query that sees nothing gives 0."""
    scores = q @ k.swapaxes(-1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == np.bool_ else scores + mask
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = np.where(np.isnan(weights), 0, weights)
    total = weights.sum(-1, keepdims=True)
    return weights @ v / np.where(total == 0, 1, total)


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)], ids=str)
@pytest.mark.parametrize("length, others", [(4, 4), (1, 5), (6, 3)], ids=str)
def test_values(batch: Any, length: int, others: int) -> None:
    q, k, v = array(*batch, length, 8), array(*batch, others, 8, seed=1), array(*batch, others, 5, seed=2)
    tensors = [Tensor(a) for a in (q, k, v)]

    def ours(**options: Any) -> Tensor:
        return tensors[0].scaled_dot_product_attention(tensors[1], tensors[2], **options)

    same(ours(), attention(q, k, v), dtypes.float64, ulps=64, scale=1)
    same(ours(scale=0.3), attention(q, k, v, scale=0.3), ulps=64, scale=1)
    causal = np.tril(np.ones((length, others), np.bool_))
    same(ours(is_causal=True), attention(q, k, v, causal), ulps=64, scale=1)
    bools = array(length, others, seed=3) > 0
    found = ours(attn_mask=Tensor(bools))
    same(found, attention(q, k, v, bools), ulps=64, scale=1)
    floats = array(*batch, length, others, seed=4)
    found = ours(attn_mask=Tensor(floats))
    same(found, attention(q, k, v, floats), ulps=64, scale=1)


def test_a_query_that_sees_nothing_gives_zero() -> None:
    q, k, v = Tensor.ones(2, 4), Tensor.ones(3, 4), Tensor.ones(3, 2)
    mask = Tensor([[True, False, True], [False, False, False]])
    same(q.scaled_dot_product_attention(k, v, mask), [[1, 1], [0, 0]])
    added = Tensor([[0.0, 0.0, 0.0], [-math.inf] * 3])
    same(q.scaled_dot_product_attention(k, v, added), [[1, 1], [0, 0]], ulps=2)


def test_heads_of_queries_share_keys_and_values() -> None:
    q, k, v = array(2, 6, 4, 8), array(2, 2, 5, 8, seed=1), array(2, 2, 5, 8, seed=2)
    found = Tensor(q).scaled_dot_product_attention(Tensor(k), Tensor(v), enable_gqa=True)
    same(found, attention(q, k.repeat(3, 1), v.repeat(3, 1)), ulps=64, scale=1)
    with pytest.raises(ShapeError, match="6 heads of queries for 4"):
        Tensor(q).scaled_dot_product_attention(Tensor.ones(2, 4, 5, 8), Tensor.ones(2, 4, 5, 8), enable_gqa=True)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_small_floats_are_rounded_once(dtype: DType) -> None:
    q, k, v = (some(dtype, (3, 4), i, -2, 2) for i in range(3))
    found = Tensor(q).scaled_dot_product_attention(Tensor(k), Tensor(v))
    ulps = 0.51 if dtype.mantissa_bits < 23 else 32
    same(found, attention(wide(q), wide(k), wide(v)), dtype, ulps=ulps, scale=1e-3 if ulps < 1 else 1)


def test_large_scores_do_not_overflow() -> None:
    q = Tensor([[1e4, -1e4], [1e4, 1e4]])
    found = value(q.scaled_dot_product_attention(q, Tensor.eye(2)))
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found.sum(-1), 1)


def test_kernels() -> None:
    q, k, v = (Tensor(array(2, 4, 16, 8, seed=i).astype(np.float32)).realize() for i in range(3))
    for keywords in ({}, {"is_causal": True}):
        GlobalCounters.reset()
        q.scaled_dot_product_attention(k, v, **keywords).realize()
        assert GlobalCounters.kernel_count <= 3


def test_compiled() -> None:
    q, k, v = array(2, 5, 8), array(2, 7, 8, seed=1), array(2, 7, 3, seed=2)
    found = Tensor(q).scaled_dot_product_attention(Tensor(k), Tensor(v), is_causal=True).numpy()
    np.testing.assert_allclose(found, attention(q, k, v, np.tril(np.ones((5, 7), np.bool_))), rtol=1e-12)


def test_wrong_arguments() -> None:
    q, k, v = Tensor.ones(2, 4), Tensor.ones(3, 4), Tensor.ones(3, 2)
    with pytest.raises(ShapeError, match="keys and values"):
        q.scaled_dot_product_attention(Tensor.ones(3, 5), v)
    with pytest.raises(ShapeError, match="keys and values"):
        q.scaled_dot_product_attention(k, Tensor.ones(4, 2))


def test_sequential() -> None:
    x = Tensor([1.0, -2.0])
    same(x.sequential([Tensor.relu, lambda t: t + 1, Tensor.sum]), 3.0)
    assert x.sequential([]) is x


@pytest.mark.slow  # loads PyTorch
def test_values_are_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    q, k, v = array(2, 4, 5, 8), array(2, 2, 7, 8, seed=1), array(2, 2, 7, 3, seed=2)
    mask = array(5, 7, seed=3) > 0
    reference = torch.nn.functional.scaled_dot_product_attention
    tensors = [torch.tensor(a) for a in (q, k, v)]
    for keywords in ({"is_causal": True}, {"attn_mask": mask}, {}):
        theirs = {name: torch.tensor(m) if isinstance(m, np.ndarray) else m for name, m in keywords.items()}
        ours: dict[str, Any] = {name: Tensor(m) if isinstance(m, np.ndarray) else m for name, m in keywords.items()}
        expected = reference(*tensors, enable_gqa=True, **theirs)
        found = Tensor(q).scaled_dot_product_attention(Tensor(k), Tensor(v), enable_gqa=True, **ours)
        same(found, expected.numpy(), ulps=64, scale=1)


def test_dropout_of_probabilities_while_training() -> None:
    q, k, v = Tensor(array(64, 8)), Tensor(array(64, 8, seed=1)), Tensor.ones(64, 2, dtype="float64")
    plain = q.scaled_dot_product_attention(k, v, dropout_p=0.5).numpy()
    np.testing.assert_allclose(plain, 1)  # nothing is dropped outside of training
    with Tensor.train():
        dropped = q.scaled_dot_product_attention(k, v, dropout_p=0.5).numpy()
    assert np.abs(dropped - 1).max() > 0.05
    np.testing.assert_allclose(dropped.mean(), 1, atol=0.1)
