"""Tensors of every dtype and shape, and how their values are compared with NumPy's.

Values are computed by the interpreter from the graph that the methods built; test_realize.py goes through the engine.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from whit import Tensor
from whit.dtype import DType, dtypes
from whit.engine.memory.values import to_numpy
from whit.ir import ops
from whit.ir.interpret import evaluate, numpy_dtype

FLOATS = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)
INTS = (
    dtypes.int8,
    dtypes.uint8,
    dtypes.int16,
    dtypes.uint16,
    dtypes.int32,
    dtypes.uint32,
    dtypes.int64,
    dtypes.uint64,
)
SHAPES = ((), (1,), (0,), (3,), (2, 3), (3, 0, 2), (1, 5, 1))


def value(tensor: Tensor) -> Any:
    """The elements, by the interpreter."""
    inputs = {node: to_numpy(node) for node in tensor.uop.topological() if node.op is ops.BUFFER}
    result = evaluate(tensor.uop, inputs)
    assert result.shape == tensor.shape
    assert result.dtype == numpy_dtype(tensor.dtype)
    return result


def some(dtype: DType, shape: tuple[int, ...] = (2, 3), seed: int = 0, low: float = -4, high: float = 4) -> Any:
    """Random elements that are exact in the dtype, all small enough for products to be."""
    generator = np.random.default_rng([seed, *dtype.name.encode()])
    if dtype.is_bool:
        return generator.integers(0, 2, shape).astype(np.bool_)
    if dtype.is_int:
        return generator.integers(0 if dtype.is_unsigned else int(low), int(high) + 1, shape).astype(numpy_dtype(dtype))
    return generator.uniform(low, high, shape).astype(numpy_dtype(dtype))


def wide(array: Any) -> Any:
    """Floats as float64; integers as they are."""
    return array if array.dtype.kind in "iub" else array.astype(np.float64)


def tolerance(dtype: DType, ulps: float) -> float:
    """A relative error of that many units in the last place."""
    return float(ulps * 2.0**-dtype.mantissa_bits)


def same(tensor: Tensor, expected: Any, dtype: DType | None = None, ulps: float = 0, scale: float = 0.0) -> None:
    """The tensor has these values: exactly, or within `ulps` of themselves or of `scale`."""
    expected = np.asarray(expected)
    found = value(tensor)
    assert tensor.shape == expected.shape
    if dtype is not None:
        assert tensor.dtype is dtype
    if not tensor.dtype.is_float:
        np.testing.assert_array_equal(found, expected)
        return
    rtol = tolerance(tensor.dtype, ulps)
    np.testing.assert_allclose(found.astype(np.float64), expected.astype(np.float64), rtol=rtol, atol=rtol * scale)
