"""The same bits as another dtype, also one of another size: the last axis then has more or fewer elements.

    uint8 (6, 8)  ->  float32 (6, 2)       four bytes make an element, the first one the lowest bits
    int32 (6, 2)  ->  int16 (6, 4)

In memory the elements are put together from their bits, in one kernel. In a file nothing is read: the view is made on
the side of the file.
"""

from __future__ import annotations

from whit.dtype import DType, dtypes, part_dtype
from whit.engine.devices.device import is_disk
from whit.errors import ArgumentError, ShapeError
from whit.ir import ops
from whit.ir.op import Shape, spell_shape
from whit.ir.uop import UOp, const
from whit.tensor.core import without_views
from whit.tensor.engine import bitcast_view, realize
from whit.tensor.graphs.complex_functions import as_parts, from_parts

_BITS = {1: dtypes.uint8, 2: dtypes.uint16, 4: dtypes.uint32, 8: dtypes.uint64}


def bitcast(node: UOp, dtype: DType, made: str) -> UOp:
    """The node's bits as another dtype; `made` says where it comes from, for messages."""
    if dtype is node.dtype:
        return node
    shape = _shape(node, dtype, made)
    if is_disk(node.device):
        return _in_file(node, dtype, made)
    if dtype.is_complex or node.dtype.is_complex:
        return _of_complex(node, dtype, shape, made)
    if dtype.bitsize == node.dtype.bitsize:
        return node.bitcast(dtype)
    if dtype.is_bool or node.dtype.is_bool:
        raise ArgumentError(
            f"bitcast: {node.dtype.name} has {node.dtype.bitsize} bits and {dtype.name} {dtype.bitsize}",
            made,
            "A bool is no number: use cast() or a comparison.",
        )
    bits = node.bitcast(_BITS[node.dtype.itemsize])
    if dtype.itemsize < node.dtype.itemsize:
        return _split(bits, dtype, shape)
    return _joined(bits, dtype, shape)


def _of_complex(node: UOp, dtype: DType, shape: Shape, made: str) -> UOp:
    """By way of the floats that complex numbers are."""
    if node.dtype.is_complex:
        parts = as_parts(node)
        node = parts.reshape((*node.shape[:-1], 2 * node.shape[-1])) if node.shape else parts
    if not dtype.is_complex:
        return bitcast(node, dtype, made).reshape(shape)
    return from_parts(bitcast(node.reshape(node.shape or (1,)), part_dtype(dtype), made).reshape((*shape, 2)))


def _shape(node: UOp, dtype: DType, made: str) -> Shape:
    """The last axis has as many bytes as before."""
    old, new = node.dtype.itemsize, dtype.itemsize
    if old == new:
        return node.shape
    if not node.shape:
        raise ShapeError(
            f"bitcast: one {node.dtype.name} of {old} bytes is not one {dtype.name} of {new}",
            made,
            "Reshape it to (1,) first: the last axis gets another size." if old > new else "There are too few bytes.",
        )
    last = node.shape[-1]
    if not isinstance(last, int) or last * old % new:
        raise ShapeError(
            f"bitcast: the last axis of {spell_shape(node.shape)} has {last} {node.dtype.name},"
            f" which is no whole number of {dtype.name}",
            made,
            f"{new // old} {node.dtype.name} make one {dtype.name}.",
        )
    return (*node.shape[:-1], last * old // new)


def _split(bits: UOp, dtype: DType, shape: Shape) -> UOp:
    """Each element as several smaller ones, the lowest bits first."""
    count = bits.dtype.itemsize // dtype.itemsize
    wide = (*bits.shape, count)
    shift = UOp.arange(count, bits.dtype) * const(bits.dtype, 8 * dtype.itemsize)
    shift = shift.reshape((1,) * len(bits.shape) + (count,)).expand(wide)
    parts = bits.reshape((*bits.shape, 1)).expand(wide) >> shift
    return parts.cast(_BITS[dtype.itemsize]).bitcast(dtype).reshape(shape)


def _joined(bits: UOp, dtype: DType, shape: Shape) -> UOp:
    """Several elements as a larger one, the first the lowest bits."""
    count, whole = dtype.itemsize // bits.dtype.itemsize, _BITS[dtype.itemsize]
    parts = bits.reshape((*shape, count))
    result = None
    for i in range(count):
        part = parts.shrink([*[(0, size) for size in shape], (i, 1)]).reshape(shape).cast(whole)
        part = part << const(whole, 8 * bits.dtype.itemsize * i) if i else part
        result = part if result is None else result | part
    assert result is not None, "a wider dtype has at least one part"
    return result.bitcast(dtype)


def _in_file(node: UOp, dtype: DType, made: str) -> UOp:
    """A view on the side of the file."""
    base = without_views(node)
    if base.op is not ops.BUFFER:  # not written yet
        realize([base], None)
    found = bitcast_view(node, dtype)
    if found is None:
        raise ShapeError(
            f"bitcast: the elements of {spell_shape(node.shape)} do not lie side by side in the file",
            made,
            'Move it first: x.to("CPU").',
        )
    return found
