"""What `python -m whit onnx` calls a model with: values of the command line, and random numbers for the rest.

    given_inputs(model, ["image=cat.npy", "rest.npz", "scale=[0.5]", "words=words.txt"], ["batch=4", "image:2=224"], 0)

A size is one that has a name, or an axis of an input.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from whit.cli.answer import UsageError
from whit.errors import MissingError, UserError, nearest
from whit.onnx import Model, types
from whit.onnx.examples import example_inputs
from whit.onnx.graph import Port
from whit.onnx.inputs import wanted
from whit.onnx.tensors import NUMPY
from whit.onnx.types import ValueType


def given_inputs(model: Model, values: Sequence[str], sizes: Sequence[str], seed: int) -> dict[str, Any]:
    """A value for each input that has none in the file."""
    given = _values(model, values)
    left = [port for port in model.inputs if port.name not in given]
    return {**example_inputs(_sized(model, left, sizes), _named(sizes), seed), **given}


def _values(model: Model, texts: Sequence[str]) -> dict[str, Any]:
    ports = {port.name: port for port in model.graph.inputs}
    found: dict[str, Any] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if not value and text.endswith(".npz"):
            found |= {key: (ports, array) for key, array in _opened(text).items()}
        elif not value:
            raise UsageError(f"--input {text}: expected NAME=FILE.npy, NAME=FILE.txt, NAME=VALUE, or FILE.npz")
        else:
            found[name] = (ports, value)
    for name in found:
        if name not in ports:
            raise MissingError(
                f'onnx: the model has no input "{name}"', wanted(model.graph.inputs), nearest(name, ports).strip()
            )
    return {name: _value(ports[name], value) for name, (_, value) in found.items()}


def _value(port: Port, value: Any) -> Any:
    """What stands behind a name: a file, or the value itself."""
    if not isinstance(value, str):
        return value
    if value.endswith((".npy", ".npz")):
        opened = _opened(value)
        if isinstance(opened, Mapping):
            if port.name not in opened:
                raise UserError(f'onnx: {value} has no array "{port.name}"', f"it has {', '.join(opened)}")
            return opened[port.name]
        return opened
    is_text = port.type.element == types.STRING
    if value.endswith(".txt"):
        return np.array(_lines(value), object) if is_text else _cast(np.loadtxt(_existing(value), ndmin=1), port)
    try:
        parsed = json.loads(value)
    except ValueError:
        parsed = value
    if not is_text and _has_text(parsed):
        raise UsageError(f"--input {port.name}={value}: expected numbers as in [1, 2.5], or a file .npy, .npz or .txt")
    return np.array(parsed, object) if is_text else _cast(np.array(parsed), port)


def _has_text(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_has_text, value))
    return not isinstance(value, int | float)


def _cast(array: Any, port: Port) -> Any:
    """Numbers that were spelled have the dtype of the input."""
    dtype = NUMPY.get(port.type.element)
    return array if dtype is None else array.astype(dtype)


def _existing(path: str) -> Path:
    if not Path(path).is_file():
        raise UserError(f"onnx: there is no file {path}", fix="Check the path.")
    return Path(path)


def _opened(path: str) -> Any:
    """An array, or several by name; nothing that needs pickle."""
    file = _existing(path)
    try:
        opened = np.load(file, allow_pickle=False)
        return dict(opened) if isinstance(opened, Mapping) else opened
    except (ValueError, OSError, EOFError) as error:
        raise UserError(
            f"onnx: {path} has no arrays of NumPy", str(error), "Write it with numpy.save or savez."
        ) from error


def _lines(path: str) -> list[str]:
    return _existing(path).read_text("utf-8").splitlines()


# ---- sizes


def _named(given: Sequence[str]) -> dict[str, int]:
    found = {}
    for text in given:
        name, _, size = text.rpartition("=")
        if not name or not size.isdigit():
            raise UsageError(f"--size {text}: expected NAME=N, as in batch=4, or INPUT:AXIS=N")
        found[name] = int(size)
    return found


def _sized(model: Model, ports: Sequence[Port], given: Sequence[str]) -> list[Port]:
    """Inputs with the sizes of axes that are named by their number."""
    sizes = _named(given)
    known = {size for port in model.inputs for size in port.type.shape or () if isinstance(size, str)}
    axes = {f"{port.name}:{axis}" for port in model.inputs for axis in range(len(port.type.shape or ()))}
    for name in sizes:
        if name not in known and name not in axes:
            sorts = ", ".join(sorted(known)) or "none that have a name"
            raise UserError(
                f'onnx: the model has no size "{name}"',
                f"its sizes are {sorts}; {wanted(model.inputs)}",
                nearest(name, known | axes).strip() or "An axis of an input is a size, too: --size image:2=224.",
            )
    return [Port(port.name, _with_sizes(port.name, port.type, sizes)) for port in ports]


def _with_sizes(name: str, kind: ValueType, sizes: Mapping[str, int]) -> ValueType:
    if kind.shape is None:
        return kind
    shape = tuple(sizes.get(f"{name}:{axis}", size) for axis, size in enumerate(kind.shape))
    return replace(kind, shape=shape)
