"""Convolutions, pools and interpolation against PyTorch where it is installed, and against plain loops."""

import itertools
from typing import Any

import numpy as np
import pytest

from tensor.check import same, some, value
from whit import Tensor
from whit.dtype import dtypes
from whit.engine.report.counters import GlobalCounters
from whit.errors import ArgumentError, ShapeError

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    torch = None

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:Using padding")]  # loads PyTorch
needs_torch = pytest.mark.skipif(torch is None, reason="compares with PyTorch")


CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def close(tensor: Tensor, expected: Any) -> None:
    assert tensor.shape == tuple(expected.shape)
    np.testing.assert_allclose(value(tensor), np.asarray(expected), **CLOSE)


def array(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape)


SPACES = {1: (9,), 2: (7, 8), 3: (5, 5, 6)}
KERNELS = {1: (3,), 2: (3, 2), 3: (2, 3, 2)}


@needs_torch
@pytest.mark.parametrize("count", (1, 2, 3))
@pytest.mark.parametrize("stride, dilation, groups", list(itertools.product((1, 2), (1, 2), (1, 2))), ids=str)
def test_conv_of_one_to_three_axes(count: int, stride: int, dilation: int, groups: int) -> None:
    x, w, b = array(2, 4, *SPACES[count]), array(6, 4 // groups, *KERNELS[count], seed=1), array(6, seed=2)
    reference = getattr(F, f"conv{count}d")
    for padding in (0, 1, tuple(range(count)), "valid", *(("same",) if stride == 1 else ())):
        found = Tensor(x).conv2d(Tensor(w), Tensor(b), groups=groups, stride=stride, dilation=dilation, padding=padding)
        arguments = (torch.tensor(x), torch.tensor(w), torch.tensor(b))
        close(found, reference(*arguments, stride=stride, padding=padding, dilation=dilation, groups=groups))


def test_padding_of_conv_on_one_side() -> None:
    x, w = Tensor(array(1, 2, 5, 6)), Tensor(array(3, 2, 2, 3, seed=1))
    expected = value(x.pad(((0, 0), (0, 0), (1, 0), (0, 2))).conv2d(w))
    np.testing.assert_array_equal(value(x.conv2d(w, padding=((1, 0), (0, 2)))), expected)
    np.testing.assert_array_equal(value(x.conv2d(w, padding=(0, 2, 1, 0))), expected)
    for padding, words in (("full", "there is no padding 'full'"), ((1, 2, 3), "padding")):
        with pytest.raises(ArgumentError, match=words):
            x.conv2d(w, padding=padding)
    with pytest.raises(ArgumentError, match="The stride must be 1"):
        x.conv2d(w, padding="same", stride=2)


@needs_torch
@pytest.mark.parametrize("count", (1, 2, 3))
@pytest.mark.parametrize("stride, dilation, groups", list(itertools.product((1, 2, 3), (1, 2), (1, 2))), ids=str)
def test_conv_transpose_of_one_to_three_axes(count: int, stride: int, dilation: int, groups: int) -> None:
    space = tuple(size // 2 + 2 for size in SPACES[count])
    x, w, b = array(2, 4, *space), array(4, 6 // groups, *KERNELS[count], seed=1), array(6, seed=2)
    reference = getattr(F, f"conv_transpose{count}d")
    for padding, extra in ((0, 0), (1, 0), (0, stride - 1), (2, 0)):
        if extra >= max(stride, dilation):
            continue
        found = Tensor(x).conv_transpose2d(
            Tensor(w),
            Tensor(b),
            groups=groups,
            stride=stride,
            dilation=dilation,
            padding=padding,
            output_padding=extra,
        )
        arguments = (torch.tensor(x), torch.tensor(w), torch.tensor(b), stride, padding, extra, groups, dilation)
        close(found, reference(*arguments))


def test_conv_transpose_by_hand_and_wrong() -> None:
    x, w = Tensor([[[1, 2]]]), Tensor([[[10, 20, 30]]])
    same(x.conv_transpose2d(w), [[[10, 40, 70, 60]]])
    same(x.conv_transpose2d(w, stride=2), [[[10, 20, 50, 40, 60]]])
    same(x.conv_transpose2d(w, stride=2, padding=1, output_padding=1), [[[20, 50, 40, 60]]])
    with pytest.raises(ShapeError, match="conv_transpose2d: a tensor"):
        x.conv_transpose2d(Tensor.ones(2, 1, 3))
    with pytest.raises(ArgumentError, match="output_padding"):
        x.conv_transpose2d(w, output_padding=1)


@needs_torch
@pytest.mark.parametrize(
    "kernel, stride, padding, dilation",
    [
        (2, None, 0, 1),
        (3, 2, 1, 1),
        (3, 1, 1, 2),
        ((2, 3), (1, 2), (1, 0), (2, 1)),
        (3, 3, 1, 1),
        (2, 3, 0, 1),
    ],
    ids=str,
)
@pytest.mark.parametrize("ceil_mode", (False, True))
def test_max_pool_and_where_it_is(kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> None:
    x = array(2, 3, 8, 9)
    x[0, 0, 2, 2:5] = 7  # equal ones: the first counts
    x[0, 1, 3, 3] = np.nan
    found, places = Tensor(x).max_pool2d(
        kernel, stride, dilation=dilation, padding=padding, ceil_mode=ceil_mode, return_indices=True
    )
    expected, where = F.max_pool2d(
        torch.tensor(x), kernel, stride, padding, dilation, ceil_mode=ceil_mode, return_indices=True
    )
    np.testing.assert_array_equal(value(found), expected.numpy())
    np.testing.assert_array_equal(value(places), where.numpy())
    assert places.dtype is dtypes.default_int


@needs_torch
@pytest.mark.parametrize(
    "kernel, stride, padding", [(2, None, 0), (3, 2, 1), ((2, 3), (1, 2), (1, 0)), (3, 3, 1)], ids=str
)
@pytest.mark.parametrize("ceil_mode, include", list(itertools.product((False, True), (False, True))), ids=str)
def test_avg_pool(kernel: Any, stride: Any, padding: Any, ceil_mode: bool, include: bool) -> None:
    x = array(2, 3, 8, 9)
    found = Tensor(x).avg_pool2d(kernel, stride, padding=padding, ceil_mode=ceil_mode, count_include_pad=include)
    close(found, F.avg_pool2d(torch.tensor(x), kernel, stride, padding, ceil_mode, include))


@needs_torch
@pytest.mark.parametrize(
    "kernel, stride, padding, size",
    [
        (2, None, 0, None),
        (2, None, 0, (9, 9)),
        (3, 2, 1, None),
        (2, 1, 0, None),
        ((2, 3), (2, 3), 0, (1, 2, 8, 10)),
    ],
    ids=str,
)
def test_max_unpool_puts_values_back(kernel: Any, stride: Any, padding: Any, size: Any) -> None:
    x = torch.tensor(array(1, 2, 8, 9))
    pooled, where = F.max_pool2d(x, kernel, stride, padding, return_indices=True)
    places = Tensor(where.numpy())
    expected = F.max_unpool2d(pooled, where, kernel, stride, padding, size or (8, 9))
    found = Tensor(pooled.numpy()).max_unpool2d(places, kernel, stride, padding=padding, output_size=size or (8, 9))
    np.testing.assert_array_equal(found.numpy(), expected.numpy())
    if size is None and kernel == 2 and stride is None:
        own = Tensor(pooled.numpy()).max_unpool2d(places % 64)
        assert own.shape == (1, 2, 8, 8)


def test_max_unpool_needs_places() -> None:
    x = Tensor.ones(1, 2, 2)
    found = x.max_unpool2d(Tensor([[[0, 3], [15, 99]]])).numpy()
    np.testing.assert_array_equal(found, np.eye(16)[[0, 3, 15]].sum(0).reshape(1, 4, 4))


def test_max_unpool_of_wrong_places() -> None:
    x = Tensor.ones(1, 2, 2)
    for wrong in (Tensor.ones(1, 2, 2), Tensor([[1, 2]])):
        with pytest.raises(ShapeError, match="max_unpool2d: values"):
            x.max_unpool2d(wrong)


@needs_torch
def test_pools_of_one_and_three_axes_and_of_integers() -> None:
    x = array(2, 3, 8, 9)
    close(Tensor(x).max_pool2d((3,)), x.reshape(2, 3, 8, 3, 3).max(-1))
    close(Tensor(x).max_pool2d((2, 3, 2)), F.max_pool3d(torch.tensor(x), (2, 3, 2)))
    close(Tensor(x).avg_pool2d((2, 3, 2)), F.avg_pool3d(torch.tensor(x), (2, 3, 2)))
    y = some(dtypes.int16, (1, 1, 4, 4))
    expected = y.reshape(1, 1, 2, 2, 2, 2).max((3, 5))
    same(Tensor(y).max_pool2d(), expected, dtypes.int16)
    same(Tensor(y).avg_pool2d(), y.reshape(1, 1, 2, 2, 2, 2).mean((3, 5)), dtypes.float32, ulps=1)


KERNELS_OF: dict[str, Any] = {
    "conv": lambda x, w, b: x.conv2d(w, b, padding="same").relu(),
    "conv_transpose": lambda x, w, b: x.conv_transpose2d(w, b, stride=2).relu(),
    "max_pool": lambda x, w, b: x.max_pool2d(3, 2, padding=1),
    "indices": lambda x, w, b: x.max_pool2d(3, 2, padding=1, return_indices=True)[1],
    "avg_pool": lambda x, w, b: x.avg_pool2d(3, 2, padding=1, count_include_pad=False),
    "nearest": lambda x, w, b: x.interpolate((12, 12), "nearest"),
    "linear": lambda x, w, b: x.interpolate((12, 12), "linear"),
}


@pytest.mark.parametrize("name", KERNELS_OF)
def test_windows_are_one_kernel(name: str) -> None:
    x, w, b = (Tensor(array(*shape).astype(np.float32)).realize() for shape in ((2, 4, 8, 8), (4, 4, 3, 3), (4,)))
    GlobalCounters.reset()
    KERNELS_OF[name](x, w, b).realize()
    # On a CPU no kernel reads zeros in between: one for each of 2 x 2 remainders, and one that lays them together.
    has_residues = name == "conv_transpose" and x.device.startswith("CPU")
    assert GlobalCounters.kernel_count == (2 * 2 + 1 if has_residues else 1)


# ---- interpolation

TORCH_MODES = {
    ("nearest", 1): "nearest",
    ("nearest", 2): "nearest",
    ("nearest", 3): "nearest",
    ("nearest-exact", 1): "nearest-exact",
    ("nearest-exact", 2): "nearest-exact",
    ("nearest-exact", 3): "nearest-exact",
    ("linear", 1): "linear",
    ("linear", 2): "bilinear",
    ("linear", 3): "trilinear",
    ("cubic", 2): "bicubic",
}
SIZES = [1, 3, 5, 7, 10, 13]


@needs_torch
@pytest.mark.parametrize("mode, count", TORCH_MODES, ids=str)
@pytest.mark.parametrize("align", (False, True))
def test_interpolate_to_a_size(mode: str, count: int, align: bool) -> None:
    if align and mode.startswith("nearest"):
        with pytest.raises(ArgumentError, match="align_corners with mode"):
            Tensor.ones(1, 1, 4).interpolate((2,), mode, align_corners=True)
        return
    for source, target in itertools.product((1, 4, 7), SIZES):
        space = (source, 5, 3)[:count]
        size = (target, 4, 6)[:count]
        x = array(2, 2, *space)
        corners = None if mode.startswith("nearest") else align
        expected = F.interpolate(torch.tensor(x), size, mode=TORCH_MODES[mode, count], align_corners=corners)
        close(Tensor(x).interpolate(size, mode, align), expected)


@needs_torch
@pytest.mark.parametrize("mode", ("nearest", "nearest-exact", "bilinear", "bicubic"))
@pytest.mark.parametrize("factor", (2, 0.5, 1.5, (2.0, 0.75), 0.3, 3.3), ids=str)
def test_interpolate_by_a_factor(mode: str, factor: Any) -> None:
    x = array(1, 2, 8, 10)
    expected = F.interpolate(torch.tensor(x), scale_factor=factor, mode=mode)
    close(Tensor(x).interpolate(scale_factor=factor, mode=mode), expected)


def test_interpolate_by_hand_and_wrong() -> None:
    x = Tensor([[[0.0, 10.0]]])
    same(x.interpolate(4, "linear"), [[[0.0, 2.5, 7.5, 10.0]]])
    same(x.interpolate((3,), "linear", align_corners=True), [[[0.0, 5.0, 10.0]]])
    same(x.interpolate((4,), "nearest"), [[[0.0, 0.0, 10.0, 10.0]]])
    same(x.interpolate((2,), "linear"), [[[0.0, 10.0]]])
    same(Tensor([[1, 2, 3]]).interpolate((2,), "nearest"), [[1, 2]], dtypes.int32)
    assert Tensor([[1, 2, 3]]).interpolate((2,), "linear").dtype is dtypes.float32
    assert x.half().interpolate((5,), "cubic").dtype is dtypes.float16
    for wrong, error, words in (
        (lambda: x.interpolate((3,), "lanczos"), ArgumentError, "there is no mode 'lanczos'"),
        (lambda: x.interpolate(), ArgumentError, "either size or scale_factor"),
        (lambda: x.interpolate((3,), scale_factor=2), ArgumentError, "either size or scale_factor"),
        (lambda: x.interpolate((0,)), ShapeError, "a number above 0"),
        (lambda: x.interpolate((1, 1, 1, 1)), ShapeError, "for the axes of"),
        (lambda: x.interpolate(scale_factor=0.1), ShapeError, "nothing is left"),
        (lambda: x[:, :, :0].interpolate((2,), "linear"), ShapeError, "has no elements"),
    ):
        with pytest.raises(error, match=words):
            wrong()


def test_places_that_are_not_computed_yet_can_be_written_to() -> None:
    image = Tensor.arange(16).reshape(1, 1, 4, 4).float()
    values, places = image.max_pool2d(return_indices=True)
    expected = np.zeros((4, 4))
    expected[1::2, 1::2] = [[5, 7], [13, 15]]
    np.testing.assert_array_equal(values.max_unpool2d(places).numpy()[0, 0], expected)
