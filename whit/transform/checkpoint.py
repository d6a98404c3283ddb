"""Blocks that are rematerialised, computed again for their gradient, instead of keeping what is inside.

    y = checkpoint(block, x)          formula(block(x), x, w ...)        w: what else the block reads

The rule of such a formula builds the block once more over `recompute(x, dy)`: equal nodes would be the same node, and
its values would be kept from the forward pass. The scheduler runs what is made of it after dy is known. The gradient is
then that of the new copy, so it is right whatever the block does, and a gradient of the gradient is too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whit.ir import ops
from whit.ir.args import FormulaArg
from whit.ir.graph import topological
from whit.ir.uop import UOp, make
from whit.transform.flow import TRANSPARENT
from whit.transform.formulas import FORMULAS, RESTATED, Derivative
from whit.transform.reverse import gradients_of


def checkpointed(values: Sequence[UOp], inputs: Sequence[UOp]) -> list[UOp]:
    """The values as nodes whose gradient recomputes all that is made of the inputs."""
    name = f"{TRANSPARENT} {len(inputs)}"
    FORMULAS.setdefault(name, _recompute_from(len(inputs)))
    operands = (*inputs, *_beside(values, inputs))
    if len(values) == 1:
        return [values[0].formula(name, *operands)]
    formula = make(ops.FORMULA, (UOp.group(*values), *operands), FormulaArg(name))
    return [formula.item(i) for i in range(len(values))]


def depends(values: Sequence[UOp], inputs: Sequence[UOp]) -> set[UOp]:
    """The inputs, and every node below the values that is made of them."""
    inside = set(inputs)
    for node in topological(values, stop=inputs):
        if not inside.isdisjoint(node.src):
            inside.add(node)
    return inside


def _beside(values: Sequence[UOp], inputs: Sequence[UOp]) -> list[UOp]:
    """What the block reads besides its inputs: weights, masks, whatever was computed outside of it. Of a function the
    operands count, as they do for its gradient."""
    inside = depends(values, inputs)
    found: dict[UOp, None] = {}
    ends, seen, stack = set(inputs), set(values), list(values)
    while stack:
        node = stack.pop()
        if node not in inside:
            if node.dtype.itemsize and node.op is not ops.CONST:
                found[node] = None
        elif node not in ends:
            is_function = node.op is ops.FORMULA and node.arg.name != RESTATED
            fresh = [s for s in (node.src[1:] if is_function else node.src) if s not in seen]
            seen.update(fresh)
            stack.extend(reversed(fresh))
    return list(found)


def _recompute_from(count: int) -> Derivative:
    """The rule of a block whose first `count` operands are its inputs."""

    def rule(y: UOp, dy: Any, *operands: UOp) -> tuple[UOp | None, ...]:
        (value, *_), given = y.src, dy if type(dy) is tuple else (dy,)
        known = [piece for piece in given if piece is not None]
        anew = {
            x: x.recompute(*(piece for piece in known if piece.device in (None, x.device))) for x in operands[:count]
        }
        block = _substitute(value, anew, operands)
        results = block.src if block.op is ops.GROUP and type(dy) is tuple else (block,)
        roots = [(root, piece) for root, piece in zip(results, given, strict=True) if piece is not None]
        ends = [anew.get(operand, operand) for operand in operands]
        targets = [end for end in ends if end.dtype.is_continuous]
        found = dict(zip(targets, gradients_of(roots, targets, stop=ends), strict=True))
        return tuple(found.get(end) for end in ends)

    return rule


def _substitute(value: UOp, anew: dict[UOp, UOp], stop: Sequence[UOp]) -> UOp:
    """The block over other inputs; what it reads besides stays as it is."""
    done = {node: node for node in stop} | anew
    for node in topological((value,), stop=stop):
        if node.op.opaque:
            done[node] = node
            continue
        src = tuple([done[s] for s in node.src])
        done[node] = node if src == node.src else make(node.op, src, node.arg)
    return done[value]
