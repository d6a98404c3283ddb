"""Convolutions and poolings in the forms that GPUs get mean what they mean elsewhere."""

from dataclasses import replace

import numpy as np
import pytest

from whit import Tensor
from whit.dtype import DType, dtypes
from whit.ir.interpret import evaluate, numpy_dtype
from whit.ir.uop import UOp
from whit.kernel.convolution_cost import parts_of_images
from whit.kernel.forms import NO_PREFERENCE, forms_of
from whit.target import parse_target
from whit.tensor.graphs.convolution.convolve import Sliding, convolve, gradient_of_input, gradient_of_weight
from whit.tensor.graphs.convolution.max_pool import max_pool_of_images

pytestmark = pytest.mark.slow

GPU = forms_of(parse_target("CUDA:PTX:sm_90a"))
BF16, F32 = dtypes.bfloat16, dtypes.float32
ONE, TWO = ((1, 1), (1, 1)), ((2, 2), (2, 2))
# channels, sliding
CONVOLUTIONS = {
    "3 x 3": (64, Sliding((1, 1), (1, 1), 1, (5, 4), (3, 3), ONE)),
    "stride 2": (64, Sliding((2, 2), (1, 1), 1, (5, 6), (3, 3), ONE)),
    "dilated": (64, Sliding((1, 1), (2, 2), 1, (6, 5), (3, 3), TWO)),
    "few channels": (3, Sliding((2, 2), (1, 1), 1, (9, 8), (7, 7), ((3, 3), (3, 3)))),
    "few channels, stride 3": (5, Sliding((3, 3), (1, 2), 1, (9, 11), (4, 3), ((0, 1), (2, 0)))),
    "one dimension": (64, Sliding((2,), (1,), 1, (9,), (3,), ((1, 1),))),
}


def value_of(graph: UOp) -> np.ndarray:
    generator = np.random.default_rng(0)
    params = sorted((node for node in graph.topological() if node.op.name == "param"), key=lambda p: p.arg.slot)
    arrays = {p: generator.integers(-2, 3, p.shape).astype(numpy_dtype(p.dtype)) for p in params}
    return np.asarray(evaluate(graph, arrays)).astype(np.float32)


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_channels_last_change_no_value(name: str) -> None:
    channels, slide = CONVOLUTIONS[name]
    x = UOp.param(0, BF16, (2, channels, *slide.sizes)).cast(F32)
    w = UOp.param(1, BF16, (64, channels, *slide.kernel)).cast(F32)
    dy = UOp.param(2, BF16, (2, 64, *slide.outputs)).cast(F32)
    last = replace(slide, forms=GPU)
    for function, operands in ((convolve, (x, w)), (gradient_of_weight, (x, dy)), (gradient_of_input, (dy, w))):
        plain, kept = (function(*operands, how).cast(BF16) for how in (slide, last))
        assert plain is not kept
        np.testing.assert_array_equal(value_of(plain), value_of(kept))


def test_a_product_of_channels_and_pixels_in_memory_is_read_from_there() -> None:
    slide = Sliding((1, 1), (1, 1), 1, (5, 4), (1, 1), ((0, 0), (0, 0)))
    x, w = UOp.param(0, BF16, (2, 64, 5, 4)), UOp.param(1, BF16, (64, 64, 1, 1)).cast(F32)
    for value, is_read in ((x, True), (x.reshape((2, 64, 20)).reshape((2, 64, 5, 4)), True), (x * 2, False)):
        plain, last = (convolve(value.cast(F32), w, replace(slide, forms=forms)) for forms in (NO_PREFERENCE, GPU))
        assert (plain.src[0] is last.src[0]) == is_read
    turned = UOp.param(0, BF16, (2, 5, 4, 64)).permute((0, 3, 1, 2)).cast(F32)
    assert convolve(turned, w, slide).src[0] is not convolve(turned, w, replace(slide, forms=GPU)).src[0]


def test_parts_of_a_sum_over_images_are_whole_pieces_and_fill_the_chip() -> None:
    assert parts_of_images(64, 56 * 56, 256, 2304, cores=132) == 16  # 384 tiles, of 396 that three rounds have
    assert parts_of_images(64, 56 * 56, 256, 2304, cores=40) == 8  # 192 of 200, of five rounds
    assert parts_of_images(128, 7 * 7, 512, 4608, cores=132) == 1
    assert parts_of_images(3, 7 * 7, 64, 576, cores=132) == 1  # not a whole piece


POOLS = {
    "3, stride 2": ((3, 3), (2, 2), ONE, (8, 9)),
    "side by side": ((2, 2), (2, 2), ((0, 0), (0, 0)), (6, 7)),
    "gaps between": ((2, 2), (3, 3), ((0, 0), (0, 0)), (8, 8)),
    "stride 1": ((3, 2), (1, 1), ((1, 1), (1, 0)), (4, 5)),
}


@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
@pytest.mark.parametrize("name", POOLS)
def test_the_gradient_of_a_pooling_is_gathered(name: str, dtype: DType) -> None:
    kernel, stride, padding, sizes = POOLS[name]
    numbers = np.random.default_rng(0).permutation(2 * 2 * sizes[0] * sizes[1]) // 2  # some are equal
    x = Tensor(numbers.reshape(2, 2, *sizes).astype(np.float32) % 64, device="PYTHON").cast(dtype)
    before = x.max_pool2d(kernel, stride=stride, padding=padding)
    after = x._wrap(max_pool_of_images(x.uop, kernel, stride, padding))
    dy = Tensor((np.arange(before.numel()) % 7 * 4).reshape(before.shape).astype(np.float32), device="PYTHON").cast(
        dtype
    )
    np.testing.assert_array_equal(before.float().numpy(), after.float().numpy())
    found = [(y * dy).sum().gradient(x)[0].float().numpy() for y in (before, after)]
    np.testing.assert_allclose(*found, rtol=1e-6 if dtype is F32 else 2**-7)


def test_an_infinite_gradient_of_a_window_goes_to_its_largest_element_alone() -> None:
    x = Tensor(np.arange(16.0, dtype=np.float32).reshape(1, 1, 4, 4), device="PYTHON")
    y = x._wrap(max_pool_of_images(x.uop, (3, 3), (1, 1), ((0, 0), (0, 0))))
    dy = Tensor(np.array([[np.inf, 1.0], [2.0, 3.0]], np.float32).reshape(1, 1, 2, 2), device="PYTHON")
    expected = np.zeros((1, 1, 4, 4), np.float32)
    expected[0, 0, 2:, 2:] = [[np.inf, 1.0], [2.0, 3.0]]
    np.testing.assert_array_equal(y.gradient(x, gradient=dy)[0].numpy(), expected)
