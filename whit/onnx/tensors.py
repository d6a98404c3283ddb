"""Tensors of a file as values: every type, every way of writing them down, other files beside the model.

    store = Store(wire, folder)
    store.tensor(proto, "CPU")  a Tensor
    store.array(proto)          a NumPy array, for text and for small numbers that shapes are computed from

A tensor says how many elements it has, and its data how many bytes there are: both must agree before anything is
allocated. Data outside of the model's file must lie in its folder, whatever the path says.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from whit.engine.compile.sha256 import sha256
from whit.errors import ParseError
from whit.onnx import types
from whit.onnx.proto import SparseTensorProto, TensorProto
from whit.onnx.wire import Fixed, Span, Wire, signed
from whit.tensor import Tensor
from whit.tensor.source import CUT_OFF, Source, checked_shape, open_source

Array = np.ndarray[Any, Any]

LARGE_BYTES = 1024  # bytes of a tensor, from which on it is data, and not a part of what the model is
MOST_SPARSE_ELEMENTS = 1 << 28  # of a sparse tensor, which is stored dense
IN_ANOTHER_FILE = 1  # TensorProto.data_location

NUMPY: dict[int, Any] = {
    types.FLOAT: np.float32,
    types.UINT8: np.uint8,
    types.INT8: np.int8,
    types.UINT16: np.uint16,
    types.INT16: np.int16,
    types.INT32: np.int32,
    types.INT64: np.int64,
    types.BOOL: np.bool_,
    types.FLOAT16: np.float16,
    types.DOUBLE: np.float64,
    types.UINT32: np.uint32,
    types.UINT64: np.uint64,
    types.COMPLEX64: np.complex64,
    types.COMPLEX128: np.complex128,
}
ML_DTYPES = {  # of the package `ml_dtypes`, which few models need
    types.BFLOAT16: "bfloat16",
    types.FLOAT8E4M3FN: "float8_e4m3fn",
    types.FLOAT8E4M3FNUZ: "float8_e4m3fnuz",
    types.FLOAT8E5M2: "float8_e5m2",
    types.FLOAT8E5M2FNUZ: "float8_e5m2fnuz",
    types.FLOAT8E8M0: "float8_e8m0fnu",
}
FLOAT4_VALUES = (0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6)


def numpy_type(element: int) -> Any:
    """NumPy's dtype for a type of ONNX; None if it has none."""
    name = ML_DTYPES.get(element)
    if name is None:
        return NUMPY.get(element)
    return getattr(importlib.import_module("ml_dtypes"), name)  # lazy: 4 ms, and few models need it


class Store:
    """The data of a model's tensors: in its file, and in files beside it."""

    def __init__(self, wire: Wire, folder: Path | None) -> None:
        self._wire = wire
        self._folder = folder
        self._files: dict[str, Source] = {}
        # Of constants that depend on large data, by number: what the host has read. None: nobody wants to know.
        self.read_on_host: dict[int, str] | None = None
        self._entered = 0
        self._large: list[Span] = []

    def new_number(self) -> int:
        """The number of a new constant."""
        self._entered += 1
        return self._entered

    def note_read(self, number: int, array: Array | None) -> None:
        """The host has seen the value of a constant that depends on large data: what captured programs do may follow
        from it. None: it is no array."""
        if self.read_on_host is None:
            return
        text = b""
        if array is not None and not array.dtype.hasobject:
            text = f"{array.dtype.str} {array.shape} ".encode() + array.tobytes()
        self.read_on_host[number] = sha256(text).hex() if text else ""

    def leave_out(self, proto: TensorProto) -> bool:
        """Notes which data of a tensor are no part of what the model is: large ones, and those of other files. Whether
        there are any."""
        fields = (
            *((proto.raw_data,), proto.float_data, proto.double_data),
            *(proto.int32_data, proto.int64_data, proto.uint64_data),
        )
        found = [part for parts in fields for part in parts if isinstance(part, Span) and part.size >= LARGE_BYTES]
        self._large += found
        return bool(found) or bool(proto.external_data) or proto.data_location == IN_ANOTHER_FILE

    def structure(self) -> bytes:
        """The bytes of the model's file without these data."""
        found, place = [], 0
        source = self._wire.source
        for span in sorted(self._large, key=lambda span: span.start):
            found.append(source.read(place, max(0, span.start - place)))
            place = max(place, span.end)
        return b"".join([*found, source.read(place, source.size - place)])

    def count(self, proto: TensorProto) -> int:
        """How many elements a tensor has, by its shape."""
        return prod(self._shape(proto))

    def shape(self, proto: TensorProto) -> tuple[int, ...]:
        """The shape that the value has here: complex numbers have one axis more."""
        pair = (2,) if proto.data_type in (types.COMPLEX64, types.COMPLEX128) else ()
        return self._shape(proto) + pair

    def tensor(self, proto: TensorProto, device: str) -> Tensor:
        """A tensor of numbers on a device."""
        dtype = types.DTYPES.get(proto.data_type)
        found = self._raw(proto) if dtype is not None else None
        if found is None or dtype is None:
            array = self.array(proto)
            if array.dtype.kind == "O":
                raise self._error(f'"{proto.name}" is text', "a tensor of numbers was expected here")
            return Tensor(array, copy=False).to(device).realize()
        source, start, size = found
        shape = self._shape(proto)
        self._check_size(proto, size, prod(shape) * dtype.itemsize)
        return source.read_tensor(start, dtype, shape, device)

    def array(self, proto: TensorProto) -> Array:
        """The elements as a NumPy array; text as an array of objects, numbers as `whit.onnx.types` says."""
        shape = self._shape(proto)
        if proto.data_type == types.STRING:
            return self._text(proto, shape)
        raw = self._raw(proto)
        if raw is None:
            return standing_for(self._typed(proto, shape), proto.data_type)
        source, start, size = raw
        return standing_for(self._of_bytes(proto, source, start, size, shape), proto.data_type)

    def dense_shape(self, proto: SparseTensorProto) -> tuple[int, ...]:
        """The shape of a sparse tensor, which is not too large."""
        shape = checked_shape(self._wire.source, proto.values.name, proto.dims)
        if prod(shape) > MOST_SPARSE_ELEMENTS:
            raise self._error(f'the sparse tensor "{proto.values.name}" is too large', f"{shape}")
        return shape

    def dense(self, proto: SparseTensorProto) -> Array:
        """A sparse tensor as a dense array."""
        shape = self.dense_shape(proto)
        values = self.array(proto.values)
        places = self.array(proto.indices).astype(np.int64)
        result = np.zeros(shape, values.dtype)
        limits = np.array(shape if places.ndim == 2 else [prod(shape)])
        if not (len(values) == len(places) and bool(((places >= 0) & (places < limits)).all())):
            raise self._error(f'indices of the sparse tensor "{proto.values.name}" are outside of it', f"{shape}")
        if places.ndim == 2:
            result[tuple(places.T)] = values
        else:
            result.reshape(-1)[places] = values
        return result

    # ---- where the bytes are

    def _raw(self, proto: TensorProto) -> tuple[Source, int, int] | None:
        """Source, first byte and number of bytes of a tensor that is stored as bytes; None: as numbers of protobuf."""
        if proto.data_location == IN_ANOTHER_FILE or (proto.external_data and proto.raw_data is None):
            return self._external(proto)
        if proto.raw_data is None:
            return None
        return self._wire.source, proto.raw_data.start, proto.raw_data.size

    def _external(self, proto: TensorProto) -> tuple[Source, int, int]:
        entries = {pair.key: pair.value for pair in proto.external_data}
        source = self._file(proto, entries.get("location", ""))
        start = self._integer(proto, entries, "offset", 0)
        size = self._integer(proto, entries, "length", -1)
        if size < 0:
            bits = types.BITS.get(proto.data_type) or 8 * np.dtype(numpy_type(proto.data_type) or np.uint8).itemsize
            size = (prod(self._shape(proto)) * bits + 7) // 8
        if start + size > source.size:
            raise self._error(
                f'"{proto.name}" has bytes {start} to {start + size} of {source.name}', f"which has {source.size}"
            )
        return source, start, size

    def _integer(self, proto: TensorProto, entries: Mapping[str, str], key: str, default: int) -> int:
        text = entries.get(key)
        if text is None:
            return default
        if not (text.isascii() and text.isdigit() and len(text) < 19):
            raise self._error(f'the {key} of "{proto.name}" is no number', f"{text!r:.60}")
        return int(text)

    def _file(self, proto: TensorProto, location: str) -> Source:
        """A file beside the model; not one of another folder, and no link to one."""
        if location in self._files:
            return self._files[location]
        if self._folder is None:
            raise ParseError(
                f'{self._wire.source.reader}: "{proto.name}" lies in another file, {location!r:.100}',
                "the model was given as bytes, which have no folder",
                "Load the model by its path.",
            )
        folder = os.path.realpath(self._folder)
        path = os.path.realpath(os.path.join(folder, location)) if "\0" not in location else folder
        if not location or os.path.isabs(location) or os.path.commonpath([folder, path]) != folder or path == folder:
            raise ParseError(
                f'{self._wire.source.reader}: the data of "{proto.name}" lies outside of the model\'s folder',
                f"{location!r:.200}, seen from {folder}",
                "A model reads files of its own folder alone. Put the file there, and its name into the model.",
            )
        found = self._files[location] = open_source(self._wire.source.reader, Path(path))
        return found

    # ---- elements

    def _shape(self, proto: TensorProto) -> tuple[int, ...]:
        if proto.data_type not in types.NAMES:
            raise self._error(f'"{proto.name}" has the unknown type {proto.data_type}', "")
        return checked_shape(self._wire.source, proto.name, proto.dims)

    def _of_bytes(self, proto: TensorProto, source: Source, start: int, size: int, shape: tuple[int, ...]) -> Array:
        bits, count = types.BITS.get(proto.data_type), prod(shape)
        if bits is not None:
            self._check_size(proto, size, (count * bits + 7) // 8)
            return _unpack(np.frombuffer(source.read(start, size), np.uint8), bits, count).reshape(shape)
        dtype = np.dtype(numpy_type(proto.data_type))
        self._check_size(proto, size, count * dtype.itemsize)
        data = source.read(start, size)
        if dtype == np.bool_:
            return np.asarray(np.frombuffer(data, np.uint8) != 0).reshape(shape)
        return np.frombuffer(data, dtype).reshape(shape)

    def _check_size(self, proto: TensorProto, size: int, needed: int) -> None:
        if size != needed:
            raise self._error(
                f'"{proto.name}" has {size} bytes',
                f"{types.name_of(proto.data_type)}{list(proto.dims)} takes {needed}",
            )

    def _typed(self, proto: TensorProto, shape: tuple[int, ...]) -> Array:
        """Numbers in the fields of protobuf that are meant for the type."""
        kind, bits = proto.data_type, types.BITS.get(proto.data_type)
        if kind in (types.FLOAT, types.COMPLEX64):
            values = self._fixed(proto, proto.float_data, np.float32)
        elif kind in (types.DOUBLE, types.COMPLEX128):
            values = self._fixed(proto, proto.double_data, np.float64)
        elif kind == types.INT64:
            values = self._varints(proto.int64_data)
        elif kind in (types.UINT32, types.UINT64):
            values = self._varints(proto.uint64_data).view(np.uint64).astype(numpy_type(kind))
        else:
            values = self._varints(proto.int32_data)
            if bits is not None:  # bytes, each of several numbers
                values = _unpack(values.astype(np.uint8), bits, prod(shape))
            elif kind in (types.INT32, types.INT16, types.INT8, types.UINT16, types.UINT8, types.BOOL):
                values = values.astype(numpy_type(kind))
            else:  # the bits of floats
                dtype = np.dtype(numpy_type(kind))
                values = values.astype(np.uint8 if dtype.itemsize == 1 else np.uint16).view(dtype)
        if kind in (types.COMPLEX64, types.COMPLEX128) and values.size % 2 == 0:
            values = values.view(numpy_type(kind))
        if values.size != prod(shape):
            raise self._error(
                f'"{proto.name}" has {values.size} elements', f"its shape {list(shape)} has {prod(shape)}"
            )
        return values.reshape(shape)

    def _fixed(self, proto: TensorProto, parts: tuple[int | Span, ...], dtype: Any) -> Array:
        width, found = np.dtype(dtype).itemsize, []
        for part in parts:
            if isinstance(part, Span):
                if part.size % width:
                    raise self._error(f'the data of "{proto.name}" is cut off', f"{part.size} bytes")
                found.append(self._wire.source.read(part.start, part.size))
            elif isinstance(part, Fixed) and part < 1 << (8 * width):
                found.append(int(part).to_bytes(width, "little"))
            else:
                raise self._error(f'the data of "{proto.name}" are no floats', "")
        return np.frombuffer(b"".join(found), dtype)

    def _varints(self, parts: tuple[int | Span, ...]) -> Array:
        """All numbers of 64 bits, signed."""
        found = [np.zeros(0, np.int64)]
        single: list[int] = []
        for part in parts:
            if isinstance(part, Span):
                if single:
                    found.append(np.array(single, np.int64))
                    single = []
                found.append(self._packed_varints(part))
            else:
                single.append(signed(int(part)))
        return np.concatenate([*found, np.array(single, np.int64)])

    def _packed_varints(self, span: Span) -> Array:
        data = np.frombuffer(self._wire.source.read(span.start, span.size), np.uint8)
        ends = np.flatnonzero(data < 0x80)
        if (not ends.size and data.size) or (ends.size and ends[-1] != data.size - 1):
            raise self._error("a list of numbers is cut off", f"at byte {span.end}")
        starts = np.concatenate([np.zeros(1, np.int64), ends[:-1] + 1]) if ends.size else ends
        lengths = ends - starts + 1
        if lengths.size and int(lengths.max()) > 10:
            raise self._error("a number has more than 64 bits", f"in the list at byte {span.start}")
        values = np.zeros(ends.size, np.uint64)
        for position in range(int(lengths.max()) if lengths.size else 0):
            has = lengths > position
            bits = (data[starts[has] + position] & 0x7F).astype(np.uint64)
            values[has] |= bits << np.uint64(7 * position)
        return values.view(np.int64)

    def _text(self, proto: TensorProto, shape: tuple[int, ...]) -> Array:
        if len(proto.string_data) != prod(shape):
            raise self._error(
                f'"{proto.name}" has {len(proto.string_data)} texts', f"its shape {list(shape)} has {prod(shape)}"
            )
        result = np.empty(len(proto.string_data), object)
        result[:] = [part.decode("utf-8", "surrogateescape") for part in proto.string_data]
        return result.reshape(shape)

    def _error(self, what: str, details: str) -> ParseError:
        return self._wire.source.error(what, details, CUT_OFF)


def _unpack(data: Array, bits: int, count: int) -> Array:
    """Bytes of several numbers each, the first in the lowest bits -> a number in each byte."""
    each = 8 // bits
    shifts = np.arange(each, dtype=np.uint8) * np.uint8(bits)
    found: Array = (data[:, None] >> shifts) & np.uint8((1 << bits) - 1)
    return found.reshape(-1)[:count]


def standing_for(array: Array, element: int) -> Array:
    """An array of a type of ONNX in the dtype that stands for it here: see `whit.onnx.types`."""
    if element in (types.COMPLEX64, types.COMPLEX128):
        real = np.float32 if element == types.COMPLEX64 else np.float64
        return np.ascontiguousarray(array).view(real).reshape(*array.shape, 2)
    if element in (types.INT4, types.INT2):
        sign = 8 if element == types.INT4 else 2
        return ((array.astype(np.int16) ^ sign) - sign).astype(np.int8)
    if element == types.FLOAT4E2M1:
        return np.array(FLOAT4_VALUES, numpy_type(types.FLOAT8E4M3FN))[array]
    if element == types.FLOAT8E8M0:
        return array.astype(np.float32)
    return array
