"""Values by their positions: gather, scatter, the largest few, what is not zero, what differs."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy

from whit.dtype import dtypes
from whit.errors import ArgumentError
from whit.onnx.operators.registry import (
    ALL,
    Node,
    Value,
    as_tensor,
    axis_of,
    host_array,
    host_int_list,
    operator,
    positive_axis,
)
from whit.tensor import Tensor

_REDUCTIONS: Final = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def _from_front(indices: Tensor, size: int) -> Tensor:
    """-1 -> size - 1."""
    wide = indices.cast(dtypes.int64)
    return (wide < 0).where(wide + size, wide)


@operator("Gather", since=(1, 11, 13), host=ALL)
def gather(node: Node, x: Value, indices: Value) -> Value:
    """Slices of an axis; also of strings, on the host."""
    axis = positive_axis(node, int(node.get("axis", 0)), len(x.shape))
    if isinstance(x, numpy.ndarray):
        return numpy.asarray(numpy.take(x, host_array(indices).astype(numpy.int64), axis=axis))
    if isinstance(indices, numpy.ndarray) and indices.ndim == 0:
        return x[(slice(None),) * axis + (int(indices),)]
    places = as_tensor(indices, x.device)
    flat = x.index_select(axis, _from_front(places, x.shape[axis]).reshape((places.numel(),)))
    return flat.reshape((*x.shape[:axis], *places.shape, *x.shape[axis + 1 :]))


@operator("GatherElements", since=(11, 13))
def gather_elements(node: Node, x: Tensor, indices: Tensor) -> Tensor:
    """The position of each element on one axis; the others are its own."""
    axis = axis_of(node, x, 0)
    return x.gather(axis, _from_front(indices, x.shape[axis]))


@operator("GatherND", since=(11, 12, 13))
def gather_nd(node: Node, x: Tensor, indices: Tensor) -> Tensor:
    """Slices at positions on several axes, after `batch_dims` axes that both share."""
    batches, places = int(node.get("batch_dims", 0)), indices.shape[-1]
    around, sizes = tuple(indices.shape[:-1]), tuple(x.shape[batches : batches + places])
    flat = _flat_positions(indices, sizes)
    batch = math.prod(x.shape[:batches])
    start = Tensor.arange(batch, device=x.device, dtype=dtypes.int64).reshape((batch, 1)) * math.prod(sizes)
    rows = x.reshape((batch * math.prod(sizes), *x.shape[batches + places :]))
    chosen = flat.reshape((batch, math.prod(around[batches:]))) + start
    return rows.index_select(0, chosen.reshape((chosen.numel(),))).reshape((*around, *rows.shape[1:]))


def _flat_positions(indices: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """Positions on several axes -> one position on all of them as one axis."""
    flat = indices[..., 0].cast(dtypes.int64) * 0
    for i, size in enumerate(sizes):
        flat = flat * size + _from_front(indices[..., i], size)
    return flat


@operator("ScatterND", since=(11, 13, 16, 18))
def scatter_nd(node: Node, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """A copy with slices put at positions on several axes."""
    places = indices.shape[-1]
    rows, rest = math.prod(x.shape[:places]), math.prod(x.shape[places:])
    flat = _flat_positions(indices, tuple(x.shape[:places]))
    count = flat.numel()
    index = flat.reshape((count, 1)).expand((count, rest))
    return _scattered(node, x.reshape((rows, rest)), 0, index, updates.reshape((count, rest))).reshape(x.shape)


def _scattered(node: Node, x: Tensor, axis: int, index: Tensor, updates: Tensor) -> Tensor:
    how = node.get("reduction", "none")
    if how == "none":
        return x.scatter(axis, index, updates)
    return x.scatter_reduce(axis, index, updates, _REDUCTIONS[how], include_self=True)


@operator("Scatter", since=(9, 11))
@operator("ScatterElements", since=(11, 13, 16, 18))
def scatter_elements(node: Node, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """A copy with elements put at positions of one axis."""
    axis = axis_of(node, x, 0)
    return _scattered(node, x, axis, _from_front(indices, x.shape[axis]), updates)


@operator("OneHot", since=(9, 11), host=(1,))
def one_hot(node: Node, indices: Tensor, depth: Value, values: Tensor) -> Tensor:
    """values[1] at each index, values[0] elsewhere; an index outside is nowhere."""
    count = int(host_array(depth).reshape(-1)[0])
    axis = positive_axis(node, int(node.get("axis", -1)), indices.ndim + 1)
    shape = [1] * (indices.ndim + 1)
    shape[axis] = count
    place = Tensor.arange(count, device=indices.device, dtype=dtypes.int64).reshape(shape)
    return (_from_front(indices, count).unsqueeze(axis) == place).where(values[1], values[0])


@operator("TopK", since=(1, 10, 11, 24), host=(1,))
def top_k(node: Node, x: Tensor, count: Value = None) -> tuple[Tensor, Tensor]:
    """The largest or smallest few and where they are; of equal ones the first."""
    k = int(node.get("k")) if count is None else host_int_list(count)[0]
    axis = axis_of(node, x, -1)
    if k > x.shape[axis]:
        raise ArgumentError(f"{node}: the {k} largest of {x.shape[axis]}", fix="Ask for fewer.")
    best = x.topk(k, dim=axis, largest=bool(node.get("largest", 1)), sorted_=bool(node.get("sorted", 1)))
    return best.values, best.indices.cast(dtypes.int64)


@operator("NonZero", since=(9, 13))
def non_zero(node: Node, x: Tensor) -> Tensor:
    """The positions of what is not zero, a row for each axis."""
    return x.nonzero().transpose(0, 1).cast(dtypes.int64)


@operator("Compress", since=(9, 11), host=(1,))
def compress(node: Node, x: Tensor, condition: Value) -> Tensor:
    """The slices of an axis where a condition holds; without `axis` elements of all."""
    places = numpy.flatnonzero(host_array(condition))
    axis = node.get("axis")
    source, at = (x.reshape((x.numel(),)), 0) if axis is None else (x, positive_axis(node, int(axis), x.ndim))
    return source.index_select(at, Tensor(places.astype(numpy.int64), device=x.device))


@operator("Unique", since=(11,), host=ALL)
def unique(node: Node, x: Value) -> tuple[Value, ...]:
    """What differs, where it is first, which it is for each, and how often; on the host."""
    is_small = isinstance(x, Tensor) and x.dtype in (dtypes.bfloat16, *dtypes.fp8s)  # types that NumPy has not
    array, axis = host_array(x.cast(dtypes.float32) if is_small else x), node.get("axis")
    found: Any = numpy.unique(array, return_index=True, return_inverse=True, return_counts=True, axis=axis)
    values, first, inverse, counts = found
    inverse = inverse.reshape(-1)
    if not node.get("sorted", 1):
        order = numpy.argsort(first)
        values = numpy.take(values, order, axis=0 if axis is None else axis)
        inverse, first, counts = numpy.argsort(order)[inverse], first[order], counts[order]
    rest = (as_tensor(numpy.asarray(part, dtype=numpy.int64)) for part in (first, inverse, counts))
    different = as_tensor(values)
    return (different.cast(x.dtype) if is_small else different, *rest)


@operator("TensorScatter", since=(24,))
def tensor_scatter(node: Node, cache: Tensor, update: Tensor, starts: Tensor | None = None) -> Tensor:
    """A cache with an update put from a position of each batch on, in a circle if asked for."""
    axis = positive_axis(node, int(node.get("axis", -2)), cache.ndim)
    size = cache.shape[axis]
    along, of_batch = [1] * cache.ndim, [1] * cache.ndim
    along[axis], of_batch[0] = update.shape[axis], cache.shape[0]
    step = Tensor.arange(update.shape[axis], device=cache.device, dtype=dtypes.int64).reshape(along)
    place = step if starts is None else step + starts.cast(dtypes.int64).reshape(of_batch)
    if node.get("mode", "linear") == "circular":
        place = place % size
    return cache.scatter(axis, place.expand(update.shape), update)
