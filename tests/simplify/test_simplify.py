"""simplify keeps every value, comes to rest, and gives one form to one meaning."""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import bool_expressions, float_expressions, index_expressions, int_expressions

from simplify.generate import random_condition, random_gate, random_index
from simplify.golden import CASES, read
from simplify.values import UnspecifiedError, is_same, leaves_of, random_inputs, random_number, value_of
from whit.dtype import DType, dtypes
from whit.ir import ops
from whit.ir.interpret import evaluate, numpy_dtype
from whit.ir.text.write import to_text
from whit.ir.uop import UOp, const, make
from whit.simplify import simplify, simplify_valid
from whit.simplify.valid import drop_true_clauses

QUICK = os.environ.get("HYPOTHESIS_PROFILE") == "quick"
SAMPLES = 6
SEEDS = st.integers(0, 2**32)
INT_DTYPES = st.sampled_from(dtypes.ints)
FLOAT_DTYPES = st.sampled_from((dtypes.weakfloat, *dtypes.floats))


def check(root: UOp, seed: int) -> UOp:
    """The same value before and after, and nothing left to do."""
    generator = random.Random(seed)
    result = simplify(root)
    assert result.dtype is root.dtype
    again = simplify(result)
    assert again is result, f"not at rest:\n{to_text(root)}\n->\n{to_text(result)}\n->\n{to_text(again)}"
    leaves = leaves_of(root, result)
    for _ in range(SAMPLES):
        inputs = random_inputs(leaves, generator)
        if inputs is None:
            continue
        try:
            before, after = value_of(root, inputs), value_of(result, inputs)
        except UnspecifiedError:
            continue
        assert is_same(before, after), f"{before} became {after} at {inputs}:\n{to_text(root)}\n->\n{to_text(result)}"
    return result


# ---- values


@given(index_expressions(), SEEDS)
def test_index_expressions_keep_their_value(root: UOp, seed: int) -> None:
    check(root, seed)


@given(bool_expressions(), SEEDS)
def test_conditions_keep_their_value(root: UOp, seed: int) -> None:
    check(root, seed)


@given(INT_DTYPES.flatmap(int_expressions), SEEDS)
def test_wrapping_integers_keep_their_value(root: UOp, seed: int) -> None:
    check(root, seed)


@given(FLOAT_DTYPES.flatmap(float_expressions), SEEDS)
def test_floats_keep_their_bits(root: UOp, seed: int) -> None:
    check(root, seed)


@given(INT_DTYPES.flatmap(int_expressions), st.lists(st.sampled_from(dtypes.scalars), min_size=1, max_size=4), SEEDS)
def test_chains_of_casts_keep_their_value(root: UOp, targets: list[DType], seed: int) -> None:
    for target in targets:
        root = root.cast(target)
    check(root, seed)


@given(FLOAT_DTYPES, st.lists(st.sampled_from(dtypes.scalars), min_size=1, max_size=4), SEEDS)
def test_chains_of_casts_of_floats_keep_their_value(source: DType, targets: list[DType], seed: int) -> None:
    root = UOp.param(0, source)
    for target in targets:
        root = root.cast(target)
    check(root, seed)


@pytest.mark.parametrize("kind", [random_index, random_condition], ids=lambda kind: kind.__name__)
def test_kernel_like_expressions_keep_their_value(kind: Any) -> None:
    generator = random.Random(1)
    for seed in range(150 if QUICK else 800):
        check(kind(generator), seed)


@pytest.mark.parametrize("dtype", [d for d in dtypes.floats if d.mantissa_bits < 52], ids=lambda d: d.name)
def test_a_fused_multiply_add_of_constants_is_rounded_once(dtype: DType) -> None:
    step, tiny = 2.0**-dtype.mantissa_bits, 2.0 ** (1 - dtype.bias)
    for addend, expected in ((tiny, 1.5 + 2 * step), (-tiny, 1.5 + step)):
        node = const(dtype, 1 + step).fma(const(dtype, 1.5), const(dtype, addend))
        assert simplify(node) is const(dtype, expected)


@pytest.mark.parametrize("dtype, bits", [(dtypes.float32, 0x7F800001), (dtypes.float64, 0x7FF0000000000001)])
def test_a_bitcast_keeps_the_bits_of_a_signalling_nan(dtype: DType, bits: int) -> None:
    unsigned = dtypes.uint32 if dtype.bitsize == 32 else dtypes.uint64
    number = const(unsigned, bits)
    assert simplify(number.bitcast(dtype).bitcast(unsigned)) is number


def test_an_integer_that_went_through_a_float_is_clamped_not_wrapped() -> None:
    x = UOp.param(0, dtypes.int16)
    node = x.cast(dtypes.float32).cast(dtypes.int8)
    assert value_of(simplify(node), {x: 1000}) == value_of(node, {x: 1000}) == 127


# ---- the same through the interpreter


def _array(dtype: DType, value: Any) -> Any:
    return value if dtype is dtypes.weakint else np.array(value).astype(numpy_dtype(dtype))


def _interpreted(root: UOp, inputs: dict[UOp, Any]) -> Any:
    fixed = {leaf: const(dtypes.weakint, value) for leaf, value in inputs.items() if leaf.op is ops.RANGE}
    given_inputs = {leaf: _array(leaf.dtype, value) for leaf, value in inputs.items() if leaf.op is not ops.RANGE}
    return evaluate(root.substitute(fixed), given_inputs)


@given(index_expressions() | bool_expressions() | INT_DTYPES.flatmap(int_expressions), SEEDS)
def test_the_interpreter_agrees(root: UOp, seed: int) -> None:
    result = simplify(root)
    inputs = random_inputs(leaves_of(root, result), random.Random(seed))
    if inputs is None:
        return
    try:
        value_of(root, inputs)  # too large for an array of the oracle's patience
    except UnspecifiedError:
        return
    assert np.array_equal(_interpreted(root, inputs), _interpreted(result, inputs))


# ---- one form


@pytest.mark.parametrize("theme, before, after", CASES, ids=[before for _, before, _ in CASES])
def test_golden(theme: str, before: str, after: str) -> None:
    found = simplify(read(before))
    assert found is read(after), f"{theme}: {before} -> {found.expression()}"
    assert simplify(found) is found


@given(index_expressions(max_nodes=6), index_expressions(max_nodes=6))
def test_operands_may_be_swapped(x: UOp, y: UOp) -> None:
    # A range of one step is 0, but stays where it stands alone (it may be somebody's loop); multiplied, it is gone.
    only_zero = [node for node in leaves_of(x, y) if node.op is ops.RANGE and node.size == 1]
    x, y = (root.substitute(dict.fromkeys(only_zero, const(dtypes.weakint, 0))) for root in (x, y))
    for op in (ops.ADD, ops.MUL, ops.MAX, ops.MIN, ops.EQ, ops.NE):
        one, other = simplify(make(op, (x, y))), simplify(make(op, (y, x)))
        assert one is other, f"{one.expression()} and {other.expression()}"


def _any_tree(terms: list[UOp], generator: random.Random) -> UOp:
    """The terms in a random order and association."""
    parts = list(terms)
    generator.shuffle(parts)
    while len(parts) > 1:
        i = generator.randrange(len(parts) - 1)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    return parts[0]


def _terms(generator: random.Random, count: int, dtype: DType) -> list[UOp]:
    """Variables with coefficients, constants, and quotients; remainders have partners in only one of the terms."""
    leaves = [UOp.variable(f"v{i}", 0, 100, dtype) for i in range(6)]
    terms = []
    for _ in range(count):
        base = generator.choice([*leaves, leaves[0] // 4, leaves[1] % 3, leaves[0] * leaves[1], leaves[2] // leaves[3]])
        factor = const(dtype, generator.randint(0 if dtype.is_unsigned else -9, 9))
        terms.append(generator.choice([base, base * factor, factor]))
    return terms


@pytest.mark.parametrize("dtype", [dtypes.weakint, dtypes.int8, dtypes.uint16, dtypes.int64], ids=lambda d: d.name)
def test_sums_in_any_order_and_association_are_one_node(dtype: DType) -> None:
    generator = random.Random(dtype.name)
    for _ in range(150):
        terms = _terms(generator, generator.randint(2, 12), dtype)
        forms = {simplify(_any_tree(terms, generator)) for _ in range(4)}
        assert len(forms) == 1, "\n".join(form.expression() for form in forms)


def test_a_digit_sum_is_put_together_in_any_order() -> None:
    generator = random.Random(0)
    x = UOp.variable("x", 0, 10**6)
    digits = [x % 4, x // 4 % 3 * 4, x // 12 % 5 * 12, x // 60 * 60]
    for _ in range(50):
        assert simplify(_any_tree(digits, generator)) is x


def test_a_position_in_lines_of_symbolic_length_is_put_together_in_any_order() -> None:
    generator = random.Random(0)
    n, m, x = UOp.variable("n", 1, 64), UOp.variable("m", 1, 8), UOp.variable("x", 0, 10**6)
    for length in (n, n * 8, n * m * 4):
        for times in (1, 3):
            parts = [x // length * length * times, x % length * times, n * 5]
            for _ in range(10):
                assert simplify(_any_tree(parts, generator)) is simplify(x * times + n * 5)
    other = x // (n * 8) * (n * 4) + x % (n * 8)
    assert simplify(other) is not x


# ---- size


def operations(root: UOp) -> int:
    return sum(1 for node in root.topological() if node.src and node.op is not ops.RANGE)


def _plain(generator: random.Random) -> UOp:
    """Sums of terms, quotients and remainders by positive constants: what movement ops produce."""
    leaves = [UOp.range(16, 0), UOp.range(7, 1), UOp.variable("x", 0, 1000), UOp.variable("y", 0, 63)]
    node = generator.choice(leaves)
    for _ in range(generator.randint(1, 6)):
        kind = generator.random()
        if kind < 0.4:
            node = node + generator.choice(leaves) * generator.choice((1, 2, 4, 16, 112))
        elif kind < 0.5:
            node = node + generator.randint(0, 20)
        else:
            divisor = node.constant(generator.choice((2, 4, 7)))
            node = make(generator.choice((ops.FLOORDIV, ops.FLOORMOD)), (node, divisor))
    return node


def test_index_arithmetic_of_movement_ops_rarely_grows() -> None:
    """A quotient of a sum can become a sum with a quotient: one more addition, never much more."""
    generator = random.Random(3)
    before = after = grown = 0
    for _ in range(1000):
        root = _plain(generator)
        result = simplify(root)
        before += operations(root)
        after += operations(result)
        grown += operations(result) > operations(root)
        assert operations(result) <= operations(root) + 3, f"{root.expression()} -> {result.expression()}"
    assert grown <= 30  # of 1000
    assert after < 0.8 * before


# ---- under a gate


def test_an_index_is_right_wherever_its_gate_holds() -> None:
    generator = random.Random(5)
    compared = 0
    for _ in range(400):
        index = random_index(generator, 6)
        numbers = [leaf for leaf in leaves_of(index) if leaf.op in (ops.VARIABLE, ops.RANGE)] or [UOp.range(16, 0)]
        gate = random_gate(generator, numbers)
        result, shorter = simplify_valid(index, gate), drop_true_clauses(gate)
        leaves = leaves_of(index, result, gate, shorter)
        assert {leaf for leaf in leaves_of(result) if leaf.op is ops.RANGE} <= set(leaves_of(index))
        assert simplify(result) is result
        for _ in range(12):
            inputs = random_inputs(leaves, generator)
            if inputs is None:
                continue
            try:
                holds = value_of(gate, inputs)
                assert holds == value_of(shorter, inputs), f"{gate.expression()} -> {shorter.expression()} at {inputs}"
                if holds:
                    compared += 1
                    same = value_of(index, inputs) == value_of(result, inputs)
                    assert same, f"{index.expression()} -> {result.expression()} where {gate.expression()}, {inputs}"
            except UnspecifiedError:
                continue
    assert compared > 500


R0, R1, N = UOp.range(16, 0), UOp.range(4, 1), UOp.variable("n", 1, 64)


@pytest.mark.parametrize(
    "index, gate, expected",
    [
        ((R0 - 2) % 8, (R0 > 1) & (R0 < 10), R0 - 2),
        (R0 % 8, R0 < 8, R0),
        (R0 // 8, (R0 > 7) & (R0 < 16), const(dtypes.weakint, 1)),
        ((R0 + R1) % 16, R0 + R1 < 16, R0 + R1),
        ((R0 + R1 - 3) // 8, (R0 + R1 > 2) & (R0 + R1 < 11), const(dtypes.weakint, 0)),
        ((R0 * 2 + R1 * 2) % 16, R0 + R1 < 8, R0 * 2 + R1 * 2),
        ((R1 - R0) // 8, R1 - R0 >= 0, const(dtypes.weakint, 0)),
        (R0 * 4 + R1, R0.eq(3), R1 + 12),
        (R0 * N, R0.eq(2) & N.eq(5), const(dtypes.weakint, 10)),
        (R0 + 5, R0 > 20, const(dtypes.weakint, 0)),
    ],
    ids=lambda value: value.expression(),
)
def test_what_a_gate_says_is_used(index: UOp, gate: UOp, expected: UOp) -> None:
    assert simplify_valid(index, gate) is simplify(expected)


def test_a_gate_on_the_size_of_a_range_leaves_the_range_alone() -> None:
    loop = UOp.range(N, 0)
    assert simplify_valid(loop * N, N.eq(5)) is loop * 5


@pytest.mark.parametrize(
    "gate, expected",
    [
        ((R0 < 10) & (R0 < 12), R0 < 10),
        ((R0 < 12) & (R0 < 10), R0 < 10),
        ((R0 < 10) & (R0 < 20), R0 < 10),
        ((R0 > 3) & (R0 > 1), R0 > 3),
        ((R0 < 10) & (R1 < 2), (R0 < 10) & (R1 < 2)),
        (R0 < 16, const(dtypes.bool, True)),
        (R0.eq(3) & (R0 < 10), R0.eq(3)),
    ],
    ids=lambda value: value.expression(),
)
def test_clauses_that_follow_from_others_go(gate: UOp, expected: UOp) -> None:
    assert drop_true_clauses(gate) is simplify(expected)


def test_random_numbers_of_every_dtype_are_values_of_it() -> None:
    generator = random.Random(0)
    for dtype in (dtypes.weakint, *dtypes.scalars):
        for _ in range(20):
            value = random_number(dtype, generator)
            assert is_same(value, value)
