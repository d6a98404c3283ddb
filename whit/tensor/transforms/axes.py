"""Which axis of each tensor is that of the batch: `in_axes=` and `out_axes=`, spread over containers.

    in_axes=0                     axis 0 of every tensor among the arguments
    in_axes=(None, 0)             the first argument is the same for all examples
    in_axes=({"w": 1, "b": 0},)   containers as those of the argument, or anything outer of them

Goes in: what the user gave, and the structure of the value. Comes out: an axis or None for each tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whit.containers import Structure, opened
from whit.errors import ArgumentError, OutOfRangeError, ShapeError
from whit.ir.op import spell_shape, spell_size
from whit.ir.sizes import same_size


def axes_of_arguments(in_axes: Any, structures: Sequence[Structure]) -> list[int | None]:
    """The axis of each tensor among the arguments."""
    if isinstance(in_axes, list | tuple):
        if len(in_axes) != len(structures):
            raise ArgumentError(
                f"vmap: in_axes={in_axes!r:.60} has {_count(in_axes, 'entr', 'y', 'ies')} for "
                f"{_count(structures, 'argument', '', 's')}",
                "arguments that are given by name are the same for all examples, and have no entry",
                "Give an axis or None for each argument, or one for all of them.",
            )
        rows = [spread_axes("in_axes", *pair) for pair in zip(in_axes, structures, strict=True)]
    else:
        rows = [spread_axes("in_axes", in_axes, structure) for structure in structures]
    return [axis for row in rows for axis in row]


def _count(things: Sequence[Any], word: str, one: str, many: str) -> str:
    return f"{len(things)} {word}{one if len(things) == 1 else many}"


def spread_axes(role: str, axes: Any, structure: Structure, place: str = "") -> list[int | None]:
    """One axis for each tensor of a structure; `axes` has the same containers, or is one axis for all that is there."""
    if axes is None or (hasattr(axes, "__index__") and not isinstance(axes, bool)):
        return [None if axes is None else axes.__index__()] * structure.count
    found = opened(axes)
    if found is None:
        raise ArgumentError(
            f"vmap: {role} has {axes!r:.60}{_at(place)}", fix="Axes are integers, or None for what has no batch."
        )
    if found.kind is not structure.kind or found.places != structure.places:
        there = "a leaf" if structure.kind is None else f"{structure.kind.__name__} of {', '.join(structure.places)}"
        raise ArgumentError(
            f"vmap: {role} has {found.kind.__name__} of {', '.join(found.places)}{_at(place)}",
            f"the value there is {there}",
            "Give one axis for all that is inside, or a container of the same kind with the same names.",
        )
    rows = zip(found.parts, structure.inside, found.places, strict=True)
    return [axis for part, inner, name in rows for axis in spread_axes(role, part, inner, place + name)]


def _at(place: str) -> str:
    return f" at {place}" if place else ""


def counted(role: str, axis: int, tensor: Any, place: str, rank: int) -> int:
    """An axis counted from the front, of a tensor that is to have `rank` axes."""
    if -rank <= axis < rank:
        return axis % rank
    allowed = f"Axes go from {-rank} to {rank - 1}." if rank else "It has none: pass None for it, or give it one."
    raise OutOfRangeError(
        f"vmap: {role} names axis {axis} of {place}, of shape {spell_shape(tensor.shape)}", tensor._made(), allowed
    )


def batch_size(tensors: Sequence[Any], axes: Sequence[int | None], places: Sequence[str]) -> Any:
    """The one size of the axes that are mapped."""
    mapped = [row for row in zip(tensors, axes, places, strict=True) if row[1] is not None]
    if not mapped:
        raise ArgumentError(
            "vmap: no argument has a batch",
            f"{len(tensors)} tensors among the arguments, in_axes is None for all of them",
            "Map at least one of them; a batch of equal examples is x.expand(...).",
        )
    sizes = [(tensor.shape[axis], axis, place) for tensor, axis, place in mapped]
    size = sizes[0][0]
    for other, _, _ in sizes:
        if not same_size(size, other):
            listed = "\n".join(f"{place}: axis {axis} has size {spell_size(n)}" for n, axis, place in sizes)
            raise ShapeError(
                f"vmap: the batch has size {spell_size(size)} in one argument and {spell_size(other)} in another",
                listed,
                "The axes that in_axes= names have one size; None is for arguments that all examples share.",
            )
    return size
