"""A node made by hand, run."""

from __future__ import annotations

from typing import Any

import numpy as np

from whit import Tensor, onnx
from whit.onnx.operators.registry import Node, find

assert onnx  # loads all operators


def node(op_type: str, version: int = 25, domain: str = "", outputs: int = 1, **more: Any) -> Node:
    types = more.pop("types", ())
    return Node(op_type, domain, version, "", outputs, more, types)


def run(op_type: str, *inputs: Any, **about: Any) -> Any:
    """The first output of a node as an array, or all if it has several. Arrays of numbers go in as tensors."""
    made = node(op_type, **about)
    given = [Tensor(x) if isinstance(x, np.ndarray) and x.dtype.kind in "biuf" else x for x in inputs]
    results = find(made.domain, op_type, made.version)(made, *given)
    arrays = [x.numpy() if isinstance(x, Tensor) else x for x in results]
    return arrays if len(arrays) > 1 else arrays[0]
