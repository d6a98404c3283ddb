"""Quantisation: floats to few bits and back, and products of integers.

A scale and a zero point stand for a whole tensor, for each slice of an axis, or for each block of an axis. Products of
bytes are sums of int32 from the bytes themselves, which kernels do four at a time; zero points are taken off the sums.
"""

from __future__ import annotations

import itertools
import math
from typing import Final

import numpy

from whit.dtype import DType, dtypes
from whit.onnx.operators.casts import to_type
from whit.onnx.operators.convolution import convolve
from whit.onnx.operators.element_types import FLOAT4E2M1, ElementType, dtype_of, element_type, element_type_of
from whit.onnx.operators.registry import Node, Value, as_tensor, operator, positive_axis
from whit.onnx.operators.windows import Window, window_of
from whit.tensor import Tensor

EXACT_IN_FLOATS: Final = 1 << 24  # sums of whole numbers below this have no error in float32
MANY_PRODUCTS: Final = 1024  # in one sum, from which on windows are laid out
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


def signed(weight: Tensor, zero: Value) -> tuple[Tensor, Tensor | None]:
    """Weights of bytes and their zero point, signed and without it where the host knows that it stands for nothing."""
    if isinstance(zero, numpy.ndarray) and weight.dtype in (dtypes.int8, dtypes.uint8):
        middle = 128 if weight.dtype is dtypes.uint8 else 0
        if (zero == middle).all():
            return ((weight ^ 128).bitcast(dtypes.int8) if middle else weight), None
    return weight, as_tensor(zero, weight.device)


def row_zero(zero: Tensor | None) -> Tensor | None:
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
    left, right = row_zero(a_zero), column_zero(b_zero)
    if a.ndim < 2 or b.ndim < 2:
        return _plain_product(a.cast(dtypes.int32), b.cast(dtypes.int32), left, right)
    if b.dtype is dtypes.uint8:  # instructions multiply by signed bytes: 6.5 -> 1.4 ms for 512 x 768 x 768
        b, right = (b ^ 128).bitcast(dtypes.int8), (0 if right is None else right) - Tensor(128, device=b.device)
    wide_a, wide_b = a.cast(dtypes.int32), b.cast(dtypes.int32)
    total = wide_a @ wide_b
    if left is not None:
        total = total - left * wide_b.sum(-2, True)
    if right is not None:
        total = total - wide_a.sum(-1, True) * right
        if left is not None:
            total = total + left * right * int(a.shape[-1])
    return total.cast(dtypes.int32)


def _plain_product(a: Tensor, b: Tensor, a_zero: Tensor | None, b_zero: Tensor | None) -> Tensor:
    left = a if a_zero is None else a - a_zero
    return (left @ (b if b_zero is None else b - b_zero)).cast(dtypes.int32)


@operator("MatMulInteger", since=(10,), host=(3,))
def matmul_integer(node: Node, a: Tensor, b: Tensor, a_zero: Tensor | None = None, b_zero: Value = None) -> Tensor:
    """A product of bytes in int32."""
    return integer_product(a, *right_operand(b, a_zero, b_zero))


def right_operand(b: Tensor, a_zero: Tensor | None, b_zero: Value) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """The rest of what `integer_product` takes."""
    b, zero = signed(b, b_zero)
    return b, a_zero, zero


def integer_convolution(
    node: Node, x: Tensor, weight: Tensor, x_zero: Tensor | None, w_zero: Tensor | None, is_exact: bool = True
) -> Tensor:
    """A convolution of bytes; what is padded counts as zero. In int32, or in floats where sums fit or may be rounded.

    Windows of one pixel are a product of bytes, larger ones of many channels too, once they are laid out side by side;
    the others are faster in floats. Milliseconds, floats -> bytes: 256 channels, 28 x 28, 1 x 1: 1.0 -> 0.3; 256
    channels, 14 x 14, 3 x 3: 1.6 -> 0.9; 64 channels, 56 x 56, 3 x 3: 0.9 -> 2.4.
    """
    window = window_of(node, x.shape[2:], weight.shape[2:])
    inner = math.prod(weight.shape[1:])
    is_plain = int(node.get("group", 1)) == 1 and x.ndim == 4 and w_zero is None and weight.dtype is dtypes.int8
    if is_plain and (inner >= MANY_PRODUCTS or set(window.kernel) == {1}):
        return _by_columns(window, x, weight, x_zero)
    kind = dtypes.float32 if not is_exact or inner * 255 * 255 < EXACT_IN_FLOATS else dtypes.int32
    wide, kernels = x.cast(kind), weight.cast(kind)
    if x_zero is not None:
        wide = wide - x_zero.cast(kind).reshape((1,) * x.ndim)
    if w_zero is not None:
        kernels = kernels - w_zero.cast(kind).reshape((-1, *(1,) * (weight.ndim - 1)))
    return convolve(node, wide, kernels)


def _by_columns(window: Window, x: Tensor, weight: Tensor, x_zero: Tensor | None) -> Tensor:
    """Windows side by side, (positions, kernel * in) @ (kernel * in, out); padded with what stands for zero."""
    image = x.permute((0, 2, 3, 1))
    pads = [(0, 0), *window.pads, (0, 0)]
    if any(before or after for before, after in pads):
        inside = Tensor.ones(1, *image.shape[1:3], 1, dtype=dtypes.bool, device=x.device).pad(pads)
        image = inside.where(image.pad(pads), 0 if x_zero is None else x_zero.reshape(()))
    sizes = [(int(n) - r) // s + 1 for n, r, s in zip(image.shape[1:3], window.reach, window.strides, strict=True)]
    parts = []
    for taps in itertools.product(*map(range, window.kernel)):
        rows, columns = (
            slice(k * d, k * d + (o - 1) * s + 1, s)
            for k, d, s, o in zip(taps, window.dilations, window.strides, sizes, strict=True)
        )
        parts.append(image[:, rows, columns])
    batch, outputs, inner = int(x.shape[0]), int(weight.shape[0]), math.prod(weight.shape[1:])
    laid = parts[0] if len(parts) == 1 else parts[0].stack(*parts[1:], dim=3)
    kernels = weight.permute((2, 3, 1, 0)).reshape((inner, outputs))
    total = integer_product(laid.reshape((batch * math.prod(sizes), inner)), kernels, x_zero, None)
    return total.reshape((batch, *sizes, outputs)).permute((0, 3, 1, 2))


@operator("ConvInteger", since=(10,), host=(3,))
def conv_integer(node: Node, x: Tensor, weight: Tensor, x_zero: Tensor | None = None, w_zero: Value = None) -> Tensor:
    """A convolution of bytes in int32."""
    weight, zero = signed(weight, w_zero)
    return integer_convolution(node, x, weight, x_zero, zero).cast(dtypes.int32)


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
    total = integer_product(a, *right_operand(b, a_zero, b_zero)).cast(dtypes.float32)
    left = a_scale.unsqueeze(-1) if a_scale.ndim == 1 and a_scale.numel() > 1 else a_scale
    factor = _factor(left, b_scale, y_scale)
    return rounded(total * factor, y_zero, element_type_of(y_zero.dtype))


def _factor(left: Tensor, right: Tensor, result: Tensor) -> Tensor:
    wide = [part.cast(dtypes.float32) for part in (left, right, result)]
    flat = [part.reshape(()) if part.numel() == 1 else part for part in wide]
    return flat[0] * flat[1] / flat[2]


@operator("QLinearConv", since=(10,), host=(5,))
def qlinear_conv(
    node: Node,
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    weight: Tensor,
    w_scale: Tensor,
    w_zero: Value,
    y_scale: Tensor,
    y_zero: Tensor,
    bias: Tensor | None = None,
) -> Tensor:
    """A convolution of bytes, quantised again."""
    weight, zero = signed(weight, w_zero)
    total = integer_convolution(node, x, weight, x_zero, zero, is_exact=False)
    around = (1, -1, *(1,) * (x.ndim - 2))
    if bias is not None:
        total = total + bias.cast(total.dtype).reshape(around)
    scales = w_scale.reshape(around) if w_scale.numel() > 1 else w_scale
    return rounded(
        total.cast(dtypes.float32) * _factor(x_scale, scales, y_scale),
        y_zero.reshape(()),
        element_type_of(y_zero.dtype),
    )
