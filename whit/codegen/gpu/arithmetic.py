"""Arithmetic that rows of a GPU kernel do with fewer instructions, and what becomes of a product by tensor cores.

    x[r, k] / (sum over k of x[r, k])                      ->  a product with 1 / sum, and the error of that
    exp(x[r, k] - (largest over k of x[r, k])) of halves   ->  exp2((x[r, k] - ...) / ln 2)
    the same of others                                     ->  exp without what is for large x; of a softmax, a
                                                               quotient without what is for small and infinite sums
    sigmoid(a @ b) of halves                               ->  both, without the error
    x[i[r] % n] where 0 <= i[r] < n                        ->  x[i[r]] there

An instruction for quotients has branches, so that those of a row run one after the other; the product and its error
give the same bits but where operands or results are very small (`docs/semantics.md`). What `exp` adds to be exact is
below what is lost where x is a half, or a half becomes of everything.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from whit.codegen.math.functions import exp_not_above_one, expand_sigmoid, expand_tanh, plain_exp
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.graph import joined, topological
from whit.ir.op import Op
from whit.ir.uop import UOp, make
from whit.kernel.attention_form import with_values
from whit.kernel.ranges import free_ranges

SMALL = 2.0**-64


def with_short_arithmetic(body: UOp) -> UOp:
    """The kernel with all of it."""
    body = _without_remainders(body)
    reduces = [node for node in topological((body,)) if node.op is ops.REDUCE and len(node.src) > 1]
    if not reduces:
        return body
    is_short = all(_is_half_precision(store.src[0]) for store in body.src)
    body, powers = _with_short_powers(body, is_short)
    return _with_products(body, is_short, powers)


def _without_remainders(body: UOp) -> UOp:
    """The kernel without remainders of positions that their gates make sure of: views of a table have them."""
    done: dict[UOp, UOp] = {}
    for node in topological((body,)):
        if node.op is ops.INDEX and len(node.src) == 3 and node.arg:
            memory, position, gate = node.src
            clauses = joined(gate, ops.AND)
            known = {
                each: each.src[0]
                for each in position.topological()
                if each.op is ops.FLOORMOD and _is_within(each.src[0], each.src[1], clauses)
            }
            if known:
                done[node] = memory.index(position.substitute(known), gate=gate)
    return with_values(body, done) if done else body


def _is_within(x: UOp, size: UOp, clauses: list[UOp]) -> bool:
    """Whether conditions say that 0 <= x < size."""
    x = x.src[0] if x.op is ops.CAST and x.dtype is dtypes.weakint else x
    lower = [c.src[0].src[1].arg for c in clauses if c.op is ops.NOT and _is_below_number(c.src[0], x)]
    upper = [c.src[1].arg for c in clauses if _is_below_number(c, x)]
    is_known = size.op is ops.CONST and lower and upper
    return bool(is_known) and max(lower) >= 0 and min(upper) <= size.arg


def _is_below_number(clause: UOp, x: UOp) -> bool:
    return clause.op is ops.LT and clause.src[0] is x and clause.src[1].op is ops.CONST


def with_short_epilogue(body: UOp, product: UOp) -> UOp:
    """The kernel with short quotients and powers of a product, if halves become of everything: tensor cores wait while
    these are computed."""
    if not all(_is_half_precision(store.src[0]) for store in body.src):
        return body
    done = {product: product}
    for node in topological((body,), stop=(product,)):
        src = tuple([done[s] for s in node.src])
        if node.op in SHORT and node.dtype is dtypes.float32:
            done[node] = SHORT[node.op](*src)
        else:
            done[node] = node if src == node.src else make(node.op, src, node.arg)
    return done[body]


def _short_quotient(x: UOp, y: UOp) -> UOp:
    return x * make(ops.RECIPROCAL, (y,)) if _is_above_one(y) else _quotient(x, y, is_short=True)


def _is_above_one(node: UOp) -> bool:
    """Whether something is certainly 1 or more: 2**x + 1."""
    pairs = (node.src, node.src[::-1]) if node.op is ops.ADD else ()
    return any(x.op is ops.EXP2 and one.op is ops.CONST and one.arg >= 1 for x, one in pairs)


SHORT: dict[Op, Callable[..., UOp]] = {
    ops.FDIV: _short_quotient,
    ops.EXP: plain_exp,
    ops.SIGMOID: partial(expand_sigmoid, power=plain_exp, divide=_short_quotient),
    ops.TANH: partial(expand_tanh, power=plain_exp, divide=_short_quotient),
}


def _is_half_precision(node: UOp) -> bool:
    return node.dtype.is_float and node.dtype.bitsize <= 16


def _with_short_powers(body: UOp, is_short: bool) -> tuple[UOp, dict[UOp, frozenset[UOp]]]:
    """The kernel, and those of its powers that are certainly 1 at most: with the ranges along which one is 1."""
    names: dict[UOp, UOp] = {}
    powers: dict[UOp, frozenset[UOp]] = {}
    for node in topological((body,)):
        if node.op is not ops.EXP:
            continue
        below = node.topological()
        is_of_row = any(each.op is ops.REDUCE and each.arg.op is ops.MAX for each in below)
        loads = [each for each in below if each.op is ops.INDEX and each.src[1].op is not ops.CONST]
        if is_of_row and (is_short or all(_is_half_precision(load) for load in loads)):
            names[node] = plain_exp(node.src[0])
        elif node.dtype is dtypes.float32 and (along := _below_largest(node.src[0])):
            names[node] = exp_not_above_one(node.src[0])
            powers[names[node]] = along
    return with_values(body, names), powers


def _below_largest(x: UOp) -> frozenset[UOp]:
    """The ranges of which x is v - (largest v along them), or 0; none if it is something else."""
    if x.op is ops.WHERE and x.src[1].op is ops.CONST and x.src[1].arg == 0:
        x = x.src[2]
    if x.op is not ops.SUB:
        return frozenset()
    value, top = x.src
    if top.op is not ops.REDUCE or top.arg.op is not ops.MAX or len(top.src) != 2:
        return frozenset()
    for r in (node for node in value.topological() if node.op is ops.RANGE):
        if top.src[0].substitute({top.src[1]: r}) is value:
            return frozenset((r,))
    return frozenset()


def _with_products(body: UOp, is_short: bool, powers: dict[UOp, frozenset[UOp]]) -> UOp:
    """x / y -> x * (1 / y) and so on, where a row has one y"""
    free = free_ranges(body)
    done: dict[UOp, UOp] = {}
    for node, ranges in free.items():
        src = tuple([done[s] for s in node.src])
        done[node] = node if src == node.src else make(node.op, src, node.arg)
        is_quotient = node.op is ops.FDIV and node.dtype is dtypes.float32
        if is_quotient and free[node.src[1]] < ranges and any(s.op is ops.REDUCE for s in node.src[1].topological()):
            x, y = node.src
            is_sum = y.op is ops.REDUCE and y.arg.op is ops.ADD and powers.get(y.src[0]) == frozenset(y.src[1:])
            numerator, denominator = src
            is_share = is_sum and x in powers
            done[node] = _share(numerator, denominator) if is_share else _quotient(numerator, denominator, is_short)
    return done[body]


def _share(x: UOp, y: UOp) -> UOp:
    """x / y where x is 1 at most, and y between 1 and many of them."""
    inverse = make(ops.RECIPROCAL, (y,))
    product = x * inverse
    return make(ops.FMA, (make(ops.FMA, (-product, y, x)), inverse, product))


def _quotient(x: UOp, y: UOp, is_short: bool) -> UOp:
    scale = (abs(y) < SMALL).where(y.constant(1 / SMALL), 1.0)  # so that 1 / y is a number
    x, y = x * scale, y * scale
    inverse = make(ops.RECIPROCAL, (y,))
    product = x * inverse
    if is_short:
        return product
    error = make(ops.FMA, (-product, y, x))
    return (abs(error) < math.inf).where(make(ops.FMA, (error, inverse, product)), product)
