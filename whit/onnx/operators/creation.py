"""Values from nothing: constants, ranges, ones on a diagonal."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy

from whit.dtype import dtypes, to_dtype
from whit.errors import ArgumentError
from whit.onnx.operators.element_types import dtype_of
from whit.onnx.operators.registry import Node, Value, as_tensor, host_array, host_int_list, operator
from whit.onnx.sizes import is_symbolic
from whit.tensor import Tensor

_KINDS: Final[dict[str, Any]] = {
    "value_float": numpy.float32,
    "value_floats": numpy.float32,
    "value_int": numpy.int64,
    "value_ints": numpy.int64,
    "value_string": object,
    "value_strings": object,
}


@operator("Constant", since=(1, 9, 11, 12, 13, 19, 21, 23, 24, 25))
def constant(node: Node) -> Value:
    """The value of whichever attribute is there."""
    if node.get("value") is not None:
        return node.get("value")
    for name, kind in _KINDS.items():
        if name in node.attributes:
            return numpy.array(node.attributes[name], dtype=kind)
    raise ArgumentError(f"{node}: no value", fix="Give one of the attributes value, value_float, value_ints, …")


@operator("ConstantOfShape", since=(9, 20, 21, 23, 24, 25), host=(0,))
def constant_of_shape(node: Node, shape: Value) -> Tensor:
    """One number everywhere."""
    sizes, given = tuple(host_int_list(shape)), node.get("value")
    if given is None:
        return Tensor.zeros(*sizes, dtype=dtypes.float32)
    result: Tensor = as_tensor(given).reshape((1,) * len(sizes)).expand(sizes)
    return result


@operator("Range", since=(11, 27), host=(0, 1, 2))
def range_(node: Node, start: Value, limit: Value, delta: Value) -> Tensor:
    """start, start + delta, … before the limit."""
    dtype = next((x.dtype for x in (start, limit, delta) if isinstance(x, Tensor)), None)
    dtype = dtype or to_dtype(start.dtype.name)
    first, last, step = (host_array(x).reshape(-1).tolist()[0] for x in (start, limit, delta))
    if is_symbolic((first, last, step)):
        return Tensor.arange(first, last, step, dtype=to_dtype(start.dtype.name))
    count = max(math.ceil((last - first) / step), 0)
    wide = dtypes.int64 if dtype.is_int else dtypes.float64 if dtype is dtypes.float64 else dtypes.float32
    result: Tensor = (Tensor.arange(count, dtype=wide) * step + first).cast(dtype)
    return result


@operator("EyeLike", since=(9, 22))
def eye_like(node: Node, x: Tensor) -> Tensor:
    """Ones on a diagonal, in the shape of a matrix."""
    rows, columns = x.shape
    down, right = Tensor.arange(rows, device=x.device).reshape((rows, 1)), Tensor.arange(columns, device=x.device)
    number = node.get("dtype")
    return (right - down == int(node.get("k", 0))).cast(x.dtype if number is None else dtype_of(int(number)))
