"""How far two correct evaluations of a float graph may be apart: a first-order error bound for every node."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from whit.ir import ops
from whit.ir.interpret import evaluate
from whit.ir.uop import UOp

ULPS = 5  # of transcendental functions


def error_bounds(outputs: tuple[UOp, ...], inputs: dict[UOp, Any]) -> list[float]:
    """For each output the largest absolute error of any element; infinity where no bound is known."""
    nodes = [node for node in UOp.group(*outputs).topological() if node.op is not ops.GROUP]
    values = dict(zip(nodes, evaluate(UOp.group(*nodes), inputs), strict=True))
    errors: dict[UOp, float] = {}
    for node in nodes:
        error = _error(node, values, errors)
        errors[node] = math.inf if math.isnan(error) else error
    return [errors[output] for output in outputs]


def _largest(array: Any) -> float:
    finite = np.abs(np.asarray(array, np.float64))
    return float(finite.max(initial=0.0, where=np.isfinite(finite)))


def _smallest(array: Any) -> float:
    return float(np.abs(np.asarray(array, np.float64)).min(initial=math.inf))


def _unit(node: UOp) -> float:
    return 2.0 ** (-1 - node.dtype.mantissa_bits) if node.dtype.is_float else 0.0


def _error(node: UOp, values: dict[UOp, Any], errors: dict[UOp, float]) -> float:
    op = node.op
    inside = [errors[s] for s in node.src]
    worst = max(inside, default=0.0)
    if not node.dtype.is_float:
        return 0.0 if worst == 0.0 else math.inf
    out, unit = _largest(values[node]), _unit(node)
    subnormal = 2.0 ** (1 - node.dtype.bias - node.dtype.mantissa_bits)
    rounding = unit * out + subnormal
    sizes = [_largest(values[s]) if s.dtype.is_float else 0.0 for s in node.src]
    if op in (ops.ADD, ops.SUB):
        return sum(inside) + rounding
    if op is ops.MUL:
        (a, b), (ea, eb) = sizes, inside
        return ea * b + eb * a + ea * eb + rounding
    if op in (ops.FDIV, ops.RECIPROCAL):
        ea, eb = inside if op is ops.FDIV else (0.0, inside[0])
        least = _smallest(values[node.src[-1]]) - eb
        return math.inf if least <= 0 else (ea + out * eb) / least + rounding
    if op is ops.SQRT:
        least = _smallest(values[node.src[0]]) - worst
        return math.inf if least <= 0 else worst / (2 * math.sqrt(least)) + rounding
    if op is ops.LOG2:
        least = _smallest(values[node.src[0]]) - worst
        return math.inf if least <= 0 else 1.5 * worst / least + ULPS * 2 * rounding
    if op is ops.EXP2:
        return math.inf if worst > 0.5 else out * (2 * worst) + ULPS * 2 * rounding
    if op in (ops.SIN, ops.COS):
        return worst + ULPS * 2 * rounding
    if op in (ops.FLOOR, ops.TRUNC, ops.CEIL, ops.ROUND, ops.POW):
        return math.inf if worst else 0.0
    if op is ops.WHERE:
        return math.inf if inside[0] else max(inside[1:])
    if op is ops.INDEX:
        return math.inf if max(inside[1:]) else inside[0]
    if op is ops.CAST:
        return worst + rounding
    if op is ops.SORT:  # by other keys, what is near another may change places with it
        return worst if node.src[0] is node.src[1] or inside[0] == 0.0 else math.inf
    if op in (ops.REDUCE, ops.SCAN):
        return _combined(node, values, worst)
    return worst


def _combined(node: UOp, values: dict[UOp, Any], error: float) -> float:
    (source,) = node.src
    if node.op is ops.REDUCE:
        count = math.prod(source.shape[axis] for axis in node.arg.axes) if node.arg.axes else 1
    else:
        count = source.shape[node.arg.axis]
    largest = _largest(values[source])
    if node.arg.op is ops.ADD:
        return count * error + count * _unit(node) * count * largest * 2
    if node.arg.op is ops.MUL:
        top = max(largest + error, 1.0)
        return count * top**count * (error + _unit(node) * 2)
    return error
