"""What is between convolutions of halves is kept with channels last; sums of few columns are summed in parts."""

import numpy as np
import pytest

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.interpret import numpy_dtype, run
from whit.ir.uop import UOp, const
from whit.kernel.forms import forms_of
from whit.schedule import schedule
from whit.target import parse_target
from whit.tensor.graphs.convolution.convolve import Sliding, convolve, gradient_of_input, gradient_of_weight

GPU = parse_target("CUDA:PTX:sm_90a")
BF16, F32 = dtypes.bfloat16, dtypes.float32


def half(slot: int, *shape: int) -> UOp:
    return UOp.param(slot, BF16, shape)


def conv(x: UOp, w: UOp, stride: int = 1) -> UOp:
    kernel = tuple(w.shape[2:])
    pads = tuple((k // 2, k // 2) for k in kernel)
    slide = Sliding((stride,) * 2, (1, 1), 1, tuple(x.shape[2:]), kernel, pads, forms=forms_of(GPU))
    return convolve(x.cast(F32), w.cast(F32), slide).cast(BF16)


def stored(*values: UOp) -> UOp:
    return UOp.group(*(UOp.param(100 + i, v.dtype, v.shape).store(v) for i, v in enumerate(values)))


def names(*values: UOp) -> list[str]:
    """The kernels that are more than copies of weights."""
    found = [call.src[0].arg.name for call in schedule(stored(*values), GPU).src]
    return [name for name in found if not name.endswith(("x3x3x64", "x1x1x64", "x4x1x64"))]


def relu(x: UOp) -> UOp:
    return x.maximum(const(x.dtype, 0.0))


def scaled(x: UOp, slot: int) -> UOp:
    return x * half(slot, x.shape[1]).reshape((1, x.shape[1], 1, 1)).expand(x.shape)


def test_a_residual_block_is_one_copy_and_its_convolutions() -> None:
    x = half(0, 4, 64, 8, 8)
    y = relu(scaled(conv(x, half(1, 64, 64, 3, 3)), 2))
    y = relu(scaled(conv(y, half(3, 64, 64, 3, 3)), 4) + x)
    y = conv(y, half(5, 64, 64, 1, 1))
    assert names(y) == ["stage_4x8x8x64", "add_reduce_4x8x8x64", "add_reduce_4x8x8x64", "add_reduce_4x64x8x8"]


def test_images_that_lie_with_channels_last_are_not_copied() -> None:
    x = half(0, 4, 8, 8, 64).permute((0, 3, 1, 2))
    y = relu(conv(x, half(1, 64, 64, 3, 3))).permute((0, 2, 3, 1))
    assert names(y) == ["add_reduce_4x8x8x64"]


def test_small_images_are_turned_after_the_product() -> None:
    """49 pixels fill a tile of 128 columns badly; 256 fill two, and then a copy would cost more."""
    small, large = (relu(conv(half(0, 4, 64, n, n), half(1, 64, 64, 3, 3))) for n in (7, 16))
    assert names(small) == ["stage_4x7x7x64", "add_reduce_4x7x7x64", "permute_4x64x7x7"]
    assert names(large) == ["stage_4x16x16x64", "add_reduce_4x64x16x16"]


def test_a_weight_gradient_alone_copies_no_images() -> None:
    x, dy = (half(slot, 4, 8, 8, 64).permute((0, 3, 1, 2)).cast(F32) for slot in range(2))
    slide = Sliding((1, 1), (1, 1), 1, (8, 8), (3, 3), ((1, 1), (1, 1)), forms=forms_of(GPU))
    dw = gradient_of_weight(x, dy, slide).cast(BF16).permute((0, 2, 3, 1))
    found = [call.src[0].arg.name for call in schedule(stored(dw), GPU).src]
    assert not any(name.startswith("stage") for name in found), found


def test_halves_are_kept_and_not_the_sums_that_they_are_rounded_from() -> None:
    y = conv(half(0, 4, 64, 8, 8), half(1, 64, 64, 3, 3)).cast(F32)
    mean = y.reduce(ops.ADD, (0, 2, 3)).reshape((1, 64, 1, 1)).expand(y.shape)
    linear = schedule(stored((y - mean).reduce(ops.MAX, (0, 2, 3))), GPU)
    kept = {b for call in linear.src for b in call.src[1:] if b.op is ops.BUFFER and b.shape == (4, 8, 8, 64)}
    assert {buffer.dtype for buffer in kept} == {BF16}


def test_the_scheduler_of_a_cpu_leaves_permutes_where_they_are() -> None:
    y = relu(conv(half(0, 4, 64, 8, 8), half(1, 64, 64, 3, 3)))
    mean = y.cast(F32).reduce(ops.ADD, (0, 2, 3))
    assert any("4x64x8x8" in call.src[0].arg.name for call in schedule(stored(y, mean)).src)


def test_values_are_the_same() -> None:
    """The schedules of a GPU and of a CPU, both interpreted, on small integers."""
    x = half(0, 2, 64, 4, 4)
    y = relu(conv(x, half(1, 64, 64, 3, 3)) + x)
    z = relu(conv(y, half(2, 64, 64, 3, 3), 2)).cast(F32)
    graph = stored(z, z.reduce(ops.MAX, (0, 2, 3)), (y.cast(F32) * 2.0).reduce(ops.ADD, (1, 3)))
    generator = np.random.default_rng(0)
    sources = [node for node in graph.topological() if node.op is ops.PARAM and node.arg.slot < 100]
    arrays = {node: generator.integers(-1, 2, node.shape).astype(numpy_dtype(node.dtype)) for node in sources}
    found = []
    for target in (None, GPU):
        results = {s.src[0]: np.zeros(s.src[0].shape, np.float32) for s in graph.src}
        run(schedule(graph, target), {**arrays, **results})
        found.append([*results.values()])
    for left, right in zip(*found, strict=True):
        np.testing.assert_array_equal(left, right)


COLUMNS = {"rows are many": ((128, 512, 64), (0, 1), 128), "rows are few": ((128, 64), (0,), 0)}


@pytest.mark.parametrize("name", COLUMNS)
def test_long_sums_of_few_columns_are_summed_in_parts(name: str) -> None:
    shape, axes, parts = COLUMNS[name]
    linear = schedule(stored(UOp.param(0, F32, shape).reduce(ops.ADD, axes)), GPU)
    kept = [b.shape for call in linear.src for b in call.src[1:] if b.op is ops.BUFFER]
    assert set(kept) == ({(parts, 64)} if parts else set())


def test_few_channels_are_folded() -> None:
    slide = Sliding((2, 2), (1, 1), 1, (32, 32), (7, 7), ((3, 3), (3, 3)), forms=forms_of(GPU))
    x, dy = half(0, 8, 3, 32, 32).cast(F32), half(1, 8, 64, 16, 16).cast(F32)
    y = convolve(x, half(2, 64, 3, 7, 7).cast(F32), slide).cast(BF16)
    assert names(y) == ["stage_8x19x16x64", "add_reduce_8x64x16x16"]
    assert "stage_8x19x16x64" in names(gradient_of_weight(x, dy, slide))


def test_a_gradient_of_images_that_is_added_to_another_is_stored_in_halves() -> None:
    slide = Sliding((1, 1), (1, 1), 1, (8, 8), (1, 1), ((0, 0), (0, 0)), forms=forms_of(GPU))
    pairs = [(half(2 * i, 4, 8, 8, 64).permute((0, 3, 1, 2)), half(2 * i + 1, 64, 64, 1, 1)) for i in range(2)]
    one, other = (gradient_of_input(dy.cast(F32), w.cast(F32), slide) for dy, w in pairs)
    calls = schedule(stored((one + other).cast(BF16).permute((0, 2, 3, 1))), GPU).src
    made = [call.src[1] for call in calls if call.src[1].shape == (4, 8, 8, 64)]
    assert [memory.dtype for memory in made] == [BF16, BF16]
