"""Memory shared with other libraries: DLPack both ways, and objects with the buffer protocol.

Nothing is copied where elements lie row-major and aligned. Memory that came in is never written. Memory that went out
counts as shared: a tensor that is assigned to gets memory of its own first, and what went out does not change.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from math import prod
from typing import Any

from whit.dtype import DType, dtypes
from whit.engine.compile.compile import helper_object
from whit.engine.devices.device import canonicalize
from whit.engine.devices.disk import allocate
from whit.engine.memory.storage import attach, concrete_shape, from_bytes, own_copy, storage
from whit.errors import ArgumentError, DTypeError
from whit.ir.uop import UOp
from whit.records import replace
from whit.runtime import dlpack
from whit.runtime.buffer import Buffer, has_memory, is_on_host

# DLDataTypeCode -> what it is; the names are those of whit's dtypes, without the size where the code has none
_CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "complex": 5, "bool": 6}
_SMALL = {"fp8e4m3": 10, "fp8e4m3fnuz": 11, "fp8e5m2": 12, "fp8e5m2fnuz": 13}


@functools.cache
def _kinds() -> dict[DType, tuple[int, int]]:
    """Each dtype as code and bits."""
    kinds = {}
    for dtype in dtypes.all:
        if dtype.name in _SMALL:
            kinds[dtype] = (_SMALL[dtype.name], 8)
        elif dtype is dtypes.bfloat16:
            kinds[dtype] = (_CODES["bfloat"], 16)
        else:
            kinds[dtype] = (_CODES[dtype.kind], 8 * dtype.itemsize)
    return kinds


def export_buffer(node: UOp, *, copy: bool, versioned: bool, stream: int | None = None) -> Any:
    """A DLPack capsule with the elements of a BUFFER. `stream` is that of the consumer, on a GPU."""
    shape, memory = concrete_shape(node.shape), storage(node)
    if not has_memory(memory.device):
        raise BufferError(f"__dlpack__: {memory.device} has no data")
    if copy:
        shown = allocate(memory.device, memory.nbytes)
        shown.copy_from(memory)
    else:
        shown = memory.view(0, memory.nbytes)  # counts as shared
    flags = dlpack.IS_COPIED if copy else dlpack.READ_ONLY
    address = shown.address if shown.nbytes else 0
    kind, owner, device = _kinds()[node.dtype], shown, dlpack.HOST
    if not is_on_host(memory.device):
        owner, device = _gpus().lend(shown, stream)
    return dlpack.export(_native_code(), address, shape, kind, owner, flags, versioned, device)


def _gpus() -> Any:
    from whit.engine.devices import cuda_exchange  # lazy: loads the driver

    return cuda_exchange


@functools.cache
def _native_code() -> bytes:
    """The machine code of the deleters."""
    return helper_object("dlpack", dlpack.native_object)


def import_dlpack(producer: Any, device: str | None, copy: bool = False) -> UOp:
    """A BUFFER over the array of an object that has `__dlpack__`, or over a copy of one that others can write to."""
    taken, is_in_order = _take(producer)
    node = _import(taken, device, is_in_order)
    return node if taken.is_read_only or not copy else own_copy(node)


def _take(producer: Any) -> tuple[dlpack.Taken, bool]:
    """The array of a producer, or of a capsule; and whether it knows the stream on which it is used."""
    capsule, is_in_order = _capsule_of(producer)
    return dlpack.take(capsule), is_in_order


def _import(taken: dlpack.Taken, device: str | None, is_in_order: bool) -> UOp:
    dtype = next((dtype for dtype, kind in _kinds().items() if kind == (taken.code, taken.bits)), None)
    if dtype is None:
        what = f"elements of code {taken.code} with {taken.bits} bits"
        raise DTypeError(f"from_dlpack: there is no dtype for {what}", fix="Convert the array first.")
    if taken.gpu is not None:
        return _import_from_gpu(taken, dtype, device, is_in_order)
    name, nbytes = canonicalize(device), prod(taken.shape) * dtype.itemsize
    if not nbytes or not has_memory(name):
        return attach(allocate(name, nbytes), dtype, taken.shape)
    if is_on_host(name) and _is_row_major(taken) and taken.address % dtype.itemsize == 0:
        owner = taken.owner
        return attach(Buffer.at_address(name, taken.address, nbytes, owner=owner, writable=False), dtype, taken.shape)
    return from_bytes(_gathered(taken, dtype), dtype, taken.shape, name)


def _import_from_gpu(taken: dlpack.Taken, dtype: DType, device: str | None, is_in_order: bool) -> UOp:
    """The same for an array on a GPU, which stays there unless another device is asked for."""
    there, nbytes = canonicalize(f"CUDA:{taken.gpu}"), prod(taken.shape) * dtype.itemsize
    name = there if device is None else canonicalize(device)
    if not nbytes or not has_memory(name):
        return attach(allocate(name, nbytes), dtype, taken.shape)
    low, high = _reach(taken, dtype)
    memory = _gpus().borrow(there, taken.address + low, high - low, taken.owner, is_in_order)
    if not _is_row_major(taken) or taken.address % dtype.itemsize:
        host = memory.fetched()
        elements = _gathered(replace(taken, address=host.address - low), dtype)
        return from_bytes(elements, dtype, taken.shape, name)
    if name != there:
        copied = allocate(name, nbytes)
        copied.copy_from(memory)
        memory = copied
    return attach(memory, dtype, taken.shape)


def _capsule_of(producer: Any) -> tuple[Any, bool]:
    """The capsule, and whether the producer was told on which stream of a GPU its array is used."""
    if type(producer).__name__ == "PyCapsule":
        return producer, False
    if not hasattr(producer, "__dlpack__"):
        raise ArgumentError(f"from_dlpack: a {type(producer).__name__} has no __dlpack__", fix="Give an array.")
    kind, number = _asked(producer, getattr(producer, "__dlpack_device__", lambda: dlpack.HOST))
    order = {"stream": _gpus().stream_of(number)} if kind in dlpack.GPU_KINDS else {}

    def ask() -> Any:
        try:
            return producer.__dlpack__(max_version=dlpack.VERSION, **order)
        except TypeError:
            return producer.__dlpack__(**order)  # from before version 1

    return _asked(producer, ask), True


def _asked(producer: Any, ask: Callable[[], Any]) -> Any:
    """What a producer answers."""
    try:
        return ask()
    except (BufferError, RuntimeError, TypeError, ValueError, AttributeError) as error:
        raise ArgumentError(
            f"from_dlpack: the {type(producer).__name__} cannot be shared", f"{error}", "Copy or detach it first."
        ) from error


def _is_row_major(taken: dlpack.Taken) -> bool:
    expected = 1
    for size, stride in zip(reversed(taken.shape), reversed(taken.strides), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def _reach(taken: dlpack.Taken, dtype: DType) -> tuple[int, int]:
    """The bytes that an array with elements has, from its address on: the first, and the one after the last."""
    reach = [(size - 1) * stride * dtype.itemsize for size, stride in zip(taken.shape, taken.strides, strict=True)]
    return sum(step for step in reach if step < 0), sum(step for step in reach if step > 0) + dtype.itemsize


def _gathered(taken: dlpack.Taken, dtype: DType) -> bytes:
    """The elements of an array with gaps, copied one behind the other."""
    import ctypes  # lazy: with NumPy, which only this needs

    import numpy as np  # lazy: `import whit` must not load it

    low, high = _reach(taken, dtype)
    memory: Any = (ctypes.c_char * (high - low)).from_address(taken.address + low)
    strides = tuple(stride * dtype.itemsize for stride in taken.strides)
    raw = np.ndarray(taken.shape, np.dtype(f"V{dtype.itemsize}"), memory, -low, strides)
    return raw.tobytes()


def from_memory(memory: Any, dtype: DType, shape: tuple[int, ...], device: str | None) -> UOp:
    """A BUFFER over the memory of an object with the buffer protocol; a copy where it has gaps or is not aligned."""
    name, view = canonicalize(device), memoryview(memory)
    if not view.nbytes or not has_memory(name):
        return attach(allocate(name, view.nbytes), dtype, shape)
    if not view.c_contiguous:
        return from_bytes(view.tobytes(), dtype, shape, name)
    if not is_on_host(name):
        return from_bytes(Buffer.wrap("CPU", view).memory(), dtype, shape, name)
    buffer = Buffer.wrap(name, view)
    if buffer.address % dtype.itemsize:
        return from_bytes(view, dtype, shape, name)
    return attach(buffer, dtype, shape)


def from_address(address: int, dtype: DType, shape: tuple[int, ...], device: str | None) -> UOp:
    """A BUFFER over memory that the caller keeps alive."""
    name = canonicalize(device)
    nbytes = prod(shape) * dtype.itemsize
    if not nbytes or not has_memory(name):
        return attach(allocate(name, nbytes), dtype, shape)
    if not is_on_host(name) and not _gpus().is_on_device(name, address):
        raise ArgumentError(
            f"from_blob: {name} cannot use memory of the machine", fix='Give device="CPU", and move it.'
        )
    if address % dtype.itemsize:
        raise ArgumentError(
            f"from_blob: {address:#x} is not aligned for {dtype.name}",
            fix=f"Give an address that is a multiple of {dtype.itemsize}.",
        )
    if not is_on_host(name):
        return attach(_gpus().borrow(name, address, nbytes, None, False), dtype, shape)
    return attach(Buffer.at_address(name, address, nbytes, writable=False), dtype, shape)


def shared_memory(node: UOp) -> memoryview:
    """The bytes of a BUFFER, read-only and not copied; while somebody holds them they do not change."""
    memory, used = storage(node), prod(concrete_shape(node.shape)) * node.dtype.itemsize
    return memory.view(0, used).memory().toreadonly()
