"""Quantised operators of `com.microsoft`: products of bytes and of packed weights, arithmetic on bytes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

from whit.dtype import dtypes
from whit.onnx.operators.activations import softmax
from whit.onnx.operators.byte_products import integer_product
from whit.onnx.operators.element_types import element_type_of
from whit.onnx.operators.microsoft.attention import from_packed
from whit.onnx.operators.microsoft.fused import DOMAIN
from whit.onnx.operators.pooling import average_pool
from whit.onnx.operators.quantised import (
    dequantize_linear,
    dynamic_quantize_linear,
    quantize_linear,
    rounded,
    zero_of,
)
from whit.onnx.operators.recurrent import lstm
from whit.onnx.operators.registry import Node, Value, axis_of, operator, positive_axes
from whit.tensor import Tensor

operator("QuantizeLinear", since=(1,), domain=DOMAIN, host=(1, 2))(quantize_linear)
operator("DequantizeLinear", since=(1,), domain=DOMAIN, host=(1, 2))(dequantize_linear)


def scaled_product(
    a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor, a_zero: Tensor | None, b_zero: Value
) -> Tensor:
    """A product of bytes as floats."""
    total = integer_product(a, b, a_zero, zero_of(b_zero, b)).cast(dtypes.float32)
    left = a_scale.reshape(()) if a_scale.numel() == 1 else a_scale.unsqueeze(-1)
    return total * (left * (b_scale.reshape(()) if b_scale.numel() == 1 else b_scale))


@operator("MatMulIntegerToFloat", since=(1,), domain=DOMAIN, host=(5,))
def matmul_integer_to_float(
    node: Node,
    a: Tensor,
    b: Tensor,
    a_scale: Tensor,
    b_scale: Tensor,
    a_zero: Tensor | None = None,
    b_zero: Value = None,
    bias: Tensor | None = None,
) -> Tensor:
    """A product of bytes as floats, with a bias."""
    result = scaled_product(a, b, a_scale, b_scale, a_zero, b_zero)
    return result if bias is None else result + bias


@operator("DynamicQuantizeMatMul", since=(1,), domain=DOMAIN, host=(3,))
def dynamic_quantize_matmul(
    node: Node,
    a: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero: Value = None,
    bias: Tensor | None = None,
) -> Tensor:
    """The left operand becomes bytes when its range is known."""
    bytes_, scale, zero = dynamic_quantize_linear(node, a)
    result = scaled_product(bytes_, b, scale, b_scale, zero, b_zero)
    return result if bias is None else result + bias


def unpacked(words: Tensor, bits: int) -> Tensor:
    """Bytes -> the numbers in them along the last axis, low bits first, as int32."""
    wide = words.cast(dtypes.int32)
    if bits == 8:
        return wide
    shifts = Tensor.arange(8 // bits, device=words.device, dtype=dtypes.int32) * bits
    parts = (wide.unsqueeze(-1) >> shifts) & ((1 << bits) - 1)
    return parts.reshape((*words.shape[:-1], words.shape[-1] * (8 // bits)))


@operator("MatMulNBits", since=(1,), domain=DOMAIN)
def matmul_n_bits(
    node: Node,
    a: Tensor,
    b: Tensor,
    scales: Tensor,
    zeros: Tensor | None = None,
    groups: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """a @ weights.T: weights of a few bits, each block of a row with a scale and a zero point."""
    rows, columns = int(node.get("N")), int(node.get("K"))
    bits, block = int(node.get("bits", 4)), int(node.get("block_size"))
    blocks = -(-columns // block)
    whole = unpacked(b.reshape((rows, blocks, b.numel() // (rows * blocks))), bits)[:, :, :block]
    scale = scales.reshape((rows, blocks, 1))
    if zeros is None:
        zero: Any = 1 << (bits - 1)
    elif zeros.dtype is dtypes.uint8:
        zero = unpacked(zeros.reshape((rows, zeros.numel() // rows)), bits)[:, :blocks].unsqueeze(2)
    else:
        zero = zeros.reshape((rows, blocks, 1))
    if groups is not None:  # each column says which block it belongs to
        index = groups.cast(dtypes.int64)[:columns]
        flat = whole.reshape((rows, blocks * block))[:, :columns]
        near = [part.squeeze(2).index_select(1, index) if isinstance(part, Tensor) else part for part in (scale, zero)]
        weights = (flat - near[1]).cast(a.dtype) * near[0].cast(a.dtype)
    else:
        weights = ((whole - zero).cast(a.dtype) * scale.cast(a.dtype)).reshape((rows, blocks * block))[:, :columns]
    result = a @ weights.transpose(0, 1)
    return result if bias is None else result + bias


@operator("QGemm", since=(1,), domain=DOMAIN, host=(5,))
def quantised_gemm(
    node: Node,
    a: Tensor,
    a_scale: Tensor,
    a_zero: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero: Value,
    c: Tensor | None = None,
    y_scale: Tensor | None = None,
    y_zero: Tensor | None = None,
) -> Tensor:
    """alpha * a @ b + c of bytes, as floats or quantised again."""
    left = a.transpose(0, 1) if node.get("transA", 0) else a
    right = b.transpose(0, 1) if node.get("transB", 0) else b
    total = integer_product(left, right, a_zero, zero_of(b_zero, right))
    total = total if c is None else total + c
    wide = total.cast(dtypes.float32) * (a_scale * b_scale * float(node.get("alpha", 1.0)))
    if y_scale is None or y_zero is None:
        return wide
    return rounded(wide / y_scale, y_zero, element_type_of(y_zero.dtype))


@operator("QAttention", since=(1,), domain=DOMAIN, host=(7,))
def quantised_attention(
    node: Node,
    x: Tensor,
    weights: Tensor,
    bias: Tensor,
    x_scale: Tensor,
    w_scale: Tensor,
    mask: Tensor | None = None,
    x_zero: Tensor | None = None,
    w_zero: Value = None,
    past: Tensor | None = None,
) -> tuple[Value, ...]:
    """Attention whose projections are products of bytes."""
    batch, length, wide = x.shape
    rows = scaled_product(x.reshape((batch * length, wide)), weights, x_scale, w_scale, x_zero, w_zero)
    return from_packed(node, rows.reshape((batch, length, weights.shape[1])) + bias, mask, past, None)


@operator("DynamicQuantizeLSTM", since=(1,), domain=DOMAIN)
def dynamic_quantize_lstm(
    node: Node,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None,
    lengths: Tensor | None,
    first: Tensor | None,
    first_cell: Tensor | None,
    p: Tensor | None,
    w_scale: Tensor,
    w_zero: Tensor,
    r_scale: Tensor,
    r_zero: Tensor,
) -> tuple[Value, ...]:
    """An LSTM with weights of bytes (directions, in, gates); inputs and states are rounded to bytes as they come."""
    weights = [_known_floats(part, scale, zero) for part, scale, zero in ((w, w_scale, w_zero), (r, r_scale, r_zero))]
    old = Node("LSTM", DOMAIN, 14, node.name, node.outputs, node.attributes)
    result: tuple[Value, ...] = lstm(old, x, weights[0], weights[1], b, lengths, first, first_cell, p)
    return result


def _known_floats(part: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    """Weights of bytes (directions, in, gates) as floats (directions, gates, in)."""
    return ((part.cast(dtypes.float32) - _by_column(zero)) * _by_column(scale)).transpose(1, 2)


def _by_column(part: Tensor) -> Tensor:
    """One number for each direction, or one for each column of each."""
    wide = part.cast(dtypes.float32)
    return wide.reshape((-1, 1, 1)) if part.ndim == 1 else wide.unsqueeze(1)


# ---- arithmetic on bytes: out of the scale, the operator, into the new scale


def _open(x: Tensor, scale: Tensor, zero: Tensor | None) -> Tensor:
    wide = x.cast(dtypes.int32)
    moved = wide if zero is None else wide - zero.cast(dtypes.int32).reshape(())
    return moved.cast(dtypes.float32) * scale.reshape(())


def _close(x: Tensor, scale: Tensor, zero: Tensor | None, like: Tensor) -> Tensor:
    moved = None if zero is None else zero.reshape(())
    return rounded(x / scale.reshape(()), moved, element_type_of(like.dtype))


def _binary(op_type: str, function: Callable[[Tensor, Tensor], Tensor]) -> None:
    def on_bytes(
        node: Node,
        a: Tensor,
        a_scale: Tensor,
        a_zero: Tensor | None,
        b: Tensor,
        b_scale: Tensor,
        b_zero: Tensor | None,
        y_scale: Tensor,
        y_zero: Tensor | None = None,
    ) -> Tensor:
        return _close(function(_open(a, a_scale, a_zero), _open(b, b_scale, b_zero)), y_scale, y_zero, a)

    operator(op_type, since=(1,), domain=DOMAIN)(on_bytes)


_binary("QLinearAdd", lambda a, b: a + b)
_binary("QLinearMul", lambda a, b: a * b)


def _unary(op_type: str, function: Callable[[Node, Tensor], Tensor]) -> None:
    def on_bytes(
        node: Node,
        x: Tensor,
        x_scale: Tensor,
        x_zero: Tensor | None,
        y_scale: Tensor,
        y_zero: Tensor | None = None,
    ) -> Tensor:
        return _close(function(node, _open(x, x_scale, x_zero)), y_scale, y_zero, x)

    operator(op_type, since=(1,), domain=DOMAIN)(on_bytes)


def _by_channels(node: Node, x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    """A function of images, whose channels may be last."""
    if not node.get("channels_last", 0):
        return function(x)
    return function(x.permute((0, x.ndim - 1, *range(1, x.ndim - 1)))).permute((0, *range(2, x.ndim), 1))


def _mean(node: Node, x: Tensor) -> Tensor:
    axes = positive_axes(node, node.get("axes") or range(x.ndim), x.ndim)
    return x.mean(axes, bool(node.get("keepdims", 1)))


def _softmax(node: Node, x: Tensor) -> Tensor:
    version = int(node.get("opset", 13))
    result: Tensor = softmax(Node("Softmax", "", version, node.name, 1, node.attributes), x)
    return result


_unary("QLinearSigmoid", lambda node, x: x.sigmoid())
_unary("QLinearLeakyRelu", lambda node, x: x.leaky_relu(float(node.get("alpha", 0.01))))
_unary("QLinearReduceMean", _mean)
_unary("QLinearSoftmax", _softmax)
_unary(
    "QLinearGlobalAveragePool",
    lambda node, x: _by_channels(node, x, lambda image: image.mean(tuple(range(2, image.ndim)), True)),
)
_unary("QLinearAveragePool", lambda node, x: _by_channels(node, x, lambda image: average_pool(node, image)))


@operator("QLinearConcat", since=(1,), domain=DOMAIN)
def quantised_concat(node: Node, y_scale: Tensor, y_zero: Tensor, *inputs: Tensor) -> Tensor:
    """Bytes side by side, each with a scale and zero point of its own."""
    parts = [_open(inputs[i], inputs[i + 1], inputs[i + 2]) for i in range(0, len(inputs), 3)]
    whole = parts[0].cat(*parts[1:], dim=axis_of(node, parts[0], 0))
    return _close(whole, y_scale, y_zero, y_zero)


@operator("QLinearWhere", since=(1,), domain=DOMAIN)
def quantised_where(
    node: Node,
    condition: Tensor,
    a: Tensor,
    a_scale: Tensor,
    a_zero: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
) -> Tensor:
    """One of two, in one scale."""
    return _close(condition.where(_open(a, a_scale, a_zero), _open(b, b_scale, b_zero)), y_scale, y_zero, y_zero)


@operator("GatherBlockQuantized", since=(1,), domain=DOMAIN)
def gather_block_quantised(
    node: Node, data: Tensor, indices: Tensor, scales: Tensor, zeros: Tensor | None = None
) -> Tensor:
    """Rows of a table of few bits, as floats: an embedding."""
    bits, block = int(node.get("bits", 4)), int(node.get("block_size", 128))
    is_packed = data.dtype is dtypes.uint8 and node.type_of(0) in (0, 2)
    along, by = (positive_axes(node, [int(node.get(name, default))], data.ndim)[0] for name, default in _GATHER_AXES)
    index = indices.cast(dtypes.int64).reshape((indices.numel(),))

    def rows(part: Tensor) -> Tensor:
        return part.index_select(along, index)

    whole = unpacked(rows(data), bits) if is_packed else rows(data).cast(dtypes.int32)
    size = int(whole.shape[by])
    cut = [(0, size) if i == by else None for i in range(whole.ndim)]
    scale = rows(scales).repeat_interleave(block, dim=by).shrink(cut)
    moved: Any = (1 << (bits - 1)) if is_packed else 0
    if zeros is not None:
        near = unpacked(rows(zeros), bits) if is_packed else rows(zeros).cast(dtypes.int32)
        moved = near.repeat_interleave(block, dim=by).shrink(cut)
    table = (whole - moved).cast(scale.dtype) * scale
    result: Tensor = table.reshape((*table.shape[:along], *indices.shape, *table.shape[along + 1 :]))
    return result


_GATHER_AXES: Final = (("gather_axis", 0), ("quantize_axis", 1))


@operator("MulInteger", since=(1,), domain=DOMAIN)
def mul_integer(
    node: Node, a: Tensor, a_zero: Tensor | None = None, b: Tensor | None = None, b_zero: Tensor | None = None
) -> Tensor:
    """(a - a_zero) * (b - b_zero) in int32."""
    pairs = [(each, zero) for each, zero in ((a, a_zero), (b, b_zero)) if each is not None]
    parts = [
        each.cast(dtypes.int32) - (0 if zero is None else zero.cast(dtypes.int32).reshape(())) for each, zero in pairs
    ]
    return functools.reduce(lambda left, right: left * right, parts)
