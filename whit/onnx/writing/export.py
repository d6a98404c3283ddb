"""`onnx.export`: a function of tensors, or a model, as an ONNX file.

    onnx.export(model, Tensor.zeros(1, 3, 224, 224), "model.onnx", dynamic_axes={"x": {0: "batch"}})

The function runs once, on tensors that stand for the inputs, as functions under the JIT do: what it computes from them
goes into the file; what it reads from elsewhere goes in as it is now.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final

from whit.engine.programs.overlay import Reads, transforming
from whit.engine.report.launch_names import watch
from whit.errors import ArgumentError, NotSupportedError, ShapeError
from whit.ir.placeholder import new_stand_in
from whit.ir.uop import UOp
from whit.jit.jit import TinyJit
from whit.nn.state.model import get_state_dict
from whit.onnx.model import Model
from whit.onnx.types import Size
from whit.onnx.writing import wire
from whit.onnx.writing.sheet import MOST_BYTES, Beside, Sheet
from whit.onnx.writing.translate import Translator
from whit.tensor import Tensor
from whit.tensor.control.body import as_tensors
from whit.tensor.core import Core
from whit.tensor.graphs.threefry import Draws, drawing
from whit.tensor.nested import flatten_tensors
from whit.tensor.told import listening

OPSETS: Final = range(18, 26)  # those whose operators are the ones that are written
IR_VERSIONS: Final = {18: 8, 19: 9, 20: 9}  # of the file, by opset; 10 of later ones
LARGEST_SIZE: Final = 1 << 20  # of an axis that may have any size
Axes = Mapping[str, Mapping[int, str] | Sequence[int]]


def export(
    model: Callable[..., Any],
    example_inputs: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    dynamic_axes: Axes | None = None,
    opset: int = 18,
    external_data: bool | str = False,
    doc_string: str = "",
    metadata: Mapping[str, str] | None = None,
) -> bytes:
    """Writes a function or a model as an ONNX file, and returns its bytes.

    `example_inputs`: a tensor, a tuple of the arguments, or a dictionary of keyword arguments; the file has the dtypes
    and shapes of them. Inputs are called as the function's arguments are, or as `input_names` says.
    `dynamic_axes`: axes of inputs that may have any size, `{"x": {0: "batch"}}`; those of one name are equal.
    `opset`: which version of the operators, 18 to 25. Without a `path` nothing is written to a file.
    `external_data`: weights go into another file beside the model's, of this name or of the model's with ".data" behind
    it; models of more than 2 GiB must have that. `doc_string` and `metadata` are what the file says about itself.
    """
    if opset not in OPSETS:
        raise ArgumentError(f"onnx.export: opset {opset}", fix=f"Use one of {OPSETS[0]} to {OPSETS[-1]}.")
    if not callable(model):
        raise ArgumentError(f"onnx.export: {model!r:.60} cannot be called", fix="Give a function or a model.")
    if dynamic_axes and isinstance(model, Model):
        raise ArgumentError(
            "onnx.export: dynamic_axes of a model that was loaded",
            "its operators compute with sizes that are numbers",
            "Leave them out: the file has the sizes of the example.",
        )
    if isinstance(model, TinyJit):
        model = inspect.unwrap(model)
    beside = _file_beside(path, external_data)
    inputs = _inputs(model, example_inputs, input_names)
    shapes, dims = _shapes(inputs, dynamic_axes or {})
    state = _state(model)
    traced = _Traced(model, inputs, shapes, isinstance(example_inputs, Mapping))
    names = _output_names(traced, output_names)
    weights = {tensor.uop: name for name, tensor in reversed(state.items())}
    with _opened(beside) as stream:
        sheet = Sheet(beside=None if beside is None or stream is None else Beside(stream, beside.name))
        graph = _written(sheet, traced, names, dims, weights, opset)
    pairs = {str(key): str(value) for key, value in (metadata or {}).items()}
    data = wire.model(graph, opset, IR_VERSIONS.get(opset, 10), ("whit", _version()), doc_string, pairs)
    if len(data) > MOST_BYTES:
        raise NotSupportedError(
            f"onnx.export: the file has {len(data)} bytes, and messages of protobuf at most {MOST_BYTES}",
            fix="Put the weights into a file beside it: external_data=True.",
        )
    if path is not None:
        Path(path).write_bytes(data)
    return data


def _version() -> str:
    """That of whit, which is above this module."""
    return str(getattr(sys.modules.get("whit"), "__version__", ""))


def _file_beside(path: str | os.PathLike[str] | None, external_data: bool | str) -> Path | None:
    """The file that weights go into; None: that of the model."""
    if not external_data:
        return None
    if path is None:
        raise ArgumentError("onnx.export: external_data without a path", fix="Say where the model is to be written.")
    name = f"{Path(path).name}.data" if external_data is True else str(external_data)
    if Path(name).name != name or name == Path(path).name:
        raise ArgumentError(
            f"onnx.export: external_data={external_data!r}",
            fix="Give a name without folders: data lie beside the model, in a file of their own.",
        )
    return Path(path).with_name(name)


@contextmanager
def _opened(path: Path | None) -> Iterator[BinaryIO | None]:
    """A file to write to, which takes its place when all is written."""
    if path is None:
        yield None
        return
    partial = path.with_name(f"{path.name}.part")
    try:
        with partial.open("wb") as stream:
            yield stream
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _inputs(model: Callable[..., Any], given: Any, names: Sequence[str] | None) -> dict[str, Tensor]:
    """The inputs by name, in order."""
    if isinstance(given, Mapping):
        found = {str(name): value for name, value in given.items()}
        values = [*found.values()]
        names = names or [*found]
    else:
        values = [*given] if isinstance(given, tuple | list) else [given]
        names = names or _argument_names(model, len(values))
    if len(names) != len(values) or len({*names}) != len(names):
        raise ArgumentError(
            f"onnx.export: the inputs are {len(values)}, their names {', '.join(names) or 'none'}",
            fix="Give each input a name of its own: input_names=[...].",
        )
    tensors = [as_tensors(value) for value in values]
    for name, tensor in zip(names, tensors, strict=True):
        if not isinstance(tensor, Core):
            raise ArgumentError(
                f"onnx.export: the input {name} is {type(tensor).__name__}, no tensor",
                fix="Give tensors, arrays or numbers; let a function around the model build what else it wants.",
            )
    return dict(zip(names, tensors, strict=True))


def _argument_names(model: Callable[..., Any], count: int) -> list[str]:
    """What the function calls its arguments; x0, x1 where it does not say."""
    called = model if inspect.isroutine(model) else getattr(model, "forward", model)
    try:
        parameters = [*inspect.signature(called).parameters.values()]
    except (TypeError, ValueError):
        parameters = []
    kinds = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    found = [parameter.name for parameter in parameters if parameter.kind in kinds]
    return found[:count] if len(found) >= count else [f"x{place}" for place in range(count)]


def _shapes(inputs: Mapping[str, Tensor], axes: Axes) -> tuple[dict[str, tuple[Any, ...]], dict[UOp, tuple[str, int]]]:
    """The shapes of the inputs with variables for sizes that may be any; of each variable, an input and an axis that
    have it."""
    unknown = [name for name in axes if name not in inputs]
    if unknown:
        raise ArgumentError(
            f"onnx.export: dynamic_axes of {unknown[0]}, which is no input", f"the inputs are {', '.join(inputs)}"
        )
    variables: dict[str, UOp] = {}
    dims: dict[UOp, tuple[str, int]] = {}
    shapes: dict[str, tuple[Any, ...]] = {}
    for name, tensor in inputs.items():
        shape: list[Any] = [*tensor.shape]
        given = axes.get(name, {})
        for axis, size in given.items() if isinstance(given, Mapping) else ((axis, f"{name}_{axis}") for axis in given):
            if not -len(shape) <= axis < len(shape):
                raise ShapeError(
                    f"onnx.export: dynamic_axes says axis {axis} of {name}, which has shape {tensor.shape}",
                    fix="Axes are counted from 0.",
                )
            if size not in variables:
                variables[size] = UOp.variable(size, 1, LARGEST_SIZE)
                dims[variables[size]] = (name, axis % len(shape))
            shape[axis] = variables[size]
        shapes[name] = tuple(shape)
    return shapes, dims


def _state(model: Any) -> dict[str, Tensor]:
    """The tensors of a model by name, computed."""
    holder = getattr(model, "__self__", model) if inspect.ismethod(model) else model
    if isinstance(holder, Model):
        return holder.file_weights()
    found = {} if inspect.isroutine(holder) else get_state_dict(holder)
    if found:
        Tensor.realize(*found.values())
    return found


class _Traced:
    """What a function made of tensors that stand for its inputs."""

    def __init__(
        self, model: Callable[..., Any], inputs: Mapping[str, Tensor], shapes: Mapping[str, Any], is_named: bool
    ) -> None:
        self.inputs = {
            name: tensor._make(new_stand_in(tensor.dtype, shapes[name], tensor.device), tensor.device)
            for name, tensor in inputs.items()
        }
        draws = Draws()
        reads = _Inside()
        for tensor in self.inputs.values():
            reads.note_made(tensor)
        end_watch = watch()
        try:
            with transforming(), drawing(draws), listening() as self.calls:
                result = reads.run(lambda: self._call(model, is_named))
        finally:
            end_watch()
        if draws.made:
            raise NotSupportedError(
                "onnx.export: the function draws random numbers, and a file has none",
                fix="Call model.eval() before, so that dropout does nothing, or make the numbers an input.",
            )
        self.keys = [str(key) for key in result] if isinstance(result, Mapping) else []
        self.outputs, _ = flatten_tensors(as_tensors(result))
        if not self.outputs:
            raise ArgumentError(
                "onnx.export: the function returns no tensor", fix="Return what the file is to compute."
            )

    def _call(self, model: Callable[..., Any], is_named: bool) -> Any:
        if isinstance(model, Model):
            return model.traced(self.inputs, opened=False)
        return model(**self.inputs) if is_named else model(*self.inputs.values())


class _Inside(Reads):
    """Raises where the function changes what was there before it."""

    def check_change(self, tensor: Any) -> None:
        """A file has no state."""
        if not self.is_made(tensor):
            raise NotSupportedError(
                "onnx.export: the function writes to a tensor from outside, and a file has no state",
                tensor._made(),
                "Call model.eval() before, or return the new value as an output.",
            )


def _output_names(traced: _Traced, names: Sequence[str] | None) -> list[str]:
    count = len(traced.outputs)
    if names is None:
        if len(traced.keys) == count:
            return traced.keys
        return ["output"] if count == 1 else [f"output_{place}" for place in range(count)]
    if len(names) != count or len({*names, *traced.inputs}) != count + len(traced.inputs):
        raise ArgumentError(
            f"onnx.export: the outputs are {count}, their names {', '.join(names) or 'none'}",
            fix="Give each output a name of its own, which no input has.",
        )
    return [*names]


def _written(
    sheet: Sheet,
    traced: _Traced,
    names: Sequence[str],
    dims: Mapping[UOp, tuple[str, int]],
    weights: Mapping[UOp, str],
    opset: int,
) -> bytes:
    """The graph."""
    sheet.taken.update(traced.inputs, names)
    values = {tensor.uop: name for name, tensor in traced.inputs.items()}
    to = Translator(sheet, values, weights, traced.calls, opset)
    for variable, (name, axis) in dims.items():
        to.known(variable, sheet.add("Gather", sheet.add("Shape", name), sheet.scalar(axis), axis=0))
    results = [to.write(tensor.uop) for tensor in traced.outputs]
    for place, name in enumerate(names):
        value = str(results[place])
        sheet.result(name, value)
        if any(line for line in sheet.lines if name in line.outputs and line.kind != "Identity"):
            results = [name if other == value else other for other in results]
    inputs = [_port(to, name, tensor) for name, tensor in traced.inputs.items()]
    outputs = [_port(to, name, tensor) for name, tensor in zip(names, traced.outputs, strict=True)]
    return sheet.graph("whit", inputs, outputs, names)


def _port(to: Translator, name: str, tensor: Tensor) -> bytes:
    return wire.port(name, to.element(tensor.uop), tuple(map(_size, tensor.uop.shape)))


def _size(size: Any) -> Size:
    """A number, the name of a variable, or None of what is computed from some."""
    if isinstance(size, UOp):
        return size.arg.name if hasattr(size.arg, "name") else None
    return int(size)
