"""Data between Python and buffers: NumPy arrays, scalars and nested lists.

    b = from_numpy(array)            # no copy where the array is contiguous and of a dtype that whit has
    to_numpy(b), item(b), to_list(b)

NumPy is imported by `from_numpy` and `to_numpy` only. Memory of the caller is never written: a tensor that is assigned
to gets memory of its own first.
"""

from __future__ import annotations

import functools
import struct
from math import prod
from typing import TYPE_CHECKING, Any

from whit.dtype import DType, decode, dtypes, part_dtype, to_dtype
from whit.engine.devices.device import canonicalize
from whit.engine.devices.disk import allocate
from whit.engine.memory.storage import _memory, attach, concrete_shape, from_bytes, storage
from whit.errors import DTypeError, ShapeError, nearest
from whit.ir.op import spell_shape
from whit.ir.uop import UOp
from whit.runtime.buffer import Buffer, has_memory, is_on_host

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]


_SAME_NAME = frozenset({"bool", *[f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]})
_SAME_NAME |= {"float16", "float32", "float64"}  # where nobody needs to look at all dtypes, which loads more


@functools.cache
def _dtype_by_numpy_name() -> dict[str, DType]:
    from whit.ir.interpret import numpy_dtype  # lazy: imports numpy

    return {numpy_dtype(dtype).name: dtype for dtype in dtypes.all}


def dtype_of_array(array: Array) -> DType:
    """The dtype that stores what a NumPy array holds."""
    name = array.dtype.name
    if name in _SAME_NAME:
        return to_dtype(name)
    known = _dtype_by_numpy_name()
    if name not in known:
        raise DTypeError(
            f"from_numpy: there is no dtype for arrays of {name}.{nearest(name, known)}",
            f"known: {', '.join(known)}",
            "Convert the array with .astype(...).",
        )
    return known[name]


def from_numpy(array: Array, device: str | None = None) -> UOp:
    """A BUFFER with the elements of an array; its memory itself where that is possible, and then kept alive."""
    import numpy as np  # lazy: `import whit` must not load it

    dtype, shape, name = dtype_of_array(array), tuple(array.shape), canonicalize(device)
    native = np.asarray(array, array.dtype.newbyteorder("="))
    if not (native.flags.c_contiguous and native.flags.aligned):
        native = native.copy(order="C")
    if native.size == 0 or not has_memory(name):
        return attach(allocate(name, native.nbytes), dtype, shape)
    if not is_on_host(name):
        return from_bytes(native.reshape(-1).view(np.uint8).data, dtype, shape, name)
    is_own = native is not array and native.flags.owndata  # converted just now: nobody else knows it
    buffer = Buffer.at_address(name, native.ctypes.data, native.nbytes, owner=native, writable=bool(is_own))
    return attach(buffer, dtype, shape)


def to_numpy(node: UOp, *, copy: bool = True) -> Array:
    """The elements of a BUFFER as an array. Without a copy the array is read-only, and keeps the memory alive."""
    import numpy as np  # lazy: `import whit` must not load it

    from whit.ir.interpret import numpy_dtype  # lazy: imports numpy

    shape = concrete_shape(node.shape)
    buffer = storage(node)
    is_own = False
    if not is_on_host(buffer.device) and has_memory(buffer.device):
        buffer, is_own = buffer.fetched(), copy
    elif not copy:
        buffer = buffer.view(0, buffer.nbytes)  # so that the memory counts as shared, and is not written
    used = prod(shape) * node.dtype.itemsize
    memory = buffer.memory() if is_own else buffer.memory().toreadonly()
    array = np.frombuffer(memory[:used], numpy_dtype(node.dtype)).reshape(shape)
    return array.copy() if copy and not is_own else array


def item(node: UOp) -> Any:
    """The one element of a BUFFER as a Python scalar."""
    shape = concrete_shape(node.shape)
    if prod(shape) != 1:
        raise ShapeError(
            f"item: a tensor of shape {spell_shape(shape)} is not one number",
            fix="Index or reduce it to one element first, or use tolist().",
        )
    return _elements(node)[0]


def to_list(node: UOp) -> Any:
    """The elements of a BUFFER as nested lists; of shape (), the element itself."""
    shape = concrete_shape(node.shape)
    nested: list[Any] = _elements(node)
    for axis in range(len(shape) - 1, 0, -1):
        size, count = shape[axis], prod(shape[:axis])
        nested = [nested[i * size : (i + 1) * size] for i in range(count)]
    return nested if shape else nested[0]


def _elements(node: UOp) -> list[Any]:
    """All elements in row-major order, as Python scalars."""
    dtype, memory = node.dtype, _memory(node)
    count = len(memory) // dtype.itemsize
    if dtype.is_complex:
        parts = struct.unpack(f"<{2 * count}{part_dtype(dtype).fmt}", memory)
        return list(map(complex, parts[::2], parts[1::2]))
    if dtype.fmt is not None:
        return list(struct.unpack(f"<{count}{dtype.fmt}", memory))
    words = struct.unpack(f"<{count}{'BH'[dtype.itemsize - 1]}", memory)
    return [decode(dtype, bits) for bits in words]
