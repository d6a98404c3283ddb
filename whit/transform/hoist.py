"""Products of a scan that do not depend on its states: computed for all steps at once, before the loop.

    h' = tanh(x @ w + h @ u)     ->      p = X @ w for all steps;    h' = tanh(p + h @ u)

A step with few rows reads all of `w` for each of them: it is bound by memory, where one product over all steps reads it
once. With many rows a step is bound by arithmetic as that product is, which would write and read more memory.
"""

from __future__ import annotations

from collections.abc import Collection
from math import prod
from typing import Final

from whit.ir import ops
from whit.ir.args import LoopArg
from whit.ir.graph import topological
from whit.ir.uop import UOp, make
from whit.transform.batch import Batch
from whit.transform.loops import params_of

MOST_ROWS: Final = 8  # of a step
MOST_BYTES: Final = 64 << 20  # that products of all steps take


def hoisted(loop: UOp) -> UOp:
    """A scan of a known length with such products among its inputs."""
    arg = loop.arg
    function, *operands = loop.src
    (body,) = function.src
    found = _products(body, arg)
    if not found or sum(prod(node.shape) * node.dtype.itemsize for node in found) * arg.length > MOST_BYTES:
        return loop
    params, first, count = params_of(body), arg.carries + arg.inputs, len(found)
    batch = Batch(arg.length, {})
    for slot, param in params.items():
        if arg.carries <= slot < first:
            batch.give(param, operands[slot])
    constants = {slot: param for slot, param in params.items() if slot >= first}
    batch.know({param: operands[slot] for slot, param in constants.items()})
    products = batch.with_axis(found)
    changed = {node: UOp.param(first + place, node.dtype, node.shape) for place, node in enumerate(found)}
    changed |= {p: UOp.param(slot + count, p.dtype, p.shape) for slot, p in constants.items()}
    step = body.substitute(changed).function(function.arg.name)
    after = LoopArg(arg.kind, arg.carries, arg.inputs + count, arg.length, arg.is_reversed)
    return make(ops.LOOP, (step, *operands[:first], *products, *operands[first:]), after)


def _products(body: UOp, arg: LoopArg) -> list[UOp]:
    """The products of a step that need inputs, and no states."""
    params, first = params_of(body), arg.carries + arg.inputs
    parts = [param for slot, param in params.items() if arg.carries <= slot < first]
    if not parts or not arg.length:
        return []
    moving = _reached(body, [param for slot, param in params.items() if slot < arg.carries])
    reading = _reached(body, parts) - moving
    return [node for node in topological([body]) if node in reading and _is_product(node, first)]


def _reached(body: UOp, start: Collection[UOp]) -> set[UOp]:
    """What is computed from some nodes, and they themselves."""
    found = set(start)
    for node in topological([body]):
        if not found.isdisjoint(node.src):
            found.add(node)
    return found


def _is_product(node: UOp, first: int) -> bool:
    """Whether a node is a sum of products with weights of which each is used for few rows."""
    if node.op is not ops.REDUCE or node.arg.op is not ops.ADD or node.src[0].op is not ops.MUL:
        return False
    weights = [_weight(side, first) for side in node.src[0].src]
    sizes = [prod(weight.shape) for weight in weights if weight is not None]
    return len(sizes) == 1 and prod(node.src[0].shape) < MOST_ROWS * sizes[0]


def _weight(node: UOp, first: int) -> UOp | None:
    """The param that a node is a view of, if it is the same in all steps."""
    while node.op in ops.MOVEMENT:
        node = node.src[0]
    return node if node.op is ops.PARAM and node.arg.slot >= first else None
