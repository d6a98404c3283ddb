"""Products of matrices, convolutions and pools against plain NumPy."""

import itertools
from typing import Any

import numpy as np
import pytest

from tensor.check import FLOATS, INTS, same, some, value, wide
from whit import Tensor
from whit.dtype import DType, dtypes
from whit.errors import ArgumentError, ShapeError
from whit.ir import ops

PRODUCTS = [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3, 4)),
    ((1, 3), (3, 1)),
    ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)),
    ((5, 1, 2, 3), (4, 3, 2)),
    ((5, 2, 3), (3,)),
    ((3,), (5, 3, 4)),
    ((2, 0), (0, 3)),
    ((0, 2), (2, 3)),
]


@pytest.mark.parametrize("left, right", PRODUCTS, ids=str)
def test_shapes_of_products(left: Any, right: Any) -> None:
    x, y = some(dtypes.float64, left, 1), some(dtypes.float64, right, 2)
    same(Tensor(x) @ Tensor(y), x @ y, ulps=30, scale=10)
    same(Tensor(x).matmul(Tensor(y)), x @ y, ulps=30, scale=10)
    same(Tensor(y).matmul(Tensor(x), reverse=True), x @ y, ulps=30, scale=10)
    same(x @ Tensor(y), x @ y, ulps=30, scale=10)


@pytest.mark.parametrize("dtype", (*FLOATS, *INTS), ids=lambda d: d.name)
def test_dtypes_of_products(dtype: DType) -> None:
    x, y = some(dtype, (4, 6), 1), some(dtype, (6, 3), 2)
    expected = wide(x).astype(np.int64) @ wide(y).astype(np.int64) if dtype.is_int else wide(x) @ wide(y)
    small = {dtypes.int8: dtypes.int32, dtypes.int16: dtypes.int32, dtypes.uint8: dtypes.uint32}
    result = small.get(dtype, dtypes.uint32 if dtype is dtypes.uint16 else dtype)
    same(Tensor(x) @ Tensor(y), expected, result, ulps=0.51 if dtype.mantissa_bits < 23 else 8, scale=10)
    assert Tensor(x).dot(Tensor(y), dtype=dtypes.float32).dtype is dtypes.float32


def test_bools_multiply_as_relations() -> None:
    x, y = some(dtypes.bool, (3, 4), 1), some(dtypes.bool, (4, 5), 2)
    same(Tensor(x) @ Tensor(y), x @ y, dtypes.bool)


def test_half_products_are_exact_before_they_are_added() -> None:
    x = Tensor([[300.0, 300.0]], dtype=dtypes.float16)  # 90000 is beyond float16
    same(x @ Tensor([[1000.0], [-999.0]], dtype=dtypes.float16), [[300.0]])


def test_a_product_is_one_multiplication_and_one_reduction() -> None:
    x, y = Tensor.empty(4, 5), Tensor.empty(5, 6)
    found = [n.op for n in (x @ y).uop.topological()]
    assert found.count(ops.MUL) == found.count(ops.REDUCE) == 1
    assert (x @ y).uop.op is ops.REDUCE


def test_linear() -> None:
    x, w, b = some(dtypes.float64, (2, 3)), some(dtypes.float64, (3, 4), 1), some(dtypes.float64, (4,), 2)
    same(Tensor(x).linear(Tensor(w), Tensor(b)), x @ w + b, ulps=20, scale=10)
    same(Tensor(x).linear(Tensor(w)), x @ w, ulps=20, scale=10)
    same(Tensor(x).linear(Tensor(w[:, 0])), x * w[:, 0], ulps=20, scale=10)
    assert Tensor(x).linear(Tensor(w), Tensor(b), dtype=dtypes.half).dtype is dtypes.half


def test_products_that_do_not_fit() -> None:
    x, y = Tensor.zeros(4, 3), Tensor.zeros(2, 5)
    with pytest.raises(ShapeError, match="the last axis of the left is 3, axis 0 of the right is 2") as caught:
        x @ y
    assert "left made at test_linear.py:" in str(caught.value)
    with pytest.raises(ShapeError, match="one has no axes"):
        x @ Tensor(1.0)
    with pytest.raises(ShapeError, match="do not broadcast"):
        Tensor.zeros(2, 3, 4) @ Tensor.zeros(3, 4, 5)


def convolution(x: Any, w: Any, groups: int, stride: Any, dilation: Any, pads: Any) -> Any:
    """One output element after another."""
    x = np.pad(x, [(0, 0), (0, 0), *pads])
    kernel = w.shape[2:]
    space = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(x.shape[2:], kernel, stride, dilation, strict=True)]
    part = w.shape[1]
    result = np.zeros((x.shape[0], w.shape[0], *space))
    for out in range(w.shape[0]):
        first = out // (w.shape[0] // groups) * part
        for place in itertools.product(*map(range, space)):
            window = tuple(
                slice(i * s, i * s + d * (k - 1) + 1, d)
                for i, s, d, k in zip(place, stride, dilation, kernel, strict=True)
            )
            cut = x[(slice(None), slice(first, first + part), *window)]
            result[(slice(None), out, *place)] = (cut * w[out]).reshape(len(x), -1).sum(1)  # type: ignore[index]
    return result


@pytest.mark.parametrize("kernel", [(3, 3), (1, 1), (2, 3)], ids=str)
@pytest.mark.parametrize("stride", [1, 2, (3, 1), 5], ids=str)
@pytest.mark.parametrize("dilation", [1, (2, 1)], ids=str)
@pytest.mark.parametrize("padding, groups", [(0, 1), (1, 2), ((2, 0), 1), ((1, 0, 2, 1), 1)], ids=str)
def test_conv2d(kernel: Any, stride: Any, dilation: Any, padding: Any, groups: int) -> None:
    x, w = some(dtypes.float64, (2, 4, 8, 7), 1), some(dtypes.float64, (6, 4 // groups, *kernel), 2)
    b = some(dtypes.float64, (6,), 3)
    steps = (stride, stride) if isinstance(stride, int) else stride
    gaps = (dilation, dilation) if isinstance(dilation, int) else dilation
    if isinstance(padding, int):
        pads = [(padding, padding)] * 2
    else:
        pads = [(p, p) for p in padding] if len(padding) == 2 else [padding[2:], padding[:2]]
    expected = convolution(x, w, groups, steps, gaps, pads)
    found = Tensor(x).conv2d(Tensor(w), None, groups=groups, stride=stride, dilation=dilation, padding=padding)
    same(found, expected, dtypes.float64, ulps=60, scale=10)
    with_bias = Tensor(x).conv2d(Tensor(w), Tensor(b), groups=groups, stride=stride, dilation=dilation, padding=padding)
    same(with_bias, expected + b[:, None, None], ulps=60, scale=10)


@pytest.mark.parametrize("count", (1, 3))
def test_convolution_over_any_number_of_axes(count: int) -> None:
    x, w = some(dtypes.float64, (2, 2, *(5,) * count), 1), some(dtypes.float64, (3, 2, *(2,) * count), 2)
    ones = (1,) * count
    same(Tensor(x).conv2d(Tensor(w)), convolution(x, w, 1, ones, ones, [(0, 0)] * count), ulps=60, scale=10)


def test_convolution_of_half_is_added_in_float32() -> None:
    x, w = some(dtypes.float16, (1, 8, 5, 5), 1), some(dtypes.float16, (2, 8, 3, 3), 2)
    expected = convolution(wide(x), wide(w), 1, (1, 1), (1, 1), [(0, 0)] * 2)
    same(Tensor(x).conv2d(Tensor(w)), expected, dtypes.float16, ulps=0.51, scale=1)


def pool(x: Any, k: int, s: int, d: int, p: int, reduce: Any, fill: float) -> Any:
    x = np.pad(x, [(0, 0)] * (x.ndim - 2) + [(p, p)] * 2, constant_values=fill)
    sizes = [(n - d * (k - 1) - 1) // s + 1 for n in x.shape[-2:]]
    rows = [
        [reduce(x[..., i * s : i * s + d * (k - 1) + 1 : d, j * s : j * s + d * (k - 1) + 1 : d], axis=(-2, -1))
         for j in range(sizes[1])]
        for i in range(sizes[0])
    ]  # fmt: skip
    return np.stack([np.stack(row, -1) for row in rows], -2)


@pytest.mark.parametrize(
    "k, s, d, p", [(2, 2, 1, 0), (3, 1, 1, 1), (2, 3, 1, 0), (3, 2, 2, 1), (1, 2, 1, 0), (2, 5, 1, 1)]
)
def test_pools(k: int, s: int, d: int, p: int) -> None:
    x = some(dtypes.float64, (2, 3, 7, 8))
    same(Tensor(x).max_pool2d(k, s, dilation=d, padding=p), pool(x, k, s, d, p, np.max, -np.inf))
    same(Tensor(x).avg_pool2d((k, k), s, dilation=d, padding=p), pool(x, k, s, d, p, np.mean, 0), ulps=10, scale=1)
    exclusive = pool(x, k, s, d, p, np.nanmean, np.nan)
    same(Tensor(x).avg_pool2d((k, k), s, dilation=d, padding=p, count_include_pad=False), exclusive, ulps=10, scale=1)
    y = some(dtypes.int32, (1, 7, 8))
    same(
        Tensor(y).max_pool2d(k, s, dilation=d, padding=p),
        pool(y.astype(float), k, s, d, p, np.max, -np.inf).astype(np.int32),
        dtypes.int32,
    )


def test_pools_that_round_up() -> None:
    # From PyTorch: max_pool2d and avg_pool2d of arange(25) with kernel 2, stride 2, ceil_mode=True.
    x = Tensor(np.arange(25, dtype=np.float32).reshape(1, 1, 5, 5))
    same(x.max_pool2d(2, 2, ceil_mode=True)[0, 0], [[6, 8, 9], [16, 18, 19], [21, 23, 24]])
    same(x.avg_pool2d(2, 2, ceil_mode=True)[0, 0], [[3, 5, 6.5], [13, 15, 16.5], [20.5, 22.5, 24]])
    # A window that would start in the padding at the end is left out.
    assert x.max_pool2d(2, 2, padding=1, ceil_mode=True).shape == (1, 1, 3, 3)
    padded = x.avg_pool2d(3, 2, padding=1, ceil_mode=True)
    assert padded.shape == (1, 1, 3, 3)
    np.testing.assert_allclose(value(padded)[0, 0, 0, 0], (0 + 1 + 5 + 6) / 9, rtol=1e-6)


def test_pooling_of_integers_gives_floats_and_small_floats_stay() -> None:
    assert Tensor.ones(1, 4, 4, dtype=dtypes.uint8).avg_pool2d().dtype is dtypes.float32
    assert Tensor.ones(1, 4, 4, dtype=dtypes.half).avg_pool2d().dtype is dtypes.half


@pytest.mark.cpu  # on GPUs the largest of a window is a formula, with a gradient of its own
def test_windows_are_made_by_movement_alone() -> None:
    x, w = Tensor.empty(1, 2, 9, 9), Tensor.empty(4, 2, 3, 3)
    found = {n.op for n in x.conv2d(w, stride=2, dilation=2).uop.topological()}
    assert found <= {ops.BUFFER, *ops.MOVEMENT, ops.MUL, ops.REDUCE, ops.CONST, ops.FORMULA}
    assert ops.PAD not in found
    plain = [n.op for n in Tensor.empty(1, 1, 8, 8).max_pool2d().uop.topological()]
    assert plain == [ops.BUFFER, ops.RESHAPE, ops.RESHAPE, ops.PERMUTE, ops.REDUCE]


def test_windows_that_do_not_fit() -> None:
    x = Tensor.zeros(1, 4, 5, 5)
    with pytest.raises(ShapeError, match=r"a window of \(6, 6\)"):
        x.conv2d(Tensor.zeros(2, 4, 6, 6))
    with pytest.raises(ShapeError, match="4 input channels do not fit"):
        x.conv2d(Tensor.zeros(2, 3, 3, 3))
    with pytest.raises(ShapeError, match="same number of axes"):
        x.conv2d(Tensor.zeros(2, 4, 3))
    with pytest.raises(ArgumentError, match="stride=0"):
        x.max_pool2d(2, 0)
    with pytest.raises(ArgumentError, match=r"padding=\(1, 2, 3\)"):
        x.conv2d(Tensor.zeros(2, 4, 3, 3), padding=(1, 2, 3))


@pytest.mark.parametrize("left, right", PRODUCTS, ids=str)
def test_products_move_each_operand_once(left: Any, right: Any) -> None:
    found = [n.op for n in (Tensor.empty(*left) @ Tensor.empty(*right)).uop.topological()]
    assert found.count(ops.RESHAPE) + found.count(ops.EXPAND) <= 4
    assert found.count(ops.PERMUTE) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16, dtypes.int32])
def test_a_deep_product_is_computed_in_parts_and_what_is_left(dtype: DType) -> None:
    ones = np.random.default_rng(1).integers(-1, 2, (17 + 13, 32003))  # sums of a few hundred
    a, b = (Tensor(part).cast(dtype).realize() for part in (ones[:17], ones[17:].T))
    result = (a @ b) * 2 + 1
    assert len(result.kernels()) == 2
    np.testing.assert_allclose(result.float().numpy(), ones[:17] @ ones[17:].T * 2 + 1, rtol=2**-7)
