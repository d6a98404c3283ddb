"""Whether many objects of Python are what they were, by words in their memory: one native call for all of them.

    words = Words()
    words.dict(d); words.list(l); words.kind(x)      # the version of a dictionary, the elements of a list, a class
    words.first_other()                              # -1: all are what they were. 0.6 us, and 1 ns for each word

CPython gives a dictionary another version with each change. Where things lie is tried on objects made for that; on a
Python where they do not lie there `can_watch()` says no. Whoever uses this keeps the objects alive.
"""

from __future__ import annotations

import ctypes
import functools
import types
from array import array
from typing import Any

from whit.runtime.pool.threads import own_library

_KIND, _VERSION, _LENGTH, _ELEMENTS, _CONTENT = 8, 24, 16, 24, 16  # offsets in bytes


class Words:
    """Addresses of words, and what is there."""

    def __init__(self) -> None:
        self._addresses, self._values = array("Q"), array("Q")
        self._call: tuple[int, int, int] | None = None

    def __len__(self) -> int:
        return len(self._addresses)

    def _add(self, address: int) -> None:
        self._addresses.append(address)
        self._values.append(_word(address))

    def kind(self, value: Any) -> None:
        """The class of an object."""
        self._add(id(value) + _KIND)

    def dict(self, value: Any) -> None:
        """A dictionary: no entry has changed, come or gone."""
        self._add(id(value) + _VERSION)

    def list(self, value: Any) -> None:
        """A list: it has the same elements. Where they lie is looked at before them."""
        self._add(id(value) + _LENGTH)
        self._add(id(value) + _ELEMENTS)
        start = _word(id(value) + _ELEMENTS)
        for place in range(len(value)):
            self._add(start + 8 * place)

    def cell(self, value: types.CellType) -> None:
        """A variable of a closure."""
        self._add(id(value) + _CONTENT)

    def function(self, value: types.FunctionType) -> None:
        """The code and the defaults of a function."""
        for offset in _function_offsets() or ():
            self._add(id(value) + offset)

    def field(self, value: Any, offset: int) -> None:
        """A slot of an object."""
        self._add(id(value) + offset)

    def bases(self, kind: type) -> None:
        """The order in which a class and its bases are asked for attributes."""
        self._add(id(kind) + (_bases_offset() or _KIND))

    def first_other(self) -> int:
        """The number of the first word that is something else now, or -1."""
        if self._call is None:
            self._call = self._addresses.buffer_info()[0], self._values.buffer_info()[0], len(self._addresses)
        return int(first_other()(*self._call))


def version_of(value: dict[Any, Any]) -> int:
    """A number that is another one after each change of a dictionary."""
    return _word(id(value) + _VERSION)


def _word(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value


@functools.cache
def first_other() -> Any:
    """The native function: addresses of words, what they should be, how many -> the first that is not, or -1."""
    # Python's lock is held: nothing changes meanwhile.
    signature = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    return signature(own_library().address("whit_first_other"))


@functools.cache
def can_watch() -> bool:
    """Whether all of this lies where it is expected, on this Python."""
    one: dict[Any, Any] = {}
    versions = [_word(id(one) + _VERSION)]
    for change in (lambda: one.update(a=1), lambda: one.update(a=2), lambda: one.pop("a"), lambda: one.update(b=3)):
        change()
        versions.append(_word(id(one) + _VERSION))
    last = versions[-1]
    one.get("b"), list(one), len(one)
    some = [object(), object()]
    elements = _word(id(some) + _ELEMENTS)
    cell = types.CellType(some)
    return (
        len(set(versions)) == 5
        and _word(id(one) + _VERSION) == last
        and _is_version_of_instances()
        and _word(id(one) + _KIND) == id(dict)
        and _word(id(some) + _LENGTH) == 2
        and [_word(elements), _word(elements + 8)] == list(map(id, some))
        and _word(id(cell) + _CONTENT) == id(some)
        and _function_offsets() is not None
        and _bases_offset() is not None
    )


def _is_version_of_instances() -> bool:
    """Whether attributes of objects and classes are set through their dictionaries."""

    class Probe:
        a = 1

    probe = Probe()
    (fields,) = [probe.__dict__]
    versions = [_word(id(fields) + _VERSION)]
    for value in (object(), object(), object()):
        probe.b = value  # type: ignore[attr-defined]
        versions.append(_word(id(fields) + _VERSION))
    return len(set(versions)) == 4


@functools.cache
def _function_offsets() -> tuple[int, ...] | None:
    def probe(a: Any = object(), *, b: Any = 1) -> None:  # noqa: B008
        """Has all parts."""

    words = memoryview(ctypes.string_at(id(probe), types.FunctionType.__basicsize__)).cast("Q").tolist()
    parts = [probe.__code__, probe.__defaults__, probe.__kwdefaults__]
    if any(words.count(id(part)) != 1 for part in parts):
        return None
    return tuple(words.index(id(part)) * 8 for part in parts)


@functools.cache
def _bases_offset() -> int | None:
    class Probe:
        pass

    size: Any = type.__basicsize__
    words = memoryview(ctypes.string_at(id(Probe), size)).cast("Q").tolist()
    return words.index(id(Probe.__mro__)) * 8 if words.count(id(Probe.__mro__)) == 1 else None
