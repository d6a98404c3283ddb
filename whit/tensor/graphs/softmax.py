"""Softmax and the logarithms that belong to it, as functions of nodes: exponentials that do not overflow.

    softmax(x)  ->  e / sum(e), e = exp(x - max(x))

Goes in: a node of float32 or float64, and axes. Comes out: a node of that dtype. At infinity they have their limits:
one infinite element takes all, several share. A row of -inf alone has no softmax, NaN; its logsumexp is -inf.
"""

from __future__ import annotations

import math

from whit.ir import ops
from whit.ir.op import Op
from whit.ir.uop import UOp
from whit.tensor.core import expand_to
from whit.tensor.graphs import formulas
from whit.transform import Form, derivative

SHIFT = "shift"


def reduced(value: UOp, op: Op, axes: tuple[int, ...], keepdim: bool = False) -> UOp:
    """A reduction; with `keepdim` its axes stay, with size 1."""
    if not axes:
        return value
    result = value.reduce(op, axes)
    return result.reshape(kept_shape(value, axes)) if keepdim else result


def kept_shape(value: UOp, axes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a reduction that keeps its axes, with size 1."""
    return tuple(1 if axis in axes else size for axis, size in enumerate(value.shape))


def broadcast_like(value: UOp, like: UOp) -> UOp:
    """A reduction that kept its axes, repeated to the shape of what was reduced."""
    return expand_to(value, like.shape)


def shifted(x: UOp, axes: tuple[int, ...]) -> tuple[UOp, UOp]:
    """x - max(x), and the max with its axes kept."""
    top = reduced(x, ops.MAX, axes, keepdim=True).detach()
    return below(broadcast_like(top, x), x), top


def below(top: UOp, x: UOp) -> UOp:
    """x - top; 0 where x is inf."""
    return x.eq(math.inf).where(x.constant(0.0), x - top).formula(SHIFT, x)


@derivative(SHIFT, Form.POINTWISE)
def _shift(y: UOp, dy: UOp, x: UOp) -> tuple[UOp | None, ...]:
    """What is taken away makes no difference to the result of which this is a part."""
    return (dy,)


def power_of(away: UOp, x: UOp) -> UOp:
    """exp(away), away being x less the largest. Where x is -inf by its position, as in causal attention, a 0 that says
    so: kernels skip it."""
    power = formulas.exp(away)
    while x.op is ops.CAST:
        (x,) = x.src
    if x.op is not ops.WHERE or len(x.shape) < 2:
        return power
    condition, yes, no = x.src
    is_hidden = [side.op is ops.CONST and side.arg == -math.inf for side in (yes, no)]
    if sum(is_hidden) != 1 or any(node.op in (ops.PARAM, ops.BUFFER, ops.INDEX) for node in condition.topological()):
        return power
    zero = power.constant(0.0)
    seen = condition.where(zero, power) if is_hidden[0] else condition.where(power, zero)
    return seen.formula("exp", away)


def softmax(x: UOp, axes: tuple[int, ...]) -> UOp:
    """exp(x), scaled to the sum 1."""
    power = power_of(shifted(x, axes)[0], x)
    return power / broadcast_like(reduced(power, ops.ADD, axes, keepdim=True), power)


def log_softmax(x: UOp, axes: tuple[int, ...]) -> UOp:
    """The logarithm of `softmax`."""
    return log_of_shares(shifted(x, axes)[0], axes)


def log_of_shares(away: UOp, axes: tuple[int, ...]) -> UOp:
    """log(exp(away) / sum(exp(away))), the largest along the axes being 0."""
    total = formulas.log(reduced(formulas.exp(away), ops.ADD, axes, keepdim=True))
    return away - broadcast_like(total, away)


def logsumexp(x: UOp, axes: tuple[int, ...], keepdim: bool = False) -> UOp:
    """log(sum(exp(x))) without overflow; -inf of no elements."""
    top = reduced(x, ops.MAX, axes, keepdim=True).detach()
    peak = broadcast_like(top, x)
    away = x.eq(peak).where(x.constant(0.0), x - peak).formula(SHIFT, x)
    total = formulas.log(reduced(formulas.exp(away), ops.ADD, axes, keepdim))
    return total + (top if keepdim or not axes else top.reshape(total.shape))
