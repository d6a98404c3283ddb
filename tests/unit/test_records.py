"""`whit.records.dataclass` makes what the standard library's makes."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, field, fields, replace
from functools import partial
from typing import Any, ClassVar

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
    return [_made(library.dataclass(**options), library.field) for library in (dataclasses, records)]


def _made(decorate: Callable[[type], type], field: Any) -> type[Any]:
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


def test_the_standard_library_knows_them() -> None:
    standard, ours = both({"frozen": True, "slots": True})
    assert dataclasses.is_dataclass(ours)
    assert [repr(each) for each in fields(ours)] == [repr(each) for each in fields(standard)]
    assert [(each.name, each.type, each.init) for each in records.fields(ours)] == [
        (each.name, each.type, each.init) for each in fields(standard)
    ]
    assert inspect.signature(ours).parameters.keys() == inspect.signature(standard).parameters.keys()

    @dataclasses.dataclass(frozen=True)
    class Longer(ours):  # type: ignore[misc, valid-type]
        more: int = field(default=0, kw_only=True)

    assert (Longer("a", more=2).name, Longer("a", more=2).more) == ("a", 2)


def test_records_of_the_standard_library_are_taken_too() -> None:
    standard, ours = both({"frozen": True})
    assert [records.is_dataclass(each) for each in (standard, ours, standard("a"), ours("a"), int, 3)] == [True] * 4 + [
        False
    ] * 2
    assert [each.name for each in records.fields(standard("a"))] == [each.name for each in records.fields(ours("a"))]
    for kind in (standard, ours):
        assert records.replace(kind("a"), size=4) == kind("a", 4)
        with pytest.raises((ValueError, TypeError), match="field total is declared with init=False"):  # 3.13: TypeError
            records.replace(kind("a"), total=4)
        with pytest.raises(TypeError, match="other"):
            records.replace(kind("a"), other=4)


def test_the_first_records_are_like_those_after_them() -> None:
    def made(row: Any) -> list[object]:
        one = _outcome(lambda: asdict(row("a", parts=[1], unit="bits")))
        errors = [
            _outcome(partial(row, *given, **named))
            for given, named in (
                ((), {}),
                (("a", 1, [], "", 3), {}),
                (("a",), {"name": "b"}),
                (("a",), {"total": 3}),
                (("a",), {"other": 3}),
            )
        ]
        return [one, *errors]

    standard, ours = both({"frozen": True, "slots": True})
    expected = made(standard)
    assert [type(each) for each in expected] == [dict] + [tuple] * 5
    assert made(ours) == expected
    for _ in range(20):
        assert _outcome(lambda: asdict(ours("a", parts=[1], unit="bits"))) == expected[0]
    assert inspect.isfunction(ours.__dict__["__init__"])
    assert made(ours) == expected


def test_init_is_compiled_when_it_is_asked_for() -> None:
    @records.dataclass(slots=True)
    class Base:
        size: int
        factor: float = 1.0

    @records.dataclass(slots=True)
    class Named(Base):
        name: str = "a"

    class Plain(Base):
        pass

    assert not inspect.isfunction(Base.__dict__["__init__"])
    assert (Plain(3).size, Plain(3).factor) == (3, 1.0)  # through a class that inherits it
    assert [*inspect.signature(Plain).parameters] == ["size", "factor"]
    assert inspect.isfunction(Base.__dict__["__init__"])
    assert not inspect.isfunction(Named.__dict__["__init__"])
    assert Named(1, 2.0, name="b") == records.replace(Named(5), size=1, factor=2.0, name="b")
    assert [name for name in ("size", "factor", "name") if name in Named.__slots__] == ["name"]
    with pytest.raises(TypeError, match=r"Named.__init__\(\) missing 1 required positional argument: 'size'"):
        Named()  # type: ignore[call-arg]


def test_wrong_declarations_are_refused() -> None:
    def declared(**values: object) -> type:
        annotations = dict.fromkeys(("first", "second"), "int")
        return records.dataclass(type("Row", (), {"__annotations__": annotations, **values}))

    with pytest.raises(TypeError, match="non-default argument 'second' follows default argument"):
        declared(first=1)
    with pytest.raises(ValueError, match=r"mutable default of Row\.second: use default_factory"):
        declared(second=[])
    with pytest.raises(TypeError, match=r"Row\.second: its `field` is that of dataclasses"):
        declared(second=field(default=3))
    with pytest.raises(TypeError, match="base Point is a dataclass of the standard library"):
        records.dataclass(type("Row", (dataclasses.make_dataclass("Point", ["x"]),), {}))


def test_class_variables_are_no_fields() -> None:
    @records.dataclass
    class Row:
        size: int
        unit: ClassVar[str] = "bytes"

    assert [each.name for each in records.fields(Row)] == ["size"]
    assert Row(3) == Row(3)
    assert Row.unit == "bytes"
