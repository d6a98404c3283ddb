"""Running sums, products, extremes and logarithms of sums, through the engine, against NumPy."""

from typing import Any

import numpy as np
import pytest

from whit import Context, Tensor
from whit.dtype import DType, dtypes
from whit.engine.report.counters import GlobalCounters
from whit.errors import OutOfRangeError
from whit.ir.interpret import numpy_dtype

pytestmark = pytest.mark.slow  # compiles much

SHAPES = (
    (1,),
    (2,),
    (15,),
    (16,),
    (17,),
    (1000,),
    (70_001,),
    (3, 5),
    (33, 47),
    (64, 64),
    (4, 5, 6),
    (5, 1, 3),
    (2, 300),
)


def integers(shape: tuple[int, ...], dtype: DType = dtypes.float32) -> Any:
    """Small integers, so that sums of floats are exact in any order."""
    generator = np.random.default_rng(len(shape))
    return generator.integers(0 if dtype.is_unsigned else -3, 4, shape).astype(numpy_dtype(dtype))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sums_along_any_axis_from_either_end(shape: tuple[int, ...]) -> None:
    x = integers(shape)
    t = Tensor(x).realize()
    for axis in range(len(shape)):
        GlobalCounters.reset()
        found = t.cumsum(axis).realize()
        assert GlobalCounters.kernel_count <= 1
        np.testing.assert_array_equal(found.numpy(), np.cumsum(x, axis))
        GlobalCounters.reset()
        back = t.flip(axis).cumsum(axis).flip(axis).realize()
        assert GlobalCounters.kernel_count <= 1
        np.testing.assert_array_equal(back.numpy(), np.flip(np.cumsum(np.flip(x, axis), axis), axis))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", dtypes.scalars, ids=lambda dtype: dtype.name)
def test_every_dtype(dtype: DType) -> None:
    x = integers((3, 37), dtype)
    wide = x.astype(np.float64) if dtype.is_float else x
    for axis in (0, 1):
        total = Tensor(x).cumsum(axis)
        wanted = np.cumsum(wide, axis, dtype=np.float64 if dtype.is_float else numpy_dtype(total.dtype))
        np.testing.assert_array_equal(total.numpy(), wanted.astype(numpy_dtype(total.dtype)))
        np.testing.assert_array_equal(
            Tensor(x).cummax(axis)[0].numpy().astype(wide.dtype), np.maximum.accumulate(wide, axis)
        )
        np.testing.assert_array_equal(
            Tensor(x).cummin(axis)[0].numpy().astype(wide.dtype), np.minimum.accumulate(wide, axis)
        )
        assert Tensor(x).cummax(axis)[0].dtype is dtype


def test_products() -> None:
    x = np.random.default_rng(0).choice([-1, 1, 2], (20, 31)).astype(np.int64)
    for axis in (0, 1):
        np.testing.assert_array_equal(Tensor(x).cumprod(axis).numpy(), np.cumprod(x, axis))
    y = np.random.default_rng(0).uniform(0.5, 1.5, (5, 100)).astype(np.float32)
    np.testing.assert_allclose(Tensor(y).cumprod(1).numpy(), np.cumprod(y.astype(np.float64), 1), rtol=1e-5)


def test_extremes_keep_nan() -> None:
    x = np.random.default_rng(0).standard_normal((6, 50)).astype(np.float32)
    x[2, 10] = np.nan
    x[3, 0] = -np.inf
    np.testing.assert_array_equal(Tensor(x).cummax(1)[0].numpy(), np.maximum.accumulate(x, 1))
    np.testing.assert_array_equal(Tensor(x).cummin(0)[0].numpy(), np.minimum.accumulate(x, 0))


@pytest.mark.parametrize("scale", (1.0, 1e4))
@pytest.mark.parametrize("dtype", (dtypes.float32, dtypes.float64, dtypes.bfloat16), ids=lambda dtype: dtype.name)
def test_logarithms_of_sums(dtype: DType, scale: float) -> None:
    x = (np.random.default_rng(0).standard_normal((7, 61)) * scale).astype(numpy_dtype(dtype))
    x[0, 0], x[1, 0], x[1, 1] = -np.inf, -np.inf, -np.inf
    tolerance = {4: 2e-6, 8: 1e-13, 2: 2**-7}[dtype.itemsize]
    for axis in (0, 1):
        wanted = np.logaddexp.accumulate(x.astype(np.float64), axis)
        found = Tensor(x).logcumsumexp(axis)
        assert found.dtype is dtype
        np.testing.assert_allclose(found.numpy().astype(np.float64), wanted, rtol=tolerance, atol=tolerance)
    assert np.isnan(Tensor([1.0, np.nan, 2.0]).logcumsumexp().numpy()).tolist() == [False, True, True]
    assert Tensor([1.0, np.inf, 2.0]).logcumsumexp().numpy().tolist() == [1.0, np.inf, np.inf]


def values_of(result: Any) -> Any:
    return result[0] if isinstance(result, tuple) else result


def test_positions_of_extremes_are_those_of_the_last_equal_ones() -> None:
    x = Tensor([[1.0, 3.0, 3.0, 2.0], [float("nan"), 1.0, float("nan"), 0.0]])
    assert x.cummax(1).indices.tolist() == [[0, 1, 2, 2], [0, 0, 2, 2]]
    assert x.cummin(1).indices.tolist() == [[0, 0, 0, 0], [0, 0, 2, 2]]
    values, places = Tensor([True, False, True]).cummax(0)
    assert (values.tolist(), places.tolist()) == ([True, True, True], [0, 0, 2])


def test_nothing_and_scalars() -> None:
    for name in ("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"):
        assert values_of(getattr(Tensor(np.ones((0, 3), np.float32)), name)(0)).numpy().shape == (0, 3)
        assert values_of(getattr(Tensor(np.ones((3, 0), np.float32)), name)(0)).numpy().shape == (3, 0)
        assert values_of(getattr(Tensor(2.0), name)()).item() == 2.0
        with pytest.raises(OutOfRangeError, match=f"{name}: there is no axis 2"):
            getattr(Tensor([[1.0]]), name)(2)


def test_views_and_expressions() -> None:
    x = integers((40, 30))
    np.testing.assert_array_equal(Tensor(x).T[::2].cumsum(1).numpy(), np.cumsum(x.T[::2], 1))
    np.testing.assert_array_equal((Tensor(x) * 2 + 1)[:, ::-1].cumsum(1).numpy(), np.cumsum((x * 2 + 1)[:, ::-1], 1))
    np.testing.assert_array_equal((Tensor(x).cumsum(0) + 1).cumsum(1).numpy(), np.cumsum(np.cumsum(x, 0) + 1, 1))
    np.testing.assert_array_equal(Tensor(x).cumsum(1).flip(0).numpy(), np.flip(np.cumsum(x, 1), 0))


@pytest.mark.parametrize("setting", ({"NOOPT": 1}, {"DEV": "PYTHON"}, {"CHECK_OOB": 1}), ids=lambda s: next(iter(s)))
def test_settings_change_nothing(setting: dict[str, Any]) -> None:
    x = integers((5, 37))
    with Context(**setting):
        for axis in (0, 1):
            np.testing.assert_array_equal(Tensor(x).cumsum(axis).numpy(), np.cumsum(x, axis))
            back = Tensor(x).flip(axis).cummax(axis)[0].flip(axis)
            np.testing.assert_array_equal(back.numpy(), np.flip(np.maximum.accumulate(np.flip(x, axis), axis), axis))


def test_work_is_linear_and_memory_is_touched_once() -> None:
    def counts(n: int, axis: int) -> tuple[int, int]:
        x = Tensor(integers((n, n))).realize()
        GlobalCounters.reset()
        x.cumsum(axis).realize()
        assert GlobalCounters.kernel_count == 1
        return int(GlobalCounters.global_ops), int(GlobalCounters.global_mem)

    for axis in (0, 1):
        small, large = counts(64, axis), counts(256, axis)
        assert large[0] <= 17 * small[0]
        assert large[1] == 2 * 4 * 256 * 256


def test_a_sum_from_the_end_of_few_numbers_that_a_product_reads() -> None:
    """It is made of fewer bytes than it has, as packed weights are, but not element by element."""
    x, y = integers((7, 31)), integers((3, 31))
    row = Tensor(x).max(0).reshape(1, 31).expand(7, 31)
    got = (row.flip(1).cumsum(1).flip(1).reshape(7, 1, 31) * Tensor(y)).sum(2)
    expected = np.cumsum(np.broadcast_to(x.max(0)[::-1], (7, 31)), 1)[:, ::-1] @ y.T
    np.testing.assert_array_equal(got.numpy(), expected)
