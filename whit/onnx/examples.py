"""Inputs for a model that nobody has data for: random numbers of the declared types.

example_inputs(model.inputs, {"batch": 4})      {"x": array, ...}; sizes that have a name are 1 if nothing is said
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from whit.errors import NotSupportedError
from whit.onnx import types
from whit.onnx.graph import Port
from whit.onnx.tensors import ML_DTYPES, NUMPY, numpy_type


def example_inputs(ports: Sequence[Port], sizes: Mapping[str, int], seed: int = 0) -> dict[str, Any]:
    """An array for each input: floats normally distributed, whole numbers 0 or 1, conditions true, text "a"."""
    generator = np.random.default_rng(seed)
    return {port.name: _example(port, sizes, generator) for port in ports if port.type.kind != "optional"}


def _example(port: Port, sizes: Mapping[str, int], generator: np.random.Generator) -> Any:
    kind = port.type
    if kind.kind != "tensor" or (kind.element not in (*NUMPY, *ML_DTYPES, types.STRING)):
        raise NotSupportedError(f'onnx: no example for the input "{port.name}"', f"it is {kind}", "Give a value.")
    shape = [size if isinstance(size, int) else sizes.get(str(size), 1) for size in kind.shape or ()]
    if kind.element == types.STRING:
        return np.full(shape, "a", object)
    dtype = np.dtype(numpy_type(kind.element))
    if dtype == np.bool_:
        return np.ones(shape, dtype)
    if dtype.kind in "iu":
        return generator.integers(0, 2, shape).astype(dtype)
    if dtype.kind == "c":
        return (generator.standard_normal(shape) + 1j * generator.standard_normal(shape)).astype(dtype)
    return generator.standard_normal(shape).astype(dtype)
