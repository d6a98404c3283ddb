"""Images of another size: each axis by itself, as a few weighted positions of the old axis for each new one.

Positions and weights are worked out on the host, in float64; a kernel reads and adds.
"""

from __future__ import annotations

import functools
import math
from typing import Any, Final

import numpy

from whit.dtype import dtypes
from whit.errors import ArgumentError
from whit.ir.sizes import settled
from whit.onnx.operators.registry import Node, Value, host_float_list, host_int_list, operator, positive_axes
from whit.onnx.sizes import Undecided, is_symbolic
from whit.records import dataclass
from whit.tensor import Tensor

Array = numpy.ndarray[Any, Any]
MOST_TIMES: Final = 65  # by which an axis of symbolic size grows
MOST_SIZE: Final = 1 << 28  # of an axis: the positions of each are worked out on the host
MOST_TAPS: Final = 8  # more positions than that are a product with a matrix


@dataclass(frozen=True)
class Axis:
    """How one axis changes."""

    size: int
    outputs: int
    scale: float
    wanted: float  # the number of outputs before it was rounded down
    begin: float  # the part that is looked at, of 0 to 1
    end: float


def _coordinates(axis: Axis, how: str) -> Array:
    """Where each new position is on the old axis."""
    new = numpy.arange(axis.outputs, dtype=numpy.float64)
    if how == "half_pixel_symmetric":
        offset = axis.size / 2 * (1 - axis.outputs / axis.wanted)
        return offset + (new + 0.5) / axis.scale - 0.5
    if how == "pytorch_half_pixel":
        return (new + 0.5) / axis.scale - 0.5 if axis.outputs > 1 else new * 0
    if how == "align_corners":
        return new * (axis.size - 1) / (axis.wanted - 1) if axis.wanted != 1 else new * 0
    if how == "asymmetric":
        return new / axis.scale
    if how == "tf_crop_and_resize":
        span = axis.end - axis.begin
        if axis.outputs > 1:
            return axis.begin * (axis.size - 1) + new * span * (axis.size - 1) / (axis.outputs - 1)
        return new * 0 + 0.5 * (axis.begin + axis.end) * (axis.size - 1)
    return (new + 0.5) / axis.scale - 0.5


def _nearest(place: Array, how: str, scale: float) -> Array:
    if how == "simple":
        return numpy.ceil(place) if scale < 1 else numpy.floor(place)
    if how == "floor":
        return numpy.floor(place)
    if how == "ceil":
        return numpy.ceil(place)
    return numpy.floor(place + 0.5) if how == "round_prefer_ceil" else numpy.ceil(place - 0.5)


def _cubic(distance: Array, a: float) -> Array:
    d = numpy.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return numpy.where(d <= 1, near, numpy.where(d < 2, far, 0))


def _taps(node: Node, axis: Axis, place: Array) -> tuple[Array, Array]:
    """(outputs, taps): positions, some outside, and their weights."""
    mode = node.get("mode", "nearest")
    if mode == "nearest":
        found = _nearest(place, node.get("nearest_mode", "round_prefer_floor"), axis.scale)
        return found[:, None], numpy.ones((len(place), 1))
    stretch = min(axis.scale, 1.0) if node.get("antialias", 0) else 1.0
    reach = (1 if mode == "linear" else 2) / stretch
    first = numpy.floor(place - reach) + 1
    positions = first[:, None] + numpy.arange(math.ceil(2 * reach))
    distance = (positions - place[:, None]) * stretch
    if mode == "linear":
        weights = numpy.maximum(1 - numpy.abs(distance), 0)
    else:
        weights = _cubic(distance, float(node.get("cubic_coeff_a", -0.75)))
    if node.get("exclude_outside", 0) or (node.get("antialias", 0) and stretch < 1):
        inside = (positions >= 0) & (positions < axis.size) if node.get("exclude_outside", 0) else True
        weights = weights * inside
        weights = weights / weights.sum(1, keepdims=True)
    return positions, weights


def _resized(node: Node, x: Tensor, at: int, axis: Axis) -> Tensor:
    how = node.get("coordinate_transformation_mode", "half_pixel")
    place = _coordinates(axis, how)
    positions, weights = _taps(node, axis, place)
    index = positions.clip(0, axis.size - 1).astype(numpy.int64)
    if index.shape[1] == 1:
        result = x.index_select(at, Tensor(index[:, 0], device=x.device))
    elif index.shape[1] <= MOST_TAPS:
        result = _weighted(x, at, index, weights)
    else:
        matrix = numpy.zeros((axis.size, axis.outputs))
        numpy.add.at(matrix, (index, numpy.arange(axis.outputs)[:, None]), weights)
        table = Tensor(matrix, device=x.device).cast(x.dtype)
        result = (x.transpose(at, -1) @ table).transpose(at, -1)
    if how == "tf_crop_and_resize":
        shape = [1] * x.ndim
        shape[at] = axis.outputs
        outside = Tensor((place < 0) | (place > axis.size - 1), device=x.device).reshape(shape)
        result = outside.where(float(node.get("extrapolation_value", 0.0)), result)
    return result


def _weighted(x: Tensor, at: int, index: Array, weights: Array) -> Tensor:
    shape = [1] * x.ndim
    shape[at] = len(index)
    parts = []
    for tap in range(index.shape[1]):
        weight = Tensor(weights[:, tap], device=x.device).cast(x.dtype).reshape(shape)
        parts.append(x.index_select(at, Tensor(index[:, tap].copy(), device=x.device)) * weight)
    return functools.reduce(lambda a, b: a + b, parts)


def _sizes(node: Node, space: list[int], sizes: list[int]) -> tuple[list[int], list[float]]:
    """Output sizes and scales from the sizes that are asked for."""
    policy = node.get("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return sizes, [new / old for new, old in zip(sizes, space, strict=True)]
    ratios = [new / old for new, old in zip(sizes, space, strict=True)]
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    return [math.floor(scale * old + 0.5) for old in space], [scale] * len(space)


def _axes(node: Node, space: list[int], roi: Value, scales: list[float], sizes: Value) -> list[Axis]:
    parts = [] if roi is None else host_float_list(roi)
    looks = node.get("coordinate_transformation_mode") == "tf_crop_and_resize" and len(parts) == 2 * len(space)
    begins = parts[: len(space)] if looks else [0.0] * len(space)
    ends = parts[len(space) :] if looks else [1.0] * len(space)
    if sizes is not None:
        outputs, scales = _sizes(node, space, host_int_list(sizes))
        wanted = [float(n) for n in outputs]
    else:
        wanted = [n * (e - b) * s for n, b, e, s in zip(space, begins, ends, scales, strict=True)]
        outputs = [math.floor(n) for n in wanted]
    are_scales = sizes is not None or all(0 < scale < math.inf for scale in scales)
    if not are_scales or any(not 0 <= size <= MOST_SIZE for size in outputs):
        raise ArgumentError(
            f"onnx: {node} makes {space} as large as {outputs}",
            f"by the scales {scales}",
            f"Scales are above 0, and sizes from 0 to {MOST_SIZE}: the model is wrong, or an input is.",
        )
    rows = zip(space, outputs, scales, wanted, begins, ends, strict=True)
    return [Axis(n, o, s, w, b, e) for n, o, s, w, b, e in rows]


@operator("Resize", since=(11, 13, 18, 19), host=(1, 2, 3))
def resize(node: Node, x: Tensor, roi: Value = None, scales: Value = None, sizes: Value = None) -> Tensor:
    """Each axis read between its positions."""
    chosen = positive_axes(node, node.get("axes") or range(x.ndim), x.ndim)
    factors = [] if scales is None else host_float_list(scales)
    wanted = None if sizes is None or factors else host_int_list(sizes)
    if is_symbolic((*x.shape, *(wanted or ()))):
        return _resize_symbolic(node, x, chosen, factors, wanted)
    return _resize(node, x, chosen, _axes(node, [x.shape[a] for a in chosen], roi, factors, wanted))


def _resize_symbolic(
    node: Node, x: Tensor, chosen: tuple[int, ...], factors: list[float], wanted: list[Any] | None
) -> Tensor:
    """The same where some sizes depend on variables: these grow by whole numbers."""
    how = node.get("coordinate_transformation_mode", "half_pixel")
    if how in ("align_corners", "tf_crop_and_resize") or node.get("exclude_outside", 0):
        raise Undecided(f"where {node} reads: that depends on all of an axis")
    for number, at in enumerate(chosen):
        size = x.shape[at]
        new = wanted[number] if wanted is not None else None
        if is_symbolic((size, new)):
            x = _repeated(node, x, at, _times(size, new) if wanted is not None else factors[number])
        else:
            asked: dict[str, Any] = {"scales": factors[number : number + 1], "sizes": None if wanted is None else [new]}
            x = _resize(node, x, (at,), _axes(node, [size], None, **asked))
    return x


def _times(old: Any, new: Any) -> float:
    """How many times as large a size is."""
    return next((n for n in range(1, MOST_TIMES) if settled(new - old * n) == 0), 0)


def _repeated(node: Node, x: Tensor, at: int, times: float) -> Tensor:
    """An axis some whole number of times as long. What the new positions around one old position read, and with which
    weights, is the same for all old ones."""
    if times != int(times) or times < 1:
        raise Undecided(f"{times} times {x.shape[at]}")
    scale, size = int(times), x.shape[at]
    if scale == 1:
        return x
    length = 4 * MOST_TAPS  # of an axis in whose middle nothing is outside
    axis = Axis(length, length * scale, times, length * times, 0.0, 1.0)
    positions, weights = _taps(node, axis, _coordinates(axis, node.get("coordinate_transformation_mode", "half_pixel")))
    middle = slice(length // 2 * scale, (length // 2 + 1) * scale)
    shape, spread = (*x.shape[: at + 1], scale, *x.shape[at + 1 :]), [1] * (x.ndim + 1)
    spread[at + 1] = scale
    parts = []
    for moved, weight in zip((positions[middle] - length // 2).T, weights[middle].T, strict=True):
        read = _moved(x, at, moved).reshape(shape) if moved.any() else x.unsqueeze(at + 1).expand(shape)
        factor = Tensor(weight.copy(), device=x.device).cast(x.dtype).reshape(spread)
        parts.append(read if (weight == 1).all() else read * factor)
    total: Tensor = functools.reduce(lambda a, b: a + b, parts)
    return total.reshape((*x.shape[:at], size * scale, *x.shape[at + 1 :]))


def _moved(x: Tensor, at: int, offsets: Array) -> Tensor:
    """What lies beside each position of an axis, at these distances; at the ends the last one again."""
    size = x.shape[at]
    rows = Tensor.arange(size, device=x.device, dtype=dtypes.int32).reshape((size, 1))
    last = Tensor(size - 1, device=x.device, dtype=dtypes.int32)
    places = rows + Tensor(offsets.astype(numpy.int32), device=x.device).reshape((1, len(offsets)))
    return x.index_select(at, places.maximum(0).minimum(last).reshape((size * len(offsets),)))


def _resize(node: Node, x: Tensor, chosen: tuple[int, ...], axes: list[Axis]) -> Tensor:
    wide = x if x.dtype.is_float or node.get("mode", "nearest") == "nearest" else x.cast(dtypes.float32)
    crops = node.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    for at, axis in zip(chosen, axes, strict=True):
        if axis.outputs != axis.size or crops or axis.scale != 1:
            wide = _resized(node, wide, at, axis)
    return wide if wide.dtype is x.dtype else wide.round().clip(x.dtype.min, x.dtype.max).cast(x.dtype)


@operator("Upsample", since=(7, 9), host=(1,))
@operator("Resize", since=(10,), host=(1,))
def upsample(node: Node, x: Tensor, scales: Value = None) -> Tensor:
    """The older form: positions are divided by the scale; the nearest is the one before, or of fewer the one after."""
    factors = [float(number) for number in node.get("scales")] if scales is None else host_float_list(scales)
    old = Node(
        node.op_type,
        node.domain,
        node.version,
        node.name,
        node.outputs,
        {"mode": node.get("mode", "nearest"), "nearest_mode": "simple", "coordinate_transformation_mode": "asymmetric"},
    )
    axes = _axes(old, [int(n) for n in x.shape], None, factors, None)
    return _resize(old, x, tuple(range(x.ndim)), axes)


@operator("Upsample", since=(1,))
def upsample_images(node: Node, x: Tensor) -> Tensor:
    """Version 1: one scale for the height and one for the width."""
    scales = [1.0, 1.0, float(node.get("height_scale")), float(node.get("width_scale"))]
    result: Tensor = upsample(node, x, numpy.array(scales))
    return result
