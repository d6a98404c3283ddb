"""The order in which kernels walk through memory that they read once."""

import numpy as np
import pytest
from schedule.build import param, scheduled

from whit import Tensor
from whit.codegen.cpu.loops import choose_strategy
from whit.codegen.passes.merge_ranges import merge_ranges
from whit.codegen.pipeline import PASSES
from whit.codegen.strategy.record import Job
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.uop import UOp
from whit.kernel.ranges import free_ranges, stride
from whit.target import parse_target

TARGET = parse_target("CPU:LLVM:skylake-avx512")


def strides_of_load(value: UOp) -> list[int | None]:
    """Of the one load of a kernel, along its ranges, outer first."""
    (called,) = scheduled(value).src
    flatten = next(step for step in PASSES if step.name == "flatten")
    body = merge_ranges(flatten.run(called.src[0].src[0], Job(TARGET)))
    free = free_ranges(body)
    (load,) = [node for node in topological((body,)) if node.op is ops.INDEX]
    return [stride(load.src[1], r, free) for r in choose_strategy(body, TARGET).order]


@pytest.mark.parametrize(
    ("shape", "order", "wanted"),
    [
        ((64, 48), (1, 0), [48, 1]),
        ((8, 32, 12, 64), (0, 2, 1, 3), [24576, 768, 64, 1]),
        ((24, 32, 48), (2, 1, 0), [1536, 48, 1]),
        ((4, 32, 48), (0, 2, 1), [1536, 48, 1]),
    ],
)
def test_what_is_permuted_is_read_in_order(shape: tuple[int, ...], order: tuple[int, ...], wanted: list[int]) -> None:
    assert strides_of_load(param(0, *shape).permute(order)) == wanted


def test_what_is_repeated_keeps_its_order() -> None:
    assert strides_of_load(param(0, 1, 64).expand((32, 64))) == [0, 1]


@pytest.mark.parametrize("size", [4096, 4096 + 17, 9999])
def test_long_sums_of_parts_far_apart_take_every_element_once(size: int) -> None:
    x = np.arange(2 * size, dtype=np.int32).reshape(2, size) % 1000
    assert Tensor(x).sum(1).tolist() == x.sum(1).tolist()
