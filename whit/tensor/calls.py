"""Calls of `@function` (`whit.function`): a part of a program whose graph is one node, however large it is.

    @function
    def block(x, w): return x + (x.layernorm() @ w).gelu()

    for w in weights: x = block(x, w)           # call(f, x, w0), call(f, ., w1), ...: one f

The function runs as it is, at every call. What its results were computed from becomes the body of a FUNCTION over
params: its arguments, and every tensor from elsewhere that it read. Calls that differ in nothing but the tensors have
the same body, whatever the number of layers: it is scheduled once, its kernels are compiled once, and so is its
gradient. Values are those of the plain program, and so are gradients, writes to tensors, and random numbers.

Results are kept in memory, and nothing inside of a call is fused with what is outside. What the graph cannot cut is
left as it was: results that are views of something from before, symbolic sizes, tensors that are written to.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from whit.engine.normalise import SPREADS, is_varied
from whit.engine.overlay import Reads
from whit.engine.storage import computed_entries
from whit.ir import ops
from whit.ir.uop import UOp, make
from whit.tensor.core import Core

# What stays outside of a body: memory, and what is done to it.
OUTSIDE = frozenset({ops.BUFFER, ops.LEAF, ops.AFTER, ops.STORE, ops.COPY})


def called(name: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What the function returns, its tensors being results of a call."""
    with Reads() as reads:
        result = fn(*args, **kwargs)
    cut_out(name, [tensor for tensor in tensors_in(result) if reads.is_made(tensor)], reads.nodes)
    return result


def tensors_in(value: Any) -> Iterator[Core]:
    """The tensors in nested containers."""
    if isinstance(value, Core):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from tensors_in(part)
    elif isinstance(value, list | tuple | set | frozenset):
        for part in value:
            yield from tensors_in(part)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from tensors_in(getattr(value, field.name))


def cut_out(name: str, results: list[Core], read: Mapping[UOp, None]) -> None:
    """Makes the results what a call returns. `read` are the nodes that belong to others."""
    bases = dict.fromkeys(_base(tensor) for tensor in results)
    members = [node for node in bases if not _is_outside(node, read) and node.device is not None]
    order = _inside(members, read)
    if not order or any(type(size) is not int for node in order for size in node.shape):
        return
    arguments, function = _function(name, members, order, read)
    call = function.call(*arguments)
    found = {node: make(ops.ITEM, (call,), place) for place, node in enumerate(members)}
    for tensor in results:
        base = _base(tensor)
        if base not in found:
            continue
        if tensor._family is None:
            tensor.uop = found[base]
        else:
            tensor._family.rebase(found[base])


def _base(tensor: Core) -> UOp:
    """What a tensor shows, together with others or alone."""
    family = tensor._family
    return tensor.uop if family is None else family.uop


def _is_outside(node: UOp, read: Mapping[UOp, None]) -> bool:
    return node.op in OUTSIDE or node in read or id(node) in computed_entries


def _inside(members: list[UOp], read: Mapping[UOp, None]) -> list[UOp]:
    """Everything between the results and what is outside, sources first."""
    order: list[UOp] = []
    seen: set[UOp] = set()
    stack: list[tuple[UOp, bool]] = [(node, False) for node in reversed(members)]
    while stack:
        node, is_left = stack.pop()
        if is_left:
            order.append(node)
        elif node not in seen and not _is_outside(node, read):
            seen.add(node)
            stack.append((node, True))
            if not node.op.opaque:
                stack.extend((s, False) for s in reversed(node.src))
    return order


def _function(name: str, members: list[UOp], order: list[UOp], read: Mapping[UOp, None]) -> tuple[list[UOp], UOp]:
    """The arguments, in the order in which they appear, and the function of them. Numbers that a program may vary are
    arguments too, so that another number is no other function."""
    params: dict[UOp, UOp] = {}
    done: dict[UOp, UOp] = {}

    def param_of(node: UOp) -> UOp:
        if node not in params:
            params[node] = UOp.param(len(params), node.dtype, node.shape)
        return params[node]

    for node in order:
        if node.op.opaque or not node.src:
            done[node] = node
            continue
        src = []
        for place, source in enumerate(node.src):
            is_number = source.op is ops.CONST and (node.op.elementwise or (node.op in SPREADS and not place))
            if source not in done or (is_number and is_varied(node, place, source)):
                src.append(param_of(source))
            else:
                src.append(done[source])
        done[node] = make(node.op, tuple(src), node.arg)
    return list(params), UOp.group(*(done[node] for node in members)).function(name)
