"""Looking at a field of many objects at once."""

from __future__ import annotations

from typing import Any

from whit.runtime.pool.fields import FieldWatch, watch_field


class Thing:
    __slots__ = ("first", "second")

    def __init__(self, value: Any) -> None:
        self.first: Any = None
        self.second = value


class Special(Thing):
    __slots__ = ("third",)


def watching(things: list[Thing]) -> FieldWatch:
    watch = watch_field(Thing, vars(Thing)["second"], things)
    assert watch is not None
    watch.note([id(thing.second) for thing in things])
    return watch


def test_another_value_of_one_object_is_seen() -> None:
    things = [Thing(object()) for _ in range(3)] + [Special(object())]
    watch = watching(things)
    assert watch.is_same()
    things[1].first = object()  # not that field
    assert watch.is_same()
    before, things[3].second = things[3].second, object()
    assert not watch.is_same()
    things[3].second = before
    assert watch.is_same()


def test_nothing_is_the_same() -> None:
    assert watching([]).is_same()


def test_a_field_that_is_not_in_the_object_is_not_watched() -> None:
    class Elsewhere:
        def __set__(self, instance: Any, value: Any) -> None:
            """Keeps nothing where it is looked for."""

    assert watch_field(Thing, Elsewhere(), [Thing(1)]) is None
