"""The arguments of a call as a key and a list of tensors, and results put together again.

    f(x, {"scale": 2.0, "parts": [y, x]})
    key      (tuple, (x's shape, dtype, device, ...), (dict, ("scale", (float, "2.0")), ("parts", (list, ..., (same, 0)))))
    tensors  [x, y]

Everything that is no tensor and no bound variable is static: its value and type are in the key. Containers (lists,
tuples, dictionaries, named tuples, dataclasses) are looked into. A bound variable counts by its name and range; its
value is passed along.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from whit.dtype import DType
from whit.engine.trace import tensor_type
from whit.errors import JitError
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.uop import UOp

Key = tuple[Any, ...]

PLAIN = (int, bool, str, bytes, type(None), complex, range, type(Ellipsis))


class Arguments:
    """What the arguments of one call consist of."""

    __slots__ = ("bindings", "names", "objects", "tensors")

    def __init__(self) -> None:
        self.tensors: list[Any] = []
        self.names: list[str] = []  # of the tensors, for messages
        self.bindings: dict[str, int] = {}
        self.objects: list[Any] = []  # what is static by identity: it is looked into like a captured object

    def key(self, value: Any, name: str) -> Any:
        """What stands for a value in the key."""
        if isinstance(value, tensor_type()):
            return self._tensor(value, name)
        kind = type(value)
        if kind in PLAIN:
            return (kind, value)
        if kind is float:
            return (kind, value.hex())  # -0.0 and nan
        if kind is tuple or kind is list:
            return (kind, *[self.key(part, f"{name}[{i}]") for i, part in enumerate(value)])
        if kind is dict:
            return (dict, *[(_static(k, name), self.key(part, f"{name}[{k!r}]")) for k, part in value.items()])
        return self._other(value, kind, name)

    def _tensor(self, tensor: Any, name: str) -> Any:
        for place, known in enumerate(self.tensors):
            if known is tensor:
                return ("same", place)
        self.tensors.append(tensor)
        self.names.append(name)
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
                known[node] = variable
                if self.bindings.setdefault(variable.arg.name, value.arg) != value.arg:
                    raise JitError(
                        f"{variable.arg.name} is {self.bindings[variable.arg.name]} and {value.arg} in one call",
                        fix="Bind a variable to one value, or use two variables.",
                    )
            else:
                known[node] = node.replace(src=tuple(known[s] for s in node.src)) if node.src else node
        return known[size]

    def _other(self, value: Any, kind: type, name: str) -> Any:
        if isinstance(value, UOp):
            return (kind, self.size(value))
        if isinstance(value, tuple | list):  # named tuples, and other classes of them
            return (kind, *[self.key(part, f"{name}[{i}]") for i, part in enumerate(value)])
        if isinstance(value, Mapping):
            return (kind, *[(_static(k, name), self.key(part, f"{name}[{k!r}]")) for k, part in value.items()])
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
            return (kind, *[(n, self.key(part, f"{name}.{n}")) for n, part in fields])
        if isinstance(value, DType | Enum | type) or kind is frozenset:
            return (kind, value)
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
        if kind.__hash__ is object.__hash__ or callable(value):  # equal to itself alone
            self.objects.append(value)
            return (kind, id(value))
        return (kind, value)


def _static(key: Any, name: str) -> Any:
    if isinstance(key, tensor_type()):
        raise JitError(f"{name}: a tensor is a key of a dictionary", fix="Use names or numbers.")
    return (type(key), key)


def replaced(value: Any, change: Callable[[Any], Any], name: str, refuse: Callable[[Any, str], Any]) -> Any:
    """The same containers with other tensors. `refuse` is asked about what is neither a container nor static."""
    kind = type(value)
    if isinstance(value, tensor_type()):
        return change(value)
    if kind in PLAIN or kind is float or isinstance(value, DType | Enum | type):
        return value
    if isinstance(value, tuple | list):
        parts = [replaced(part, change, f"{name}[{i}]", refuse) for i, part in enumerate(value)]
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return kind(*parts)
        return kind(parts)
    if isinstance(value, Mapping):
        return {key: replaced(part, change, f"{name}[{key!r}]", refuse) for key, part in value.items()}
    if dataclasses.is_dataclass(value):
        fields = [field for field in dataclasses.fields(value) if field.init]
        values = {f.name: replaced(getattr(value, f.name), change, f"{name}.{f.name}", refuse) for f in fields}
        return kind(**values)
    return refuse(value, name)
