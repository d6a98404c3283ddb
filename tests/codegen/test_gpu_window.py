"""Convolutions and their gradients read windows of images as operands of matrix units. No GPU is needed."""

from typing import Any

import numpy as np
import pytest
from schedule.build import param, scheduled
from test_kernel_programs import arrays_of

from whit.codegen import generate, gpu_atoms, gpu_matmul, separate
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.args import MatrixArg
from whit.ir.interpret import run
from whit.ir.uop import UOp
from whit.target import parse_target
from whit.tensor.convolve import Sliding, convolve, gradient_of_weight

TARGET = parse_target("CUDA:PTX:sm_90a")
BF16, F32 = dtypes.bfloat16, dtypes.float32
LAST = (0, 2, 3, 1)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles that are interpreted fast."""
    monkeypatch.setattr(gpu_atoms, "WGMMA", (gpu_atoms.wgmma(1, 64, 32, 2),))
    monkeypatch.setattr(gpu_matmul, "LEAST", 1)


def slide(height: int, width: int, kernel: int = 3, stride: int = 1, padding: int = 1, dilation: int = 1) -> Sliding:
    return Sliding(
        (stride,) * 2, (dilation,) * 2, 1, (height, width), (kernel,) * 2, ((padding,) * 2,) * 2, 0, last=True
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
    "stride 2": slide(5, 6, stride=2),
    "no padding": slide(5, 4, padding=0),
    "dilated": slide(5, 4, dilation=2, padding=2),
    "1 x 1, stride 2": slide(4, 3, 1, 2, 0),
    "far": slide(2, 3, padding=2, stride=3),
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
@pytest.mark.parametrize("stride", [1, 2])
def test_pixels_along_the_depth(stride: int) -> None:
    how = slide(8, 8, stride=stride)
    images = param(0, 4, 64, 8, 8, dtype=BF16).cast(F32), half(1, 4, 64, *how.outputs)
    (body, *_) = products(gradient_of_weight(*images, how))
    _, matrix = window_of(body)
    assert not matrix.is_depth_major
    check(gradient_of_weight(*images, how))


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
