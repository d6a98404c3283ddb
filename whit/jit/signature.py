"""The arguments of a call as a key and a list of tensors, and results put together again.

    f(x, {"scale": 2.0, "parts": [y, x]})
    key      (x's shape, dtype, device, ...), (dict, ("scale", (float, "2.0")), ("parts", (list, ..., (same, 0))))
    tensors  [x, y]

Everything that is no tensor and no bound variable is static: its value and type are in the key. Containers (lists,
tuples, dictionaries, named tuples, dataclasses) are looked into. A bound variable counts by its name and range; its
value is passed along.
"""

from __future__ import annotations

import sys
from collections import UserDict, UserList
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any

from whit.containers import opened, opened_registered
from whit.dtype import DType
from whit.errors import JitError
from whit.ir import ops
from whit.ir.assumed import Bindings, value_of_bound
from whit.ir.graph import topological
from whit.ir.uop import UOp
from whit.jit.origin import is_users
from whit.records import dataclass, fields, is_dataclass
from whit.tensor.core import Core

Key = tuple[Any, ...]

PLAIN = (int, bool, str, bytes, type(None), complex, range, type(Ellipsis))


class Arguments:
    """What the arguments of one call consist of."""

    __slots__ = ("bindings", "names", "objects", "tensors")

    def __init__(self) -> None:
        self.tensors: list[Core] = []
        self.bindings: dict[str, int] = {}
        self.names: dict[tuple[str, int], str] = {}  # those of a variable with a value; further values have their own
        self.objects: list[Any] = []  # what is static by identity: it is looked into like a captured object

    def key(self, value: Any, name: Any) -> Any:
        """What stands for a value in the key. The name is for messages; a number is the place of an argument."""
        if isinstance(value, Core):
            return self._tensor(value)
        kind = type(value)
        if kind in PLAIN:
            return (kind, value)
        if kind is float:
            return (kind, value.hex())  # -0.0 and nan
        if type(name) is int:
            name = f"argument {name}"
        if kind is tuple or kind is list:
            return (kind, *[self.key(part, f"{name}[{i}]") for i, part in enumerate(value)])
        if kind is dict:
            return (dict, *[(_static(k, name), self.key(part, f"{name}[{k!r}]")) for k, part in value.items()])
        return self._other(value, kind, name)

    def _tensor(self, tensor: Core) -> Any:
        for place, known in enumerate(self.tensors):
            if known is tensor:
                return ("same", place)
        self.tensors.append(tensor)
        node = tensor.uop
        shape = node.shape
        for size in shape:
            if type(size) is not int:
                shape = tuple([self.size(size) for size in shape])
                break
        return (shape, node.dtype, node.device or (tensor._wanted, node.op is ops.CONST), tensor.requires_grad)

    def size(self, size: Any) -> Any:
        """A size, or an argument that is one, without the values of its variables."""
        if not isinstance(size, UOp):
            return size
        known: dict[UOp, UOp] = {}
        for node in topological((size,)):
            if node.op is ops.BIND:
                variable, value = node.src
                name, low, high = variable.arg.name, variable.arg.low, variable.arg.high
                own = self.names.get((name, value.arg)) or self._named(name, value.arg)
                known[node] = variable if own == name else UOp.variable(own, low, high, variable.dtype)
            else:
                known[node] = node.replace(src=tuple(known[s] for s in node.src)) if node.src else node
        return known[size]

    def _named(self, name: str, value: int) -> str:
        """The name of a variable with one more value: its own, if that is the first."""
        own, count = name, 2
        while own in self.bindings:
            own, count = f"{name} ({count})", count + 1
        self.names[name, value] = own
        self.bindings[own] = value
        return own

    def _other(self, value: Any, kind: type, name: str) -> Any:
        if isinstance(value, UOp):
            return (kind, self.size(value))
        found = self._container(value, kind, name)
        if found is not None:
            return found
        if isinstance(value, DType):
            return (kind, value)
        if isinstance(value, Enum | type):
            self.objects.append(value)
            return (kind, value)
        if kind is frozenset:
            return (kind, frozenset([self.key(part, name) for part in value]))
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(value, numpy.generic) and not value.dtype.hasobject:
            return (kind, value.dtype.str, value.tobytes())
        return self._by_identity(value, kind, name)

    def _container(self, value: Any, kind: type, name: str) -> Key | None:
        """The key of what has parts; None of all else."""
        found = opened_registered(value)
        if found is not None:
            parts = [self.key(part, f"{name}{place}") for place, part in zip(found.places, found.parts, strict=True)]
            return (kind, *parts, self.key(found.rest, name))
        if isinstance(value, tuple | list):  # named tuples, and other classes of them
            parts = [self.key(part, f"{name}[{i}]") for i, part in enumerate(value)]
            return (kind, *parts, self._attributes(value, kind, name))
        if isinstance(value, Mapping):
            parts = [(_static(k, name), self.key(part, f"{name}[{k!r}]")) for k, part in value.items()]
            return (kind, *parts, self._attributes(value, kind, name))
        if is_dataclass(value) and not isinstance(value, type):
            return self._record(value, kind, name)
        return None

    def _record(self, value: Any, kind: type, name: str) -> Key:
        names = [field.name for field in fields(value)]
        parts = [(n, self.key(getattr(value, n), f"{name}.{n}")) for n in names]
        return (kind, *parts, self._attributes(value, kind, name, names))

    def _attributes(self, value: Any, kind: type, name: str, fields: Sequence[str] = ()) -> Any:
        """What an object has besides what it contains: attributes, and the code of its class."""
        if kind not in self.objects:
            self.objects.append(kind)
        others = getattr(value, "__dict__", None)
        if not isinstance(others, dict) or isinstance(value, UserDict | UserList):
            return ()
        return tuple([(n, self.key(part, f"{name}.{n}")) for n, part in others.items() if n not in fields])

    def _by_identity(self, value: Any, kind: type, name: str) -> Any:
        if isinstance(value, set | bytearray | memoryview) or hasattr(value, "__array__") or hasattr(value, "__next__"):
            raise JitError(
                f"{name}: a {kind.__name__} cannot be an argument of a captured function",
                "its content may change, and would not be looked at again",
                "Pass a tensor: Tensor(array). Or a list, a tuple or a dictionary.",
            )
        try:
            hash(value)
        except TypeError:
            raise JitError(
                f"{name}: a {kind.__name__} cannot be an argument of a captured function: it has no hash",
                fix="Pass tensors, numbers, strings, and lists, tuples, dictionaries or dataclasses of them.",
            ) from None
        is_plain_object = kind.__hash__ is object.__hash__  # type: ignore[comparison-overlap]
        if is_plain_object or callable(value) or is_users(kind):  # equal ones may have other attributes
            self.objects.append(value)
            return (kind, id(value))
        return (kind, value, repr(value))  # equal ones may differ: Decimal("1.0") and Decimal("1.00")


def _static(key: Any, name: str) -> Any:
    if isinstance(key, Core):
        raise JitError(f"{name}: a tensor is a key of a dictionary", fix="Use names or numbers.")
    return (type(key), key)


def of_further_values(names: Mapping[tuple[str, int], str]) -> dict[tuple[str, int], str]:
    """The names of variables that have another value already."""
    return {key: name for key, name in names.items() if name != key[0]}


def unbound(size: Any) -> Any:
    """A size without the values of its variables."""
    return Arguments().size(size)


def rebound(shape: tuple[Any, ...], bindings: Bindings) -> tuple[Any, ...]:
    """A shape with the values that variables have in this call."""
    if set(map(type, shape)) <= {int}:
        return shape
    sizes = []
    for size in shape:
        known: dict[UOp, UOp] = {}
        for node in topological((size,)) if isinstance(size, UOp) else ():
            src = tuple([known[s] for s in node.src])
            known[node] = node if src == node.src else node.replace(src=src)
            if node.op is ops.BIND:
                known[node] = node.src[0].bind(value_of_bound(node, bindings))
        sizes.append(known[size] if isinstance(size, UOp) else size)
    return tuple(sizes)


# ---- results

MISSED = object()  # what a replay returns if the program does not fit


@dataclass(frozen=True, slots=True)
class Hole:
    """Where a tensor goes in a result: one that is made, or an argument."""

    number: int
    is_argument: bool

    def of(self, made: Sequence[Any], arguments: Sequence[Any]) -> Any:
        """The tensor that goes there."""
        return arguments[self.number] if self.is_argument else made[self.number]


@dataclass(slots=True)
class Result:
    """A result without its tensors: how many are to be made, and the containers around them."""

    count: int
    template: Any
    numbers: list[int] | None = None  # of what is made, if the result is a list of that alone

    def __post_init__(self) -> None:
        if type(self.template) is list and all(type(one) is Hole and not one.is_argument for one in self.template):
            self.numbers = [one.number for one in self.template]

    def fill(self, made: Sequence[Any], arguments: Sequence[Any], bindings: Bindings) -> Any:
        """The result with other tensors, and the values that variables have in this call."""
        if self.numbers is not None:
            return [made[number] for number in self.numbers]
        template = self.template
        if type(template) is Hole:
            return template.of(made, arguments)

        def fill(part: Any) -> Any:
            if type(part) is Hole:
                return part.of(made, arguments)
            return rebound((part,), bindings)[0] if type(part) is UOp else part

        return _mapped(template, fill, "", "")


def result_of(name: str, value: Any, numbers: Mapping[int, int]) -> tuple[Result, list[Core]]:
    """A function's result, and the tensors to make for it; `numbers` are those of arguments, by id."""
    tensors: list[Core] = []
    places: dict[int, int] = {}

    def hole(part: Any) -> Any:
        if not isinstance(part, Core):
            return part
        if id(part) in numbers:
            return Hole(numbers[id(part)], True)
        if id(part) not in places:
            places[id(part)] = len(tensors)
            tensors.append(part)
        return Hole(places[id(part)], False)

    template = _mapped(value, hole, name, "result")
    return Result(len(tensors), template), tensors


def _mapped(value: Any, change: Callable[[Any], Any], name: str, where: str) -> Any:
    """The same containers with other leaves."""
    changed = change(value)
    kind = type(value)
    if changed is not value or kind in PLAIN or kind is float or isinstance(value, DType | Enum | type | UOp | Hole):
        return changed
    found = None if isinstance(value, set | frozenset) else opened(value)
    if found is not None:
        pairs = zip(found.parts, found.places, strict=True)
        return found.rebuild([_mapped(part, change, name, f"{where}{place}") for part, place in pairs])
    raise JitError(
        f"{name}: the {where} of the captured function is a {kind.__name__}, which a replay cannot make",
        fix="Return tensors, numbers, strings, and lists, tuples, dictionaries or dataclasses of them.",
    )
