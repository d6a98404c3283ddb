"""Conversions between element types, also those that no device knows: 2 and 4 bits, powers of two, strings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy

from whit.dtype import DType, dtypes
from whit.onnx.operators.element_types import (
    FLOAT4E2M1,
    FLOAT8E8M0,
    STRING,
    ElementType,
    dtype_of,
    element_type,
    element_type_of,
)
from whit.onnx.operators.registry import ALL, Node, Value, as_tensor, host_array, operator
from whit.tensor import Tensor

# The smallest magnitude that no longer rounds to the largest number of the type, and whether it itself does.
_OVERFLOWS: Final = {
    dtypes.fp8e4m3: (464.0, False),
    dtypes.fp8e5m2: (61440.0, True),
    dtypes.fp8e4m3fnuz: (248.0, True),
    dtypes.fp8e5m2fnuz: (61440.0, True),
}


def to_fp8(x: Tensor, dtype: DType, saturate: bool) -> Tensor:
    """Rounded to the nearest; beyond the range the largest number, or without `saturate` infinity or NaN."""
    wide = x if x.dtype.is_float and x.dtype not in dtypes.fp8s else x.cast(dtypes.float32)
    if saturate:
        return wide.clip(-dtype.largest, dtype.largest).cast(dtype)
    limit, inclusive = _OVERFLOWS[dtype]
    lost = wide.abs() >= limit if inclusive else wide.abs() > limit
    beyond = float("inf") if dtype.has_inf else float("nan")
    return lost.where((wide < 0).where(-beyond, beyond), wide).cast(dtype)


def to_float4(x: Tensor) -> Tensor:
    """Rounded to 0, 0.5, 1, 1.5, 2, 3, 4, 6 with ties to the even one; larger numbers are 6, NaN is 0."""
    wide = x.cast(dtypes.float32)
    size = wide.abs()
    step = (size < 2).where(0.5, (size < 4).where(1.0, 2.0))
    rounded = ((wide / step).round() * step).clip(-6, 6)
    return wide.isnan().where(0, rounded).cast(dtypes.fp8e4m3)


def to_power_of_two(x: Tensor, mode: str, saturate: bool) -> Tensor:
    """The exponent alone, rounded as `mode` says."""
    bits = x.cast(dtypes.float32).bitcast(dtypes.uint32)
    exponent, mantissa = (bits >> 23) & 0xFF, bits & 0x7FFFFF
    above: Tensor | int = 0
    if mode == "up":
        above = (mantissa > 0) & ((exponent > 0) | (mantissa > 0x400000))
    elif mode == "nearest":
        above = (mantissa >= 0x400000) & ((exponent > 0) | (mantissa > 0x400000))
    is_nan = (exponent == 255) & (mantissa > 0)
    raised = (exponent + above).cast(dtypes.int32)
    if saturate:
        raised = raised.minimum(254)
    value = (raised > 0).where(raised << 23, 0x400000).bitcast(dtypes.float32)  # exactly: below 2**-126 it is subnormal
    lost = is_nan | (raised >= 255)
    if not saturate:
        lost = lost | (x == 0)
    return lost.where(float("nan"), value)


def to_narrow_int(x: Tensor, kind: ElementType) -> Tensor:
    """The low bits, with the sign of the type."""
    dtype = dtype_of(kind.number)
    low = x.cast(dtypes.int32) & ((1 << kind.bits) - 1)
    signed = low if kind.least == 0 else (low > kind.most).where(low - (1 << kind.bits), low)
    return signed.cast(dtype)


def to_type(x: Tensor, number: int, saturate: bool = True, mode: str = "up") -> Tensor:
    """A tensor in the type with a number."""
    kind, dtype = element_type(number), dtype_of(number)
    if number == FLOAT4E2M1:
        return to_float4(x)
    if number == FLOAT8E8M0:
        return to_power_of_two(x, mode, saturate)
    if kind.bits:
        return to_narrow_int(x, kind)
    if dtype in dtypes.fp8s:
        return to_fp8(x, dtype, saturate)
    return x.cast(dtype)


def strings_to_numbers(texts: Any, dtype: DType) -> Tensor:
    """Decimal numbers, and the words for infinity and NaN in any case."""
    parse: Callable[[str], Any] = (
        float if dtype.is_float else lambda text: int(float(text)) if "." in text else int(text)
    )
    numbers = [parse(str(text)) for text in texts.reshape(-1)]
    return (
        Tensor(numpy.array(numbers, dtype=numpy.float64 if dtype.is_float else numpy.int64))
        .cast(dtype)
        .reshape(texts.shape)
    )


def numbers_to_strings(x: Value) -> Any:
    """As Python spells them, in the fewest digits that are exact."""
    wide = x.cast(dtypes.float32) if isinstance(x, Tensor) and x.dtype in (dtypes.bfloat16, *dtypes.fp8s) else x
    array = host_array(wide)
    texts = [_spell(number) for number in array.reshape(-1)]
    return numpy.array(texts, dtype=object).reshape(array.shape)


def _spell(number: Any) -> str:
    if number.dtype.kind == "f":
        text = str(number)
        return {"nan": "NaN", "inf": "INF", "-inf": "-INF"}.get(text, text)
    return str(number)


def convert(node: Node, x: Value, number: int) -> Value:
    """A value in another type, strings on the host."""
    if isinstance(x, numpy.ndarray) and x.dtype.kind in "OUS":
        return x if number == STRING else strings_to_numbers(x, dtype_of(number))
    if number == STRING:
        return numbers_to_strings(x)
    return to_type(as_tensor(x), number, bool(node.get("saturate", 1)), node.get("round_mode", "up"))


_VERSIONS: Final = (19, 21, 23, 24, 25)


@operator("Cast", since=(1, 6, 9, 13, *_VERSIONS), host=ALL)
def cast(node: Node, x: Value) -> Value:
    """Into the type that the attribute names; in version 1 by its name."""
    number = node.get("to")
    if isinstance(number, str):
        names = {"FLOAT": 1, "UINT8": 2, "INT8": 3, "UINT16": 4, "INT16": 5, "INT32": 6, "INT64": 7, "STRING": 8}
        names |= {"BOOL": 9, "FLOAT16": 10, "DOUBLE": 11, "UINT32": 12, "UINT64": 13}
        number = names[number.upper()]
    return convert(node, x, int(number))


@operator("CastLike", since=(15, *_VERSIONS), host=ALL)
def cast_like(node: Node, x: Value, like: Value) -> Value:
    """Into the type of another value."""
    if isinstance(like, numpy.ndarray) and like.dtype.kind in "OUS":
        return convert(node, x, STRING)
    return convert(node, x, element_type_of(as_tensor(like).dtype, node.type_of(1)).number)


@operator("BitCast", since=(26,))
def bit_cast(node: Node, x: Tensor) -> Tensor:
    """The same bits as another type of the same size."""
    target = element_type(int(node.get("to")))
    source = element_type_of(x.dtype, node.type_of(0))
    if target.bits and target.bits == source.bits and FLOAT4E2M1 not in (target.number, source.number):
        return to_narrow_int(x, target)
    return x.bitcast(dtype_of(target.number)) if x.dtype is not dtypes.bool else x.cast(dtype_of(target.number))
