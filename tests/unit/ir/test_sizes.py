"""Sizes that depend on variables: settled forms, quotients and bounds agree with all values of the variables."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whit.ir.sizes import decided, is_at_most, larger, quotient, reach, settled, smaller, value_now
from whit.ir.uop import UOp

N, M = UOp.variable("n", 1, 5), UOp.variable("m", 0, 3)
ALL = list(itertools.product(range(1, 6), range(4)))


def at(size: Any, n: int, m: int) -> int:
    """The value of a size."""
    if isinstance(size, int):
        return size
    found = value_now(size.substitute({N: N.bind(n), M: M.bind(m)}))
    assert found is not None
    return found


def _join(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def made(kind: int, a: Any, b: Any, c: int) -> Any:
        joined = (a + b, a - b, a * b, a * c, a // c, a % c, larger(a, b), smaller(a, b))
        return joined[kind]

    return st.builds(made, st.integers(0, 7), parts, parts, st.integers(1, 4))


SIZES = st.recursive(st.sampled_from([N, M, N + 1, M + 0]) | st.integers(-3, 6), _join, max_leaves=6)


@given(SIZES)
def test_a_settled_size_has_the_same_values_and_stays_as_it_is(size: Any) -> None:
    form = settled(size)
    assert settled(form) is form or form == settled(form)
    assert [at(form, n, m) for n, m in ALL] == [at(size, n, m) for n, m in ALL]


@given(SIZES)
def test_values_stay_within_reach(size: Any) -> None:
    low, high = reach(size)
    values = [at(size, n, m) for n, m in ALL]
    assert low is None or low <= min(values)
    assert high is None or high >= max(values)


@given(SIZES, SIZES)
def test_comparisons_that_are_decided_hold_for_all_values(a: Any, b: Any) -> None:
    pairs = [(at(a, n, m), at(b, n, m)) for n, m in ALL]
    answer = is_at_most(a, b)
    assert answer is None or all((x <= y) is answer for x, y in pairs)
    if isinstance(a, UOp):
        for condition, holds in (
            (a < b, int.__lt__),
            (a <= b, int.__le__),
            (a.eq(b), int.__eq__),
            (a.ne(b), int.__ne__),
        ):
            answer = decided(condition)
            assert answer is None or all(holds(x, y) is answer for x, y in pairs)
        truth = decided(a)
        assert truth is None or all(bool(x) is truth for x, _ in pairs)


@given(SIZES, SIZES)
def test_a_quotient_is_exact(a: Any, b: Any) -> None:
    found = quotient(a * b, b)
    if found is not None:
        assert all(at(found, n, m) * at(b, n, m) == at(a * b, n, m) for n, m in ALL)


def test_equal_sizes_are_one_node_whatever_way_they_were_written() -> None:
    assert settled(2 * (N + 1) - N) is settled(N + 2)
    assert settled((N + 8) - N) == 8
    assert settled((N + M) * (N - M)) is settled(N * N - M * M)
    assert settled((N * 8 + 3) // 8) is N
    assert settled((N * 8 + 3) % 8) == 3
    assert settled(N.maximum(M - 2)) is N
    assert settled((N + 5).minimum(3)) == 3


def test_bound_variables_stand_where_the_variables_do() -> None:
    bound = settled(3 * M.bind(2) * N.bind(4) + N.bind(4) + 1)
    free = settled(3 * M * N + N + 1)
    assert bound.substitute({N.bind(4): N, M.bind(2): M}) is free


def test_a_quotient_of_polynomials() -> None:
    assert quotient(8 * N + 8, N + 1) == 8
    assert quotient((N + 1) * (M + 2) * 4, M + 2) is settled(N * 4 + 4)
    assert quotient(3 * N, 2) is None
    assert quotient(N, 0) is None


def test_rounded_sizes_have_close_bounds() -> None:
    assert reach((N + 1) // 2 * 2 - N) == (0, 1)
    assert is_at_most(N.minimum(3), N) is True
    assert is_at_most((M - 1) % N + N, N * 2) is True


def test_a_value_needs_all_variables_bound() -> None:
    assert value_now(N.bind(3) * 2 + M.bind(0)) == 6
    assert value_now(N.bind(3) + M) is None


@pytest.mark.parametrize(("size", "truth"), [(N, True), (N * 0, False), (N < 6, True), (N < 1, False), (M + 1, True)])
def test_what_holds_for_all_values_is_true_or_false(size: UOp, truth: bool) -> None:
    assert bool(size) is truth


def test_a_size_is_shown_as_its_expression() -> None:
    assert repr(N.bind(3) * 2 + 1) == "<UOp (n=3)*2 + 1>"
    assert repr(N) == '<UOp variable "n", 1..5>'
