"""Packed weights whose scale is multiplied with a sum of a block, not with each number, on a GPU.

    x[0..7] * (q[0..7] * d)        ->        d * (x[0]*q[0] + x[1]*q[1] + .. + x[7]*q[7])

    q[0..7] * d - m                ->        fma(q[0..7], d, -m)

One multiplication or addition for each number less. The numbers q are small integers, so that their products with x are
rounded as those with q*d are: the error of the sum has the same bound (`docs/semantics.md`).
"""

from __future__ import annotations

import functools

from whit.ir import ops
from whit.ir.graph import joined, topological
from whit.ir.uop import UOp, make


def scaled_once(value: UOp) -> UOp | None:
    """The sum of a vector's lanes, if each is a sum of such products; those with the same scale are added first."""
    sums: dict[UOp, UOp] = {}
    for part in joined(value, ops.ADD):
        factors = joined(part, ops.MUL)
        vectors = [factor for factor in factors if factor.shape]
        scales = [factor for factor in factors if not factor.shape]
        if len(vectors) != 2 or not scales or not any(_is_integer(vector) for vector in vectors):
            return None
        scale = functools.reduce(lambda a, b: a * b, scales)
        sums[scale] = _sum(vectors[0], vectors[1], sums.get(scale))
    return functools.reduce(lambda a, b: a + b, [scale * total for scale, total in sums.items()])


def with_fused_minima(value: UOp) -> UOp:
    """A vector in which numbers times the scale of a block, and what the block adds, are rounded once."""
    done: dict[UOp, UOp] = {}
    for node in topological((value,)):
        src = tuple([done[s] for s in node.src])
        new = node if src == node.src else make(node.op, src, node.arg)
        if node.op in (ops.ADD, ops.SUB) and src[0].op is ops.MUL and node.shape and not src[1].shape:
            y, x = sorted(src[0].src, key=lambda factor: len(factor.shape))
            if _is_integer(x) and not y.shape:
                new = make(ops.FMA, (x, y, -src[1] if node.op is ops.SUB else src[1]))
        done[node] = new
    return done[value]


def _is_integer(node: UOp) -> bool:
    """Whether a value is a byte, or bits of one, as a float; or that less a number."""
    if node.op is ops.SUB and not node.src[1].shape:
        node = node.src[0]
    return node.op is ops.CAST and not node.src[0].dtype.is_float and node.src[0].dtype.bitsize == 8


def _sum(x: UOp, y: UOp, before: UOp | None) -> UOp:
    """The lanes' products, added one after the other."""
    total = before
    for lane in range(int(x.shape[0])):
        left, right = x.index(lane), y.index(lane)
        total = left * right if total is None else make(ops.FMA, (left, right, total))
    assert total is not None
    return total
