"""Large graphs: linear work (counted, not timed), sums of any length in one form, no recursion, nothing kept alive."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable
from typing import Any

import pytest

from simplify.values import value_of
from whit.dtype import DType, dtypes
from whit.ir import ops
from whit.ir.rewrite import counting
from whit.ir.uop import UOp, const, live_nodes
from whit.simplify import bounds, simplify

pytestmark = pytest.mark.slow  # large, or many

Build = Callable[[int], UOp]


def variables(count: int, dtype: DType = dtypes.weakint) -> list[UOp]:
    return [UOp.variable(f"v{i:06}", 0, 9, dtype) for i in range(count)]


def chain(count: int) -> UOp:
    """Products, quotients and remainders that do not cancel."""
    x = UOp.variable("x", 0, 1000)
    node = x
    for i in range(count):
        node = (node * 3 + i % 97) % 977 if i % 2 else node // 2 + x
    return node


def left_sum(terms: list[UOp]) -> UOp:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def right_sum(terms: list[UOp]) -> UOp:
    total = terms[0]
    for term in terms[1:]:
        total = term + total
    return total


def tree_sum(terms: list[UOp]) -> UOp:
    while len(terms) > 1:
        pairs = [terms[i] + terms[i + 1] for i in range(0, len(terms) - 1, 2)]
        terms = pairs + terms[len(terms) - len(terms) % 2 :]
    return terms[0]


def shuffled(terms: list[UOp]) -> list[UOp]:
    terms = list(terms)
    random.Random(0).shuffle(terms)
    return terms


def halves(count: int) -> list[UOp]:
    """x%4 and (x//4)*4 of many x, which belong together."""
    whole = variables(count // 2)
    return shuffled([x % 4 for x in whole] + [x // 4 * 4 for x in whole])


def horner(count: int) -> UOp:
    """((a*2 + b)*2 + c)*2 ...: every level multiplies all below."""
    node = const(dtypes.int32, 0)
    for x in variables(count, dtypes.int32):
        node = node * 2 + x
    return node


def doubled(count: int) -> UOp:
    """A sum of 80 terms added to itself again and again: 2**count paths."""
    node = left_sum(shuffled(variables(80)))
    for _ in range(count):
        node = node + node
    return node


def prefixes(count: int) -> UOp:
    """All partial sums, each used: their sorted forms would have count**2 / 2 terms."""
    total = const(dtypes.weakint, 0)
    used = const(dtypes.weakint, 0)
    for x in reversed(variables(count)):
        total = total + x
        used = used.maximum(total)
    return used


def few_variables(count: int) -> UOp:
    pool = variables(100)
    generator = random.Random(1)
    return left_sum([generator.choice(pool) * generator.randint(1, 9) + generator.randint(0, 3) for _ in range(count)])


def remainders(count: int) -> UOp:
    """A running sum modulo 7: the inner remainders could all go, at the price of longer and longer sums."""
    total = const(dtypes.weakint, 0)
    for x in variables(count):
        total = (total + x) % 7
    return total


def clauses(count: int) -> UOp:
    gate = const(dtypes.bool, True)
    for x in variables(count):
        gate = gate & (x < 5)
    return gate


def compared(count: int) -> UOp:
    """A long sum with many different coefficients, under a comparison and a division."""
    total = left_sum([x * (i + 2) for i, x in enumerate(variables(count))])
    return (total + 3 < 1000).where(total // 64, total % 64)


SIZES = (800, 1600, 2400)
SLOW_SIZES = (150, 300, 450)
SLOW = ("horner", "prefixes", "remainders")  # these do much for each node
LINEAR: dict[str, Build] = {
    "chain": chain,
    "sorted sum": lambda n: left_sum(variables(n)),
    "reversed sum": lambda n: left_sum(variables(n)[::-1]),
    "shuffled sum": lambda n: left_sum(shuffled(variables(n))),
    "right-nested sum": lambda n: right_sum(shuffled(variables(n))),
    "balanced sum": lambda n: tree_sum(shuffled(variables(n))),
    "sum over 100 variables": few_variables,
    "halves": lambda n: left_sum(halves(n)),
    "horner": horner,
    "prefixes": prefixes,
    "remainders": remainders,
    "clauses": clauses,
    "compared": compared,
}


def attempts(root: UOp) -> int:
    """How many rules were tried."""
    with counting() as counts:
        simplify(root)
    return sum(count.attempts for count in counts.by_rule.values())


def _marked(name: str) -> Any:
    return pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name


@pytest.mark.parametrize("name", [_marked(name) for name in LINEAR])
def test_equally_many_nodes_more_cost_equally_much_more(name: str) -> None:
    first, second, third = (attempts(LINEAR[name](n)) for n in (SLOW_SIZES if name in SLOW else SIZES))
    # What a graph of any size costs cancels out in the differences.
    assert third - second <= 1.1 * (second - first), f"{first}, {second}, {third} rules tried"


SHAPES = {"sorted": list, "reversed": lambda terms: terms[::-1], "shuffled": shuffled}


@pytest.mark.parametrize("count", [64, 65, 66, 129, 700])
@pytest.mark.parametrize("dtype", [dtypes.weakint, dtypes.int32], ids=lambda d: d.name)
def test_a_sum_of_any_length_has_one_form(count: int, dtype: DType) -> None:
    terms = variables(count, dtype)
    expected = left_sum(terms)
    for arrange in SHAPES.values():
        for build in (left_sum, right_sum, tree_sum):
            assert simplify(build(arrange(list(terms)))) is expected  # type: ignore[operator]
    assert simplify(expected) is expected


def test_equal_terms_of_a_long_sum_are_collected() -> None:
    terms = variables(200)
    total = left_sum(shuffled(terms + terms + [x * -1 for x in terms] + [const(dtypes.weakint, 1)] * 7))
    assert simplify(total) is left_sum(terms) + 7


def test_a_long_sum_minus_itself_is_nothing() -> None:
    terms = variables(150)
    total, other = left_sum(shuffled(terms)), right_sum(terms)
    assert simplify(total - other) is const(dtypes.weakint, 0)
    assert simplify((total - other).eq(0)) is const(dtypes.bool, True)
    assert simplify(total - other + 5 < 9) is const(dtypes.bool, True)


def test_a_constant_goes_into_a_long_sum() -> None:
    terms = variables(150)
    assert simplify((left_sum(shuffled(terms)) + 2) * 3) is left_sum([x * 3 for x in terms]) + 6


def test_halves_of_divisions_find_each_other_in_a_long_sum() -> None:
    assert simplify(left_sum(halves(400))) is left_sum(variables(200))


def test_horner_is_multiplied_out() -> None:
    root = horner(300)
    result = simplify(root)
    assert simplify(result) is result
    inputs = {x: i % 10 for i, x in enumerate(variables(300, dtypes.int32))}
    assert value_of(root, inputs) == value_of(result, inputs)


def test_parts_that_are_shared_are_looked_at_once() -> None:
    assert simplify(doubled(60)) is left_sum([x * 2**60 for x in variables(80)])
    assert simplify(doubled(60) // 2**50) is left_sum([x * 2**10 for x in variables(80)])


def test_long_sums_inside_terms_of_long_sums_come_to_rest() -> None:
    terms = shuffled(variables(80))
    total = left_sum(terms)
    for i in range(6):
        total = total // 3 + right_sum(shuffled(terms)) * (i + 2)
    result = simplify(total)
    assert simplify(result) is result
    inputs = {x: i % 7 for i, x in enumerate(variables(80))}
    assert value_of(total, inputs) == value_of(result, inputs)


def powers(count: int) -> UOp:
    """x squared again and again: 2**count factors."""
    node = UOp.variable("x", 2, 3)
    for _ in range(count):
        node = node * node
    return node


def test_repeated_squares_are_not_written_out() -> None:
    assert len(simplify(powers(60)).topological()) < 100
    assert simplify(simplify(powers(60))) is simplify(powers(60))


def test_prefixes_keep_their_values() -> None:
    root = prefixes(300)
    inputs = {x: i % 10 for i, x in enumerate(variables(300))}
    assert value_of(simplify(root), inputs) == value_of(root, inputs)


def built_simplified_and_freed(build: Callable[[], UOp], at_least: int = 0) -> None:
    gc.collect()
    gc.disable()  # nodes have no cycles: counting references is enough, and searching a million of them takes long
    try:
        before = live_nodes()
        root = build()
        assert live_nodes() - before >= at_least
        result = simplify(root)
        assert bounds(result) is not None
        del root, result
        assert live_nodes() - before < 100
    finally:
        gc.enable()


def test_a_deep_chain_is_built_simplified_and_freed() -> None:
    built_simplified_and_freed(lambda: chain(2_000))


@pytest.mark.slow
def test_a_chain_of_more_than_100_000_nodes() -> None:
    built_simplified_and_freed(lambda: chain(50_000))


@pytest.mark.slow
@pytest.mark.parametrize("order", SHAPES)
def test_a_sum_of_20_000_variables(order: str) -> None:
    terms = variables(20_000)
    assert simplify(left_sum(SHAPES[order](terms))) is left_sum(terms)  # type: ignore[operator]


@pytest.mark.slow
def test_a_sum_of_20_000_terms_over_100_variables() -> None:
    result = simplify(few_variables(20_000))
    assert sum(node.op is ops.VARIABLE for node in result.topological()) == 100
    assert sum(node.op is ops.ADD for node in result.topological()) == 100


@pytest.mark.slow
def test_a_graph_of_100_000_nodes() -> None:
    """A million takes 15 s: bench/rewrite.py --large."""

    def build() -> UOp:
        """100 layers of 1000 operations on the layer below."""
        layer = [UOp.param(i, dtypes.int32) for i in range(1000)]
        for depth in range(1, 100):
            layer = [layer[i] ^ layer[i - depth % 997 - 1] for i in range(1000)]
        return left_sum(layer)

    built_simplified_and_freed(build, at_least=90_000)
