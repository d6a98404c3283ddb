"""Sorting and what is made of it, through the engine, against NumPy: every dtype, odd sizes, special values."""

from typing import Any

import numpy as np
import pytest

from whit import Context, Tensor
from whit.dtype import DType, dtypes
from whit.engine.report.counters import GlobalCounters
from whit.errors import ArgumentError, OutOfRangeError, ShapeError
from whit.ir.interpret import numpy_dtype

pytestmark = pytest.mark.slow  # compiles much

SIZES = (1, 2, 3, 63, 64, 65, 192, 193, 1000)


def random(dtype: DType, shape: Any, seed: int = 0) -> Any:
    """Random bits of a dtype: all sizes of numbers, NaN, infinities, both zeros, and many ties."""
    generator = np.random.default_rng([seed, *dtype.name.encode()])
    if dtype.is_bool:
        return generator.integers(0, 2, shape).astype(np.bool_)
    codes = generator.integers(0, (1 << 64) - 1, shape, np.uint64, endpoint=True)
    found = codes.astype(f"u{dtype.itemsize}").view(numpy_dtype(dtype))
    if dtype.is_float:
        ties = generator.integers(0, 4, shape)
        zeros = np.where(generator.integers(0, 2, shape), 0.0, -0.0)
        with np.errstate(all="ignore"):
            found = np.where(ties == 0, zeros, found.astype(np.float64)).astype(numpy_dtype(dtype))
    return found


def order_of(x: Any, axis: int, descending: bool = False) -> Any:
    """What a stable sort with NaN as the largest gives, by comparing ranks."""
    exact = x if x.dtype.kind in "iub" else x.astype(np.float64)
    ranks = np.unique(exact, return_inverse=True)[1].reshape(x.shape)
    return np.argsort(-ranks if descending else ranks, axis=axis, kind="stable")


def same_bits(found: Any, expected: Any) -> None:
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    if found.dtype.kind in "iub":
        np.testing.assert_array_equal(found, expected)
        return
    wide, wanted = found.astype(np.float64), expected.astype(np.float64)
    np.testing.assert_array_equal(wide, wanted)
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(wide)[numbers], np.signbit(wanted)[numbers])


def check_sort(x: Any, axis: int = -1, descending: bool = False) -> None:
    """Values and positions, together and each alone."""
    order = order_of(x, axis, descending)
    values, places = Tensor(x).sort(axis, descending)
    assert places.dtype is dtypes.int32
    Tensor.realize(values, places)
    np.testing.assert_array_equal(places.numpy(), order)
    same_bits(values.numpy(), np.take_along_axis(x, order, axis))
    same_bits(Tensor(x).sort(axis, descending)[0].numpy(), np.take_along_axis(x, order, axis))
    np.testing.assert_array_equal(Tensor(x).argsort(axis, descending).numpy(), order)


@pytest.mark.slow
@pytest.mark.parametrize("size", (70, 400), ids=("counted", "radix"))
@pytest.mark.parametrize("dtype", dtypes.scalars, ids=lambda dtype: dtype.name)
def test_every_dtype(dtype: DType, size: int) -> None:
    x = random(dtype, (2, size))
    check_sort(x)
    check_sort(x, descending=True)


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_sizes_of_rows(size: int) -> None:
    check_sort(random(dtypes.float32, (size,)))
    check_sort(random(dtypes.float32, (3, size)), descending=True)


@pytest.mark.parametrize("axis", (0, 1, 2, -1))
def test_any_axis(axis: int) -> None:
    check_sort(random(dtypes.int16, (5, 6, 7)), axis)
    check_sort(random(dtypes.float32, (3, 200, 2)), axis)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", (dtypes.float32, dtypes.int64, dtypes.bfloat16), ids=lambda dtype: dtype.name)
def test_a_long_row(dtype: DType) -> None:
    check_sort(random(dtype, (70_001,)))
    check_sort(random(dtype, (2, 66_000)), descending=True)


@pytest.mark.parametrize("shape, axis", (((0,), 0), ((3, 0), 1), ((0, 3), 1), ((3, 0), 0), ((4, 1), 1)))
def test_axes_of_no_or_one_element(shape: tuple[int, ...], axis: int) -> None:
    x = np.ones(shape, np.float32)
    values, places = Tensor(x).sort(axis)
    np.testing.assert_array_equal(values.numpy(), x)
    np.testing.assert_array_equal(places.numpy(), np.zeros(shape, np.int32))


def test_a_scalar_is_sorted() -> None:
    values, places = Tensor(3.0).sort()
    assert (values.item(), places.item(), values.shape, places.shape) == (3.0, 0, (), ())


def test_nan_is_the_largest() -> None:
    x = np.array([np.nan, 1.0, -np.inf, np.inf, -np.nan, 0.0], np.float32)
    np.testing.assert_array_equal(Tensor(x).argsort().numpy(), [2, 5, 1, 3, 0, 4])
    np.testing.assert_array_equal(Tensor(x).argsort(descending=True).numpy(), [0, 4, 3, 1, 5, 2])


def test_zeros_keep_their_signs_and_their_order() -> None:
    x = np.array([0.0, -0.0, 0.0, -1.0, -0.0] * 60, np.float32)
    check_sort(x)
    check_sort(x[:50])


def test_views_and_expressions_are_sorted_without_a_copy() -> None:
    x = random(dtypes.int32, (40, 30))
    GlobalCounters.reset()
    found = (Tensor(x).realize().T[::2, 3:] // 3).sort(1)[0].realize()
    assert GlobalCounters.kernel_count == 1
    np.testing.assert_array_equal(found.numpy(), np.sort(x.T[::2, 3:] // 3, 1))


def test_what_is_computed_of_a_sort() -> None:
    x = random(dtypes.int32, (30, 20)) % 100
    np.testing.assert_array_equal((Tensor(x).sort(0)[0] * 2 + 1).sort(1)[0].numpy(), np.sort(np.sort(x, 0) * 2 + 1, 1))
    total = Tensor(x).sum(1).sort()[0]
    np.testing.assert_array_equal(total.numpy(), np.sort(x.sum(1)))


@pytest.mark.parametrize("device", ("PYTHON", "CPU"))
def test_devices_agree(device: str) -> None:
    x = random(dtypes.float16, (3, 20))
    with Context(DEV=device):
        values, places = Tensor(x).topk(5)
        Tensor.realize(values, places)
        order = order_of(x, 1, descending=True)[:, :5]
        np.testing.assert_array_equal(places.numpy(), order)
        same_bits(values.numpy(), np.take_along_axis(x, order, 1))


# ---- how much it costs


@pytest.mark.parametrize(
    "shape, axis, kernels",
    (
        ((100,), 0, 1),
        ((64, 100), 1, 1),
        ((64, 100), 0, 1),
        ((64, 1000), 1, 1),
        ((1000, 64), 0, 1),
        pytest.param((1 << 17,), 0, 2, marks=pytest.mark.cpu),  # on a GPU in pieces of 4096
    ),
)
def test_kernels_of_sorting(shape: tuple[int, ...], axis: int, kernels: int) -> None:
    x = Tensor(random(dtypes.float32, shape)).realize()
    for wanted in (lambda: x.sort(axis), lambda: x.sort(axis)[:1], lambda: (x.argsort(axis),)):
        GlobalCounters.reset()
        Tensor.realize(*wanted())
        assert GlobalCounters.kernel_count == kernels


def test_kernels_of_the_largest() -> None:
    x = Tensor(random(dtypes.float32, (8, 3000))).realize()
    for axis in (0, 1):
        GlobalCounters.reset()
        Tensor.realize(*x.topk(5, axis))
        assert GlobalCounters.kernel_count == 1


@pytest.mark.cpu  # a network does more
def test_work_grows_as_the_number_of_elements() -> None:
    def work(n: int, make: Any) -> int:
        GlobalCounters.reset()
        Tensor.realize(*make(Tensor(random(dtypes.float32, (2, n))).realize()))
        return int(GlobalCounters.global_ops)

    for make in (lambda x: x.sort(), lambda x: x.topk(9), lambda x: (x.argsort(),)):
        small, large = work(1000, make), work(16_000, make)
        assert small > 1000
        assert large <= 20 * small


# ---- the first few


@pytest.mark.parametrize("largest", (True, False))
@pytest.mark.parametrize("size, k", ((5, 5), (64, 1), (200, 7), (3000, 1), (3000, 40), (3000, 200), (3000, 2999)))
def test_topk(size: int, k: int, largest: bool) -> None:
    x = random(dtypes.float32, (3, size))
    values, places = Tensor(x).topk(k, largest=largest)
    Tensor.realize(values, places)
    order = order_of(x, 1, largest)[:, :k]
    np.testing.assert_array_equal(places.numpy(), order)
    same_bits(values.numpy(), np.take_along_axis(x, order, 1))


@pytest.mark.parametrize("dtype", dtypes.scalars, ids=lambda dtype: dtype.name)
def test_topk_of_every_dtype(dtype: DType) -> None:
    x = random(dtype, (2, 700))
    places = Tensor(x).topk(9, 1)[1]
    np.testing.assert_array_equal(places.numpy(), order_of(x, 1, descending=True)[:, :9])


def test_topk_along_the_first_axis_and_of_nothing() -> None:
    x = random(dtypes.int32, (300, 4))
    np.testing.assert_array_equal(Tensor(x).topk(3, 0, largest=False)[0].numpy(), np.sort(x, 0)[:3])
    assert Tensor(x).topk(0, 0)[0].numpy().shape == (0, 4)


def test_a_k_that_is_too_large_is_an_error() -> None:
    with pytest.raises(OutOfRangeError, match="topk: 6 of the 5 elements along axis 0 of"):
        Tensor([1.0] * 5).topk(6)
    with pytest.raises(OutOfRangeError, match="topk: -1 of the 5"):
        Tensor([1.0] * 5).topk(-1)
    with pytest.raises(OutOfRangeError, match="sort: there is no axis 1"):
        Tensor([1.0] * 5).sort(1)


# ---- elements of the order


@pytest.mark.parametrize("keepdim", (False, True))
def test_kthvalue(keepdim: bool) -> None:
    x = random(dtypes.int32, (4, 31))
    for k in (1, 5, 31):
        value, place = Tensor(x).kthvalue(k, 1, keepdim)
        order = order_of(x, 1)[:, k - 1 : k]
        wanted = np.take_along_axis(x, order, 1)
        np.testing.assert_array_equal(value.numpy(), wanted if keepdim else wanted[:, 0])
        np.testing.assert_array_equal(place.numpy(), order if keepdim else order[:, 0])
    with pytest.raises(OutOfRangeError, match="kthvalue: there is no element 32 among 31"):
        Tensor(x).kthvalue(32)


def test_median_is_the_lower_middle() -> None:
    x = np.random.default_rng(0).standard_normal((6, 5)).astype(np.float32)
    assert Tensor(x).median().item() == np.sort(x.reshape(-1))[14]
    value, place = Tensor(x).median(0)
    np.testing.assert_array_equal(value.numpy(), np.sort(x, 0)[2])
    np.testing.assert_array_equal(place.numpy(), np.argsort(x, 0)[2])
    assert Tensor(x).median(1, keepdim=True)[0].shape == (6, 1)
    assert Tensor(x).median(keepdim=True).shape == (1, 1)
    x[2, 3] = np.nan
    assert np.isnan(Tensor(x).median().item())
    assert Tensor(x).median(1)[1].numpy()[2] == 3
    with pytest.raises(ShapeError, match="median: no elements"):
        Tensor(np.ones((0,), np.float32)).median()


@pytest.mark.parametrize("q", (0, 0.3, 0.5, 1, [0.0, 0.25, 1.0]))
def test_quantile(q: Any) -> None:
    x = np.random.default_rng(0).standard_normal((6, 7)).astype(np.float32)
    for axis in (None, 0, 1):
        for keepdim in (False, True):
            wanted = np.quantile(x.astype(np.float64), q, axis=axis, keepdims=keepdim)
            np.testing.assert_allclose(Tensor(x).quantile(q, axis, keepdim).numpy(), wanted, rtol=1e-6, atol=1e-6)
    assert np.isnan(Tensor([1.0, np.nan]).quantile(0.0).item())
    with pytest.raises(ArgumentError, match=r"quantile: q is 1\.5"):
        Tensor(x).quantile(1.5)


def test_quantile_of_integers_and_tensors() -> None:
    np.testing.assert_allclose(Tensor([1, 2, 10]).quantile(Tensor([0.25, 0.75])).numpy(), [1.5, 6.0])


def test_mode_is_the_smallest_of_the_most_frequent() -> None:
    x = np.array([[3, 1, 3, 1, 2], [5, 5, 5, 0, 0], [4, 3, 2, 1, 0]], np.int32)
    value, place = Tensor(x).mode(1)
    np.testing.assert_array_equal(value.numpy(), [1, 5, 0])
    np.testing.assert_array_equal(place.numpy(), [1, 0, 4])
    assert Tensor(x).mode(0, keepdim=True)[0].shape == (1, 5)


def test_msort() -> None:
    x = random(dtypes.int8, (9, 4))
    np.testing.assert_array_equal(Tensor(x).msort().numpy(), np.sort(x, 0))


@pytest.mark.parametrize("size", (0, 1, 50, 500, 70_000))
def test_unique(size: int) -> None:
    x = np.random.default_rng(size).integers(-20, 20, size).astype(np.int32)
    found = Tensor(x).unique(return_inverse=True, return_counts=True)
    for got, wanted in zip(found, np.unique(x, return_inverse=True, return_counts=True), strict=True):
        np.testing.assert_array_equal(got.numpy(), wanted)


def test_unique_of_floats() -> None:
    x = np.array([[np.nan, 0.0, -0.0], [1.0, np.nan, -np.inf]], np.float32)
    np.testing.assert_array_equal(Tensor(x).unique().numpy(), np.unique(x))
    assert Tensor(x).unique(return_inverse=True)[1].shape == (2, 3)
