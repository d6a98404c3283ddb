"""Scans shared between the threads of a block: what they mean, on the interpreter, and how they are launched."""

from dataclasses import replace

import numpy as np
import pytest
from schedule.build import param, scheduled

from codegen import test_gpu
from codegen.test_gpu import TARGET, check
from codegen.test_kernel_programs import ints
from whit.codegen import generate
from whit.codegen.gpu import part_scan
from whit.codegen.gpu import scan as gpu_scan
from whit.codegen.gpu import threads as gpu
from whit.codegen.gpu.separate import separate
from whit.dtype import DType, dtypes
from whit.ir import ops
from whit.ir.args import RangeKind
from whit.ir.interpret import run
from whit.ir.op import Op
from whit.ir.uop import UOp, make
from whit.schedule import schedule

pytestmark = pytest.mark.slow  # every thread is interpreted


@pytest.mark.parametrize("size", (64, 100, 515))
def test_rows(size: int) -> None:
    (program,) = check(ints(0, 2, size).scan(ops.ADD, 1))
    assert "share a scan" in program.explanation
    check(ints(0, 2, size).scan(ops.MAX, 1, reverse=True) * 2)


@pytest.mark.parametrize("size", (64, 128, 333, 512))
def test_rows_of_several_pieces(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some with loops, some with copies, some that end in the middle of one."""
    monkeypatch.setattr(gpu_scan, "THREADS", 32)
    monkeypatch.setattr(gpu_scan, "MOST_COPIES", 2)
    (program,) = check(ints(0, 3, size).scan(ops.ADD, 1))
    assert program.threads == 32
    assert any(node.op is ops.RANGE and node.arg.kind is RangeKind.LOOP for node in program.linear.src) == (size > 256)


def test_copies_of_a_thread_in_one_piece() -> None:
    (program,) = check(ints(0, 1, 600).scan(ops.MAX, 1))
    assert "64 threads that share a scan, 3 x 4 elements in each" in program.explanation


@pytest.mark.parametrize("shape", ((130, 40), (260, 16), (64, 3, 16)))
def test_columns(shape: tuple[int, ...]) -> None:
    """Threads that go on write shared memory again: too early for the others if it had no halves."""
    (program,) = check(ints(0, *shape).scan(ops.ADD, 0))
    assert program.threads == 256


@pytest.mark.parametrize("dtype", (dtypes.int32, dtypes.int16))
def test_a_thread_has_two_columns_and_reads_ahead(dtype: DType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_gpu, "TARGET", replace(TARGET, cores=1))
    monkeypatch.setattr(gpu, "COLUMNS", 8)
    (program,) = check(param(0, 270, 32, dtype=dtype).scan(ops.ADD, 0))
    lanes = 64 // dtype.itemsize
    assert f"2 blocks of 128 threads that share a scan, 1 x {lanes} elements" in program.explanation
    linear = program.linear.src
    (loop,) = [node for node in linear if node.op is ops.RANGE and node.arg.kind is RangeKind.LOOP]
    loads = [linear.index(node) for node in linear if node.op is ops.LOAD and node.src[0].op is ops.PARAM]
    barrier = next(i for i, node in enumerate(linear) if node.op is ops.BARRIER)
    assert [loads[0] < linear.index(loop), linear.index(loop) < loads[1] < barrier, len(loads)] == [True, True, 2]


def test_columns_that_are_few_are_scanned_by_a_block_each() -> None:
    (program,) = check(ints(0, 70, 3).scan(ops.ADD, 0))
    assert (program.total, program.threads) == (3, 32)


@pytest.mark.parametrize("size", (65, 127, 199))
def test_rows_that_are_no_vectors_are_turned_in_shared_memory(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"LEAST_TRANSPOSED_ELEMENTS": 64, "THREADS": 64, "TRANSPOSED_BYTES": 16}
    for name, value in small.items():
        monkeypatch.setattr(gpu_scan, name, value)
    (program,) = check(ints(0, 2, size).scan(ops.ADD, 1))
    assert program.threads == (64 if size > 128 else 32)
    assert sum(node.op is ops.BARRIER for node in program.linear.src) == program.threads // 32 + 1
    check(ints(0, 1, size).scan(ops.MAX, 1, reverse=True) * 2)
    check(param(0, 1, size, dtype=dtypes.int8).scan(ops.ADD, 1))


DTYPES = (dtypes.int8, dtypes.uint64, dtypes.float16, dtypes.bfloat16, dtypes.float64)
CASES = [(op, dtype) for op in (ops.ADD, ops.MUL, ops.MAX, ops.MIN) for dtype in DTYPES]
CASES.append((ops.MAX, dtypes.fp8e4m3))  # whose sums in another order are other sums
CASES.append((ops.LOGADDEXP, dtypes.float32))  # which threads do not combine by themselves


@pytest.mark.parametrize(("op", "dtype"), CASES, ids=lambda x: x.name)
def test_every_op_and_dtype(op: Op, dtype: DType) -> None:
    is_exact = not dtype.is_float or op in (ops.MAX, ops.MIN)
    check(param(0, 80, dtype=dtype).scan(op, 0), 0.0 if is_exact else 0.1)


@pytest.mark.parametrize("op", (ops.AND, ops.OR), ids=lambda op: op.name)
def test_booleans(op: Op) -> None:
    check((ints(0, 2, 80) < 8).scan(op, 1))


def test_a_sum_of_minus_zeros_is_zero() -> None:
    zeros = make(ops.WHERE, (ints(0, 64) < 100, UOp.const(dtypes.float32, -0.0), param(1, 64)))
    (program,) = check((1.0 / zeros.scan(ops.ADD, 0)).maximum(0.0))
    assert program.threads == 32


def test_a_scan_of_a_scan_and_of_numbers() -> None:
    check(ints(0, 2, 80).scan(ops.ADD, 1).scan(ops.MAX, 1))
    check((ints(0, 2, 80) * 0 + 1).scan(ops.ADD, 1))


def test_a_row_is_scanned_by_a_block_with_vectors() -> None:
    (call,) = scheduled(param(0, 4096, 4096).scan(ops.ADD, 1)).src
    program = generate(call.src[0].src[0], TARGET)
    assert (program.total, program.threads) == (4096, 256)
    order = [node for node in program.linear.src if node.op is ops.BARRIER or is_read_of(node, 1)]
    assert [node.op for node in order] == [ops.LOAD] * 4 + [ops.BARRIER]  # all loads are on their way
    assert [node.shape for node in order[:-1]] == [(4,)] * 4


def test_short_rows_are_scanned_by_a_thread_each() -> None:
    (program,) = check(ints(0, 40, 8).scan(ops.ADD, 1))
    assert not any(node.op is ops.BARRIER for node in program.linear.src)


@pytest.mark.parametrize("size", (64, 70, 65))
@pytest.mark.parametrize("reverse", (False, True))
def test_long_rows_are_scanned_in_pieces(size: int, reverse: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_scan, "PIECE_ELEMENTS", 8)
    monkeypatch.setattr(part_scan, "LEAST_PIECES", 8)
    programs = check(ints(0, 2, size).scan(ops.ADD, 1, reverse=reverse))
    assert len(programs) == (3 if size == 64 else 4)


def test_a_long_row_of_which_something_is_computed_is_scanned_by_one_block() -> None:
    (call,) = scheduled(param(0, 1 << 20).scan(ops.ADD, 0) * 2.0).src
    assert len(separate(call.src[0].src[0])) == 1
    (call,) = scheduled(param(0, 1 << 20).scan(ops.ADD, 0)).src
    programs = [generate(part, TARGET) for part in separate(call.src[0].src[0])]
    assert [(program.total, program.threads) for program in programs] == [(128, 1024), (1, 32), (128, 256)]
    order = [node.op for node in programs[2].linear.src if node.op is ops.BARRIER or is_read_of(node, 0)]
    assert order == [ops.LOAD, ops.BARRIER]  # a piece begins with what it writes over


def is_read_of(node: UOp, slot: int) -> bool:
    return node.op is ops.LOAD and node.src[0].op is ops.PARAM and node.src[0].arg.slot == slot


def test_rows_of_symbolic_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_scan, "THREADS", 32)
    monkeypatch.setattr(gpu_scan, "MOST_COPIES", 2)
    n = UOp.variable("n", 1, 500)
    x, out = (UOp.param(slot, dtypes.int32, (2, n)) for slot in (1, 0))
    (call,) = schedule(UOp.group(out.store(x.scan(ops.ADD, 1)))).src
    program = generate(call.src[0].src[0], TARGET)
    for size in (5, 333):
        memory = {0: np.zeros(1000, np.int32), 1: np.arange(1000, dtype=np.int32)}
        params = {node: memory[node.arg.slot] for node in program.linear.src if node.op is ops.PARAM}
        run(program.linear, {**params, **dict.fromkeys(program.variables, size)})
        rows = memory[1][: 2 * size].reshape(2, size)
        np.testing.assert_array_equal(memory[0][: 2 * size].reshape(2, size), np.cumsum(rows, 1))
        assert not memory[0][2 * size :].any()


def test_what_is_scanned_is_computed_once() -> None:
    """GPUs have an instruction for powers of two: a scan of them does not write them out once more."""
    r = UOp.range(4, 0)
    power = make(ops.EXP2, (UOp.param(1, dtypes.float32, (4,)).index(r),))
    body = UOp.group(UOp.param(0, dtypes.float32, (4,)).store(power.scan(ops.ADD, range=r), r))
    linear = generate(body, TARGET).linear
    assert [node.op for node in linear.src].count(ops.EXP2) == 1
    assert len(set(linear.src)) == len(linear.src)
