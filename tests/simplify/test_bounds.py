"""The value of a node lies in its bounds: random expressions, every pair of 8-bit integers, and the ends of dtypes."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import bool_expressions, index_expressions, int_expressions

from simplify.generate import random_index
from simplify.values import UnspecifiedError, leaves_of, random_inputs, value_of
from whit.dtype import DType, dtypes
from whit.ir import ops
from whit.ir.op import Op
from whit.ir.uop import UOp, const, make
from whit.simplify import bounds, simplify

SAMPLES = 6
BINARY = tuple(op for op in ops.ELEMENTWISE if op.bounds is not None and op.least == 2)
UNARY = tuple(op for op in ops.ELEMENTWISE if op.bounds is not None and op.least == 1)


def check(root: UOp, seed: int) -> None:
    """Every node of the graph, at a few assignments."""
    generator = random.Random(seed)
    leaves = leaves_of(root)
    nodes = [node for node in root.topological() if node.dtype.is_int or node.dtype.is_bool]
    for _ in range(SAMPLES):
        inputs = random_inputs(leaves, generator)
        if inputs is None:
            continue
        for node in nodes:
            reach = bounds(node)
            try:
                value = value_of(node, inputs)
            except UnspecifiedError:
                break
            if reach is None:
                assert node.dtype is dtypes.weakint
            else:
                assert reach[0] <= value <= reach[1], f"{node.expression()} is {value}, not in {reach}, at {inputs}"


@given(index_expressions(), st.integers(0, 2**32))
def test_index_values_lie_in_their_bounds(root: UOp, seed: int) -> None:
    check(root, seed)


@given(bool_expressions(), st.integers(0, 2**32))
def test_truth_values_lie_in_their_bounds(root: UOp, seed: int) -> None:
    check(root, seed)


@given(st.sampled_from(dtypes.ints).flatmap(int_expressions), st.integers(0, 2**32))
def test_wrapping_integers_lie_in_their_bounds(root: UOp, seed: int) -> None:
    check(root, seed)


@given(st.sampled_from(dtypes.ints).flatmap(int_expressions), st.sampled_from(dtypes.ints), st.integers(0, 2**32))
def test_casts_lie_in_their_bounds(root: UOp, target: DType, seed: int) -> None:
    check(root.cast(target).cast(dtypes.weakint) + 1, seed)
    check(root.cast(dtypes.bool).cast(target), seed)


def test_bounds_of_simplified_expressions_hold_too() -> None:
    generator = random.Random(0)
    for seed in range(300):
        check(simplify(random_index(generator)), seed)


@pytest.mark.parametrize("dtype", [dtypes.int8, dtypes.uint8], ids=lambda d: d.name)
@pytest.mark.parametrize("op", BINARY, ids=lambda op: op.name)
def test_every_pair_of_small_intervals_contains_every_result(op: Op, dtype: DType) -> None:
    """8-bit variables at the ends of the dtype, around zero and in between, each pair of values by value."""
    ends = [(dtype.min, dtype.min + 2), (dtype.max - 2, dtype.max), (dtype.min, dtype.max)]
    ends += [(0, 3), (5, 7), (100, 101)] if dtype.is_unsigned else [(-3, 2), (-7, -5), (1, 4), (0, 0)]
    intervals = [UOp.variable(f"v{i}", low, high, dtype) for i, (low, high) in enumerate(ends)]
    for left in intervals:
        for right in intervals:
            node = make(op, (left, right))
            reach = bounds(node)
            assert reach is not None
            for x in _values(left):
                for y in _values(right):
                    inputs = {left: x, right: y} if left is not right else {left: x}
                    value = value_of(node, inputs)
                    assert reach[0] <= value <= reach[1], f"{op.name}({x}, {y}) is {value}, not in {reach}"


def _values(variable: UOp) -> list[int]:
    low, high = variable.arg.low, variable.arg.high
    ends = {*range(low, min(low + 4, high + 1)), *range(max(low, high - 3), high + 1)}
    return sorted({*ends, *range(low, high + 1, 37)})


@pytest.mark.parametrize("dtype", [dtypes.int8, dtypes.uint8], ids=lambda d: d.name)
@pytest.mark.parametrize("op", UNARY, ids=lambda op: op.name)
def test_one_operand_every_interval_of_a_byte(op: Op, dtype: DType) -> None:
    step = range(dtype.min, dtype.max + 1, 5)
    values = {x: value_of(make(op, (UOp.param(0, dtype),)), {UOp.param(0, dtype): x}) for x in step}
    for low in step:
        for high in range(low, dtype.max + 1, 25):
            reach = bounds(make(op, (UOp.variable("v", low, high, dtype),)))
            assert reach is not None
            assert all(reach[0] <= values[x] <= reach[1] for x in range(low, high + 1, 5))


X = UOp.variable("x", 0, 9)
Y = UOp.variable("y", -7, 9)
INT8 = UOp.param(0, dtypes.int8)
UINT8 = UOp.param(0, dtypes.uint8)


@pytest.mark.parametrize(
    "node, expected",
    [
        (X * 2 + 1, (1, 19)),
        (X - Y, (-9, 16)),
        (Y * Y, (-63, 81)),
        (X // Y, (-9, 9)),
        (X % Y, (-6, 9)),
        (X // 0, (0, 0)),
        (X % 0, (0, 9)),
        (X // -4, (-3, 0)),
        (X % -4, (-3, 0)),
        (Y.cdiv(4), (-1, 2)),
        (Y.cmod(4), (-3, 3)),
        (X.maximum(Y), (0, 9)),
        (X.minimum(Y), (-7, 9)),
        ((X < 5).where(X, Y), (-7, 9)),
        (X < 10, (1, 1)),
        (X < 0, (0, 0)),
        (X.eq(Y), (0, 1)),
        (UOp.range(16, 0), (0, 15)),
        (UOp.range(X + 1, 0), (0, 9)),
        (INT8, (-128, 127)),
        (INT8 + 1, (-128, 127)),
        (UINT8 + 1, (0, 255)),
        (UINT8 // 16, (0, 15)),
        (-UINT8, (0, 255)),
        (abs(INT8), (-128, 127)),
        (INT8.cast(dtypes.int32) * 2, (-256, 254)),
        (INT8.cast(dtypes.uint8), (0, 255)),
        ((INT8 // 64).cast(dtypes.bool), (0, 1)),
        ((X + 1).cast(dtypes.bool), (1, 1)),
        ((X < 5).cast(dtypes.weakint) * 3, (0, 3)),
        (const(dtypes.weakint, 2**70) + X, (2**70, 2**70 + 9)),
        (X * -(2**70), (-9 * 2**70, 0)),
        (UOp.param(0, dtypes.weakint), None),
        (UOp.param(0, dtypes.weakint) % 8, None),
        (UOp.param(0, dtypes.float32), None),
    ],
    ids=lambda value: value.expression() if isinstance(value, UOp) else "",
)
def test_known_bounds(node: UOp, expected: tuple[int, int] | None) -> None:
    assert bounds(node) == expected


def test_bounds_of_squares_of_squares_are_given_up_before_they_fill_the_memory() -> None:
    node = UOp.variable("x", 2, 3)
    for _ in range(100):
        node = node * node
    assert bounds(node) is None
    assert simplify(node + 1) is not None


def test_constants_of_squares_of_squares_are_not_computed_for_ever() -> None:
    node = const(dtypes.weakint, 3)
    for _ in range(100):
        node = node * node
    assert not simplify(node).is_const


def test_bounds_of_a_deep_graph_need_no_recursion() -> None:
    node = X
    for _ in range(20_000):
        node = node + 1
    assert bounds(node) == (20_000, 20_009)
