"""Reductions against NumPy: every axis, dtypes of results, NaN, empty tensors."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

from tensor.check import FLOATS, INTS, same, some, wide
from whit import Tensor
from whit.dtype import DType, dtypes
from whit.errors import ArgumentError, OutOfRangeError, ShapeError

AXES = [None, 0, 1, -1, (0, 2), (2, 0, 1), (-1,), ()]
SUMS = {
    dtypes.bool: dtypes.int32,
    dtypes.int8: dtypes.int32,
    dtypes.uint8: dtypes.uint32,
    dtypes.int16: dtypes.int32,
    dtypes.uint16: dtypes.uint32,
}


@pytest.mark.parametrize("axis, keepdim", list(itertools.product(AXES, (False, True))), ids=str)
def test_axes(axis: Any, keepdim: bool) -> None:
    x = some(dtypes.float64, (2, 3, 4))
    t = Tensor(x)
    for name in ("sum", "prod", "max", "min", "mean", "any", "all"):
        expected = getattr(np, name)(x, axis=axis, keepdims=keepdim)
        same(getattr(t, name)(axis, keepdim), expected, ulps=30)
        if axis is not None:
            same(getattr(t, name)(dim=axis, keepdim=keepdim), expected, ulps=30)
    for correction in (0, 1):
        with np.errstate(all="ignore"):
            expected = np.var(x.T.T, axis=axis, keepdims=keepdim, ddof=correction) if axis != () else None
        if expected is not None:
            same(t.var(axis, keepdim, correction), expected, ulps=50)
            same(t.std(axis, keepdim, correction), np.sqrt(expected), ulps=50)


@pytest.mark.parametrize("axis, keepdim", list(itertools.product([None, 0, 1, -1], (False, True))), ids=str)
def test_positions_of_extremes(axis: Any, keepdim: bool) -> None:
    x = some(dtypes.int32, (3, 4, 5))  # with many equal elements: the first one counts
    same(Tensor(x).argmax(axis, keepdim), np.argmax(x, axis, keepdims=keepdim), dtypes.int32)
    same(Tensor(x).argmin(axis, keepdim), np.argmin(x, axis, keepdims=keepdim), dtypes.int32)
    y = wide(some(dtypes.float32, (3, 4, 5)))
    y[1, 2, 3] = y[1, 3, 3] = math.nan
    same(Tensor(y).argmax(axis, keepdim), np.argmax(y, axis, keepdims=keepdim))
    same(Tensor(y).argmin(axis, keepdim), np.argmin(y, axis, keepdims=keepdim))


def test_positions_of_bools_and_scalars() -> None:
    same(Tensor([False, True, True]).argmax(), 1)
    same(Tensor([True, False]).argmin(), 1)
    same(Tensor(3.0).argmax(), 0)
    same(Tensor(3.0).argmax(0, keepdim=True), 0)
    same(Tensor([[1, 2]]).argmax(keepdim=True), [[1]])


@pytest.mark.parametrize("dtype", (*FLOATS, *INTS, dtypes.bool), ids=lambda d: d.name)
def test_dtypes_of_sums(dtype: DType) -> None:
    x = some(dtype, (300,), 1, 0, 3)
    t = Tensor(x)
    same(t.sum(), wide(x).sum(), SUMS.get(dtype, dtype), ulps=300)
    same(t[:6].prod(), wide(x)[:6].prod(), SUMS.get(dtype, dtype), ulps=6)
    same(t.cumsum(), np.cumsum(wide(x)), SUMS.get(dtype, dtype), ulps=300)
    same(t.mean(), wide(x).mean(), dtype if dtype.is_float else dtypes.float32, ulps=300)
    same(t.max(), x.max(), dtype)
    same(t.min(), x.min(), dtype)
    assert t.var().dtype is t.mean().dtype
    assert t.sum(dtype=dtypes.float64).dtype is dtypes.float64
    assert t.sum(dtype="int8").dtype is dtypes.int8
    assert t.all().dtype is t.any().dtype is dtypes.bool


def test_small_floats_are_summed_in_float32() -> None:
    same(Tensor.ones(5000, dtype=dtypes.float16).sum(), 5000)
    same(Tensor.full((70000,), 0.25, dtype=dtypes.bfloat16).mean(), 0.25)
    same(Tensor.full((100,), 1000, dtype=dtypes.float16).mean(), 1000)  # the sum itself would be infinite
    same(Tensor.full((300,), 100, dtype=dtypes.int8).sum(), 30000)


def test_nan_wins_and_infinities_stay() -> None:
    x = Tensor([[1.0, math.nan], [-math.inf, 2.0]])
    same(x.max(1), [math.nan, 2])
    same(x.min(1), [math.nan, -math.inf])
    same(x.sum(0), [-math.inf, math.nan])
    same(Tensor([-math.inf]).max(), -math.inf)


def test_reductions_of_nothing() -> None:
    x = Tensor.zeros(0, 3)
    same(x.sum(0), [0, 0, 0])
    same(x.prod(0), [1, 1, 1])
    same(x.mean(0), [math.nan] * 3)
    same(x.all(), True)
    same(x.any(), False)
    same(x.max(1), np.zeros(0))
    for name in ("max", "min", "argmax", "argmin"):
        with pytest.raises(ShapeError, match=name + ": no elements along axes"):
            getattr(x, name)(0)
    same(x.logsumexp(0), [-math.inf] * 3)
    same(x.softmax(1), np.zeros((0, 3)))
    same(x.cumsum(0), np.zeros((0, 3)))


def test_reductions_of_one_number() -> None:
    x = Tensor(3.0)
    for name in ("sum", "prod", "max", "min", "mean"):
        same(getattr(x, name)(), 3.0)
        same(getattr(x, name)(-1), 3.0)
    same(x.softmax(), 1.0)
    same(x.cumsum(), 3.0)
    same(x.var(correction=0), 0.0)
    same(x.var(), math.nan)


def softmax(x: Any, axis: Any) -> Any:
    power = np.exp(x - x.max(axis, keepdims=True))
    return power / power.sum(axis, keepdims=True)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
@pytest.mark.parametrize("axis", (0, -1, (0, 1)), ids=str)
def test_softmax_and_norms(dtype: DType, axis: Any) -> None:
    x = some(dtype, (3, 5), 4)
    y, t = wide(x), Tensor(x)
    ulps = 0.6 if dtype.mantissa_bits < 23 else 20
    same(t.softmax(axis), softmax(y, axis), dtype, ulps=ulps)
    same(t.softmin(axis), softmax(-y, axis), dtype, ulps=ulps)
    same(t.log_softmax(axis), np.log(softmax(y, axis)), dtype, ulps=ulps, scale=1)
    same(t.logsumexp(axis), np.log(np.exp(y).sum(axis)), dtype, ulps=ulps, scale=1)
    away = y - y.mean(axis, keepdims=True)
    same(t.layernorm(axis), away / np.sqrt((away**2).mean(axis, keepdims=True) + 1e-5), dtype, ulps=ulps, scale=1)
    for p in (1.0, 2.0, 3.0):
        norm = (np.abs(y) ** p).sum(axis, keepdims=True) ** (1 / p)
        same(t.normalize(p, axis), y / norm, dtype, ulps=ulps)
    assert t.softmax(axis, dtype=dtypes.float64).dtype is dtypes.float64


def test_softmax_of_extreme_values() -> None:
    same(Tensor([1000.0, 1000.0]).softmax(), [0.5, 0.5])
    same(Tensor([-math.inf, 0.0]).softmax(), [0, 1])
    same(Tensor([-math.inf, -math.inf]).logsumexp(), -math.inf)
    same(Tensor([math.inf, 1.0]).logsumexp(), math.inf)
    same(Tensor([1, 2]).softmax(), softmax(np.array([1.0, 2.0]), 0), dtypes.float32, ulps=4)


def test_moments_together() -> None:
    x = some(dtypes.float64, (4, 6))
    variance, mean = Tensor(x).var_mean(1)
    same(variance, x.var(1, ddof=1), ulps=20)
    same(mean, x.mean(1), ulps=20)
    deviation, mean = Tensor(x).std_mean(axis=0, keepdim=True, correction=0)
    same(deviation, x.std(0, keepdims=True), ulps=20)
    same(mean, x.mean(0, keepdims=True), ulps=20)


@pytest.mark.parametrize("axis", (0, 1, -1))
def test_running_sums_and_products(axis: int) -> None:
    x = some(dtypes.int64, (3, 4, 2))
    same(Tensor(x).cumsum(axis), np.cumsum(x, axis), dtypes.int64)
    same(Tensor(x).cumprod(axis), np.cumprod(x, axis), dtypes.int64)


def test_batchnorm() -> None:
    x = some(dtypes.float64, (2, 3, 4))
    weight, bias, mean, inverse = (some(dtypes.float64, (3,), seed) for seed in range(4))
    wanted = (x - mean[:, None]) * inverse[:, None] * weight[:, None] + bias[:, None]
    found = Tensor(x).batchnorm(Tensor(weight), Tensor(bias), Tensor(mean), Tensor(inverse))
    same(found, wanted, ulps=8, scale=10)


def test_allclose() -> None:
    assert Tensor([1.0, 2.0]).allclose(Tensor([1.0, 2.0 + 1e-6]))
    assert not Tensor([1.0, 2.0]).allclose(Tensor([1.0, 2.1]))


def test_wrong_axes() -> None:
    x = Tensor.zeros(2, 3)
    with pytest.raises(OutOfRangeError, match=r"sum: there is no axis 2 in shape \(2, 3\)"):
        x.sum(2)
    with pytest.raises(OutOfRangeError, match="names an axis twice"):
        x.mean((0, -2))
    with pytest.raises(ArgumentError, match="'a' is not an axis"):
        x.max("a")
    with pytest.raises(ArgumentError, match=r"both axis=0 and dim=1 are given"):
        x.sum(axis=0, dim=1)
    with pytest.raises(ArgumentError, match="no nan-norm"):
        x.normalize(math.nan)
