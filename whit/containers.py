"""What a container is: the one place that looks into lists, tuples, dictionaries, dataclasses, and classes of the user.

    register_container(Point, lambda p: ((p.x, p.y), None), lambda rest, parts: Point(*parts))

    map_parts(float, lambda x: 2 * x, {"a": [1.0, 2.0], "b": "text"})        {"a": [2.0, 4.0], "b": "text"}

A container has parts, each at a place, and can be made again of other parts. Named tuples, subclasses and frozen
dataclasses stay what they are. Everything else is a leaf; what is done with leaves is up to who asks: `map_parts` and
`flatten` look for those of a kind and leave the others where they are. A container that is in itself has no end, and
raises as Python does.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from whit.errors import ArgumentError
from whit.records import dataclass, fields, is_dataclass

# of an object: its parts, and what else it consists of
Flatten = Callable[[Any], "tuple[Sequence[Any], Any]"]
Unflatten = Callable[[Any, Sequence[Any]], Any]

_registered: dict[type, tuple[Flatten, Unflatten]] = {}  # what programs declare; no cache


@dataclass(frozen=True, slots=True)
class Opened:
    """A container that was looked into."""

    kind: type
    places: tuple[str, ...]  # of the parts: "[0]", "['weight']", ".weight"
    parts: Sequence[Any]
    rest: Any  # what it is besides its parts
    rebuild: Callable[[Sequence[Any]], Any]  # one like it, of other parts


def register_container(kind: type, flatten: Flatten, unflatten: Unflatten) -> None:
    """Makes the instances of a class containers, to transforms, checkpoints, functions and the JIT.

    `flatten(value)` gives (parts, rest): a sequence of what is inside, and all else; `unflatten(rest, parts)` makes a
    value of them. Values with equal rests and as many parts are of one structure.
    """
    if not isinstance(kind, type):
        raise ArgumentError(f"register_container: {kind!r:.60} is no class", fix="Give the class of the containers.")
    for role, given in (("flatten", flatten), ("unflatten", unflatten)):
        if not callable(given):
            raise ArgumentError(f"register_container: {role}={given!r:.60} cannot be called", fix="Give two functions.")
    if kind in _registered:
        raise ArgumentError(
            f"register_container: {kind.__name__} is registered already",
            fix="Register a class once, where it is defined.",
        )
    _registered[kind] = (flatten, unflatten)


def opened(value: Any) -> Opened | None:
    """The parts of a container; None of a leaf."""
    found = opened_registered(value)
    if found is not None:
        return found
    kind = type(value)
    if isinstance(value, tuple | list):
        names_of_fields = getattr(kind, "_fields", ())  # of a named tuple
        places = tuple([f".{name}" for name in names_of_fields] or [f"[{i}]" for i in range(len(value))])
        return Opened(kind, places, value, None, getattr(kind, "_make", kind))
    if isinstance(value, Mapping):
        keys = tuple(value)
        places = tuple([f"[{key!r}]" for key in keys])
        return Opened(kind, places, tuple(value.values()), keys, partial(_mapping, _hollow(value), keys))
    if isinstance(value, set | frozenset):
        return Opened(kind, ("{}",) * len(value), tuple(value), None, kind)
    if is_dataclass(value) and kind is not type:
        names = tuple([each.name for each in fields(value) if hasattr(value, each.name)])
        parts = tuple([getattr(value, name) for name in names])
        return Opened(kind, tuple([f".{n}" for n in names]), parts, names, partial(_record, value, names))
    return None


def opened_registered(value: Any) -> Opened | None:
    """The same of a container of a class that was registered; None of any other value."""
    kind = type(value)
    if kind not in _registered:
        return None
    flatten, unflatten = _registered[kind]
    found = flatten(value)
    if not isinstance(found, tuple) or len(found) != 2 or not isinstance(found[0], Sequence):
        raise ArgumentError(
            f"register_container: flatten of {kind.__name__} gives {found!r:.60}",
            "a pair is wanted: a tuple or list of parts, and what else there is",
            "Return ((value.a, value.b), None), say.",
        )
    parts, rest = found
    places = tuple([f"[{i}]" for i in range(len(parts))])
    return Opened(kind, places, parts, rest, partial(unflatten, rest))


def _hollow(value: Mapping[Any, Any]) -> dict[Any, Any] | None:
    """A dictionary of a class of its own, to be copied; None of others, which are made anew."""
    return value if isinstance(value, dict) and type(value) is not dict else None


def _mapping(like: dict[Any, Any] | None, keys: Sequence[Any], parts: Sequence[Any]) -> Any:
    pairs = zip(keys, parts, strict=True)
    if like is None:
        return dict(pairs)
    made = copy.copy(like)
    made.update(pairs)
    return made


def _record(value: Any, names: Sequence[str], parts: Sequence[Any]) -> Any:
    """A dataclass like another one: copied, as its `__init__` may do anything."""
    made = copy.copy(value)
    for name, part in zip(names, parts, strict=True):
        object.__setattr__(made, name, part)
    return made


def map_parts(kind: type, function: Callable[..., Any], value: Any, *others: Any) -> Any:
    """The same containers with function(leaf) for every leaf of a kind, and function(leaf, *those of the others) where
    there are others: containers of the same structure."""
    if isinstance(value, kind):
        return function(value, *others)
    found = opened(value)
    if found is None:
        return value
    rows = [_parts_like(found, other) for other in others]
    return found.rebuild([map_parts(kind, function, *parts) for parts in zip(found.parts, *rows, strict=True)])


def _parts_like(found: Opened, other: Any) -> Sequence[Any]:
    """The parts of a container that is to have the structure of another one."""
    parts = opened(other)
    if parts is None or parts.kind is not found.kind or parts.places != found.places:
        there = "no container" if parts is None else f"{parts.kind.__name__} of {', '.join(parts.places) or 'nothing'}"
        raise ArgumentError(
            f"map_tensors: the structures differ: {found.kind.__name__} of {', '.join(found.places) or 'nothing'} in "
            f"one, {there} in another",
            fix="Give containers of the same kinds, lengths and names.",
        )
    return parts.parts


@dataclass(frozen=True, slots=True)
class Structure:
    """Nested containers without their leaves."""

    kind: type | None  # of the container; None: a leaf
    places: tuple[str, ...] = ()
    rest: Any = None
    rebuild: Callable[[Sequence[Any]], Any] | None = None
    inside: tuple[Structure, ...] = ()
    is_wanted: bool = False  # a leaf of the kind that was looked for
    leaf: Any = None  # one that was not
    count: int = 0  # leaves that were looked for, here and inside

    def unflatten(self, leaves: Sequence[Any]) -> Any:
        """The containers with these leaves."""
        if self.rebuild is None:
            return leaves[0] if self.is_wanted else self.leaf
        parts, place = [], 0
        for each in self.inside:
            parts.append(each.unflatten(leaves[place : place + each.count]))
            place += each.count
        return self.rebuild(parts)

    def fits(self, other: Structure) -> bool:
        """Whether both have the same containers, and leaves of the kind in the same places."""
        if (self.kind, self.places, self.is_wanted) != (other.kind, other.places, other.is_wanted):
            return False
        if self.rest != other.rest:
            return False
        return all(one.fits(two) for one, two in zip(self.inside, other.inside, strict=True))

    def leaf_places(self) -> list[str]:
        """Where the leaves are: "[0]['weight']"."""
        if self.kind is None:
            return [""] if self.is_wanted else []
        pairs = zip(self.places, self.inside, strict=True)
        return [place + inner for place, each in pairs for inner in each.leaf_places()]

    def __str__(self) -> str:
        if self.kind is None:
            return "*" if self.is_wanted else repr(self.leaf)
        pairs = zip(self.places, self.inside, strict=True)
        return f"{self.kind.__name__}({', '.join(f'{place}: {each}' for place, each in pairs)})"


def flatten(kind: type, value: Any) -> tuple[list[Any], Structure]:
    """The leaves of a kind in order, and the containers around them."""
    leaves: list[Any] = []
    return leaves, _flattened(kind, value, leaves)


def _flattened(kind: type, value: Any, leaves: list[Any]) -> Structure:
    if isinstance(value, kind):
        leaves.append(value)
        return Structure(None, is_wanted=True, count=1)
    found = opened(value)
    if found is None:
        return Structure(None, leaf=value)
    inside = tuple([_flattened(kind, part, leaves) for part in found.parts])
    return Structure(
        found.kind, found.places, found.rest, found.rebuild, inside, count=sum(each.count for each in inside)
    )


def parts_in(kind: type, value: Any) -> list[Any]:
    """The leaves of a kind, in order."""
    return flatten(kind, value)[0]
