"""Data in and out: what a tensor is built from, and what realising it gives.

Python scalars become constants. Everything else becomes a buffer: of arrays that NumPy can see without copying them
(arrays, the buffer protocol, DLPack) their own memory, of nested lists a copy. Integers are checked to fit the dtype.

`realize` replaces the graph of a tensor by the buffer that holds its value. `numpy`, `item` and `tolist` compute too,
but keep the graph, so that a gradient can still be taken; what was computed is not computed again.
"""

from __future__ import annotations

import pathlib
import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from whit.dtype import DType, convert, dtypes, encode, resolve_weak, round_float, weak_dtype
from whit.engine.device import canonicalize
from whit.errors import ArgumentError, DTypeError, NotSupportedError, ShapeError
from whit.ir import ops
from whit.ir.op import spell_shape
from whit.ir.uop import UOp, const
from whit.tensor.core import Core, mark_leaf, storable
from whit.tensor.place import here
from whit.tensor.realize import from_bytes, from_numpy, item, new_buffer, realize, to_bytes, to_list, to_numpy

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]


class Data(Core):
    """Building from data, realising, reading."""

    __slots__ = ()

    def __init__(
        self,
        data: Any,
        device: str | None = None,
        dtype: DType | str | None = None,
        requires_grad: bool | None = None,
    ) -> None:
        self._place = here()
        self._wanted = None if device is None else canonicalize(device)
        self.grad = None
        self.requires_grad = requires_grad
        self.uop = node_of(data, None if dtype is None else storable("Tensor", dtype), self._wanted)
        if requires_grad and self.uop.op is ops.CONST:
            self.uop = self.uop.leaf()
        mark_leaf(self)

    # ---- computing

    def realize(self, *lst: Core) -> Self:
        """Computes this tensor and the others together; returns this one."""
        tensors: tuple[Core, ...] = (self, *lst)
        wanted = {tensor._wanted for tensor in tensors if tensor.uop.device is None}
        for device in wanted or {None}:
            batch = [t for t in tensors if t.uop.device is not None or t._wanted == device]
            for tensor, buffer in zip(batch, realize([t.uop for t in batch], device), strict=True):
                tensor.uop = buffer
                mark_leaf(tensor)
        return self

    def _buffer(self) -> UOp:
        """The BUFFER that holds the value, computed if it is not yet."""
        (buffer,) = realize([self.uop], self._wanted)
        return buffer

    def numpy(self) -> Array:
        """The elements as a NumPy array of their own."""
        return to_numpy(self._buffer())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        array = self.numpy()
        return array if dtype is None else array.astype(dtype)

    def data(self) -> memoryview:
        """The elements as a read-only memoryview of their shape; of dtypes that Python does not know, as bytes."""
        buffer = self._buffer()
        raw: Any = memoryview(to_bytes(buffer))
        if self.dtype.fmt is None or self.dtype.fmt == "e" or 0 in self.shape:
            return raw  # type: ignore[no-any-return]
        return raw.cast(self.dtype.fmt, self.shape) if self.shape else raw.cast(self.dtype.fmt)  # type: ignore[no-any-return]

    def item(self) -> Any:
        """The one element as a Python number."""
        if self.numel() != 1:
            raise ShapeError(
                f"item: a tensor of shape {spell_shape(self.shape)} is not one number",
                self._made(),
                "Index or reduce it to one element first, or use tolist().",
            )
        return item(self._buffer())

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers; of shape (), the number."""
        return to_list(self._buffer())

    def __bool__(self) -> bool:
        if self.numel() != 1:
            raise ShapeError(
                f"bool: a tensor of shape {spell_shape(self.shape)} is not one truth value",
                self._made(),
                "Use (x).any() or (x).all(), and & | ~ in place of and, or, not.",
            )
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __index__(self) -> int:
        self._require("index", self.dtype.is_int, "only integers can be used as an index", "Cast it.")
        return int(self.item())

    # ---- the same value elsewhere

    def contiguous(self, **_: Any) -> Self:
        """The same value in memory of its own: whatever uses it reads that."""
        return self if self.uop.op is ops.BUFFER else self._wrap(self.uop.stage())

    def clone(self, device: str | None = None) -> Self:
        """A copy."""
        return self._wrap(self.uop.stage()) if device is None else self.to(device).contiguous()

    def detach(self) -> Self:
        """The same value, where no gradient flows."""
        return self._wrap(self.uop.detach())

    def to(self, device: str | None) -> Self:
        """The same value on another device."""
        name = canonicalize(device)
        if name == self.device:
            return self
        moved = self._wrap(self.uop if self.uop.device is None else self.uop.copy_to(name))
        moved._wanted = name
        return moved

    def to_(self, device: str | None) -> Self:
        """`to`, of this very tensor."""
        moved = self.to(device)
        self.uop, self._wanted = moved.uop, moved._wanted
        return self


# ---- building


def node_of(data: Any, dtype: DType | None, device: str | None) -> UOp:
    """A node with this data."""
    if isinstance(data, bool | int | float):
        wanted = dtype or resolve_weak(weak_dtype(data))
        return const(wanted, _fitting(data, wanted))
    if isinstance(data, Core):
        return data.uop if dtype is None else data.uop.cast(dtype)
    if isinstance(data, UOp):
        node = data.cast(dtypes.default_int) if data.dtype is dtypes.weakint else data
        return node if dtype is None else node.cast(dtype)
    if data is None:
        return new_buffer(dtype or dtypes.default_float, (0,), canonicalize(device))
    if isinstance(data, bytes | bytearray):
        return _from_raw(data, dtype or dtypes.uint8, device)
    if isinstance(data, list | tuple):
        return _from_list(data, dtype, device)
    if isinstance(data, pathlib.Path):
        raise NotSupportedError("Tensor: files are not tensors yet", f"{data}", "Read the file, and pass its bytes.")
    return _from_array(data, dtype, device)


def _fitting(value: Any, dtype: DType) -> Any:
    """A Python number as one of the dtype. Integers must fit; floats are rounded, and cast to integers."""
    if type(value) is int and dtype.is_int and not dtype.min <= value <= dtype.max:
        raise DTypeError(
            f"Tensor: {value} is outside {dtype.name}",
            f"{dtype.name} holds {dtype.min} to {dtype.max}",
            "Use a wider dtype.",
        )
    return convert(dtype, value)


def _from_raw(data: bytes | bytearray, dtype: DType, device: str | None) -> UOp:
    """Bytes are the elements themselves."""
    count, rest = divmod(len(data), dtype.itemsize)
    if rest:
        raise ShapeError(
            f"Tensor: {len(data)} bytes are no whole number of {dtype.name}", fix=f"One takes {dtype.itemsize} bytes."
        )
    return from_bytes(data, dtype, (count,), device)


def _from_array(data: Any, dtype: DType | None, device: str | None) -> UOp:
    import numpy as np  # lazy: `import whit` must not load it

    try:
        if isinstance(data, np.ndarray | np.generic):
            array = np.asarray(data)
        elif hasattr(data, "__dlpack__"):
            array = np.from_dlpack(data)
        else:
            array = np.asarray(data)
    except (TypeError, ValueError, BufferError) as error:
        raise ArgumentError(f"Tensor: cannot read a {type(data).__name__}", str(error), _ACCEPTED) from error
    if array.dtype == object or array.dtype.kind in "SUMm":
        raise ArgumentError(f"Tensor: cannot build a tensor of {data!r:.80}, a {type(data).__name__}", fix=_ACCEPTED)
    node = from_numpy(array, device)
    return node if dtype is None else node.cast(dtype)


_ACCEPTED = "Give a number, a nested list of numbers, bytes, or an array."


def _from_list(data: list[Any] | tuple[Any, ...], dtype: DType | None, device: str | None) -> UOp:
    shape = _shape_of(data)
    elements = [_element(value) for value in _elements(data, len(shape))]
    wanted = dtype or (resolve_weak(_join_of(elements)) if elements else dtypes.default_float)
    return from_bytes(_packed(elements, wanted), wanted, shape, device)


def _packed(elements: list[Any], dtype: DType) -> bytes:
    """Python numbers as the bytes of a dtype. NumPy is not needed for that, and not loaded."""
    if dtype.is_float:
        values = [convert(dtype, v) if type(v) is int else v for v in elements]
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
    if isinstance(value, bool | int | float):
        return value if type(value) in (bool, int, float) else float(value) if isinstance(value, float) else int(value)
    if isinstance(value, list | tuple):
        raise ShapeError("Tensor: a list stands where a number was expected", fix="Nest all lists equally deep.")
    if hasattr(value, "item"):
        return _element(value.item())
    raise ArgumentError(f"Tensor: cannot build a tensor of {value!r}, a {type(value).__name__}", fix=_ACCEPTED)
