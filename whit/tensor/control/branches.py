"""`cond`: one of two functions, chosen by a tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whit.dtype import dtypes
from whit.errors import ArgumentError, DTypeError, NotSupportedError, ShapeError
from whit.ir import ops
from whit.ir.args import LoopArg
from whit.ir.op import spell_shape
from whit.ir.uop import UOp, make
from whit.tensor.control.body import Body, as_tensors, stand_in_for
from whit.tensor.graphs.threefry import Draws, next_draw
from whit.tensor.nested import flatten_tensors
from whit.tensor.transforms.arguments import check_function, name_of


def chosen(pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], operands: tuple[Any, ...]) -> Any:
    """What `cond` gives."""
    check_function("cond", true_fun)
    check_function("cond", false_fun)
    predicate = _predicate(pred)
    leaves, structure = flatten_tensors(as_tensors(operands))
    inputs = [stand_in_for(leaf, leaf.shape) for leaf in leaves]
    nodes = [tensor.uop for tensor in inputs]
    yes = _traced(true_fun, structure.unflatten(inputs))
    again = [leaf._make(node, leaf.device) for leaf, node in zip(leaves, nodes, strict=True)]
    no = _traced(false_fun, structure.unflatten(again))
    _check_alike(yes, no)
    if not (yes.is_fixed() and no.is_fixed()):
        raise NotSupportedError(
            "cond: a symbolic size or a variable inside of a function", fix="Pass it as an operand, or use where()."
        )
    if not yes.members:
        return yes.structure.unflatten([])
    draws = [*yes.draws, *no.draws]
    constants: dict[UOp, UOp] = {}
    order = [*nodes, *(node for node, _ in draws)]
    functions = [body.function(order, body.members, constants) for body in (yes, no)]
    drawn = [next_draw(size, str(node.device)) for node, size in draws]
    loop = make(
        ops.LOOP, (*functions, predicate.uop, *[leaf.uop for leaf in leaves], *drawn, *constants), LoopArg("cond")
    )
    found = [t._wrap(make(ops.ITEM, (loop,), place)) for place, t in enumerate(yes.tensors)]
    return yes.structure.unflatten(found)


def _predicate(pred: Any) -> Any:
    """One bool, as a tensor."""
    predicate: Any = as_tensors(pred)
    if not hasattr(predicate, "uop"):
        raise ArgumentError(f"cond: pred is {pred!r:.60}", fix="Give a tensor of shape (), or a bool.")
    if predicate.shape:
        raise ArgumentError(
            f"cond: pred has shape {spell_shape(predicate.shape)}, and one bool is wanted",
            predicate._made(),
            "Give a tensor of shape (); where() chooses for each element.",
        )
    return predicate.cast(dtypes.bool)


def _traced(function: Callable[..., Any], operands: tuple[Any, ...]) -> Body:
    return Body.trace("cond", name_of(function), lambda *given: function(*given), operands, Draws())


def _check_alike(yes: Body, no: Body) -> None:
    """Both functions return the same kind of thing."""
    if not yes.structure.fits(no.structure):
        raise ArgumentError(
            f"cond: one function returns {yes.structure}, the other {no.structure}",
            fix="Return containers of the same kinds, lengths and names, with a tensor where there is one.",
        )
    for one, other, place in zip(yes.tensors, no.tensors, yes.structure.leaf_places(), strict=True):
        at = f" at {place}" if place else ""
        where = f"{one._made()}; the other {other._made()}"
        if one.shape != other.shape:
            shapes = f"{spell_shape(one.shape)} and {spell_shape(other.shape)}"
            raise ShapeError(f"cond: the results{at} have shapes {shapes}", where, "Return tensors of one shape.")
        if one.dtype is not other.dtype:
            names = f"{one.dtype.name} and {other.dtype.name}"
            raise DTypeError(f"cond: the results{at} are {names}", where, "Cast one of them.")
