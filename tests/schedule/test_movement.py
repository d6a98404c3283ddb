"""Movement ops as index arithmetic: every element is read from where NumPy finds it."""

import math
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.interpret import evaluate
from whit.ir.uop import UOp
from whit.schedule.movement import ZERO, Position, reshape_position, source_position


def ranges(*sizes: int) -> Position:
    return tuple(ZERO if size == 1 else UOp.range(size, axis) for axis, size in enumerate(sizes))


def spelled(node: UOp, position: Position | None = None) -> tuple[list[str], str]:
    """Where a movement op reads its source, as people write it."""
    place, valid = source_position(node, position or ranges(*node.shape))
    return [i.expression() for i in place], "" if valid is None else valid.expression()


def source(*shape: int) -> UOp:
    return UOp.param(0, dtypes.float32, shape)


def test_permute_puts_positions_back() -> None:
    assert spelled(source(2, 3, 4).permute((2, 0, 1))) == (["r1", "r2", "r0"], "")


def test_expand_reads_the_one_element() -> None:
    assert spelled(source(2, 1, 4).expand((2, 3, 4))) == (["r0", "0", "r2"], "")


def test_expand_to_the_same_size_reads_in_place() -> None:
    assert spelled(source(1, 4).expand((1, 4))) == (["0", "r1"], "")


def test_shrink_moves_by_its_start() -> None:
    assert spelled(source(9, 4).shrink(((2, 5), (0, 4)))) == (["r0 + 2", "r1"], "")


def test_flip_counts_from_the_end() -> None:
    assert spelled(source(5, 3).flip((0,))) == (["r0*-1 + 4", "r1"], "")


def test_pad_is_valid_inside_only() -> None:
    place, valid = spelled(source(5).pad(((2, 1),)))
    assert place == ["r0 + -2"]
    assert valid == "(r0 < 7) & (r0*-1 < -1)"


def test_pad_on_one_side_has_one_condition() -> None:
    assert spelled(source(5, 3).pad(((0, 2), (0, 0)))) == (["r0", "r1"], "r0 < 5")
    assert spelled(source(5, 3).pad(((0, 0), (1, 0)))) == (["r0", "r1 + -1"], "r1*-1 < 0")


def test_pad_by_nothing_has_no_condition() -> None:
    assert spelled(source(5, 3).pad(((0, 0), (0, 0)))) == (["r0", "r1"], "")


def test_reshape_that_merges_divides() -> None:
    assert spelled(source(2, 4).reshape((8,))) == (["r0//4", "r0%4"], "")


def test_reshape_that_splits_multiplies() -> None:
    assert spelled(source(8).reshape((2, 4))) == (["r0*4 + r1"], "")


def test_reshape_touches_only_the_axes_that_change() -> None:
    assert spelled(source(6, 4, 5).reshape((6, 20))) == (["r0", "r1//5", "r1%5"], "")
    assert spelled(source(6, 4, 5).reshape((2, 3, 4, 5))) == (["r0*3 + r1", "r2", "r3"], "")
    assert spelled(source(3, 4, 7).reshape((12, 7))) == (["r0//4", "r0%4", "r1"], "")


def test_reshape_by_axes_of_size_one_is_free() -> None:
    assert spelled(source(3, 4).reshape((1, 3, 1, 4, 1))) == (["r1", "r3"], "")
    assert spelled(source(1, 3, 1, 4).reshape((3, 4))) == (["0", "r0", "0", "r1"], "")


def test_reshape_of_one_element() -> None:
    assert spelled(source(1, 1).reshape(())) == (["0", "0"], "")
    assert spelled(source().reshape((1, 1, 1))) == ([], "")


def test_reshape_with_a_symbolic_axis_keeps_it() -> None:
    n = UOp.variable("n", 1, 64)
    i, j, k = UOp.range(n, 0), UOp.range(2, 1), UOp.range(3, 2)
    place = reshape_position((n, 6), (n, 2, 3), (i, j, k))
    assert place[0] is i
    assert place[1].expression() == "r1*3 + r2"


def test_reshape_back_and_forth_is_the_position_itself() -> None:
    x = source(6, 4)
    there = x.reshape((2, 12))
    middle, _ = source_position(there.reshape((6, 4)), ranges(6, 4))
    back, _ = source_position(there, middle)
    assert back == ranges(6, 4)


# ---- chains

SIZES = (1, 2, 3, 4, 6)


@st.composite
def chains(draw: Any) -> UOp:
    """Movement ops on one param."""
    node = source(*draw(st.lists(st.sampled_from(SIZES), max_size=3)))
    for _ in range(draw(st.integers(1, 5))):
        node = draw(st.sampled_from(STEPS))(draw, node)
    return node


def _permute(draw: Any, x: UOp) -> UOp:
    return x.permute(tuple(draw(st.permutations(range(len(x.shape))))))


def _expand(draw: Any, x: UOp) -> UOp:
    return x.expand(tuple(draw(st.sampled_from(SIZES)) if size == 1 else size for size in x.shape))


def _pad(draw: Any, x: UOp) -> UOp:
    return x.pad([(draw(st.integers(0, 2)), draw(st.integers(0, 2))) for _ in x.shape]) if x.shape else x


def _shrink(draw: Any, x: UOp) -> UOp:
    parts = []
    for size in x.shape:
        start = draw(st.integers(0, size - 1))
        parts.append((start, draw(st.integers(1, size - start))))
    return x.shrink(parts)


def _flip(draw: Any, x: UOp) -> UOp:
    return x.flip(tuple(axis for axis in range(len(x.shape)) if draw(st.booleans())))


def _reshape(draw: Any, x: UOp) -> UOp:
    size, shape = math.prod(x.shape), []
    while size > 1 and len(shape) < 3:
        shape.append(draw(st.sampled_from([d for d in range(1, size + 1) if size % d == 0])))
        size //= shape[-1]
    return x.reshape((*shape, size) if size > 1 else tuple(shape))


STEPS = (_permute, _expand, _pad, _shrink, _flip, _reshape)


@given(chains())
def test_a_chain_of_movement_reads_what_numpy_reads(node: UOp) -> None:
    shape = node.shape
    if math.prod(shape) > 5000:
        return
    expected_of = node
    position, gate = ranges(*shape), None
    while node.op in ops.MOVEMENT:
        position, valid = source_position(node, position)
        if valid is not None:
            gate = valid if gate is None else gate & valid
        (node,) = node.src
    array = np.arange(1, math.prod(node.shape) + 1, dtype=np.float32).reshape(node.shape)
    expected = evaluate(expected_of, {node: array})
    element = node.index(*position, gate=gate) if node.shape else node
    if gate is not None:
        element = gate.where(element, element.constant(0.0))
    outside = [UOp.range(size, axis) for axis, size in enumerate(shape) if size > 1]
    found = evaluate(element.stage(*outside), {node: array}) if outside else evaluate(element, {node: array})
    np.testing.assert_array_equal(found.reshape(shape), expected)
