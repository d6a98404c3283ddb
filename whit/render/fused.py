"""Fused multiply-add for targets without the instruction, rounded once all the same.

Goes in: a LINEAR. Comes out: a LINEAR in which no float32 is multiplied and added in one step.

    fma(x, y, z) of float32
    ->  cast(odd(cast(x, float64) * cast(y, float64) + cast(z, float64)), float32)

The product of two float32 is exact in float64, and its sum with a third is rounded to odd, so that the cast rounds as
if it saw the exact sum: 20 instructions for one. float64 has no wider type; there FMA stays, and becomes a call of the
mathematical library's `fma`, which is as exact and slower (and in C both are, because C has them as functions). So
results are the same on every target, to the last bit: the errors of products that `codegen.math.expand` computes with
FMA depend on it.
"""

from __future__ import annotations

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.rewrite import rewrite_all
from whit.ir.rules import Rules, function_rule
from whit.ir.uop import UOp
from whit.render.program import relist
from whit.render.small_floats import multiplied_and_added


@function_rule(ops.FMA, on=frozenset({dtypes.float32}))
def fuse_in_float64(node: UOp) -> UOp:
    """fma(x, y, z) -> the exact product and a sum rounded to odd, in float64"""
    x, y, z = (s.cast(dtypes.float64) for s in node.src)
    return multiplied_and_added(x, y, z).cast(dtypes.float32)


EXPAND_FMA = Rules("expand fma", (fuse_in_float64,))


def expand_fma(linear: UOp, *, has_fma: bool) -> UOp:
    """The program without FMA of float32; as it is where the target has the instruction."""
    if has_fma or not any(node.op is ops.FMA and node.dtype is dtypes.float32 for node in linear.src):
        return linear
    return relist(linear, rewrite_all(linear.src, EXPAND_FMA))
