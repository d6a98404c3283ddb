"""Operators of the standard's preview domains that look at graphs: FlexAttention and Gradient."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from whit.dtype import dtypes
from whit.errors import ArgumentError
from whit.onnx.graph import Graph, Step
from whit.onnx.operators.attention import shared_heads
from whit.onnx.operators.element_types import dtype_of
from whit.onnx.values import lifted
from whit.tensor import Tensor

if TYPE_CHECKING:
    from whit.onnx.run import Runner


def attend(runner: Runner, step: Step, given: list[Any], live: dict[str, Any]) -> tuple[Any, ...]:
    """FlexAttention: softmax(change(q @ k.T * scale)) @ v, where graphs change the scores and the probabilities."""
    q, k, v = (runner.value(value, False) for value in given[:3])
    node, heads = step.node, int(q.shape[1])
    number = int(node.get("softmax_precision", 0))
    wide = dtype_of(number) if number else dtypes.float64 if q.dtype is dtypes.float64 else dtypes.float32
    scale = node.get("scale") or 1 / math.sqrt(int(q.shape[-1]))
    keys = shared_heads(k, heads).cast(wide)
    scores = (q.cast(wide) @ keys.transpose(-1, -2)) * float(scale)
    scores = _changed(runner, node.get("score_mod"), scores, live)
    shares = _changed(runner, node.get("prob_mod"), scores.softmax(-1), live)
    return ((shares @ shared_heads(v, heads).cast(wide)).cast(q.dtype),)


def _changed(runner: Runner, graph: Graph | None, x: Tensor, live: dict[str, Any]) -> Tensor:
    """What a graph of one input and one output makes of a tensor."""
    if graph is None:
        return x
    around = {name: live[name] for name in graph.outer}
    (result,) = runner.inner(graph)({**around, graph.inputs[0].name: x}, True)
    found: Tensor = lifted(runner.value(result, False), runner.context.device)
    return found


def differentiate(runner: Runner, step: Step, given: list[Any], live: dict[str, Any]) -> tuple[Any, ...]:
    """Gradient: derivatives of the sum of `y` with respect to `xs`, at the values that the inputs give."""
    node = step.node
    names = [*(node.get("xs") or ()), *(node.get("zs") or ())]
    made = [_tensor(runner, live, name, step) for name in names]
    fed = [runner.value(value, False) for value in given]
    y = _tensor(runner, live, node.get("y"), step)
    other = {old.uop: new.uop for old, new in zip(made, fed, strict=True) if old.uop is not new.uop}
    if other:
        y = y._wrap(y.uop.substitute(other))
    return tuple(y.sum().gradient(*fed[: len(node.get("xs"))]))


def _tensor(runner: Runner, live: dict[str, Any], name: str, step: Step) -> Tensor:
    if name not in live:
        raise ArgumentError(
            f'onnx: {step.node} names "{name}", which nothing makes before it', fix="The model is wrong."
        )
    value: Tensor = lifted(runner.value(live[name], False), runner.context.device)
    return value
