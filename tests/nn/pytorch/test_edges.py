"""Batches of nothing, short floats, views, and sequences that are too short."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from whit import Tensor, dtypes, nn
from whit.errors import ShapeError

pytestmark = pytest.mark.slow

F = nn.functional

EMPTY: dict[str, tuple[Callable[[Tensor], Any], tuple[int, ...], tuple[int, ...]]] = {
    "lstm": (lambda x: nn.LSTM(3, 4)(x)[0], (5, 0, 3), (5, 0, 4)),
    "attention": (lambda x: nn.MultiheadAttention(8, 2)(x, x, x)[0], (3, 0, 8), (3, 0, 8)),
    "encoder": (lambda x: nn.TransformerEncoderLayer(8, 2, 12)(x), (3, 0, 8), (3, 0, 8)),
    "group norm": (lambda x: nn.GroupNorm(2, 4)(x), (0, 4, 3), (0, 4, 3)),
    "bilinear": (lambda x: nn.Bilinear(3, 3, 2)(x, x), (0, 3), (0, 2)),
    "embedding bag": (lambda x: nn.EmbeddingBag(3, 2)(x.int()), (2, 0), (2, 2)),
    "fold": (lambda x: F.fold(x, 4, 2), (0, 4, 9), (0, 1, 4, 4)),
    "unfold": (lambda x: F.unfold(x, 2), (0, 1, 4, 4), (0, 4, 9)),
    "channel shuffle": (lambda x: F.channel_shuffle(x, 2), (0, 4, 3), (0, 4, 3)),
    "pixel shuffle": (lambda x: F.pixel_shuffle(x, 2), (0, 4, 2, 2), (0, 1, 4, 4)),
    "adaptive": (lambda x: F.adaptive_avg_pool2d(x, 3), (0, 2, 4, 5), (0, 2, 3, 3)),
    "adaptive max": (lambda x: F.adaptive_max_pool2d(x, 3), (0, 2, 4, 5), (0, 2, 3, 3)),
}


@pytest.mark.parametrize("name", EMPTY)
def test_a_batch_of_nothing_gives_nothing(name: str) -> None:
    layer, shape, wanted = EMPTY[name]
    found = layer(Tensor.zeros(*shape))
    assert found.shape == wanted and found.numpy().shape == wanted


def test_losses_of_nothing_are_those_of_torch() -> None:
    x = Tensor.zeros(0, 4)
    assert np.isnan(F.mse_loss(x, x).item()) and F.soft_margin_loss(x, x, reduction="sum").item() == 0
    assert np.isnan(F.cross_entropy(Tensor.zeros(2, 3), Tensor([-100, -100])).item())


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16, dtypes.float64], ids=lambda dtype: dtype.name)
def test_layers_keep_the_dtype(dtype: Any) -> None:
    x = Tensor(np.random.RandomState(0).randn(4, 2, 8)).cast(dtypes.float32)
    layers: list[Any] = [
        nn.LSTM(8, 4, 2, bidirectional=True),
        nn.GRU(8, 4),
        nn.MultiheadAttention(8, 2),
        nn.TransformerEncoderLayer(8, 2, 12),
        nn.GroupNorm(1, 2),
        nn.InstanceNorm1d(2, affine=True),
    ]
    for layer in layers:
        given = (x, x, x) if isinstance(layer, nn.MultiheadAttention) else (x,)
        exact = layer(*given)
        exact = (exact[0] if isinstance(exact, tuple) else exact).numpy()
        layer.to(dtype)
        found = layer(*(each.cast(dtype) for each in given))
        found = found[0] if isinstance(found, tuple) else found
        assert found.dtype is dtype
        tolerance = {"float16": 2e-2, "bfloat16": 0.1}.get(dtype.name, 1e-5)
        np.testing.assert_allclose(found.float().numpy(), exact, atol=tolerance)


def test_views_and_numbers_that_are_not_finite_stay_in_their_windows() -> None:
    x = np.random.RandomState(0).randn(1, 1, 6, 8).astype(np.float32)
    x[0, 0, 1, 1] = np.nan
    view = Tensor(x).permute(0, 1, 3, 2)
    for pool in (F.adaptive_avg_pool2d, F.adaptive_max_pool2d):
        found = pool(view, (3, 4)).numpy()
        assert np.isnan(found).sum() == 2 and np.isnan(found[0, 0, 0]).sum() == 2
    columns = F.unfold(view, 2, stride=2)
    assert np.isnan(columns.numpy()).sum() == 1
    assert np.array_equal(F.fold(columns, (8, 6), 2, stride=2).numpy(), view.numpy(), equal_nan=True)


def test_sequences_of_no_time_and_wrong_sizes_are_errors() -> None:
    x = Tensor.zeros(3, 1, 8)
    with pytest.raises(ShapeError, match="LSTM: a sequence of no time"):
        nn.LSTM(3, 4)(Tensor.zeros(0, 2, 3))
    with pytest.raises(ShapeError, match=r"lengths \(2,\) of int32 for \(4, 3, 2\)"):
        nn.utils.rnn.pack_padded_sequence(Tensor.zeros(4, 3, 2), [4, 2])
    with pytest.raises(ShapeError, match=r"attn_mask \(2, 2\)"):
        nn.MultiheadAttention(8, 2)(x, x, x, attn_mask=Tensor.zeros(2, 2))
    with pytest.raises(ShapeError, match="ctc_loss: input_lengths"):
        F.ctc_loss(Tensor.zeros(4, 2, 5), Tensor([[1], [2]]), [4], [1, 1])
    with pytest.raises(ShapeError, match="fold: columns"):
        F.fold(Tensor.zeros(1, 4, 8), 4, 2)
