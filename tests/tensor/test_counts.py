"""Reductions that skip, count and compare: against NumPy."""

import math
from typing import Any

import numpy as np
import pytest

from tensor.check import FLOATS, INTS, same, some, value, wide
from whit import Tensor
from whit.dtype import DType, dtypes
from whit.engine.report.counters import GlobalCounters

inf, nan = math.inf, math.nan
AXES = [None, 0, -1, (0, 2), ()]


@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize("keepdim", (False, True))
def test_sums_that_skip_nan(axis: Any, keepdim: bool) -> None:
    x = some(dtypes.float64, (2, 3, 4))
    x[0, 1, 2] = x[1, 0, 3] = nan
    x[0, 0] = nan
    with np.errstate(all="ignore"):
        same(Tensor(x).nansum(axis, keepdim), np.nansum(x, axis, keepdims=keepdim), ulps=8)
    count = (~np.isnan(x)).sum(axis, keepdims=keepdim)
    with np.errstate(all="ignore"):
        expected = np.nansum(x, axis, keepdims=keepdim) / count
    same(Tensor(x).nanmean(axis, keepdim), expected, ulps=8)
    same(Tensor(x).count_nonzero(axis, keepdim), (x != 0).sum(axis, keepdims=keepdim), dtypes.default_int)


def test_sums_that_skip_nan_of_other_dtypes() -> None:
    same(Tensor([1, 2]).nansum(), 3, dtypes.int32)
    same(Tensor([1, 2]).nanmean(), 1.5, dtypes.float32)
    x = np.array([60000, 60000, nan], np.float16)
    same(Tensor(x).nanmean(), 60000, dtypes.float16)
    same(Tensor([1, 0, 3], dtype="uint8").count_nonzero(), 2, dtypes.default_int)
    same(Tensor([True, False]).count_nonzero(dim=0), 1)


@pytest.mark.parametrize("dtype", (*FLOATS, *INTS, dtypes.bool), ids=str)
def test_sums_accumulate_wide(dtype: DType) -> None:
    x = np.ones(3000).astype(some(dtype).dtype)
    result = Tensor(x).sum()
    same(result, 3000, ulps=0.51)
    if not dtype.is_float:
        assert result.dtype.itemsize >= 4
    else:
        assert result.dtype is dtype
    y = some(dtype, (5,), 1, 1, 3)
    same(Tensor(y).prod(), np.prod(wide(y)), ulps=0.51 if dtype.mantissa_bits < 23 else 4)


@pytest.mark.parametrize("correction", (0, 1, 2, 9))
@pytest.mark.parametrize("axis", (None, 0, (0, 2)), ids=str)
def test_moments_by_both_spellings(axis: Any, correction: int) -> None:
    x = some(dtypes.float64, (2, 3, 4))
    count = np.asarray(x.sum(axis) * 0 + x.size / np.asarray(x.sum(axis)).size)
    with np.errstate(all="ignore"):
        expected = np.var(x, axis) * count / np.maximum(count - correction, 0)
    for keywords in ({"axis": axis}, {"dim": axis}):
        variance, mean = Tensor(x).var_mean(correction=correction, **keywords)
        deviation, again = Tensor(x).std_mean(correction=correction, **keywords)
        same(variance, expected, ulps=16)
        same(deviation, np.sqrt(expected), ulps=16)
        for found in (mean, again):
            same(found, x.mean(axis), ulps=8, scale=1)


@pytest.mark.parametrize("name", ("argmax", "argmin"))
def test_positions_of_extremes_are_the_first_and_those_of_nan(name: str) -> None:
    reference: Any = getattr(np, name)
    x = np.array([[1.0, 3.0, 3.0, -2.0, -2.0], [5.0, nan, 7.0, nan, -inf], [inf, inf, -inf, -inf, 0.0]])
    for axis in (None, 0, 1, -1):
        same(getattr(Tensor(x), name)(axis), reference(x, axis))
        same(getattr(Tensor(x), name)(axis, keepdim=True), reference(x, axis, keepdims=True))
    for dtype in (*INTS, dtypes.bool):
        y = some(dtype, (4, 6), 3, -2, 2)
        same(getattr(Tensor(y), name)(1), reference(y, 1), dtypes.default_int)


def test_logsumexp_of_infinities() -> None:
    x = np.array([[-inf, -inf], [-inf, 1.0], [inf, 1.0], [nan, 1.0], [1e4, 1e4], [-1e4, -1e4]])
    with np.errstate(all="ignore"):
        expected = np.logaddexp.reduce(x, 1)
    same(Tensor(x).logsumexp(1), expected, ulps=4)


def test_isclose_and_allclose() -> None:
    x = np.array([1.0, 1.0, inf, inf, nan, 1e-9, -inf])
    y = np.array([1.0 + 1e-6, 1.1, inf, -inf, nan, 0.0, -inf])
    for equal_nan in (False, True):
        same(Tensor(x).isclose(Tensor(y), equal_nan=equal_nan), np.isclose(x, y, equal_nan=equal_nan))
        assert Tensor(x).allclose(Tensor(y), equal_nan=equal_nan) is False
    assert Tensor(x).allclose(Tensor(x), equal_nan=True) is True
    assert Tensor([1, 2]).allclose([1, 2]) is True


@pytest.mark.parametrize("p", (1.0, 2.0, 3.0, inf, 0.5))
def test_normalize_makes_norms_one(p: float) -> None:
    x = some(dtypes.float64, (3, 4, 2))
    for dim in (0, 1, -1, (0, 1)):
        same(Tensor(x).normalize(p, dim).norm(p, dim), np.ones_like(x.sum(dim)), ulps=16)
    same(Tensor([[0.0, 0.0]]).normalize(p), [[0, 0]])


@pytest.mark.parametrize("name", ("softmax", "log_softmax", "softmin"))
def test_softmax_in_another_dtype(name: str) -> None:
    x = some(dtypes.float16, (3, 4))
    found = getattr(Tensor(x), name)(dtype="float64")
    expected = value(getattr(Tensor(x.astype(np.float64)), name)())
    same(found, expected, dtypes.float64)
    same(getattr(Tensor(x), name)(dim=0, dtype="float64"), value(getattr(Tensor(x.astype(np.float64)), name)(0)))


def test_one_kernel_each() -> None:
    x = Tensor(some(dtypes.float32, (16, 32))).realize()
    programs: list[Any] = [
        lambda: x.softmax(),
        lambda: x.log_softmax(),
        lambda: x.layernorm(),
        lambda: x.var(1),
        lambda: x.logsumexp(1),
        lambda: x.argmax(1),
        lambda: x.normalize(),
        lambda: x.norm(2, 1),
        lambda: x.nanmean(1),
        lambda: x.count_nonzero(1),
        lambda: x.std(1),
    ]
    for program in programs:
        GlobalCounters.reset()
        program().realize()
        assert GlobalCounters.kernel_count == 1


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_batchnorm_is_rounded_once(dtype: DType) -> None:
    x = some(dtype, (2, 3, 4), 1)
    mean, scale, weight, bias = (some(dtype, (3,), seed, 0.5, 2) for seed in range(2, 6))
    each = [wide(a).reshape(1, 3, 1) for a in (mean, scale, weight, bias)]
    expected = (wide(x) - each[0]) * each[1] * each[2] + each[3]
    tensors = [Tensor(a) for a in (weight, bias, mean, scale)]
    ulps = 0.51 if dtype.mantissa_bits < 23 else 8
    same(Tensor(x).batchnorm(*tensors), expected, dtype, ulps=ulps, scale=1e-2 if ulps < 1 else 8)
    plain = (wide(x) - each[0]) * each[1]
    same(Tensor(x).batchnorm(None, None, *tensors[2:]), plain, dtype, ulps=ulps, scale=1e-2 if ulps < 1 else 8)
