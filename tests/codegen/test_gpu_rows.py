"""Rows kept in registers: programs for GPUs mean what their kernels mean, and read every element once."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from schedule.build import layernorm, param, reduced, scheduled, softmax, total

from codegen import test_gpu
from codegen.test_gpu import TARGET, check
from codegen.test_kernel_programs import compare, ints, run_program
from whit.codegen import generate
from whit.codegen.gpu import reduce as gpu_reduce
from whit.codegen.gpu import rows as gpu_rows
from whit.codegen.gpu import threads as gpu
from whit.codegen.math.expand import EXPAND_MATH, expand_exp2_node
from whit.dtype import DType, dtypes
from whit.ir import ops
from whit.ir.graph import memory_of
from whit.ir.rewrite import rewrite
from whit.ir.uop import UOp

pytestmark = pytest.mark.slow  # every thread is interpreted

BY_POWERS = EXPAND_MATH.without(expand_exp2_node)  # what functions become, but for 2**x, which interpreters know


def away_from_sum(x: UOp) -> UOp:
    """x less its sum along rows."""
    rows, columns = x.shape
    return x - x.reduce(ops.ADD, (1,)).reshape((rows, 1)).expand((rows, columns))


ROWS: dict[str, Callable[[], UOp]] = {
    "of a warp, in vectors": lambda: away_from_sum(ints(0, 4, 256)),
    "of a warp, some threads without elements": lambda: away_from_sum(ints(0, 3, 36)),
    "of a warp, single elements and not all": lambda: away_from_sum(ints(0, 2, 67)),
    "of several warps": lambda: away_from_sum(ints(0, 2, 300)),
    "of 64 bits": lambda: away_from_sum(param(0, 2, 70, dtype=dtypes.int64)),
    "of bytes, whose sums wrap": lambda: away_from_sum(param(0, 2, 70, dtype=dtypes.uint8)),
    "of booleans": lambda: (ints(0, 3, 40) < -8).reduce(ops.OR, (1,)),
    "that are summed alone": lambda: total(ints(0, 3, 129)),
    "products": lambda: (ints(0, 3, 40) * ints(1, 3, 40)).reduce(ops.ADD, (1,)),
}


@pytest.mark.parametrize("name", ROWS)
def test_rows_mean_what_kernels_mean(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_rows, "ENOUGH_THREADS", 1)
    (program,) = check(ROWS[name]())
    assert "for each row" in program.explanation


@pytest.mark.parametrize("dtype", (dtypes.float32, dtypes.bfloat16, dtypes.float64))
def test_rows_of_floats_mean_what_kernels_mean(dtype: DType) -> None:
    x = param(0, 2, 140, dtype=dtype)
    tolerance = 4e-2 if dtype is dtypes.bfloat16 else 1e-5  # sums of bfloat16, in another order
    check(layernorm(x, param(1, 140, dtype=dtype), param(2, 140, dtype=dtype)), tolerance)
    check(softmax(x), tolerance)


def part_of_rows(dtype: DType, size: int) -> UOp:
    """Rows that begin at multiples of 64 elements, of which so many are used."""
    return param(0, 2, 640, dtype=dtype).shrink(((0, 2), (0, size)))


@pytest.mark.parametrize("size", (639, 530, 100))
def test_long_rows_are_vectors_and_what_is_left(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "find_rows", lambda *_: None)
    monkeypatch.setattr(gpu, "THREADS", 32)
    (program,) = check(away_from_sum(part_of_rows(dtypes.int32, size)))
    assert "one for each row" in program.explanation
    loads = [node for node in program.linear.src if node.op is ops.LOAD and memory_of(node.src[0]).op is ops.PARAM]
    assert {(4,)} <= {node.shape for node in loads} <= {(4,), (2,), ()}
    check(softmax(part_of_rows(dtypes.bfloat16, size)), 1e-2)


def test_few_columns_have_blocks_of_sixteen_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_reduce, "GROUP", 2)  # eight threads of a column combine what they have in two steps
    (program,) = check(ints(0, 40, 32).reduce(ops.ADD, (0,)))
    assert (program.total, program.threads) == (2, 128)


def test_many_columns_are_read_four_halves_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_reduce, "GROUP", 2)
    monkeypatch.setattr(test_gpu, "TARGET", replace(TARGET, cores=2))
    halves, middle = param(0, 40, 256, dtype=dtypes.int16), ints(1, 1, 256)
    away = halves.cast(dtypes.int32) + middle.expand((40, 256))  # what is the same for all rows may be wider
    (program,) = check(away.reduce(ops.ADD, (0,)))
    assert (program.total, program.threads) == (4, 128)
    assert {node.shape for node in program.linear.src if node.op is ops.LOAD and node.dtype is dtypes.int16} == {(4,)}


def loads_of(value: UOp) -> list[tuple[int, ...]]:
    """The shapes of all loads of a program from memory that has rows."""
    (call,) = scheduled(value).src
    linear = generate(call.src[0].src[0], TARGET).linear
    loads = [node for node in linear.src if node.op is ops.LOAD and memory_of(node.src[0]).op is ops.PARAM]
    return [node.shape for node in loads if node.src[1].op is not ops.CONST]


def test_softmax_reads_a_row_once() -> None:
    assert loads_of(softmax(param(0, 16384, 8192))) == [(4,)] * 8  # 256 threads
    assert loads_of(softmax(param(0, 16384, 8192, dtype=dtypes.bfloat16))) == [(8,)] * 4


def test_rows_of_a_warp_need_no_barrier_and_share_a_block() -> None:
    (call,) = scheduled(softmax(param(0, 16384, 768))).src
    program = generate(call.src[0].src[0], TARGET)
    assert program.threads == gpu_rows.THREADS and program.total == 16384 // (gpu_rows.THREADS // 32)
    assert not any(node.op is ops.BARRIER for node in program.linear.src)


def test_rows_that_registers_do_not_hold_or_are_too_much_text_are_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    for columns, most in ((1 << 16, gpu_rows.MOST_NODES), (8192, 10)):
        monkeypatch.setattr(gpu_rows, "MOST_NODES", most)
        (call,) = scheduled(softmax(param(0, 4096, columns))).src
        assert "one for each row" in generate(call.src[0].src[0], TARGET).explanation


@pytest.mark.parametrize("more", (2, 1))
def test_a_short_range_that_is_several_in_memory_is_stored_by_one_thread(
    monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    value = ints(0, 5, 3, 2).permute((0, 2, 1)).reshape((5, 6)).pad(((0, 0), (0, more))).stage()
    (program,) = check(value)
    assert "1 x 1 elements" in program.explanation  # too few threads otherwise
    monkeypatch.setattr(gpu, "ENOUGH_THREADS", 1)
    (program,) = check(value)
    assert f"1 x {6 + more} elements" in program.explanation
    loads = [node for node in program.linear.src if node.op is ops.LOAD]
    assert [node.src[1].shape for node in loads] == [(6 + more,)]


def test_softmax_of_a_row_has_fewer_instructions_and_the_same_bits() -> None:
    x = param(0, 6, 40)
    away = x.eq(math.inf).where(x.constant(0.0), x - reduced(x, ops.MAX, 1))
    power = away.alu(ops.EXP)
    rows = np.random.default_rng(0).normal(0, 60, (6, 40)).astype(np.float32)
    rows[1, 3], rows[2, 4:6], rows[3], rows[4, 7], rows[5, 1:] = np.nan, np.inf, -np.inf, -np.inf, -3e38
    conditions = []
    for value in (power, power / total(power).reshape((6, 1)).expand((6, 40))):
        (call,) = scheduled(value).src
        body = call.src[0].src[0]
        arrays = {node: rows.copy() for node in body.topological() if node.op is ops.PARAM}
        program = generate(body, TARGET)
        with np.errstate(all="ignore"):
            by_powers = rewrite(body, BY_POWERS)
            compare(by_powers, arrays, run_program(body, program.linear, arrays), 0.0 if value is power else 1e-6)
        conditions.append(sum(node.op is ops.WHERE for node in program.linear.src))
    assert conditions == [2, 3]  # infinity; whether a thread has elements, for each reduction
