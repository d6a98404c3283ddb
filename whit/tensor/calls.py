"""Calls of `@function` (`whit.function`): a part of a program whose graph is one node, however large it is.

    @function
    def block(x, w): return x + (x.layernorm() @ w).gelu()

    for w in weights: x = block(x, w)           # call(f, x, w0), call(f, ., w1), ...: one f

The function runs as it is, at every call. What its results were computed from becomes the body of a FUNCTION over
params: its arguments, and every tensor from elsewhere that it read. Calls that differ in nothing but the tensors have
the same body, whatever the number of layers: it is scheduled once, its kernels are compiled once, and so is its
gradient. Values are those of the plain program, and so are gradients, writes to tensors, and random numbers.

Results are kept in memory, and nothing inside of a call is fused with what is outside. What the graph cannot cut is
left as it was: results that are views of something from before, what has variables, tensors that are written to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, TypeVar

from whit.cache import RecentlyUsed
from whit.config import settings_key
from whit.engine.memory.placeholder import new_placeholder
from whit.engine.memory.storage import computed_entries, is_known
from whit.engine.programs.overlay import Reads
from whit.engine.realize.parametrise import SPREADS, is_varied, param
from whit.errors import ArgumentError
from whit.ir import ops
from whit.ir.args import FunctionArg
from whit.ir.op import spell_shape
from whit.ir.uop import UOp, make
from whit.tensor.core import Core
from whit.tensor.nested import tensors_in
from whit.transform import own_rule

Kind = TypeVar("Kind", bound=Core)

# What stays outside of a body: memory, and what is done to it.
OUTSIDE = frozenset({ops.BUFFER, ops.LEAF, ops.AFTER, ops.STORE, ops.COPY})


def called(
    name: str,
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    allow_implicit: bool = True,
    grad_fxn: Callable[..., Any] | None = None,
) -> Any:
    """What the function returns, its tensors being results of a call."""
    reads = Reads()
    given = tensors_in((args, kwargs))
    arguments = dict.fromkeys(_base(tensor) for tensor in given) | dict.fromkeys(tensor.uop for tensor in given)
    result = reads.run(lambda: fn(*args, **kwargs))
    if not allow_implicit:
        _check_implicit(name, [node for node in reads.nodes if node not in arguments])
    cut_out(name, [tensor for tensor in tensors_in(result) if reads.is_made(tensor)], reads.nodes)
    return result if grad_fxn is None else _with_gradient(name, result, given, grad_fxn)


def _check_implicit(name: str, read: Sequence[UOp]) -> None:
    """Tensors that are in memory, or will be, are arguments; numbers need not be."""
    for node in read:
        if any(below.op in OUTSIDE for below in node.topological()):
            raise ArgumentError(
                f"function: {name} reads {node.dtype.name}{spell_shape(node.shape)}, which is no argument of it",
                fix="Pass the tensor, or leave out allow_implicit=False.",
            )


def _with_gradient(name: str, result: Any, given: Sequence[Core], grad_fxn: Callable[..., Any]) -> Any:
    """The result as a function of the arguments, whose gradient the user gives."""
    if not isinstance(result, Core):
        raise ArgumentError(f"function: {name} with grad_fxn gives {result!r:.60}", fix="It has to give one tensor.")

    def gradient(y: UOp, dy: UOp, *operands: UOp) -> tuple[UOp | None, ...]:
        found = grad_fxn(dy, UOp.group(y, *operands))
        found = found if isinstance(found, tuple | list) else (found,)
        if len(found) != len(operands):
            raise ArgumentError(
                f"function: grad_fxn of {name} gives {len(found)} gradients for {len(operands)} tensors",
                fix="Give one for each, None where there is none.",
            )
        return tuple([each.uop if isinstance(each, Core) else each for each in found])

    operands = [tensor.uop for tensor in given]
    return result._wrap(make(ops.FORMULA, (result.uop, *operands), own_rule(name, gradient)))


def call_pure(fn: Callable[..., Sequence[Kind]], *tensors: Kind | None) -> list[Kind]:
    """What a function of nothing but these tensors returns, as results of a call.

    It runs once for all calls with tensors of the same kind, so a step of a long loop costs a node or two. Where a body
    cannot be cut out, as with symbolic sizes, it runs as it is.
    """
    given = [tensor for tensor in tensors if tensor is not None]
    key = (fn, settings_key(), *[None if t is None else (t.dtype, t.shape, t.device) for t in tensors])
    known = _pure.get(key)
    if known is None:
        known = _pure[key] = (_traced(fn, tensors),)
    (traced,) = known
    if traced is None:
        return list(fn(*tensors))
    function, arguments = traced
    nodes = [tensor.uop for tensor in given]
    call = function.call(*[nodes[each] if isinstance(each, int) else each for each in arguments])
    return [given[0]._wrap(make(ops.ITEM, (call,), place)) for place in range(len(function.src[0].src))]


# (function, settings, kinds of tensors) -> the FUNCTION, and for each of its arguments which tensor or number it is
_pure: RecentlyUsed[tuple[Any, ...], tuple[tuple[UOp, tuple[int | UOp, ...]] | None]] = RecentlyUsed(
    "tensor.pure_functions", 1024
)


def _traced(fn: Callable[..., Sequence[Core]], tensors: Sequence[Core | None]) -> Any:
    """The FUNCTION of a Python function on tensors of these kinds; None if there is none."""
    if any(tensor is not None and not is_known(tensor.shape) for tensor in tensors):
        return None
    stand_ins = [None if t is None else t._make(new_placeholder(t.dtype, t.shape, t.device), t.device) for t in tensors]
    nodes = [tensor.uop for tensor in stand_ins if tensor is not None]
    members = [tensor.uop for tensor in fn(*stand_ins)]
    order = _inside(members, dict.fromkeys(nodes))
    if not set(members) <= set(order):
        return None
    arguments, function = _function(fn.__name__, members, order)
    return function, tuple([nodes.index(each) if each in nodes else each for each in arguments])


def cut_out(name: str, results: list[Core], read: Mapping[UOp, None]) -> None:
    """Makes the results what a call returns. `read` are the nodes that belong to others."""
    bases = dict.fromkeys(_base(tensor) for tensor in results)
    members = [node for node in bases if not _is_outside(node, read) and node.device is not None]
    order = _inside(members, read)
    if not order or not _can_be_body(order):
        return
    arguments, function = _function(name, members, order)
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


def _can_be_body(order: Sequence[UOp]) -> bool:
    """Whether nothing depends on variables: neither sizes nor where windows begin, nor numbers."""
    shapes = {node.shape for node in order}
    is_symbolic = any(type(size) is not int for size in chain.from_iterable(shapes))
    return not is_symbolic and not any(node.op is ops.BIND or node.op is ops.VARIABLE for node in order)


def _base(tensor: Core) -> UOp:
    """What a tensor shows, together with others or alone."""
    family = tensor._family
    return tensor.uop if family is None else family.uop


def _is_outside(node: UOp, read: Mapping[UOp, None]) -> bool:
    return node.op in OUTSIDE or node in read or id(node) in computed_entries


def _inside(members: list[UOp], read: Mapping[UOp, None]) -> list[UOp]:
    """Everything between the results and what is outside, sources first."""
    order: list[UOp] = []
    seen: set[UOp | None] = set(read)
    stack: list[UOp | None] = list(reversed(members))
    while stack:
        node = stack.pop()
        if node is None:  # a node that was left stands below
            order.append(stack.pop())  # type: ignore[arg-type]
        elif node not in seen:
            seen.add(node)
            if node.op in OUTSIDE or id(node) in computed_entries:
                continue
            stack.append(node)
            stack.append(None)
            if not node.op.opaque:
                stack += [s for s in reversed(node.src) if s not in seen]
    return order


def _function(name: str, members: list[UOp], order: list[UOp]) -> tuple[list[UOp], UOp]:
    """The arguments, in the order in which they appear, and the function of them. Numbers that a program may vary are
    arguments too, so that another number is no other function."""
    params: dict[UOp, UOp] = {}
    done: dict[UOp, UOp] = {}
    for node in order:
        op, sources = node.op, node.src
        if op.opaque or not sources:
            done[node] = node
            continue
        src = []
        for place, source in enumerate(sources):
            found = None if is_number_to_vary(node, place) else done.get(source)
            if found is None:
                found = params.get(source)
                if found is None:
                    found = params[source] = param(len(params), source.dtype, source.shape)
            src.append(found)
        done[node] = make(op, tuple(src), node.arg)
    argument = FunctionArg(name, tuple([node.arg for node in params.values()]))
    return list(params), make(ops.FUNCTION, (UOp.group(*[done[node] for node in members]),), argument)


def is_number_to_vary(node: UOp, place: int) -> bool:
    """Whether a source is a number that a program may write differently the next time."""
    source = node.src[place]
    if source.op is not ops.CONST:
        return False
    takes_numbers = node.op.elementwise or (node.op in SPREADS and not place)
    return takes_numbers and is_varied(node, place, source)
