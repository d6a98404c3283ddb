"""Several operators as one: products with activations, additions with normalisations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from whit.dtype import dtypes
from whit.errors import NotSupportedError
from whit.onnx.operators.convolution import convolve
from whit.onnx.operators.linear_algebra import gemm
from whit.onnx.operators.registry import Node, Value, axis_of, operator
from whit.tensor import Tensor

DOMAIN: Final = "com.microsoft"


def activated(node: Node, x: Tensor) -> Tensor:
    """The attribute `activation`, with its numbers."""
    name = node.get("activation") or ""
    numbers = [float(number) for number in node.get("activation_params") or ()]
    alpha = numbers[0] if numbers else float(node.get("activation_alpha", 0.01 if name == "LeakyRelu" else 0.2))
    beta = numbers[1] if len(numbers) > 1 else float(node.get("activation_beta", 0.5))
    table: dict[str, Callable[[], Tensor]] = {
        "": lambda: x,
        "Relu": x.relu,
        "Tanh": x.tanh,
        "Sigmoid": x.sigmoid,
        "LeakyRelu": lambda: x.leaky_relu(alpha),
        "Clip": lambda: x.clip(alpha, beta),
        "HardSigmoid": lambda: (x * alpha + beta).clip(0, 1),
        "HardSwish": x.hardswish,
        "Gelu": lambda: x.gelu("none"),
    }
    if name not in table:
        raise NotSupportedError(f"{node}: activation {name!r}", "", f"Known are {', '.join(filter(None, table))}.")
    return table[name]()


@operator("FusedConv", since=(1,), domain=DOMAIN)
def fused_conv(node: Node, x: Tensor, weight: Tensor, bias: Tensor | None = None, more: Tensor | None = None) -> Tensor:
    """activation(convolution + more)."""
    result = convolve(node, x, weight, bias)
    return activated(node, result if more is None else result + more)


@operator("NhwcConv", since=(1,), domain=DOMAIN)
@operator("NhwcFusedConv", since=(1,), domain=DOMAIN)
def channels_last_conv(
    node: Node, x: Tensor, weight: Tensor, bias: Tensor | None = None, more: Tensor | None = None
) -> Tensor:
    """(batch, *space, in) with (out, *kernel, in / group), or for the fused one (out, in / group, *kernel)."""
    last = x.ndim - 1
    if node.op_type == "NhwcConv":
        weight = weight.permute((0, last, *range(1, last)))
    result = convolve(node, x.permute((0, last, *range(1, last))), weight, bias).permute((0, *range(2, x.ndim), 1))
    return activated(node, result if more is None else result + more)


@operator("FusedMatMul", since=(1,), domain=DOMAIN)
@operator("TransposeMatMul", since=(1,), domain=DOMAIN)
def fused_matmul(node: Node, a: Tensor, b: Tensor) -> Tensor:
    """alpha * a @ b, each turned if asked for, also the batch axis to before the last."""
    left, right = _turned(node, a, "A"), _turned(node, b, "B")
    product = left @ right
    alpha = float(node.get("alpha", 1.0))
    return product if alpha == 1 else product * alpha


def _turned(node: Node, x: Tensor, which: str) -> Tensor:
    if node.get(f"transBatch{which}", 0):  # (m, batch…, k) -> (batch…, m, k)
        x = x.permute((*range(1, x.ndim - 1), 0, x.ndim - 1))
    return x.transpose(-1, -2) if node.get(f"trans{which}", 0) and x.ndim > 1 else x


@operator("FusedGemm", since=(1,), domain=DOMAIN)
def fused_gemm(node: Node, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
    """activation(alpha * a @ b + beta * c)."""
    return activated(node, gemm(node, a, b, c))


@operator("BiasGelu", since=(1,), domain=DOMAIN)
def bias_gelu(node: Node, x: Tensor, bias: Tensor) -> Tensor:
    """gelu(x + bias), exact."""
    return (x + bias).gelu("none")


@operator("Gelu", since=(1,), domain=DOMAIN)
def gelu(node: Node, x: Tensor) -> Tensor:
    """Exact."""
    return x.gelu("none")


@operator("FastGelu", since=(1,), domain=DOMAIN)
def fast_gelu(node: Node, x: Tensor, bias: Tensor | None = None) -> Tensor:
    """gelu(x + bias) by a hyperbolic tangent."""
    return (x if bias is None else x + bias).gelu("tanh")


@operator("QuickGelu", since=(1,), domain=DOMAIN)
def quick_gelu(node: Node, x: Tensor) -> Tensor:
    """x * sigmoid(alpha * x)."""
    return x * (x * float(node.get("alpha", 1.702))).sigmoid()


@operator("BiasSoftmax", since=(1,), domain=DOMAIN)
def bias_softmax(node: Node, x: Tensor, bias: Tensor) -> Tensor:
    """softmax(x + bias) of all axes from `axis` on."""
    axis = axis_of(node, x, 1)
    total = x + bias
    return total.reshape((math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))).softmax(1).reshape(x.shape)


# ---- normalisations


def normalised(x: Tensor, scale: Tensor, bias: Tensor | None, epsilon: float, centred: bool) -> tuple[Tensor, ...]:
    """Of the last axis: result, mean and 1 / standard deviation."""
    wide = x if x.dtype is dtypes.float64 else x.cast(dtypes.float32)
    mean = wide.mean(-1, True)
    middle = wide - mean if centred else wide
    inverse = (middle.square().mean(-1, True) + epsilon).rsqrt()
    result = middle * inverse * scale.cast(wide.dtype)
    result = result if bias is None else result + bias.cast(wide.dtype)
    return result.cast(x.dtype), mean, inverse


@operator("SimplifiedLayerNormalization", since=(1,))
@operator("SimplifiedLayerNormalization", since=(1,), domain=DOMAIN)
def simplified_layer_normalisation(node: Node, x: Tensor, scale: Tensor) -> tuple[Tensor, ...]:
    """x / root of the mean of squares, from `axis` on; also that divisor's inverse."""
    axes = tuple(range(axis_of(node, x, -1), x.ndim))
    wide = x if x.dtype is dtypes.float64 else x.cast(dtypes.float32)
    inverse = (wide.square().mean(axes, True) + float(node.get("epsilon", 1e-5))).rsqrt()
    return ((wide * inverse).cast(scale.dtype) * scale, inverse)[: node.outputs]


@operator("SkipLayerNormalization", since=(1,), domain=DOMAIN)
def skip_layer_normalisation(
    node: Node,
    x: Tensor,
    skip: Tensor,
    scale: Tensor,
    bias: Tensor | None = None,
    before: Tensor | None = None,
) -> tuple[Value, ...]:
    """The layer norm of x + skip + before, and that sum."""
    total = x + skip if before is None else x + skip + before
    result, mean, inverse = normalised(total, scale, bias, float(node.get("epsilon", 1e-12)), True)
    return (result, mean, inverse, total)[: node.outputs]


@operator("SkipSimplifiedLayerNormalization", since=(1,), domain=DOMAIN)
def skip_simplified_layer_normalisation(
    node: Node, x: Tensor, skip: Tensor, scale: Tensor, before: Tensor | None = None
) -> tuple[Value, ...]:
    """The same without taking the mean off."""
    total = x + skip if before is None else x + skip + before
    result, mean, inverse = normalised(total, scale, None, float(node.get("epsilon", 1e-12)), False)
    return (result, mean, inverse, total)[: node.outputs]


def _rows(table: Tensor, index: Tensor) -> Tensor:
    return table.index_select(0, index.reshape((index.numel(),))).reshape((*index.shape, table.shape[1]))


@operator("EmbedLayerNormalization", since=(1,), domain=DOMAIN)
def embed_layer_normalisation(
    node: Node,
    words: Tensor,
    segments: Tensor | None,
    word_table: Tensor,
    position_table: Tensor,
    segment_table: Tensor | None,
    scale: Tensor,
    bias: Tensor,
    mask: Tensor | None = None,
    positions: Tensor | None = None,
) -> tuple[Value, ...]:
    """The layer norm of embeddings of words, positions and segments; how many words count; and the sum."""
    length = int(words.shape[1])
    places = position_table[:length].unsqueeze(0) if positions is None else _rows(position_table, positions)
    total = _rows(word_table, words) + places
    if segments is not None and segment_table is not None:
        total = total + _rows(segment_table, segments)
    result, _, _ = normalised(total, scale, bias, float(node.get("epsilon", 1e-12)), True)
    count = words[:, 0].cast(dtypes.int32) * 0 if mask is None else mask.sum(1).cast(dtypes.int32)
    return (result, count, total)[: node.outputs]
