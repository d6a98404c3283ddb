"""Programs for GPUs mean what their kernels mean: the interpreter runs blocks, threads, barriers and shared memory."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from schedule.build import layernorm, matmul, param, relu, scheduled, softmax, total

from codegen.test_kernel_programs import KERNELS, arrays_of, compare, ints
from whit.codegen import generate
from whit.codegen.gpu import threads as gpu
from whit.codegen.gpu.separate import separate
from whit.config import Context
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.args import RangeKind
from whit.ir.check.verify import verify
from whit.ir.graph import memory_of
from whit.ir.interpret import run
from whit.ir.op import KERNEL, PROGRAM
from whit.ir.uop import UOp
from whit.target import parse_target

pytestmark = pytest.mark.slow  # every thread is interpreted

TARGET = parse_target("CUDA:PTX:sm_90a")


def check(value: UOp, tolerance: float = 0.0) -> list[Any]:
    """Every kernel of the schedule of a value, against its programs, launched one after the other."""
    generator = np.random.default_rng(0)
    return [p for call in scheduled(value).src for p in check_kernel(call.src[0].src[0], generator, tolerance)]


def check_kernel(body: UOp, generator: np.random.Generator, tolerance: float = 0.0) -> list[Any]:
    """The programs of one kernel, after they were compared with it."""
    verify(body, KERNEL)
    arrays = arrays_of(body, generator)
    memory = {node.arg.slot: array.reshape(-1).copy() for node, array in arrays.items()}
    programs = []
    for part in separate(body):
        program = generate(part, TARGET)
        verify(program.linear, PROGRAM)
        run(program.linear, {node: memory[node.arg.slot] for node in program.linear.src if node.op is ops.PARAM})
        programs.append(program)
    compare(body, arrays, memory, tolerance)
    return programs


@pytest.mark.parametrize("size", (3, 100))
@pytest.mark.parametrize("name", KERNELS)
def test_programs_of_a_gpu_mean_what_kernels_mean(name: str, size: int) -> None:
    check(KERNELS[name](size))


def over_rows(values: UOp, rows: int) -> UOp:
    return values.reshape((1, *values.shape)).expand((rows, *values.shape))


MORE: dict[str, Callable[[], UOp]] = {
    "more than a block": lambda: ints(0, 700) * 2,
    "sum of one long row": lambda: total(ints(0, 1, 1000)),
    "sum of rows in vectors": lambda: total(ints(0, 1, 640)),
    "sum of everything": lambda: ints(0, 40, 30).reduce(ops.ADD, (0, 1)),
    "sum of 32 columns": lambda: ints(0, 70, 32).reduce(ops.ADD, (0,)),
    "largest of columns and their sum": lambda: ints(0, 40, 32) - over_rows(ints(0, 40, 32).reduce(ops.MAX, (0,)), 40),
    "any of booleans": lambda: (ints(0, 2, 100) < -8).reduce(ops.OR, (1,)),
    "largest of bytes": lambda: param(0, 2, 65, dtype=dtypes.int8).reduce(ops.MAX, (1,)),
    "row minus its sum, long": lambda: (
        ints(0, 2, 300) - ints(0, 2, 300).reduce(ops.ADD, (1,)).reshape((2, 1)).expand((2, 300))
    ),
}


@pytest.mark.parametrize("name", MORE)
def test_longer_kernels_of_a_gpu(name: str) -> None:
    check(MORE[name]())


@pytest.mark.parametrize("size", (5, 36))
def test_float_programs_of_a_gpu(size: int) -> None:
    x = param(0, 3, size)
    check(layernorm(x, param(1, size), param(2, size)), 1e-5)
    check(relu(matmul(x, param(1, size, 5))), 1e-5)
    check(softmax(x), 1e-5)


def test_threads_run_along_neighbours_and_vectors_of_16_bytes() -> None:
    (call,) = scheduled(param(0, 1 << 20) + param(1, 1 << 20)).src
    program = generate(call.src[0].src[0], TARGET)
    assert (program.total, program.threads) == (1024, 256)
    loads = [node for node in program.linear.src if node.op is ops.LOAD]
    assert [node.shape for node in loads] == [(4,), (4,)]


def test_neighbours_inside_of_parts_of_a_range_are_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "ENOUGH_THREADS", 1)
    x, y = ints(0, 4, 6, 8).permute((1, 0, 2)).reshape((6, 32)), ints(1, 6, 16).pad(((0, 0), (16, 0)))
    (program,) = check(x + y)
    loads = [node for node in program.linear.src if node.op is ops.LOAD]
    assert [node.shape for node in loads] == [(4,), (4,)]


def test_a_row_is_reduced_by_a_block() -> None:
    (call,) = scheduled(softmax(param(0, 20, 512))).src
    program = generate(call.src[0].src[0], TARGET)
    assert (program.total, program.threads) == (20, 128)
    assert sum(node.op is ops.BARRIER for node in program.linear.src) == 2


def test_many_columns_are_reduced_by_a_thread_each() -> None:
    (call,) = scheduled(param(0, 64, 1 << 16).reduce(ops.ADD, (0,))).src
    program = generate(call.src[0].src[0], TARGET)
    assert program.total * program.threads == 1 << 16
    assert not any(node.op is ops.BARRIER for node in program.linear.src)


def test_columns_are_reduced_by_a_block_for_32_or_fewer() -> None:
    for columns, blocks, barriers in ((8192, 256, 2), (64, 4, 2)):
        (call,) = scheduled(param(0, 1000, columns).reduce(ops.ADD, (0,))).src
        program = generate(call.src[0].src[0], TARGET)
        assert (program.total, program.threads) == (blocks, 1024)
        assert sum(node.op is ops.BARRIER for node in program.linear.src) == barriers


def test_a_contraction_is_a_tile_in_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "ENOUGH_THREADS", 1)
    for shape in ((8, 5, 12), (16, 20, 64)):
        rows, inner, columns = shape
        (program,) = check(matmul(ints(0, rows, inner), ints(1, inner, columns)))
        stores = [
            node for node in program.linear.src if node.op is ops.STORE and memory_of(node.src[0]).op is ops.PARAM
        ]
        assert [store.src[1].shape for store in stores] == [(4,)] * 8


def test_noopt_is_one_thread() -> None:
    (call,) = scheduled(ints(0, 10) + 1).src
    with Context(NOOPT=1):
        program = generate(call.src[0].src[0], TARGET)
    assert (program.total, program.threads) == (1, 1)


def test_nothing_for_a_gpu_runs_on_cores() -> None:
    (call,) = scheduled(ints(0, 100_000) + 1).src
    linear = generate(call.src[0].src[0], TARGET).linear
    kinds = [node.arg.kind for node in linear.src if node.op is ops.RANGE]
    assert kinds[:2] == [RangeKind.BLOCK, RangeKind.THREAD]


@pytest.mark.parametrize("columns", (4, 3))
def test_a_thread_has_four_rows_of_a_gather(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "ENOUGH_THREADS", 1)
    positions = param(1, 16, dtype=dtypes.uint8).cast(dtypes.int32)
    (program,) = check(ints(0, 256, columns).index(positions))
    assert sum(node.op is ops.STORE for node in program.linear.src) == gpu.GATHERED


def test_positions_in_a_view_that_conditions_make_sure_of_are_not_divided() -> None:
    rows = ints(0, 100).shrink(((8, 64),)).reshape((16, 4))
    positions = ints(1, 20)
    inside = ~(positions < 0) & (positions < 16)
    (program,) = check(rows.index(positions, gate=inside))
    numbers = [node.src[1] for node in program.linear.src if node.op is ops.FLOORMOD]
    assert all(number.arg != 16 for number in numbers)
