"""A graph over buffers turned into a function of them: the key under which its schedule is found again.

    roots: b7 * 0.1 + b9              graph:  group(store(p0, p1 * p3 + p2))
                                      slots:  p1 = b7, p2 = b9, p3 = 0.1

Equal computations on different buffers, or with different numbers in them, give the identical graph: BUFFERs become
PARAMs in the order of their first appearance, bound variables lose their value, and constants that a user might vary
become PARAMs of shape (). Outputs have the first slots, then inputs, then constants. What was computed before is read
from its BUFFER. COPYs to another device have been carried out before, so a graph has one device.

This runs on every `realize`: one pass, about 2 us a node.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from whit.engine.effects import Writes
from whit.engine.storage import find_computed
from whit.ir import ops
from whit.ir.args import Memory, ParamArg, StoreArg
from whit.ir.op import Op
from whit.ir.uop import UOp, make

# Numbers that programs write and compilers fold: they stay in the graph.
COMMON = frozenset({0, 1, -1, 2, 0.5})
# Ops for which a constant on the right makes different, better code.
BY_CONSTANT = frozenset({ops.FLOORDIV, ops.FLOORMOD, ops.CDIV, ops.CMOD, ops.SHL, ops.SHR, ops.POW})
PLAIN_STORE = StoreArg()


@dataclass(frozen=True, slots=True)
class Normalised:
    """A graph over PARAMs, and what they stand for."""

    graph: UOp
    outputs: int  # how many of the first slots are new buffers
    inputs: tuple[UOp, ...]  # the BUFFERs of the slots that follow
    constants: tuple[UOp, ...]  # the CONSTs of the slots after those
    variables: tuple[tuple[str, int], ...]  # values of the bound variables, by name


def below(roots: Sequence[UOp]) -> list[UOp]:
    """Every node that has to be looked at, sources before users: what was computed before is a leaf."""
    order: list[UOp] = []
    seen: set[UOp | None] = set()
    stack: list[UOp | None] = list(reversed(roots))
    while stack:
        node = stack.pop()
        if node is None:
            order.append(stack.pop())  # type: ignore[arg-type]
            continue
        if node in seen:
            continue
        seen.add(node)
        src = node.src
        if not src or node.op.opaque or id(node) in _computed_ids:
            order.append(node)
            continue
        stack.append(node)
        stack.append(None)
        for s in reversed(src):
            if s not in seen:
                stack.append(s)
    return order


_computed_ids = find_computed.__self__  # type: ignore[attr-defined]
