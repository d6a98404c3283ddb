"""Reductions along packed numbers: ranges split at blocks, bits widened once, functions of four bits as tables."""

from __future__ import annotations

import numpy as np
import pytest
from schedule.build import param

from whit.codegen import generate
from whit.codegen.passes.look_up import look_up
from whit.codegen.passes.split_blocks import split_blocks, write_out_blocks
from whit.codegen.passes.widen_bits import widen_bits
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.args import RangeKind
from whit.ir.interpret import run
from whit.ir.uop import UOp, const, make
from whit.kernel.ranges import free_ranges
from whit.render import render
from whit.target import parse_target

RNG = np.random.default_rng(0)
OUT, X, BYTES = param(0, 3), param(1, 64), UOp.param(2, dtypes.uint8, (3 * 36,))
ROW, K = UOp.range(3, 0), UOp.range(64, 1000, RangeKind.REDUCE)
ARRAYS = [RNG.integers(-3, 4, 64).astype(np.float32), RNG.integers(0, 256, 108, np.uint8)]


def packed(k: UOp = K) -> UOp:
    """Two blocks a row: two bytes that are the scale, 16 bytes that hold two numbers each."""
    start = ROW * 36 + k // 32 * 18
    shift = (k // 16 % 2).cast(dtypes.int32).cast(dtypes.uint8) * const(dtypes.uint8, 4)
    bits = make(ops.SHR, (BYTES.index(start + k % 16 + 2), shift)) & const(dtypes.uint8, 15)
    scale = BYTES.index(start).cast(dtypes.float32)
    return (bits.cast(dtypes.float32) - 8.0) * scale * X.index(k)


BODY = UOp.group(OUT.store(packed().reduce(ops.ADD, ranges=(K,)), ROW))


def value(body: UOp) -> list[float]:
    result = np.zeros(3, np.float32)
    run(body, {OUT: result, X: ARRAYS[0], BYTES: ARRAYS[1]})
    return [float(x) for x in result]


def reduces(body: UOp) -> list[UOp]:
    return [node for node in body.topological() if node.op is ops.REDUCE]


def test_a_divided_range_is_split_where_it_is_divided() -> None:
    body = split_blocks(BODY)
    (reduce,) = reduces(body)
    assert [r.size for r in reduce.src[1:]] == [2, 2, 16]
    assert not any(node.op in (ops.FLOORDIV, ops.FLOORMOD) for node in body.topological())
    assert value(body) == value(BODY)


def test_the_scale_of_a_block_is_outside_of_the_loops_inside_it() -> None:
    body = split_blocks(BODY)
    (reduce,) = reduces(body)
    (scale,) = [n for n in body.topological() if n.op is ops.CAST and n.src[0].op is ops.INDEX]
    assert free_ranges(body)[scale] == {ROW, reduce.src[1]}


@pytest.mark.parametrize("divisors", [(3,), (4, 6), (64,)], ids=str)
def test_a_range_stays_whole_where_blocks_do_not_fit_into_each_other(divisors: tuple[int, ...]) -> None:
    position = sum((K // d * 2 for d in divisors), K * 0)
    body = UOp.group(OUT.store(X.index(position % 64).reduce(ops.ADD, ranges=(K,)), ROW))
    assert split_blocks(body) is body


def test_a_range_that_is_used_as_a_number_is_written_out() -> None:
    body = write_out_blocks(split_blocks(BODY))
    (reduce,) = reduces(body)
    assert [r.size for r in reduce.src[1:]] == [2, 16] and reduce.src[0].op is ops.ADD
    shifts = {node.src[1].arg for node in body.topological() if node.op is ops.SHR}
    assert shifts == {4}  # and the one by 0 is gone
    assert value(body) == value(BODY)


def test_a_range_that_is_part_of_a_number_is_written_out() -> None:
    k = split_blocks(BODY)
    (reduce,) = reduces(k)
    _, half, _ = reduce.src[1:]
    (cast,) = [node for node in k.topological() if node.op is ops.CAST and node.src[0] is half]
    moved = k.substitute({cast: (half * 2 + 1).cast(dtypes.int32)})
    (found,) = reduces(write_out_blocks(moved))
    assert half not in found.src and value(write_out_blocks(moved)) == value(moved)


def test_what_is_written_out_is_added_to_one_sum_of_each_row() -> None:
    program = generate(BODY, parse_target("CPU:LLVM:icelake-server"))
    sums = [node for node in program.linear.topological() if node.op is ops.BUFFER]
    assert len(sums) == 3
    assert sum(node.op is ops.FMA for node in program.linear.src) == 2 * 3


# ---- bits

LOADED = UOp.param(2, dtypes.uint8, (108,)).load(UOp.const(dtypes.int64, 0), 16)
HIGH = make(ops.SHR, (LOADED, const(dtypes.uint8, 4)))
LOW = LOADED & const(dtypes.uint8, 15)


def of(value: UOp) -> UOp:
    return UOp.group(param(0, 16).store(value, 0))


def test_bytes_are_widened_once_and_before_they_are_shifted() -> None:
    body = widen_bits(of(HIGH.cast(dtypes.float32) + LOW.cast(dtypes.float32)))
    wide = LOADED.cast(dtypes.int32)
    low, high = wide & const(dtypes.int32, 15), make(ops.SHR, (wide, const(dtypes.int32, 4)))
    assert body is of(high.cast(dtypes.float32) + low.cast(dtypes.float32))


def test_a_byte_that_is_shifted_left_loses_its_upper_bits() -> None:
    left = make(ops.SHL, (LOADED, const(dtypes.uint8, 4))).cast(dtypes.float32)
    (masked,) = [node for node in widen_bits(of(left)).topological() if node.op is ops.AND]
    assert masked.src[1].arg == 255


@pytest.mark.parametrize("amount", [8, 200])
def test_a_shift_past_the_width_of_a_byte_stays(amount: int) -> None:
    body = of(make(ops.SHR, (LOADED, const(dtypes.uint8, amount))).cast(dtypes.float32))
    assert widen_bits(body) is body


def test_a_half_is_spread_over_the_lanes_before_it_is_converted() -> None:
    half = UOp.param(3, dtypes.float16, (4,)).load(UOp.const(dtypes.int64, 0))
    body = widen_bits(of(LOADED.cast(dtypes.float32) * half.cast(dtypes.float32)))
    assert body is of(LOADED.cast(dtypes.float32) * UOp.stack(*[half] * 16).cast(dtypes.float32))


# ---- tables

WIDE = LOADED.cast(dtypes.int32)
BITS = WIDE & const(dtypes.int32, 15)
OTHER = make(ops.SHR, (WIDE, const(dtypes.int32, 4)))


def tables(body: UOp) -> list[UOp]:
    return [node for node in body.topological() if node.op is ops.INDEX and node.src[0].shape]


def test_a_function_of_four_bits_is_a_table() -> None:
    body = look_up(of(BITS.cast(dtypes.float32) - 8.0))
    (found,) = tables(body)
    assert found.src[1] is BITS
    assert found.src[0] is UOp.stack(*(const(dtypes.int32, i) for i in range(16))).cast(dtypes.float32) - 8.0


def test_numbers_of_a_block_are_part_of_a_table_that_two_vectors_use() -> None:
    scale = X.load(ROW)
    one, two = ((bits.cast(dtypes.float32) - 8.0) * scale for bits in (BITS, OTHER))
    first, second = tables(look_up(of(one + two)))
    assert first.src[0] is second.src[0] and first.src[0].op is ops.MUL
    (alone,) = tables(look_up(of(one)))
    assert alone.src[0].op is ops.SUB  # the scale would be multiplied into 16 numbers for 16


def test_five_bits_are_no_table() -> None:
    body = of((WIDE & const(dtypes.int32, 31)).cast(dtypes.float32) - 8.0)
    assert look_up(body) is body


@pytest.mark.parametrize("arch", ["x86-64-v3", "icelake-server", "aarch64"])
def test_tables_only_where_lanes_can_be_picked(arch: str) -> None:
    target = parse_target(f"CPU:LLVM:{arch}")
    program = generate(BODY, target)
    assert bool(tables(program.linear)) == (arch == "icelake-server")
    assert ("permvar" in render({program.name: program.linear}, target)) == (arch == "icelake-server")
    assert value(program.linear) == value(BODY)
