"""softmax(scores) @ values, written by hand: gradients that need no matrix of weights in memory.

    y = p @ v, p = softmax(s)          written:  ds = p * (dp - sum(p * dp)), dp = dy @ v'
                                       here:     ds = p * (dp - sum(dy * y)), p = exp(s - max - log(sum(exp(s - max))))

Both sums are the same number, but the second is known before the weights are computed again, block by block: nothing of
a row is needed but three numbers (`whit.schedule.stages.attention`). What becomes of weights before they meet values,
as by dropout, may be any multiplication by what has no gradient itself: y has it in it.

Goes in: a product that `@` has just made, and its operands. Comes out: the product, or FORMULA "restated" of the same
value (`whit.tensor.graphs.restate`) where the left operand is a softmax along what is summed.
"""

from __future__ import annotations

from whit.ir import ops
from whit.ir.uop import UOp
from whit.tensor.core import expand_to
from whit.tensor.graphs import formulas
from whit.tensor.graphs.expressions import MOVES, multiplied, operand_of, shares_of_row, steps_to
from whit.tensor.graphs.linear_algebra.contract import product_of, transposed
from whit.tensor.graphs.softmax import broadcast_like, power_of, reduced
from whit.tensor.methods.reduction.reduce import sum_dtype
from whit.transform import Form, derivative
from whit.transform.formulas import RESTATED

MIXED = "mixed"
ENDS_OF_SOFTMAX = frozenset({ops.FDIV, ops.CAST, ops.FORMULA, ops.WHERE, ops.MUL})


def restate_mix(product: UOp, weights: UOp, values: UOp, given: UOp | None = None) -> UOp:
    """weights @ values, with its gradient as above where the weights are a softmax. The values may be a view of what
    was given."""
    if weights.op not in ENDS_OF_SOFTMAX:  # a glance, as most operands are nothing of the kind
        return product
    if min(len(weights.shape), len(values.shape)) < 2 or weights.shape != (*product.shape[:-1], values.shape[-2]):
        return product
    found = shares_of_row(weights)
    if found is None:
        return product
    p, scores = found
    ends = scores, values if given is None else given
    values = expand_to(values, (*product.shape[:-2], *values.shape[-2:]))
    return product.formula(MIXED, weights, p, scores, values).formula(RESTATED, product, *ends)


@derivative(MIXED, Form.LEADING)
def _mixed(y: UOp, dy: UOp, weights: UOp, p: UOp, scores: UOp, values: UOp) -> tuple[UOp | None, ...]:
    power, total = p.src
    away = operand_of(power, "exp")
    assert away is not None, "the weights of MIXED are a softmax"
    total = total.src[0] if total.op is ops.EXPAND else total
    wide = sum_dtype(p.dtype)
    again = power_of(away.cast(wide) - broadcast_like(formulas.log(total.cast(wide)), p), scores)
    return None, None, *mixed_gradients(y, dy, again, steps_to(p, weights), scores, values)


def mixed_gradients(y: UOp, dy: UOp, p: UOp, steps: list[UOp], scores: UOp, values: UOp) -> tuple[UOp, UOp]:
    """The gradients of scores and values, p being the weights before the steps."""
    batch, wide = y.shape[:-2], sum_dtype(y.dtype)
    dy = dy.stage() if _is_spread(dy) else dy  # a product with what is the same everywhere would become a sum
    dy, y, p = (x.cast(wide) for x in (dy, y, p))
    common = reduced(dy * y, ops.ADD, (len(batch) + 1,), keepdim=True)
    away = product_of(dy, transposed(values.cast(wide)), batch)
    weights = p
    for step in steps:
        away, weights = multiplied(away, step), multiplied(weights, step)
    inner = p * (away - broadcast_like(common, away))
    return inner.cast(scores.dtype), product_of(transposed(weights), dy, batch).cast(values.dtype)


def _is_spread(node: UOp) -> bool:
    """Whether a value is made of fewer numbers, as the gradient of a sum or a mean is."""
    while node.op is ops.CAST or node.op in MOVES:
        if node.op is ops.EXPAND:
            return True
        node = node.src[0]
    return node.op is ops.CONST or (node.op.elementwise and all(map(_is_spread, node.src)))
