"""The table of operators: who computes a node of a graph, by domain, name and version.

In: functions, each with the versions that it knows. Out: for a node, the function of the newest version that is not
above the one that the model asks for, as the standard wants it.

    @operator("Trilu", since=(14,), host=(1,))
    def trilu(node: Node, x: Tensor, diagonal: Value = None) -> Tensor: ...

A value between two nodes is a tensor; a NumPy array where it is known on the host (shapes, strings); a list of values
(a sequence); a dictionary (a map); or None (an input that is left out, an optional without a value). An operator gets
tensors, but for the inputs that `host` names: those it reads itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy

from whit.errors import ArgumentError, NotSupportedError, nearest
from whit.onnx.sizes import Sizes, as_size
from whit.records import dataclass, field
from whit.tensor import Tensor

Value = Any  # Tensor | numpy.ndarray | list | dict | None, see above; each operator says what it takes
ALL: Final = tuple(range(256))  # `host=ALL`: no input becomes a tensor


@dataclass(frozen=True)
class Node:
    """What an operator is told about the node that it computes."""

    op_type: str
    domain: str
    version: int  # of the domain's operators, that the model asks for
    name: str
    outputs: int  # how many it declares, without those left out at the end
    attributes: Mapping[str, Any]
    types: tuple[int, ...] = field(default=())  # of the inputs, as numbers of TensorProto.DataType; 0: not known

    def get(self, name: str, default: Any = None) -> Any:
        """The attribute, or what it is when the model does not give it."""
        return self.attributes.get(name, default)

    def type_of(self, position: int) -> int:
        """The declared type of an input, 0 where it is not known."""
        return self.types[position] if position < len(self.types) else 0

    def __str__(self) -> str:
        return f"{self.op_type} {self.name!r}" if self.name else self.op_type


@dataclass(frozen=True)
class Operator:
    """A function that computes nodes of one kind, and from which versions on."""

    domain: str
    op_type: str
    since: tuple[int, ...]
    function: Callable[..., Any]
    host: tuple[int, ...]  # positions of inputs that stay as they are

    def __call__(self, node: Node, *inputs: Value) -> tuple[Value, ...]:
        """The outputs of a node. Arrays of numbers become tensors on the device of the other inputs."""
        device = next((x.device for x in inputs if isinstance(x, Tensor)), None)
        ready = (x if i in self.host else as_tensor(x, device) for i, x in enumerate(inputs))
        result = self.function(node, *ready)
        return result if isinstance(result, tuple) else (result,)


_TABLE: Final[dict[tuple[str, str], dict[int, Operator]]] = {}
_DOMAINS: Final = {"ai.onnx": ""}


def operator(
    op_type: str, since: Sequence[int], domain: str = "", host: Sequence[int] = ()
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declares that a function computes an operator, in the versions that begin with the numbers `since`."""

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        record = Operator(domain, op_type, tuple(since), function, tuple(host))
        _TABLE.setdefault((domain, op_type), {}).update(dict.fromkeys(record.since, record))
        return function

    return declare


def unary(op_type: str, function: Callable[[Tensor], Tensor], since: Sequence[int], domain: str = "") -> None:
    """One row of a table: an operator of one tensor without attributes."""
    operator(op_type, since, domain)(lambda node, x: function(x))


def find(domain: str, op_type: str, version: int) -> Operator:
    """The operator for a model that asks for this version of its domain."""
    domain = _DOMAINS.get(domain, domain)
    versions = _TABLE.get((domain, op_type), {})
    known = [since for since in versions if since <= version]
    if known:
        return versions[max(known)]
    place = f"{domain or 'ai.onnx'} {version}"
    if versions:
        raise NotSupportedError(
            f"onnx: no operator {op_type} in {place}",
            f"known from these versions on: {', '.join(map(str, sorted(versions)))}",
            "Convert the model to a newer version of its operators.",
        )
    raise NotSupportedError(
        f"onnx: no operator {op_type} in {place}",
        nearest(op_type, [name for where, name in _TABLE if where == domain]),
        "Export the model with other operators, or give its function in the model; docs/onnx.md lists what is known.",
    )


def known_operators() -> list[Operator]:
    """All of them, each once, by domain and name."""
    records = {id(record): record for versions in _TABLE.values() for record in versions.values()}
    return sorted(records.values(), key=lambda record: (record.domain, record.op_type, record.since))


def as_tensor(value: Value, device: str | None = None) -> Value:
    """An array of numbers -> a tensor; anything else as it is."""
    if isinstance(value, numpy.ndarray | numpy.generic) and value.dtype.kind in "biuf":
        return Tensor(numpy.ascontiguousarray(value).reshape(value.shape), device=device)
    return value.tensor(device) if isinstance(value, Sizes) else value


def host_array(value: Value) -> numpy.ndarray[Any, Any]:
    """A value as an array. A tensor is read, so that nothing that depends on it can be captured."""
    if isinstance(value, Tensor):
        return numpy.asarray(value.numpy())
    if isinstance(value, Sizes):
        return value.array
    if value is None:
        raise ArgumentError("onnx: an input is left out", fix="This operator needs it: the model is wrong.")
    return numpy.asarray(value)


def host_int_list(value: Value) -> list[int]:
    """A shape, axes, pads: the numbers of a value of any rank. In a program for many sizes some may be nodes."""
    if isinstance(value, int):
        return [value]
    return [as_size(number) for number in host_array(value).reshape(-1).tolist()]


def host_float_list(value: Value) -> list[float]:
    """Scales, regions, limits: the numbers of a value of any rank."""
    return [float(number) for number in host_array(value).reshape(-1).tolist()]


def given_ints(node: Node, name: str, value: Value) -> list[int] | None:
    """What newer versions take as an input and older ones as an attribute; None where it is neither."""
    if value is not None:
        return host_int_list(value)
    listed = node.get(name)
    return None if listed is None else [int(number) for number in listed]


def axis_of(node: Node, x: Tensor, default: int, name: str = "axis") -> int:
    """The attribute `axis`, counted from the front."""
    return positive_axis(node, int(node.get(name, default)), x.ndim)


def positive_axis(node: Node, axis: int, ndim: int) -> int:
    """-1 -> ndim - 1; checked."""
    if not -ndim <= axis < max(ndim, 1):
        raise ArgumentError(f"{node}: axis {axis} of a tensor of {ndim} axes", fix="The model is wrong.")
    return axis % max(ndim, 1)


def positive_axes(node: Node, axes: Iterable[int], ndim: int) -> tuple[int, ...]:
    """Each of them counted from the front."""
    return tuple(positive_axis(node, axis, ndim) for axis in axes)
