"""Floor division and modulo of index expressions by a positive constant.

    (x*8 + y) // 4      ->  x*2 + y//4                     multiples come out
    (x*4 + r) // 8      ->  x//2          0 <= r < 4        what is too small to matter is dropped
    (x*6 + 4) % 8       ->  (x*3 + 2)%4 * 2                 a common factor comes out
    (x*9 + y) % 8       ->  (x + y) % 8                     coefficients are reduced
    (x % 12) // 3       ->  x//3 % 4                        quotients before remainders

Index arithmetic is unbounded, so these hold for all integers; `tests/rules` and z3 check them.
"""

from __future__ import annotations

from math import gcd

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.rules import INDEX, function_rule
from whit.ir.uop import UOp, const, make
from whit.simplify.bounds import bounds
from whit.simplify.sums import Terms, build_sum, is_long, linear_form, reach_of


def _positive_divisor(node: UOp) -> int | None:
    divisor = node.src[1]
    return divisor.arg if divisor.op is ops.CONST and divisor.arg > 0 else None


def _index_sum(terms: Terms, offset: int) -> UOp:
    return build_sum(terms, offset, dtypes.weakint)


def _quotient(value: UOp, divisor: int) -> UOp:
    return value if divisor == 1 else make(ops.FLOORDIV, (value, const(dtypes.weakint, divisor)))


def _remainder(value: UOp, divisor: int) -> UOp:
    return make(ops.FLOORMOD, (value, const(dtypes.weakint, divisor)))


def _split_small(terms: Terms, offset: int, divisor: int) -> tuple[int, Terms, Terms, int] | None:
    """g, big, small, offset of small: a factor g of the divisor so that sum = g*big + small and 0 <= small < g.

    The offset is shared: its multiples of g go with the big part.
    """
    factors = {gcd(coefficient, divisor) for coefficient in terms.values()}
    for g in sorted(factors, reverse=True):
        if g == 1:
            break
        small = {base: c for base, c in terms.items() if c % g}
        if len(small) == len(terms):
            continue
        rest = offset % g
        reach = reach_of(small, rest)
        if reach is not None and reach[0] >= 0 and reach[1] < g:
            big = {base: c // g for base, c in terms.items() if c % g == 0}
            return g, big, small, rest
    return None


@function_rule(ops.FLOORDIV, on=INDEX)
def divide_sum(node: UOp) -> UOp | None:
    """(x*8 + y + 5) // 4 -> x*2 + (y + 1)//4 + 1"""
    divisor = _positive_divisor(node)
    numerator = node.src[0]
    if divisor is None or divisor == 1:
        return None
    if numerator.op is not ops.ADD and numerator.op is not ops.MUL:
        return _divide_single(numerator, divisor)
    terms, offset = linear_form(numerator)
    whole = {base: c // divisor for base, c in terms.items() if c % divisor == 0}
    if whole or not 0 <= offset < divisor:
        rest = {base: c for base, c in terms.items() if c % divisor}
        inner = _quotient(_index_sum(rest, offset % divisor), divisor)
        return _index_sum(whole, offset // divisor) + inner if whole else inner + offset // divisor
    common = gcd(divisor, *terms.values())
    if common > 1:
        scaled = {base: c // common for base, c in terms.items()}
        return _quotient(_index_sum(scaled, offset // common), divisor // common)
    split = _split_small(terms, offset, divisor)
    if split is None:
        return None
    g, big, _, rest_offset = split
    return _quotient(_index_sum(big, (offset - rest_offset) // g), divisor // g)


def _divide_single(numerator: UOp, divisor: int) -> UOp | None:
    if numerator.op is ops.FLOORDIV:
        inner = _positive_divisor(numerator)
        return _quotient(numerator.src[0], inner * divisor) if inner is not None else None
    if numerator.op is ops.FLOORMOD:
        modulus = _positive_divisor(numerator)
        if modulus is not None and modulus % divisor == 0 and modulus != divisor:
            return _remainder(_quotient(numerator.src[0], divisor), modulus // divisor)
    return None


@function_rule(ops.FLOORDIV, ops.FLOORMOD, on=INDEX)
def one_period(node: UOp) -> UOp | None:
    """x // 4 -> 2 and x % 4 -> x - 8 where 8 <= x < 12"""
    divisor = _positive_divisor(node)
    reach = bounds(node.src[0])
    if divisor is None or reach is None:
        return None
    period = reach[0] // divisor
    if period != reach[1] // divisor:
        return None
    return const(dtypes.weakint, period) if node.op is ops.FLOORDIV else node.src[0] + (-period * divisor)


@function_rule(ops.FLOORMOD, on=INDEX)
def reduce_modulo(node: UOp) -> UOp | None:
    """(x*9 + y%16 + 11) % 8 -> (x + y + 3) % 8"""
    divisor = _positive_divisor(node)
    if divisor is None or divisor == 1:
        return None
    terms, offset = linear_form(node.src[0])
    reduced: Terms = {}
    for base, coefficient in terms.items():
        factor = coefficient % divisor
        if factor:
            inner = _without_remainder(base, factor, divisor)
            reduced[inner] = reduced.get(inner, 0) + factor
    small_offset = offset % divisor
    if reduced != terms or small_offset != offset:
        return _remainder(_index_sum(reduced, small_offset), divisor)
    known = _known_period(terms, offset, divisor)
    return _factor_modulo(terms, offset, divisor) if known is None else known


def _without_remainder(base: UOp, factor: int, divisor: int) -> UOp:
    """x of a term (x % 16) * factor modulo a divisor of 16 * factor; not for long sums: n remainders inside one another
    would become n sums of up to n terms."""
    modulus = _positive_divisor(base) if base.op is ops.FLOORMOD else None
    is_multiple = modulus is not None and factor * modulus % divisor == 0
    return base.src[0] if is_multiple and not is_long(base.src[0]) else base


def _known_period(terms: Terms, offset: int, divisor: int) -> UOp | None:
    """x*7 % 8 -> (x*-1) % 8 -> x*-1 + 8, only where that decides the period."""
    if not any(2 * c > divisor for c in terms.values()):
        return None
    signed = {base: c - divisor if 2 * c > divisor else c for base, c in terms.items()}
    reach = reach_of(signed, offset)
    if reach is None or reach[0] // divisor != reach[1] // divisor:
        return None
    return _index_sum(signed, offset - reach[0] // divisor * divisor)


def _factor_modulo(terms: Terms, offset: int, divisor: int) -> UOp | None:
    common = gcd(divisor, *terms.values())
    if common > 1 and terms:
        scaled = _index_sum({base: c // common for base, c in terms.items()}, offset // common)
        return _remainder(scaled, divisor // common) * common + offset % common
    split = _split_small(terms, offset, divisor)
    if split is None:
        return None
    g, big, small, rest = split
    return _remainder(_index_sum(big, (offset - rest) // g), divisor // g) * g + _index_sum(small, rest)


@function_rule(ops.FLOORDIV, ops.FLOORMOD, on=INDEX)
def positive_divisor(node: UOp) -> UOp | None:
    """x // -4 -> (x*-1) // 4 and x % -4 -> ((x*-1) % 4)*-1"""
    value, divisor = node.src
    if divisor.op is not ops.CONST or divisor.arg >= 0:
        return None
    flipped = make(node.op, (value * -1, const(dtypes.weakint, -divisor.arg)))
    return flipped if node.op is ops.FLOORDIV else flipped * -1


@function_rule(ops.CDIV, ops.CMOD, on=INDEX)
def truncating_to_floor(node: UOp) -> UOp | None:
    """cdiv(x, 4) -> x // 4 and cmod(x, 4) -> x % 4 where both are not negative"""
    value, divisor = bounds(node.src[0]), bounds(node.src[1])
    if value is None or divisor is None or value[0] < 0 or divisor[0] < 0:
        return None
    return make(ops.FLOORDIV if node.op is ops.CDIV else ops.FLOORMOD, node.src)
