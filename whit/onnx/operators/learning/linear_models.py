"""Linear models: a product with coefficients, and for classifiers the best class."""

from __future__ import annotations

from typing import Any

import numpy

from whit.dtype import dtypes
from whit.errors import ArgumentError
from whit.onnx.operators.learning.scores import DOMAIN, class_labels, labelled, transformed
from whit.onnx.operators.registry import Node, Value, operator
from whit.tensor import Tensor


def _scores(node: Node, x: Tensor, outputs: int) -> Tensor:
    """Coefficients that are too many are left out at the end: other runtimes read as many as they need."""
    rows = x.cast(dtypes.float32)
    rows = rows.unsqueeze(0) if rows.ndim == 1 else rows
    needed, given = outputs * int(rows.shape[-1]), node.get("coefficients") or []
    if len(given) < needed:
        raise ArgumentError(
            f"onnx: {node} has {len(given)} coefficients",
            f"{outputs} results of {rows.shape[-1]} features take {needed}",
            "The model is wrong, or its input has another size: export it again.",
        )
    table: Any = numpy.array(given[:needed], dtype=numpy.float32).reshape(outputs, -1)
    total = rows @ Tensor(table, device=x.device).transpose(0, 1)
    if node.get("intercepts"):
        total = total + Tensor(numpy.array(node.get("intercepts"), dtype=numpy.float32), device=x.device)
    return total


@operator("LinearRegressor", since=(1,), domain=DOMAIN)
def linear_regressor(node: Node, x: Tensor) -> Tensor:
    """x @ coefficients + intercepts."""
    return transformed(_scores(node, x, int(node.get("targets", 1))), node.get("post_transform", "NONE"))


@operator("LinearClassifier", since=(1,), domain=DOMAIN)
def linear_classifier(node: Node, x: Tensor) -> tuple[Value, Value]:
    """The label with the best score, and all scores; one score of two classes is that of the second."""
    labels = class_labels(node)
    count = len(node.get("intercepts") or ()) or len(node.get("coefficients")) // int(x.shape[-1])
    scores, how = _scores(node, x, count), node.get("post_transform", "NONE")
    if count == 1 and len(labels) == 2:
        best = (scores[:, 0] > 0).cast(dtypes.int64)
        one = transformed(scores, how) if how in ("LOGISTIC", "PROBIT") else scores  # no softmax of one number
        return labelled(labels, best), (1 - one).cat(one, dim=1)
    return labelled(labels, scores.argmax(1)), transformed(scores, how)
