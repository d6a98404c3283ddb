"""The list of whit's in-memory caches, so that all of them can be emptied at once; and those with a bound.

A module that keeps a cache registers how to empty it, next to where it is defined:

    _kernels: dict[UOp, Program] = {}
    register_cache(_kernels.clear, "codegen.kernels")

What grows with every new program or size is a `RecentlyUsed`, which registers itself: what was not used for the longest
time goes first, so memory stays flat however many sizes come.

    _plans: RecentlyUsed[UOp, Plan] = RecentlyUsed("engine.plans", 8192, lambda plan: len(plan.steps))
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, ItemsView, Iterator, ValuesView
from contextlib import suppress
from typing import Generic, TypeVar

from whit.errors import InternalError

Key = TypeVar("Key")
Value = TypeVar("Value")

_clear_by_name: dict[str, Callable[[], None]] = {}


def register_cache(clear: Callable[[], None], name: str) -> None:
    """Has `clear_caches` call `clear` from now on. Names are dotted paths, one for each cache."""
    if name in _clear_by_name:
        raise InternalError(f'register_cache: there already is a cache "{name}"', fix="Give each cache its own name.")
    _clear_by_name[name] = clear


def clear_caches() -> None:
    """Empties every in-memory cache. Results stay the same; the next call of everything is slower."""
    for clear in _clear_by_name.values():
        clear()


class RecentlyUsed(Generic[Key, Value]):
    """A dictionary of what was used last. Together its values weigh `most` at most: each 1, or what `weigh` says.

    The newest stays, whatever it weighs. Each operation is one of the dictionary below, so threads may share it.
    """

    __slots__ = ("_entries", "_weigh", "_weight", "most")

    def __init__(self, name: str, most: int, weigh: Callable[[Value], int] | None = None) -> None:
        self.most = most
        self._weigh = weigh
        self._weight = 0
        self._entries: OrderedDict[Key, Value] = OrderedDict()
        register_cache(self.clear, name)

    def get(self, key: Key) -> Value | None:
        """The value, which is now the one that was used last; None if there is none."""
        found = self._entries.get(key)
        if found is not None:
            with suppress(KeyError):  # another thread has just let it go
                self._entries.move_to_end(key)
        return found

    def __setitem__(self, key: Key, value: Value) -> None:
        self._lose(key)
        self._entries[key] = value
        self._weight += self._weight_of(value)
        while self._weight > self.most and len(self._entries) > 1:
            self._lose(next(iter(self._entries)))

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._entries)

    def values(self) -> ValuesView[Value]:
        """The values, the one used longest ago first."""
        return self._entries.values()

    def items(self) -> ItemsView[Key, Value]:
        """Keys and values, the one used longest ago first."""
        return self._entries.items()

    def clear(self) -> None:
        """Empties it."""
        self._entries.clear()
        self._weight = 0

    def _lose(self, key: Key) -> None:
        value = self._entries.pop(key, None)
        if value is not None:
            self._weight -= self._weight_of(value)

    def _weight_of(self, value: Value) -> int:
        return 1 if self._weigh is None else self._weigh(value)
