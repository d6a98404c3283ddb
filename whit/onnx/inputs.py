"""What a user gives a model: found by name, compared with what the model declares, made values.

check({"x": array}, ports, "CPU")       {"x": Tensor}, or an error that says what the model wants
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from whit.errors import ArgumentError, DTypeError, MissingError, ShapeError, nearest
from whit.onnx import types
from whit.onnx.graph import Port
from whit.onnx.tensors import Array, standing_for
from whit.onnx.types import ValueType
from whit.tensor import Tensor


def check(given: Mapping[str, Any], ports: Sequence[Port], device: str, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The values of all inputs by name. `defaults` are constants that stand in for what is not given."""
    if not isinstance(given, Mapping):
        raise ArgumentError(
            f"onnx: inputs are a {type(given).__name__}",
            wanted(ports),
            "Give a dictionary with a tensor or an array for each name.",
        )
    names = {port.name for port in ports}
    for name in given:
        if name not in names:
            raise MissingError(
                f'onnx: the model has no input "{name}"', wanted(ports), nearest(str(name), names).strip()
            )
    values: dict[str, Any] = {}
    for port in ports:
        if port.name in given:
            values[port.name] = _value(given[port.name], port, port.type, device)
        elif port.name not in defaults and port.type.kind == "optional":
            values[port.name] = None
        elif port.name not in defaults:
            raise MissingError(f'onnx: the input "{port.name}" is not given', wanted(ports), "Give all inputs.")
    return values


def wanted(ports: Sequence[Port]) -> str:
    """What a model wants, for messages."""
    return "the model wants " + ", ".join(f"{port.name}: {port.type}" for port in ports)


def _value(value: Any, port: Port, kind: ValueType, device: str) -> Any:
    if kind.kind == "sequence":
        if not isinstance(value, list | tuple):
            raise ArgumentError(f'onnx: the input "{port.name}" is a {type(value).__name__}', f"the model wants {kind}")
        return [_value(part, port, kind.inner or types.UNKNOWN, device) for part in value]
    if kind.kind == "optional":
        return None if value is None else _value(value, port, kind.inner or types.UNKNOWN, device)
    if kind.kind == "map" or isinstance(value, dict):
        return dict(value)
    if isinstance(value, list | tuple) and kind.kind == "unknown":
        return [_value(part, port, kind, device) for part in value]
    found = _text(value) if kind.element == types.STRING else _numbers(value, port, kind, device)
    _check_shape(found, port, kind)
    return found


def _text(value: Any) -> Any:
    """Text stays on the host, as an array of objects."""
    array = np.asarray(value)
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8")
    return array.astype(object)


def _numbers(value: Any, port: Port, kind: ValueType, device: str) -> Any:
    if isinstance(value, Tensor):
        _check_dtype(value.dtype, port, kind)
        return value.to(device)
    if value is None:
        raise ArgumentError(f'onnx: the input "{port.name}" is None', f"the model wants {kind}", "Give a tensor.")
    if kind.dtype is not None and isinstance(value, int | float | bool | list | tuple):
        return Tensor(value, dtype=kind.dtype, device=device)
    array = np.asarray(value)
    if array.dtype.kind in "OUS":
        return _text(array) if kind.kind == "unknown" else _refuse_text(port, kind)
    tensor = Tensor(_plain_array(array), device=device)
    if kind.dtype is not None and kind.element in types.STANDS_FOR and tensor.dtype is not kind.dtype:
        tensor = tensor.cast(kind.dtype)
    _check_dtype(tensor.dtype, port, kind)
    return tensor


def _plain_array(array: Array) -> Array:
    """An array in a dtype that tensors have."""
    name = array.dtype.name
    if array.dtype.kind == "c":
        return standing_for(array, types.COMPLEX64 if name == "complex64" else types.COMPLEX128)
    if name in ("int4", "int2"):
        return array.astype(np.int8)
    if name in ("uint4", "uint2"):
        return array.astype(np.uint8)
    return array.astype(np.float32) if name.startswith(("float4", "float8_e8m0")) else array


def _refuse_text(port: Port, kind: ValueType) -> Any:
    raise DTypeError(f'onnx: the input "{port.name}" is text', f"the model wants {kind}", "Give numbers.")


def _check_dtype(dtype: Any, port: Port, kind: ValueType) -> None:
    if kind.dtype is not None and dtype is not kind.dtype:
        raise DTypeError(
            f'onnx: the input "{port.name}" is {dtype.name}',
            f"the model wants {kind}",
            f'Cast it: x.cast("{kind.dtype.name}") of a tensor, x.astype("{kind.dtype.name}") of an array.',
        )


def _check_shape(value: Any, port: Port, kind: ValueType) -> None:
    if kind.kind != "tensor" or kind.shape is None:
        return
    shape = tuple(value.shape)
    declared: tuple[Any, ...] = (*kind.shape, 2) if kind.is_complex else kind.shape
    fits = len(shape) == len(declared)
    if not fits or any(isinstance(d, int) and d != size for d, size in zip(declared, shape, strict=True)):
        raise ShapeError(
            f'onnx: the input "{port.name}" has the shape {shape}',
            f"the model wants {kind}",
            "Give another shape. Sizes that have a name may be anything.",
        )
