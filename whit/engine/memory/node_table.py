"""Values by node, each kept as long as its node lives."""

from __future__ import annotations

import weakref
from functools import partial
from typing import Any, Generic, TypeVar

from whit.ir.uop import UOp

Value = TypeVar("Value")


class NodeTable(Generic[Value]):
    """Values by node, each kept as long as its node lives.

    Keyed by `id`, because a lookup takes 60 ns where WeakKeyDictionary takes 250; an entry is removed before its node's
    address can be used again.
    """

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[int, tuple[Value, weakref.ref[UOp]]] = {}

    def __setitem__(self, node: UOp, value: Value) -> None:
        key = id(node)
        entries = self._entries
        # The old value may hold the last reference to other nodes: it dies at the end, not in the middle of the update.
        _old = entries.get(key)
        # A callback of C: an interrupt in one of Python would be lost together with what it does.
        entries[key] = (value, weakref.ref(node, partial(entries.pop, key)))

    def get(self, node: UOp) -> Value | None:
        """The value of a node, if it has one."""
        entry = self._entries.get(id(node))
        return None if entry is None else entry[0]

    def pop(self, node: UOp) -> Value | None:
        """The same, and forgets it."""
        entry = self._entries.pop(id(node), None)
        return None if entry is None else entry[0]

    def setting(self, node: UOp, value: Value) -> tuple[Any, ...]:
        """The call that sets a value: a function of C with its arguments, which no interrupt enters."""
        key = id(node)
        return self._entries.__setitem__, key, (value, weakref.ref(node, partial(self._entries.pop, key)))

    def dropping(self, node: UOp) -> tuple[Any, ...]:
        """The same for the call that forgets it."""
        return self._entries.pop, id(node), None

    def __len__(self) -> int:
        return len(self._entries)
