"""`jax.tree`: nested containers, and functions of their leaves.

    tree.map(lambda w, g: w - 0.1 * g, params, grads)
    leaves, structure = tree.flatten(params);  structure.unflatten(leaves)

Lists, tuples, named tuples, dictionaries (in the order of their keys), None, dataclasses, and classes of
`whit.register_container`. Anything else is a leaf. `whit.map_tensors` and `whit.containers` look at tensors alone.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from whit.containers import opened, register_container
from whit.errors import ArgumentError
from whit.records import dataclass

IsLeaf = Callable[[Any], bool]
_MISSING = object()


@dataclass(frozen=True)
class Node:
    """A container, without what is in it."""

    kind: str
    names: tuple[str, ...]
    build: Callable[[Sequence[Any]], Any]

    def same(self, other: Node) -> bool:
        """Whether both are containers of one kind, with parts of the same names."""
        return (self.kind, self.names) == (other.kind, other.names)


def _opened(value: Any) -> tuple[Node, Sequence[Any]] | None:
    """A container and its parts; None of a leaf."""
    if value is None:
        return Node("None", (), lambda parts: None), ()
    if isinstance(value, dict):
        keys = _in_order(value)
        names = tuple(repr(key) for key in keys)

        def build(parts: Sequence[Any]) -> Any:
            made = {} if type(value) is dict else copy.copy(value)
            made.update(zip(keys, parts, strict=True))
            return made

        return Node(type(value).__name__, names, build), [value[key] for key in keys]
    found = opened(value)
    if found is None:
        return None
    return Node(type(value).__name__, found.places, found.rebuild), found.parts


def _in_order(value: dict[Any, Any]) -> list[Any]:
    try:
        return sorted(value)
    except TypeError:  # keys of several kinds
        return list(value)


class PyTreeDef:
    """Nested containers without their leaves."""

    def __init__(self, node: Node | None, below: Sequence[PyTreeDef]) -> None:
        self._node, self._below = node, tuple(below)
        self.num_leaves: int = 1 if node is None else sum(each.num_leaves for each in self._below)

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The containers with these leaves."""
        given = list(leaves)
        if len(given) != self.num_leaves:
            raise ArgumentError(
                f"tree.unflatten: {len(given)} leaves for a structure of {self.num_leaves}", fix="Give one for each."
            )
        return self._filled(iter(given))

    def _filled(self, leaves: Any) -> Any:
        if self._node is None:
            return next(leaves)
        return self._node.build([each._filled(leaves) for each in self._below])

    def flatten_up_to(self, value: Any) -> list[Any]:
        """What another value has in the places of the leaves: containers, too."""
        if self._node is None:
            return [value]
        found = _opened(value)
        if found is None or not self._node.same(found[0]):
            raise ArgumentError(
                f"tree.map: the structures differ: {self} in one, {structure(value)} in another",
                fix="Give containers of the same kinds, lengths and names.",
            )
        pairs = zip(self._below, found[1], strict=True)
        return [leaf for below, part in pairs for leaf in below.flatten_up_to(part)]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PyTreeDef):
            return False
        if self._node is None or other._node is None:
            return self._node is other._node
        return self._node.same(other._node) and self._below == other._below

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        return f"PyTreeDef({self._spelled()})"

    def _spelled(self) -> str:
        if self._node is None:
            return "*"
        parts = [each._spelled() for each in self._below]
        if self._node.kind == "dict":
            return "{" + ", ".join(f"{n}: {p}" for n, p in zip(self._node.names, parts, strict=True)) + "}"
        if self._node.kind == "list":
            return "[" + ", ".join(parts) + "]"
        if self._node.kind == "tuple":
            return "(" + ", ".join(parts) + ("," if len(parts) == 1 else "") + ")"
        return "None" if self._node.kind == "None" else f"{self._node.kind}({', '.join(parts)})"


def _walk(value: Any, is_leaf: IsLeaf | None, out: list[Any]) -> PyTreeDef:
    found = None if is_leaf is not None and is_leaf(value) else _opened(value)
    if found is None:
        out.append(value)
        return PyTreeDef(None, ())
    node, parts = found
    return PyTreeDef(node, [_walk(part, is_leaf, out) for part in parts])


def flatten(tree: Any, is_leaf: IsLeaf | None = None) -> tuple[list[Any], PyTreeDef]:
    """The leaves, and what is around them."""
    out: list[Any] = []
    structure = _walk(tree, is_leaf, out)
    return out, structure


def leaves(tree: Any, is_leaf: IsLeaf | None = None) -> list[Any]:
    """The leaves."""
    return flatten(tree, is_leaf)[0]


def structure(tree: Any, is_leaf: IsLeaf | None = None) -> PyTreeDef:
    """The containers without their leaves."""
    return flatten(tree, is_leaf)[1]


def unflatten(treedef: PyTreeDef, leaves: Iterable[Any]) -> Any:
    """The containers with these leaves."""
    return treedef.unflatten(leaves)


def map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf | None = None) -> Any:
    """The same containers of f(leaf, *those of the others)."""
    found, around = flatten(tree, is_leaf)
    others = [around.flatten_up_to(each) for each in rest]
    return around.unflatten([f(*each) for each in zip(found, *others, strict=True)])


def reduce(function: Callable[[Any, Any], Any], tree: Any, initializer: Any = _MISSING, is_leaf: Any = None) -> Any:
    """All leaves, two at a time."""
    found = leaves(tree, is_leaf)
    return (
        functools.reduce(function, found) if initializer is _MISSING else functools.reduce(function, found, initializer)
    )


def all(tree: Any, *, is_leaf: IsLeaf | None = None) -> bool:
    """Whether all leaves are true."""
    return not any(not leaf for leaf in leaves(tree, is_leaf))


def transpose(outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, pytree_to_transpose: Any) -> Any:
    """A list of dictionaries -> a dictionary of lists, say."""
    rows = outer_treedef.flatten_up_to(pytree_to_transpose)
    inner = structure(rows[0]) if inner_treedef is None else inner_treedef
    columns = zip(*(inner.flatten_up_to(row) for row in rows), strict=True)
    return inner.unflatten([outer_treedef.unflatten(column) for column in columns])


def leaves_with_path(tree: Any, is_leaf: IsLeaf | None = None) -> list[tuple[tuple[str, ...], Any]]:
    """The leaves with the ways to them."""
    out: list[tuple[tuple[str, ...], Any]] = []

    def walk(value: Any, way: tuple[str, ...]) -> None:
        found = None if is_leaf is not None and is_leaf(value) else _opened(value)
        if found is None:
            out.append((way, value))
            return
        for name, part in zip(found[0].names, found[1], strict=True):
            walk(part, (*way, name if name[0] in "[." else f"[{name}]"))

    walk(tree, ())
    return out


def map_with_path(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf | None = None) -> Any:
    """`map` of a function that is told the way to a leaf, too."""
    ways = [way for way, _ in leaves_with_path(tree, is_leaf)]
    found, around = flatten(tree, is_leaf)
    others = [around.flatten_up_to(each) for each in rest]
    return around.unflatten([f(*each) for each in zip(ways, found, *others, strict=True)])


def keystr(keys: Iterable[str]) -> str:
    """A way as text."""
    return "".join(keys)


# ---- classes of the user


def register_pytree_node(nodetype: type, flatten_func: Any, unflatten_func: Any) -> None:
    """Makes the instances of a class containers: flatten_func gives (parts, what else there is)."""
    register_container(nodetype, flatten_func, unflatten_func)


def register_pytree_node_class(cls: type) -> type:
    """The same of a class with `tree_flatten` and `tree_unflatten`."""
    made: Any = cls
    register_container(cls, lambda value: value.tree_flatten(), made.tree_unflatten)
    return cls


def register_dataclass(nodetype: type, data_fields: Any = None, meta_fields: Any = ()) -> type:
    """Nothing to do for a dataclass without `meta_fields`: it is a container."""
    if meta_fields:
        register_container(
            nodetype,
            lambda value: (
                [getattr(value, name) for name in data_fields],
                tuple(getattr(value, name) for name in meta_fields),
            ),
            lambda rest, parts: nodetype(
                **dict(zip(data_fields, parts, strict=True)), **dict(zip(meta_fields, rest, strict=True))
            ),
        )
    return nodetype


def flatten_with_path(tree: Any, is_leaf: IsLeaf | None = None) -> tuple[list[tuple[tuple[str, ...], Any]], PyTreeDef]:
    """The leaves with the ways to them, and what is around them."""
    return leaves_with_path(tree, is_leaf), structure(tree, is_leaf)


def broadcast(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf | None = None) -> Any:
    """A tree whose leaves are spread over those below them in another one."""
    found, around = flatten(prefix_tree, is_leaf)
    parts = around.flatten_up_to(full_tree)
    spread = [map(lambda _, leaf=leaf: leaf, part) for leaf, part in zip(found, parts, strict=True)]
    return around.unflatten(spread)


def reduce_associative(operation: Callable[[Any, Any], Any], tree: Any, *, identity: Any = _MISSING) -> Any:
    """All leaves, two at a time, in any order."""
    return reduce(operation, tree, identity)
