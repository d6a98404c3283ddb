"""What kernels cost, and the seconds that machines take for it."""

import pytest
from schedule.build import matmul, param, scheduled, total

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.uop import UOp
from whit.kernel.cost import Cost, additions
from whit.kernel.estimate import estimate
from whit.kernel.rates import GPUS, Rates, gpu_rates, rates_of
from whit.target import _GPUS, parse_target

RATES = Rates(bytes_per_second=10.0, flops_per_second=100.0, launch_seconds=0.5)


def kernel(value: UOp) -> UOp:
    (call,) = scheduled(value).src
    return call.src[0].src[0]


def test_bytes_move_while_operations_go_on_and_launches_come_on_top() -> None:
    assert Cost(100, 5, 15).seconds(RATES) == 2.0 + 0.5
    assert Cost(400, 5, 15, launches=3).seconds(RATES) == 4.0 + 1.5
    assert [Cost(100, 5, 15).limit(RATES), Cost(400, 5, 15).limit(RATES)] == ["memory", "compute"]


@pytest.mark.parametrize(
    ("value", "cost"),
    [
        (param(0, 64, 32) + param(1, 64, 32), Cost(64 * 32, 2 * 4 * 64 * 32, 4 * 64 * 32)),
        (total(param(0, 64, 32)), Cost(64 * 32, 4 * 64 * 32, 4 * 64)),
        (matmul(param(0, 16, 8), param(1, 8, 4)), Cost(2 * 16 * 8 * 4, 4 * (16 * 8 + 8 * 4), 4 * 16 * 4)),
        (param(0, 64, dtype=dtypes.float16).cast(dtypes.float32), Cost(0, 128, 256)),
    ],
    ids=["sum", "reduction", "product", "cast"],
)
def test_a_kernel_reads_each_element_once_and_computes_it_as_often_as_it_is_used(value: UOp, cost: Cost) -> None:
    assert estimate(kernel(value)) == cost


def test_what_a_store_combines_with_is_read() -> None:
    r, x, values = UOp.range(4, 0), param(0, 8), param(2, 4)
    store = x.store(values.index(r), r, combine=ops.ADD)
    assert estimate(UOp.group(store)) == Cost(0, 2 * 4 * 4, 4 * 4)


def test_every_gpu_has_rates_by_its_data_sheet_and_cpus_those_that_were_measured() -> None:
    assert set(_GPUS) <= set(GPUS)
    hopper = rates_of(parse_target("CUDA:PTX:sm_90a"), "fp8e4m3 by tensor cores")
    assert (hopper.bytes_per_second, hopper.flops_per_second) == (4.8e12, 8192 * 132 * 1.98e9)
    assert rates_of(parse_target("CPU:LLVM:haswell")) == rates_of(parse_target("CPU:C:znver4"))


def test_an_architecture_between_two_has_the_rates_of_the_older_one() -> None:
    older, newer = (gpu_rates(compute, 10, 1e9, 1e12, "float32") for compute in ((8, 6), (8, 7)))
    assert older == newer != gpu_rates((8, 0), 10, 1e9, 1e12, "float32")


def test_functions_cost_what_they_become_and_their_instructions() -> None:
    """EXP is twelve operations, of which one is EXP2, as long as eight additions."""
    prices = {ops.EXP: 19, ops.LOG: 12, ops.SIGMOID: 24, ops.TANH: 40, ops.ERF: 30, ops.EXP2: 8, ops.ADD: 1}
    assert {op: additions(op) for op in prices} == prices
