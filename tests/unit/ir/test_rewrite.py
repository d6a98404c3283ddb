"""Rules as data and as functions, how they compile, and what the driver does with them."""

import pytest

from whit.dtype import dtypes
from whit.errors import RuleError
from whit.ir import UOp, ops
from whit.ir.pattern import anything, constant, divides
from whit.ir.rewrite import counting, rewrite, rewrite_all, tracing
from whit.ir.rules import INDEX, INTS, Rule, Rules, function_rule
from whit.ir.uop import const, live_nodes, make

x, y = anything("x"), anything("y")
c0, c1 = constant("c0"), constant("c1")

add_zero = Rule(x + 0, x, on=INTS)
times_one = Rule(x * 1, x, on=INTS)
exact = Rule((x * c0) // c1, x * (c0 // c1), when=(c1 > 0) & divides(c1, c0), on=INDEX)
whole = Rule((x // c0) * c0 + x % c0, x, on=INDEX)
BASIC = Rules("basic", [add_zero, times_one, exact, whole])

v = UOp.variable("v", 0, 100)
w = UOp.variable("w", 0, 100)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((v + 0) * 1, v),
        (0 + v, v),  # either order of a commutative op
        ((v * 8) // 4, v * 2),
        ((8 * v) // 4, v * 2),
        ((v * 8) // 3, (v * 8) // 3),
        ((v // 7) * 7 + v % 7, v),
        (v % 7 + 7 * (v // 7), v),
        ((v // 7) * 7 + w % 7, (v // 7) * 7 + w % 7),  # x must be the same node in both places
        ((v // 7) * 5 + v % 7, (v // 7) * 5 + v % 7),
        ((v * 4) // 4, v),  # a replacement is rewritten again
    ],
)
def test_rules_rewrite_to_a_fixpoint(before, after):
    assert rewrite(before, BASIC) is after


def test_operands_that_occur_twice_are_found_in_either_order():
    again = Rules("again", [Rule((x + y) * y, x, on=INTS)])
    for inner in (v + w, w + v):
        assert rewrite(inner * w, again) is v
        assert rewrite(w * inner, again) is v


def test_a_rule_applies_only_to_its_dtypes():
    a = UOp.param(0, dtypes.int32)
    assert rewrite((a * 8) // 4, BASIC) is (a * 8) // 4
    assert rewrite(a + 0, BASIC) is a
    f = UOp.param(0, dtypes.float32)
    assert rewrite(f + 0.0, BASIC) is f + 0.0


def test_computed_constants_of_fixed_width_wrap():
    twice = Rules("twice", [Rule((x + c0) + c1, x + (c0 + c1), on=INTS)])
    a = UOp.param(0, dtypes.int8)
    assert rewrite((a + 100) + 100, twice) is a + (-56)


def test_in_single_pass_mode_each_node_is_rewritten_at_most_once():
    halve = Rules("halve", [Rule(x // c0, x // (c0 - 1), when=c0 > 1, on=INDEX)])
    assert rewrite(v // 5, halve, once=True) is v // 4
    assert rewrite(v // 5, halve) is v // 1


def test_sources_are_rewritten_before_their_users():
    order = []

    @function_rule(ops.ADD, ops.MUL)
    def see(node):
        order.append(node)

    graph = (v + 1) * (v + 2)
    rewrite(graph, Rules("see", [see]))
    assert order == [v + 1, v + 2, graph]


def test_a_function_rule_may_ask_for_the_context():
    @function_rule(ops.VARIABLE)
    def substitute(node, context):
        return context.get(node)

    assert rewrite(v + w, Rules("substitute", [substitute]), {v: w}) is w + w


def test_function_bodies_are_left_alone_unless_asked_for():
    p = UOp.param(0, dtypes.weakint)
    call = (p + 0).function("f").call(v + 0)
    untouched = rewrite(call, BASIC)
    assert untouched is (p + 0).function("f").call(v)
    assert rewrite(call, BASIC, enter_functions=True) is p.function("f").call(v)


def test_rule_sets_join_in_order():
    first = Rules("first", [Rule(x + y, x * y, on=INTS)])
    second = Rules("second", [Rule(x + 0, x, on=INTS)])
    assert rewrite(v + 0, first + second) is v * 0
    assert rewrite(v + 0, second + first) is v
    assert (second + first).without(second.rules[0]).rules == first.rules


def test_what_replaced_what_is_returned_for_every_node():
    a, b = v + 0, (w * 1) + 0
    became = rewrite_all((a, b), BASIC)
    assert became[a] is v
    assert became[b] is w
    assert became[w * 1] is w


def test_the_compiled_source_can_be_read():
    source = BASIC.source(ops.FLOORDIV, dtypes.weakint)
    assert "# x*c0//c1 -> x*(c0//c1) when ((0 < c1) & divides(c1, c0))" in source
    assert "if src[1].op is CONST:" in source
    compile(source, "rules", "exec")


def test_a_trace_has_every_step_with_rule_and_line():
    with tracing() as steps:
        rewrite((v * 4) // 4 + 0, BASIC)
    assert [(step.rule, step.before, step.after) for step in steps] == [
        (exact, (v * 4) // 4, v * 1),
        (times_one, v * 1, v),
        (add_zero, v + 0, v),
    ]
    assert "test_rewrite.py:" in str(steps[0])
    assert "v*4//4  ->  v*1" in str(steps[0])


def test_counts_have_attempts_and_hits_of_every_rule_tried():
    with counting() as counts:
        rewrite((v * 8) // 3 + 0, BASIC)
    assert (counts.by_rule[exact].attempts, counts.by_rule[exact].hits) == (1, 0)
    assert (counts.by_rule[add_zero].attempts, counts.by_rule[add_zero].hits) == (1, 1)
    assert counts.by_rule[exact].seconds > 0
    assert "(x + 0) -> x" in str(counts)


def test_watched_and_plain_rewriting_agree():
    graph = ((v * 8) // 4 + 0) * 1 + (w // 3) * 3 + w % 3
    plain = rewrite(graph, BASIC)
    with tracing(), counting():
        assert rewrite(graph, BASIC) is plain


def test_tracing_ends_with_its_block():
    with tracing() as steps:
        pass
    rewrite(v + 0, BASIC)
    assert steps == []


@pytest.mark.parametrize(
    "rules",
    [
        [Rule(x + y, y * x, on=INTS), Rule(x * y, x + y, on=INTS)],  # undo each other
        [Rule(x + y, (x + y) * 1, on=INTS)],  # contains itself
        [Rule(x + y, y + x, on=INTS)],  # turns around
        [Rule(x + c0, x + (c0 + 1), on=INTS)],  # goes on for ever
    ],
    ids=["undo", "contain", "turn", "grow"],
)
def test_rules_that_loop_are_named(rules):
    with pytest.raises(RuleError, match="never come to an end") as caught:
        rewrite(v + 3, Rules("loops", rules))
    for rule in rules:
        assert rule.name in caught.value.details
    assert "test_rewrite.py:" in caught.value.details


def test_an_exception_in_a_rule_comes_through_and_leaves_nothing_behind():
    @function_rule(ops.ADD)
    def broken(node):
        raise KeyError("broken")

    before = live_nodes()
    with pytest.raises(KeyError):
        rewrite(v + 12345, Rules("broken", [broken]))
    assert live_nodes() <= before


@pytest.mark.slow
def test_deep_graphs_are_rewritten_without_recursion():
    graph = v
    for i in range(100_000):
        graph = graph + 0 if i % 2 else make(ops.MAX, (graph, const(dtypes.weakint, i)))
    result = rewrite(graph, BASIC)
    assert len(result.topological()) == 100_001
