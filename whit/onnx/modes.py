"""What operators do in training, in models that were written for inference: BatchNormalization and Dropout.

`model.train()`, or `Tensor.train()` around a call, asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from whit.onnx.constants import Stored
from whit.onnx.graph import Step
from whit.onnx.operators.registry import find

if TYPE_CHECKING:
    from whit.onnx.run import Runner


def normalise_batch(runner: Runner, step: Step, given: list[Any]) -> tuple[Any, ...]:
    """By the statistics of the batch; the running ones, if they are weights of the model, move towards these."""
    node = step.node
    in_training = replace(node, attributes={**node.attributes, "training_mode": 1}, outputs=max(node.outputs, 3))
    values = [runner.value(value, False) for value in given]
    result, mean, variance, *rest = find(node.domain, node.op_type, node.version)(in_training, *values)
    if not node.get("training_mode", 0):
        for constant, new in zip(given[3:5], (mean, variance), strict=True):
            if isinstance(constant, Stored) and constant.is_open:
                constant.tensor(runner.context.device).assign(new.detach())
    return (result, mean, variance, *rest)[: max(node.outputs, 1)]


def drop_out(runner: Runner, step: Step, given: list[Any]) -> tuple[Any, ...]:
    """Some elements are zero, by chance."""
    node = step.node
    x, ratio = [*given, None][:2]
    values = runner.value(x, False), None if ratio is None else runner.value(ratio, True)
    return find(node.domain, node.op_type, node.version)(node, *values, np.array(True))


MODES: Final[dict[str, Callable[[Runner, Step, list[Any]], tuple[Any, ...]]]] = {
    "BatchNormalization": normalise_batch,
    "Dropout": drop_out,
}
