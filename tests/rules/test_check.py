"""Every data rule is sound and decreasing, and the checker refuses rules that are not."""

import random

import pytest

from whit.dtype import dtypes
from whit.errors import RuleError
from whit.ir import ops
from whit.ir.check import rules as check
from whit.ir.check.rules import check_decreasing, check_rules, check_sound, is_larger
from whit.ir.pattern import anything, constant, divides, node
from whit.ir.rules import BOOLS, INDEX, INTS, Rule, Rules
from whit.simplify.algebra import ALGEBRA, IEEE
from whit.simplify.rules import SIMPLIFY

pytestmark = pytest.mark.slow  # many

x, y, z = anything("x"), anything("y"), anything("z")
c0, c1 = constant("c0"), constant("c1")


@pytest.mark.parametrize("rule", ALGEBRA, ids=lambda rule: rule.name)
def test_rule_is_sound_and_decreasing(rule):
    fired, compared = check_sound(rule, random.Random(1), tries=20)
    assert compared >= fired > 0
    check_decreasing(rule)


def test_the_report_counts_every_rule(capsys):
    report = check_rules(Rules("few", SIMPLIFY.rules[:12]), tries=4)
    assert report.sound == report.decreasing == 10
    assert report.functions == 2
    assert "10 data rules sound" in str(report)


WRONG = [
    # what people believe about numbers
    (Rule(x * 0, 0, on=IEEE), "x\\*0 -> 0: wrong for"),  # inf, NaN, and the sign of zero
    (Rule(x + 0.0, x, on=IEEE), "wrong for"),  # -0.0
    (Rule(x / x, 1, on=IEEE), "wrong for"),
    (Rule(x - x, 0, on=IEEE), "wrong for"),
    (Rule((x + y) - y, x, on=IEEE), "wrong for"),
    (Rule((x * c0) * c1, x * (c0 * c1), on=IEEE), "wrong for"),
    (Rule(node(ops.EQ, x, x), True, on=IEEE), "wrong for"),  # NaN
    # wrap-around
    (Rule((x * c0) // c0, x, when=c0 > 0, on=INTS - INDEX), "wrong for"),
    (Rule(x <= y, x < y + 1, on=INTS - INDEX), "wrong for"),
    (Rule(x < x + 1, True, on=INTS - INDEX), "wrong for"),
    # negative divisors and numerators
    (Rule((x * c0) // c1, x * (c0 // c1), when=c1 > 0, on=INDEX), "wrong for weakint"),
    (Rule((x + c0) // c1, x // c1 + c0 // c1, when=c1 > 0, on=INDEX), "wrong for weakint"),
    (Rule((x // c0) // c1, x // (c0 * c1), on=INDEX), "wrong for weakint"),
    (Rule(node(ops.CDIV, x, c0), x // c0, when=c0 > 0, on=INDEX), "wrong for weakint"),
    (Rule((x % c0) % c1, x % c1, when=divides(c0, c1), on=INDEX), "wrong for weakint"),
    (Rule(x // x, 1, on=INDEX), "wrong for weakint"),  # 0 // 0 is 0
    (Rule(x >> c0, x // 2**c0, when=(c0 >= 0) & (c0 < 99), on=frozenset({dtypes.int8})), "wrong for int8"),
    (Rule(x + c0, x, when=c0 > 10**30, on=INDEX), "never fires"),
]


@pytest.mark.parametrize(("rule", "message"), WRONG, ids=lambda value: getattr(value, "name", ""))
def test_a_wrong_rule_is_refused_with_a_counter_example(rule, message):
    with pytest.raises(RuleError, match=message) as caught:
        check_sound(rule, random.Random(2), tries=200)
    if "never" not in message:
        assert " is " in caught.value.details  # both values of the counter-example
        assert "Add a condition" in caught.value.fix


LOOPING = [
    Rule(x + y, y + x, on=INTS),
    Rule(x + y, x * 1 + y, on=INTS),
    Rule(x * c0 + y * c0, (x + y) * c0, on=INTS),  # against the distribution that SIMPLIFY has
    Rule(x + (y + z), (x + y) + z, on=INTS),
    Rule(~x, node(ops.NE, x, True), on=BOOLS),
    Rule(node(ops.WHERE, y, x, z), node(ops.WHERE, ~y, z, x), on=BOOLS),
]


@pytest.mark.parametrize("rule", LOOPING, ids=lambda rule: rule.name)
def test_a_rule_that_does_not_shrink_is_refused(rule):
    with pytest.raises(RuleError, match="not smaller") as caught:
        check_decreasing(rule)
    assert "lexicographic path order" in caught.value.details


def test_an_op_without_a_place_in_the_order_is_named(monkeypatch):
    unplaced = {op: rank for op, rank in check._RANK.items() if op not in (ops.SIN, ops.POW)}
    monkeypatch.setattr(check, "_RANK", unplaced)
    with pytest.raises(RuleError, match="not smaller") as caught:
        check_decreasing(Rule(node(ops.POW, x, y), node(ops.SIN, x), on=IEEE))
    assert "without a place in it, so larger than all that have one: sin\n" in caught.value.details
    assert "give sin a place in PRECEDENCE" in caught.value.fix
    check_decreasing(Rule(node(ops.SIN, x), x + x, on=IEEE))  # larger than all that have one
    with pytest.raises(RuleError, match="not smaller") as caught:
        check_decreasing(Rule(x + y, y + x, on=INTS))
    assert "without a place" not in caught.value.details


def test_a_counter_example_uses_the_names_of_the_rule():
    with pytest.raises(RuleError) as caught:
        check_sound(Rule((x * c0) + y, x, on=INDEX), random.Random(0), tries=20)
    given, expression = caught.value.details.splitlines()[0].split(": ")
    assert given.startswith("with c0 = ")
    assert expression.startswith("x*")
    assert " + y is " in expression


def test_operators_build_patterns_with_numbers_on_either_side():
    both = [(1 - x, "(1 - x)"), (1 / x, "(1 / x)"), (7 // x, "7//x"), (7 % x, "7%x"), (2**x, "2**x")]
    both += [(1 & x, "(1 & x)"), (1 | x, "(1 | x)"), (1 ^ x, "(1 ^ x)"), (1 << x, "(1 << x)"), (1 >> x, "(1 >> x)")]
    for pattern, text in both:
        assert repr(pattern) == text


def test_the_truth_of_a_pattern_is_not_asked():
    with pytest.raises(RuleError, match="0 < c0\\) is neither true nor false") as caught:
        Rule(x + c0, x, when=c0 > 0 and c0 < 9, on=INTS)
    assert "& | ~" in caught.value.fix
    with pytest.raises(RuleError, match="neither true nor false"):
        0 < c0 < 9  # noqa: B015


def test_the_order_is_strict_and_transitive_on_the_rules_sides():
    sides = [part for rule in ALGEBRA for part in (rule.before, rule.after)]
    for side in sides:
        assert not is_larger(side, side)
    smaller = {(a, b) for a in sides for b in sides if is_larger(a, b)}
    assert not any((b, a) in smaller for a, b in smaller)
    rng = random.Random(0)
    for _ in range(20000):
        a, b, c = rng.choice(sides), rng.choice(sides), rng.choice(sides)
        if (a, b) in smaller and (b, c) in smaller:
            assert (a, c) in smaller


def test_a_rule_whose_replacement_names_something_unbound_is_refused():
    with pytest.raises(RuleError, match="x \\+ 0\\) -> y: y is not on the left side"):
        Rule(x + 0, y, on=INTS)
    with pytest.raises(RuleError, match="c0 and y are not on the left side"):
        Rule(x + 0, y, when=c0 > 0, on=INTS)


def test_a_rule_that_matches_everything_is_refused():
    with pytest.raises(RuleError, match="x matches everything"):
        Rule(x, 0)


def test_a_pattern_of_something_else_is_refused():
    with pytest.raises(RuleError, match="neither a pattern nor a number"):
        x + "one"
