"""Images read at any places: grids, regions of interest, boxes that do not overlap."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any, Final

import numpy

from whit.dtype import dtypes
from whit.onnx.operators.registry import ALL, Node, Value, host_array, host_int_list, operator
from whit.tensor import Tensor

Array = numpy.ndarray[Any, Any]
_MODES: Final = {"bilinear": "linear", "bicubic": "cubic"}


@operator("AffineGrid", since=(20,), host=(1,))
def affine_grid(node: Node, theta: Tensor, size: Value) -> Tensor:
    """Matrices (batch, d, d + 1) -> the places (batch, *space, d) that GridSample reads, -1 to 1."""
    space = host_int_list(size)[2:]
    axes = []
    for count in space:
        at = numpy.arange(count, dtype=numpy.float64)
        if node.get("align_corners", 0):
            axes.append(2 * at / max(count - 1, 1) - 1)
        else:
            axes.append((2 * at + 1) / count - 1)
    mesh = numpy.meshgrid(*axes, indexing="ij")
    points = numpy.stack([*reversed(mesh), numpy.ones_like(mesh[0])], axis=-1).reshape(-1, len(space) + 1)
    places = Tensor(points, device=theta.device).cast(theta.dtype) @ theta.transpose(1, 2)
    return places.reshape((theta.shape[0], *space, len(space)))


def _reflected(place: Tensor, count: int, aligned: bool) -> Tensor:
    """Outside positions mirrored at the borders, as often as needed."""
    low, span = (0.0, count - 1.0) if aligned else (-0.5, float(count))
    if span <= 0:
        return place * 0
    away = (place - low).abs()
    turns = (away / span).floor()
    rest = away - turns * span
    return (turns % 2 == 0).where(rest, span - rest) + low


def _cubic_weights(x: Tensor, a: float = -0.75) -> list[Tensor]:
    """For the share x of a step, the weights of the positions -1, 0, 1, 2."""

    def near(d: Tensor) -> Tensor:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: Tensor) -> Tensor:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    return [far(x + 1), near(x), near(1 - x), far(2 - x)]


@operator("GridSample", since=(16, 20, 22))
@operator("GridSample", since=(1,), domain="com.microsoft")
def grid_sample(node: Node, x: Tensor, grid: Tensor) -> Tensor:
    """Images of any number of axes at places from -1 to 1, last axis of the image first."""
    mode, padding = node.get("mode", "linear"), node.get("padding_mode", "zeros")
    mode, aligned = _MODES.get(mode, mode), bool(node.get("align_corners", 0))
    places = _places(node, grid, [int(n) for n in x.shape[2:]], mode, padding)
    if mode == "nearest":
        return _read(x, [place.round() for place in places], padding, aligned)
    first = [place.floor() for place in places]
    shares = [place - whole for place, whole in zip(places, first, strict=True)]
    weights = [_cubic_weights(share) if mode == "cubic" else [1 - share, share] for share in shares]
    offset = -1 if mode == "cubic" else 0
    parts = []
    for corner in itertools.product(*(range(len(each)) for each in weights)):
        at_corner = [whole + (k + offset) for whole, k in zip(first, corner, strict=True)]
        by_axis = [each[k] for each, k in zip(weights, corner, strict=True)]
        weight = functools.reduce(lambda a, b: a * b, by_axis)
        parts.append(_read(x, at_corner, padding, aligned) * weight.unsqueeze(1))
    total = functools.reduce(lambda a, b: a + b, parts)
    return total.cast(x.dtype)


def _places(node: Node, grid: Tensor, space: list[int], mode: str, padding: str) -> list[Tensor]:
    """The positions on each axis that a grid names, brought inside where the padding says so."""
    aligned, places = bool(node.get("align_corners", 0)), []
    for i, count in enumerate(space):
        at = grid[..., len(space) - 1 - i]
        place = (at + 1) * ((count - 1) / 2) if aligned else ((at + 1) * count - 1) / 2
        if padding == "border" and mode != "cubic":
            place = place.clip(0, count - 1)
        if padding == "reflection" and mode != "cubic":
            place = _reflected(place, count, aligned).clip(0, count - 1)
        places.append(place)
    return places


def _read(x: Tensor, places: list[Tensor], padding: str, aligned: bool) -> Tensor:
    """(batch, channels, *outputs) at whole positions; outside it is as the padding says."""
    batch, channels, *space = (int(n) for n in x.shape)
    inside: Tensor | None = None
    flat: Tensor | None = None
    for count, place in zip(space, places, strict=True):
        place = _reflected(place, count, aligned) if padding == "reflection" else place
        within = (place >= 0) & (place <= count - 1)
        inside = within if inside is None else inside & within
        at = place.clip(0, count - 1).cast(dtypes.int64)
        flat = at if flat is None else flat * count + at
    if flat is None or inside is None:
        return x
    outputs = math.prod(flat.shape[1:])
    index = flat.reshape((batch, 1, outputs)).expand((batch, channels, outputs))
    found = x.reshape((batch, channels, math.prod(space))).gather(2, index).reshape((batch, channels, *flat.shape[1:]))
    return inside.unsqueeze(1).where(found, 0) if padding == "zeros" else found


# ---- regions of interest


@operator("RoiAlign", since=(10, 16, 22))
def roi_align(node: Node, x: Tensor, rois: Tensor, batches: Tensor) -> Tensor:
    """Each region as a grid of bins: means (or maxima) of a few places in each, read between pixels."""
    default = "half_pixel" if node.version >= 16 else "output_half_pixel"
    shift = 0.5 if node.get("coordinate_transformation_mode", default) == "half_pixel" else 0.0
    boxes = rois * float(node.get("spatial_scale", 1.0)) - shift
    count, (height, width) = int(rois.shape[0]), (int(n) for n in x.shape[2:])
    ratio = int(node.get("sampling_ratio", 0))
    parts = []
    for low, high, bins in ((1, 3, int(node.get("output_height", 1))), (0, 2, int(node.get("output_width", 1)))):
        span = boxes[:, high] - boxes[:, low]
        span = span.maximum(1.0) if shift == 0 else span
        step = span / bins
        samples = step.ceil().maximum(1) if ratio == 0 else step * 0 + ratio
        most = ratio or max(int(host_array(samples).max(initial=1)), 1)
        sample = Tensor.arange(most, device=x.device).cast(x.dtype).reshape((1, 1, most))
        first = boxes[:, low].reshape((count, 1, 1))
        bin_ = Tensor.arange(bins, device=x.device).cast(x.dtype).reshape((1, bins, 1))
        step, number = step.reshape((count, 1, 1)), samples.reshape((count, 1, 1))
        parts.append((first + bin_ * step + (sample + 0.5) * step / number, sample < number, bins, most))
    (rows, rows_live, out_rows, most_rows), (columns, columns_live, out_columns, most_columns) = parts
    shape = (count, out_rows, most_rows, out_columns, most_columns)
    row = rows.reshape((count, out_rows, most_rows, 1, 1)).expand(shape)
    column = columns.reshape((count, 1, 1, out_columns, most_columns)).expand(shape)
    live = (
        rows_live.reshape((count, 1, most_rows, 1, 1)) & columns_live.reshape((count, 1, 1, 1, most_columns))
    ).expand((count, out_rows, most_rows, out_columns, most_columns))
    is_max = node.get("mode", "avg") == "max"
    values = _between(x, batches, row, column, (height, width), is_max)
    if is_max:
        return live.unsqueeze(1).where(values, -float("inf")).max((3, 5))
    total = live.unsqueeze(1).where(values, 0).sum((3, 5))
    return total / live.cast(x.dtype).sum((2, 4)).unsqueeze(1)


def _between(x: Tensor, batches: Tensor, row: Tensor, column: Tensor, space: tuple[int, int], largest: bool) -> Tensor:
    """(regions, channels, …): the four pixels around each place, weighted and added, or the largest of them."""
    height, width = space
    inside = (row >= -1) & (row <= height) & (column >= -1) & (column <= width)
    row, column = row.maximum(0), column.maximum(0)
    top, left = row.floor().minimum(height - 1), column.floor().minimum(width - 1)
    down = (top >= height - 1).where(0, row - top)
    right = (left >= width - 1).where(0, column - left)
    batch, channels = int(x.shape[0]), int(x.shape[1])
    pixels = x.permute((0, 2, 3, 1)).reshape((batch * height * width, channels))
    start = batches.cast(dtypes.int64).reshape((-1, *(1,) * (row.ndim - 1))) * (height * width)
    total: Tensor | None = None
    for at_row, by_row in ((top, 1 - down), ((top + 1).minimum(height - 1), down)):
        for at_column, by_column in ((left, 1 - right), ((left + 1).minimum(width - 1), right)):
            flat = start + at_row.cast(dtypes.int64) * width + at_column.cast(dtypes.int64)
            found = pixels.index_select(0, flat.reshape((flat.numel(),))).reshape((*flat.shape, channels))
            part = found * (by_row * by_column).unsqueeze(-1)
            if total is None:
                total = part
            else:
                total = total.maximum(part) if largest else total + part
    value = inside.unsqueeze(-1).where(total, 0)
    return value.permute((0, value.ndim - 1, *range(1, value.ndim - 1)))


@operator("MaxRoiPool", since=(1, 22))
def max_roi_pool(node: Node, x: Tensor, rois: Tensor) -> Tensor:
    """Each region as a grid of bins: the largest pixel of each."""
    rows, columns = (int(n) for n in node.get("pooled_shape"))
    count, space = int(rois.shape[0]), (int(x.shape[2]), int(x.shape[3]))
    scaled = (rois[:, 1:] * float(node.get("spatial_scale", 1.0)) + 0.5).floor()  # rounds halves up
    pictures = x.index_select(0, rois[:, 0].cast(dtypes.int64))
    lowest = x.dtype.min
    for axis, low, high, bins in ((3, 0, 2, columns), (2, 1, 3, rows)):
        size = (scaled[:, high] - scaled[:, low] + 1).maximum(1).reshape((count, 1))
        bin_ = Tensor.arange(bins, device=x.device).cast(x.dtype).reshape((1, bins))
        start = scaled[:, low].reshape((count, 1))
        begin = ((bin_ * size / bins).floor() + start).clip(0, space[axis - 2])
        end = (((bin_ + 1) * size / bins).ceil() + start).clip(0, space[axis - 2])
        place = Tensor.arange(space[axis - 2], device=x.device).cast(x.dtype).reshape((1, 1, -1))
        seen = (place >= begin.unsqueeze(-1)) & (place < end.unsqueeze(-1))  # (regions, bins, positions)
        if axis == 3:
            pictures = seen.reshape((count, 1, 1, bins, -1)).where(pictures.unsqueeze(3), lowest).max(4)
        else:
            pictures = seen.reshape((count, 1, bins, -1, 1)).where(pictures.unsqueeze(2), lowest).max(3)
    result: Tensor = (pictures == lowest).where(0, pictures)
    return result


# ---- boxes


@operator("NonMaxSuppression", since=(10, 11), host=ALL)
def non_max_suppression(
    node: Node,
    boxes: Value,
    scores: Value,
    most: Value = None,
    overlap: Value = None,
    least: Value = None,
) -> Tensor:
    """Boxes by falling score, without those that overlap a better one too much: (batch, class, box); on the host."""
    count = 0 if most is None else host_int_list(most)[0]
    limit = 0.0 if overlap is None else float(host_array(overlap).reshape(-1)[0])
    floor = None if least is None else float(host_array(least).reshape(-1)[0])
    corners, points = _corners(host_array(boxes), bool(node.get("center_point_box", 0))), host_array(scores)
    found = [
        (batch, kind, box)
        for batch in range(points.shape[0])
        for kind in range(points.shape[1])
        for box in _best_boxes(corners[batch], points[batch, kind], count, limit, floor)
    ]
    device = next((x.device for x in (boxes, scores) if isinstance(x, Tensor)), None)
    return Tensor(numpy.array(found, dtype=numpy.int64).reshape(-1, 3), device=device)


def _corners(boxes: Array, by_centre: bool) -> Array:
    if by_centre:
        centre, half = boxes[..., :2], boxes[..., 2:] / 2
        return numpy.concatenate([centre - half, centre + half], axis=-1)
    first, second = boxes[..., :2], boxes[..., 2:]
    return numpy.concatenate([numpy.minimum(first, second), numpy.maximum(first, second)], axis=-1)


def _best_boxes(boxes: Array, scores: Array, most: int, limit: float, least: float | None) -> list[int]:
    order = numpy.argsort(-scores, kind="stable")
    if least is not None:
        order = order[scores[order] > least]
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    chosen: list[int] = []
    while len(order) and len(chosen) < most:
        best, order = int(order[0]), order[1:]
        chosen.append(best)
        low = numpy.maximum(boxes[best, :2], boxes[order, :2])
        high = numpy.minimum(boxes[best, 2:], boxes[order, 2:])
        common = numpy.prod(numpy.maximum(high - low, 0), axis=1)
        union = area[best] + area[order] - common
        order = order[common <= limit * union]
    return chosen
