"""What a captured function depends on besides its arguments, and whether that is still so.

A replay runs no Python, so it would not notice that `self.rate` is another number now, or that `model` is another
model. `Watch` walks from the function to everything that its code can read: variables of closures, globals, defaults,
attributes that it names, elements of containers, classes and their bases, and the functions that it calls, with theirs.
Everything on the way is noted in one of these forms, and compared before each replay:

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
import os
import sys
import threading
import types
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import chain, repeat
from operator import attrgetter, is_, methodcaller
from typing import Any

from whit.dtype import DType
from whit.engine.library_calls import ASKING_BUILTINS, may_ask
from whit.engine.names import names_of
from whit.engine.opaque import OpaqueError, decimal_context, has_no_value, is_python_class, native_class, snapshot
from whit.engine.origin import is_library_file, is_users, is_users_module, is_whit
from whit.engine.overlay import Wrapper, tensor_type
from whit.errors import JitError
from whit.ir.uop import UOp

SCALARS = (bool, int, float, complex, str, bytes, type(None), range, slice, type(Ellipsis), DType, UOp)
MOST_STEPS = 200_000
_MISSING = type("Missing", (), {"__repr__": lambda self: "nothing"})()
_content = attrgetter("cell_contents")
_function_parts = attrgetter("__code__", "__defaults__", "__kwdefaults__")
_HIDDEN = frozenset({"__init__", "__new__", "__repr__", "__str__", "__del__", "__init_subclass__", "__class_getitem__"})
_SKIPPED = frozenset({"__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "__qualname__"})
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


@dataclass(frozen=True, slots=True)
class Changed:
    """What is not what it was."""

    label: str
    before: Any
    now: Any


class _Items:
    """What dictionaries have under keys."""

    def __init__(self) -> None:
        self.dicts: list[dict[Any, Any]] = []
        self.keys: list[Any] = []
        self.values: list[Any] = []
        self.labels: list[str] = []

    def hold(self) -> bool:
        return all(map(is_, map(dict.get, self.dicts, self.keys, repeat(_MISSING)), self.values))

    def changed(self) -> Changed | None:
        for n, (container, key, value) in enumerate(zip(self.dicts, self.keys, self.values, strict=True)):
            now = dict.get(container, key, _MISSING)
            if now is not value:
                if not _is_same(now, value):
                    return Changed(self.labels[n], value, now)
                self.values[n] = now
        return None


class _Orders:
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
                return Changed(f"{label}.{name}", _MISSING, container[name])
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
                return Changed(f"{label}[{_spell(key)}]", _MISSING, container[key])
    return Changed(f"the length of {label}", len(before), len(now))


class _Cells:
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
            now = _inside(cell)
            if now is not value:
                if not _is_same(now, value):
                    return Changed(self.labels[n], value, now)
                self.values[n] = now
        return None


class _Probes:
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


class _Values(_Probes):
    """The same by `==`."""

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


class _Caches(_Probes):
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


class Watch:
    """What a function can read."""

    def __init__(self, roots: Mapping[str, Any], is_open: bool = False) -> None:
        self.tensors: dict[int, str] = {}  # ids of tensors that were reached, and the way to them
        self._names: set[str] = set()
        self._libraries: set[str] = set()  # whose functions code of the user names
        self._is_open = is_open  # attributes may be read under any name
        self._seen: dict[int, Any] = {}  # by id; the objects stay alive
        self._noted: set[tuple[int, Any]] = set()
        self._waiting: list[tuple[Any, str]] = [(value, label) for label, value in roots.items()]
        self._named: list[tuple[Any, str]] = []  # whose attributes count by name
        self._items, self._orders, self._cells = _Items(), _Orders(), _Cells()
        self._kinds, self._bases = _Probes(type), _Probes(attrgetter("__mro__"))
        self._functions, self._asking = _Probes(_function_parts), _Probes(attrgetter("requires_grad"))
        self._probes, self._values, self._caches = _Probes(_call), _Values(snapshot), _Caches()
        self._walk()
        rows = (self._items, self._cells, self._orders, self._kinds, self._bases, self._asking, self._probes)
        self._rows = [row for row in (*rows, self._values, self._caches) if row.labels]

    def settle(self) -> None:
        """Cached functions may have one result more after a function was captured."""
        self._caches.settle()

    def may_ask(self) -> bool:
        """Whether the function may call what gives something else each time."""
        return any(may_ask(module, self._names) and not is_users_module(module) for module in self._libraries)

    # ---- comparing

    def holds(self) -> bool:
        """Whether everything is what it was; False also where that takes a closer look."""
        for row in self._rows:
            if not row.hold():
                return False
        functions = self._functions
        now = chain.from_iterable(map(_function_parts, functions.objects))
        return all(map(is_, now, chain.from_iterable(functions.values)))

    def changed(self) -> Changed | None:
        """The first thing that is not what it was. Equal numbers and strings are no change, and are noted."""
        for row in self._rows:
            found = row.changed()
            if found is not None:
                return found
        functions = self._functions
        for one, before, label in zip(functions.objects, functions.values, functions.labels, strict=True):
            now = _function_parts(one)
            if not all(map(is_, now, before)):
                return Changed(f"the code or a default of {label}", before, now)
        return None

    # ---- walking

    def _walk(self) -> None:
        known = None
        while known != (len(self._names), self._is_open):  # names in a function that was found last may be attributes
            known = (len(self._names), self._is_open)
            for value, label in list(self._named):
                self._again(value, label)
            if not self._names.isdisjoint(("import_module", "__import__", "modules")):
                for name in self._names & sys.modules.keys():
                    self._item(sys.modules, name, name)
            while self._waiting:
                self._look(*self._waiting.pop())

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

    def _follow(self, value: Any, label: str) -> None:
        self._waiting.append((value, label))

    def _item(self, container: dict[Any, Any], key: Any, label: str) -> None:
        """Notes what a dictionary has under a key, and looks at it."""
        if (id(container), key) in self._noted:
            return
        self._noted.add((id(container), key))
        items = self._items
        value = dict.get(container, key, _MISSING)
        items.dicts.append(container)
        items.keys.append(key)
        items.values.append(value)
        items.labels.append(label)
        if len(items.labels) > MOST_STEPS:
            raise JitError(
                f"{label}: the function can read more than {MOST_STEPS} things, too many to compare in each call",
                fix="Pass what it needs as arguments, as tensors where there are many numbers.",
            )
        self._follow(value, label)

    def _order(self, container: Any, label: str, counts: Callable[[Any], bool] | None = None) -> None:
        if (id(container), _MISSING) not in self._noted:
            self._noted.add((id(container), _MISSING))
            if type(container).__iter__ in _IN_ORDER:
                self._orders.add(container, label, counts)
            else:  # a class of the user with an iterator of its own
                self._value(container, label)

    def _probe(self, label: str, function: Callable[..., Any], *arguments: Any) -> Any:
        return self._probes.add(functools.partial(function, *arguments), label)

    def _look(self, value: Any, label: str) -> None:
        kind = type(value)
        if kind in SCALARS or value is _MISSING or isinstance(value, DType | UOp):
            return
        if isinstance(value, type):
            self._constructor(value, label)
        if id(value) in self._seen:
            return
        self._seen[id(value)] = value
        if isinstance(value, tensor_type()):
            self.tensors.setdefault(id(value), label)
            self._asking.add(value, f"{label}.requires_grad")
            if kind is not tensor_type():
                self._object(value, kind, label)
        elif isinstance(value, Wrapper):
            self._follow(value.wrapped(), label)
            self._named.append((value, label))
            self._attributes_of_jit(value, label)
        elif kind is types.FunctionType:
            self._function(value, label)
        elif kind is types.MethodType:
            self._follow(value.__self__, f"{label}.__self__")
            self._follow(value.__func__, label)
        elif kind is types.ModuleType or isinstance(value, types.ModuleType):
            self._module(value, label)
        elif isinstance(value, type):
            self._class(value, label)
        elif isinstance(value, _CODE):
            owner = getattr(value, "__self__", None)
            if not isinstance(owner, types.ModuleType | type):
                self._follow(owner, label)
        elif not has_no_value(value):
            self._object(value, kind, label)

    # ---- objects

    def _object(self, value: Any, kind: type, label: str) -> None:
        """What is in an object: elements, attributes, and what only its class knows."""
        if is_python_class(kind):
            self._kinds.add(value, f"the class of {label}")
        self._attributes(value, label)
        if is_users(kind):
            self._follow(kind, f"type({label})")
        elif not is_whit(kind.__module__):
            self._libraries.add(kind.__module__)
        native = native_class(kind)
        if isinstance(value, _CONTAINERS):
            self._elements(value, label)
        elif isinstance(value, ContextVar):
            self._follow(self._probe(label, value.get, _MISSING), label)
        elif isinstance(value, types.CellType):
            self._follow(self._probe(label, _inside, value), label)
        elif isinstance(value, weakref.ref | weakref.ProxyType | weakref.CallableProxyType):
            self._weak(value, label)
        elif isinstance(value, _VIEWS):
            self._follow(gc.get_referents(value)[0], label)
        elif isinstance(value, property | staticmethod | classmethod):
            for name in ("fget", "fset", "__func__"):
                self._follow(getattr(value, name, None), label)
        elif isinstance(value, BaseException):
            self._follow(self._probe(label, attrgetter("args"), value), label)
        elif isinstance(value, attrgetter | methodcaller):
            self._is_open = True
        elif isinstance(value, threading.local):
            self._value(value, label)
            for name, part in vars(value).items():
                self._follow(part, f"{label}.{name}")
        elif native is functools._lru_cache_wrapper:
            self._follow(value.__wrapped__, label)
            for result in self._caches.add(value, f"the cache of {label}"):
                self._follow(result, f"the cache of {label}")
        elif native not in _PLAIN and not isinstance(value, tensor_type()) and not hasattr(native, "__get__"):
            self._value(value, label)

    def _weak(self, value: Any, label: str) -> None:
        """What a weak reference shows must not be kept alive by looking at it."""
        shown = self._probe(label, value) if isinstance(value, weakref.ref) else value
        if isinstance(shown, type | types.FunctionType | types.ModuleType | type(None)):
            self._follow(shown, label)
            return
        raise JitError(
            f"{label} is a weak reference, and what it shows may go away: a function that is replayed would not notice",
            fix="Keep the object itself, or pass what is read from it as an argument.",
        )

    def _value(self, value: Any, label: str) -> None:
        try:
            self._values.add(value, label)
        except OpaqueError as error:
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
                self._item(value, key, f"{label}[{_spell(key)}]")
                self._follow(key, f"a key of {label}")
        else:
            elements: Iterable[Any] = type(value).__iter__(value) if type(value).__iter__ in _IN_ORDER else value
            for place, part in enumerate(elements):
                self._follow(part, f"{label}[{place}]")

    def _attributes(self, value: Any, label: str) -> None:
        """The attributes of an object that some code names; of objects of libraries all."""
        kind = type(value)
        is_all = not isinstance(value, types.ModuleType | types.FunctionType) and not is_users(kind)
        if not is_all and (id(value), "named") not in self._noted:
            self._noted.add((id(value), "named"))
            self._named.append((value, label))
        is_all = is_all or (self._is_open and not isinstance(value, types.ModuleType))
        fields = _fields(value, kind)
        if fields is not None:
            self._order(fields, label, _always if is_all and not is_users(kind) else self._counts)
            for name in list(fields):
                if is_all or name in self._names:
                    self._item(fields, name, f"{label}.{name}")
        for base in kind.__mro__ if not isinstance(value, tensor_type()) else ():
            for name, slot in base.__dict__.items():
                if type(slot) is not types.MemberDescriptorType or (id(value), slot) in self._noted:
                    continue
                if (is_all or name in self._names) and not name.startswith("__"):
                    self._noted.add((id(value), slot))
                    self._follow(self._probe(f"{label}.{name}", _slot, slot, value), f"{label}.{name}")

    def _attributes_of_jit(self, value: Any, label: str) -> None:
        """Of a function under the JIT those that the user has given it."""
        fields = getattr(value, "__dict__", {})
        self._order(fields, label, lambda name: self._counts(name) and not name.startswith("_"))
        for name in self._names & fields.keys():
            if not name.startswith("_"):
                self._item(fields, name, f"{label}.{name}")

    def _counts(self, name: Any) -> bool:
        return self._is_open or name in self._names

    # ---- code

    def _code(self, code: types.CodeType) -> tuple[Iterable[str], Iterable[tuple[str, int]]]:
        found = names_of(code)
        self._names |= found.attributes
        self._is_open = self._is_open or found.is_open
        return found.globals, found.imports

    def _function(self, function: types.FunctionType, label: str) -> None:
        code = function.__code__
        if is_library_file(code.co_filename, function.__module__):
            for cell in function.__closure__ or ():  # a wrapper of a library, around a function of the user
                self._follow(_inside(cell), label)
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
        if "globals" in names:
            for name in self._names & scope.keys():
                self._item(scope, name, name)
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            content = _inside(cell)
            if (id(cell), None) in self._noted:
                continue
            self._noted.add((id(cell), None))
            if content is _MISSING:
                self._probe(name, _inside, cell)
            else:
                self._cells.cells.append(cell)
                self._cells.values.append(content)
                self._cells.labels.append(name)
                self._follow(content, name)
        self._attributes(function, label)

    def _global(self, scope: dict[str, Any], name: str) -> None:
        value = scope.get(name, _MISSING)
        if value is _MISSING and hasattr(builtins, name):
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
                    self._item(_class_fields(base), name, f"{base.__name__}.{name}")

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
        self._order(fields, kind.__name__, self._counts)
        for name, value in list(fields.items()):
            is_special = name.startswith("__") and isinstance(value, types.FunctionType) and name not in _HIDDEN
            if (name in self._names or self._is_open or is_special) and name not in _SKIPPED and name not in _HIDDEN:
                self._item(fields, name, f"{kind.__name__}.{name}")


def _is_same(now: Any, was: Any) -> bool:
    """Whether two scalars are equal; 1, 1.0 and True are not, 0.0 and -0.0 are not, nan and nan are."""
    if type(now) is not type(was) or type(was) not in SCALARS or isinstance(was, UOp):
        return False
    if type(was) is complex:
        return bool(now.real.hex() == was.real.hex() and now.imag.hex() == was.imag.hex())
    return bool(now.hex() == was.hex()) if type(was) is float else bool(now == was)


def _call(function: Callable[[], Any]) -> Any:
    return function()


def _always(name: Any) -> bool:
    return True


def _inside(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _MISSING


def _slot(slot: Any, value: Any) -> Any:
    try:
        return slot.__get__(value)
    except AttributeError:
        return _MISSING


def _module_named(name: str) -> Any:
    return sys.modules.get(name, _MISSING)


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


def _spell(key: Any) -> str:
    return f"{key!r:.60}" if type(key) in SCALARS else f"a {type(key).__name__}"
