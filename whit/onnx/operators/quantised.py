"""Quantisation: floats to few bits and back, and products of integers.

A scale and a zero point stand for a whole tensor, for each slice of an axis, or for each block of an axis. Products of
bytes are sums of int32 from the bytes themselves, which kernels do four at a time; zero points are taken off the sums.
"""

from __future__ import annotations

from typing import Final

from whit.dtype import DType, dtypes
from whit.onnx.operators.casts import to_type
from whit.onnx.operators.convolution import convolve
from whit.onnx.operators.element_types import FLOAT4E2M1, ElementType, dtype_of, element_type, element_type_of
from whit.onnx.operators.registry import Node, operator, positive_axis
from whit.tensor import Tensor

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
    return whole.clip(kind.least, kind.most).cast(dtype_of(kind.number))


def _kind_of_result(node: Node, zero: Tensor | None) -> ElementType:
    number = int(node.get("output_dtype", 0))
    if number:
        return element_type(number)
    if zero is None:
        return element_type_of(dtypes.uint8)
    return element_type_of(zero.dtype, node.type_of(2))


@operator("QuantizeLinear", since=_VERSIONS)
def quantize_linear(node: Node, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    """saturate(round(x / scale) + zero)."""
    kind = _kind_of_result(node, zero)
    precision = int(node.get("precision", 0))
    dtype = dtype_of(precision) if precision else _precision(x, scale)
    quotient = x.cast(dtype) / spread(node, scale, x).cast(dtype)
    moved = None if zero is None else spread(node, zero, x)
    if kind.number == FLOAT4E2M1 or dtype_of(kind.number).is_float:
        quotient = quotient if moved is None else quotient + moved.cast(dtype)
        return to_type(quotient, kind.number, bool(node.get("saturate", 1)))
    return rounded(quotient, moved, kind)


def _precision(x: Tensor, scale: Tensor) -> DType:
    if scale.dtype in dtypes.float16s:
        return scale.dtype
    return scale.dtype if scale.dtype.is_float and scale.dtype not in dtypes.fp8s else dtypes.float32


@operator("DequantizeLinear", since=_VERSIONS)
def dequantize_linear(node: Node, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    """(x - zero) * scale."""
    number = int(node.get("output_dtype", 0))
    dtype = dtype_of(number) if number else scale.dtype
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
    low, high = x.min().minimum(0), x.max().maximum(0)
    scale = (high - low) / 255
    scale = (scale == 0).where(1.0, scale)
    zero = (-low / scale).round().clip(0, 255)
    return (x / scale).round().add(zero).clip(0, 255).cast(dtypes.uint8), scale, zero.cast(dtypes.uint8)


def row_zero(zero: Tensor | None, x: Tensor) -> Tensor | None:
    """The zero point of the left of a product: one for all, or one for each row."""
    if zero is None:
        return None
    wide = zero.cast(dtypes.int32)
    if zero.numel() == 1:
        return wide.reshape(())
    return wide.unsqueeze(-1) if zero.ndim == 1 else wide


def column_zero(zero: Tensor | None) -> Tensor | None:
    """The zero point of the right of a product: one for all, or one for each column."""
    if zero is None:
        return None
    return zero.cast(dtypes.int32).reshape(()) if zero.numel() == 1 else zero.cast(dtypes.int32)


def integer_product(a: Tensor, b: Tensor, a_zero: Tensor | None, b_zero: Tensor | None) -> Tensor:
    """(a - a_zero) @ (b - b_zero) in int32, from sums of products of the bytes themselves."""
    wide_a, wide_b = a.cast(dtypes.int32), b.cast(dtypes.int32)
    total = wide_a @ wide_b
    left, right = row_zero(a_zero, a), column_zero(b_zero)
    if a.ndim < 2 or b.ndim < 2:
        return _plain_product(wide_a, wide_b, left, right)
    if left is not None:
        total = total - left * wide_b.sum(-2, True)
    if right is not None:
        of_rows = wide_a.sum(-1, True)
        total = total - of_rows * right
        if left is not None:
            total = total + left * right * int(a.shape[-1])
    return total.cast(dtypes.int32)


def _plain_product(a: Tensor, b: Tensor, a_zero: Tensor | None, b_zero: Tensor | None) -> Tensor:
    left = a if a_zero is None else a - a_zero
    return (left @ (b if b_zero is None else b - b_zero)).cast(dtypes.int32)


@operator("MatMulInteger", since=(10,))
def matmul_integer(
    node: Node, a: Tensor, b: Tensor, a_zero: Tensor | None = None, b_zero: Tensor | None = None
) -> Tensor:
    """A product of bytes in int32."""
    return integer_product(a, b, a_zero, b_zero)


def integer_convolution(node: Node, x: Tensor, weight: Tensor, x_zero: Tensor | None, w_zero: Tensor | None) -> Tensor:
    """A convolution of bytes in int32; what is padded counts as zero."""
    wide, kernels = x.cast(dtypes.int32), weight.cast(dtypes.int32)
    if x_zero is not None:
        wide = wide - x_zero.cast(dtypes.int32).reshape((1,) * x.ndim)
    if w_zero is not None:
        kernels = kernels - w_zero.cast(dtypes.int32).reshape((-1, *(1,) * (weight.ndim - 1)))
    return convolve(node, wide, kernels).cast(dtypes.int32)


@operator("ConvInteger", since=(10,))
def conv_integer(
    node: Node, x: Tensor, weight: Tensor, x_zero: Tensor | None = None, w_zero: Tensor | None = None
) -> Tensor:
    """A convolution of bytes in int32."""
    return integer_convolution(node, x, weight, x_zero, w_zero)


@operator("QLinearMatMul", since=(10, 21))
def qlinear_matmul(
    node: Node,
    a: Tensor,
    a_scale: Tensor,
    a_zero: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
) -> Tensor:
    """A product of bytes, quantised again."""
    total = integer_product(a, b, a_zero, b_zero).cast(dtypes.float32)
    left = a_scale.unsqueeze(-1) if a_scale.ndim == 1 and a_scale.numel() > 1 else a_scale
    factor = _factor(left, b_scale, y_scale)
    return rounded(total * factor, y_zero, element_type_of(y_zero.dtype))


def _factor(left: Tensor, right: Tensor, result: Tensor) -> Tensor:
    wide = [part.cast(dtypes.float32) for part in (left, right, result)]
    flat = [part.reshape(()) if part.numel() == 1 else part for part in wide]
    return flat[0] * flat[1] / flat[2]


@operator("QLinearConv", since=(10,))
def qlinear_conv(
    node: Node,
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    weight: Tensor,
    w_scale: Tensor,
    w_zero: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
    bias: Tensor | None = None,
) -> Tensor:
    """A convolution of bytes, quantised again."""
    total = integer_convolution(node, x, weight, x_zero, w_zero)
    around = (1, -1, *(1,) * (x.ndim - 2))
    if bias is not None:
        total = total + bias.cast(dtypes.int32).reshape(around)
    scales = w_scale.reshape(around) if w_scale.numel() > 1 else w_scale
    return rounded(
        total.cast(dtypes.float32) * _factor(x_scale, scales, y_scale),
        y_zero.reshape(()),
        element_type_of(y_zero.dtype),
    )
