"""The standard library's `dataclass`, made in a quarter of the time.

    from whit.records import dataclass

    @dataclass(frozen=True, slots=True)
    class RangeArg: ...

A hundred and forty records are made before the first kernel runs, and the standard library compiles six functions for
each. Here `__init__` alone is compiled, 0.75 -> 0.17 ms a record (bench/records.py); the others are closures over the
names of the fields. Type checkers see the standard library's own, and so do `replace`, `fields` and `asdict`: what is
made is one of its dataclasses.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(
        cls: type | None = None,
        /,
        *,
        frozen: bool = False,
        slots: bool = False,
        eq: bool = True,
        repr: bool = True,
        weakref_slot: bool = False,
    ) -> Any:
        """Makes a class a dataclass: `dataclasses.dataclass`, of its options those that whit needs."""

        def decorate(cls: type) -> type:
            plain = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, weakref_slot=weakref_slot)
            made = plain(cls)
            for name, method in _methods(made, frozen, eq, repr).items():
                if name not in cls.__dict__ or (name == "__hash__" and cls.__dict__[name] is None):
                    setattr(made, name, method)
            return made

        return decorate if cls is None else decorate(cls)


def _methods(cls: type, frozen: bool, eq: bool, has_repr: bool) -> dict[str, Any]:
    """The methods of a dataclass by name."""
    fields: dict[str, Field[Any]] = cls.__dataclass_fields__  # type: ignore[attr-defined]
    found: dict[str, Any] = {"__init__": _init(cls, fields, frozen)}
    if has_repr:
        found["__repr__"] = _repr([name for name, each in fields.items() if each.repr])
    if eq:
        key = _key([name for name, each in fields.items() if each.compare])
        found["__eq__"] = _equals(key)
        found["__hash__"] = (lambda self: hash(key(self))) if frozen else None
    if frozen:
        found |= _frozen(cls, set(fields))
        if "__slots__" in cls.__dict__:
            found |= {"__getstate__": _state, "__setstate__": _set_state}
    return found


def _init(cls: type, fields: dict[str, Field[Any]], frozen: bool) -> Callable[..., None]:
    """`__init__`, compiled: it runs for every record."""
    known: dict[str, Any] = {"MISSING": MISSING, "set_field": object.__setattr__}
    given = sorted((each for each in fields.values() if each.init), key=lambda each: bool(each.kw_only))
    parameters, lines = ["self"], []
    for each in given:
        name = value = each.name
        if each.kw_only and "*" not in parameters:
            parameters.append("*")
        if each.default_factory is not MISSING:
            known[f"new_{name}"] = each.default_factory
            parameters.append(f"{name}=MISSING")
            value = f"new_{name}() if {name} is MISSING else {name}"
        elif each.default is not MISSING:
            known[f"default_{name}"] = each.default
            parameters.append(f"{name}=default_{name}")
        else:
            parameters.append(name)
        lines.append(f"set_field(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    body = "\n  ".join(lines or ["pass"])
    exec(f"def __init__({', '.join(parameters)}):\n  {body}", known)
    init: Callable[..., None] = known["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__annotations__ = {each.name: each.type for each in given} | {"return": None}
    return init


def _key(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """The values of fields as a tuple."""
    if not names:
        return lambda self: ()
    return attrgetter(names[0], *(names[1:] or names))  # twice the only one: of one name it would be no tuple


def _equals(key: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any, object], bool]:
    def __eq__(self: Any, other: object) -> bool:  # noqa: N807  is set under this name
        return key(self) == key(other) if other.__class__ is self.__class__ else NotImplemented

    return __eq__


def _repr(names: list[str]) -> Callable[[Any], str]:
    def __repr__(self: Any) -> str:  # noqa: N807  is set under this name
        return f"{self.__class__.__qualname__}({', '.join([f'{name}={getattr(self, name)!r}' for name in names])})"

    return __repr__


def _frozen(cls: Any, names: set[str]) -> dict[str, Any]:
    """What stands in the way of changes: to the class itself, and to its fields in classes that inherit from it."""

    def __setattr__(self: Any, name: str, value: object) -> None:  # noqa: N807
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:  # noqa: N807
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return {"__setattr__": __setattr__, "__delattr__": __delattr__}


def _state(self: Any) -> list[Any]:
    """For copies and pickles of what has slots and may not be changed."""
    return [getattr(self, each.name) for each in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for each, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)
