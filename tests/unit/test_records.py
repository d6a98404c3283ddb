"""`whit.records.dataclass` makes what the standard library's makes."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, field, fields, replace
from typing import Any

import pytest

from whit import records
from whit.ir.args import PrefetchArg

OPTIONS: list[dict[str, bool]] = [
    {},
    {"slots": True},
    {"frozen": True},
    {"frozen": True, "slots": True},
    {"frozen": True, "slots": True, "eq": False},
    {"frozen": True, "repr": False},
    {"frozen": True, "slots": True, "weakref_slot": True},
]


def both(options: dict[str, bool]) -> list[type[Any]]:
    """The same class by the standard library's decorator and by whit's."""
    return [_made(decorator(**options)) for decorator in (dataclasses.dataclass, records.dataclass)]


def _made(decorate: Callable[[type], type]) -> type[Any]:
    @decorate
    class Row:
        """A row."""

        name: str
        size: int = 3
        parts: list[int] = field(default_factory=list)
        note: str = field(default="", compare=False)
        total: int = field(init=False)
        unit: str = field(default="bytes", kw_only=True)

        def __post_init__(self) -> None:
            object.__setattr__(self, "total", self.size * 2)

    return Row


def _outcome(run: Callable[[], object]) -> object:
    """What it returns, or the type and text of its error."""
    try:
        return run()
    except (TypeError, AttributeError, FrozenInstanceError) as error:
        return type(error), str(error)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_records_behave_as_the_standard_librarys(options: dict[str, bool]) -> None:
    def seen(row: type[Any]) -> list[object]:
        one, same, other = row("a"), row("a", 3, [], "other note"), row("a", parts=[1], unit="bits")
        shown = repr(one) if options.get("repr", True) else ""
        return [
            shown.partition("(")[2],
            (one == same, one != same, one == other, one == "a", one == one),
            (other.total, other.unit, other.parts, one.parts is same.parts),
            [(each.name, each.type, each.kw_only) for each in fields(row)],
            asdict(replace(other, size=5)),
            asdict(copy.deepcopy(other)),
            _outcome(lambda: hash(one)) if options.get("eq", True) and not options.get("frozen") else "",
            _outcome(lambda: setattr(one, "size", 4)),
            _outcome(lambda: setattr(one, "size_in_bytes", 4))
            if options.get("slots") and not options.get("frozen")
            else "",
            _outcome(lambda: delattr(one, "size")),
            row.__match_args__,
            row.__doc__,
            inspect.getfullargspec(row.__init__).args,
            row.__init__.__annotations__,
            hasattr(row, "__dict__"),
        ]

    expected, found = (seen(row) for row in both(options))
    assert found == expected


def test_frozen_records_are_hashed_by_their_fields() -> None:
    @records.dataclass(frozen=True, slots=True)
    class Size:
        bytes: int

    @records.dataclass(frozen=True, slots=True)
    class Empty:
        pass

    nan = float("nan")
    assert {Size(3): "three"}[Size(3)] == "three"
    assert Size(nan) == Size(nan)  # type: ignore[arg-type]  # the same object, as in a tuple
    assert Empty() == Empty()
    assert hash(Empty()) == hash(Empty())


def test_methods_of_the_class_stay() -> None:
    @records.dataclass(frozen=True)
    class Name:
        text: str

        def __hash__(self) -> int:
            return 7

        def __repr__(self) -> str:
            return self.text

    assert (hash(Name("a")), repr(Name("a"))) == (7, "a")


def test_what_inherits_from_a_frozen_record_keeps_its_fields() -> None:
    @records.dataclass(frozen=True)
    class Base:
        size: int

    class Named(Base):
        name: str

    named = Named(3)
    named.name = "a"
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'size'"):
        named.size = 4  # type: ignore[misc]


def test_frozen_records_with_slots_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(PrefetchArg(128))) == PrefetchArg(128)
