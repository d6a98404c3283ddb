"""The standard library's `dataclass`, made in a twentieth of the time.

    from whit.records import dataclass, field

    @dataclass(frozen=True, slots=True)
    class RangeArg: ...

A hundred and seventy records are made before the first kernel runs. The standard library compiles six functions for
each of them; here `__init__` alone is compiled, when a class has made some records or somebody asks for its signature,
and the other methods are closures over the names of the fields: 0.26 -> 0.01 ms a class (bench/records.py).
`dataclasses` itself loads `inspect` and with it a parser of Python, 4 ms; it is imported when somebody asks for what it
knows: type checkers see its own functions, and `replace`, `fields` and `asdict` of the standard library take these
records like its own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Final, get_origin

NO_METADATA: dict[str, Any] = {}

if TYPE_CHECKING:
    from dataclasses import MISSING as MISSING
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
    from dataclasses import fields as fields
    from dataclasses import is_dataclass as is_dataclass
    from dataclasses import replace as replace
else:
    MISSING: Final = type("Missing", (), {"__repr__": lambda self: "MISSING"})()

    def field(
        *,
        default: Any = MISSING,
        default_factory: Any = MISSING,
        init: bool = True,
        repr: bool = True,
        compare: bool = True,
        kw_only: bool = False,
        metadata: Any = NO_METADATA,
    ) -> Any:
        """What a declaration says about a field: of the options of `dataclasses.field` those that whit needs."""
        if default is not MISSING and default_factory is not MISSING:
            raise ValueError("cannot specify both default and default_factory")
        return _Field(default, default_factory, init, repr, compare, kw_only, metadata)

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
            found = _declared(cls)
            if slots:
                cls = _with_slots(cls, list(found), weakref_slot)
            else:
                _set_defaults(cls, found)
            own = cls.__dict__
            for name, value in _attributes(cls, found, frozen, eq, repr).items():
                if name not in own or (name == "__hash__" and own[name] is None):
                    setattr(cls, name, value)
            return cls

        return decorate if cls is None else decorate(cls)

    def is_dataclass(value: Any) -> bool:
        """Whether it is a record or the class of records; also one of the standard library's."""
        cls = value if isinstance(value, type) else type(value)
        return hasattr(cls, "__record_fields__") or hasattr(cls, "__dataclass_fields__")

    def fields(record: Any) -> tuple[Any, ...]:
        """The fields of a record or of its class, in order: name, type, default ... of each; also the standard's."""
        found = getattr(record, "__record_fields__", None)
        if found is None:
            from dataclasses import fields  # lazy: it loads `inspect`, and the records of whit do without

            return fields(record)
        return tuple(found.values())

    def replace(record: Any, /, **changes: Any) -> Any:
        """A record with other values in some of its fields; also one of the standard library's."""
        found = getattr(record, "__record_fields__", None)
        if found is None:
            from dataclasses import replace  # lazy: as above

            return replace(record, **changes)
        for name, each in found.items():
            if each.init:
                if name not in changes:
                    changes[name] = getattr(record, name)
            elif name in changes:
                raise ValueError(f"field {name} is declared with init=False, it cannot be specified with replace()")
        return record.__class__(**changes)


class _Field:
    """What is known about a field."""

    __slots__ = ("compare", "default", "default_factory", "init", "kw_only", "metadata", "name", "repr", "type")

    def __init__(
        self,
        default: Any,
        default_factory: Any,
        init: bool = True,
        repr: bool = True,
        compare: bool = True,
        kw_only: bool = False,
        metadata: Any = NO_METADATA,
    ) -> None:
        self.metadata = metadata
        self.default, self.default_factory = default, default_factory
        self.init, self.repr, self.compare, self.kw_only = init, repr, compare, kw_only
        self.name: str = ""
        self.type: Any = None

    def __repr__(self) -> str:
        return f"Field(name={self.name!r}, type={self.type!r})"

    @property
    def has_default(self) -> bool:
        return self.default is not MISSING or self.default_factory is not MISSING


def _declared(cls: Any) -> dict[str, _Field]:
    """The fields of a class by name: those that it inherits, then its own."""
    found: dict[str, _Field] = {}
    for base in cls.__mro__[-2:0:-1]:
        if "__record_fields__" in base.__dict__:
            found |= base.__dict__["__record_fields__"]
        elif "__dataclass_fields__" in base.__dict__:
            raise TypeError(f"{cls.__qualname__}: its base {base.__qualname__} is a dataclass of the standard library")
    for name, annotation in cls.__annotations__.items():
        if _is_class_variable(annotation):
            continue
        value = cls.__dict__.get(name, MISSING)
        if type(value).__module__ == "dataclasses":
            raise TypeError(f"{cls.__qualname__}.{name}: its `field` is that of dataclasses; use that of whit.records")
        if type(value).__name__ == "member_descriptor":  # of `__slots__` that the class itself declares
            value = MISSING
        each = value if isinstance(value, _Field) else _Field(value, MISSING)
        if each.default is not MISSING and each.default.__class__.__hash__ is None:
            raise ValueError(f"mutable default of {cls.__qualname__}.{name}: use default_factory")
        each.name, each.type = name, annotation
        found[name] = each
    _check_order(found)
    return found


def _is_class_variable(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return annotation.startswith(("ClassVar", "typing.ClassVar"))
    return annotation is ClassVar or get_origin(annotation) is ClassVar


def _check_order(found: dict[str, _Field]) -> None:
    has_default = False
    for each in found.values():
        if not each.init or each.kw_only:
            continue
        if has_default and not each.has_default:
            raise TypeError(f"non-default argument {each.name!r} follows default argument")
        has_default = has_default or each.has_default


def _attributes(cls: type, found: dict[str, _Field], frozen: bool, eq: bool, has_repr: bool) -> dict[str, Any]:
    """What makes a class a record, by name: methods, and what is known about it."""
    options = {"frozen": frozen, "eq": eq, "repr": has_repr}
    made: dict[str, Any] = {
        "__init__": _Init(cls, found, frozen),
        "__match_args__": tuple([name for name, each in found.items() if each.init and not each.kw_only]),
        "__replace__": replace,
        "__record_fields__": found,
        "__dataclass_fields__": _Standard(cls, "__dataclass_fields__", options),
        "__dataclass_params__": _Standard(cls, "__dataclass_params__", options),
    }
    if has_repr:
        made["__repr__"] = _repr
    if eq:
        key = _key([name for name, each in found.items() if each.compare])
        made["__eq__"] = _equals(key)
        made["__hash__"] = (lambda self: hash(key(self))) if frozen else None
    if frozen:
        made |= _frozen(cls, set(found))
        if "__slots__" in cls.__dict__:
            made |= {"__getstate__": _state, "__setstate__": _set_state}
    return made


def _set_defaults(cls: type, found: dict[str, _Field]) -> None:
    """The values that fields have by default in place of what was declared about them."""
    for name in [name for name, value in cls.__dict__.items() if isinstance(value, _Field)]:
        if found[name].default is MISSING:
            delattr(cls, name)
        else:
            setattr(cls, name, found[name].default)


def _with_slots(cls: Any, names: list[str], has_weakref_slot: bool) -> type:
    """A class like another one that keeps its fields in slots, which only a new class can have."""
    if "__slots__" in cls.__dict__:
        raise TypeError(f"{cls.__name__} already specifies __slots__")
    inherited = {name for base in cls.__mro__[1:-1] for name in base.__dict__.get("__slots__", ())}
    # Without the defaults, which would hide the slots, and without what belongs to the class that is copied.
    left_out = {*names, "__dict__", "__weakref__"}
    namespace = {name: value for name, value in cls.__dict__.items() if name not in left_out}
    slots = [*names, "__weakref__"] if has_weakref_slot else names
    namespace["__slots__"] = tuple([name for name in slots if name not in inherited])
    made: type = type(cls)(cls.__name__, cls.__bases__, namespace)
    made.__qualname__ = cls.__qualname__
    return made


_FIRST_FEW = 8  # most kinds of records are made fewer times in a short program; compiling takes 20 times as long as one


class _Init:
    """`__init__` of a record: its first records are filled from here, then it is compiled, and so it is for those who
    look at its signature."""

    __slots__ = ("cls", "fields", "frozen", "made", "names")

    def __init__(self, cls: Any, fields: dict[str, _Field], frozen: bool) -> None:
        self.cls, self.fields, self.frozen = cls, fields, frozen
        self.made = 0
        self.names = [name for name, each in fields.items() if each.init and not each.kw_only]

    def __get__(self, instance: object, owner: type) -> Any:
        """What fills an instance; for a class, the compiled function."""
        if instance is None:
            return self.compiled()
        if isinstance(instance, type):  # `inspect.signature` from Python 3.12 on binds it to the class
            return partial(self.compiled(), instance)
        self.made += 1
        return partial(self.fill, instance) if self.made <= _FIRST_FEW else partial(self.compiled(), instance)

    def compiled(self) -> Callable[..., None]:
        """The function, which is put in this one's place."""
        init = self.cls.__init__ = _init(self.cls, self.fields, self.frozen)
        return init

    def fill(self, instance: Any, /, *given: Any, **named: Any) -> None:
        """Sets the fields of a record as the compiled function does, which says what is wrong with arguments."""
        values: dict[str, Any] = dict(zip(self.names, given, strict=False))
        wrong = len(given) > len(self.names) or not values.keys().isdisjoint(named)
        values |= named
        count = len(values)
        for name, each in self.fields.items():
            if not each.init:
                continue
            if name in values:
                count -= 1
            elif each.has_default:
                values[name] = each.default if each.default_factory is MISSING else each.default_factory()
            else:
                wrong = True
        if wrong or count:
            self.compiled()(instance, *given, **named)
            return
        set_field = object.__setattr__ if self.frozen else setattr
        for name in self.fields:
            if name in values:
                set_field(instance, name, values[name])
        if hasattr(instance, "__post_init__"):
            instance.__post_init__()


def _init(cls: type, fields: dict[str, _Field], frozen: bool) -> Callable[..., None]:
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


class _Standard:
    """What the standard library keeps about a dataclass, found out when it asks."""

    __slots__ = ("cls", "name", "options")

    def __init__(self, cls: Any, name: str, options: dict[str, bool]) -> None:
        self.cls, self.name, self.options = cls, name, options

    def __get__(self, instance: object, owner: type) -> Any:
        """The standard library's value, which is put in this one's place."""
        import dataclasses  # lazy: it loads `inspect`, and hardly any program asks

        # A class of the same fields is made a dataclass, and what is known about that holds for the record, too.
        namespace: dict[str, Any] = {"__doc__": "", "__module__": self.cls.__module__, "__annotations__": {}}
        for each in self.cls.__record_fields__.values():
            given = {
                name: value for name in ("default", "default_factory") if (value := getattr(each, name)) is not MISSING
            }
            shown: dict[str, Any] = {
                "init": each.init,
                "repr": each.repr,
                "compare": each.compare,
                "kw_only": each.kw_only,
            }
            shown["metadata"] = each.metadata or None
            namespace[each.name] = dataclasses.field(**given, **shown)
            namespace["__annotations__"][each.name] = each.type
        made: Any = dataclasses.dataclass(**self.options)(type(self.cls.__name__, (), namespace))
        setattr(self.cls, self.name, getattr(made, self.name))
        return getattr(made, self.name)


def _key(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """The values of fields as a tuple."""
    if not names:
        return lambda self: ()
    return attrgetter(names[0], *(names[1:] or names))  # twice the only one: of one name it would be no tuple


def _equals(key: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any, object], bool]:
    def __eq__(self: Any, other: object) -> bool:  # noqa: N807  is set under this name
        return key(self) == key(other) if other.__class__ is self.__class__ else NotImplemented

    return __eq__


def _repr(self: Any) -> str:
    names = [name for name, each in self.__record_fields__.items() if each.repr]
    return f"{self.__class__.__qualname__}({', '.join([f'{name}={getattr(self, name)!r}' for name in names])})"


def _frozen(cls: Any, names: set[str]) -> dict[str, Any]:
    """What stands in the way of changes: to the class itself, and to its fields in classes that inherit from it."""

    def __setattr__(self: Any, name: str, value: object) -> None:  # noqa: N807
        if type(self) is cls or name in names:
            raise _frozen_error(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:  # noqa: N807
        if type(self) is cls or name in names:
            raise _frozen_error(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return {"__setattr__": __setattr__, "__delattr__": __delattr__}


def _frozen_error(text: str) -> AttributeError:
    from dataclasses import FrozenInstanceError  # lazy: for a message alone

    return FrozenInstanceError(text)


def _state(self: Any) -> list[Any]:
    """For copies and pickles of what has slots and may not be changed."""
    return [getattr(self, name) for name in self.__record_fields__]


def _set_state(self: Any, state: list[Any]) -> None:
    for name, value in zip(self.__record_fields__, state, strict=True):
        object.__setattr__(self, name, value)
