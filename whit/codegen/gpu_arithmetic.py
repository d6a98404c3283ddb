"""Arithmetic that rows of a GPU kernel do with fewer instructions.

    x[r, k] / (sum over k of x[r, k])                      ->  a product with 1 / sum, and the error of that
    exp(x[r, k] - (largest over k of x[r, k])) of halves   ->  exp2((x[r, k] - ...) / ln 2)

An instruction for quotients has branches, so that those of a row run one after the other; the product and its error
give the same bits but where operands or results are very small (`docs/semantics.md`). What `exp` adds to be exact is
below what is lost where x is a half, or a half becomes of everything.
"""

from __future__ import annotations

import math

from whit.codegen.ranges import free_ranges
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.uop import UOp, make
from whit.simplify.chain import with_values
from whit.simplify.chain_online import power_of

SMALL = 2.0**-64


def with_short_arithmetic(body: UOp) -> UOp:
    """The kernel with both."""
    reduces = [node for node in topological((body,)) if node.op is ops.REDUCE and len(node.src) > 1]
    if not reduces:
        return body
    is_short = all(_is_half(store.src[0]) for store in body.src)
    body = _with_short_powers(body, is_short)
    return _with_products(body, is_short)


def _is_half(node: UOp) -> bool:
    return node.dtype.is_float and node.dtype.bitsize <= 16


def _with_short_powers(body: UOp, is_short: bool) -> UOp:
    names: dict[UOp, UOp] = {}
    for node in topological((body,)):
        power = power_of(node)
        if power is None:
            continue
        below = power.topological()
        is_of_row = any(each.op is ops.REDUCE and each.arg.op is ops.MAX for each in below)
        loads = [each for each in below if each.op is ops.INDEX and each.src[1].op is not ops.CONST]
        if is_of_row and (is_short or all(_is_half(load) for load in loads)):
            names[node] = power
    return with_values(body, names)


def _with_products(body: UOp, is_short: bool) -> UOp:
    """x / y -> x * (1 / y) and so on, where a row has one y"""
    free = free_ranges(body)
    done: dict[UOp, UOp] = {}
    for node, ranges in free.items():
        src = tuple([done[s] for s in node.src])
        done[node] = node if src == node.src else make(node.op, src, node.arg)
        is_quotient = node.op is ops.FDIV and node.dtype is dtypes.float32
        if is_quotient and free[node.src[1]] < ranges and any(s.op is ops.REDUCE for s in node.src[1].topological()):
            done[node] = _quotient(src[0], src[1], is_short)
    return done[body]


def _quotient(x: UOp, y: UOp, is_short: bool) -> UOp:
    scale = (abs(y) < SMALL).where(y.constant(1 / SMALL), 1.0)  # so that 1 / y is a number
    x, y = x * scale, y * scale
    inverse = make(ops.RECIPROCAL, (y,))
    product = x * inverse
    if is_short:
        return product
    error = make(ops.FMA, (-product, y, x))
    return (abs(error) < math.inf).where(make(ops.FMA, (error, inverse, product)), product)
