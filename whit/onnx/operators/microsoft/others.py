"""Operators of `com.microsoft` that the standard has by now, or that are small."""

from __future__ import annotations

import math

from whit.dtype import dtypes
from whit.onnx.operators.creation import range_
from whit.onnx.operators.indexing import gather_nd, unique
from whit.onnx.operators.microsoft.fused import DOMAIN
from whit.onnx.operators.movement import pad, trilu
from whit.onnx.operators.pooling import max_pool
from whit.onnx.operators.registry import ALL, Node, Value, host_int_list, operator, positive_axis, unary
from whit.onnx.operators.signals import transformed
from whit.tensor import Tensor

operator("Trilu", since=(1,), domain=DOMAIN, host=(1,))(trilu)
operator("Pad", since=(1,), domain=DOMAIN, host=(1, 2, 3))(pad)
operator("GatherND", since=(1,), domain=DOMAIN)(gather_nd)
operator("Range", since=(1,), domain=DOMAIN, host=(0, 1, 2))(range_)
unary("Inverse", Tensor.inverse, (1,), DOMAIN)


@operator("Unique", since=(1,), domain=DOMAIN, host=ALL)
def unique_in_order(node: Node, x: Value) -> tuple[Value, ...]:
    """What differs in the order in which it comes, which it is for each, and how often."""
    values, _, inverse, counts = unique(Node("Unique", "", 11, node.name, 4, {"sorted": 0}), x)
    return values, inverse, counts


@operator("ExpandDims", since=(1,), domain=DOMAIN, host=(1,))
def expand_dims(node: Node, x: Tensor, axis: Value) -> Tensor:
    """With one more axis."""
    return x.unsqueeze(positive_axis(node, host_int_list(axis)[0], x.ndim + 1))


@operator("BiasAdd", since=(1,), domain=DOMAIN)
def bias_add(node: Node, x: Tensor, bias: Tensor, skip: Tensor) -> Tensor:
    """x + bias + skip."""
    return x + bias + skip


@operator("BiasSplitGelu", since=(1,), domain=DOMAIN)
def bias_split_gelu(node: Node, x: Tensor, bias: Tensor) -> Tensor:
    """The first half of x + bias times the gelu of the second."""
    left, right = (x + bias).chunk(2, dim=-1)
    return left * right.gelu("none")


@operator("CDist", since=(1,), domain=DOMAIN)
def distances(node: Node, a: Tensor, b: Tensor) -> Tensor:
    """(rows of a, rows of b): distances, or their squares."""
    squares = (a.unsqueeze(1) - b.unsqueeze(0)).square().sum(-1)
    return squares if node.get("metric", "sqeuclidean") == "sqeuclidean" else squares.sqrt()


@operator("NhwcMaxPool", since=(1,), domain=DOMAIN)
def channels_last_max_pool(node: Node, x: Tensor) -> Tensor:
    """(batch, *space, channels)."""
    image = x.permute((0, x.ndim - 1, *range(1, x.ndim - 1)))
    result: Tensor = max_pool(node, image)
    return result.permute((0, *range(2, x.ndim), 1))


@operator("GroupNorm", since=(1,), domain=DOMAIN)
def group_norm(node: Node, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """Groups of channels, which are last, by their mean and variance; then swish if asked for."""
    groups, last = int(node.get("groups")), bool(node.get("channels_last", 1))
    image = x.permute((0, x.ndim - 1, *range(1, x.ndim - 1))) if last else x
    batch, channels = image.shape[:2]
    rows = image.cast(dtypes.float32).reshape((batch, groups, math.prod(image.shape[1:]) // groups))
    centred = rows - rows.mean(2, True)
    normal = centred * (centred.square().mean(2, True) + float(node.get("epsilon", 1e-5))).rsqrt()
    around = (1, channels, *(1,) * (image.ndim - 2))
    result = normal.reshape(image.shape) * scale.reshape(around) + bias.reshape(around)
    result = result.silu() if node.get("activation", 0) == 1 else result
    return (result.permute((0, *range(2, x.ndim), 1)) if last else result).cast(x.dtype)


@operator("Rfft", since=(1,), domain=DOMAIN)
def real_transform(node: Node, x: Tensor) -> Tensor:
    """(…, n) -> (…, n // 2 + 1, 2) along the last axis."""
    count = int(x.shape[-1])
    rows = transformed(x.reshape((x.numel() // count, count, 1)), -1)[:, : count // 2 + 1]
    return rows.reshape((*x.shape[:-1], count // 2 + 1, 2))
