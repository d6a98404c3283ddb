"""ONNX models under the path and with the calling convention of programs for tinygrad.

    run = OnnxRunner("model.onnx")
    run({"x": array})["y"]

`whit.onnx` is the same with more to ask: see there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from whit.dtype import DType
from whit.onnx import Model, load
from whit.records import dataclass
from whit.tensor import Tensor


@dataclass(frozen=True, slots=True)
class GraphInput:
    """What a model wants for a name: sizes that may be anything are names or None."""

    shape: tuple[int | str | None, ...]
    dtype: DType | None
    is_optional: bool
    is_sequence: bool


class OnnxRunner:
    """A model that is called with a dictionary of tensors or arrays, and gives one of tensors."""

    def __init__(self, model_path: Any) -> None:
        self.model: Model = load(model_path)
        self.graph_inputs: dict[str, GraphInput] = {}
        for port in self.model.inputs:
            kind, is_optional = port.type, port.type.kind == "optional"
            inner = kind.inner if is_optional and kind.inner is not None else kind
            is_sequence = inner.kind == "sequence"
            inner = inner.inner if is_sequence and inner.inner is not None else inner
            self.graph_inputs[port.name] = GraphInput(inner.shape or (), inner.dtype, is_optional, is_sequence)
        self.graph_outputs: tuple[str, ...] = tuple(port.name for port in self.model.outputs)

    def __call__(self, inputs: Mapping[str, Any]) -> dict[str, Tensor]:
        """The outputs by name."""
        return self.model(inputs)
