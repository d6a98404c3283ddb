"""What certainly divides a position: how many neighbours one access of a GPU can take.

alignment_of(r0 * 8 + 4, {})  ->  4
"""

from __future__ import annotations

from math import gcd

from whit.ir import ops
from whit.ir.uop import UOp
from whit.target import GPU_LIMITS

ALIGNMENT_BYTES = GPU_LIMITS.access_bytes


def alignment_of(node: UOp, known: dict[UOp, int]) -> int:
    """A power of two, 16 at most, that certainly divides a position; `known` keeps those of others."""
    if node not in known:
        known[node] = _alignment_of(node, known)
    return known[node]


def _alignment_of(node: UOp, known: dict[UOp, int]) -> int:
    if node.op is ops.CONST:
        return gcd(int(node.arg), ALIGNMENT_BYTES) if node.arg else ALIGNMENT_BYTES
    parts = [alignment_of(source, known) for source in node.src] if node.op in (ops.ADD, ops.SUB, ops.MUL) else []
    if node.op is ops.MUL:
        return gcd(parts[0] * parts[1], ALIGNMENT_BYTES)
    return gcd(*parts) if parts else 1
