"""The solver proves that simplify changes no value: for all integers within the bounds, not for samples of them."""

from __future__ import annotations

import collections
import os
import random

import pytest

from simplify.generate import random_condition, random_gate, random_index
from simplify.golden import CASES, read
from simplify.values import leaves_of
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.pattern import anything, constant
from whit.ir.rewrite import rewrite
from whit.ir.rules import INDEX, Rule, Rules
from whit.ir.uop import UOp, const
from whit.simplify import simplify, simplify_valid
from whit.simplify.valid import drop_true_clauses

z3 = pytest.importorskip("z3")

from simplify.prove import MEANING, PROVED, REFUTED, UNKNOWN, prove_equal  # noqa: E402  (needs z3)

QUICK = os.environ.get("HYPOTHESIS_PROFILE") == "quick"
COUNT = 50 if QUICK else 400
KNOWN = frozenset(MEANING) | {ops.CONST, ops.VARIABLE, ops.RANGE, ops.PARAM}


def is_index(root: UOp) -> bool:
    """Whether the solver's integers can stand for all of it."""
    for node in root.topological():
        if node.op not in KNOWN or node.dtype not in (dtypes.weakint, dtypes.bool):
            return False
        if node.op in (ops.AND, ops.OR, ops.XOR, ops.NOT) and not node.dtype.is_bool:
            return False  # the bits of an unbounded integer
    return True


class Tally:
    """Counts answers; what is refuted fails at once."""

    def __init__(self) -> None:
        self.counts: collections.Counter[str] = collections.Counter()

    def add(self, before: UOp, after: UOp, where: UOp | None = None) -> None:
        if before is after:
            self.counts["unchanged"] += 1
            return
        answer, example = prove_equal(before, after, where)
        gate = f" where {where.expression()}" if where is not None else ""
        assert answer != REFUTED, f"{before.expression()} -> {after.expression()}{gate} is wrong at {example}"
        self.counts[answer] += 1

    def report(self, most_unknown: float) -> None:
        print(dict(self.counts))
        assert self.counts[PROVED] > 0
        assert self.counts[UNKNOWN] <= most_unknown * self.counts[PROVED]


@pytest.mark.parametrize("kind", [random_index, random_condition], ids=lambda kind: kind.__name__)
def test_random_expressions_are_proved(kind: object) -> None:
    generator = random.Random(20)
    tally = Tally()
    for _ in range(COUNT):
        root = kind(generator, 10, linear=True)  # type: ignore[operator]
        tally.add(root, simplify(root))
    tally.report(0.02)


def test_expressions_with_products_of_unknowns_are_proved_or_too_hard() -> None:
    generator = random.Random(21)
    tally = Tally()
    for _ in range(COUNT // 10):
        root = random_index(generator, 5)
        tally.add(root, simplify(root))
    tally.report(0.2)


def test_golden_cases_are_proved() -> None:
    tally = Tally()
    for _, before, after in CASES:
        root = read(before)
        if is_index(root):
            tally.add(root, read(after))
    tally.report(0.0)
    assert tally.counts[PROVED] > 80


def test_an_index_under_a_gate_is_proved_where_the_gate_holds() -> None:
    generator = random.Random(22)
    tally = Tally()
    for _ in range(COUNT // 2):
        index = random_index(generator, 5, linear=True)
        numbers = [leaf for leaf in leaves_of(index) if leaf.op in (ops.VARIABLE, ops.RANGE)] or [UOp.range(16, 0)]
        gate = random_gate(generator, numbers)
        tally.add(index, simplify_valid(index, gate), gate)
    tally.report(0.02)


def test_a_gate_without_its_true_clauses_is_the_same_gate() -> None:
    generator = random.Random(23)
    tally = Tally()
    for _ in range(COUNT // 2):
        numbers = [UOp.range(16, 0), UOp.range(4, 1), UOp.variable("x", 0, 1000), UOp.variable("y", -7, 9)]
        gate = random_gate(generator, numbers)
        tally.add(gate, drop_true_clauses(gate))
    tally.report(0.02)


# ---- the solver can tell wrong from right

x, c0, c1 = anything("x"), constant("c0"), constant("c1")
WRONG = (
    Rule((x + c0) // c1, x // c1 + c0 // c1, on=INDEX),
    Rule((x * c0) // c1, x * (c0 // c1), on=INDEX),
    Rule((x * c0) % c1, x * (c0 % c1), on=INDEX),
    Rule((x // c0) * c0, x, on=INDEX),
    Rule(x // c0 < c1, x < c0 * c1 + 1, on=INDEX),
)


@pytest.mark.parametrize("rule", WRONG, ids=lambda rule: rule.name)
def test_a_wrong_rule_is_refuted_with_an_example(rule: Rule) -> None:
    number = UOp.variable("x", -20, 20)
    graphs = [(number + 3) // 4, (number * 3) // 4, (number * 3) % 4, (number // 4) * 4, number // 4 < 3]
    answers = []
    for graph in graphs:
        changed = rewrite(graph, Rules("wrong", (rule,)))
        if changed is not graph:
            answers.append(prove_equal(graph, changed))
    (only,) = answers
    assert only[0] == REFUTED
    assert only[1].startswith("x=")


@pytest.mark.parametrize("value", (-9, -4, -1, 0, 7))
@pytest.mark.parametrize("op", [ops.FLOORDIV, ops.FLOORMOD, ops.CDIV, ops.CMOD], ids=lambda op: op.name)
def test_the_solver_divides_as_python_does(op: ops.Op, value: int) -> None:
    for divisor in (-4, -1, 0, 3, 9):
        operands = const(dtypes.weakint, value), const(dtypes.weakint, divisor)
        node = operands[0].alu(op, operands[1])
        assert prove_equal(node, simplify(node)) == (PROVED, "")
        unknown = UOp.variable("d", divisor, divisor)
        assert prove_equal(operands[0].alu(op, unknown), simplify(node)) == (PROVED, "")
