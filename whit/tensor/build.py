"""What a tensor can be made of, as nodes of the graph.

Python scalars become constants. Everything else becomes a buffer: of nested lists a copy, of a path the file. Memory
of others (NumPy, the buffer protocol, DLPack) is copied if somebody can write to it, as what is lazy is read later;
what nobody can write to is used as it is, and anything if it is asked for (`copy=False`). Integers are checked to fit
the dtype.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from whit.dtype import DType, convert, dtypes, encode, part_dtype, resolve_weak, round_float, weak_dtype
from whit.engine.devices.device import canonicalize, is_disk
from whit.engine.programs.overlay import current
from whit.errors import ArgumentError, DTypeError, ShapeError
from whit.ir.op import spell_shape
from whit.ir.uop import UOp, const
from whit.tensor.core import Core, as_number, plain_number
from whit.tensor.engine import (
    copy_of_view,
    file_node,
    from_bytes,
    from_memory,
    from_numpy,
    import_dlpack,
    new_buffer,
    own_copy,
    realize,
)
from whit.tensor.graphs.bitcast import bitcast

_ACCEPTED = "Give a number, a nested list of numbers, bytes, an array, or a pathlib.Path."


def node_of(data: Any, dtype: DType | None, device: str | None, copy: bool = True) -> UOp:
    """A node with this data. Without `copy` it is on the memory of the data, where that is possible."""
    if isinstance(data, bool | int | float | complex):  # np.float64 is one, and becomes the default float
        wanted = dtype or resolve_weak(weak_dtype(data))
        return const(wanted, _fitting(data, wanted))
    if isinstance(data, Core | UOp | os.PathLike):
        return _from_node(data, dtype, device)
    if is_disk(device):
        memory = node_of(data, dtype, "CPU")
        (written,) = realize([memory.copy_to(device or "")], None)
        return written
    if data is None:
        return new_buffer(dtype or dtypes.default_float, (0,), canonicalize(device))
    if isinstance(data, list | tuple | range):
        return _from_list(list(data) if isinstance(data, range) else data, dtype, device)
    if isinstance(data, bytes | bytearray | mmap.mmap):
        return _from_bytes(data, dtype, device, copy)
    node = _from_array(data, device, copy)
    return node if dtype is None or dtype is node.dtype else node.cast(dtype)


def _from_bytes(data: bytes | bytearray | mmap.mmap, dtype: DType | None, device: str | None, copy: bool) -> UOp:
    """Bytes, of which only those of a `bytes` stay the same while a function is traced."""
    if not isinstance(data, bytes):
        _check_not_traced(data)
    return _private(_from_raw(data, dtype or dtypes.uint8, device), copy and not _is_fixed(data))


def _from_node(data: Core | UOp | os.PathLike[str], dtype: DType | None, device: str | None) -> UOp:
    """Tensors, nodes and files: what has a place may be wanted elsewhere."""
    if isinstance(data, os.PathLike):
        node = file_node(canonicalize(f"DISK:{data}"))
        if dtype is not None and dtype is not node.dtype:
            node = bitcast(node, dtype, f"the file {data}")
    else:
        node = as_number(data.uop if isinstance(data, Core) else data)
        node = node if dtype is None or dtype is node.dtype else node.cast(dtype)
    if device is None or node.device is None or node.device == device:
        return node
    return copy_to(node, device)


def copy_to(node: UOp, device: str) -> UOp:
    """The same value on another device."""
    if not is_disk(node.device):
        return node.copy_to(device)
    if node.dtype.is_bool:  # a file may hold any byte where a bool is expected
        return copy_of_view(bitcast(node, dtypes.uint8, ""), device).ne(0)
    return copy_of_view(node, device)


def fitting(name: str, value: Any, dtype: DType) -> UOp:
    """A Python number as a constant of the dtype."""
    return const(dtype, _fitting(value, dtype, name))


def _fitting(value: Any, dtype: DType, name: str = "Tensor") -> Any:
    """A Python number as one of the dtype. Integers must fit; floats are rounded, and cast to integers."""
    if type(value) is int and dtype.is_int and not dtype.min <= value <= dtype.max:
        raise DTypeError(
            f"{name}: {value} is outside {dtype.name}",
            f"{dtype.name} holds {dtype.min} to {dtype.max}",
            "Use a wider dtype.",
        )
    if isinstance(value, complex) and not dtype.is_complex:
        raise DTypeError(
            f"{name}: {value} is complex, and {dtype.name} is not", fix="Use complex64, or the part: z.real."
        )
    return convert(dtype, value)


def _from_raw(data: Any, dtype: DType, device: str | None) -> UOp:
    """Bytes are the elements themselves."""
    count, rest = divmod(len(data), dtype.itemsize)
    if rest:
        raise ShapeError(
            f"Tensor: {len(data)} bytes are no whole number of {dtype.name}", fix=f"One takes {dtype.itemsize} bytes."
        )
    return from_memory(data, dtype, (count,), device)


def _private(node: UOp, is_copied: bool) -> UOp:
    """A BUFFER over memory of others, or a copy of it."""
    return own_copy(node) if is_copied else node


def _is_fixed(data: Any) -> bool:
    """Whether nobody can write to memory: it is read-only, and so is what it is a part of."""
    numpy = sys.modules.get("numpy")
    while numpy is not None and isinstance(data, numpy.ndarray):
        if data.flags.writeable:
            return False
        if data.base is None:  # made read-only by its owner, who can take that back
            return False
        data = data.base
    if isinstance(data, bytes):
        return True
    try:
        view = memoryview(data)
    except TypeError:
        return False
    return view.readonly and isinstance(view.obj, bytes | mmap.mmap)


def _from_array(data: Any, device: str | None, copy: bool) -> UOp:
    """Arrays of others: NumPy's, then DLPack, the buffer protocol, and what NumPy can convert."""
    _check_not_traced(data)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(data, numpy.ndarray | numpy.generic):
        return _private(_from_numpy(data, device), copy and not _is_fixed(data))
    if hasattr(data, "__dlpack__"):
        return import_dlpack(data, device, copy)
    node = _from_view(data, device)
    if node is not None:
        return _private(node, copy and not _is_fixed(data))
    if hasattr(data, "__array__") or hasattr(data, "__array_interface__") or isinstance(data, memoryview):
        import numpy as np  # lazy: `import whit` must not load it

        array = np.asarray(data)
        return _private(_from_numpy(array, device), copy and not _is_fixed(array))
    raise _refused(data)


def _check_not_traced(data: Any) -> None:
    """Memory that others may change, or that is new in each call, is no part of a function that is replayed."""
    trace = current()
    if trace is not None and not trace.takes_arrays:
        raise trace.fail(
            f"Tensor: of a {type(data).__name__}, an array, while {trace.name} is captured",
            "a replay would not see what is in it then",
            "Make the tensor outside, and pass it as an argument.",
        )


def _refused(data: Any) -> ArgumentError:
    what = f"Tensor: cannot build a tensor of {data!r:.80}, a {type(data).__name__}"
    if isinstance(data, str):
        return ArgumentError(what, fix="For a file give a pathlib.Path; for text its bytes: data.encode().")
    if isinstance(data, dict):
        return ArgumentError(what, fix="Make a tensor of each value.")
    return ArgumentError(what, fix=f"Make a list of it: list(...). {_ACCEPTED}" if _is_iterable(data) else _ACCEPTED)


def _is_iterable(data: Any) -> bool:
    return hasattr(data, "__iter__") or hasattr(data, "__next__")


def _from_view(data: Any, device: str | None) -> UOp | None:
    """The memory of an object with the buffer protocol; None if it has none, or elements that need NumPy."""
    try:
        view = memoryview(data)
    except TypeError:
        return None
    order, code = (view.format[0], view.format[1:]) if view.format[0] in "<>=!@" else ("@", view.format)
    dtype = _CODES.get((code, view.itemsize))
    is_native = order in "@=" or order == ("<" if sys.byteorder == "little" else ">") or view.itemsize == 1
    if dtype is None or not is_native:
        return None
    return from_memory(view, dtype, view.shape or (), device)


def _struct_codes() -> dict[tuple[str, int], DType]:
    """The struct module's characters; the sizes of some depend on the machine."""
    codes = {("?", 1): dtypes.bool, ("c", 1): dtypes.uint8, ("e", 2): dtypes.float16}
    codes |= {("f", 4): dtypes.float32, ("d", 8): dtypes.float64}
    codes |= {("Zf", 8): dtypes.complex64, ("Zd", 16): dtypes.complex128}  # NumPy's; the struct module has none
    for signed, unsigned in ("bB", "hH", "iI", "lL", "qQ", "nN"):
        codes |= {(signed, dtype.itemsize): dtype for dtype in dtypes.sints}
        codes |= {(unsigned, dtype.itemsize): dtype for dtype in dtypes.uints}
    return codes


_CODES = _struct_codes()


def _from_numpy(data: Any, device: str | None) -> UOp:
    import numpy as np  # lazy: `import whit` must not load it

    kind, fix = data.dtype.kind, ""
    masked = sys.modules.get("numpy.ma")  # who has such an array has loaded it; it takes 10 ms
    if masked is not None and isinstance(data, masked.MaskedArray):
        fix = "Its mask would be lost. Use .filled(value)."
    elif data.dtype.names is not None:
        fix = f"Make a tensor of each field: array[{data.dtype.names[0]!r}]."
    elif kind in "SUT":
        fix = "Convert the text to numbers with .astype(...)."
    elif kind in "mM":
        fix = "Convert it to integers with .astype(np.int64)."
    elif kind == "O":
        fix = "Its elements are Python objects. Convert it with .astype(...)."
    if fix:
        raise DTypeError(f"Tensor: cannot build a tensor of an array of {data.dtype}", f"shape {data.shape}", fix)
    return from_numpy(np.asarray(data), device)


def _from_list(data: list[Any] | tuple[Any, ...], dtype: DType | None, device: str | None) -> UOp:
    shape = _shape_of(data)
    elements = [_element(value) for value in _elements(data, len(shape))]
    wanted = dtype or (resolve_weak(_join_of(elements)) if elements else dtypes.default_float)
    return from_bytes(_packed(elements, wanted), wanted, shape, device)


def _packed(elements: list[Any], dtype: DType) -> bytes:
    """Python numbers as the bytes of a dtype. NumPy is not needed for that, and not loaded."""
    if dtype.is_complex:
        numbers = [convert(dtype, value) for value in elements]
        return _packed([part for z in numbers for part in (z.real, z.imag)], part_dtype(dtype))
    if dtype.is_float:
        values = [_fitting(v, dtype) if type(v) in (int, complex) else v for v in elements]
        if dtype.fmt is not None:
            with suppress(OverflowError):  # the struct module rounds to nearest even, but knows no infinity
                return struct.pack(f"<{len(values)}{dtype.fmt}", *values)
        values = [round_float(dtype, value) for value in values]
    else:
        values = [_fitting(value, dtype) for value in elements]
    if dtype.fmt is not None:
        return struct.pack(f"<{len(values)}{dtype.fmt}", *values)
    return b"".join(encode(dtype, value).to_bytes(dtype.itemsize, "little") for value in values)


def _join_of(elements: list[Any]) -> DType:
    kinds = set(map(type, elements))
    return weak_dtype([kind(0) for kind in kinds])


def _shape_of(data: Any) -> tuple[int, ...]:
    """The shape of nested lists, after the first element of each."""
    shape = []
    while isinstance(data, list | tuple):
        shape.append(len(data))
        if not data:
            break
        data = data[0]
    return tuple(shape) + (tuple(data.shape) if hasattr(data, "shape") else ())


def _elements(data: Any, depth: int) -> Iterator[Any]:
    """The elements of nested lists in order; lists of unequal length are an error."""
    shape = _shape_of(data)
    level: list[Any] = [data]
    for size in shape:
        inner: list[Any] = []
        for part in level:
            values = part.tolist() if hasattr(part, "tolist") else part
            if not isinstance(values, list | tuple) or len(values) != size:
                found = len(values) if isinstance(values, list | tuple) else "a number"
                raise ShapeError(
                    f"Tensor: the lists are not of one length: {size} in one place, {found} in another",
                    f"shape so far {spell_shape(shape)}",
                    "Pad them to one length.",
                )
            inner += values
        level = inner
    return iter(level)


def _element(value: Any) -> Any:
    if type(value) in (bool, int, float, complex):
        return value
    if isinstance(value, int | float | complex):  # subclasses, as np.float64
        return plain_number(value)
    if isinstance(value, list | tuple):
        raise ShapeError("Tensor: a list stands where a number was expected", fix="Nest all lists equally deep.")
    if hasattr(value, "item"):
        return _element(value.item())
    raise _refused(value)
