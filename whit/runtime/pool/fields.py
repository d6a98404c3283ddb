"""Whether a field of many objects still refers to what it did: one native call for all of them.

    watch = watch_field(Tensor, slot, tensors)      # slot: the descriptor of the field, as in Tensor.__dict__["uop"]
    watch.note(numbers)                             # `id` of what the fields refer to now
    watch.is_same()                                 # 0.6 us, and 1 ns for each object

In Python a look at a field and its `id` take 60 ns together. Objects are kept alive; what fields refer to is not, so an
`id` may be used again: who asks must notice when one of them goes, as by weak references.

This reads objects where CPython has them: the field at a place in the object. That is tried on an object made for it;
where it is not there (another Python) there is no watch.
"""

from __future__ import annotations

import ctypes
import functools
from array import array
from collections.abc import Sequence
from typing import Any

from whit.runtime.pool.words import first_other


class FieldWatch:
    """A field of some objects, and what it referred to."""

    __slots__ = ("_addresses", "_arguments", "_known", "_objects")

    def __init__(self, offset: int, objects: Sequence[Any]) -> None:
        self._objects = objects
        self._addresses = array("Q", [id(one) + offset for one in objects])
        self._known = array("Q", [0] * len(objects))
        self._arguments = (self._addresses.buffer_info()[0], self._known.buffer_info()[0], len(objects))

    def note(self, numbers: Sequence[int]) -> None:
        """What the fields refer to: the `id` of each."""
        self._known[:] = array("Q", numbers)

    def is_same(self) -> bool:
        """Whether that is still so."""
        return bool(first_other()(*self._arguments) < 0)


def watch_field(kind: type, slot: Any, objects: Sequence[Any]) -> FieldWatch | None:
    """Watches a field of objects of a class, and of classes that inherit it; None where that cannot be done."""
    offset = offset_of(kind, slot)
    return None if offset is None else FieldWatch(offset, objects)


@functools.cache
def offset_of(kind: type, slot: Any) -> int | None:
    """Where a field is in objects of a class, in bytes; None if what is found there is not what is expected."""
    probe: Any = object.__new__(kind)
    marker = object()
    slot.__set__(probe, marker)
    words = memoryview(ctypes.string_at(id(probe), kind.__basicsize__)).cast("Q").tolist()
    if words.count(id(marker)) != 1:
        return None
    offset: int = words.index(id(marker)) * 8
    watch = FieldWatch(offset, [probe])
    watch.note([id(marker)])
    was_same = watch.is_same()
    slot.__set__(probe, None)
    return offset if was_same and not watch.is_same() else None
