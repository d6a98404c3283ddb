"""Flips of scans become scans of flips, so that nothing is moved after it was computed.

    flip( scan of x )    ->    scan from the end of flip(x)        if the scan is along a flipped axis
                         ->    scan of flip(x)                     if not

A sum from the end, flip(cumsum(flip(x))), is then one scan of x that runs backward.
"""

from __future__ import annotations

from whit.ir import ops
from whit.ir.rules import Rules, function_rule
from whit.ir.uop import UOp, make
from whit.records import replace


@function_rule(ops.FLIP)
def reverse_scan(node: UOp) -> UOp | None:
    """flip(scan(x)) -> scan(flip(x)); through casts"""
    (value,) = node.src
    if value.op is ops.FLIP:
        inner = value.src[0]
        axes = tuple(sorted(set(node.arg) ^ set(value.arg)))
        return inner.flip(axes) if axes else inner
    if value.op is ops.CAST and value.src[0].op is ops.SCAN:
        return value.src[0].flip(node.arg).cast(value.dtype)
    if value.op is not ops.SCAN:
        return None
    flipped = value.src[0].flip(node.arg)
    return make(ops.SCAN, (flipped,), replace(value.arg, reverse=value.arg.reverse != (value.arg.axis in node.arg)))


REVERSE_SCANS = Rules("reverse_scans", (reverse_scan,))
