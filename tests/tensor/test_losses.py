"""Losses against NumPy, and against PyTorch where it is installed."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

from tensor.check import FLOATS, same, some, value
from whit import Tensor
from whit.dtype import DType, dtypes
from whit.engine.report.counters import GlobalCounters
from whit.errors import ArgumentError, DTypeError, ShapeError

REDUCTIONS = ("mean", "sum", "none")
SHAPES = [(6,), (4, 6), (3, 6, 2), (2, 6, 2, 3)]


def array(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape)


def classes(shape: Any, count: int = 6, seed: int = 1) -> Any:
    axis = 0 if len(shape) == 1 else 1
    return np.random.default_rng(seed).integers(0, count, shape[:axis] + shape[axis + 1 :])


def log_softmax(x: Any, axis: int) -> Any:
    shifted = x - x.max(axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


def settle(loss: Any, reduction: str) -> Any:
    reduce: dict[str, Any] = {"mean": np.mean, "sum": np.sum, "none": np.asarray}
    return reduce[reduction](loss)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("reduction, smoothing", list(itertools.product(REDUCTIONS, (0.0, 0.1))), ids=str)
def test_cross_entropy(shape: Any, reduction: str, smoothing: float) -> None:
    x, y = array(*shape), classes(shape)
    axis = 0 if len(shape) == 1 else 1
    logs = log_softmax(x, axis)
    one_hot = np.moveaxis(np.eye(6)[y], -1, axis)
    loss = -(logs * (one_hot * (1 - smoothing) + smoothing / 6)).sum(axis)
    expected = settle(loss, reduction)
    same(Tensor(x).cross_entropy(Tensor(y), reduction, smoothing), expected, dtypes.float64, ulps=32)
    same(Tensor(x).cross_entropy(Tensor(one_hot), reduction, smoothing), expected, dtypes.float64, ulps=32)
    last = Tensor(np.moveaxis(x, axis, -1))
    found = last.sparse_categorical_crossentropy(Tensor(y), label_smoothing=smoothing, reduction=reduction)
    same(found, expected, dtypes.float64, ulps=32)


def test_classes_that_do_not_count() -> None:
    x, y = array(4, 6), np.array([1, -100, 3, -100])
    loss = -log_softmax(x, 1)[[0, 2], [1, 3]]
    same(Tensor(x).cross_entropy(Tensor(y)), loss.mean(), ulps=16)
    same(Tensor(x).cross_entropy(Tensor(y), "none"), [loss[0], 0, loss[1], 0], ulps=16)
    same(Tensor(x).cross_entropy(Tensor([1, 2, 3, 2]), ignore_index=2), loss.mean(), ulps=16)
    same(Tensor(x).sparse_categorical_crossentropy(Tensor([1, -1, 3, -1])), loss.mean(), ulps=16)
    same(Tensor(x).sparse_categorical_crossentropy(Tensor([1, 2, 3, 2]), ignore_index=2), loss.mean(), ulps=16)
    same(Tensor(x).nll_loss(Tensor([1, 2, 3, 2]), ignore_index=2, reduction="sum"), -(x[0, 1] + x[2, 3]), ulps=4)


def test_classes_that_are_none_give_nan() -> None:
    found = value(Tensor(array(3, 6)).cross_entropy(Tensor([1, 6, -1]), "none"))
    np.testing.assert_array_equal(np.isnan(found), [False, True, True])
    assert np.isnan(value(Tensor(array(3, 6)).nll_loss(Tensor([1, 6, 0]))))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_nll_loss(shape: Any, reduction: str) -> None:
    x, y, weight = array(*shape), classes(shape), np.arange(6) * 0.5
    axis = 0 if len(shape) == 1 else 1
    picked = np.take_along_axis(x, np.expand_dims(y, axis), axis).squeeze(axis)
    same(Tensor(x).nll_loss(Tensor(y), reduction=reduction), settle(-picked, reduction), ulps=16)
    loss, share = -picked * weight[y], weight[y]
    expected = loss.sum() / share.sum() if reduction == "mean" else settle(loss, reduction)
    same(Tensor(x).nll_loss(Tensor(y), Tensor(weight), reduction=reduction), expected, ulps=16)
    counts = y != 3
    loss, share = loss * counts, share * counts
    expected = loss.sum() / share.sum() if reduction == "mean" else settle(loss, reduction)
    same(Tensor(x).nll_loss(Tensor(y), Tensor(weight), 3, reduction), expected, ulps=16)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_binary_cross_entropy(reduction: str) -> None:
    x, y = array(4, 5), (array(4, 5, seed=1) > 0).astype(np.float64)
    p = 1 / (1 + np.exp(-x))
    expected = settle(-(y * np.log(p) + (1 - y) * np.log1p(-p)), reduction)
    same(Tensor(p).binary_crossentropy(Tensor(y), reduction), expected, ulps=64)
    same(Tensor(x).binary_crossentropy_logits(Tensor(y), reduction), expected, ulps=64)
    for weight in (2.5, np.arange(5) * 0.5):
        expected = settle(-(weight * y * np.log(p) + (1 - y) * np.log1p(-p)), reduction)
        given = weight if isinstance(weight, float) else Tensor(weight)
        same(Tensor(x).binary_crossentropy_logits(Tensor(y), reduction, given), expected, ulps=64)


def test_binary_cross_entropy_of_certainties() -> None:
    same(Tensor([0.0, 1.0, 0.0, 1.0]).binary_crossentropy(Tensor([0.0, 1.0, 1.0, 0.0]), "none"), [0, 0, 100, 100])
    x = Tensor([1e4, -1e4, 1e4, -1e4])
    same(x.binary_crossentropy_logits(Tensor([1, 0, 0, 1]), "none"), [0, 0, 1e4, 1e4])


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_distances(reduction: str) -> None:
    x, y = array(4, 5) * 2, array(4, 5, seed=1)
    away = np.abs(x - y)
    t, u = Tensor(x), Tensor(y)
    same(t.mse_loss(u, reduction), settle(away**2, reduction), ulps=8)
    same(t.l1_loss(u, reduction), settle(away, reduction), ulps=8)
    huber = np.where(away < 0.7, 0.5 * away**2, 0.7 * (away - 0.35))
    same(t.huber_loss(u, reduction, 0.7), settle(huber, reduction), ulps=16)
    same(t.smooth_l1_loss(u, reduction, 0.7), settle(huber / 0.7, reduction), ulps=16)
    same(t.smooth_l1_loss(u, reduction, 0.0), settle(away, reduction), ulps=16)
    p = np.exp(log_softmax(y, 1))
    p[0, 0] = 0
    safe = np.where(p > 0, p, 1)
    same(t.kl_div(Tensor(p), reduction), settle(p * np.log(safe) - p * x, reduction), ulps=32, scale=10)
    same(t.kl_div(u, reduction, log_target=True), settle(np.exp(y) * (y - x), reduction), ulps=32, scale=10)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_small_floats_are_rounded_once(dtype: DType) -> None:
    x = some(dtype, (4, 6))
    y = classes((4, 6))
    expected = -log_softmax(x.astype(np.float64), 1)[np.arange(4), y].mean()
    ulps = 0.51 if dtype.mantissa_bits < 23 else 16
    same(Tensor(x).cross_entropy(Tensor(y)), expected, dtype, ulps=ulps)
    same(Tensor(x).mse_loss(0.0), (x.astype(np.float64) ** 2).mean(), dtype, ulps=ulps)


@pytest.mark.parametrize("scale", (1e4, 1e30))
def test_large_logits_do_not_overflow(scale: float) -> None:
    x = Tensor([[scale, 0.0, -scale], [-scale, -scale, -scale]])
    same(x.cross_entropy(Tensor([0, 1]), "none"), [0, math.log(3)], ulps=2)


def test_kernels() -> None:
    x, y = Tensor(array(32, 10).astype(np.float32)).realize(), Tensor(classes((32, 10), 10)).realize()
    rows: list[tuple[Any, int]] = [
        (lambda: x.cross_entropy(y, "none"), 1),
        (lambda: x.cross_entropy(y), 2),
        (lambda: x.sparse_categorical_crossentropy(y, label_smoothing=0.1, reduction="none"), 1),
        (lambda: x.nll_loss(y), 1),
        (lambda: x.binary_crossentropy_logits(x.sigmoid()), 1),
        (lambda: x.mse_loss(0.0), 1),
    ]
    for program, most in rows:
        GlobalCounters.reset()
        program().realize()
        assert GlobalCounters.kernel_count <= most


def test_compiled() -> None:
    x, y = array(8, 6).astype(np.float32), classes((8, 6))
    expected = -log_softmax(x.astype(np.float64), 1)[np.arange(8), y].mean()
    np.testing.assert_allclose(Tensor(x).cross_entropy(Tensor(y)).item(), expected, rtol=1e-6)


def test_wrong_arguments() -> None:
    x = Tensor.zeros(4, 6)
    wrong: list[tuple[Any, type[Exception], str]] = [
        (lambda: x.cross_entropy(Tensor([1, 2, 3])), ShapeError, "predictions (4, 6) and classes (3,)"),
        (lambda: x.cross_entropy(Tensor.zeros(4)), ShapeError, "logits (4, 6) and probabilities (4,)"),
        (lambda: x.cross_entropy(Tensor([1, 2, 3, 0]), "average"), ArgumentError, "there is no reduction 'average'"),
        (lambda: x.cross_entropy(Tensor([1, 2, 3, 0]), label_smoothing=2), ArgumentError, "label_smoothing=2"),
        (lambda: x.nll_loss(Tensor.zeros(4)), DTypeError, "classes are float32"),
        (lambda: x.nll_loss(Tensor([0, 1, 2, 3]), Tensor.zeros(4)), ShapeError, "weights (4,) for 6 classes"),
        (lambda: x.sparse_categorical_crossentropy(Tensor.zeros(4)), DTypeError, "classes are float32"),
        (lambda: Tensor(1.0).cross_entropy(Tensor(1)), ShapeError, "has no classes"),
        (lambda: x.mse_loss(Tensor.zeros(5)), ShapeError, "do not broadcast"),
    ]
    for program, error, words in wrong:
        with pytest.raises(error) as caught:
            program()
        assert words in str(caught.value)


@pytest.mark.slow  # loads PyTorch
def test_values_are_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    x, y, weight = array(3, 6, 2), classes((3, 6, 2)), np.arange(6) * 0.5 + 0.1
    t, u, w = (torch.tensor(a) for a in (x, y, weight))
    for reduction in REDUCTIONS:
        keywords = {"reduction": reduction}
        expected = functional.cross_entropy(t, u, label_smoothing=0.2, **keywords)
        same(Tensor(x).cross_entropy(Tensor(y), reduction, 0.2), expected.numpy(), ulps=32)
        expected = functional.nll_loss(t, u, w, ignore_index=2, **keywords)
        same(Tensor(x).nll_loss(Tensor(y), Tensor(weight), 2, reduction), expected.numpy(), ulps=32)
        p = torch.sigmoid(t)
        expected = functional.binary_cross_entropy(p, (t > 0).double(), **keywords)
        same(Tensor(p.numpy()).binary_crossentropy(Tensor(x) > 0, reduction), expected.numpy(), ulps=64)
        expected = functional.huber_loss(t, torch.zeros_like(t), delta=0.5, **keywords)
        same(Tensor(x).huber_loss(0.0, reduction, 0.5), expected.numpy(), ulps=32)
