"""Simplification under a condition.

A gated access reads its index only where the gate holds. So inside the index, whatever the gate says may be taken as
known, and clauses of the gate that are always true can go:

    index (r0 - 2) % 8, gate (1 < r0) & (r0 < 10)      ->      index r0 - 2, same gate

The gate is a conjunction. A clause `sum < limit` narrows the bounds of `sum`. The narrowed expression is replaced by a
stand-in variable with those bounds, the index is simplified, and the stand-in replaced back.
"""

from __future__ import annotations

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.graph import joined
from whit.ir.interval import Interval
from whit.ir.uop import UOp, const
from whit.simplify.bounds import bounds
from whit.simplify.rules import simplify
from whit.simplify.sums import build_sum, linear_form


def conjunction(parts: list[UOp]) -> UOp:
    """All of them."""
    gate = const(dtypes.bool, True)
    for i, part in enumerate(parts):
        gate = part if i == 0 else gate & part
    return gate


def narrowed(gate: UOp) -> dict[UOp, Interval]:
    """Bounds that hold wherever the gate does, for the expressions its clauses speak about."""
    known: dict[UOp, Interval] = {}
    for clause in joined(gate, ops.AND):
        for expression, interval in _facts(clause):
            low, high = known.get(expression) or bounds(expression) or interval
            known[expression] = max(low, interval[0]), min(high, interval[1])
    return known


def _facts(clause: UOp) -> list[tuple[UOp, Interval]]:
    """What one clause says: sum < c, not (sum < c), sum == c."""
    negated = clause.op is ops.NOT
    inner = clause.src[0] if negated else clause
    if inner.op not in (ops.LT, ops.EQ) or inner.src[0].dtype is not dtypes.weakint:
        return []
    left, right = inner.src
    reach = bounds(left)
    if right.op is not ops.CONST or reach is None:
        return []
    if inner.op is ops.EQ:
        if negated:
            return []
        low = high = right.arg
    else:
        low, high = (right.arg, reach[1]) if negated else (reach[0], right.arg - 1)
    terms, offset = linear_form(left)
    if next(iter(terms.values()), 1) > 0:
        return [(left, (low, high))]
    # x*-1 < c says something about x, and (x*-1 + y) < c about x - y: lower and upper limits are about one expression
    flipped = build_sum({base: -c for base, c in terms.items()}, -offset, dtypes.weakint)
    return [(flipped, (-high, -low))]


def simplify_valid(index: UOp, gate: UOp) -> UOp:
    """The index in a simpler form that is equal wherever the gate holds."""
    index, gate = simplify(index), simplify(gate)
    if gate is const(dtypes.bool, False):
        return const(dtypes.weakint, 0)
    for expression, (low, high) in narrowed(gate).items():
        if low > high:
            return const(dtypes.weakint, 0)  # the gate never holds
        if low == high:
            index = simplify(_replace(index, expression, const(dtypes.weakint, low)))
            continue
        stand_in = UOp.variable(f"{expression.expression(20)} in {low}..{high}", low, high)
        index = simplify(_replace(index, expression, stand_in)).substitute({stand_in: expression})
        index = simplify(index)
    return index


def _replace(index: UOp, expression: UOp, stand_in: UOp) -> UOp:
    """The index with the expression replaced, also where it is part of a longer sum; ranges stay the loops they are."""
    nodes = index.topological()
    replaced = {node: node for node in nodes if node.op is ops.RANGE}
    if expression.op is not ops.ADD:
        return index.substitute({**replaced, expression: stand_in})
    wanted, _ = linear_form(expression)
    first = next(iter(wanted))
    for node in nodes:
        if node.op is ops.ADD and node.dtype is dtypes.weakint:
            terms, offset = linear_form(node)
            times = terms.get(first, 0) // wanted[first]
            if times and all(terms.get(base) == times * coefficient for base, coefficient in wanted.items()):
                rest = {base: c for base, c in terms.items() if base not in wanted}
                replaced[node] = build_sum({**rest, stand_in: times}, offset, dtypes.weakint)
    return index.substitute(replaced)


def drop_true_clauses(gate: UOp) -> UOp:
    """The gate without the clauses that bounds prove, given the others."""
    parts = joined(simplify(gate), ops.AND)
    kept: list[UOp] = []
    for i, clause in enumerate(parts):
        others = conjunction(kept + parts[i + 1 :])
        if not _implied(clause, others):
            kept.append(clause)
    return simplify(conjunction(kept))


def _implied(clause: UOp, others: UOp) -> bool:
    known = narrowed(others)
    for expression, (low, high) in known.items():
        if low > high:
            return False
        for said, (said_low, said_high) in _facts(clause):
            if said is expression and said_low <= low and high <= said_high:
                return True
    return False
