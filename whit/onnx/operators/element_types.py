"""Element types of the standard, by their numbers, and the dtypes that whit keeps them in.

Types of 2 and 4 bits are kept in the smallest dtype that holds all their values: int8, uint8, and fp8e4m3 for
float4e2m1. Powers of two without a mantissa (float8e8m0) are float32, because they are scales of a product. What such
a value may be is the node's to know: casts and quantisation round and wrap as the narrow type does.
"""

from __future__ import annotations

from typing import Final

from whit.dtype import DType, dtypes
from whit.errors import NotSupportedError
from whit.records import dataclass


@dataclass(frozen=True)
class ElementType:
    """One type of the standard: its number and name, and what its values are kept in."""

    number: int
    name: str
    dtype: DType | None  # None: strings, on the host
    bits: int = 0  # of integers narrower than their dtype

    @property
    def least(self) -> int:
        """The smallest integer."""
        if self.bits == 0:
            return int(self.dtype.min) if self.dtype is not None else 0
        return 0 if self.name.startswith("u") else -(1 << (self.bits - 1))

    @property
    def most(self) -> int:
        """The largest integer."""
        if self.bits == 0:
            return int(self.dtype.max) if self.dtype is not None else 0
        return (1 << self.bits) - 1 if self.name.startswith("u") else (1 << (self.bits - 1)) - 1


_TYPES: Final = (
    ElementType(1, "float", dtypes.float32),
    ElementType(2, "uint8", dtypes.uint8),
    ElementType(3, "int8", dtypes.int8),
    ElementType(4, "uint16", dtypes.uint16),
    ElementType(5, "int16", dtypes.int16),
    ElementType(6, "int32", dtypes.int32),
    ElementType(7, "int64", dtypes.int64),
    ElementType(8, "string", None),
    ElementType(9, "bool", dtypes.bool),
    ElementType(10, "float16", dtypes.float16),
    ElementType(11, "double", dtypes.float64),
    ElementType(12, "uint32", dtypes.uint32),
    ElementType(13, "uint64", dtypes.uint64),
    ElementType(16, "bfloat16", dtypes.bfloat16),
    ElementType(17, "float8e4m3fn", dtypes.fp8e4m3),
    ElementType(18, "float8e4m3fnuz", dtypes.fp8e4m3fnuz),
    ElementType(19, "float8e5m2", dtypes.fp8e5m2),
    ElementType(20, "float8e5m2fnuz", dtypes.fp8e5m2fnuz),
    ElementType(21, "uint4", dtypes.uint8, 4),
    ElementType(22, "int4", dtypes.int8, 4),
    ElementType(23, "float4e2m1", dtypes.fp8e4m3),
    ElementType(24, "float8e8m0", dtypes.float32),
    ElementType(25, "uint2", dtypes.uint8, 2),
    ElementType(26, "int2", dtypes.int8, 2),
)
ELEMENT_TYPES: Final = {record.number: record for record in _TYPES}
STRING: Final = 8
FLOAT4E2M1: Final = 23
FLOAT8E8M0: Final = 24
_OF_DTYPE: Final = {
    record.dtype: record for record in reversed(_TYPES) if record.bits == 0 and record.number < FLOAT4E2M1
}


def element_type(number: int) -> ElementType:
    """The type with a number; complex ones and numbers that nobody knows are an error."""
    if number in ELEMENT_TYPES:
        return ELEMENT_TYPES[number]
    what = {14: "complex64", 15: "complex128"}.get(number, f"number {number}")
    raise NotSupportedError(
        f"onnx: element type {what}", "", "Write complex numbers as pairs on a last axis of size 2."
    )


def element_type_of(dtype: DType, declared: int = 0) -> ElementType:
    """The type of a tensor: the declared one where it is known, or the plain one of its dtype."""
    return element_type(declared) if declared else _OF_DTYPE[dtype]


def dtype_of(number: int) -> DType:
    """What a type is kept in; strings are an error."""
    dtype = element_type(number).dtype
    if dtype is None:
        raise NotSupportedError("onnx: strings are not on a device", "", "Give a type of numbers.")
    return dtype
