"""Blocks that stay, with a loop over their chunks: programs mean what their kernels mean."""

from collections.abc import Callable

import pytest
from schedule.build import layernorm, param, scheduled

from codegen.test_gpu import TARGET, check
from codegen.test_gpu_rows import away_from_sum
from codegen.test_kernel_programs import ints
from whit.codegen import generate
from whit.codegen.gpu import grid_stride as gpu_stride
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.args import RangeKind
from whit.ir.uop import UOp

pytestmark = pytest.mark.slow  # every thread is interpreted

KERNELS: dict[str, Callable[[], UOp]] = {
    "elements, some threads without": lambda: ints(0, 1300) * 2,
    "rows, one barrier in each step": lambda: away_from_sum(ints(0, 5, 300)),
    "columns": lambda: ints(0, 40, 96).reduce(ops.ADD, (0,)),
    "tiles of a transpose": lambda: ints(0, 20, 70).permute((1, 0)).stage(),
    "scans": lambda: ints(0, 3, 130).scan(ops.ADD, 1),
}


@pytest.mark.parametrize("name", KERNELS)
def test_chunks_in_strides_of_the_blocks_that_stay(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_stride, "MOST_BLOCKS", 2)
    (program,) = check(KERNELS[name]())
    assert program.total == 2


def test_more_blocks_than_can_be_started_are_a_loop() -> None:
    for value in (
        param(0, (1 << 40) + 7, dtype=dtypes.uint8) + 1,
        param(0, 1 << 34, 64, dtype=dtypes.uint8).reduce(ops.MAX, (1,)),
        param(0, 1 << 36, 1024).permute((1, 0)).stage(),
    ):
        (call,) = scheduled(value).src
        program = generate(call.src[0].src[0], TARGET)
        assert program.total == TARGET.cores * 2048 // program.threads


def test_what_all_chunks_share_is_read_in_front_of_their_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_stride, "MOST_BLOCKS", 2)
    (program,) = check(layernorm(param(0, 5, 140), param(1, 140), param(2, 140)), 1e-5)
    (loop,) = [node for node in program.linear.src if node.op is ops.RANGE and node.arg.kind is RangeKind.LOOP]
    before = program.linear.src[: program.linear.src.index(loop)]
    assert [node.src[0].arg.slot for node in before if node.op is ops.LOAD] == [2, 3, 1]  # of the first chunk, ahead
