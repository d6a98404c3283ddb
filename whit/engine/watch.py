"""What a captured function depends on besides its arguments, and whether that is still so.

A replay runs no Python, so it would not notice that `self.rate` is another number now, or that `model` is another
model. `Watch` walks from the function to everything that it can read by name: variables of closures, globals,
defaults, attributes of objects, elements of containers, class attributes, and the functions that it calls, with theirs.
Every step on the way (where, under which key, what was there) is noted, and compared before each replay: by `is`, 50 ns
each, and by value where a number or a string is another object but may be equal.

Modules and classes that come with Python, with whit or with other libraries are not looked into. What cannot be seen
this way is told in docs/jit.md.
"""

from __future__ import annotations

import dis
import functools
import os
import sys
import sysconfig
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import chain
from operator import attrgetter, is_
from typing import Any

from whit.dtype import DType
from whit.engine.overlay import Wrapper, tensor_type
from whit.errors import JitError
from whit.ir.uop import UOp

SCALARS = (bool, int, float, complex, str, bytes, type(None), range, slice, type(Ellipsis), DType, Enum, UOp)
MOST_OBJECTS = 20_000
_content = attrgetter("cell_contents")
_FOLDERS = tuple(
    {os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep}
    | {path + os.sep for name, path in sysconfig.get_paths().items() if name in ("stdlib", "purelib", "platlib")}
)
_WHIT = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_HIDDEN = frozenset({"__init__", "__new__", "__repr__", "__str__", "__del__", "__init_subclass__", "__class_getitem__"})


@dataclass(frozen=True, slots=True)
class Edge:
    """One step: what is in a container under a key."""

    container: Any
    key: Any
    value: Any
    label: str


class Names:
    """What code reads by name: globals, attributes, and strings that may be names."""

    def __init__(self) -> None:
        self.codes: set[types.CodeType] = set()
        self.attributes: set[str] = set()

    def add(self, code: types.CodeType) -> list[str]:
        """Looks at a function's code; the globals that it reads."""
        if code in self.codes:
            return _globals(code)
        self.codes.add(code)
        for inner in _with_inner(code):
            self.attributes.update(inner.co_names)
            self.attributes.update(constant for constant in inner.co_consts if type(constant) is str)
        return _globals(code)


def _with_inner(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _with_inner(constant)


@functools.lru_cache(256)
def _globals(code: types.CodeType) -> list[str]:
    found = {}
    for inner in _with_inner(code):
        for step in dis.get_instructions(inner):
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                found[step.argval] = True
    return list(found)


class Watch:
    """The steps from a function to what it can read."""

    def __init__(self, roots: Mapping[str, Any], everything: bool = False) -> None:
        self.names = Names()
        self.edges: list[Edge] = []
        self.tensors: dict[int, str] = {}  # ids of tensors that were reached, and the way to them
        self._everything = everything  # also attributes that no code names
        self._seen: dict[int, Any] = {}  # by id; the objects stay alive
        self._noted: set[tuple[int, Any]] = set()
        self._waiting: list[tuple[Any, str]] = [(value, label) for label, value in roots.items()]
        self._objects: list[tuple[Any, str]] = []  # whose attributes are read by name
        self._walk()
        self._sort()

    # ---- walking

    def _walk(self) -> None:
        known = -1
        while known != len(
            self.names.attributes
        ):  # names of a function that was found last may be attributes of others
            known = len(self.names.attributes)
            for value, label in self._objects:
                self._attributes(value, label)
            while self._waiting:
                value, label = self._waiting.pop()
                self._look(value, label)

    def _look(self, value: Any, label: str) -> None:
        if isinstance(value, tensor_type()):
            self.tensors.setdefault(id(value), label)
            self._seen[id(value)] = value
            return
        if isinstance(value, SCALARS) or id(value) in self._seen or len(self._seen) > MOST_OBJECTS:
            return
        self._seen[id(value)] = value
        if isinstance(value, types.FunctionType):
            self._function(value, label)
        elif isinstance(value, types.MethodType):
            self._follow(value.__self__, f"{label}.__self__")
            self._follow(value.__func__, label)
        elif isinstance(value, functools.partial):
            for part in (value.func, value.args, value.keywords):
                self._follow(part, label)
        elif isinstance(value, Wrapper):
            self._follow(value.wrapped(), label)
        elif isinstance(value, list | tuple):
            for place, part in enumerate(value):
                self._note(value, place, part, f"{label}[{place}]")
        elif isinstance(value, dict):
            for key, part in value.items():
                self._note(value, key, part, f"{label}[{key!r}]")
        elif isinstance(value, types.ModuleType | type):
            if _is_users(value):
                self._objects.append((value, label))
                self._attributes(value, label)
        elif hasattr(value, "__next__"):
            raise JitError(
                f"{label} is a {type(value).__name__}: a function that is replayed does not see what it gives next",
                fix="Take the element outside, and pass it as an argument.",
            )
        elif _is_users(type(value)) or _is_whit(type(value)):
            self._objects.append((value, label))
            self._follow(type(value), f"type({label})")
            self._attributes(value, label)

    def _follow(self, value: Any, label: str) -> None:
        self._waiting.append((value, label))

    def _note(self, container: Any, key: Any, value: Any, label: str) -> None:
        """Remembers a step, and takes it."""
        if (id(container), key) in self._noted:
            return
        self._noted.add((id(container), key))
        self.edges.append(Edge(container, key, value, label))
        self._follow(value, label)

    def _function(self, function: types.FunctionType, label: str) -> None:
        code = function.__code__
        if code.co_filename.startswith(_FOLDERS):
            for cell in function.__closure__ or ():  # a wrapper of a library, around a function of the user
                if _is_full(cell):
                    self._follow(cell.cell_contents, label)
            return
        for name in self.names.add(code):
            if name in function.__globals__:
                value = function.__globals__[name]
                if not _is_import(name, value):
                    self._note(function.__globals__, name, value, name)
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            if _is_full(cell):
                self._note(cell, None, cell.cell_contents, name)
        for part in (function.__defaults__, function.__kwdefaults__):
            if part:
                self._follow(part, f"a default of {label}")

    def _attributes(self, value: Any, label: str) -> None:
        """The attributes of an object that some code names; of a layer of whit all."""
        kind = type(value)
        is_all = (self._everything or _is_whit(kind)) and not isinstance(value, types.ModuleType | type)
        fields = getattr(value, "__dict__", None)
        if isinstance(fields, dict):
            for name, part in list(fields.items()):
                if is_all or name in self.names.attributes:
                    self._note(fields, name, part, f"{label}.{name}")
        elif fields is not None:  # of a class
            for name, part in list(fields.items()):
                if name in self.names.attributes or (name.startswith("__") and isinstance(part, types.FunctionType)):
                    self._class_attribute(value, name, part, label)
        if isinstance(value, type):
            for base in value.__mro__[1:]:
                if _is_users(base):
                    self._follow(base, label)
            return
        for slot in _slots(kind):
            if hasattr(value, slot) and (is_all or slot in self.names.attributes):
                self._note(value, slot, getattr(value, slot), f"{label}.{slot}")

    def _class_attribute(self, kind: type, name: str, value: Any, label: str) -> None:
        if name in _HIDDEN or name in ("__dict__", "__weakref__", "__doc__", "__module__"):
            return
        self._note(kind, name, value, f"{kind.__name__}.{name}")
        if isinstance(value, property):
            self._follow(value.fget, f"{label}.{name}")
        elif isinstance(value, staticmethod | classmethod):
            self._follow(value.__func__, f"{label}.{name}")

    # ---- comparing

    def _sort(self) -> None:
        """Steps by the kind of container, in rows: `holds` compares each row without a loop in Python."""
        dicts = [edge for edge in self.edges if isinstance(edge.container, dict)]
        cells = [edge for edge in self.edges if isinstance(edge.container, types.CellType)]
        self._others = [
            edge for edge in self.edges if not isinstance(edge.container, dict | types.CellType | list | tuple)
        ]
        self._dicts = ([e.container for e in dicts], [e.key for e in dicts], [e.value for e in dicts])
        self._cells = ([e.container for e in cells], [e.value for e in cells])
        sized = [v for v in self._seen.values() if isinstance(v, list | dict | set)]
        rows = {id(v): (v, list[Any]()) for v in sized if isinstance(v, list)}
        for edge in self.edges:
            if id(edge.container) in rows:
                rows[id(edge.container)][1].append(edge.value)
        self._lists = ([row[0] for row in rows.values()], [value for row in rows.values() for value in row[1]])
        self._sized = (sized, list(map(len, sized)))
        self._sets = [(v, frozenset(v)) for v in sized if isinstance(v, set)]

    def holds(self) -> bool:
        """Whether everything is what it was; False also where that takes a closer look."""
        containers, keys, values = self._dicts
        cells, contents = self._cells
        try:
            if containers and not all(map(is_, map(dict.get, containers, keys), values)):
                return False
            if cells and not all(map(is_, map(_content, cells), contents)):
                return False
        except ValueError:  # an empty cell
            return False
        sized, lengths = self._sized
        if sized and list(map(len, sized)) != lengths:
            return False
        lists, elements = self._lists  # of the same lengths as before
        if lists and not all(map(is_, chain.from_iterable(lists), elements)):
            return False
        for edge in self._others:
            if _now(edge) is not edge.value:
                return False
        return not self._sets or all(was == now for now, was in self._sets)

    def changed(self) -> Edge | None:
        """The first step that leads elsewhere now. Equal numbers and strings are no change, and are noted."""
        for number, edge in enumerate(self.edges):
            now = _now(edge)
            if now is edge.value:
                continue
            if not _is_same(now, edge.value):
                return edge
            self.edges[number] = Edge(edge.container, edge.key, now, edge.label)
        for container, count in zip(*self._sized, strict=True):
            if len(container) != count:
                label = next((edge.label for edge in self.edges if edge.value is container), "a container")
                return Edge(None, None, count, label)
        for now, was in self._sets:
            if was != now:
                return Edge(None, None, was, "a set")
        self._sort()
        return None


_MISSING = object()


def _now(edge: Edge) -> Any:
    container, key = edge.container, edge.key
    if isinstance(container, dict):
        return container.get(key, _MISSING)
    if isinstance(container, types.CellType):
        return container.cell_contents if _is_full(container) else _MISSING
    if isinstance(container, list | tuple):
        return container[key] if key < len(container) else _MISSING
    if isinstance(container, type):
        return container.__dict__.get(key, _MISSING)
    return getattr(container, key, _MISSING)


def now_at(edge: Edge) -> Any:
    """What a step leads to now."""
    return None if edge.container is None else _now(edge)


def _is_same(now: Any, was: Any) -> bool:
    """Whether two scalars are equal; 1, 1.0 and True are not, 0.0 and -0.0 are not, nan and nan are."""
    if type(now) is not type(was) or not isinstance(was, SCALARS) or isinstance(was, UOp):
        return False
    return bool(now.hex() == was.hex()) if type(was) is float else bool(now == was)


def _is_full(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not _MISSING
    except ValueError:
        return False


def _slots(kind: type) -> list[str]:
    found: list[str] = []
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        found += [slots] if isinstance(slots, str) else list(slots)
    return [name for name in found if not name.startswith("__")]


def _is_users(value: Any) -> bool:
    """Whether a class or a module is the user's own: not one of Python, of whit, or of an installed library. What is
    unknown is; and so is __main__, though it may be started by a library."""
    name = value.__module__ if isinstance(value, type) else value.__name__
    path = getattr(sys.modules.get(name), "__file__", None)
    if name == "__main__" or (path is None and name not in sys.builtin_module_names):
        return True
    return path is not None and not os.path.abspath(path).startswith(_FOLDERS)


def _is_whit(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "whit"


def _is_import(name: str, value: Any) -> bool:
    """Whether a global is a module or a class of a library, which nobody replaces."""
    if isinstance(value, types.ModuleType | type):
        return not _is_users(value)
    return isinstance(value, types.BuiltinFunctionType)
