"""Some elements of a tensor, if they are in memory: what is shown of it. Nothing is computed.

    peek(node, [[0, 1, 998, 999], [0]])      # an array of shape (4, 1); None where the elements are not in memory

The places that are asked for go back through the views to the memory that they show, and only those places are read: of
a large tensor on a GPU, or in a file, a few bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from whit.dtype import encode
from whit.engine.memory.storage import computed, concrete_shape, found_storage
from whit.ir import ops
from whit.ir.interpret import numpy_dtype
from whit.ir.shapes import filled
from whit.ir.sizes import value_now
from whit.ir.uop import UOp
from whit.runtime.buffer import Buffer, has_memory

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

GAP_BYTES = 4096  # bytes: reading what lies between two elements is cheaper than reading twice


def peek(node: UOp, shown: Sequence[Sequence[int]]) -> Array | None:
    """The elements at these positions of each axis."""
    places = list(np.meshgrid(*(np.asarray(axis, np.int64) for axis in shown), indexing="ij"))
    shape = tuple(len(axis) for axis in shown)
    inside = np.ones(shape, np.bool_)  # False: padding
    base = node
    while (memory := base if base.op is ops.BUFFER else computed(base)) is None and base.op is not ops.CONST:
        if base.op in ops.MOVEMENT:
            places, inside = _before(base, places, inside)
        elif base.op not in ops.SAME_VALUE and base.op is not ops.BITCAST:
            return None
        base = base.src[0]
    size = base.dtype.itemsize  # bitcasts keep it
    bits = np.zeros((*shape, size), np.uint8)
    if memory is None:
        bits[inside] = np.frombuffer(encode(base.dtype, base.arg).to_bytes(size, "little"), np.uint8)
    else:
        buffer = found_storage(memory)
        if buffer is None or not has_memory(buffer.device):
            return None
        flat = _flat(places, concrete_shape(base.shape), shape)
        bits[inside] = _read(buffer, flat[inside], size)
    return bits.reshape(-1).view(numpy_dtype(node.dtype)).reshape(shape)


def _flat(places: Sequence[Array], sizes: Sequence[int], shape: tuple[int, ...]) -> Array:
    """Row-major numbers of places."""
    flat = np.zeros(shape, np.int64)
    for place, size in zip(places, sizes, strict=True):
        flat = flat * size + place
    return flat


def _before(view: UOp, places: list[Array], inside: Array) -> tuple[list[Array], Array]:
    """Where the elements at these places of a view are in what it shows."""
    sizes = concrete_shape(view.src[0].shape)
    if view.op is ops.PERMUTE:
        return [places[view.arg.index(axis)] for axis in range(len(sizes))], inside
    if view.op is ops.FLIP:
        return [sizes[i] - 1 - p if i in view.arg else p for i, p in enumerate(places)], inside
    if view.op is ops.EXPAND:
        return [p * (size != 1) for p, size in zip(places, sizes, strict=True)], inside
    if view.op is ops.RESHAPE:
        flat, found = _flat(places, concrete_shape(view.shape), inside.shape), []
        for size in reversed(sizes):
            found.append(flat % max(size, 1))
            flat = flat // max(size, 1)
        return found[::-1], inside
    parts = filled(view.arg, map(value_now, view.src[1:]))
    if view.op is ops.SHRINK:
        return [p + start for p, (start, _) in zip(places, parts, strict=True)], inside
    moved = [p - before for p, (before, _) in zip(places, parts, strict=True)]  # PAD
    for i, size in enumerate(sizes):
        inside = inside & (moved[i] >= 0) & (moved[i] < size)
    return [np.where(inside, p, 0) for p in moved], inside


def _read(buffer: Buffer, elements: Array, size: int) -> Array:
    """The bytes of elements, by their numbers."""
    numbers, back = np.unique(elements, return_inverse=True)
    bits = np.empty((len(numbers), size), np.uint8)
    ends = [*(np.flatnonzero(np.diff(numbers) * size > GAP_BYTES) + 1), len(numbers)] if len(numbers) else []
    start = 0
    for end in ends:
        first, last = int(numbers[start]), int(numbers[end - 1])
        memory = buffer.view(first * size, (last - first + 1) * size).memory()
        bits[start:end] = np.frombuffer(memory, np.uint8).reshape(-1, size)[numbers[start:end] - first]
        start = end
    return bits[back.reshape(-1)]
