"""A model from an ONNX file, which is called like a function of dictionaries.

model = load("model.onnx")
model.inputs, model.outputs             names, dtypes and shapes
model({"x": array})["y"]                a Tensor
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from whit.engine.devices.device import Device
from whit.engine.programs.overlay import current
from whit.nn.state.source import open_source
from whit.onnx.constants import Constant, Stored
from whit.onnx.control import FUNCTIONS
from whit.onnx.early import Early
from whit.onnx.graph import Builder, Graph, Port
from whit.onnx.inputs import check
from whit.onnx.operators.registry import find
from whit.onnx.proto import ModelProto, read_model
from whit.onnx.quick import Quick
from whit.onnx.run import Context, Runner, compute_constant
from whit.onnx.tensors import Store
from whit.onnx.values import lifted
from whit.onnx.wire import Wire
from whit.tensor import Tensor


class Model:
    """A graph of operators that can be called.

    `inputs` and `outputs` are what goes in and out: `port.name`, `port.type`. `opsets` are the versions of operators.
    """

    def __init__(self, proto: ModelProto, store: Store, device: str, jit: bool) -> None:
        context = Context(device, jit)
        self.device = device
        self.producer = f"{proto.producer_name} {proto.producer_version}".strip()
        self.ir_version = proto.ir_version
        self.opsets = {one.domain or "ai.onnx": one.version for one in proto.opset_imports}
        self.metadata = {pair.key: pair.value for pair in proto.metadata}
        builder = Builder(proto, store, lambda step, known: compute_constant(step, known, context))
        self.graph: Graph = builder.main()
        self._check_operators()
        self._runner = Runner(self.graph, context)
        self._lock = threading.RLock()  # programs and what is known of them are shared by all calls
        self._defaults: dict[str, Constant] = {
            port.name: self.graph.constants[port.name]
            for port in self.graph.inputs
            if port.name in self.graph.constants
        }

        self._quick = Quick(self.inputs, self.graph.outputs)
        self._early = Early(self.graph)

    @property
    def inputs(self) -> tuple[Port, ...]:
        """What has to be given."""
        return tuple(port for port in self.graph.inputs if port.name not in self._defaults)

    @property
    def outputs(self) -> tuple[Port, ...]:
        """What comes out."""
        return self.graph.outputs

    @property
    def weights(self) -> dict[str, Tensor]:
        """The tensors of the file by name, on the model's device."""
        stored = {name: c for name, c in self.graph.constants.items() if isinstance(c, Stored) and not c.is_small()}
        return {name: constant.tensor(self.device) for name, constant in stored.items()}

    @property
    def captures(self) -> int:
        """How many programs were made so far: one for each kind of inputs, if nothing depends on data."""
        return self._runner.captures

    def __call__(self, inputs: Mapping[str, Any] | None = None, **named: Any) -> dict[str, Any]:
        """The outputs by name: tensors, arrays of text, lists (sequences), dictionaries (maps)."""
        given = {**(inputs or {}), **named} if named or inputs is None else inputs
        is_plain = current() is None
        known = self._early(given) if is_plain and isinstance(given, Mapping) else {}
        if is_plain and type(given) is dict:
            with self._lock:
                found = self._quick(given, known)
            if found is not None:
                return found
        values = check(given, self.graph.inputs, self.device, self._defaults)
        with self._lock:
            results = self._runner({**values, **known})
            whole = self._runner.whole({**values, **known}) if self._quick.takes(given) else None
            if whole is not None:
                self._quick.note(*whole, values, known)
        return {port.name: self._result(value) for port, value in zip(self.graph.outputs, results, strict=True)}

    def traced(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The same as a graph of the inputs, captured or not: for who goes on with the graph."""
        values = {port.name: inputs[port.name] for port in self.inputs}
        results = Runner(self.graph, Context(self.device, False))({**self._defaults, **values})
        return {port.name: self._result(value) for port, value in zip(self.graph.outputs, results, strict=True)}

    def values(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The values of all nodes of the model's graph by name, computed one after the other."""
        given = check(inputs, self.graph.inputs, self.device, self._defaults)
        return {name: self._result(value) for name, value in self._runner.all_values(given).items()}

    def _result(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._result(part) for part in value]
        return lifted(self._runner.value(value, False), self.device)

    def _check_operators(self) -> None:
        """An operator that nobody knows is an error now; in a branch that may never run, it is one then."""
        for step in self.graph.steps:
            node = step.node
            if step.body is None and (node.domain, node.op_type) not in FUNCTIONS:
                find(node.domain, node.op_type, node.version)

    def __repr__(self) -> str:
        ports = ", ".join(f"{port.name}: {port.type}" for port in self.inputs)
        results = ", ".join(f"{port.name}: {port.type}" for port in self.outputs)
        return f"<onnx model of {len(self.graph.steps)} nodes: {ports} -> {results}>"


def load(data: Any, device: str | None = None, *, jit: bool = True) -> Model:
    """A model from a path, a tensor of bytes, or bytes.

    `device`: where it runs, if not on the default one. `jit=False`: each call builds a graph of tensors and captures
    nothing, so that gradients go through it.
    """
    wire = Wire(open_source("onnx", data))
    folder = Path(os.fspath(data)).resolve().parent if isinstance(data, str | os.PathLike) else None
    return Model(read_model(wire), Store(wire, folder), Device.canonicalize(device or Device.DEFAULT), jit)
