"""Comparisons of index expressions.

    x + 3 < 10          ->  x < 7                           constants to the right
    x*4 + y*8 < 10      ->  x + y*2 < 3                     a common factor divides out
    x*4 + r < 8         ->  x < 2          0 <= r < 4       what is too small to matter is dropped
    x // 4 < 3          ->  x < 12
    x + y < y + 10      ->  x < 10                          what stands on both sides is dropped

Index arithmetic is unbounded, so these hold for all integers.
"""

from __future__ import annotations

from math import gcd

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.rules import INDEX, function_rule
from whit.ir.uop import UOp, const, make
from whit.simplify.bounds import bounds
from whit.simplify.sums import Terms, build_sum, linear_form, reach_of

FALSE = const(dtypes.bool, False)


@function_rule(ops.LT, ops.EQ, on=INDEX)
def cancel_terms(node: UOp) -> UOp | None:
    """x + y < y + 10 -> x < 10, and true where x is always below 10"""
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
    limit = const(dtypes.weakint, other_offset - offset)
    return make(node.op, (build_sum(terms, 0, dtypes.weakint), limit))


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
    if common == 0:
        return None  # a long sum whose terms cancel out
    if common > 1:
        scaled = {base: c // common for base, c in terms.items()}
        return build_sum(scaled, 0, dtypes.weakint) < -(-limit // common)
    return _drop_small(terms, limit)


def _drop_small(terms: Terms, limit: int) -> UOp | None:
    """big*g + small < q*g + r, with 0 <= small < g: small decides nothing when it stays on one side of r."""
    for g in _large_coefficients(terms):
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


def _large_coefficients(terms: Terms) -> list[int]:
    """The coefficients, largest first, that exceed what all terms with smaller ones can add up to.

    Only these can be the g of `_drop_small`. Each is larger than the sum of those below, so that there are few.
    """
    by_size = sorted(terms.items(), key=lambda term: abs(term[1]))
    found: list[int] = []
    below = spread = previous = 0  # how far apart the values of all smaller terms can be, and of those of equal size
    for base, coefficient in by_size:
        g = abs(coefficient)
        if g != previous:
            below, spread, previous = below + spread, 0, g
            if g > 1 and below < g:
                found.append(g)
        reach = bounds(base)
        if reach is None:
            break
        spread += g * (reach[1] - reach[0])
    return found[::-1]


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
    if common == 0:
        return None  # a long sum whose terms cancel out
    if right.arg % common:
        return FALSE
    if common > 1:
        scaled = {base: c // common for base, c in terms.items()}
        return build_sum(scaled, 0, dtypes.weakint).eq(right.arg // common)
    if next(iter(terms.values())) > 0:
        return None
    negated = {base: -c for base, c in terms.items()}  # one sign, whichever side it came from
    return build_sum(negated, 0, dtypes.weakint).eq(-right.arg)


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
