"""Quantisation: floats to few bits and back, and products of integers.

A scale and a zero point stand for a whole tensor, for each slice of an axis, or for each block of an axis. Products of
bytes are sums of int32 from the bytes themselves, which kernels do four at a time; zero points are taken off the sums.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy

from whit.dtype import DType, dtypes
from whit.onnx.operators.byte_products import Zero, channels_last, convolved, integer_product
from whit.onnx.operators.casts import to_type
from whit.onnx.operators.convolution import convolve
from whit.onnx.operators.element_types import FLOAT4E2M1, ElementType, dtype_of, element_type, element_type_of
from whit.onnx.operators.origins import BYTES, Bytes, is_of_bytes, note, origin
from whit.onnx.operators.registry import Node, Value, operator, positive_axis
from whit.onnx.operators.windows import window_of
from whit.onnx.values import lifted
from whit.tensor import Tensor

EXACT_IN_FLOATS: Final = 1 << 24  # sums of whole numbers below this have no error in float32
FIRST_NARROW: Final = 17  # of the numbers of types: integers of fewer than eight bits, and small floats, come after
_VERSIONS: Final = (10, 13, 19, 21, 23, 24, 25)


def spread(node: Node, part: Tensor, x: Tensor) -> Tensor:
    """A scale or zero point, for the whole, an axis or blocks of one -> a shape that broadcasts with x."""
    if part.ndim == 0 or part.numel() == 1:
        return part.reshape((1,) * x.ndim)
    axis = positive_axis(node, int(node.get("axis", 1)), x.ndim)
    if (part.ndim == 1 and x.ndim != 1) or part.shape == (x.shape[axis],):
        return part.reshape(tuple(part.shape[0] if i == axis else 1 for i in range(x.ndim)))
    size, blocks = int(x.shape[axis]), int(part.shape[axis])
    if blocks == size:
        return part
    block = int(node.get("block_size", 0)) or -(-size // blocks)
    return part.repeat_interleave(block, dim=axis).shrink([(0, size) if i == axis else None for i in range(x.ndim)])


def rounded(x: Tensor, zero: Tensor | None, kind: ElementType) -> Tensor:
    """Rounded to even, moved by the zero point, kept inside the range of the type."""
    whole = x.round()
    if zero is not None:
        whole = whole + zero.cast(x.dtype)
    if kind.bits:
        whole = whole.clip(kind.least, kind.most)
    return whole.cast(dtype_of(kind.number))  # saturates


def _kind_of_result(node: Node, zero: Tensor | None) -> ElementType:
    number = int(node.get("output_dtype", 0))
    if number:
        return element_type(number)
    if zero is None:
        return element_type_of(dtypes.uint8)
    return element_type_of(zero.dtype, node.type_of(2))


def zero_of(zero: Value, like: Tensor) -> Zero:
    """A zero point as a number where the host knows that it is one, None where it is 0, else as a tensor."""
    if isinstance(zero, numpy.ndarray | numpy.generic) and zero.size and (zero == zero.reshape(-1)[0]).all():
        return int(zero.reshape(-1)[0]) or None
    found: Tensor | None = lifted(zero, like.device)
    return found


def _numbers(scale: Value, zero: Value) -> tuple[float, int] | None:
    """A scale and a zero point, if the host knows both and each is one number."""
    is_one = isinstance(scale, numpy.ndarray) and scale.size == 1
    if not is_one or not (zero is None or (isinstance(zero, numpy.ndarray) and zero.size == 1)):
        return None
    return scale.item(), 0 if zero is None else zero.item()


@operator("QuantizeLinear", since=_VERSIONS, host=(1, 2))
def quantize_linear(node: Node, x: Tensor, scale: Value, zero: Value = None) -> Tensor:
    """saturate(round(x / scale) + zero). An image is kept with its channels last.

    Floats that are made of bytes are multiplied by 1 / scale, as the factor of QLinearConv is.
    """
    numbers, source = _numbers(scale, zero), origin(x)
    scale, moved = lifted(scale, x.device), lifted(zero, x.device)
    kind = _kind_of_result(node, moved)
    is_whole = source is not None and kind.dtype is source.values.dtype and kind.number < FIRST_NARROW
    if source is not None and is_whole and numbers is not None and numbers == source.numbers:
        return source.values  # they have not been anything else
    precision = int(node.get("precision", 0))
    dtype = dtype_of(precision) if precision else _precision(x, scale)
    divisor = spread(node, scale, x).cast(dtype)
    quotient = x.cast(dtype) * (1 / divisor) if is_of_bytes(x) and scale.numel() == 1 else x.cast(dtype) / divisor
    moved = None if moved is None else spread(node, moved, x)
    if kind.number == FLOAT4E2M1 or dtype_of(kind.number).is_float:
        quotient = quotient if moved is None else quotient + moved.cast(dtype)
        return to_type(quotient, kind.number, bool(node.get("saturate", 1)))
    return channels_last(rounded(quotient, moved, kind))


def _precision(x: Tensor, scale: Tensor) -> DType:
    if scale.dtype in dtypes.float16s:
        return scale.dtype
    return scale.dtype if scale.dtype.is_float and scale.dtype not in dtypes.fp8s else dtypes.float32


@operator("DequantizeLinear", since=_VERSIONS, host=(1, 2))
def dequantize_linear(node: Node, x: Tensor, scale: Value, zero: Value = None) -> Tensor:
    """(x - zero) * scale. What the floats stand for is remembered."""
    numbers, known = _numbers(scale, zero), zero_of(zero, x)
    scale, zero = lifted(scale, x.device), lifted(zero, x.device)
    number = int(node.get("output_dtype", 0))
    result = _dequantised(node, x, scale, zero, dtype_of(number) if number else scale.dtype)
    if x.dtype not in BYTES or result.dtype is not dtypes.float32 or node.type_of(0) >= FIRST_NARROW:
        return result
    if scale.numel() == 1:
        return note(result, Bytes(x, scale.reshape(()), known, None, numbers))
    axis = positive_axis(node, int(node.get("axis", 1)), x.ndim)
    if scale.shape != (x.shape[axis],):
        return result
    return note(result, Bytes(x, scale, known, axis))


def _dequantised(node: Node, x: Tensor, scale: Tensor, zero: Tensor | None, dtype: DType) -> Tensor:
    if zero is None:
        return x.cast(dtype) * spread(node, scale, x).cast(dtype)
    moved = spread(node, zero, x)
    if x.dtype.is_int:
        wide = dtypes.int64 if x.dtype.itemsize > 2 else dtypes.int32
        return (x.cast(wide) - moved.cast(wide)).cast(dtype) * spread(node, scale, x).cast(dtype)
    return (x.cast(dtype) - moved.cast(dtype)) * spread(node, scale, x).cast(dtype)


@operator("DynamicQuantizeLinear", since=(11,))
def dynamic_quantize_linear(node: Node, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Bytes, with the scale and zero point that suit the range of the tensor and 0."""
    x = channels_last(x).contiguous()  # three kernels read it
    low, high = x.min().minimum(0), x.max().maximum(0)
    scale = (high - low) / 255
    scale = (scale == 0).where(1.0, scale)
    zero = (-low / scale).round().clip(0, 255)
    return (x / scale).round().add(zero).clip(0, 255).cast(dtypes.uint8), scale, zero.cast(dtypes.uint8)


@operator("MatMulInteger", since=(10,), host=(3,))
def matmul_integer(node: Node, a: Tensor, b: Tensor, a_zero: Tensor | None = None, b_zero: Value = None) -> Tensor:
    """A product of bytes in int32."""
    return integer_product(a, b, a_zero, zero_of(b_zero, b))


def integer_convolution(
    node: Node, x: Tensor, weight: Tensor, x_zero: Zero, w_zero: Zero, is_exact: bool = True
) -> Tensor:
    """A convolution of bytes; what is padded counts as zero. In int32, or in floats if sums fit or may be rounded."""
    found = convolved(window_of(node, x.shape[2:], weight.shape[2:]), x, weight, x_zero, w_zero)
    if found is not None:
        return found
    inner = math.prod(weight.shape[1:])
    kind = dtypes.float32 if not is_exact or inner * 255 * 255 < EXACT_IN_FLOATS else dtypes.int32
    wide, kernels = x.cast(kind), weight.cast(kind)
    wide = wide if x_zero is None else wide - _as_kind(x_zero, kind, 1)
    kernels = kernels if w_zero is None else kernels - _as_kind(w_zero, kind, weight.ndim)
    return convolve(node, wide, kernels)


def _as_kind(zero: Tensor | int, kind: DType, ndim: int) -> Any:
    """A zero point beside a tensor whose first axis it may be for."""
    if not isinstance(zero, Tensor):
        return zero
    return zero.cast(kind).reshape(() if zero.numel() == 1 else (-1, *(1,) * (ndim - 1)))


@operator("ConvInteger", since=(10,), host=(2, 3))
def conv_integer(node: Node, x: Tensor, weight: Tensor, x_zero: Value = None, w_zero: Value = None) -> Tensor:
    """A convolution of bytes in int32."""
    return integer_convolution(node, x, weight, zero_of(x_zero, x), zero_of(w_zero, weight)).cast(dtypes.int32)


@operator("QLinearMatMul", since=(10, 21), host=(5,))
def qlinear_matmul(
    node: Node,
    a: Tensor,
    a_scale: Tensor,
    a_zero: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero: Value,
    y_scale: Tensor,
    y_zero: Tensor,
) -> Tensor:
    """A product of bytes, quantised again."""
    total = integer_product(a, b, a_zero, zero_of(b_zero, b)).cast(dtypes.float32)
    left = a_scale.unsqueeze(-1) if a_scale.ndim == 1 and a_scale.numel() > 1 else a_scale
    factor = _factor(left, b_scale, y_scale)
    return rounded(total * factor, y_zero, element_type_of(y_zero.dtype))


def _factor(left: Tensor, right: Tensor, result: Tensor) -> Tensor:
    wide = [part.cast(dtypes.float32) for part in (left, right, result)]
    flat = [part.reshape(()) if part.numel() == 1 else part for part in wide]
    return flat[0] * flat[1] / flat[2]


@operator("QLinearConv", since=(10,), host=(2, 5))
def qlinear_conv(
    node: Node,
    x: Tensor,
    x_scale: Tensor,
    x_zero: Value,
    weight: Tensor,
    w_scale: Tensor,
    w_zero: Value,
    y_scale: Tensor,
    y_zero: Tensor,
    bias: Tensor | None = None,
) -> Tensor:
    """A convolution of bytes, quantised again."""
    total = integer_convolution(node, x, weight, zero_of(x_zero, x), zero_of(w_zero, weight), is_exact=False)
    around = (1, -1, *(1,) * (x.ndim - 2))
    if bias is not None:
        total = total.cast(dtypes.int32) + bias.cast(dtypes.int32).reshape(around)
    scales = w_scale.reshape(around) if w_scale.numel() > 1 else w_scale
    moved = total.cast(dtypes.float32) * _factor(x_scale, scales, y_scale)
    return channels_last(rounded(moved, y_zero.reshape(()), element_type_of(y_zero.dtype)))
