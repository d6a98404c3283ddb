"""Canonical sums of integers.

    y*2 + (3 + x) + y   ->   x + y*3 + 3

A sum is a chain `((t0 + t1) + t2) + offset`, its terms in the order of `order.py`, each `base` or `base*coefficient`,
no base twice, the constant last. Quotient and remainder of the same division find each other on the way:

    (x//c)*c + x%c  ->  x            ((x//c)%d)*c + x%c  ->  x % (c*d)

Holds for wrapping integers too (except the recombination, which is for index arithmetic only).
"""

from __future__ import annotations

from whit.dtype import DType, dtypes, wrap
from whit.ir import ops
from whit.ir.interval import Interval
from whit.ir.rules import INTS, function_rule
from whit.ir.uop import UOp, const, make
from whit.simplify.bounds import bounds
from whit.simplify.order import order

Terms = dict[UOp, int]  # base -> coefficient
LONGEST = 64  # terms that a sum may have to be put in order as it grows; longer ones wait for `settle`


def split_term(node: UOp) -> tuple[UOp, int]:
    """base, coefficient of one term."""
    if node.op is ops.MUL:
        base, factor = node.src
        if factor.op is ops.CONST:
            return base, factor.arg
    return node, 1


def linear_form(node: UOp) -> tuple[Terms, int]:
    """{base: coefficient}, offset of a sum."""
    terms: Terms = {}
    offset = 0
    stack = [node]
    for _ in range(4 * LONGEST):
        if not stack:
            return terms, offset
        part = stack.pop()
        if part.op is ops.ADD:
            left, right = part.src
            stack.append(right)
            stack.append(left)
        elif part.op is ops.CONST:
            offset += part.arg
        else:
            base, coefficient = split_term(part)
            terms[base] = terms.get(base, 0) + coefficient
    return weigh(sum_nodes(node))


def _is_part(node: UOp) -> bool:
    """Whether the node belongs to the inside of a sum: an addition, or a constant times one."""
    if node.op is ops.MUL:
        node, factor = node.src
        return node.op is ops.ADD and factor.op is ops.CONST
    return node.op is ops.ADD


def sum_nodes(head: UOp, most: int | None = None) -> list[UOp]:
    """The inner nodes of a sum, each once, sources before users; nothing if there are more than `most`."""
    return topological((head,), enter=_is_part, most=most)


def weigh(nodes: list[UOp]) -> tuple[Terms, int]:
    """{base: coefficient}, offset of the sum that `sum_nodes` lists. A part that is shared is looked at once."""
    head = nodes[-1]
    dtype = head.dtype
    weights = {head: 1}
    terms: Terms = {}
    offset = 0
    for node in reversed(nodes):
        weight = wrap(dtype, weights[node])
        parts = node.src
        if node.op is ops.MUL:
            total, factor = parts
            weight *= factor.arg
            parts = (total,)
        for part in parts:
            if part.op is ops.CONST:
                offset += weight * part.arg
            elif _is_part(part):
                weights[part] = weights.get(part, 0) + weight
            else:
                base, coefficient = split_term(part)
                terms[base] = terms.get(base, 0) + weight * coefficient
    return {base: c for base, c in terms.items() if wrap(dtype, c)}, offset


def reach_of(terms: Terms, offset: int) -> Interval | None:
    """Bounds of a sum, without building it."""
    low = high = offset
    for base, coefficient in terms.items():
        inside = bounds(base)
        if inside is None:
            return None
        a, b = inside[0] * coefficient, inside[1] * coefficient
        low += min(a, b)
        high += max(a, b)
    return low, high


def build_sum(terms: Terms, offset: int, dtype: DType) -> UOp:
    """The canonical sum of these terms."""
    total: UOp | None = None
    bases = sorted(terms, key=order) if len(terms) > 1 else terms
    for base in bases:
        coefficient = wrap(dtype, terms[base])
        if coefficient == 0:
            continue
        term = base if coefficient == 1 else make(ops.MUL, (base, const(dtype, coefficient)))
        total = term if total is None else make(ops.ADD, (total, term))
    offset = wrap(dtype, offset)
    if total is None:
        return const(dtype, offset)
    return total if offset == 0 else make(ops.ADD, (total, const(dtype, offset)))


@function_rule(ops.ADD, on=INTS)
def canonical_sum(node: UOp) -> UOp | None:
    """y + x*2 + 3 + y -> x*2 + y*2 + 3"""
    left, right = node.src
    if right.op is ops.CONST:
        if left.op is not ops.CONST and (left.op is not ops.ADD or left.src[1].op is not ops.CONST):
            return None
    elif right.op is not ops.ADD:
        last = left.src[1] if left.op is ops.ADD else left
        if last.op is not ops.CONST:
            last_base, new_base = split_term(last)[0], split_term(right)[0]
            if last_base is not new_base and order(last_base) < order(new_base) and not _may_recombine(left, new_base):
                return None
    if _is_longer(left, LONGEST):
        return _append(left, right)
    terms, offset = linear_form(node)
    if node.dtype is dtypes.weakint:
        recombine(terms)
    return build_sum(terms, offset, node.dtype)


def _may_recombine(total: UOp, base: UOp) -> bool:
    """Whether base is half of a division, and the other half may be among the terms."""
    if base.op is not ops.FLOORDIV and base.op is not ops.FLOORMOD:
        return False
    while total.op is ops.ADD:
        total, term = total.src
        if split_term(term)[0].op in (ops.FLOORDIV, ops.FLOORMOD):
            return True
    return split_term(total)[0].op in (ops.FLOORDIV, ops.FLOORMOD)


def _is_longer(node: UOp, limit: int) -> bool:
    for _ in range(limit):
        if node.op is not ops.ADD:
            return False
        node = node.src[0]
    return True


def _append(left: UOp, right: UOp) -> UOp | None:
    """Keeps the constant of a long sum at its end, and merges a term with an equal last one."""
    inner, last = left.src
    if last.op is ops.CONST:
        if right.op is ops.CONST:
            return inner + const(last.dtype, wrap(last.dtype, last.arg + right.arg))
        return (inner + right) + last
    last_base, last_coefficient = split_term(last)
    base, coefficient = split_term(right)
    if base is not last_base or right.op is ops.CONST:
        return None
    return inner + build_sum({base: last_coefficient + coefficient}, 0, left.dtype)


def recombine(terms: Terms) -> None:
    """k*(x%c) + k*c*(x//c) becomes k*x, and k*(x%c) + k*c*((x//c)%d) becomes k*(x % (c*d)); in place."""
    for base in [t for t in terms if t.op is ops.FLOORMOD and t.src[1].op is ops.CONST]:
        coefficient = terms.get(base)
        value, modulus = base.src
        if coefficient is None or modulus.arg <= 0:
            continue
        wanted = coefficient * modulus.arg
        for other in list(terms):
            if terms[other] != wanted or other is base:
                continue
            inner, outer = _quotient_of(other)
            if inner is None or not _is_quotient(inner, value, modulus.arg):
                continue
            whole = value if outer is None else make(ops.FLOORMOD, (value, const(dtypes.weakint, outer * modulus.arg)))
            del terms[base], terms[other]
            terms[whole] = terms.get(whole, 0) + coefficient
            break


def _quotient_of(node: UOp) -> tuple[UOp | None, int | None]:
    """q, None of a quotient q; q, d of q % d."""
    if node.op is ops.FLOORMOD and node.src[1].op is ops.CONST and node.src[1].arg > 0:
        return node.src[0], node.src[1].arg
    return node, None


def _is_quotient(node: UOp, value: UOp, divisor: int) -> bool:
    """Whether node is value // divisor, also where value is itself a quotient: (x//a)//b is written x//(a*b)."""
    if node.op is not ops.FLOORDIV or node.src[1].op is not ops.CONST:
        return False
    numerator, by = node.src
    if numerator is value:
        return bool(by.arg == divisor)
    if value.op is ops.FLOORDIV and value.src[1].op is ops.CONST and value.src[1].arg > 0:
        return numerator is value.src[0] and by.arg == divisor * value.src[1].arg
    return False
