"""What a watch compares, in rows: each row holds many things of one kind and compares them without a loop in Python.

`hold` says whether all are the same objects as before. `changed` looks closer: it finds the first that is another one,
and notes those that are another object but equal, such as numbers and strings.
"""

from __future__ import annotations

import gc
import types
from collections import deque
from collections.abc import Callable
from itertools import chain, repeat
from operator import attrgetter, is_
from typing import Any

from whit.dtype import DType
from whit.ir.uop import UOp
from whit.jit.opaque import OpaqueError, snapshot
from whit.records import dataclass

SCALARS = (bool, int, float, complex, str, bytes, type(None), range, slice, type(Ellipsis), DType, UOp)
MISSING = type("Missing", (), {"__repr__": lambda self: "nothing"})()
_content = attrgetter("cell_contents")
_function_parts = attrgetter("__code__", "__defaults__", "__kwdefaults__")


@dataclass(frozen=True, slots=True)
class Changed:
    """What is not what it was."""

    label: str
    before: Any
    now: Any


class Items:
    """What dictionaries have under keys."""

    def __init__(self) -> None:
        self.dicts: list[dict[Any, Any]] = []
        self.keys: list[Any] = []
        self.values: list[Any] = []
        self.labels: list[str] = []

    def only(self, chosen: set[int]) -> Items:
        """Those of some dictionaries, by id."""
        found = Items()
        for container, key, value, label in zip(self.dicts, self.keys, self.values, self.labels, strict=True):
            if id(container) in chosen:
                found.dicts.append(container)
                found.keys.append(key)
                found.values.append(value)
                found.labels.append(label)
        return found

    def hold(self) -> bool:
        return all(map(is_, map(dict.get, self.dicts, self.keys, repeat(MISSING)), self.values))

    def changed(self) -> Changed | None:
        for n, (container, key, value) in enumerate(zip(self.dicts, self.keys, self.values, strict=True)):
            now = dict.get(container, key, MISSING)
            if now is not value:
                if not _is_same(now, value):
                    return Changed(self.labels[n], value, now)
                self.values[n] = now
        return None


def is_versioned(container: Any) -> bool:
    """Whether a container is a dictionary whose version tells about its order, too."""
    return isinstance(container, dict) and type(container).__iter__ is dict.__iter__


class Orders:
    """The elements of containers. Of dictionaries of attributes only some keys count: those that `counts` says."""

    def __init__(self) -> None:
        self.containers: list[Any] = []
        self.lengths: list[int] = []
        self.elements: list[Any] = []  # one after the other
        self.labels: list[str] = []
        self.counts: list[Callable[[Any], bool] | None] = []

    def add(self, container: Any, label: str, counts: Callable[[Any], bool] | None) -> None:
        self.containers.append(container)
        self.lengths.append(len(container))
        self.elements += container
        self.labels.append(label)
        self.counts.append(counts)

    def lists(self) -> list[list[Any]]:
        return [container for container in self.containers if type(container) is list]

    def versioned(self) -> list[dict[Any, Any]]:
        """Dictionaries whose version tells about their order, too."""
        return [container for container in self.containers if is_versioned(container)]

    def only(self, chosen: set[int]) -> Orders:
        """Those that native code does not look at: neither lists nor dictionaries, but for some of these, by id."""
        found = Orders()
        for container, label, counts in zip(self.containers, self.labels, self.counts, strict=True):
            if id(container) in chosen or not (type(container) is list or is_versioned(container)):
                found.add(container, label, counts)
        return found

    def hold(self) -> bool:
        if list(map(len, self.containers)) != self.lengths:
            return False
        try:
            return all(map(is_, chain.from_iterable(self.containers), self.elements))
        except RuntimeError:  # another thread changes one of them
            return False

    def changed(self) -> Changed | None:
        elements, start = list[Any](), 0
        for n, container in enumerate(self.containers):
            before = self.elements[start : start + self.lengths[n]]
            start += self.lengths[n]
            now = list(container)
            found = _first_difference(before, now, self.labels[n], container, self.counts[n])
            if found is not None:
                return found
            elements += now
        self.elements, self.lengths = elements, list(map(len, self.containers))
        return None


def _first_difference(
    before: list[Any], now: list[Any], label: str, container: Any, counts: Callable[[Any], bool] | None
) -> Changed | None:
    if counts is not None:  # attributes: in any order
        for name in now:
            if name not in before and counts(name):
                return Changed(f"{label}.{name}", MISSING, container[name])
        return None
    if len(before) == len(now):
        for place, (old, new) in enumerate(zip(before, now, strict=True)):
            if old is not new and not _is_same(new, old):
                where = f"{label}[{place}]" if isinstance(container, list | deque) else f"the keys of {label}"
                return Changed(where, old, new)
        return None
    if isinstance(container, dict):
        for key in now:
            if key not in before:
                return Changed(f"{label}[{spell(key)}]", MISSING, container[key])
    return Changed(f"the length of {label}", len(before), len(now))


class Cells:
    """Variables of closures."""

    def __init__(self) -> None:
        self.cells: list[types.CellType] = []
        self.values: list[Any] = []
        self.labels: list[str] = []

    def hold(self) -> bool:
        try:
            return all(map(is_, map(_content, self.cells), self.values))
        except ValueError:  # an empty one
            return False

    def changed(self) -> Changed | None:
        for n, (cell, value) in enumerate(zip(self.cells, self.values, strict=True)):
            now = inside(cell)
            if now is not value:
                if not _is_same(now, value):
                    return Changed(self.labels[n], value, now)
                self.values[n] = now
        return None


class Probes:
    """What a function says about an object: the same as before, by `is`."""

    def __init__(self, ask: Callable[[Any], Any]) -> None:
        self.ask = ask
        self.objects: list[Any] = []
        self.values: list[Any] = []
        self.labels: list[str] = []

    def add(self, one: Any, label: str) -> Any:
        value = self.ask(one)
        self.objects.append(one)
        self.values.append(value)
        self.labels.append(label)
        return value

    def hold(self) -> bool:
        return all(map(is_, map(self.ask, self.objects), self.values))

    def changed(self) -> Changed | None:
        for n, (one, value) in enumerate(zip(self.objects, self.values, strict=True)):
            now = self.ask(one)
            if now is not value:
                if not _is_same(now, value):
                    return Changed(self.labels[n], value, now)
                self.values[n] = now
        return None


class Values(Probes):
    """The same by `==`: what stands for the content of objects."""

    def __init__(self) -> None:
        super().__init__(snapshot)

    def hold(self) -> bool:
        return self.changed() is None

    def changed(self) -> Changed | None:
        for one, value, label in zip(self.objects, self.values, self.labels, strict=True):
            try:
                now = self.ask(one)
            except OpaqueError:
                return Changed(label, "another value", one)
            if now != value:
                return Changed(label, "another value", one)
        return None


class Caches(Probes):
    """The results that cached functions have ready: none of those that were there is missing."""

    def __init__(self) -> None:
        super().__init__(_cached)

    def settle(self) -> None:
        """Notes those that are there now."""
        self.values = list(map(_cached, self.objects))

    def changed(self) -> Changed | None:
        for one, value, label in zip(self.objects, self.values, self.labels, strict=True):
            if not set(map(id, value)) <= set(map(id, _cached(one))):
                return Changed(label, "another value", one)
        return None

    def hold(self) -> bool:
        return self.changed() is None


def _cached(function: Any) -> list[Any]:
    """The results in a cache of `lru_cache`, and their keys."""
    found = gc.get_referents(function)
    if function.cache_parameters()["maxsize"] is None:
        return [value for cache in found if type(cache) is dict for value in cache.values()]
    return [value for value in found if not _is_cache(value)]


def _is_cache(value: Any) -> bool:
    """Whether a dictionary is that of a cache with a limit: its values are links to results."""
    return type(value) is dict and all(type(link).__name__ == "_lru_list_elem" for link in value.values())


class Functions(Probes):
    """Code and defaults."""

    def __init__(self) -> None:
        super().__init__(_function_parts)

    def hold(self) -> bool:
        now = chain.from_iterable(map(_function_parts, self.objects))
        return all(map(is_, now, chain.from_iterable(self.values)))

    def changed(self) -> Changed | None:
        for one, before, label in zip(self.objects, self.values, self.labels, strict=True):
            now = _function_parts(one)
            if not all(map(is_, now, before)):
                return Changed(f"the code or a default of {label}", before, now)
        return None


def _is_same(now: Any, was: Any) -> bool:
    """Whether two scalars are equal; 1, 1.0 and True are not, 0.0 and -0.0 are not, nan and nan are."""
    if type(now) is not type(was) or type(was) not in SCALARS or isinstance(was, UOp):
        return False
    if type(was) is complex:
        return bool(now.real.hex() == was.real.hex() and now.imag.hex() == was.imag.hex())
    return bool(now.hex() == was.hex()) if type(was) is float else bool(now == was)


def inside(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def spell(key: Any) -> str:
    return f"{key!r:.60}" if type(key) in SCALARS else f"a {type(key).__name__}"
