"""The same elements in other places: shapes, order, slices, joining, padding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy

from whit.dtype import dtypes
from whit.errors import ArgumentError
from whit.ir.assumed import fits
from whit.ir.sizes import larger, settled, smaller
from whit.onnx.operators.registry import (
    ALL,
    Node,
    Value,
    as_tensor,
    axis_of,
    given_ints,
    host_array,
    host_int_list,
    operator,
    positive_axes,
    positive_axis,
)
from whit.onnx.sizes import Undecided, broadcast, divided, is_below, is_same, is_symbolic, of_numbers
from whit.tensor import Tensor

_SHAPES: Final = (19, 21, 23, 24, 25)  # versions that only added element types


def _shape(value: Value) -> tuple[int, ...]:
    return tuple(value.shape)


@operator("Identity", since=(1, 13, 14, 16, *_SHAPES), host=ALL)
def identity(node: Node, value: Value) -> Value:
    """The same value, of any kind."""
    return value


@operator("Shape", since=(1, 13, 15, *_SHAPES), host=ALL)
def shape_of(node: Node, value: Value) -> Value:
    """The sizes, on the host."""
    return of_numbers(_shape(value)[slice(node.get("start", 0), node.get("end"))])


@operator("Size", since=(1, 13, *_SHAPES), host=ALL)
def size_of(node: Node, value: Value) -> Value:
    """The number of elements, on the host."""
    return of_numbers(math.prod(_shape(value)))


def resolve_shape(node: Node, old: Sequence[int], new: Sequence[int], keeps_zeros: bool) -> tuple[int, ...]:
    """A shape with -1 (what is left) and 0 (as it was) -> sizes."""
    if not keeps_zeros and any(size == 0 and i >= len(old) for i, size in enumerate(new)):
        raise ArgumentError(f"{node}: shape {list(new)} for {tuple(old)}", fix="0 keeps a size that is there.")
    sizes = [old[i] if size == 0 and not keeps_zeros else size for i, size in enumerate(new)]
    if -1 in sizes:
        known = math.prod(size for size in sizes if size != -1)
        sizes[sizes.index(-1)] = _left(math.prod(old), known)
    return tuple(sizes)


def _left(total: Any, known: Any) -> Any:
    """The size that is asked for by -1."""
    if isinstance(total, int) and isinstance(known, int):
        return total // known if known else 0
    return divided(total, known)


@operator("Reshape", since=(1, 5, 13, 14, *_SHAPES), host=ALL)
def reshape(node: Node, x: Value, shape: Value = None) -> Value:
    """The same elements in another shape."""
    wanted = given_ints(node, "shape", shape) or []
    return x.reshape(resolve_shape(node, _shape(x), wanted, bool(node.get("allowzero", 0))))


@operator("Flatten", since=(1, 9, 11, 13, 21, 23, 24, 25))
def flatten(node: Node, x: Tensor) -> Tensor:
    """Into two axes; the second begins at `axis`."""
    axis = int(node.get("axis", 1))
    axis = axis + x.ndim if axis < 0 else axis
    return x.reshape((math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


@operator("Squeeze", since=(1, 11, 13, 21, 23, 24, 25), host=ALL)
def squeeze(node: Node, x: Value, axes: Value = None) -> Value:
    """Without the axes of size 1 that are named, or all of them."""
    given, sizes = given_ints(node, "axes", axes), _shape(x)
    chosen = (
        [i for i, n in enumerate(sizes) if is_same(n, 1)] if given is None else positive_axes(node, given, len(sizes))
    )
    if any(sizes[axis] != 1 for axis in chosen):
        raise ArgumentError(f"{node}: axes {given} of {sizes} are not all of size 1", fix="The model is wrong.")
    return x.reshape(tuple(n for i, n in enumerate(sizes) if i not in chosen))


@operator("Unsqueeze", since=(1, 11, 13, 21, 23, 24, 25), host=ALL)
def unsqueeze(node: Node, x: Value, axes: Value = None) -> Value:
    """With axes of size 1 at these places of the result."""
    given = given_ints(node, "axes", axes) or []
    ndim = len(x.shape) + len(given)
    chosen = positive_axes(node, given, ndim)
    rest = iter(_shape(x))
    return x.reshape(tuple(1 if i in chosen else next(rest) for i in range(ndim)))


@operator("Transpose", since=(1, 13, 21, 23, 24, 25), host=ALL)
def transpose(node: Node, x: Value) -> Value:
    """Axes in another order, without `perm` backwards."""
    order = tuple(node.get("perm") or reversed(range(len(x.shape))))
    return x.permute(order) if isinstance(x, Tensor) else x.transpose(order)


@operator("Expand", since=(8, 13), host=(1,))
def expand(node: Node, x: Tensor, shape: Value) -> Tensor:
    """Broadcast in both directions."""
    return x.expand(broadcast(_shape(x), host_int_list(shape)))


@operator("Tile", since=(1, 6, 13), host=(1, 2))
def tile(node: Node, x: Tensor, repeats: Value, axis: Value = None) -> Tensor:
    """Copies along each axis; in version 1 along one."""
    times = host_int_list(repeats)
    if axis is not None:
        (at,) = positive_axes(node, host_int_list(axis), x.ndim)
        times = [times[0] if i == at else 1 for i in range(x.ndim)]
    return x.repeat(times) if times else x


@operator("Concat", since=(1, 4, 11, 13), host=ALL)
def concat(node: Node, *inputs: Value) -> Value:
    """Joined along an axis."""
    if all(isinstance(x, numpy.ndarray) for x in inputs):
        return numpy.concatenate(inputs, axis=int(node.get("axis", 1)))
    tensors = [x if isinstance(x, Tensor) else as_tensor(x) for x in inputs]
    return tensors[0].cat(*tensors[1:], dim=axis_of(node, tensors[0], 1))


def _part_sizes(node: Node, total: int, given: Value) -> list[int]:
    listed = given_ints(node, "split", given)
    if listed is not None:
        return listed
    parts = int(node.get("num_outputs", node.outputs))
    if not isinstance(total, int):
        return [divided(total, parts)] * parts
    size = -(-total // parts)
    return [max(min(size, total - i * size), 0) for i in range(parts)]


@operator("Split", since=(1, 2, 11, 13, 18), host=(1,))
def split(node: Node, x: Tensor, sizes: Value = None) -> tuple[Tensor, ...]:
    """Into parts of these sizes, or as many equal ones as there are outputs; the last may be smaller."""
    axis = axis_of(node, x, 0)
    return tuple(x.split(_part_sizes(node, x.shape[axis], sizes), axis))


def _limits(given: Value, default: list[int] | None = None) -> list[int]:
    if given is None:
        return list(default or [])
    return host_int_list(given)


@operator("Slice", since=(1, 10, 11, 13), host=ALL)
def slice_(
    node: Node, x: Value, starts: Value = None, ends: Value = None, axes: Value = None, steps: Value = None
) -> Value:
    """x[start:end:step] of the named axes, with Python's rules for what is outside."""
    begins = _limits(starts, node.get("starts"))
    stops = _limits(ends, node.get("ends"))
    chosen = _limits(axes, node.get("axes") or list(range(len(begins))))
    strides = _limits(steps, [1] * len(begins))
    x = as_tensor(x) if is_symbolic((*begins, *stops)) else x
    parts: list[slice] = [slice(None)] * len(x.shape)
    for axis, start, stop, step in zip(chosen, begins, stops, strides, strict=True):
        at = positive_axis(node, axis, len(x.shape))
        parts[at] = _python_slice(start, stop, step, x.shape[at])
    return x[tuple(parts)]


def _python_slice(start: int, stop: int, step: int, size: int) -> slice:
    """Limits brought inside as the standard says: a step back begins at an element, even if `start` is before all."""
    if is_symbolic((start, stop, size)):
        return _symbolic_slice(start, stop, step, size)
    begin, end = (number + size if number < 0 else number for number in (start, stop))
    if step > 0:
        return slice(min(max(begin, 0), size), min(max(end, 0), size), step)
    begin, end = min(max(begin, 0), size - 1), min(max(end, -1), size - 1)
    return slice(begin, None if end < 0 else end, step)


def _symbolic_slice(start: Any, stop: Any, step: int, size: Any) -> slice:
    """The same of sizes that depend on variables."""
    begin, end = (number + size if is_below(number, 0) else number for number in (start, stop))
    if step > 0:
        return slice(smaller(larger(begin, 0), size), smaller(larger(end, 0), size), step)
    if step == -1 and is_same(smaller(begin, size - 1), size - 1) and is_below(larger(end, -1), 0):
        return slice(None, None, -1)
    raise Undecided(f"a slice from {start} to {stop} in steps of {step}")


@operator("DepthToSpace", since=(1, 11, 13))
def depth_to_space(node: Node, x: Tensor) -> Tensor:
    """Channels into blocks of pixels."""
    batch, channels, height, width = x.shape
    block = int(node.get("blocksize"))
    if node.get("mode", "DCR") == "DCR":
        order: tuple[int, ...] = (0, 3, 4, 1, 5, 2)
        parts = x.reshape((batch, block, block, channels // block**2, height, width))
    else:
        order = (0, 1, 4, 2, 5, 3)
        parts = x.reshape((batch, channels // block**2, block, block, height, width))
    return parts.permute(order).reshape((batch, channels // block**2, height * block, width * block))


@operator("SpaceToDepth", since=(1, 13))
def space_to_depth(node: Node, x: Tensor) -> Tensor:
    """Blocks of pixels into channels."""
    batch, channels, height, width = x.shape
    block = int(node.get("blocksize"))
    parts = x.reshape((batch, channels, height // block, block, width // block, block)).permute((0, 3, 5, 1, 2, 4))
    return parts.reshape((batch, channels * block**2, height // block, width // block))


_PAD_MODES: Final = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "wrap": "circular"}


def _pad_pairs(node: Node, x: Tensor, pads: Value, axes: Value) -> list[tuple[int, int]]:
    sizes = _limits(pads, node.get("pads", node.get("paddings")))
    chosen = list(range(x.ndim)) if axes is None else positive_axes(node, host_int_list(axes), x.ndim)
    pairs = [(0, 0)] * x.ndim
    for i, axis in enumerate(chosen):
        pairs[axis] = (sizes[i], sizes[i + len(chosen)])
    return pairs


@operator("Pad", since=(1, 2, 11, 13, 18, *_SHAPES), host=(1, 2, 3))
def pad(node: Node, x: Tensor, pads: Value = None, value: Value = None, axes: Value = None) -> Tensor:
    """Elements around; negative numbers cut off."""
    pairs = _pad_pairs(node, x, pads, axes)
    mode = _PAD_MODES[node.get("mode", "constant")]
    fill: Any = node.get("value", 0.0) if value is None else host_array(value).reshape(-1)[0].item()
    if mode == "constant":
        return x.pad(pairs, value=fill).cast(x.dtype)
    cut = [(max(-before, 0), n - max(-after, 0)) for (before, after), n in zip(pairs, x.shape, strict=True)]
    x, pairs = x.shrink(cut), [(max(before, 0), max(after, 0)) for before, after in pairs]
    for axis, (before, after) in enumerate(pairs):
        if before or after:
            x = _around(x, axis, before, after, mode)
    return x


def _around(x: Tensor, axis: int, before: int, after: int, mode: str) -> Tensor:
    """By reading: any number of elements, also more than there are."""
    size = x.shape[axis]
    if is_symbolic((size, before, after)):
        return _around_symbolic(x, axis, before, after, mode)
    places = numpy.arange(-before, size + after)
    if mode == "replicate":
        places = places.clip(0, size - 1)
    elif mode == "circular" or size == 1:
        places = places % size
    else:
        places = (places % (2 * size - 2) + 2 * size - 2) % (2 * size - 2)
        places = numpy.minimum(places, 2 * size - 2 - places)
    return x.index_select(axis, Tensor(places.astype(numpy.int32), device=x.device))


def _around_symbolic(x: Tensor, axis: int, before: Any, after: Any, mode: str) -> Tensor:
    """The same where sizes depend on variables: places are numbers of the device."""
    size = x.shape[axis]
    if mode == "reflect" and not (fits(before + 1, size) and fits(after + 1, size)):
        raise Undecided(f"a reflection of {before} and {after} elements of {size}")
    places = Tensor.arange(settled(size + before + after), device=x.device, dtype=dtypes.int32) - before
    last = Tensor(size - 1, device=x.device, dtype=dtypes.int32)
    if mode == "replicate":
        places = places.maximum(0).minimum(last)
    elif mode == "circular":
        places = places % (last + 1)
    else:
        places = last - (last - places.abs()).abs()
    return x.index_select(axis, places)


@operator("CenterCropPad", since=(18,), host=(1,))
def center_crop_pad(node: Node, x: Tensor, shape: Value) -> Tensor:
    """The middle of each axis, or zeros around it."""
    wanted = host_int_list(shape)
    axes = positive_axes(node, node.get("axes") or range(x.ndim), x.ndim)
    for axis, size in zip(axes, wanted, strict=True):
        now = x.shape[axis]
        around, cut = [(0, 0)] * x.ndim, [(0, n) for n in x.shape]
        if size > now:
            around[axis] = ((size - now) // 2, size - now - (size - now) // 2)
        else:
            begin = (now - size) // 2
            cut[axis] = (begin, begin + size)
        x = x.shrink(cut).pad(around)
    return x


@operator("ReverseSequence", since=(10,))
def reverse_sequence(node: Node, x: Tensor, lengths: Tensor) -> Tensor:
    """The first elements of each sequence backwards, as many as its length says."""
    batch, time = int(node.get("batch_axis", 1)), int(node.get("time_axis", 0))
    shapes = [[1] * x.ndim, [1] * x.ndim]
    shapes[0][time], shapes[1][batch] = x.shape[time], x.shape[batch]
    step = Tensor.arange(x.shape[time], device=x.device, dtype=dtypes.int64).reshape(shapes[0])
    length = lengths.cast(dtypes.int64).reshape(shapes[1])
    place = (step < length).where(length - 1 - step, step)
    return x.gather(time, place.expand(x.shape))


@operator("Trilu", since=(14,), host=(1,))
def trilu(node: Node, x: Tensor, diagonal: Value = None) -> Tensor:
    """The upper or lower triangle of matrices."""
    offset = 0 if diagonal is None else host_int_list(diagonal)[0]
    return x.triu(offset) if node.get("upper", 1) else x.tril(offset)
