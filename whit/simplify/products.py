"""Canonical products of integers.

    (y*2) * (z*x*3)   ->   x*y*z * 6

A product is a chain `((f0 * f1) * f2) * constant`, its factors in the order of `order.py`, the constant last: it
is the coefficient of a term in a sum. Holds for wrapping integers too.
"""

from __future__ import annotations

from typing import Any

from whit.dtype import wrap
from whit.ir import ops
from whit.ir.rules import INTS, function_rule
from whit.ir.uop import UOp, const, make
from whit.simplify.bounds import LIMIT_BITS
from whit.simplify.order import order
from whit.simplify.sums import note_long_sum, split_term

MOST_FACTORS = 16  # a longer product stays as it is: written out, x squared n times has 2**n factors


@function_rule(ops.MUL, on=INTS)
def canonical_product(node: UOp, context: Any) -> UOp | None:
    """(y*2) * (z*x*3) -> x*y*z * 6"""
    left, right = node.src
    if right.op is ops.CONST:
        if left.op is ops.ADD:  # so long that it was not multiplied out
            note_long_sum(node, context)
        return None
    if left.op is ops.CONST:
        return None
    (left_base, left_factor), (right_base, right_factor) = split_term(left), split_term(right)
    is_affordable = left_factor.bit_length() + right_factor.bit_length() <= LIMIT_BITS
    if is_affordable and (left_base is not left or right_base is not right):
        constant = const(node.dtype, wrap(node.dtype, left_factor * right_factor))
        return make(ops.MUL, (make(ops.MUL, (left_base, right_base)), constant))
    factors = sorted(_factors(node), key=order)
    if len(factors) > MOST_FACTORS or not is_affordable:
        return None if order(left) <= order(right) else make(ops.MUL, (right, left))
    product = factors[0]
    for factor in factors[1:]:
        product = make(ops.MUL, (product, factor))
    return product


def _factors(product: UOp) -> list[UOp]:
    """What is multiplied, or a bit more than MOST_FACTORS of it."""
    found: list[UOp] = []
    stack = [product]
    while stack and len(found) <= MOST_FACTORS:
        part = stack.pop()
        if part.op is ops.MUL and part.src[1].op is not ops.CONST:
            stack.extend(part.src)
        else:
            found.append(part)
    return found
