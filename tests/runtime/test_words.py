"""Words of Python's objects: every change is seen, and looking changes nothing."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import pytest

from whit.runtime.pool.words import Words, can_watch

pytestmark = pytest.mark.skipif(not can_watch(), reason="this Python keeps its objects otherwise")


class Thing:
    k = 1


class Other:
    k = 2


def changes() -> dict[str, tuple[Callable[[Words], None], Callable[[], Any]]]:
    some, things, thing, cell = {"a": 1}, [1, 2], Thing(), types.CellType(1)

    def function(a: int = 1, *, b: int = 2) -> None:
        pass

    class Base:
        pass

    class Derived(Base):
        pass

    return {
        "entry changed": (lambda w: w.dict(some), lambda: some.update(a=object())),
        "entry added": (lambda w: w.dict(some), lambda: some.update(b=1)),
        "entry removed": (lambda w: w.dict(some), lambda: some.pop("a")),
        "attribute set": (lambda w: w.dict(thing.__dict__), lambda: setattr(thing, "k", 3)),
        "element": (lambda w: w.list(things), lambda: things.__setitem__(1, 5)),
        "append": (lambda w: w.list(things), lambda: things.append(5)),
        "pop": (lambda w: w.list(things), things.pop),
        "clear": (lambda w: w.list(things), things.clear),
        "class": (lambda w: w.kind(thing), lambda: setattr(thing, "__class__", Other)),
        "cell": (lambda w: w.cell(cell), lambda: setattr(cell, "cell_contents", 2)),
        "default": (lambda w: w.function(function), lambda: setattr(function, "__defaults__", (3,))),  # type: ignore[arg-type]
        "bases": (lambda w: w.bases(Derived), lambda: setattr(Derived, "__bases__", (Thing, Base))),
    }


@pytest.mark.parametrize("name", changes())
def test_a_change_is_seen(name: str) -> None:
    note, change = changes()[name]
    words = Words()
    words.kind(name)
    note(words)
    assert words.first_other() == -1 == words.first_other()
    change()
    assert words.first_other() >= 1


def test_reading_is_no_change() -> None:
    thing, things, words = Thing(), list(range(100)), Words()
    words.dict(thing.__dict__)
    words.list(things)
    assert (thing.k, hasattr(thing, "x"), sum(things), len(vars(thing)), sorted(things)[0]) == (1, False, 4950, 0, 0)
    assert words.first_other() == -1 and len(words) == 103
