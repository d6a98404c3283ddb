"""The rule set of the simplifier, in the order in which rules are tried at a node."""

from __future__ import annotations

from whit.ir.rewrite import rewrite
from whit.ir.rules import Rules
from whit.ir.uop import UOp
from whit.simplify import compare, divide, fold, products, sums
from whit.simplify.algebra import ALGEBRA
from whit.simplify.settle import settle
from whit.simplify.sums import LongSums

SIMPLIFY = Rules(
    "simplify",
    (
        fold.fold_constants,  # first: everything below may assume that not all operands are constants
        fold.decided_by_bounds,
        *ALGEBRA,
        fold.shorter_cast,
        fold.folded_bitcast,
        fold.idle_mask,
        divide.positive_divisor,
        divide.truncating_to_floor,
        divide.one_period,  # before the sums are taken apart: a bound can end the work
        divide.divide_sum,
        divide.reduce_modulo,
        compare.constant_right,
        compare.cancel_terms,
        compare.less_than_constant,
        compare.equal_constant,
        compare.decided_extreme,
        sums.canonical_sum,
        products.canonical_product,
        fold.ordered_operands,  # last: orders what no other rule has changed
    ),
)


def simplify(root: UOp, rules: Rules = SIMPLIFY) -> UOp:
    """The same value, in fewer and cheaper nodes."""
    long_sums = LongSums()
    result = rewrite(root, rules, long_sums)
    while long_sums.waiting:
        long_sums.waiting = False
        settled = settle(result, long_sums)
        if settled is not result:  # terms that were far apart are neighbours now
            result = rewrite(settled, rules, long_sums)
    return result
