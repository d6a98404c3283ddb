"""Conditions that follow from small inputs: known before a program is chosen, so that If is no cut in it.

    y = If(sr == 16000, then, else)         sr = 16000 is given: the program is that of the branch `then`

Such inputs say how to run (a sample rate, whether there is a cache). They stay tensors for all else, so that the
programs of a model are as many as its conditions have values, not as many as its inputs have.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from whit.ir.ops import BUFFER
from whit.onnx import host
from whit.onnx.constants import host_value
from whit.onnx.graph import Graph, Step
from whit.tensor import Tensor

MOST_ELEMENTS: Final = 16  # of an input that is read
MOST_STEPS: Final = 16  # that are computed for values that are new, at about 3 us each
MOST_KNOWN: Final = 64  # such values that are remembered
NOTHING: Final[Mapping[str, Any]] = {}


class Early:
    """What of a graph is computed from inputs before it runs."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._makers = {name: step for step in graph.steps for name in step.outputs if name}
        self._inputs = {port.name for port in graph.inputs if port.type.kind == "tensor"}
        self.conditions: list[str] = []
        self._known: OrderedDict[Any, Mapping[str, Any]] = OrderedDict()  # conditions, by what was read
        self._steps = self._steps_of_all()
        made = {name for step in self._steps for name in step.outputs}
        self._read = {name for step in self._steps for name in step.inputs if name} - made - graph.constants.keys()

    def _steps_of_all(self) -> list[Step]:
        """The steps that make conditions, which are noted."""
        steps: dict[int, Step] = {}
        for step in self._graph.steps:
            is_choice = (step.node.domain, step.node.op_type) == ("", "If")
            found = self._steps_of(step.inputs[0]) if is_choice else None
            if found and len(found) + len(steps) <= MOST_STEPS:
                steps.update({id(each): each for each in found})
                self.conditions.append(step.inputs[0])
        return list(steps.values())

    def _steps_of(self, condition: str) -> list[Step] | None:
        """The steps that make a condition of inputs, in order; None if there are others among them."""
        found: list[Step] = []
        todo = [condition]
        while todo:
            name = todo.pop()
            step = self._makers.get(name)
            if step is None:
                if name in self._inputs or name in self._graph.constants or not name:
                    continue
                return None
            if step.node.domain or step.node.op_type not in host.OPERATORS or len(found) == MOST_STEPS:
                return None
            found.append(step)
            todo += step.inputs
        return found[::-1]

    def __call__(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """The conditions by name, of the inputs of a call; those that are not small numbers here give none."""
        if not self.conditions:
            return NOTHING
        read: dict[str, Any] = {}
        for name in self._read:
            value = _small(given.get(name, self._graph.constants.get(name)))
            if value is None:
                return NOTHING
            read[name] = value
        key = tuple([(value.dtype.str, value.shape, value.tobytes()) for value in read.values()])
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._computed(read)
            if len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)
        return known

    def _computed(self, known: dict[str, Any]) -> Mapping[str, Any]:
        """The conditions, of what was read."""
        constants = self._graph.constants
        for step in self._steps:
            values = [known[name] if name in known else host_value(constants.get(name)) for name in step.inputs]
            if any(name and value is None for name, value in zip(step.inputs, values, strict=True)):
                return NOTHING
            results = host.evaluate(step.node, values)
            if results is None:
                return NOTHING
            known.update(zip(step.outputs, results, strict=False))
        return {name: known[name] for name in self.conditions}


def _small(value: Any) -> Any:
    """An input as an array, if it has few whole numbers and reading it costs little."""
    if isinstance(value, bool | int):
        value = np.array(value)
    if isinstance(value, Tensor) and value.device.startswith("CPU") and value.uop.op is BUFFER:
        size = value.numel()
        value = value.numpy() if isinstance(size, int) and size <= MOST_ELEMENTS else None
    found = host_value(value)
    return found if found is not None and found.size <= MOST_ELEMENTS and found.dtype.kind in "biu" else None
