"""Transposes by tiles in shared memory: what they mean, on the interpreter, and where they are chosen."""

from collections.abc import Callable

import pytest
from schedule.build import param, scheduled

from codegen.test_gpu import TARGET, check
from codegen.test_kernel_programs import ints
from whit.codegen import generate
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.uop import UOp

pytestmark = pytest.mark.slow  # every thread is interpreted

TRANSPOSED: dict[str, Callable[[], UOp]] = {
    "whole tiles": lambda: ints(0, 32, 64).permute((1, 0)) * 2,
    "parts of tiles": lambda: ints(0, 33, 20).permute((1, 0)) * 2,
    "batched": lambda: ints(0, 2, 17, 33).permute((0, 2, 1)) + 1,
    "two loads": lambda: ints(0, 20, 33).permute((1, 0)) + ints(1, 20, 33).permute((1, 0)) * 3,
    "beside one that is not turned": lambda: ints(0, 20, 33).permute((1, 0)) * ints(1, 33, 20),
    "with something along each axis": lambda: (
        ints(0, 20, 33).permute((1, 0))
        + ints(1, 20).reshape((1, 20)).expand((33, 20))
        + ints(2, 33).reshape((33, 1)).expand((33, 20))
    ),
    "padded": lambda: ints(0, 20, 33).permute((1, 0)).pad(((1, 2), (3, 0))) + 1,
    "a part": lambda: ints(0, 40, 50).shrink(((3, 20), (5, 40))).permute((1, 0)) + 1,
    "bytes": lambda: param(0, 40, 17, dtype=dtypes.int8).permute((1, 0)).cast(dtypes.int32),
    "halves, two at a time": lambda: param(0, 40, 34, dtype=dtypes.int16).permute((1, 0)) + 1,
    "halves, two at a time one way": lambda: param(0, 35, 34, dtype=dtypes.int16).permute((1, 0)) + 1,
    "ends first": lambda: ints(0, 2, 18, 17).permute((2, 0, 1)) + 1,
}


@pytest.mark.parametrize("name", TRANSPOSED)
def test_what_transposes_mean(name: str) -> None:
    (program,) = check(TRANSPOSED[name]())
    assert "in shared memory" in program.explanation
    assert sum(node.op is ops.BARRIER for node in program.linear.src) == (2 if name == "two loads" else 1)


def test_bytes_are_ordered_as_others_are() -> None:
    """Not as packed weights, which are bytes as well, and are copied while others are loaded."""
    orders = []
    for dtype in (dtypes.int8, dtypes.uint8):
        (call,) = scheduled(param(0, 256, 256, dtype=dtype).permute((1, 0)) + param(1, 256, 256, dtype=dtype)).src
        orders.append([node.op for node in generate(call.src[0].src[0], TARGET).linear.src])
    assert orders[0] == orders[1]


def test_a_tile_has_sixteen_elements_of_each_thread() -> None:
    (call,) = scheduled(param(0, 4096, 4096).permute((1, 0)) * 2.0).src
    program = generate(call.src[0].src[0], TARGET)
    assert (program.total, program.threads) == (64 * 64, 256)
    assert [node.src[1].shape for node in program.linear.src if node.op is ops.STORE] == [(2,)] * 16


@pytest.mark.parametrize(
    "value", (ints(0, 40, 3).permute((1, 0)) * 2, ints(0, 40).flip((0,)) * 2), ids=("short", "flip")
)
def test_not_for_short_axes_and_flips(value: UOp) -> None:
    (program,) = check(value)
    assert not any(node.op is ops.BARRIER for node in program.linear.src)
