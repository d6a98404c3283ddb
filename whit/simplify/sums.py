"""Canonical sums of integers.

    y*2 + (3 + x) + y   ->   x + y*3 + 3

A sum is a chain `((t0 + t1) + t2) + offset`, its terms in the order of `order.py`, each `base` or `base*coefficient`,
no base twice, the constant last. Quotient and remainder of the same division find each other on the way:

    (x//c)*c + x%c  ->  x            ((x//c)%d)*c + x%c  ->  x % (c*d)

Holds for wrapping integers too (except the recombination, which is for index arithmetic only).
"""

from __future__ import annotations

from typing import Any

from whit.dtype import DType, dtypes, wrap
from whit.ir import ops
from whit.ir.interval import Interval
from whit.ir.pattern import computed
from whit.ir.rules import INTS, function_rule
from whit.ir.uop import UOp, const, make
from whit.records import dataclass, field
from whit.simplify.bounds import bounds
from whit.simplify.order import order

Terms = dict[UOp, int]  # base -> coefficient
LONGEST_TERMS = 64  # terms that a sum may have to be put in order as it grows; longer ones wait for `settle`


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
    for _ in range(4 * LONGEST_TERMS):
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


def is_part(node: UOp) -> bool:
    """Whether the node belongs to the inside of a sum: an addition, or a constant times one."""
    if node.op is ops.MUL:
        node, factor = node.src
        return node.op is ops.ADD and factor.op is ops.CONST
    return node.op is ops.ADD


def sum_nodes(head: UOp, most: int | None = None) -> list[UOp]:
    """The inner nodes of a sum, each once, sources before users; nothing if there are more than `most`."""
    nodes: list[UOp] = []
    seen: set[UOp | None] = set()
    stack: list[UOp | None] = [head]
    while stack:
        node = stack.pop()
        if node is None:
            nodes.append(stack.pop())  # type: ignore[arg-type]
            continue
        if node in seen or not is_part(node):
            continue
        seen.add(node)
        if most is not None and len(seen) > most:
            return []
        stack += (node, None, *node.src)
    return nodes


def weigh(nodes: list[UOp]) -> tuple[Terms, int]:
    """{base: coefficient}, offset of the sum that `sum_nodes` lists. A part that is shared is looked at once."""
    head = nodes[-1]
    dtype = head.dtype
    weights = {head: 1}  # how often each part occurs in the whole
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
            elif is_part(part):
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


@dataclass(slots=True)
class LongSums:
    """What one run of the rules notes about sums of more than LONGEST_TERMS terms; see `whit.simplify.settle`."""

    waiting: bool = False  # whether one was met that may not be in its final form
    settled: set[UOp] = field(default_factory=set)  # those known to be in it
    effort: int | None = None  # how many more nodes of sums may be looked at


@function_rule(ops.ADD, on=INTS)
def canonical_sum(node: UOp, context: Any) -> UOp | None:
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
    if is_long(left) or is_long(right):
        note_long_sum(node, context)
        return None if node in _settled(context) else _append(left, right)
    terms, offset = linear_form(node)
    if node.dtype is dtypes.weakint:
        recombine(terms)
    return build_sum(terms, offset, node.dtype)


def _settled(context: Any) -> set[UOp]:
    return context.settled if isinstance(context, LongSums) else set()


def note_long_sum(node: UOp, context: Any) -> None:
    """Remembers that a long sum may not be in its final form yet."""
    if isinstance(context, LongSums) and node not in context.settled:
        context.waiting = True


def _may_recombine(total: UOp, base: UOp) -> bool:
    """Whether base is half of a division, and the other half may be among the terms."""
    if not _is_half(base):
        return False
    for _ in range(LONGEST_TERMS):
        if total.op is not ops.ADD:
            return _is_half(split_term(total)[0])
        total, term = total.src
        if _is_half(split_term(term)[0]):
            return True
    return True


def _is_half(base: UOp) -> bool:
    """Whether it is a remainder, a quotient, or one times what it was divided by, if that is no number."""
    if base.op is ops.MUL:
        return base.src[0].op is ops.FLOORDIV or base.src[1].op is ops.FLOORDIV
    return base.op is ops.FLOORDIV or base.op is ops.FLOORMOD


def is_long(node: UOp) -> bool:
    """Whether it is a sum of more than LONGEST_TERMS terms."""
    for _ in range(LONGEST_TERMS):
        if node.op is not ops.ADD:
            return False
        node = node.src[0]
    return True


@computed("is_short")
def is_short(node: UOp) -> bool:
    """For conditions of rules: whether it is not a long sum."""
    return node.op is not ops.ADD or not is_long(node)


def _append(left: UOp, right: UOp) -> UOp | None:
    """Keeps the constant of a long sum at its end, and merges a term with an equal last one."""
    if not is_long(left):
        return right + left  # the left side tells how long it is
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


def recombine(terms: Terms) -> bool:
    """x%c with coefficient k and x//c with coefficient k*c become x; (x//c)%d in the place of x//c becomes x % (c*d).

    Returns whether anything has changed.
    """
    remainders = [t for t in terms if t.op is ops.FLOORMOD]
    if not remainders:
        return False
    symbolic = [t for t in remainders if t.src[1].op is not ops.CONST]
    known = [t for t in remainders if t.src[1].op is ops.CONST and t.src[1].arg > 0]
    changed = _recombine_symbolic(terms, symbolic)
    return _recombine_known(terms, known) or changed


def _recombine_known(terms: Terms, remainders: list[UOp]) -> bool:
    """Where c is a number."""
    partners: dict[tuple[UOp, int], list[UOp]] = {}  # (x, c) -> the terms x//c and (x//c) % d
    for term in terms:
        inner = _quotient_of(term)[0]
        if inner.op is ops.FLOORDIV and inner.src[1].op is ops.CONST:
            partners.setdefault((inner.src[0], inner.src[1].arg), []).append(term)
    changed = False
    for base in remainders:
        coefficient = terms.get(base)
        if coefficient is None:
            continue
        value, modulus = base.src[0], base.src[1].arg
        for other in partners.get(_as_quotient(value, modulus), ()):
            if other is base or terms.get(other) != coefficient * modulus:
                continue
            outer = _quotient_of(other)[1]
            whole = value if outer is None else make(ops.FLOORMOD, (value, const(dtypes.weakint, outer * modulus)))
            del terms[base], terms[other]
            terms[whole] = terms.get(whole, 0) + coefficient
            changed = True
            break
    return changed


def _recombine_symbolic(terms: Terms, remainders: list[UOp]) -> bool:
    """The same where c is no number: x%(8*n) with coefficient k and n*(x//(8*n)) with coefficient 8*k become x."""
    changed = False
    for base in remainders:
        value, divisor = base.src
        part, scale = split_term(divisor)
        wanted = sorted(map(id, [*_factors(part), make(ops.FLOORDIV, (value, divisor))]))
        for other, coefficient in terms.items():
            if (
                coefficient == terms[base] * scale
                and other.op is ops.MUL
                and sorted(map(id, _factors(other))) == wanted
            ):
                factor = terms.pop(base)
                del terms[other]
                terms[value] = terms.get(value, 0) + factor
                changed = True
                break
    return changed


def _factors(node: UOp) -> list[UOp]:
    """What is multiplied."""
    if node.op is not ops.MUL:
        return [node]
    left, right = node.src
    return [*_factors(left), *_factors(right)]


def _quotient_of(node: UOp) -> tuple[UOp, int | None]:
    """q, None of a quotient q; q, d of q % d."""
    if node.op is ops.FLOORMOD and node.src[1].op is ops.CONST and node.src[1].arg > 0:
        return node.src[0], node.src[1].arg
    return node, None


def _as_quotient(value: UOp, divisor: int) -> tuple[UOp, int]:
    """Numerator and divisor of value // divisor as it is written: (x//a) // b is x // (a*b)."""
    if value.op is ops.FLOORDIV and value.src[1].op is ops.CONST and value.src[1].arg > 0:
        return value.src[0], value.src[1].arg * divisor
    return value, divisor
