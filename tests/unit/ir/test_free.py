"""The ranges that are free in a node: the rule by example, and against what the interpreter makes of random kernels."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.args import Memory, RangeKind, SortArg, StageArg
from whit.ir.free import free_ranges
from whit.ir.interpret import evaluate
from whit.ir.nesting import Owner
from whit.ir.uop import UOp, const, make
from whit.kernel.ranges import in_order

f32 = dtypes.float32
SOURCE = UOp.param(0, f32, (9, 9))
SIZE = UOp.range(4, 0)
ROW, K = UOp.range(SIZE + 1, 1), UOp.range(8, 2, RangeKind.REDUCE)


def test_reductions_bind_ranges_and_scans_do_not() -> None:
    value = SOURCE.index(ROW, K)
    summed, over_both = value.reduce(ops.ADD, ranges=(K,)), value.reduce(ops.ADD, ranges=(ROW, K))
    scanned, staged = value.scan(ops.ADD, range=K), value.stage(K, arg=StageArg(Memory.SHARED))
    place = UOp.range(8, 3)
    order = make(ops.SORT, (value, value, K, place), SortArg(8))
    free: dict[UOp, frozenset[UOp]] = {}
    for node in (summed, over_both, scanned, staged, order):
        free_ranges(node, free)
    assert free[value] == {SIZE, ROW, K}
    assert free[summed] == free[staged] == {SIZE, ROW}
    assert free[over_both] == {SIZE}  # the number of iterations depends on it
    assert free[scanned] == {SIZE, ROW, K}
    assert free[order] == {SIZE, ROW, place}


def test_an_effect_is_inside_of_the_loops_in_which_it_happens() -> None:
    stored = UOp.param(1, f32, (9,)).store(SOURCE.index(ROW, K).reduce(ops.ADD, ranges=(K,)), ROW)
    assert free_ranges(stored)[stored] == {SIZE, ROW}


def test_a_function_has_ranges_of_its_own() -> None:
    function = UOp.param(1, f32, (9,)).store(const(f32, 1), UOp.range(9, 0)).function("fill")
    assert free_ranges(function) == {function: frozenset()}


def test_what_is_known_is_not_asked_again() -> None:
    inner, outer = SOURCE.index(ROW, K), SOURCE.index(ROW, K) + 1.0
    known = free_ranges(inner)
    before = dict(known)
    assert list(free_ranges(outer, known).items())[: len(before)] == list(before.items())
    assert known == free_ranges(outer)


RANGES = [
    UOp.range(2, 0, owner=Owner.BLOCK),
    *(UOp.range(size, i) for i, size in enumerate((3, 4, 5))),
    *(UOp.range(size, i, RangeKind.REDUCE, Owner.REDUCE) for i, size in enumerate((6, 7))),
]


@st.composite
def values(draw: Any) -> UOp:
    """Elements of memory, sums, reductions and scans over ranges, each of what came before."""
    pool = [SOURCE.index(draw(st.sampled_from(RANGES)), draw(st.sampled_from(RANGES)))]
    for _ in range(draw(st.integers(1, 6))):
        value = draw(st.sampled_from(pool))
        free = in_order(free_ranges(value)[value])
        kind = draw(st.sampled_from(("read", "add", "reduce", "scan", "cast")))
        if kind == "reduce" and free:
            value = value.reduce(ops.MAX, ranges=tuple(draw(st.lists(st.sampled_from(free), min_size=1, unique=True))))
        elif kind == "scan" and free:
            value = value.scan(ops.ADD, range=draw(st.sampled_from(free)))
        elif kind == "add":
            value = value + draw(st.sampled_from(pool))
        elif kind == "cast":
            value = value * draw(st.sampled_from(RANGES)).cast(f32)
        else:
            value = SOURCE.index(draw(st.sampled_from(RANGES)), draw(st.sampled_from(RANGES)) + 1)
        pool.append(value)
    return pool[-1]


@given(values())
def test_a_value_is_an_array_with_an_axis_for_each(value: UOp) -> None:
    memory = np.arange(81, dtype=np.float32).reshape(9, 9)
    found = evaluate(value, {SOURCE: memory})
    assert found.shape == tuple(r.size for r in in_order(free_ranges(value)[value]))
