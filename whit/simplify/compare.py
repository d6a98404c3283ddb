"""Comparisons of index expressions.

x + 3 < 10          ->  x < 7                          constants to the right
x*4 + y*8 < 10      ->  x + y*2 < 3                     a common factor divides out
x*4 + r < 8         ->  x < 2          0 <= r < 4        what is too small to matter is dropped
x // 4 < 3          ->  x < 12
x < y + 10          ->  true           where bounds of x - y decide
"""

from __future__ import annotations

from math import gcd

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.rules import INDEX, function_rule
from whit.ir.uop import UOp, const
from whit.simplify.bounds import bounds
from whit.simplify.sums import Terms, build_sum, linear_form, reach_of

TRUE = const(dtypes.bool, True)
FALSE = const(dtypes.bool, False)


@function_rule(ops.LT, ops.EQ, on=INDEX)
def decide_by_difference(node: UOp) -> UOp | None:
    """x < y + 10 -> true where x - y is always below 10"""
    left, right = node.src
    if right.op is ops.CONST:
        return None
    terms, offset = linear_form(left)
    others, other_offset = linear_form(right)
    if not others.keys() & terms.keys():
        return None
    for base, coefficient in others.items():
        terms[base] = terms.get(base, 0) - coefficient
        if terms[base] == 0:
            del terms[base]
    reach = reach_of(terms, offset - other_offset)
    if reach is None:
        return None
    if node.op is ops.LT:
        return TRUE if reach[1] < 0 else FALSE if reach[0] >= 0 else None
    return TRUE if reach == (0, 0) else FALSE if reach[0] > 0 or reach[1] < 0 else None


@function_rule(ops.LT, on=INDEX)
def less_than_constant(node: UOp) -> UOp | None:
    """x*4 + 3 < 10 -> x < 2"""
    left, right = node.src
    if right.op is not ops.CONST or left.op is ops.CONST:
        return None
    limit: int = right.arg
    if left.op is ops.FLOORDIV and left.src[1].op is ops.CONST and left.src[1].arg > 0:
        factor: int = left.src[1].arg
        return left.src[0] < limit * factor
    if left.op is not ops.ADD and left.op is not ops.MUL:
        return None
    terms, offset = linear_form(left)
    if offset:
        return build_sum(terms, 0, dtypes.weakint) < limit - offset
    common = gcd(*terms.values())
    if common > 1:
        scaled = {base: c // common for base, c in terms.items()}
        return build_sum(scaled, 0, dtypes.weakint) < -(-limit // common)
    return _drop_small(terms, limit)


def _drop_small(terms: Terms, limit: int) -> UOp | None:
    """big*g + small < q*g + r, with 0 <= small < g: small decides nothing when it stays on one side of r."""
    for g in sorted({abs(c) for c in terms.values()}, reverse=True):
        if g == 1:
            break
        small = {base: c for base, c in terms.items() if c % g}
        reach = reach_of(small, 0)
        if not small or reach is None or reach[0] < 0 or reach[1] >= g:
            continue
        quotient, rest = divmod(limit, g)
        if reach[0] < rest <= reach[1]:
            continue
        big = build_sum({base: c // g for base, c in terms.items() if c % g == 0}, 0, dtypes.weakint)
        return big < quotient + (reach[1] < rest)
    return None


@function_rule(ops.EQ, on=INDEX)
def equal_constant(node: UOp) -> UOp | None:
    """x*4 + 3 == 11 -> x == 2, and false where the factor does not divide"""
    left, right = node.src
    if right.op is not ops.CONST or (left.op is not ops.ADD and left.op is not ops.MUL):
        return None
    terms, offset = linear_form(left)
    if not terms:
        return None
    if offset:
        return build_sum(terms, 0, dtypes.weakint).eq(right.arg - offset)
    common = gcd(*terms.values())
    if right.arg % common:
        return FALSE
    if common > 1:
        scaled = {base: c // common for base, c in terms.items()}
        return build_sum(scaled, 0, dtypes.weakint).eq(right.arg // common)
    (base, coefficient), *more = terms.items()
    return base.eq(-right.arg) if not more and coefficient == -1 else None


@function_rule(ops.LT, on=INDEX)
def constant_right(node: UOp) -> UOp | None:
    """3 < x -> x*-1 < -3"""
    left, right = node.src
    if left.op is not ops.CONST or right.op is ops.CONST:
        return None
    return right * -1 < const(dtypes.weakint, -left.arg)


@function_rule(ops.MAX, ops.MIN, on=INDEX)
def decided_extreme(node: UOp) -> UOp | None:
    """max(x, y) -> x where x is never below y"""
    left, right = node.src
    a, b = bounds(left), bounds(right)
    if a is None or b is None:
        return None
    larger, smaller = (left, right) if node.op is ops.MAX else (right, left)
    if a[0] >= b[1]:
        return larger
    return smaller if b[0] >= a[1] else None
