"""What is done to the scores of a model at its end, and which class they mean."""

from __future__ import annotations

from typing import Any, Final

import numpy

from whit.dtype import dtypes
from whit.onnx.operators.registry import Node, Value, host_array
from whit.onnx.operators.strings import text_array
from whit.tensor import Tensor

DOMAIN: Final = "ai.onnx.ml"
_NUMBERED: Final = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


def transformed(scores: Tensor, how: str | int) -> Tensor:
    """(rows, classes) after the attribute `post_transform`, a name or its number."""
    name = _NUMBERED[how] if isinstance(how, int) else how
    if name == "SOFTMAX":
        return scores.softmax(-1)
    if name == "LOGISTIC":
        return scores.sigmoid()
    if name == "SOFTMAX_ZERO":  # zeros stay, and count for nothing
        powers = (scores.abs() < 1e-7).where(0, (scores - scores.max(-1, True)).exp())
        total = powers.sum(-1, True)
        return (total == 0).where(0, powers / total)
    return (scores * 2 - 1).erfinv() * 2**0.5 if name == "PROBIT" else scores


def class_labels(node: Node) -> list[Any]:
    """The labels of a classifier: strings or whole numbers."""
    for name in ("classlabels_strings", "classlabels_int64s", "classlabels_ints"):
        if node.get(name):
            return list(node.get(name))
    return []


def labelled(labels: list[Any], places: Tensor) -> Value:
    """The label of each place; strings are read on the host."""
    if labels and isinstance(labels[0], str):
        found = host_array(places)
        return text_array([labels[int(i)] for i in found.reshape(-1)], tuple(found.shape))
    table = Tensor(numpy.array(labels, dtype=numpy.int64), device=places.device)
    return table.index_select(0, places.cast(dtypes.int64))
