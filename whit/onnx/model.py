"""A model from an ONNX file, which is called like a function of dictionaries.

model = load("model.onnx")
model.inputs, model.outputs             names, dtypes and shapes
model({"x": array})["y"]                a Tensor
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from whit.engine.devices.device import Device
from whit.engine.programs.overlay import current
from whit.engine.report.launch_names import watched
from whit.errors import ArgumentError, MissingError, NotSupportedError, nearest
from whit.nn.module import Module
from whit.onnx.constants import Constant, Stored
from whit.onnx.control import FUNCTIONS
from whit.onnx.early import Early
from whit.onnx.graph import Builder, Graph, Port
from whit.onnx.inputs import check
from whit.onnx.kept import Shelf
from whit.onnx.operators.registry import find
from whit.onnx.proto import ModelProto, read_model
from whit.onnx.quick import Quick
from whit.onnx.run import Context, Runner, compute_constant
from whit.onnx.tensors import Store
from whit.onnx.values import lifted
from whit.onnx.weights import has_modes, statistics_of, weights_of
from whit.onnx.wire import Wire
from whit.records import replace
from whit.tensor import Tensor
from whit.tensor.source import open_source


class Model(Module):
    """A graph of operators that can be called, and trained as any model of `whit.nn` is.

    `inputs` and `outputs` are what goes in and out: `port.name`, `port.type`. `opsets` are the versions of operators.
    """

    def __init__(self, proto: ModelProto, store: Store, device: str, jit: bool) -> None:
        self.device = device
        self.producer = f"{proto.producer_name} {proto.producer_version}".strip()
        self.ir_version = proto.ir_version
        self.opsets = {one.domain or "ai.onnx": one.version for one in proto.opset_imports}
        self.metadata = {pair.key: pair.value for pair in proto.metadata}
        self._proto, self._store, self._is_captured = proto, store, jit
        self._weights: dict[str, Stored] | None = None  # those that were given away, and may change
        self._statistics: list[str] = []  # the names of those that are no parameters
        self._lock = threading.RLock()  # programs and what is known of them are shared by all calls
        self._build(lambda stored: None, Shelf(store) if jit else None)
        self._check_operators()
        if not jit:
            self._opened()

    def _build(self, opened: Callable[[Stored], object], shelf: Shelf | None = None) -> None:
        """The graph, and what runs it. Programs are kept as long as the weights are those of the file."""
        context = Context(self.device, self._is_captured, shelf=shelf)
        builder = Builder(self._proto, self._store, lambda step, known: compute_constant(step, known, context), opened)
        self._store.read_on_host = None if shelf is None else {}
        self.graph: Graph = builder.main()
        if shelf is not None:
            shelf.graph = self.graph
        self._shelf = shelf
        self._runner = Runner(self.graph, context)
        self._plain = Runner(self.graph, replace(context, is_captured=False))
        self._trained = Runner(self.graph, replace(context, is_captured=False, is_training=True))
        self._has_modes = has_modes(self.graph)
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
        """The tensors of the file by name, on the model's device: its parameters, and running statistics.

        From then on they may change: nothing is computed of them beforehand any more, until `freeze()`.
        """
        with self._lock:
            found = {name: stored.tensor(self.device) for name, stored in self._opened().items()}
            for name in self._statistics:
                found[name].requires_grad = False
        return found

    def _opened(self) -> dict[str, Stored]:
        """The weights. They may change from now on: the graph is built again, without what was computed of them."""
        with self._lock:
            if self._weights is not None:
                return self._weights
            found, statistics = weights_of(self.graph), statistics_of(self.graph)
            before = {stored.key: stored for stored in found.values()}
            now: dict[int, Stored] = {}

            def opened(stored: Stored) -> None:
                if stored.key in before:
                    stored.hold(before[stored.key])
                    now[stored.key] = stored

            self._build(opened)
            self._statistics = [name for name, stored in found.items() if id(stored) in statistics]
            self._weights = {name: now[stored.key] for name, stored in found.items()}
            return self._weights

    def freeze(self) -> Self:
        """Takes the weights as they are now for constants, of which is computed beforehand what can be: calls are as
        fast as those of a model from a file. Tensors that `weights` has given before are no part of it any more."""
        with self._lock:
            if self._weights is None:
                return self
            now = {stored.key: stored.tensor(self.device).detach().clone() for stored in self._weights.values()}
            if now:
                Tensor.realize(*now.values())

            def frozen(stored: Stored) -> None:
                if stored.key in now:
                    stored.keep(now[stored.key], self.device)

            self._build(frozen)
            self._weights = None
        return self

    @property
    def captures(self) -> int:
        """How many programs were made so far: one for each kind of inputs, if nothing depends on data."""
        return self._runner.captures

    def __call__(self, inputs: Mapping[str, Any] | None = None, **named: Any) -> dict[str, Any]:
        """The outputs by name: tensors, arrays of text, lists (sequences), dictionaries (maps).

        In training (`train()`, or `Tensor.train()` around it) they are graphs, which gradients go through.
        """
        given = {**(inputs or {}), **named} if named or inputs is None else inputs
        if self.training:
            return self.traced(given)
        if watched and self._shelf is not None and self._shelf.has_given:
            self._capture_again()
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
        return self._named_results(results)

    forward = __call__

    def _capture_again(self) -> None:
        """Lets programs from the disk go: somebody wants to see the nodes that they compute."""
        with self._lock:
            if self._shelf is not None:
                self._shelf.has_given = False
            self._runner = Runner(self.graph, self._runner.context)
            self._quick = Quick(self.inputs, self.graph.outputs)

    def traced(self, inputs: Mapping[str, Any], *, opened: bool = True) -> dict[str, Any]:
        """The same as a graph of inputs and weights, captured or not: for who goes on with the graph. `opened=False`:
        of the inputs alone, with what is known of weights computed beforehand."""
        with self._lock:
            if opened:
                self._opened()
            runner = self._trained if self.training and self._has_modes and opened else self._plain
            results = runner(check(inputs, self.graph.inputs, self.device, self._defaults))
        return self._named_results(results)

    def gradient(
        self,
        loss: Callable[[dict[str, Any]], Tensor],
        inputs: Mapping[str, Any],
        weights: Iterable[str] | None = None,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss, which is a function of the outputs, and its gradients by the weights of these names, or by all
        parameters."""
        known = self.weights
        if weights is None:
            wanted = [
                n for n, tensor in known.items() if tensor.is_floating_point() and tensor.requires_grad is not False
            ]
        else:
            wanted = list(weights)
            for name in wanted:
                if name not in known:
                    raise MissingError(f'onnx: the model has no weight "{name}"', fix=nearest(name, known).strip())
        value = loss(self.traced(inputs))
        if not isinstance(value, Tensor):
            raise ArgumentError(
                f"onnx: the loss is {type(value).__name__}, no tensor",
                fix="Let it compute one number of the dictionary of outputs.",
            )
        found = value.gradient(*[known[name] for name in wanted]) if wanted else []
        return value, dict(zip(wanted, found, strict=True))

    def values(self, inputs: Mapping[str, Any], names: Collection[str] | None = None) -> dict[str, Any]:
        """The values of nodes of the model's graph by name, computed one after the other: all, or those of `names`."""
        given = check(inputs, self.graph.inputs, self.device, self._defaults)
        return {name: self._result(value) for name, value in self._runner.all_values(given, names).items()}

    # ---- as a model of whit.nn

    def named_tensors(self) -> dict[str, Tensor]:
        """What `nn.state.get_state_dict` finds in it."""
        return self.weights

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """Itself alone."""
        return iter([(prefix, self)])

    def to(self, device: Any = None, dtype: Any = None) -> Self:
        """What the file says stays as it is."""
        raise NotSupportedError(
            "onnx: a model cannot be moved or cast", fix='Load it where it is to run: onnx.load(path, device="CUDA").'
        )

    def file_weights(self) -> dict[str, Tensor]:
        """The tensors of the file by name, for who does not change them."""
        if self._weights is not None:
            return self.weights
        stored = {name: c for name, c in self.graph.constants.items() if isinstance(c, Stored) and not c.is_small()}
        return {name: constant.tensor(self.device) for name, constant in stored.items()}

    def _named_results(self, results: list[Any]) -> dict[str, Any]:
        return {port.name: self._result(value) for port, value in zip(self.graph.outputs, results, strict=True)}

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
    nothing, so that gradients go through it, in training and else.
    """
    wire = Wire(open_source("onnx", data))
    folder = Path(os.fspath(data)).resolve().parent if isinstance(data, str | os.PathLike) else None
    return Model(read_model(wire), Store(wire, folder), Device.canonicalize(device or Device.DEFAULT), jit)
