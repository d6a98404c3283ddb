"""Types of ONNX: their numbers in files, and what stands for them here.

    dtype_of(1)                 dtypes.float32
    of_type_proto(proto)        ValueType("tensor", 1, ("batch", 3, 224, 224))

Narrow numbers that no kernel computes with are kept in wider ones: int4 and int2 in int8, uint4 and uint2 in uint8,
float4e2m1 in fp8e4m3, float8e8m0 in float32. A complex number is a pair, the last axis of a tensor of floats. Text
stays on the host, in NumPy arrays of objects.
"""

from __future__ import annotations

from typing import Final

from whit.dtype import DType, dtypes
from whit.onnx.proto import TypeProto
from whit.records import dataclass

FLOAT, UINT8, INT8, UINT16, INT16, INT32, INT64, STRING, BOOL, FLOAT16, DOUBLE = range(1, 12)
UINT32, UINT64, COMPLEX64, COMPLEX128, BFLOAT16 = range(12, 17)
FLOAT8E4M3FN, FLOAT8E4M3FNUZ, FLOAT8E5M2, FLOAT8E5M2FNUZ = range(17, 21)
UINT4, INT4, FLOAT4E2M1, FLOAT8E8M0, UINT2, INT2 = range(21, 27)


@dataclass(frozen=True, slots=True)
class ElementType:
    """One type of the standard: its number and name, and what its values are kept in."""

    number: int
    name: str
    dtype: DType | None  # None: text, on the host
    bits: int = 0  # of what is packed into bytes in files
    is_own: bool = True  # whether `dtype` is the same type, and no wider one

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


_OWN: Final[dict[int, DType]] = {
    FLOAT: dtypes.float32,
    UINT8: dtypes.uint8,
    INT8: dtypes.int8,
    UINT16: dtypes.uint16,
    INT16: dtypes.int16,
    INT32: dtypes.int32,
    INT64: dtypes.int64,
    BOOL: dtypes.bool,
    FLOAT16: dtypes.float16,
    DOUBLE: dtypes.float64,
    UINT32: dtypes.uint32,
    UINT64: dtypes.uint64,
    BFLOAT16: dtypes.bfloat16,
    FLOAT8E4M3FN: dtypes.fp8e4m3,
    FLOAT8E4M3FNUZ: dtypes.fp8e4m3fnuz,
    FLOAT8E5M2: dtypes.fp8e5m2,
    FLOAT8E5M2FNUZ: dtypes.fp8e5m2fnuz,
}
ELEMENT_TYPES: Final[dict[int, ElementType]] = {
    **{number: ElementType(number, dtype.name, dtype) for number, dtype in _OWN.items()},
    STRING: ElementType(STRING, "string", None),
    COMPLEX64: ElementType(COMPLEX64, "complex64", dtypes.float32, is_own=False),
    COMPLEX128: ElementType(COMPLEX128, "complex128", dtypes.float64, is_own=False),
    UINT4: ElementType(UINT4, "uint4", dtypes.uint8, 4, is_own=False),
    INT4: ElementType(INT4, "int4", dtypes.int8, 4, is_own=False),
    UINT2: ElementType(UINT2, "uint2", dtypes.uint8, 2, is_own=False),
    INT2: ElementType(INT2, "int2", dtypes.int8, 2, is_own=False),
    FLOAT4E2M1: ElementType(FLOAT4E2M1, "float4e2m1", dtypes.fp8e4m3, 4, is_own=False),
    FLOAT8E8M0: ElementType(FLOAT8E8M0, "float8e8m0", dtypes.float32, is_own=False),
}
DTYPES: Final = {n: each.dtype for n, each in ELEMENT_TYPES.items() if each.is_own and each.dtype is not None}
STANDS_FOR: Final = {n: each.dtype for n, each in ELEMENT_TYPES.items() if not each.is_own and each.dtype is not None}
NAMES: Final = {number: each.name for number, each in ELEMENT_TYPES.items()}
BITS: Final = {number: each.bits for number, each in ELEMENT_TYPES.items() if each.bits}

Size = int | str | None  # a number, a name, or nothing is known


@dataclass(frozen=True, slots=True)
class ValueType:
    """What a value is. `element` is a number of a type, of a map that of its keys; `shape` None where nothing is
    known; `inner` is what a sequence, an optional or a map is of."""

    kind: str  # "tensor" "sequence" "optional" "map" "unknown"
    element: int = 0
    shape: tuple[Size, ...] | None = None
    inner: ValueType | None = None

    @property
    def dtype(self) -> DType | None:
        """The dtype of a tensor here; None of text, and of what is no tensor."""
        return dtype_of(self.element) if self.kind == "tensor" else None

    @property
    def is_complex(self) -> bool:
        """Whether the last axis here is real and imaginary part."""
        return self.element in (COMPLEX64, COMPLEX128)

    def __str__(self) -> str:
        if self.kind == "tensor":
            name = NAMES.get(self.element, "?")
            return name if self.shape is None else f"{name}[{', '.join(map(_spell, self.shape))}]"
        if self.kind == "map":
            return f"map({NAMES.get(self.element, '?')}: {self.inner})"
        return self.kind if self.inner is None else f"{self.kind}({self.inner})"


UNKNOWN: Final = ValueType("unknown")


def dtype_of(element: int) -> DType | None:
    """The dtype that stands for a type; None for text and unknown numbers."""
    found = ELEMENT_TYPES.get(element)
    return None if found is None else found.dtype


def name_of(element: int) -> str:
    """The name of a type, for messages."""
    return NAMES.get(element, f"type {element}")


def of_type_proto(proto: TypeProto | None) -> ValueType:
    """A type as a file says it."""
    if proto is None:
        return UNKNOWN
    tensor = proto.tensor_type or proto.sparse_tensor_type
    if tensor is not None:
        declared = tensor.shape
        shape = None if declared is None else tuple(_size(dim.value, dim.name) for dim in declared.dims)
        return ValueType("tensor", tensor.elem_type, shape)
    if proto.sequence_type is not None:
        return ValueType("sequence", inner=of_type_proto(proto.sequence_type.elem_type))
    if proto.optional_type is not None:
        return ValueType("optional", inner=of_type_proto(proto.optional_type.elem_type))
    if proto.map_type is not None:
        return ValueType("map", proto.map_type.key_type, inner=of_type_proto(proto.map_type.value_type))
    return UNKNOWN


def _size(value: int | None, name: str) -> Size:
    """Exporters write -1 and 0 for what they do not know, too."""
    if name:
        return name
    return value if value is not None and value >= 0 else None


def _spell(size: Size) -> str:
    return "?" if size is None else str(size)
