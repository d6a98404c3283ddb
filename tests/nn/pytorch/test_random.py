"""What is random: initial values, dropout, RReLU, Gumbel's softmax. Spreads are PyTorch's, and so are fixed values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from whit import Tensor, nn
from whit.errors import ArgumentError, ShapeError

pytestmark = pytest.mark.slow

F = nn.functional

SPREADS: dict[str, tuple[Callable[[Any, Any], Any], tuple[int, ...]]] = {
    "uniform": (lambda init, x: init.uniform_(x, -0.5, 2.0), (60, 50)),
    "normal": (lambda init, x: init.normal_(x, 1.0, 0.3), (60, 50)),
    "trunc_normal": (lambda init, x: init.trunc_normal_(x, 0.5, 2.0, -1.0, 1.5), (60, 50)),
    "trunc_normal far": (lambda init, x: init.trunc_normal_(x, 0.0, 1.0, 2.0, 5.0), (60, 50)),
    "xavier_uniform": (lambda init, x: init.xavier_uniform_(x, 2.0), (40, 30, 3)),
    "xavier_normal": (lambda init, x: init.xavier_normal_(x), (40, 30, 3)),
    "kaiming_uniform": (lambda init, x: init.kaiming_uniform_(x, a=0.5, mode="fan_out"), (40, 30, 3)),
    "kaiming_normal": (lambda init, x: init.kaiming_normal_(x, nonlinearity="relu"), (40, 30, 3)),
    "sparse": (lambda init, x: init.sparse_(x, 0.3), (60, 50)),
}
FIXED: dict[str, tuple[Callable[[Any, Any], Any], tuple[int, ...]]] = {
    "constant": (lambda init, x: init.constant_(x, 2.5), (3, 2)),
    "ones": (lambda init, x: init.ones_(x), (3, 2)),
    "zeros": (lambda init, x: init.zeros_(x), (3, 2)),
    "eye": (lambda init, x: init.eye_(x), (3, 4)),
    "dirac": (lambda init, x: init.dirac_(x), (5, 3, 3)),
    "dirac groups": (lambda init, x: init.dirac_(x, 2), (6, 2, 2, 5)),
}
# mean, deviation, smallest and largest of many numbers, measured of PyTorch's and rounded
MEASURED = {
    "uniform": (0.75, 0.7217, -0.5, 2.0),
    "normal": (1.0, 0.3, None, None),
    "trunc_normal": (0.2882, 0.7158, -1.0, 1.5),
    "trunc_normal far": (2.3732, 0.3383, 2.0, None),
    "xavier_uniform": (0.0, 0.1952, -0.3381, 0.3381),
    "xavier_normal": (0.0, 0.0976, None, None),
    "kaiming_uniform": (0.0, 0.1155, -0.2, 0.2),
    "kaiming_normal": (0.0, 0.1491, None, None),
    "sparse": (0.0, 0.00837, None, None),
}


def spread(x: np.ndarray) -> tuple[float, float]:
    return float(x.mean()), float(x.std())


@pytest.mark.parametrize("name", SPREADS)
def test_initial_values_are_spread_as_measured(name: str) -> None:
    Tensor.manual_seed(0)
    make, shape = SPREADS[name]
    x = Tensor.ones(*shape)
    assert make(nn.init, x) is x
    found, (mean, deviation, least, most) = x.numpy(), MEASURED[name]
    assert abs(found.mean() - mean) < 0.08 * deviation and abs(found.std() - deviation) < 0.06 * deviation
    assert least is None or (found.min() >= least - 1e-6 and found.min() < least + 0.1 * deviation)
    assert most is None or (found.max() <= most + 1e-6 and found.max() > most - 0.1 * deviation)
    if name == "sparse":
        assert ((found == 0).sum(0) == 18).all()


@pytest.mark.parametrize("name", SPREADS)
def test_the_measured_spreads_are_those_of_torch(name: str) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    make, shape = SPREADS[name]
    x = make(torch.nn.init, torch.empty(*shape)).numpy()
    mean, deviation, *_ = MEASURED[name]
    assert abs(x.mean() - mean) < 0.08 * deviation and abs(x.std() - deviation) < 0.06 * deviation


@pytest.mark.parametrize("name", FIXED)
def test_fixed_initial_values_are_those_of_torch(name: str) -> None:
    torch = pytest.importorskip("torch")
    make, shape = FIXED[name]
    found = make(nn.init, Tensor.rand(*shape)).numpy()
    assert np.array_equal(found, make(torch.nn.init, torch.rand(*shape)).numpy())


@pytest.mark.parametrize("shape", [(4, 7), (7, 4), (5, 2, 3)], ids=str)
def test_orthogonal_rows_or_columns_are_orthogonal(shape: tuple[int, ...]) -> None:
    flat = nn.init.orthogonal_(Tensor.ones(*shape), 2.0).numpy().reshape(shape[0], -1)
    square = flat @ flat.T if flat.shape[0] <= flat.shape[1] else flat.T @ flat
    np.testing.assert_allclose(square, 4 * np.eye(len(square)), atol=1e-4)


def test_gains_and_mistakes() -> None:
    assert nn.init.calculate_gain("leaky_relu", 0.2) == math.sqrt(2 / 1.04)
    assert (nn.init.calculate_gain("tanh"), nn.init.calculate_gain("conv2d")) == (5 / 3, 1)
    with pytest.raises(ArgumentError, match="calculate_gain: nonlinearity='sine'"):
        nn.init.calculate_gain("sine")
    with pytest.raises(ShapeError, match=r"\(3,\) has no inputs and outputs"):
        nn.init.xavier_uniform_(Tensor.ones(3))
    with pytest.raises(ArgumentError, match="mode='in'"):
        nn.init.kaiming_normal_(Tensor.ones(3, 3), mode="in")
    layer = nn.Linear(3, 4)
    nn.init.constant_(layer.weight, 2.0)
    assert (layer.weight == 2).all().item() and layer.weight.requires_grad is not False


# ---- dropout and others


def test_dropout_leaves_out_a_share_and_scales_the_rest() -> None:
    Tensor.manual_seed(0)
    for x in (F.dropout(Tensor.ones(10_000), 0.3), nn.Dropout(0.3).train()(Tensor.ones(10_000))):
        values = np.unique(x.numpy())
        np.testing.assert_allclose(values, [0, 1 / 0.7], rtol=1e-6)
        assert abs((x == 0).float().mean().item() - 0.3) < 0.02


@pytest.mark.parametrize(("kind", "shape"), [("1d", (40, 20, 3)), ("2d", (40, 20, 3, 2)), ("3d", (40, 20, 2, 1, 3))])
def test_channels_are_left_out_as_a_whole(kind: str, shape: tuple[int, ...]) -> None:
    Tensor.manual_seed(0)
    layer = getattr(nn, f"Dropout{kind}")(0.4)
    assert np.array_equal(layer(Tensor.ones(*shape)).numpy(), np.ones(shape))
    for found in (layer.train()(Tensor.ones(*shape)), getattr(F, f"dropout{kind}")(Tensor.ones(*shape), 0.4)):
        channels = found.numpy().reshape(*shape[:2], -1)
        assert (channels == channels[..., :1]).all() and abs((channels[..., 0] == 0).mean() - 0.4) < 0.06
    assert layer(Tensor.ones(*shape[1:])).shape == shape[1:]
    with pytest.raises(ShapeError, match="dropout of channels"):
        layer(Tensor.ones(3))


def test_alpha_dropout_keeps_mean_and_variance() -> None:
    Tensor.manual_seed(0)
    x = Tensor.randn(200, 300)
    for found in (nn.AlphaDropout(0.3).train()(x), F.feature_alpha_dropout(x.reshape(200, 300, 1), 0.3, True)):
        mean, deviation = spread(found.numpy())
        assert abs(mean) < 0.02 and abs(deviation - 1) < 0.02
        values, counts = np.unique(found.numpy(), return_counts=True)
        assert values[counts.argmax()] == pytest.approx(-1.05955, rel=1e-4) and 0.28 < counts.max() / 60_000 < 0.32
    assert F.alpha_dropout(x, 0.3) is x
    with pytest.raises(ArgumentError, match=r"dropout: p=1\.5 is no probability"):
        nn.Dropout(1.5)


def test_random_slopes_and_gumbel() -> None:
    Tensor.manual_seed(0)
    slopes = -nn.RReLU(0.2, 0.6).train()(Tensor.ones(2000) * -1).numpy()
    assert slopes.min() >= 0.2 and slopes.max() <= 0.6 and abs(slopes.mean() - 0.4) < 0.02
    logits = Tensor([[0.0, math.log(3.0)]]).expand(4000, 2)
    hard = F.gumbel_softmax(logits, hard=True)
    assert set(np.unique(hard.numpy())) <= {0.0, 1.0} and abs(hard[:, 1].mean().item() - 0.75) < 0.03
    soft = F.gumbel_softmax(logits, tau=0.5, dim=0)
    np.testing.assert_allclose(soft.sum(0).numpy(), 1, rtol=1e-4)


def test_dropout_of_attention_is_new_in_each_call() -> None:
    Tensor.manual_seed(0)
    layer, x = nn.MultiheadAttention(8, 2, dropout=0.5, batch_first=True), Tensor.randn(2, 6, 8)
    plain = layer(x, x, x, need_weights=False)[0].numpy()
    layer.train()
    first, second = (layer(x, x, x, need_weights=False)[0].numpy() for _ in range(2))
    assert not np.allclose(first, second) and not np.allclose(first, plain)
    _, weights = layer(x, x, x, average_attn_weights=False)
    assert weights is not None and 0.3 < (weights == 0).float().mean().item() < 0.7
    lstm = nn.LSTM(3, 4, 2, dropout=0.9)
    steps = Tensor.randn(5, 2, 3)
    assert np.allclose(lstm(steps)[0].numpy(), lstm(steps)[0].numpy())
    lstm.train()
    assert not np.allclose(lstm(steps)[0].numpy(), lstm(steps)[0].numpy())
