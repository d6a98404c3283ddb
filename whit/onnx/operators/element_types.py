"""What operators ask of element types: by their numbers, with an error for those that no operator computes with.

What such a value may be is the node's to know: casts and quantisation round and wrap as the narrow type does. The table
is `whit.onnx.types.ELEMENT_TYPES`.
"""

from __future__ import annotations

from typing import Final

from whit.dtype import DType
from whit.errors import NotSupportedError
from whit.onnx.types import (
    COMPLEX64,
    COMPLEX128,
    DTYPES,
    ELEMENT_TYPES,
    FLOAT4E2M1,
    FLOAT8E8M0,
    STRING,
    ElementType,
    name_of,
)

__all__ = ["FLOAT4E2M1", "FLOAT8E8M0", "STRING", "ElementType", "dtype_of", "element_type", "element_type_of"]

_OF_DTYPE: Final = {dtype: ELEMENT_TYPES[number] for number, dtype in DTYPES.items()}


def element_type(number: int) -> ElementType:
    """The type with a number; complex ones and numbers that nobody knows are an error."""
    found = ELEMENT_TYPES.get(number)
    if found is None or number in (COMPLEX64, COMPLEX128):
        raise NotSupportedError(
            f"onnx: element type {name_of(number)}", "", "Write complex numbers as pairs on a last axis of size 2."
        )
    return found


def element_type_of(dtype: DType, declared: int = 0) -> ElementType:
    """The type of a tensor: the declared one where it is known, or the plain one of its dtype."""
    return element_type(declared) if declared else _OF_DTYPE[dtype]


def dtype_of(number: int) -> DType:
    """What a type is kept in; strings are an error."""
    dtype = element_type(number).dtype
    if dtype is None:
        raise NotSupportedError("onnx: strings are not on a device", "", "Give a type of numbers.")
    return dtype
