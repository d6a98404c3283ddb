"""Dtypes of the standard, and what can be asked of them."""

from __future__ import annotations

import builtins
from functools import reduce
from typing import Any, Final

from whit.dtype import (
    DType,
    DTypeLike,
    can_lossless_cast,
    dtypes,
    least_upper_dtype,
    part_dtype,
    resolve_weak,
    to_dtype,
    weak_dtype,
)
from whit.errors import ArgumentError, DTypeError
from whit.numpy.operands import NUMBERS, tensor_of
from whit.records import dataclass
from whit.tensor import Tensor

__all__ = [
    "astype",
    "bfloat16",
    "bool",
    "can_cast",
    "complex64",
    "complex128",
    "finfo",
    "float16",
    "float32",
    "float64",
    "iinfo",
    "int8",
    "int16",
    "int32",
    "int64",
    "isdtype",
    "result_type",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]

bool = dtypes.bool_
int8 = dtypes.int8
int16 = dtypes.int16
int32 = dtypes.int32
int64 = dtypes.int64
uint8 = dtypes.uint8
uint16 = dtypes.uint16
uint32 = dtypes.uint32
uint64 = dtypes.uint64
float16 = dtypes.float16
bfloat16 = dtypes.bfloat16
float32 = dtypes.float32
float64 = dtypes.float64
complex64 = dtypes.complex64
complex128 = dtypes.complex128


_KINDS: Final[dict[str, tuple[DType, ...]]] = {
    "bool": (dtypes.bool_,),
    "signed integer": dtypes.sints,
    "unsigned integer": dtypes.uints,
    "integral": dtypes.ints,
    "real floating": dtypes.floats,
    "complex floating": dtypes.complexes,
    "numeric": (*dtypes.ints, *dtypes.floats, *dtypes.complexes),
}
STANDARD: Final[tuple[DType, ...]] = (dtypes.bool_, *dtypes.sints, *dtypes.uints, float32, float64, *dtypes.complexes)


@dataclass(frozen=True, slots=True)
class finfo_object:  # noqa: N801  # the standard's name
    """The limits of a float dtype, as Python numbers; of a complex one those of its parts."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclass(frozen=True, slots=True)
class iinfo_object:  # noqa: N801  # the standard's name
    """The limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: DType


def dtype_of(given: Any) -> DType:
    """The dtype of an array, or a dtype or its name."""
    return given.dtype if isinstance(given, Tensor) else to_dtype(given)


def finfo(type: Any, /) -> finfo_object:
    """The limits of a float dtype, or of that of an array."""
    dtype = part_dtype(dtype_of(type))
    if not dtype.is_float:
        raise DTypeError(f"finfo: {dtype.name} is no float dtype", fix="Use iinfo() of integers.")
    return finfo_object(
        bits=dtype.bitsize,
        eps=2.0**-dtype.mantissa_bits,
        max=dtype.largest,
        min=-dtype.largest,
        smallest_normal=2.0 ** (1 - dtype.bias),
        dtype=dtype,
    )


def iinfo(type: Any, /) -> iinfo_object:
    """The limits of an integer dtype, or of that of an array."""
    dtype = dtype_of(type)
    if not dtype.is_int:
        raise DTypeError(f"iinfo: {dtype.name} is no integer dtype", fix="Use finfo() of floats.")
    return iinfo_object(bits=dtype.bitsize, max=dtype.max, min=dtype.min, dtype=dtype)


def isdtype(dtype: DTypeLike, kind: Any) -> builtins.bool:
    """Whether a dtype is of a kind ("bool", "integral", "real floating" ...), is a dtype, or is one of several."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, each) for each in kind)
    found = to_dtype(dtype)
    if isinstance(kind, str):
        if kind not in _KINDS:
            raise ArgumentError(f"isdtype: there is no kind {kind!r}", fix=f"Use one of {', '.join(_KINDS)}.")
        return found in _KINDS[kind]
    return found is to_dtype(kind)


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype that arrays, dtypes and Python numbers meet in; numbers are weak."""
    if not arrays_and_dtypes:
        raise ArgumentError("result_type: nothing is given", fix="Give arrays, dtypes or numbers.")
    parts = [weak_dtype(each) if isinstance(each, NUMBERS) else dtype_of(each) for each in arrays_and_dtypes]
    return resolve_weak(reduce(least_upper_dtype, parts))


def can_cast(from_: Any, to: DTypeLike, /) -> builtins.bool:
    """Whether promotion leads from a dtype, or that of an array, to another one without losing values."""
    return can_lossless_cast(dtype_of(from_), to_dtype(to))


def astype(x: Any, dtype: DTypeLike, /, *, copy: builtins.bool = True, device: str | None = None) -> Tensor:
    """The elements in another dtype. Without `copy`, the array itself where it has that dtype."""
    given = tensor_of(x)
    moved = given if device is None else given.to(device)
    wanted = to_dtype(dtype)
    if given.dtype.is_complex and not wanted.is_complex and wanted is not bool:
        raise DTypeError(
            f"astype: {given.dtype.name} as {wanted.name} would drop the imaginary part",
            fix="Take real(x) or imag(x) first.",
        )
    if moved.dtype is not wanted:
        return moved.cast(wanted)
    return moved.clone() if copy and moved is given else moved
