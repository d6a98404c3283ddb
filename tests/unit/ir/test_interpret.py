"""The interpreter on each stage: tensor graphs, kernels over ranges, linear programs, schedules."""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from whit.dtype import DType, dtypes, to_dtype
from whit.errors import ArgumentError, DTypeError, InternalError, MissingError, OutOfRangeError, ShapeError
from whit.ir import ops
from whit.ir.args import Memory, MmaArg, RangeKind, StageArg
from whit.ir.interpret import evaluate, numpy_dtype, run
from whit.ir.op import Op
from whit.ir.uop import UOp, const, make

F32, I32, INDEX = dtypes.float32, dtypes.int32, dtypes.weakint


def _random(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _index(value: int) -> UOp:
    return const(INDEX, value)


# ---- values


def test_weakint_has_no_bounds() -> None:
    x = UOp.variable("x", 0, 9)
    result = evaluate(x * 10**20 * 10**20 + 1, {x: 7})
    assert result.dtype == object
    assert result.item() == 7 * 10**40 + 1


def test_numpy_dtypes_have_the_sizes_of_the_dtypes() -> None:
    for dtype in dtypes.scalars:
        assert numpy_dtype(dtype).itemsize == dtype.itemsize
    assert numpy_dtype(dtypes.bfloat16) == ml_dtypes.bfloat16
    assert numpy_dtype(INDEX).kind == "O"
    with pytest.raises(DTypeError):
        numpy_dtype(dtypes.void)


def test_constants_keep_their_bits() -> None:
    payload = np.array(0x7FF8000000000123, np.uint64).view(np.float64).item()
    assert evaluate(const(dtypes.float64, payload)).view(np.uint64) == 0x7FF8000000000123
    assert math.copysign(1, evaluate(const(F32, -0.0)).item()) == -1


def test_a_choice_keeps_the_bits_of_what_it_chooses() -> None:
    x = UOp.buffer(0, dtypes.fp8e5m2, (3,))
    bits = np.array([0x7C, 0xFC, 0x01], np.uint8)  # inf, -inf, the smallest subnormal
    given = {x: bits.view(ml_dtypes.float8_e5m2)}
    chosen = const(dtypes.bool, True).where(x, x)
    assert (evaluate(chosen, given).view(np.uint8) == bits).all()
    assert (evaluate(x + x, given).view(np.uint8) == [0x7C, 0xFC, 0x02]).all()


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16, F32, dtypes.float64], ids=lambda d: d.name)
def test_sums_go_from_the_first_element_to_the_last(dtype: DType) -> None:
    x = UOp.buffer(0, dtype, (3, 50))
    values = (_random(3, 50) * 100).astype(numpy_dtype(dtype))
    running = [0 * values[:, 0]]
    for i in range(50):
        running.append(running[-1] + values[:, i])  # NumPy and ml_dtypes round each sum to the dtype
    assert (evaluate(x.reduce(ops.ADD, (1,)), {x: values}) == running[-1]).all()
    assert (evaluate(x.scan(ops.ADD, 1), {x: values}) == np.stack(running[1:], 1)).all()


@pytest.mark.parametrize(
    "op, expected", [(ops.ADD, 0), (ops.MUL, 1), (ops.MAX, -(2**31)), (ops.MIN, 2**31 - 1), (ops.AND, -1), (ops.OR, 0)]
)
def test_a_reduction_of_nothing_is_the_identity(op: Op, expected: int) -> None:
    x = UOp.buffer(0, I32, (2, 0))
    assert evaluate(x.reduce(op, (1,)), {x: np.zeros((2, 0), np.int32)}).tolist() == [expected] * 2


def test_the_largest_of_no_unbounded_integers_is_an_error() -> None:
    i = UOp.range(0, 0)
    assert evaluate(UOp.range(5, 0).reduce(ops.MAX, ranges=(UOp.range(5, 0),))) == 4
    with pytest.raises(OutOfRangeError, match="max of no weakint elements"):
        evaluate(i.reduce(ops.MAX, ranges=(i,)))


def test_integer_reductions_wrap() -> None:
    x = UOp.buffer(0, dtypes.int8, (3,))
    assert evaluate(x.reduce(ops.ADD, (0,)), {x: np.array([100, 100, 100], np.int8)}) == 300 - 256


def test_several_axes_are_reduced_in_row_major_order() -> None:
    x = UOp.buffer(0, F32, (2, 3, 4))
    values = _random(2, 3, 4) * 1000
    total = np.zeros(3, np.float32)
    for i in range(2):
        for j in range(4):
            total = total + values[i, :, j]
    assert (evaluate(x.reduce(ops.ADD, (0, 2)), {x: values}) == total).all()


def test_mma_adds_exact_products_in_the_dtype_of_the_sum() -> None:
    a, b = UOp.buffer(0, dtypes.float16, (2, 3)), UOp.buffer(1, dtypes.float16, (3, 2))
    c = UOp.buffer(2, F32, (2, 2))
    left, right, start = _random(2, 3).astype(np.float16), _random(3, 2).astype(np.float16), _random(2, 2)
    node = make(ops.MMA, (a, b, c), MmaArg(2, 2, 3))
    expected = start
    for k in range(3):
        product = left[:, k, None].astype(np.float64) * right[None, k].astype(np.float64)
        expected = (expected.astype(np.float64) + product).astype(np.float32)
    assert (evaluate(node, {a: left, b: right, c: start}) == expected).all()


def test_mma_rounds_once_where_products_are_longer_than_sums() -> None:
    a, b, c = (UOp.buffer(i, F32, (1, 1)) for i in range(3))
    factor, little = np.full((1, 1), 1 + 2.0**-12, np.float32), np.full((1, 1), 2.0**-60, np.float32)
    found = evaluate(make(ops.MMA, (a, b, c), MmaArg(1, 1, 1)), {a: factor, b: factor, c: little})
    assert found == np.float32(1 + 2.0**-11 + 2.0**-23)  # the product alone is a tie, and would go down


def test_quotient_and_remainder_belong_together_for_all_integers() -> None:
    pairs = np.arange(1 << 16, dtype=np.uint16).view(np.int8).reshape(-1, 2)
    x, y = UOp.buffer(0, dtypes.int8, (1 << 16,)), UOp.buffer(1, dtypes.int8, (1 << 16,))
    given = {x: pairs[:, 0], y: pairs[:, 1]}
    assert evaluate(((x // y) * y + x % y).eq(x), given).all()
    assert evaluate((x.cdiv(y) * y + x.cmod(y)).eq(x), given).all()


def test_weak_floats_are_doubles() -> None:
    x = const(dtypes.weakfloat, 0.1)
    assert evaluate(x + x * x) == 0.1 + 0.1 * 0.1


# ---- movement, gather, symbolic sizes


def test_movement_with_symbolic_sizes() -> None:
    n = UOp.variable("n", 1, 8)
    x = UOp.buffer(0, I32, (10,))
    part = x.shrink(((2, n),)).pad(((1, n),)).flip((0,))
    result = evaluate(part, {x: np.arange(10, dtype=np.int32), n: 3})
    assert result.tolist() == [0, 0, 0, 4, 3, 2, 0]


def test_bound_variables_need_no_value() -> None:
    n = UOp.variable("n", 1, 8)
    assert evaluate(n.bind(5) + 1).item() == 6


def test_variables_stay_between_their_bounds() -> None:
    n = UOp.variable("n", 1, 8)
    with pytest.raises(OutOfRangeError, match=r"n = 9 is outside \[1, 8\]"):
        evaluate(n + 1, {n: 9})


def test_index_gathers_rows() -> None:
    x, rows = UOp.buffer(0, F32, (5, 3)), UOp.buffer(1, I32, (2, 2))
    table, wanted = _random(5, 3), np.array([[4, 0], [2, 2]], np.int32)
    assert (evaluate(x.index(rows), {x: table, rows: wanted}) == table[wanted]).all()


def test_index_never_reads_outside() -> None:
    x, rows = UOp.buffer(0, F32, (5,)), UOp.buffer(1, I32, (2,))
    for bad in (-1, 5):
        with pytest.raises(OutOfRangeError, match=f"index: position {bad} is outside axis 0 of size 5"):
            evaluate(x.index(rows), {x: _random(5), rows: np.array([0, bad], np.int32)})


def test_a_false_gate_gives_zero_and_reads_nothing() -> None:
    x, rows = UOp.buffer(0, F32, (5,)), UOp.buffer(1, I32, (3,))
    values = _random(5)
    node = x.index(rows, gate=rows < 5)
    assert evaluate(node, {x: values, rows: np.array([4, 5, 99], np.int32)}).tolist() == [values[4], 0, 0]
    empty = UOp.buffer(2, F32, (0,))
    nothing = empty.index(rows, gate=rows < 0)
    assert evaluate(nothing, {empty: values[:0], rows: np.array([0, 1, 2], np.int32)}).tolist() == [0, 0, 0]


# ---- effects


def test_a_plain_read_sees_the_content_before_the_effects() -> None:
    x = UOp.buffer(0, I32, (3,))
    write = x.store(x + 1)
    before, after = evaluate(UOp.group(x * 1, x.after(write) * 1), {x: np.array([1, 2, 3], np.int32)})
    assert before.tolist() == [1, 2, 3]
    assert after.tolist() == [2, 3, 4]


def test_evaluate_changes_no_array_and_run_does() -> None:
    x = UOp.buffer(0, I32, (3,))
    given = np.array([1, 2, 3], np.int32)
    evaluate(x.after(x.store(x + 1)), {x: given})
    assert given.tolist() == [1, 2, 3]
    run(x.store(x + 1), {x: given})
    assert given.tolist() == [2, 3, 4]


def test_effects_are_ordered_by_edges() -> None:
    x = UOp.buffer(0, I32, (2,))
    once = x.after(x.store(x * 10))
    twice = once.after(once.store(once + 1))
    given = np.array([1, 2], np.int32)
    run(UOp.group(twice.store(twice * 2)), {x: given})
    assert given.tolist() == [22, 42]


def test_independent_effects_on_parts_both_happen() -> None:
    x = UOp.buffer(0, I32, (4,))
    left, right = x.shrink(((0, 2),)), x.shrink(((2, 2),))
    both = x.after(left.store(const(I32, 7)), right.store(const(I32, 8)))
    assert evaluate(both, {x: np.zeros(4, np.int32)}).tolist() == [7, 7, 8, 8]


def test_stores_go_through_views() -> None:
    x = UOp.buffer(0, I32, (2, 3))
    view = x.permute((1, 0)).flip((0,)).shrink(((0, 2), (1, 1)))  # columns 2 and 1 of row 1
    given = np.zeros((2, 3), np.int32)
    value = UOp.stack(const(I32, 5), const(I32, 6)).reshape((2, 1))
    run(view.store(value), {x: given})
    assert given.tolist() == [[0, 0, 0], [0, 6, 5]]


def test_stores_through_a_bitcast_write_the_bits() -> None:
    x = UOp.buffer(0, F32, (2,))
    given = np.zeros(2, np.float32)
    run(x.bitcast(I32).store(const(I32, 0x3F800000)), {x: given})
    assert given.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    "combine, expected",
    [(ops.ADD, [15, 18, 10, 12]), (ops.MAX, [10] * 4), (ops.MIN, [5, 1, 10, 2]), (None, [5, 4, 10, 2])],
)
def test_equal_positions_combine_or_the_last_wins(combine: Op | None, expected: list[int]) -> None:
    x, where, what = UOp.buffer(0, I32, (4,)), UOp.buffer(1, I32, (5,)), UOp.buffer(2, I32, (5,))
    places, values = np.array([1, 3, 1, 1, 0], np.int32), np.array([1, 2, 3, 4, 5], np.int32)
    given = np.full(4, 10, np.int32)
    run(x.store(what, where, combine=combine), {x: given, where: places, what: values})
    assert given.tolist() == expected


def test_stores_go_through_gathers_and_not_into_padding() -> None:
    x = UOp.buffer(0, I32, (3,))
    given = np.zeros(3, np.int32)
    run(x.index(_index(1)).store(const(I32, 7)), {x: given})
    assert given.tolist() == [0, 7, 0]
    run(x.pad(((1, 1),)).store(UOp.stack(*(const(I32, i) for i in range(5)))), {x: given})
    assert given.tolist() == [1, 2, 3]


def test_a_gather_after_an_effect_reads_after_it() -> None:
    x = UOp.buffer(0, I32, (3,))
    read = x.index(_index(1)).after(x.store(const(I32, 7)))
    assert evaluate(read, {x: np.zeros(3, np.int32)}) == 7


def test_a_gated_store_writes_nothing_where_the_gate_is_false() -> None:
    x, where = UOp.buffer(0, I32, (3,)), UOp.buffer(1, I32, (3,))
    given = np.zeros(3, np.int32)
    store = x.store(const(I32, 1), where, gate=where < 3)
    run(store, {x: given, where: np.array([0, 3, 99], np.int32)})
    assert given.tolist() == [1, 0, 0]
    with pytest.raises(OutOfRangeError, match="store: position 3"):
        run(x.store(const(I32, 1), where), {x: given, where: np.array([0, 3, 99], np.int32)})


def test_a_buffer_that_is_written_need_not_be_given() -> None:
    x = UOp.buffer(0, I32, (3,))
    contents = run(x.shrink(((0, 1),)).store(const(I32, 1)))
    assert contents[x].view(np.uint32).tolist() == [1, 0xA5A5A5A5, 0xA5A5A5A5]


def test_run_writes_through_a_strided_array() -> None:
    x = UOp.buffer(0, I32, (3,))
    memory = np.zeros(6, np.int32)
    run(x.store(const(I32, 4)), {x: memory[::2]})
    assert memory.tolist() == [4, 0, 4, 0, 4, 0]


# ---- kernels


def test_ranges_are_the_first_axes() -> None:
    i, j = UOp.range(3, 0), UOp.range(2, 1)
    assert evaluate(j * 10 + i).tolist() == [[0, 10], [1, 11], [2, 12]]


def test_reductions_over_ranges_bind_them() -> None:
    i, k = UOp.range(3, 0), UOp.range(4, 1, RangeKind.REDUCE)
    assert evaluate((i * k).reduce(ops.ADD, ranges=(k,))).tolist() == [0, 6, 12]
    assert evaluate(i.reduce(ops.ADD, ranges=(k,))).tolist() == [0, 4, 8]
    assert evaluate((i * k).reduce(ops.ADD, ranges=(k, i))).item() == 18


def test_the_range_listed_last_is_reduced_fastest() -> None:
    x = UOp.buffer(0, F32, (8, 9))
    values = _random(8, 9) * 1000
    i, k = UOp.range(8, 0, RangeKind.REDUCE), UOp.range(9, 1, RangeKind.REDUCE)
    total = np.float32(0)
    for element in values.T.reshape(-1):
        total = total + element
    assert evaluate(x.index(i, k).reduce(ops.ADD, ranges=(k, i)), {x: values}) == total


def test_scan_over_a_range_leaves_it_free() -> None:
    i, j = UOp.range(3, 0), UOp.range(4, 1)
    assert evaluate((j + i).scan(ops.ADD, range=i)).tolist() == [[0, 1, 2, 3], [1, 3, 5, 7], [3, 6, 9, 12]]


def test_a_stage_is_indexed_later() -> None:
    x = UOp.buffer(0, F32, (4, 8))
    values = _random(4, 8)
    i, k, j = UOp.range(4, 0), UOp.range(8, 1), UOp.range(8, 2)
    row = x.index(i, k).stage(k, arg=StageArg(Memory.REGISTER))
    backwards = row.index(_index(7) - j)
    out = UOp.buffer(1, F32, (4, 8))
    assert (run(out.store(backwards, i, j), {x: values})[out] == values[:, ::-1]).all()


def test_softmax_kernel_with_register_stages() -> None:
    x, out = UOp.buffer(0, F32, (4, 8)), UOp.buffer(1, F32, (4, 8))
    values = _random(4, 8)
    i, j, k, m = UOp.range(4, 0), UOp.range(8, 1), UOp.range(8, 2, RangeKind.REDUCE), UOp.range(8, 3, RangeKind.REDUCE)
    largest = x.index(i, k).reduce(ops.MAX, ranges=(k,)).stage(arg=StageArg(Memory.REGISTER))
    total = (x.index(i, m) - largest).exp2().reduce(ops.ADD, ranges=(m,))
    result = run(out.store((x.index(i, j) - largest).exp2() / total, i, j), {x: values})[out]
    expected = np.exp2(values - values.max(1, keepdims=True))
    np.testing.assert_allclose(result, expected / expected.sum(1, keepdims=True), rtol=1e-6)


# ---- one matmul, three stages


def _matmul_graph(n: int) -> tuple[UOp, UOp, UOp]:
    a, b = UOp.buffer(0, F32, (n, n)), UOp.buffer(1, F32, (n, n))
    left = a.reshape((n, 1, n)).expand((n, n, n))
    right = b.permute((1, 0)).reshape((1, n, n)).expand((n, n, n))
    return a, b, (left * right).reduce(ops.ADD, (2,))


def _matmul_kernel(n: int) -> UOp:
    c, a, b = (UOp.param(slot, F32, (n, n)) for slot in range(3))
    i, j, k = UOp.range(n, 0), UOp.range(n, 1), UOp.range(n, 2, RangeKind.REDUCE)
    product = a.index(i, k) * b.index(k, j)
    return c.store(product.reduce(ops.ADD, ranges=(k,)), i, j)


def _matmul_program(n: int, width: int) -> UOp:
    c, a, b = (UOp.param(slot, F32, (n * n,)) for slot in range(3))
    sums = UOp.buffer(0, F32, (width,), memory=Memory.REGISTER)
    zero = const(F32, 0.0)
    zeros = UOp.stack(*[zero] * width) if width > 1 else zero
    i, j, k = UOp.range(n, 0), UOp.range(n // width, 1), UOp.range(n, 2, RangeKind.REDUCE)
    row, column = i * n, j * width
    a_place, k_row = row + k, k * n
    b_place, c_place = k_row + column, row + column
    x, y, old = a.load(a_place), b.load(b_place, width), sums.load(0, width)
    product = y * x
    new = old + product
    last = sums.load(_index(0), width)
    start, update = sums.store(zeros, 0), sums.store(new, 0)
    head = [i, row, j, column, *([zeros] if width > 1 else []), start]
    body = [k, a_place, k_row, b_place, x, y, old, product, new, update, k.end()]
    # `last` and `old` are one node; running it again after the loop reads the final sums.
    return UOp.linear(*head, *body, last, c_place, c.store(last, c_place), j.end(), i.end())


@pytest.mark.slow
@pytest.mark.parametrize("n, width", [(64, 16), (16, 1), (8, 4)])
def test_a_matmul_is_the_same_at_every_stage(n: int, width: int) -> None:
    left, right = _random(n, n), _random(n, n, seed=1)
    a, b, graph = _matmul_graph(n)
    expected = evaluate(graph, {a: left, b: right})
    np.testing.assert_allclose(expected, left.astype(np.float64) @ right, rtol=1e-4, atol=1e-4)
    kernel = _matmul_kernel(n).function("matmul")
    out = UOp.buffer(2, F32, (n, n))
    assert (run(UOp.linear(kernel.call(out, a, b)), {a: left, b: right})[out] == expected).all()
    program = _matmul_program(n, width).function("matmul")
    flat = [buffer.reshape((n * n,)) for buffer in (out, a, b)]
    assert (run(UOp.linear(program.call(*flat)), {a: left, b: right})[out] == expected).all()


# ---- programs


def test_if_skips_its_block() -> None:
    out = UOp.param(0, I32, (4,))
    i = UOp.range(4, 0)
    condition = i < 2
    branch = make(ops.IF, (condition,))
    given = np.zeros(4, np.int32)
    run(UOp.linear(i, condition, branch, out.store(const(I32, 1), i), branch.end(), i.end()), {out: given})
    assert given.tolist() == [1, 1, 0, 0]


def test_loops_can_depend_on_outer_loops_and_be_empty() -> None:
    out = UOp.param(0, I32, (4,))
    i = UOp.range(4, 0)
    j = UOp.range(i, 1)
    store = out.store(const(I32, 1), i, combine=ops.ADD)
    given = np.zeros(4, np.int32)
    run(UOp.linear(i, j, store, j.end(), i.end()), {out: given})
    assert given.tolist() == [0, 1, 2, 3]


def test_an_instruction_must_run_before_its_users() -> None:
    out = UOp.param(0, I32, (4,))
    i = UOp.range(4, 0)
    place = i + 1
    with pytest.raises(InternalError, match="store uses the value of add before it has run") as error:
        run(UOp.linear(i, out.store(const(I32, 1), place), place, i.end()), {out: np.zeros(4, np.int32)})
    assert "the instruction: store" in str(error.value)
    assert "its source: add" in str(error.value)


def test_blocks_must_be_closed_from_the_inside() -> None:
    i, j = UOp.range(2, 0), UOp.range(2, 1)
    with pytest.raises(InternalError, match="is closed while"):
        run(UOp.linear(i, j, i.end(), j.end()))
    with pytest.raises(InternalError, match="never closed"):
        run(UOp.linear(i))


def test_loads_and_stores_stay_inside_memory() -> None:
    x = UOp.param(0, I32, (6,))
    load = x.load(_index(3), 4)
    with pytest.raises(OutOfRangeError, match="load: position 6 is outside axis 0 of size 6"):
        run(UOp.linear(load), {x: np.zeros(6, np.int32)})
    with pytest.raises(OutOfRangeError, match="load: position -1"):
        run(UOp.linear(x.load(_index(-1), 4)), {x: np.zeros(6, np.int32)})
    with pytest.raises(OutOfRangeError, match="store: position 6"):
        run(UOp.linear(x.store(const(I32, 1), _index(6))), {x: np.zeros(6, np.int32)})
    with pytest.raises(OutOfRangeError, match="store: position 6"):
        run(UOp.linear(load := x.load(0, 4), x.store(load, 3)), {x: np.zeros(6, np.int32)})


@pytest.mark.parametrize(
    "position, gate, wanted",
    [(2, True, [2, 3, 3, 4, 5, -1]), (2, False, [0, 0, 0, -1, -1, -1]), (90, False, [0, 0, 0, -1, -1, -1])],
)
def test_one_gate_is_for_all_lanes(position: int, gate: bool, wanted: list[int]) -> None:
    x, out = UOp.param(0, I32, (6,)), UOp.param(1, I32, (6,))
    allowed = const(dtypes.bool, gate)
    load, other = x.load(_index(position), 3, gate=allowed), x.load(3, 3)
    result = np.full(6, -1, np.int32)
    stores = (out.store(load, 0), out.store(other, _index(position), gate=allowed))
    run(UOp.linear(load, other, *stores), {x: np.arange(6, dtype=np.int32), out: result})
    assert result.tolist() == wanted


def test_what_was_loaded_stays_when_memory_changes() -> None:
    x = UOp.param(0, I32, (4,))
    both = x.load(0, 2), x.load(2, 2)
    memory = np.arange(4, dtype=np.int32)
    run(UOp.linear(*both, x.store(both[1], 0), x.store(both[0], 2)), {x: memory})
    assert memory.tolist() == [2, 3, 0, 1]


def test_gated_loads_give_zero() -> None:
    x, out = UOp.param(0, I32, (2,)), UOp.param(1, I32, (4,))
    i = UOp.range(4, 0)
    inside = i < 2
    load = x.load(i, gate=inside)
    result = np.full(4, -1, np.int32)
    run(UOp.linear(i, inside, load, out.store(load, i), i.end()), {x: np.array([5, 6], np.int32), out: result})
    assert result.tolist() == [5, 6, 0, 0]


def test_registers_start_as_poison() -> None:
    out = UOp.param(0, F32, (1,))
    register = UOp.buffer(0, F32, (1,), memory=Memory.REGISTER)
    load = register.load(0)
    given = np.zeros(1, np.float32)
    run(UOp.linear(load, out.store(load, 0)), {out: given})
    assert np.isnan(given[0])


def test_a_range_of_int32_has_its_bits() -> None:
    out, number = UOp.param(0, dtypes.uint32, (3,)), UOp.range(const(I32, 3), 0)
    bits = number.bitcast(dtypes.uint32)
    result = np.zeros(3, np.uint32)
    run(UOp.linear(number, bits, out.store(bits, number), number.end()), {out: result})
    assert result.tolist() == [0, 1, 2]


def _reverse_in_shared_memory(barrier: bool) -> list[int]:
    x, out = UOp.param(0, I32, (8,)), UOp.param(1, I32, (8,))
    block, thread = UOp.range(2, 0, RangeKind.BLOCK), UOp.range(4, 1, RangeKind.THREAD)
    shared = UOp.buffer(0, I32, (4,), memory=Memory.SHARED)
    base = block * 4
    place = base + thread
    load = x.load(place)
    other = _index(3) - thread
    back = shared.load(other)
    wait = [make(ops.BARRIER, ())] if barrier else []
    nodes = [block, base, thread, place, load, shared.store(load, thread), *wait, other, back, out.store(back, place)]
    result = np.zeros(8, np.int32)
    run(UOp.linear(*nodes, thread.end(), block.end()), {x: np.arange(8, dtype=np.int32), out: result})
    return result.tolist()


def test_threads_wait_for_one_another_at_a_barrier() -> None:
    assert _reverse_in_shared_memory(barrier=True) == [3, 2, 1, 0, 7, 6, 5, 4]
    assert _reverse_in_shared_memory(barrier=False) != [3, 2, 1, 0, 7, 6, 5, 4]


def test_a_barrier_that_some_threads_miss_is_an_error() -> None:
    thread = UOp.range(4, 0, RangeKind.THREAD)
    condition = thread < 2
    branch = make(ops.IF, (condition,))
    with pytest.raises(InternalError, match="barrier: 2 of 4 threads wait"):
        run(UOp.linear(thread, condition, branch, make(ops.BARRIER, ()), branch.end(), thread.end()))


# ---- functions and schedules


def test_calls_bind_params_by_slot() -> None:
    x, y = UOp.param(0, I32, (2,)), UOp.param(1, I32, (2,))
    function = UOp.group(x - y, x * y).function("both")
    a, b = UOp.buffer(0, I32, (2,)), UOp.buffer(1, I32, (2,))
    call = function.call(a + 1, b)
    given = {a: np.array([1, 2], np.int32), b: np.array([10, 20], np.int32)}
    assert evaluate(call.item(0), given).tolist() == [-8, -17]
    assert evaluate(call.item(1), given).tolist() == [20, 60]


def test_a_call_that_stores_is_an_effect_of_its_graph() -> None:
    out, x = UOp.param(0, I32, (2,)), UOp.param(1, I32, (2,))
    double = out.store(x + x).function("double")
    a, b = UOp.buffer(0, I32, (2,)), UOp.buffer(1, I32, (4,))
    part = b.shrink(((1, 2),))
    after = b.after(double.call(part, a))
    given = {a: np.array([1, 2], np.int32), b: np.zeros(4, np.int32)}
    assert evaluate(after, given).tolist() == [0, 2, 4, 0]
    assert given[b].tolist() == [0, 0, 0, 0]


def test_schedules_run_in_order_on_the_same_memory() -> None:
    out, x = UOp.param(0, I32, (2,)), UOp.param(1, I32, (2,))
    double = out.store(x + x).function("double")
    a, b = UOp.buffer(0, I32, (2,)), UOp.buffer(1, I32, (2,))
    given = {a: np.array([1, 2], np.int32)}
    memory = run(UOp.linear(double.call(b, a), double.call(a, b), double.call(a, a)), given)
    assert given[a].tolist() == [8, 16]
    assert memory[b].tolist() == [2, 4]


def test_schedules_write_parts_of_buffers() -> None:
    out, x = UOp.param(0, I32, (2,)), UOp.param(1, I32, (2,))
    double = out.store(x + x).function("double")
    a = UOp.buffer(0, I32, (2, 3))
    given = {a: np.arange(6, dtype=np.int32).reshape(2, 3)}
    column = a.permute((1, 0)).shrink(((1, 1), (0, 2))).reshape((2,))
    row = a.shrink(((0, 1), (0, 2))).reshape((2,))
    run(UOp.linear(double.call(column, column), double.call(row, row)), given)
    assert given[a].tolist() == [[0, 4, 2], [3, 8, 5]]


def test_schedules_write_transposed_buffers() -> None:
    out = UOp.param(0, I32, (3, 2))
    program = UOp.param(0, I32, (6,))
    i = UOp.range(6, 0)
    number = i.cast(I32)
    fills = (
        out.store(UOp.stack(*(const(I32, n) for n in range(6))).reshape((3, 2))).function("graph").call,
        lambda view: UOp.linear(i, number, program.store(number, i), i.end()).function("p").call(view.reshape((6,))),
    )
    for fill in fills:
        a = UOp.buffer(0, I32, (2, 3))
        assert run(UOp.linear(fill(a.permute((1, 0)))))[a].tolist() == [[0, 2, 4], [1, 3, 5]]


def test_a_call_cannot_write_a_value() -> None:
    out = UOp.param(0, I32, (2,))
    call = out.store(const(I32, 1)).function("one").call(UOp.buffer(0, I32, (2,)) + 1)
    given = {UOp.buffer(0, I32, (2,)): np.zeros(2, np.int32)}
    with pytest.raises(InternalError, match="is no memory"):
        run(UOp.linear(call), given)
    with pytest.raises(InternalError, match="is no memory"):
        run(UOp.group(call), given)


def test_effects_do_not_happen_twice_in_a_schedule() -> None:
    out = UOp.param(0, I32, (2,))
    count = out.store(out + 1).function("count")
    a = UOp.buffer(0, I32, (2,))
    first = count.call(a)
    with pytest.raises(InternalError, match="depends on effects, which would happen once more"):
        run(UOp.linear(first, count.call(a.after(first))), {a: np.zeros(2, np.int32)})


def test_functions_nest() -> None:
    x = UOp.param(0, I32, (2,))
    double = (x + x).function("double")
    quadruple = double.call(double.call(x)).function("quadruple")
    a = UOp.buffer(0, I32, (2,))
    assert evaluate(quadruple.call(a), {a: np.array([1, 2], np.int32)}).tolist() == [4, 8]


def test_bound_arguments_give_variables_their_values() -> None:
    n = UOp.variable("n", 1, 4)
    out, amount = UOp.param(0, I32, (4,)), UOp.param(1, INDEX)
    i = UOp.range(n, 0)
    kernel = out.store((i + amount).cast(I32), i).function("count")
    a = UOp.buffer(0, I32, (4,))
    given = np.zeros(4, np.int32)
    run(UOp.linear(kernel.call(a, n.bind(3))), {a: given})
    assert given.tolist() == [3, 4, 5, 0]


def test_copies_have_the_value_of_their_source() -> None:
    a, b = UOp.buffer(0, I32, (2,), "CPU"), UOp.buffer(1, I32, (2,), "CUDA")
    given = {a: np.array([1, 2], np.int32)}
    assert run(UOp.linear(b.store(a.copy_to("CUDA"))), given)[b].tolist() == [1, 2]


# ---- depth and errors


@pytest.mark.slow
def test_depth_does_not_matter() -> None:
    node = UOp.variable("x", 0, 9)
    x = node
    for _ in range(100_000):
        node = node + 1
    assert evaluate(node, {x: 3}).item() == 100_003


@pytest.mark.slow
def test_long_chains_of_effects() -> None:
    x = UOp.buffer(0, I32, (2,))
    state = x
    for _ in range(2_000):
        state = state.after(state.store(state + 1))
    assert evaluate(state, {x: np.zeros(2, np.int32)}).tolist() == [2_000, 2_000]


@pytest.mark.parametrize(
    "given, error, message",
    [
        (None, MissingError, "buffer 0, .* has no value"),
        (np.zeros(3, np.float64), DTypeError, "is given an array of float64"),
        (np.zeros(4, np.float32), ShapeError, r"is given an array of shape \(4,\)"),
    ],
)
def test_inputs_must_fit(given: Any, error: type[Exception], message: str) -> None:
    x = UOp.buffer(0, F32, (3,))
    with pytest.raises(error, match=message):
        evaluate(x + x, {} if given is None else {x: given})


def test_instructions_have_no_meaning_in_a_graph() -> None:
    x = UOp.buffer(0, F32, (3,))
    with pytest.raises(InternalError, match="load has no meaning in a graph"):
        evaluate(x.load(0), {x: _random(3)})


def test_effects_have_no_value() -> None:
    x = UOp.buffer(0, F32, (3,))
    with pytest.raises(ArgumentError, match="is an effect"):
        evaluate(x.store(x), {x: _random(3)})


# ---- the tables of docs/semantics.md


def _examples() -> list[tuple[str, str, str]]:
    text = (Path(__file__).parents[3] / "docs" / "semantics.md").read_text()
    rows = re.findall(r"^\| `([^`]+)` \| ([a-z0-9]+) \| `([^`]+)` \|", text, re.MULTILINE)
    assert len(rows) > 40
    return rows


def _names(dtype: DType) -> dict[str, Any]:
    """What an example may say: op names as functions on numbers of the row's dtype."""

    def operand(value: Any) -> UOp:
        return value if isinstance(value, UOp) else const(dtype, value)

    def function(op: Op) -> Callable[..., UOp]:
        return lambda *values: make(op, tuple(operand(value) for value in values))

    def along(op: Op) -> Callable[..., UOp]:
        return lambda *values: UOp.stack(*map(operand, values)).reduce(op, (0,))

    names: dict[str, Any] = {op.name: function(op) for op in ops.ELEMENTWISE}
    names |= {f"{name}_": names[name] for name in ("and", "or", "not")}
    names |= {each.name: each for each in (*dtypes.scalars, INDEX)}
    names |= {"sum": along(ops.ADD), "prod": along(ops.MUL), "nan": math.nan, "inf": math.inf}
    names["cast"] = lambda value, target: make(ops.CAST, (operand(value),), target)
    names["bitcast"] = lambda value, target: make(ops.BITCAST, (operand(value),), target)
    return names


@pytest.mark.parametrize("expression, dtype, result", _examples())
def test_examples_of_the_documentation(expression: str, dtype: str, result: str) -> None:
    node = eval(expression, {}, _names(to_dtype(dtype)))
    value = evaluate(node)
    found = float(value) if node.dtype.is_float else value.item()
    assert repr(found) == repr(eval(result, {"nan": math.nan, "inf": math.inf}))


def test_what_a_value_was_computed_of_does_not_change_the_memory_it_goes_to() -> None:
    x = UOp.param(0, F32, (3,))
    first = x.after(x.shrink(((0, 1),)).store(x.shrink(((0, 1),)) + 10.0))
    second = x.after(x.shrink(((2, 1),)).store(first.shrink(((0, 1),))))
    numbers = np.array([1, 2, 3], np.float32)
    assert evaluate(first, {x: numbers}).tolist() == [11, 2, 3]
    assert evaluate(second, {x: numbers}).tolist() == [1, 2, 11]
    again = second.after(second.shrink(((1, 1),)).store(first.shrink(((0, 1),))))
    assert evaluate(again, {x: numbers}).tolist() == [1, 11, 11]


def test_a_number_that_is_repeated_is_changed_in_one_place() -> None:
    number = UOp.param(0, F32, ())
    row = number.reshape((1,)).expand((3,))
    changed = row.after(row.shrink(((1, 1),)).store(row.shrink(((1, 1),)) + 4.0))
    assert evaluate(changed, {number: np.float32(2)}).tolist() == [2, 6, 2]
