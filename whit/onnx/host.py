"""Operators of small values on the host: the arithmetic of shapes, which never launches a kernel.

    evaluate(node, [array, array])      the outputs as arrays; None if the host does not know the operator

Values are NumPy arrays in the dtypes of `whit.onnx.types`. What is not in the table is left to the operators of
tensors, so nothing here has to be complete, but what is here means the same: tests compare both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, Final

import numpy as np

from whit.onnx import types
from whit.onnx.operators.registry import Node
from whit.onnx.tensors import Array

MOST_ELEMENTS: Final = 1 << 16  # of a result; larger ones are computed by kernels
Evaluate = Callable[..., Any]


def evaluate(node: Node, inputs: list[Array | None]) -> tuple[Any, ...] | None:
    """The outputs of a node whose inputs the host knows; None: this is for a device."""
    function = OPERATORS.get(node.op_type) if node.domain == "" else None
    if function is None:
        return None
    with np.errstate(all="ignore"):
        result = function(node, *inputs)
    if result is None:
        return None
    return tuple(result) if isinstance(result, list) else (result,)


def _plain(function: Callable[..., Any]) -> Evaluate:
    """A ufunc: the dtype of the result is that of the inputs."""
    return lambda node, *inputs: np.asarray(function(*inputs)).astype(inputs[0].dtype)


def _question(function: Callable[..., Any]) -> Evaluate:
    return lambda node, *inputs: np.asarray(function(*inputs))


def _several(function: Callable[[Array, Array], Array]) -> Evaluate:
    def fold(node: Node, *inputs: Array) -> Array:
        result = inputs[0]
        for other in inputs[1:]:
            result = function(result, other)
        return np.asarray(result).astype(inputs[0].dtype)

    return fold


def _floats(function: Callable[..., Any]) -> Evaluate:
    """Functions of floats; whole numbers are for nobody here."""
    return lambda node, x: np.asarray(function(x)).astype(x.dtype) if x.dtype.kind == "f" else None


def _divide(node: Node, left: Array, right: Array) -> Array | None:
    """Whole numbers are cut off toward zero; division by zero is left to the device, which says what it gives."""
    if left.dtype.kind == "f":
        return np.asarray(left / right).astype(left.dtype)
    if not right.all():
        return None
    quotient = np.abs(left) // np.abs(right)
    return np.asarray(np.where((left < 0) != (right < 0), -quotient, quotient)).astype(left.dtype)


def _modulo(node: Node, left: Array, right: Array) -> Array | None:
    if left.dtype.kind in "iu" and not right.all():
        return None
    return np.asarray((np.fmod if node.get("fmod", 0) else np.mod)(left, right)).astype(left.dtype)


def _power(node: Node, base: Array, exponent: Array) -> Array | None:
    if base.dtype.kind in "iu" and (exponent < 0).any():
        return None
    return np.asarray(np.power(base, exponent)).astype(base.dtype)


def _cast(node: Node, x: Array) -> Array | None:
    """Between plain numbers whose conversion has one meaning."""
    target = node.get("to")
    dtype = CASTS.get(target) if isinstance(target, int) else None
    if dtype is None or x.dtype.kind not in "biuf" or node.type_of(0) in types.BITS:
        return None
    if (
        x.dtype.kind == "f"
        and np.dtype(dtype).kind in "iu"
        and not (np.isfinite(x).all() and (np.abs(x) < 2**31).all())
    ):
        return None
    return x.astype(dtype)


CASTS: Final[dict[int, Any]] = {
    types.FLOAT: np.float32,
    types.DOUBLE: np.float64,
    types.INT32: np.int32,
    types.INT64: np.int64,
    types.BOOL: np.bool_,
}


def _gather(node: Node, x: Array, indices: Array) -> Array:
    axis = node.get("axis", 0)
    size = x.shape[axis]
    if indices.size and not (-size <= int(indices.min()) and int(indices.max()) < size):
        raise IndexError(f"index {indices.tolist()} of an axis of size {size}")
    return np.asarray(np.take(x, indices, axis=axis))


def _slice(
    node: Node,
    x: Array,
    starts: Array | None = None,
    ends: Array | None = None,
    axes: Array | None = None,
    steps: Array | None = None,
) -> Array:
    begins = node.get("starts") if starts is None else starts.reshape(-1).tolist()
    stops = node.get("ends") if ends is None else ends.reshape(-1).tolist()
    chosen = node.get("axes") if axes is None else axes.reshape(-1).tolist()
    strides = [1] * len(begins) if steps is None else steps.reshape(-1).tolist()
    parts: list[slice] = [slice(None)] * x.ndim
    for axis, begin, stop, step in zip(chosen or range(len(begins)), begins, stops, strides, strict=False):
        first, last, by = slice(begin, stop, step).indices(x.shape[axis])
        parts[axis] = slice(first, None if last < 0 else last, by)
    return x[tuple(parts)]


def _axes(node: Node, given: Array | None) -> list[int] | None:
    found = node.get("axes") if given is None else given.reshape(-1).tolist()
    return None if found is None else [int(axis) for axis in found]


def _squeeze(node: Node, x: Array, axes: Array | None = None) -> Array:
    chosen = _axes(node, axes)
    return np.squeeze(x, None if chosen is None else tuple(chosen))


def _unsqueeze(node: Node, x: Array, axes: Array | None = None) -> Array:
    return np.expand_dims(x, tuple(_axes(node, axes) or []))


def _reshape(node: Node, x: Array, shape: Array | None = None) -> Array:
    sizes = [int(size) for size in (node.get("shape", []) if shape is None else shape.reshape(-1).tolist())]
    if not node.get("allowzero", 0):
        sizes = [x.shape[axis] if size == 0 else size for axis, size in enumerate(sizes)]
    return x.reshape(sizes)


def _expand(node: Node, x: Array, shape: Array) -> Array | None:
    sizes = np.broadcast_shapes(x.shape, tuple(shape.reshape(-1).tolist()))
    return np.broadcast_to(x, sizes).copy() if prod(sizes) <= MOST_ELEMENTS else None


def _tile(node: Node, x: Array, repeats: Array) -> Array | None:
    times = repeats.reshape(-1).tolist()
    return np.tile(x, times) if x.size * prod(times) <= MOST_ELEMENTS and len(times) == x.ndim else None


def _constant_of_shape(node: Node, shape: Array) -> Array | None:
    sizes, value = shape.reshape(-1).tolist(), node.get("value")
    if prod(sizes) > MOST_ELEMENTS or min(sizes, default=0) < 0:
        return None
    value = np.zeros(1, np.float32) if value is None else value
    if value.dtype.kind not in "biu" and prod(sizes) > 1:
        return None  # floats in numbers are data: a device makes them faster
    return np.full(sizes, value.reshape(-1)[0], value.dtype)


def _range(node: Node, start: Array, limit: Array, step: Array) -> Array | None:
    first, last, by = start.reshape(-1)[0], limit.reshape(-1)[0], step.reshape(-1)[0]
    if not by or start.dtype.kind == "f" or (int(last) - int(first)) // int(by) > MOST_ELEMENTS:
        return None
    return np.arange(first, last, by, dtype=start.dtype)


def _concat(node: Node, *inputs: Array) -> Array:
    return np.concatenate(inputs, axis=node.get("axis", 1))


def _split(node: Node, x: Array, sizes: Array | None = None) -> list[Array]:
    axis = node.get("axis", 0)
    given = node.get("split") if sizes is None else sizes.reshape(-1).tolist()
    if given is None:
        parts = node.get("num_outputs", node.outputs)
        each = -(-x.shape[axis] // parts)
        given = [each] * (parts - 1) + [x.shape[axis] - each * (parts - 1)]
    return list(np.split(x, np.cumsum(given)[:-1], axis=axis))


def _reduction(function: Callable[..., Any]) -> Evaluate:
    def reduce(node: Node, x: Array, axes: Array | None = None) -> Array | None:
        chosen = _axes(node, axes)
        if not chosen and node.get("noop_with_empty_axes", 0):
            return x
        if not x.size:
            return None
        keeps = bool(node.get("keepdims", 1))
        return np.asarray(function(x, axis=tuple(chosen) if chosen else None, keepdims=keeps)).astype(x.dtype)

    return reduce


def _where(node: Node, condition: Array, yes: Array, no: Array) -> Array:
    return np.where(condition, yes, no)


def _clip(node: Node, x: Array, least: Array | None = None, most: Array | None = None) -> Array | None:
    if node.get("min") is not None or node.get("max") is not None:
        return None
    x = x if least is None else np.maximum(x, least)
    return np.asarray(x if most is None else np.minimum(x, most))


def _nonzero(node: Node, x: Array) -> Array:
    return np.array(np.nonzero(np.atleast_1d(x)), np.int64).reshape(max(x.ndim, 1), -1)


def _shape(node: Node, x: Array) -> Array:
    return np.array(x.shape[slice(node.get("start", 0), node.get("end"))], np.int64)


def _scatter_nd(node: Node, x: Array, indices: Array, updates: Array) -> Array | None:
    if node.get("reduction", "none") != "none":
        return None
    result = x.copy()
    result[tuple(np.moveaxis(indices, -1, 0))] = updates
    return result


def _cumulative_sum(node: Node, x: Array, axis: Array) -> Array | None:
    if node.get("exclusive", 0) or node.get("reverse", 0):
        return None
    return np.cumsum(x, axis=int(axis.reshape(-1)[0])).astype(x.dtype)


OPERATORS: Final[Mapping[str, Evaluate]] = {
    "Abs": _plain(np.abs),
    "Add": _plain(np.add),
    "And": _question(np.logical_and),
    "Cast": _cast,
    "Ceil": _floats(np.ceil),
    "Clip": _clip,
    "Concat": _concat,
    "ConstantOfShape": _constant_of_shape,
    "CumSum": _cumulative_sum,
    "Div": _divide,
    "Equal": _question(np.equal),
    "Expand": _expand,
    "Floor": _floats(np.floor),
    "Gather": _gather,
    "Greater": _question(np.greater),
    "GreaterOrEqual": _question(np.greater_equal),
    "Identity": lambda node, x: x,
    "Less": _question(np.less),
    "LessOrEqual": _question(np.less_equal),
    "Max": _several(np.maximum),
    "Min": _several(np.minimum),
    "Mod": _modulo,
    "Mul": _plain(np.multiply),
    "Neg": _plain(np.negative),
    "NonZero": _nonzero,
    "Not": _question(np.logical_not),
    "Or": _question(np.logical_or),
    "Pow": _power,
    "Range": _range,
    "ReduceMax": _reduction(np.max),
    "ReduceMin": _reduction(np.min),
    "ReduceProd": _reduction(np.prod),
    "ReduceSum": _reduction(np.sum),
    "Reshape": _reshape,
    "Round": _floats(np.round),
    "ScatterND": _scatter_nd,
    "Shape": _shape,
    "Sign": _plain(np.sign),
    "Size": lambda node, x: np.array(x.size, np.int64),
    "Slice": _slice,
    "Split": _split,
    "Sqrt": _floats(np.sqrt),
    "Squeeze": _squeeze,
    "Sub": _plain(np.subtract),
    "Tile": _tile,
    "Transpose": lambda node, x: np.transpose(x, node.get("perm")),
    "Unsqueeze": _unsqueeze,
    "Where": _where,
    "Xor": _question(np.logical_xor),
}
