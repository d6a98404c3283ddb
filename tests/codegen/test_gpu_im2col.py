"""Convolutions and their gradients read windows of images as operands of matrix units. No GPU is needed."""

from typing import Any

import numpy as np
import pytest
from schedule.build import param, scheduled

from codegen.test_kernel_programs import arrays_of
from whit.codegen import generate
from whit.codegen.gpu.gemm import atoms as gpu_atoms
from whit.codegen.gpu.gemm import matmul as gpu_matmul
from whit.codegen.gpu.separate import separate
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.args import AxisArg, MatrixArg
from whit.ir.interpret import run
from whit.ir.uop import UOp
from whit.kernel.forms import forms_of
from whit.render.ptx.launch import launch_of
from whit.target import parse_target
from whit.tensor.graphs.convolution.channels_last import summed
from whit.tensor.graphs.convolution.convolve import Sliding, _operands, convolve, gradient_of_input, gradient_of_weight

TARGET = parse_target("CUDA:PTX:sm_90a")
BF16, F32 = dtypes.bfloat16, dtypes.float32
LAST = (0, 2, 3, 1)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles that are interpreted fast."""
    monkeypatch.setattr(gpu_atoms, "WGMMA", (gpu_atoms.wgmma(1, 64, 32, 2),))
    monkeypatch.setattr(gpu_matmul, "LEAST_TILE_ROWS", 1)


def slide(height: int, width: int, kernel: int = 3, stride: int = 1, padding: int = 1, dilation: int = 1) -> Sliding:
    return Sliding(
        (stride,) * 2, (dilation,) * 2, 1, (height, width), (kernel,) * 2, ((padding,) * 2,) * 2, forms=forms_of(TARGET)
    )


def half(slot: int, *shape: int) -> UOp:
    return param(slot, *shape, dtype=BF16).cast(F32)


def products(value: UOp) -> list[UOp]:
    """The kernels of a value that are contractions."""
    bodies = [part for call in scheduled(value).src for part in separate(call.src[0].src[0])]
    return [body for body in bodies if any(node.op is ops.MUL and node.dtype is F32 for node in body.topological())]


def window_of(body: UOp) -> tuple[Any, MatrixArg]:
    """The program of a contraction, and its operand that is windows."""
    program = generate(body, TARGET)
    (tile,) = [node for node in program.linear.src if node.op is ops.BLOCK_MMA]
    assert tile.arg.atom == "wgmma"
    (matrix,) = [matrix for matrix in (tile.arg.a, tile.arg.b) if matrix.axes]
    return program, matrix


FORWARD = {
    "padded": slide(3, 4),
    "no padding": slide(5, 6, padding=0),
    "1 x 1, stride 2": slide(6, 7, 1, 2, 0),
    "dilated, stride 3": slide(7, 10, stride=3, dilation=2, padding=3),
}


@pytest.mark.slow
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", FORWARD)
def test_windows_along_the_depth(name: str) -> None:
    how = FORWARD[name]
    value = convolve(half(0, 2, 64, *how.sizes), half(1, 16, 64, *how.kernel), how).cast(BF16).permute(LAST)
    check(value)


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_windows_are_columns_where_pixels_are_stored_side_by_side() -> None:
    how = slide(3, 4)
    check(convolve(half(0, 2, 64, 3, 4), half(1, 16, 64, 3, 3), how).cast(BF16))


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_pixels_along_the_depth() -> None:
    how = slide(8, 8, stride=2)
    value = gradient_of_weight(half(0, 2, 64, 8, 8), half(1, 2, 64, 4, 4), how)
    _, matrix = window_of(products(value)[0])
    assert not matrix.is_depth_major
    check(value)


def test_the_gradient_of_an_input_at_stride_2_is_four_products_whose_results_are_kept_as_halves() -> None:
    how = slide(16, 16, stride=2)
    value = gradient_of_input(half(0, 8, 64, 8, 8), half(1, 64, 64, 3, 3), how).cast(BF16)
    bodies = products(value)
    assert [body.src[0].src[0].dtype for body in bodies] == [BF16] * 4
    assert sum(bool(window_or_matrix(body).axes) for body in bodies) == 3  # one tap alone is a plain matrix


def window_or_matrix(body: UOp) -> MatrixArg:
    (tile,) = [node for node in generate(body, TARGET).linear.src if node.op is ops.BLOCK_MMA]
    return max((tile.arg.a, tile.arg.b), key=lambda matrix: len(matrix.axes))


def test_what_the_copy_engine_is_told() -> None:
    how = slide(14, 15, stride=2)
    value = convolve(half(0, 8, 128, 14, 15), half(1, 64, 128, 3, 3), how).cast(BF16).permute(LAST)
    (body,) = products(value)
    program, matrix = window_of(body)
    lines, pixels = AxisArg(14, 15 * 128, 7, 2, 3, 1, 1), AxisArg(15, 128, 8, 2, 3, 1, 1)
    assert (matrix.axes, matrix.channels) == ((AxisArg(8, 14 * 15 * 128, 8), lines, pixels), 128)
    (told,) = [each for each in launch_of(program.linear, 256)["maps"] if "corners" in each]
    assert (told["sizes"], told["steps"], told["corners"]) == ([128, 15, 14, 8], [1, 2, 2, 1], [[-1, -1], [-1, -2]])


NO_WINDOWS = {
    "few channels": (slide(8, 8), 48),
    "far beside the image": (slide(8, 400, padding=130), 64),
    "a long step": (slide(40, 40, stride=9), 64),
}


@pytest.mark.parametrize("name", NO_WINDOWS)
def test_what_the_copy_engine_cannot_count_is_computed_on_the_way(name: str) -> None:
    how, channels = NO_WINDOWS[name]
    x, w = (param(i, *shape, dtype=BF16) for i, shape in enumerate(((4, *how.sizes, channels), (64, 3, 3, channels))))
    seen, weight = _operands(x.permute((0, 3, 1, 2)).cast(F32), w.permute((0, 3, 1, 2)).cast(F32), how)
    (body,) = products(summed(seen, weight, 2).cast(BF16).permute(LAST))
    assert not window_or_matrix(body).axes


def check(value: UOp) -> None:
    """The programs of contractions against their kernels, on small integers, whose sums are exact."""
    found = products(value)
    assert found
    for body in found:
        program, _ = window_of(body)
        generator = np.random.default_rng(0)
        arrays = {
            node: generator.integers(-3, 4, array.shape).astype(array.dtype)
            for node, array in arrays_of(body, generator).items()
        }
        memory = {node.arg.slot: array.reshape(-1).copy() for node, array in arrays.items()}
        run(program.linear, {node: memory[node.arg.slot] for node in program.linear.src if node.op is ops.PARAM})
        run(body, arrays)
        for node, expected in arrays.items():
            np.testing.assert_array_equal(memory[node.arg.slot].reshape(expected.shape), expected)
