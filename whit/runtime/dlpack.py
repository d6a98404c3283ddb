"""DLPack: arrays of one library used by another without a copy. The records of its ABI, version 1, and its capsules.

    capsule = export(address, shape, "float", 32, owner=buffer, versioned=True)
    taken = take(capsule); taken.address, taken.shape, taken.code, taken.bits

An export lives until the consumer calls the record's deleter, or until a capsule that nobody took dies. Either may come
from any thread, with an exception on its way, or after Python has ended: no place for Python code. So both are machine
code (`_TEXT`): they mark the export and ask Python to look at the marks soon (`sweep`). When Python ends, the deleters
of what is still exported are taken away, and the memory is left to the system.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from whit.errors import ArgumentError, NotSupportedError
from whit.runtime.code.library import Library
from whit.runtime.code.link import load_object
from whit.target import host_target

CPU, CUDA = 1, 2  # DLDeviceType: memory of the host, and of a GPU
HOST = (CPU, 0)
HOST_KINDS = {CPU: "CPU", 3: "CUDA, in host memory", 11: "ROCm, in host memory"}
GPU_KINDS = {CUDA: "CUDA", 13: "CUDA, managed by the driver"}
DEVICE_NAMES = {4: "OpenCL", 7: "Vulkan", 8: "Metal", 10: "ROCm", 14: "oneAPI", 15: "WebGPU"}
VERSION = (1, 0)
READ_ONLY, IS_COPIED = 1, 2  # flags
PLAIN, VERSIONED = ctypes.create_string_buffer(b"dltensor"), ctypes.create_string_buffer(b"dltensor_versioned")
USED_PLAIN, USED_VERSIONED = (
    ctypes.create_string_buffer(b"used_dltensor"),
    ctypes.create_string_buffer(b"used_dltensor_versioned"),
)


class Array(ctypes.Structure):
    """DLTensor. Strides count elements; none means row-major."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    )


class Managed(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = (("array", Array), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class ManagedVersioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("array", Array),
    )


class Mark(ctypes.Structure):
    """What machine code sets when an export is no longer needed, and whom it tells."""

    _fields_ = (("released", ctypes.c_int64), ("tell", ctypes.c_void_p))


_TEXT = f"""
target triple = "{{triple}}"
@plain = private constant [9 x i8] c"dltensor\\00"
@versioned = private constant [19 x i8] c"dltensor_versioned\\00"
declare i32 @PyCapsule_IsValid(ptr, ptr)
declare ptr @PyCapsule_GetContext(ptr)
declare i32 @Py_AddPendingCall(ptr, ptr)

define internal void @release(ptr %mark) nounwind {{{{
  store atomic i64 1, ptr %mark release, align 8
  %at = getelementptr i8, ptr %mark, i64 8
  %tell = load ptr, ptr %at, align 8
  %is_ending = icmp eq ptr %tell, null
  br i1 %is_ending, label %done, label %call
call:
  %ignored = call i32 @Py_AddPendingCall(ptr %tell, ptr null)
  br label %done
done:
  ret void
}}}}

define void @delete_plain(ptr %managed) nounwind {{{{
  %at = getelementptr i8, ptr %managed, i64 {Managed.context.offset}
  %mark = load ptr, ptr %at, align 8
  call void @release(ptr %mark)
  ret void
}}}}

define void @delete_versioned(ptr %managed) nounwind {{{{
  %at = getelementptr i8, ptr %managed, i64 {ManagedVersioned.context.offset}
  %mark = load ptr, ptr %at, align 8
  call void @release(ptr %mark)
  ret void
}}}}

define void @destroy_capsule(ptr %capsule) nounwind {{{{
  %is_plain = call i32 @PyCapsule_IsValid(ptr %capsule, ptr @plain)
  %is_versioned = call i32 @PyCapsule_IsValid(ptr %capsule, ptr @versioned)
  %either = or i32 %is_plain, %is_versioned
  %was_taken = icmp eq i32 %either, 0
  br i1 %was_taken, label %done, label %drop
drop:
  %mark = call ptr @PyCapsule_GetContext(ptr %capsule)
  call void @release(ptr %mark)
  br label %done
done:
  ret void
}}}}
"""


def native_object() -> bytes:
    """The machine code of the deleters."""
    from whit.runtime.code.llvm import compile_llvm  # lazy: loads LLVM

    return compile_llvm(_TEXT.format(triple=host_target().triple), host_target())


@functools.cache
def load_native(code: bytes) -> Library:
    """The deleters in this process, for good: a consumer may call them at any time."""
    library = load_object(code, frozenset({"PyCapsule_IsValid", "PyCapsule_GetContext", "Py_AddPendingCall"}))
    for thing in (library, _tell, PLAIN, VERSIONED, USED_PLAIN, USED_VERSIONED):
        _keep_forever(thing)
    atexit.register(_end)
    return library


def _keep_forever(thing: Any) -> None:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


_capsule_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
_set_context = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(
    ("PyCapsule_SetContext", ctypes.pythonapi)
)
_set_name = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(("PyCapsule_SetName", ctypes.pythonapi))
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


# ---- out


class Export:
    """Everything that a record points to, and the owner of the elements."""

    __slots__ = ("mark", "owner", "record", "shape", "strides")

    def __init__(self, record: Managed | ManagedVersioned, shape: tuple[int, ...], owner: Any) -> None:
        steps = [1] * len(shape)
        for axis in range(len(shape) - 2, -1, -1):
            steps[axis] = steps[axis + 1] * max(shape[axis + 1], 1)
        numbers = ctypes.c_int64 * max(len(shape), 1)
        self.record = record
        self.shape = numbers(*shape)
        self.strides = numbers(*steps)
        self.mark = Mark(0, ctypes.cast(_tell, ctypes.c_void_p).value)
        self.owner = owner


_exports: dict[int, Export] = {}
_is_ending = False


def export(
    code: bytes,
    address: int,
    shape: tuple[int, ...],
    kind: tuple[int, int],
    owner: Any,
    flags: int,
    versioned: bool,
    device: tuple[int, int] = HOST,
) -> Any:
    """A capsule with an array that somebody else may use; `owner` lives as long as they do. `code` is what
    `native_object` gave, `kind` the code and the bits of the elements, `device` the kind and number of the device."""
    library = load_native(code)
    sweep()
    record: Any = ManagedVersioned() if versioned else Managed()
    result = Export(record, shape, owner)
    record.context = ctypes.addressof(result.mark)
    record.deleter = None if _is_ending else library.address("delete_versioned" if versioned else "delete_plain")
    if versioned:
        record.major, record.minor = VERSION
        record.flags = flags
    array = record.array
    array.data, array.ndim = address, len(shape)
    array.device, array.device_id = device
    array.code, array.bits, array.lanes = *kind, 1
    array.shape, array.strides = result.shape, result.strides
    place = ctypes.addressof(record)
    _exports[place] = result
    name = ctypes.addressof(VERSIONED if versioned else PLAIN)
    capsule = _capsule_new(place, name, library.address("destroy_capsule"))
    _set_context(capsule, ctypes.addressof(result.mark))
    return capsule


def sweep() -> None:
    """Lets go of what consumers have released."""
    for place in [place for place, found in list(_exports.items()) if found.mark.released]:
        _exports.pop(place, None)


def exported() -> int:
    """How many arrays are in use by others."""
    sweep()
    return len(_exports)


def _sweep_soon(_: int | None) -> int:
    sweep()
    return 0


_tell = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(_sweep_soon)


def _end() -> None:
    """Python ends, and consumers may outlive it: nothing of ours is called or freed from here on."""
    global _is_ending  # noqa: PLW0603  Python ends once
    _is_ending = True
    sweep()
    for found in _exports.values():
        found.record.deleter = None
        found.mark.tell = None
        _keep_forever(found)


# ---- in


@dataclass(frozen=True, slots=True)
class Taken:
    """An array of somebody else."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in elements
    code: int
    bits: int
    owner: Owner  # keeps the elements
    gpu: int | None  # the number of the GPU it is on; None: the host
    is_read_only: bool  # the producer promises that it does not change


class Owner:
    """Tells the producer, once, that its array is no longer needed."""

    __slots__ = ("_delete", "_place")

    def __init__(self, place: int, deleter: int | None) -> None:
        self._place = place
        self._delete: Callable[[int], None] | None = (
            ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(deleter) if deleter else None
        )

    def __del__(self) -> None:
        if self._delete is not None:
            self._delete(self._place)


def take(capsule: Any) -> Taken:
    """The array in a capsule, which is used up by this."""
    for name, used, kind in ((VERSIONED, USED_VERSIONED, ManagedVersioned), (PLAIN, USED_PLAIN, Managed)):
        if _is_valid(capsule, ctypes.addressof(name)):
            place = _pointer(capsule, ctypes.addressof(name))
            record: Any = kind.from_address(place)
            _keep_name(used)
            _set_name(capsule, ctypes.addressof(used))
            return _taken(record, Owner(place, record.deleter))
    raise ArgumentError(
        "from_dlpack: this is no capsule with an array", f"{capsule!r:.80}", "A capsule can be used once. Make another."
    )


@functools.cache
def _kept_names() -> set[int]:
    return set()


def _keep_name(name: Any) -> None:
    """The capsule keeps the pointer and may outlive this module."""
    if id(name) not in _kept_names():
        _kept_names().add(id(name))
        _keep_forever(name)


def _taken(record: Any, owner: Owner) -> Taken:
    if isinstance(record, ManagedVersioned) and record.major > VERSION[0]:
        raise NotSupportedError(
            f"from_dlpack: the array is in version {record.major}.{record.minor} of DLPack",
            fix=f"whit reads version {VERSION[0]}. Ask for it with max_version={VERSION}.",
        )
    array = record.array
    if array.device not in HOST_KINDS and array.device not in GPU_KINDS:
        where = DEVICE_NAMES.get(array.device, f"a device of kind {array.device}")
        raise NotSupportedError(f"from_dlpack: the array is on {where}", fix="Copy it to the host first.")
    if array.lanes != 1:
        raise NotSupportedError(f"from_dlpack: elements of {array.lanes} lanes", fix="Give one number an element.")
    shape = tuple(array.shape[i] for i in range(array.ndim))
    strides = [1] * array.ndim
    for axis in range(array.ndim - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    if array.strides:
        strides = [array.strides[i] for i in range(array.ndim)]
    address = (array.data or 0) + array.offset
    gpu = array.device_id if array.device in GPU_KINDS else None
    is_read_only = isinstance(record, ManagedVersioned) and bool(record.flags & READ_ONLY)
    return Taken(address, shape, tuple(strides), array.code, array.bits, owner, gpu, is_read_only)
