"""Packed weights whose scale is multiplied with a sum of a block, not with each number, on a GPU.

    x[0..7] * (q[0..7] * d)        ->        d * (x[0]*q[0] + x[1]*q[1] + .. + x[7]*q[7])

    x[0..7] * (q[0..7] * d - m)    ->        the same, less m * (x[0] + x[1] + .. + x[7])

One or two multiplications or additions for each number less: sums of x are the same for all rows. The numbers q are
small integers, so that their products with x are rounded as those with q*d are: `docs/semantics.md` has the bounds.
"""

from __future__ import annotations

import functools

from whit.ir import ops
from whit.ir.graph import joined
from whit.ir.uop import UOp, make


def scaled_once(value: UOp) -> UOp | None:
    """The sum of a vector's lanes, if each is a sum of such products; those with the same scale are added first."""
    sums: dict[UOp, UOp] = {}
    for part in joined(value, ops.ADD):
        factors = joined(part, ops.MUL)
        scales = [factor for factor in factors if not factor.shape]
        x, *weights = sorted((factor for factor in factors if factor.shape), key=_is_weight)
        if len(weights) != 1:
            return None
        found = _parts_of(weights[0])
        if found is None or not (scales or found[0][1]):
            return None
        for q, own in found:
            scale = functools.reduce(lambda a, b: a * b, [*scales, *own])
            sums[scale] = _sum(x, q, sums.get(scale))
    return functools.reduce(lambda a, b: a + b, [scale * total for scale, total in sums.items()])


def _parts_of(weights: UOp) -> list[tuple[UOp | None, list[UOp]]] | None:
    """q, or q*d - m, as products of integers, or of nothing, with what the lanes have in common."""
    if _is_integer(weights):
        return [(weights, [])]
    if weights.op not in (ops.ADD, ops.SUB):
        return None
    scaled, more = sorted(weights.src, key=lambda side: not side.shape) if weights.op is ops.ADD else weights.src
    factors = joined(scaled, ops.MUL)
    numbers = [factor for factor in factors if factor.shape]
    if more.shape or len(numbers) != 1 or not _is_integer(numbers[0]):
        return None
    own = [factor for factor in factors if not factor.shape]
    return [(numbers[0], own), (None, [more if weights.op is ops.ADD else -more])]


def _is_weight(node: UOp) -> bool:
    return _parts_of(node) is not None


def _is_integer(node: UOp) -> bool:
    """Whether a value is a byte, or bits of one, as a float; or that less a number."""
    if node.op is ops.SUB and not node.src[1].shape:
        node = node.src[0]
    return node.op is ops.CAST and not node.src[0].dtype.is_float and node.src[0].dtype.bitsize == 8


def _sum(x: UOp, q: UOp | None, before: UOp | None) -> UOp:
    """The lanes' products, or the lanes themselves, added one after the other."""
    total = before
    for lane in range(int(x.shape[0])):
        left = x.index(lane)
        if q is None:
            total = left if total is None else total + left
        else:
            right = q.index(lane)
            total = left * right if total is None else make(ops.FMA, (left, right, total))
    assert total is not None, "a vector has at least one lane"
    return total
