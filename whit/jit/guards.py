"""What a captured function depends on besides its arguments, and whether that is still so.

A replay runs no Python, so it would not notice that `self.rate` is another number now, or that `model` is another
model. `FunctionGuards` walks from the function to everything that its code can read: variables of closures, globals,
defaults, attributes that it names, elements of containers, classes and their bases, and the functions that it calls,
with theirs. Everything on the way is noted in one of these forms, and compared before each replay:

    item     what a dictionary has under a key, or that it has nothing there: globals, attributes, also of classes
    order    the elements of a list, a set or a deque, and the keys of a dictionary, one after the other
    cell     a variable of a closure
    probe    anything else that can be asked for: the class of an object, a slot, a default, a context variable
    value    what only its content says: arrays by their bytes, other objects of C by what `pickle` says about them

They are compared by `is`, in rows, and by value where a number or a string is another object but may be equal. Objects
of the user's classes count by the attributes that some code names; those of libraries by all. An object that none of
this can look into is an error: nobody would notice that it has changed.
"""

from __future__ import annotations

import abc
import builtins
import functools
import gc
import logging
import os
import sys
import threading
import types
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from inspect import getattr_static
from operator import attrgetter, methodcaller
from typing import Any, NamedTuple

from whit.dtype import DType
from whit.engine.programs.overlay import Wrapper
from whit.errors import JitError
from whit.ir.uop import UOp
from whit.jit.guard_rows import (
    MISSING,
    SCALARS,
    Caches,
    Cells,
    Changed,
    Functions,
    Items,
    Orders,
    Probes,
    Values,
    inside,
    spell,
)
from whit.jit.library_calls import ASKING_BUILTINS, may_ask
from whit.jit.names import CELL, GLOBAL, SELF, names_of
from whit.jit.opaque import OpaqueError, decimal_context, has_no_value, is_python_class, native_class
from whit.jit.origin import is_library_file, is_users, is_users_module, is_whit
from whit.runtime.pool.fields import offset_of
from whit.runtime.pool.words import Words, can_watch, version_of
from whit.tensor.core import Core

MOST_STEPS = 200_000
_HIDDEN = frozenset({"__init__", "__new__", "__del__", "__init_subclass__", "__class_getitem__"})
_TEXT = frozenset({"__repr__", "__str__", "__format__"})
_SPECIAL = frozenset({"__name__", "__doc__", "__annotations__", "__qualname__", "__module__"})
_SKIPPED = frozenset({"__dict__", "__weakref__"}) | _SPECIAL
_IN_ORDER = {kind.__iter__ for kind in (list, dict, set, frozenset, deque, OrderedDict)}
_CONTAINERS = (list, tuple, dict, set, frozenset, deque)
_SOME: tuple[dict[Any, Any], ...] = ({}, OrderedDict())
_VIEWS = (types.MappingProxyType, *[type(view) for d in _SOME for view in (d.keys(), d.values(), d.items())])
_PLAIN = (object, functools.partial, types.SimpleNamespace, *SCALARS)
_CODE = (
    types.BuiltinFunctionType,
    types.MethodWrapperType,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.CodeType,
    types.GenericAlias,
)


class _Quick(NamedTuple):
    """What native code compares, and what it leaves to Python."""

    words: Words
    rest: list[Any]
    versions: dict[int, int]
    busy: set[int]  # dictionaries that change for other reasons, by id


class FunctionGuards:
    """What a function can read."""

    def __init__(self, roots: Mapping[str, Any], is_open: bool = False) -> None:
        self.tensors: dict[int, str] = {}  # ids of tensors that were reached, and the way to them
        self._names: set[str] = set()  # of attributes of things that are not known
        self._strings: set[str] = set()
        self._on: dict[int, set[str]] = {}  # names of attributes of one object or class, by id
        self._chains: dict[int, list[tuple[str, ...]]] = {}  # what methods read of their object, by the id of its class
        self._classes_of: dict[int, list[type]] = {}  # the classes that a method belongs to, by id
        self._instances: list[tuple[Any, str]] = []
        self._alive: list[Any] = []  # whose ids are used
        self._by_name = False  # code may ask for modules by their names
        self._libraries: set[str] = set()  # whose functions code of the user names
        self._makes_text = False  # of objects, perhaps
        self._asks_all = is_open  # attributes may be read under any name
        self._is_open = False  # and are looked at: after what is read by name
        self._prefixes: tuple[str, ...] = ()  # how names begin that are put together
        self._seen: dict[int, Any] = {}  # by id; the objects stay alive
        self._noted: set[tuple[int, Any]] = set()
        self._waiting: list[tuple[Any, str, bool]] = [(value, label, False) for label, value in roots.items()]
        self._named: list[tuple[Any, str]] = []  # whose attributes count by name
        self._items, self._orders, self._cells = Items(), Orders(), Cells()
        self._kinds, self._bases = Probes(type), Probes(attrgetter("__mro__"))
        self._functions, self._asking = Functions(), Probes(attrgetter("requires_grad"))
        self._probes, self._values, self._caches = Probes(_call), Values(), Caches()
        self._places = Probes(_slot_of)  # attributes in slots: pairs of the slot and the object
        self._walk()
        rows = (self._items, self._cells, self._orders, self._kinds, self._bases, self._functions, self._asking)
        self._rows = [row for row in (*rows, self._places, self._probes, self._values, self._caches) if row.labels]
        self._quick: _Quick | None = None

    def settle(self) -> None:
        """The function was captured, and changes nothing: from now on this is compared, before each replay."""
        self._caches.settle()  # may have one result more
        if can_watch():
            self._quick = self._note(_Quick(Words(), [], {}, set()))

    def may_ask(self) -> bool:
        """Whether the function may call what gives something else each time."""
        return any(may_ask(module, self._names) and not is_users_module(module) for module in self._libraries)

    # ---- comparing

    def holds(self) -> bool:
        """Whether everything is what it was; False also where that takes a closer look."""
        quick = self._quick
        if quick is not None and quick.words.first_other() < 0:
            return all(row.hold() or row.changed() is None for row in quick.rest)
        if not all(row.hold() for row in self._rows):
            return False
        if quick is not None:
            self._quick = self._note(quick)
        return True

    def changed(self) -> Changed | None:
        """The first thing that is not what it was. Equal numbers and strings are no change, and are noted."""
        for row in self._rows:
            found = row.changed()
            if found is not None:
                return found
        if self._quick is not None:
            self._quick = self._note(self._quick)
        return None

    def _note(self, before: _Quick) -> _Quick:
        """What native code is to compare from now on. Dictionaries that change though nothing in them that counts does
        (globals of a script) are left to Python."""
        dicts = {id(one): one for one in (*self._items.dicts, *self._orders.versioned())}
        versions = {key: version_of(one) for key, one in dicts.items()}
        busy = before.busy | {key for key, version in versions.items() if before.versions.get(key, version) != version}
        words = Words()
        compared: list[tuple[Callable[[Any], None], Iterable[Any]]] = [
            (words.dict, [one for key, one in dicts.items() if key not in busy]),
            (words.list, self._orders.lists()),
            (words.cell, self._cells.cells),
            (words.kind, self._kinds.objects),
            (words.bases, self._bases.objects),
            (words.function, self._functions.objects),
        ]
        rest: list[Any] = [self._items.only(busy), self._orders.only(busy), self._probes, self._values, self._caches]
        offset = offset_of(Core, vars(Core)["requires_grad"])
        if offset is None:
            rest.append(self._asking)
        else:
            compared.append((functools.partial(words.field, offset=offset), self._asking.objects))
        known = _slots_in(words, self._places.objects)
        compared += known
        rest += [self._places] * (len(known) != len(self._places.objects))
        for note, objects in compared:
            for one in objects:
                note(one)
        return _Quick(words, [row for row in rest if row.labels], versions, busy)

    # ---- walking

    def _walk(self) -> None:
        """First what is read by name, where all must be looked into; then what may be read under other names."""
        self._walk_names()
        while self._asks_all and not self._is_open:
            self._is_open = True
            self._walk_names()

    def _walk_names(self) -> None:
        known = None
        while known != self._known():  # names in a function that was found last may be attributes
            known = self._known()
            for value, label in list(self._named):
                self._again(value, label)
            if self._by_name:
                for name in self._strings & sys.modules.keys():
                    self._item(sys.modules, name, name)
            while self._waiting:
                self._look(*self._waiting.pop())

    def _known(self) -> tuple[Any, ...]:
        return len(self._names), sum(map(len, self._on.values())), len(self._prefixes), self._is_open, self._makes_text

    def _again(self, value: Any, label: str) -> None:
        """There are more names now."""
        if isinstance(value, type):
            self._class_attributes(value)
        elif isinstance(value, types.ModuleType) and not is_users(value):
            self._library(value, label)
        elif isinstance(value, Wrapper):
            self._attributes_of_jit(value, label)
        else:
            self._attributes(value, label)
            if isinstance(value, types.FunctionType):
                self._special_attributes(value, label)

    def _follow(self, value: Any, label: str, is_method: bool = False) -> None:
        self._waiting.append((value, label, is_method))

    def _item(self, container: dict[Any, Any], key: Any, label: str, is_method: bool = False) -> None:
        """Notes what a dictionary has under a key, and looks at it."""
        if (id(container), key) in self._noted:
            return
        self._noted.add((id(container), key))
        items = self._items
        value = dict.get(container, key, MISSING)
        items.dicts.append(container)
        items.keys.append(key)
        items.values.append(value)
        items.labels.append(label)
        if len(items.labels) > MOST_STEPS:
            raise JitError(
                f"{label}: the function can read more than {MOST_STEPS} things, too many to compare in each call",
                fix="Pass what it needs as arguments, as tensors where there are many numbers.",
            )
        self._follow(value, label, is_method)

    def _order(self, container: Any, label: str, counts: Callable[[Any], bool] | None = None) -> None:
        if (id(container), MISSING) not in self._noted:
            self._noted.add((id(container), MISSING))
            if type(container).__iter__ in _IN_ORDER:
                self._orders.add(container, label, counts)
            else:  # a class of the user with an iterator of its own
                self._value(container, label)

    def _probe(self, label: str, function: Callable[..., Any], *arguments: Any) -> Any:
        return self._probes.add(functools.partial(function, *arguments), label)

    def _look(self, value: Any, label: str, is_method: bool) -> None:  # noqa: C901  one case for each type
        kind = type(value)
        if kind is types.FunctionType and not is_method:
            self._loosen(value)
        if kind in SCALARS or value is MISSING or isinstance(value, DType | UOp):
            return
        if isinstance(value, type):
            self._constructor(value, label)
        if id(value) in self._seen:
            return
        self._seen[id(value)] = value
        if isinstance(value, Core):
            self.tensors.setdefault(id(value), label)
            self._asking.add(value, f"{label}.requires_grad")
            if kind is not Core:
                self._object(value, kind, label)
        elif isinstance(value, Wrapper):
            self._follow(value.wrapped(), label)
            self._named.append((value, label))
            self._attributes_of_jit(value, label)
        elif kind is types.FunctionType:
            self._function(value, label)
        elif kind is types.MethodType:
            if not isinstance(value.__self__, type):
                self._belongs(value.__func__, type(value.__self__))
            self._follow(value.__func__, label, not isinstance(value.__self__, type))
            self._follow(value.__self__, f"{label}.__self__")  # what is known of it is looked at first
        elif kind is types.ModuleType or isinstance(value, types.ModuleType):
            self._module(value, label)
        elif isinstance(value, type):
            self._class(value, label)
        elif isinstance(value, _CODE):
            owner = getattr(value, "__self__", None)
            if not isinstance(owner, types.ModuleType | type):
                self._follow(owner, label)
        elif isinstance(value, logging.Logger):  # its level and what is above it; not where messages go
            self._value(value, label)
        elif not has_no_value(value):
            self._object(value, kind, label)

    # ---- objects

    def _object(self, value: Any, kind: type, label: str) -> None:  # noqa: C901  one case for each type
        """What is in an object: elements, attributes, and what only its class knows."""
        if is_python_class(kind):
            self._kinds.add(value, f"the class of {label}")
        self._attributes(value, label)
        if is_users(kind):
            self._instance(value, label)
            self._follow(kind, f"type({label})")
        elif not is_whit(kind.__module__):
            self._libraries.add(kind.__module__)
        native = native_class(kind)
        if isinstance(value, _CONTAINERS):
            self._elements(value, label)
        elif isinstance(value, ContextVar):
            self._follow(self._probe(label, value.get, MISSING), label)
        elif isinstance(value, types.CellType):
            self._follow(self._probe(label, inside, value), label)
        elif isinstance(value, weakref.ref | weakref.ProxyType | weakref.CallableProxyType):
            self._weak(value, label)
        elif isinstance(value, _VIEWS):
            self._follow(gc.get_referents(value)[0], label)
        elif isinstance(value, property | staticmethod | classmethod):
            for name in ("fget", "fset", "__func__"):
                self._follow(getattr(value, name, None), label, name != "__func__")
        elif isinstance(value, BaseException):
            self._follow(self._probe(label, attrgetter("args"), value), label)
        elif isinstance(value, attrgetter | methodcaller):
            self._asks_all = True
        elif isinstance(value, threading.local):
            self._value(value, label)
            for name, part in vars(value).items():
                self._follow(part, f"{label}.{name}")
        elif native is functools._lru_cache_wrapper:
            self._follow(value.__wrapped__, label)
            for result in self._caches.add(value, f"the cache of {label}"):
                self._follow(result, f"the cache of {label}")
        elif native not in _PLAIN and not isinstance(value, Core) and not hasattr(native, "__get__"):
            self._value(value, label)

    def _weak(self, value: Any, label: str) -> None:
        """What a weak reference shows must not be kept alive by looking at it."""
        shown = self._probe(label, value) if isinstance(value, weakref.ref) else value
        if isinstance(shown, type | types.FunctionType | types.ModuleType | type(None)):
            self._follow(shown, label)
            return
        if self._is_open:
            return
        raise JitError(
            f"{label} is a weak reference, and what it shows may go away: a function that is replayed would not notice",
            fix="Keep the object itself, or pass what is read from it as an argument.",
        )

    def _value(self, value: Any, label: str) -> None:
        try:
            self._values.add(value, label)
        except OpaqueError as error:
            if self._is_open:  # nobody has named it
                return
            why, fix = error.args
            raise JitError(f"{label} is a {type(value).__name__}: {why}", fix=fix) from None

    def _elements(self, value: Any, label: str) -> None:
        if isinstance(value, tuple | frozenset):
            for place, part in enumerate(tuple.__iter__(value) if isinstance(value, tuple) else value):
                self._follow(part, f"{label}[{place}]")
            return
        self._order(value, label)
        if isinstance(value, dict):
            for key in list(dict.keys(value)):
                self._item(value, key, f"{label}[{spell(key)}]")
                self._follow(key, f"a key of {label}")
        else:
            elements: Iterable[Any] = type(value).__iter__(value) if type(value).__iter__ in _IN_ORDER else value
            for place, part in enumerate(elements):
                self._follow(part, f"{label}[{place}]")

    def _attributes(self, value: Any, label: str) -> None:
        """The attributes of an object that some code names; of objects of libraries all."""
        is_library = _is_of_library(value)
        if not is_library and (id(value), "named") not in self._noted:
            self._noted.add((id(value), "named"))
            self._named.append((value, label))
        is_all = is_library or (self._is_open and not isinstance(value, types.ModuleType))
        counts = _always if is_all else functools.partial(self._counts_on, id(value))
        fields = _fields(value, type(value))
        if fields is not None:
            self._order(fields, label, counts)
            for name in filter(counts, list(fields)):
                self._item(fields, name, f"{label}.{name}")
        if not isinstance(value, Core):
            self._slots(value, label, counts)

    def _slots(self, value: Any, label: str, counts: Callable[[Any], bool]) -> None:
        """The attributes of an object that its classes have slots for."""
        for base in type(value).__mro__:
            for name, slot in base.__dict__.items():
                if type(slot) is not types.MemberDescriptorType or (id(value), slot) in self._noted:
                    continue
                if counts(name) and not name.startswith("__"):
                    self._noted.add((id(value), slot))
                    self._follow(self._places.add((slot, value), f"{label}.{name}"), f"{label}.{name}")

    def _attributes_of_jit(self, value: Any, label: str) -> None:
        """Of a function under the JIT those that the user has given it."""
        fields = getattr(value, "__dict__", {})
        self._order(fields, label, lambda name: self._counts(name) and not name.startswith("_"))
        for name in self._names & fields.keys():
            if not name.startswith("_"):
                self._item(fields, name, f"{label}.{name}")

    def _counts_on(self, owner: int, name: Any) -> bool:
        """Whether code may read an attribute of this name from an object, or from a class."""
        return name in self._on.get(owner, ()) or self._counts(name)

    def _counts_of_class(self, kind: type, name: Any) -> bool:
        return any(name in self._on.get(id(base), ()) for base in kind.__mro__) or self._counts(name)

    def _counts(self, name: Any) -> bool:
        if self._is_open or name in self._names:
            return True
        return bool(self._prefixes) and isinstance(name, str) and name.startswith(self._prefixes)

    # ---- attributes of attributes

    def _belongs(self, value: Any, kind: type) -> None:
        """A function is a method of a class: its first argument is an object of it."""
        functions = [value]
        if issubclass(kind, type):  # of a metaclass, whose objects are classes
            self._loosen(value)
        elif isinstance(value, property):
            functions = [value.fget, value.fset]
        elif isinstance(value, functools.cached_property):
            functions = [value.func]
        for function in functions:
            if isinstance(function, types.FunctionType):
                known = self._classes_of.setdefault(id(function), [])
                if kind not in known:
                    known.append(kind)
                    if id(function) in self._seen:
                        self._follow_chains(function, function.__globals__)

    def _loosen(self, function: Any) -> None:
        """A function that may get anything as its first argument, also if it is a method of a class."""
        if isinstance(function, types.FunctionType):
            found = names_of(function.__code__).chains
            self._names.update(name for chain in found if chain.root == SELF for name in chain.attributes)

    def _follow_chains(self, function: types.FunctionType, scope: dict[str, Any]) -> None:
        """What a function reads of its object, of variables of its closure and of globals: `self.opt.step`."""
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        for chain in names_of(function.__code__).chains:
            if chain.root == GLOBAL:
                self._chain(scope.get(chain.name, MISSING), chain.attributes, chain.name)
            elif chain.root == CELL:
                self._chain(inside(cells[chain.name]), chain.attributes, chain.name)
            for kind in self._classes_of.get(id(function), ()) if chain.root == SELF else ():
                known = self._chains.setdefault(id(kind), [])
                if chain.attributes not in known:
                    known.append(chain.attributes)
                    self._chain_of_class(kind, chain.attributes)

    def _chain_of_class(self, kind: type, attributes: tuple[str, ...]) -> None:
        for owner in kind.__mro__:
            self._on.setdefault(id(owner), set()).add(attributes[0])
        found = [(value, label) for value, label in self._instances if isinstance(value, kind)]
        if not found:  # the function makes them
            self._names.update(attributes[1:])
        for value, label in found:
            self._chain(value, attributes, label)

    def _instance(self, value: Any, label: str) -> None:
        """An object: what methods of its class read of it."""
        self._instances.append((value, label))
        for kind in type(value).__mro__:
            for attributes in self._chains.get(id(kind), ()):
                self._chain(value, attributes, label)

    def _chain(self, value: Any, attributes: tuple[str, ...], label: str) -> None:
        """Attributes of attributes of a value. From where it is not known what they lead to, names count for all."""
        for place, name in enumerate(attributes):
            kind: Any = type(value)
            is_object = is_python_class(kind) and not isinstance(value, type | Core | Wrapper)
            if not is_object:
                self._names.update(attributes[place:])
                if isinstance(value, type):  # C.method(something)
                    self._loosen(getattr_static(value, name, None))
                return
            for owner in (value, *kind.__mro__):
                self._on.setdefault(id(owner), set()).add(name)
            self._alive.append(value)
            fields = _fields(value, kind) or {}
            if name not in fields:  # of the class, a property, a slot, or not there
                self._names.update(attributes[place + 1 :])
                return
            label = f"{label}.{name}"
            value = fields[name]

    # ---- code

    def _code(self, code: types.CodeType) -> tuple[Iterable[str], Iterable[tuple[str, int]]]:
        found = names_of(code)
        self._names |= found.attributes
        self._strings |= found.strings
        self._asks_all = self._asks_all or found.is_open
        self._prefixes += tuple(found.prefixes - set(self._prefixes))
        self._makes_text = self._makes_text or found.makes_text
        self._by_name = self._by_name or not {"import_module", "__import__", "modules"}.isdisjoint(code.co_names)
        return found.globals, found.imports

    def _function(self, function: types.FunctionType, label: str) -> None:
        code = function.__code__
        if is_library_file(code.co_filename, function.__module__):
            for cell in function.__closure__ or ():  # a wrapper of a library, around a function of the user
                self._follow(inside(cell), label)
            self._follow(function.__dict__.get("__wrapped__"), label)
            if function is os.getenv:
                self._follow(os.environ, "os.environ")
            return
        self._follow(self._functions.add(function, label)[1:], f"a default of {label}")
        names, imports = self._code(code)
        scope = function.__globals__
        for name in names:
            self._global(scope, name)
        for name, level in imports:
            self._import(scope, name, level)
        self._follow_chains(function, scope)
        if "globals" in names:
            for name in self._strings & scope.keys():
                self._item(scope, name, name)
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            content = inside(cell)
            if (id(cell), None) in self._noted:
                continue
            self._noted.add((id(cell), None))
            if content is MISSING:
                self._probe(name, inside, cell)
            else:
                self._cells.cells.append(cell)
                self._cells.values.append(content)
                self._cells.labels.append(name)
                self._follow(content, name)
        self._attributes(function, label)

    def _global(self, scope: dict[str, Any], name: str) -> None:
        value = scope.get(name, MISSING)
        if value is MISSING and hasattr(builtins, name):
            self._item(builtins.__dict__, name, name)
            if name in ASKING_BUILTINS:
                self._libraries.add("io")
        if isinstance(value, types.ModuleType | type) and not is_users(value):  # nobody replaces it
            self._follow(value, name)
            self._look_for_calls(value)
            return
        self._look_for_calls(value)
        self._item(scope, name, name)

    def _look_for_calls(self, value: Any) -> None:
        """Whether a value is a module, a class or a function of a library, which may depend on anything."""
        module = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
        is_code = isinstance(value, types.ModuleType | type | types.FunctionType | types.BuiltinFunctionType)
        if is_code and type(module) is str:
            self._libraries.add(module)
        if module in ("decimal", "_decimal") and (0, "decimal") not in self._noted:
            self._noted.add((0, "decimal"))
            self._value(decimal_context, "the context of decimal")

    def _import(self, scope: dict[str, Any], name: str, level: int) -> None:
        """A module that a function imports: it reads its attributes by name."""
        if level:
            package = str(scope.get("__package__", "")).split(".")
            name = ".".join([*package[: len(package) - level + 1], name] if name else package)
        self._item(sys.modules, name, name) if name in sys.modules else self._probe(name, _module_named, name)
        self._look_for_calls(sys.modules.get(name))

    def _module(self, module: types.ModuleType, label: str) -> None:
        if is_users(module):
            self._attributes(module, label)
        elif not is_whit(module.__name__):
            self._named.append((module, label))
            self._library(module, label)

    def _library(self, module: types.ModuleType, label: str) -> None:
        """Of a module of a library the data that code names; functions and classes stay what they are."""
        for name in self._names & module.__dict__.keys():
            value = module.__dict__[name]
            if value is os.getenv:
                self._follow(value, label)
            is_inner = isinstance(value, types.ModuleType) and value.__name__.startswith(f"{module.__name__}.")
            if is_inner:
                self._follow(value, f"{label}.{name}")
            elif not isinstance(value, types.ModuleType | type | types.FunctionType | types.BuiltinFunctionType):
                self._item(module.__dict__, name, f"{label}.{name}")

    # ---- classes

    def _constructor(self, kind: type, label: str) -> None:
        """A class that code can name: it may make objects."""
        if label.startswith("type(") or (id(kind), "made") in self._noted or not is_users(kind):
            return
        self._noted.add((id(kind), "made"))
        for base in kind.__mro__:
            for name in ("__init__", "__new__", "__post_init__"):
                if name in base.__dict__ and is_users(base):
                    self._belongs(base.__dict__[name], kind)
                    self._item(_class_fields(base), name, f"{base.__name__}.{name}", True)

    def _class(self, kind: type, label: str) -> None:
        if not is_users(kind):
            return
        self._bases.add(kind, f"the bases of {kind.__name__}")
        if isinstance(kind, abc.ABCMeta) and (0, "abc") not in self._noted:
            self._noted.add((0, "abc"))
            self._probe("what is registered as a subclass", abc.get_cache_token)
        self._named.append((kind, label))
        self._class_attributes(kind)
        for base in kind.__mro__[1:]:
            self._follow(base, f"type({label})")
        if is_users(type(kind)):
            self._follow(type(kind), f"type({label})")
        self._names.update(name for name in kind.__dict__.get("__match_args__", ()) if type(name) is str)

    def _class_attributes(self, kind: type) -> None:
        fields = _class_fields(kind)
        counts = functools.partial(self._counts_of_class, kind)
        self._order(fields, kind.__name__, counts)
        for name, value in list(fields.items()):
            is_special = name.startswith("__") and isinstance(value, types.FunctionType)
            is_read = counts(name) or is_special
            if is_read and name not in _SKIPPED and name not in _HIDDEN and (self._makes_text or name not in _TEXT):
                self._belongs(value, kind)
                self._item(fields, name, f"{kind.__name__}.{name}", True)
        self._special_attributes(kind, kind.__name__)
        if "__subclasses__" in self._names and (id(kind), "__subclasses__") not in self._noted:
            self._noted.add((id(kind), "__subclasses__"))
            self._probe(f"the subclasses of {kind.__name__}", _count_subclasses, kind)

    def _special_attributes(self, value: Any, label: str) -> None:
        """Attributes of functions and classes that are in no dictionary."""
        for name in _SPECIAL & self._names:
            if (id(value), name) not in self._noted:
                self._noted.add((id(value), name))
                self._follow(self._probe(f"{label}.{name}", getattr, value, name, MISSING), f"{label}.{name}")


def _call(function: Callable[[], Any]) -> Any:
    return function()


def _always(name: Any) -> bool:
    return True


def _slot_of(place: tuple[Any, Any]) -> Any:
    """What an object has in a slot."""
    slot, value = place
    try:
        return slot.__get__(value)
    except AttributeError:
        return MISSING


def _slots_in(words: Words, places: Iterable[tuple[Any, Any]]) -> list[tuple[Callable[[Any], None], Iterable[Any]]]:
    """How native code notes slots of objects: 2.0 us -> 0.3 us for the groups of an optimiser (bench/jit.py)."""
    found = ((_offset_of(slot), one) for slot, one in places)
    return [(functools.partial(words.field, offset=at), [one]) for at, one in found if at is not None]


def _offset_of(slot: Any) -> int | None:
    """Where objects have a slot, in bytes; None of classes that an empty object cannot be made of without harm."""
    kind = slot.__objclass__
    if hasattr(kind, "__del__"):
        return None
    try:
        return offset_of(kind, slot)
    except (TypeError, AttributeError):  # read only, abstract, or made by C
        return None


def _is_of_library(value: Any) -> bool:
    """Whether all attributes of an object count: of modules, functions and what is the user's those that code names."""
    kind = type(value)
    return not isinstance(value, types.ModuleType | types.FunctionType) and not is_users(kind) and not _is_bag(kind)


def _is_bag(kind: type) -> bool:
    """Whether objects of a class of a library are there for attributes that only the user's code reads."""
    return kind is types.SimpleNamespace or (kind.__module__ == "argparse" and kind.__name__ == "Namespace")


def _count_subclasses(kind: type) -> int:
    return len(kind.__subclasses__())


def _module_named(name: str) -> Any:
    return sys.modules.get(name, MISSING)


def _fields(value: Any, kind: type) -> dict[Any, Any] | None:
    """The dictionary of an object's attributes."""
    if not kind.__dictoffset__ and not hasattr(value, "__dict__"):
        return None
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return found if isinstance(found, dict) else None


def _class_fields(kind: type) -> dict[str, Any]:
    """The dictionary behind the attributes of a class."""
    (found,) = gc.get_referents(kind.__dict__)
    return found  # type: ignore[no-any-return]
