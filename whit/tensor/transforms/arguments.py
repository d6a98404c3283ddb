"""Arguments of functions that are transformed: tensors that stand for them, and what does not fit.

    given = Given("grad", (x, {"w": w}))         the tensors, and the containers around them
    inside = given.enter()                       the same containers of independent tensors: inside of them, and at
    given.nodes                                  these nodes, a derivative begins

A function that is transformed gets tensors of its own. What it writes into them is seen by itself alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from whit.containers import Structure
from whit.errors import ArgumentError, DTypeError, ShapeError
from whit.ir.op import spell_shape
from whit.ir.uop import UOp
from whit.tensor.core import Core, mark_leaf
from whit.tensor.nested import flatten_tensors
from whit.tensor.tensor import Tensor


class Given:
    """The tensors in an argument, or in several, and the nodes by which a derivative knows them."""

    def __init__(self, name: str, value: Any) -> None:
        self.name = name
        self.structure: Structure
        self.tensors: list[Any]
        self.tensors, self.structure = flatten_tensors(value)
        self.places = self.structure.leaf_places()
        # A name of its own each, so that nothing in the function is equal to what was computed outside of it.
        self.nodes = [tensor.uop.leaf() for tensor in self.tensors]

    def enter(self) -> Any:
        """The value, of tensors that show these nodes."""
        return self.structure.unflatten([shown(*pair) for pair in zip(self.tensors, self.nodes, strict=True)])

    def targets(self) -> list[Any]:
        """Tensors at the nodes, whatever the function has written into those that it got."""
        return [shown(*pair) for pair in zip(self.tensors, self.nodes, strict=True)]

    def check_floats(self, what: str) -> None:
        """Raises unless there are tensors, all of them floats."""
        if not self.tensors:
            raise ArgumentError(
                f"{self.name}: there is no tensor in {what}",
                fix="Name arguments that are tensors, or containers of tensors, by argnums=.",
            )
        for tensor, place in zip(self.tensors, self.places, strict=True):
            if not tensor.dtype.is_continuous:
                raise DTypeError(
                    f"{self.name}: {what}{place} is {tensor.dtype.name}, and only floats have derivatives",
                    tensor._made(),
                    "Cast it to a float, or pass it as an argument that argnums= does not name.",
                )


def shown(tensor: Any, node: UOp) -> Any:
    """A tensor like another one, at a node of its own: for `backward`, one that is no result of operations."""
    result = tensor._wrap(node)
    mark_leaf(result)
    return result


def name_of(function: Any) -> str:
    """A function's name, for messages."""
    return str(getattr(function, "__name__", type(function).__name__))


def check_function(name: str, function: Any) -> None:
    """Raises for what cannot be called."""
    if not callable(function):
        raise ArgumentError(f"{name}: {function!r:.60} is no function", fix=f"Write {name}(f), and call the result.")


def as_argument(value: Any) -> Any:
    """What is differentiated by: a float or an array as a tensor, anything else as it is."""
    return Tensor(value) if type(value) is float else of_array(value)


def of_array(value: Any) -> Any:
    """An array as a tensor, anything else as it is."""
    is_array = not isinstance(value, Core) and hasattr(value, "__array__") and hasattr(value, "dtype")
    return Tensor(value) if is_array else value


def chosen(name: str, argnums: int | Sequence[int], count: int) -> tuple[int, ...]:
    """The places that argnums= names among the arguments of a call."""
    given = (argnums,) if not isinstance(argnums, tuple | list) else tuple(argnums)
    places = []
    for number in given:
        if isinstance(number, bool) or not hasattr(number, "__index__"):
            raise ArgumentError(
                f"{name}: argnums={argnums!r:.60}", fix="Give the place of an argument, or a tuple of places."
            )
        if not -count <= number.__index__() < count:
            raise ArgumentError(
                f"{name}: argnums={argnums!r:.60} of {count} argument{'s' * (count != 1)}",
                "arguments that are given by name are not differentiated",
                "Name places of the arguments that are given by position.",
            )
        places.append(number.__index__() % count)
    if len(set(places)) != len(places) or not places:
        raise ArgumentError(f"{name}: argnums={argnums!r:.60}", fix="Name at least one place, and each once.")
    return tuple(places)


def without_aux(name: str, function: Callable[..., Any], result: Any, has_aux: bool) -> tuple[Any, Any]:
    """The result of a function and what it returns besides, which with `has_aux` is the second of a pair."""
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise ArgumentError(
            f"{name}: has_aux=True, and {name_of(function)} returns {type(result).__name__}",
            fix="Return a pair: what is differentiated, and what else there is.",
        )
    return result


def like(name: str, role: str, value: Any, tensors: Sequence[Any], structure: Structure) -> list[Any]:
    """The tensors of a value that is to have the structure, shapes and dtypes of others."""
    found, shape = flatten_tensors(value)
    if len(tensors) == 1 and structure.kind is None and isinstance(value, int | float) and not tensors[0].shape:
        found, shape = [type(tensors[0])(float(value), dtype=tensors[0].dtype, device=tensors[0].device)], structure
    if not structure.fits(shape):
        raise ArgumentError(
            f"{name}: {role} {shape}, and {structure} is wanted",
            fix="Give containers of the same kinds, lengths and names, with a tensor where there is one.",
        )
    for one, wanted, place in zip(found, tensors, structure.leaf_places(), strict=True):
        if one.shape != wanted.shape:
            raise ShapeError(
                f"{name}: {role} of shape {spell_shape(one.shape)}{_at(place)}",
                f"{one._made()}; {spell_shape(wanted.shape)} is wanted",
                "Give the shape of what it belongs to.",
            )
        if one.dtype is not wanted.dtype and wanted.dtype.is_continuous:
            raise DTypeError(
                f"{name}: {role} {one.dtype.name}{_at(place)}, and {wanted.dtype.name} is wanted",
                one._made(),
                "Cast it to the dtype of what it belongs to.",
            )
    return found


def _at(place: str) -> str:
    return f" at {place}" if place else ""
