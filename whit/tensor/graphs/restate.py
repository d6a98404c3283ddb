"""Expressions that overflow where their value does not, said in another way, as they are written.

    1 / (1 + exp(-x))           sigmoid(x)               log(sigmoid(x))         -softplus(-x)
    exp(x) / (1 + exp(x))       sigmoid(x)               log(1 - sigmoid(x))     -softplus(x)
    log(1 + exp(x))             softplus(x)              log(softmax(x))         log_softmax(x)
    exp(x) / sum(exp(x))        softmax(x)               log(sum(exp(x)))        logsumexp(x)
    y * log(x)                  0 where y is             sqrt(sum(x * x))        the same, gradient 0 at 0
    exp(x - logsumexp(x))       softmax(x)

Goes in: a node that a method of Tensor has just made. Comes out: the same node, or FORMULA "restated" (or of another
name, where only the gradient differs) with the better value. That keeps the node as it was written: patterns are found
in it, and a gradient asked for in the middle of it, as that of log(p) by p = sigmoid(x), is one
(`whit.transform.reverse`).
Where what was written is finite, both agree up to rounding. What was realised in between is not looked through.
docs/training.md has the list for users.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from whit.ir import ops
from whit.ir.op import Op
from whit.ir.uop import UOp, make
from whit.tensor.graphs import formulas, trigonometry
from whit.tensor.graphs.expressions import (
    MOVES,
    function_of,
    is_logarithm,
    is_number,
    is_opposite,
    is_shifted,
    is_sum_of_squares,
    logit,
    logs_of_shares,
    negated,
    one_and,
    one_and_exp,
    operand_of,
    quotient,
    shares,
    unmoved,
    unrounded,
    wide,
    written,
)
from whit.tensor.graphs.softmax import log_of_shares, log_softmax, logsumexp, softmax
from whit.transform.formulas import RESTATED

Match = tuple[UOp, tuple[UOp, ...]]  # the better value, and the operands at which the expression ends


def restate(node: UOp) -> UOp:
    """The node, or one of the same value that is right in more places."""
    if node.op in ROOTS:
        return _root(node)
    matchers = MATCHERS.get(node.op)
    if matchers is None or not _is_candidate(node) or node.dtype.saturates or not node.dtype.is_float:
        return node
    for matcher in matchers:
        found = matcher(node)
        if found is not None:
            value, operands = found
            ends = [x.src[0] if x.op is ops.NEG else x for x in operands]  # the minus may have been added here
            return value.cast(node.dtype).formula(RESTATED, node, *ends)
    return node


DIVISORS = frozenset({ops.ADD, ops.CAST, ops.EXPAND, ops.RESHAPE, ops.REDUCE})
FACTORS = frozenset({ops.FORMULA, ops.LOG, ops.SIGMOID, ops.NEG, ops.CAST})


def _is_candidate(node: UOp) -> bool:
    """Whether a matcher could find something. A glance, as most arithmetic is nothing of the kind."""
    if len(node.src) == 1 or node.op is ops.FORMULA:
        return True
    left, right = node.src
    if node.op is ops.FDIV:
        return right.op in DIVISORS or is_number(right, 2.0)
    if node.op is ops.SUB:
        return is_number(left, 1.0) or is_number(right, 1.0)
    if left.op is ops.CONST or right.op is ops.CONST:
        number = left.arg if left.op is ops.CONST else right.arg
        return number in (0.0, 0.5)
    return left.op in FACTORS or right.op in FACTORS


def _stable(expression: str, y: UOp, user: UOp) -> Match | None:
    """An expression of a result y in the form that the record of its op has: log(y), sigmoid(x) -> -softplus(-x)"""
    function = function_of(y)
    if function is None:
        return None
    op, x = function
    form = op.stable.get(expression)
    return None if form is None else (form(formulas, wide(x, user)), (x,))


# ---- quotients


def _tanh(node: UOp) -> Match | None:
    """(exp(x) - exp(-x)) / (exp(x) + exp(-x)) -> tanh(x);  (exp(x) - 1) / (exp(x) + 1) -> tanh(x / 2)"""
    parts = quotient(node)
    over, under = (unrounded(part) for part in parts) if parts is not None else (node, node)
    if over.op is not ops.SUB or under.op is not ops.ADD:
        return None
    return _tanh_of_powers(over, under, node) or _tanh_of_half(over, under, node)


def _tanh_of_powers(over: UOp, under: UOp, node: UOp) -> Match | None:
    left, right = (operand_of(part, "exp") for part in over.src)
    below = {operand_of(part, "exp") for part in under.src}
    if left is None or right is None or below != {left, right} or not is_opposite(left, right):
        return None
    return trigonometry.tanh(wide(left, node)), (left, right)


def _tanh_of_half(over: UOp, under: UOp, node: UOp) -> Match | None:
    exponent = one_and_exp(under)
    left, right = over.src
    for power, one, factor in ((left, right, 0.5), (right, left, -0.5)):
        if exponent is not None and operand_of(power, "exp") is exponent and is_number(one, 1.0):
            return trigonometry.tanh(wide(exponent, node) * factor), (exponent,)
    return None


def _sigmoid(node: UOp) -> Match | None:
    """y / (1 + exp(-x)) -> y * sigmoid(x);  exp(x) / (1 + exp(x)) -> sigmoid(x)"""
    x = logit(node)
    if x is not None:
        return formulas.sigmoid(wide(x, node)), (x,)
    parts = quotient(node)
    exponent = one_and_exp(parts[1]) if parts is not None else None
    if parts is None or exponent is None:
        return None
    y, x = parts[0], negated(exponent)
    if y is x:
        return formulas.silu(wide(x, node)), (x,)
    return wide(y, node) * formulas.sigmoid(wide(x, node)), (y, x)


def _softmax(node: UOp) -> Match | None:
    """exp(x) / sum(exp(x)) -> softmax(x)"""
    found = shares(node)
    if found is None or is_shifted(found[0]):
        return None
    x, axes = found
    return softmax(wide(x, node), axes), (x,)


def _exp(node: UOp) -> Match | None:
    """exp(x - logsumexp(x)) -> softmax(x)"""
    found = logs_of_shares(node.src[0])
    if found is None:
        return None
    x, axes = found
    return softmax(wide(x, node), axes), (x,)


def _sinh(node: UOp) -> Match | None:
    """(exp(x) - exp(-x)) / 2 -> sinh(x);  (exp(x) + exp(-x)) / 2 -> cosh(x)"""
    both, half = node.src if node.op is ops.FDIV or node.src[1].op is ops.CONST else node.src[::-1]
    if not is_number(half, 2.0 if node.op is ops.FDIV else 0.5):
        return None
    both = unrounded(both)
    if both.op not in (ops.ADD, ops.SUB):
        return None
    left, right = (operand_of(part, "exp") for part in both.src)
    if left is None or right is None or not is_opposite(left, right):
        return None
    function = trigonometry.sinh if both.op is ops.SUB else trigonometry.cosh
    return function(wide(left, node)), (left, right)


# ---- logarithms


def _log(node: UOp) -> Match | None:
    """The logarithm of an expression that has a better one."""
    return log_of(node.src[0])


def log_of(node: UOp) -> Match | None:
    """A better logarithm of this node. Rounding and what only moves elements come after it."""
    node = written(node)
    if node.op in MOVES or (node.op is ops.CAST and node.src[0].dtype.is_float):
        found = log_of(node.src[0])
        if found is None or node.op is ops.CAST:
            return found
        return make(node.op, (found[0], *node.src[1:]), node.arg), found[1]
    matcher = LOGARITHMS.get(node.op)
    return matcher(node) if matcher is not None else None


def _log_picked(node: UOp) -> Match | None:
    """log(p[i]) -> log(p)[i], where log(p) has a better form;  p[i] is where(inside, gated index, NaN)"""
    inside, picked, outside = node.src
    if picked.op is not ops.INDEX or not picked.arg or outside.op is not ops.CONST or outside.arg == outside.arg:
        return None
    values, *positions, gate = picked.src
    found = log_of(values) if unmoved(inside) is unmoved(gate) else None
    if found is None:
        return None
    value, ends = found
    return inside.where(make(ops.INDEX, (value, *positions, gate), picked.arg), value.constant(math.nan)), ends


def _log_function(node: UOp) -> Match | None:
    """log(sigmoid(x)) -> -softplus(-x);  log(exp(x)) -> x"""
    return _stable("log(y)", node, node)


def _log_quotient(node: UOp) -> Match | None:
    """log(softmax(x)) -> log_softmax(x);  log(x / c) -> log(x) - log(c), where log(x) has a better form"""
    found = shares(node)
    if found is not None:
        x, axes = found
        operand = wide(x, node)
        return (log_of_shares if is_shifted(x) else log_softmax)(operand, axes), (x,)
    if node.op is ops.FDIV and node.src[1].op is ops.CONST and 0 < node.src[1].arg < math.inf:
        inner = log_of(node.src[0])
        return None if inner is None else (inner[0] - math.log(node.src[1].arg), inner[1])
    return _log_function(node)


def _log_add(node: UOp) -> Match | None:
    """log(1 + exp(x)) -> softplus(x);  log(exp(x) + exp(y)) -> logaddexp(x, y);  log(1 + x) -> log1p(x)"""
    other = one_and(node)
    found = _stable("log(1 + y)", other, node) if other is not None else None
    if found is not None:
        return found
    left, right = (operand_of(part, "exp") for part in node.src)
    if left is not None and right is not None and left.dtype is right.dtype:
        return formulas.logaddexp(wide(left, node), wide(right, node)), (left, right)
    return None if other is None else (formulas.log1p(wide(other, node)), (other,))


def _log_less(node: UOp) -> Match | None:
    """log(1 - sigmoid(x)) -> -softplus(x);  log(1 - x) -> log1p(-x)"""
    other = one_and(node, ops.SUB)
    if other is None:
        return None
    return _stable("log(1 - y)", other, node) or (formulas.log1p(-wide(other, node)), (other,))


def _log_sum(node: UOp) -> Match | None:
    """log(sum(exp(x))) -> logsumexp(x)"""
    x = operand_of(node.src[0], "exp") if node.arg.op is ops.ADD else None
    if x is None or is_shifted(x):
        return None
    return logsumexp(wide(x, node), node.arg.axes), (x,)


def _log1p(node: UOp) -> Match | None:
    """log1p(exp(x)) -> softplus(x);  log1p(-sigmoid(x)) -> -softplus(x)"""
    if node.arg.name != "log1p":
        return None
    inner = node.src[1]
    if inner.op is ops.NEG:
        return _stable("log(1 - y)", inner.src[0], node)
    return _stable("log(1 + y)", inner, node)


# ---- differences and products


def _expm1(node: UOp) -> Match | None:
    """exp(x) - 1 -> expm1(x);  1 - exp(x) -> -expm1(x)"""
    left, right = node.src
    if is_number(right, 1.0):
        return _stable("y - 1", left, node)
    found = _stable("y - 1", right, node) if is_number(left, 1.0) else None
    return None if found is None else (-found[0], found[1])


def _times_log(node: UOp) -> Match | None:
    """y * log(x) -> 0 where y is 0, unless x is NaN"""
    for factor, other in (node.src, node.src[::-1]):
        is_negative, logarithm = other.op is ops.NEG, other.src[0] if other.op is ops.NEG else other
        if (factor.op is ops.CONST and factor.arg != 0) or not is_logarithm(logarithm):
            continue
        y, best = wide(factor, node), logarithm
        while best.op is ops.CAST or (best.op is ops.FORMULA and best.arg.name == RESTATED):
            best = best.src[0]
        if best.op is ops.LOG:
            value = formulas.xlogy(y, wide(best.src[0], node))
        elif best.op is ops.FORMULA and best.arg.name == "log1p":
            value = formulas.xlog1py(y, wide(best.src[1], node))
        else:
            value = formulas.times_log(y, wide(logarithm, node))
        return (-value if is_negative else value), (factor, logarithm)
    return None


def _silu(node: UOp) -> Match | None:
    """x * sigmoid(x) -> silu(x)"""
    for factor, other in (node.src, node.src[::-1]):
        if logit(other) is factor:
            return _stable("x * y", other, node)
    return None


# ---- roots


ROOTS = frozenset({ops.SQRT, ops.POW})


def _root(node: UOp) -> UOp:
    """sqrt(x * x) -> |x|;  sqrt(sum(x * x)) -> the same, with the gradient 0 at 0;  so sum(|x| ** p) ** c, 0 < c < 1"""
    if node.op is ops.SQRT:
        (square,) = node.src
        if square.op is ops.MUL and square.src[0] is square.src[1]:
            return abs(square.src[0]).formula(RESTATED, node, square.src[0])
        return node.formula("root_of_squares", *node.src) if is_sum_of_squares(node.src[0]) else node
    total, exponent = node.src
    if exponent.op is not ops.CONST or not 0 < exponent.arg < 1 or not is_sum_of_squares(total):
        return node
    return node.formula("power_of_squares", total, exponent)


Matcher = Callable[[UOp], Match | None]
MATCHERS: dict[Op, tuple[Matcher, ...]] = {
    ops.FDIV: (_tanh, _sigmoid, _softmax, _sinh),
    ops.RECIPROCAL: (_sigmoid,),
    ops.SUB: (_expm1,),
    ops.MUL: (_times_log, _silu, _sinh),
    ops.EXP: (_exp,),
    ops.LOG: (_log,),
    ops.FORMULA: (_log1p,),
}
LOGARITHMS: dict[Op, Matcher] = {
    ops.ADD: _log_add,
    ops.SUB: _log_less,
    ops.REDUCE: _log_sum,
    ops.WHERE: _log_picked,
    ops.FDIV: _log_quotient,
    ops.RECIPROCAL: _log_function,
    ops.EXP: _log_function,
    ops.SIGMOID: _log_function,
    ops.FORMULA: _log_function,
}
