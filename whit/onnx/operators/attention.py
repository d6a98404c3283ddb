"""Attention, rotary positions, and the linear attention that carries a state instead of a past."""

from __future__ import annotations

import math
from typing import Any

from whit.dtype import dtypes
from whit.errors import ArgumentError
from whit.onnx.operators.element_types import dtype_of
from whit.onnx.operators.registry import Node, Value, operator
from whit.tensor import Tensor


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(batch, length, heads * size) -> (batch, heads, length, size)."""
    batch, length, wide = x.shape
    return x.reshape((batch, length, heads, wide // heads)).transpose(1, 2)


def join_heads(x: Tensor) -> Tensor:
    """(batch, heads, length, size) -> (batch, length, heads * size)."""
    batch, heads, length, size = x.shape
    return x.transpose(1, 2).reshape((batch, length, heads * size))


def shared_heads(x: Tensor, heads: int) -> Tensor:
    """Keys or values of fewer heads, each for a group of neighbours."""
    count = int(x.shape[1])
    return x if count == heads else x.repeat_interleave(heads // count, dim=1)


def _bias(node: Node, q: Tensor, k: Tensor, mask: Tensor | None, known: Tensor | None, past: int) -> Tensor | None:
    """What is added to the scores: the mask, what is in the future, what is padding."""
    total, low = int(k.shape[2]), -float("inf")
    bias = None
    if mask is not None:
        bias = mask.where(0.0, low).cast(q.dtype) if mask.dtype.is_bool else mask.cast(q.dtype)
        missing = total - int(bias.shape[-1])
        if missing > 0:
            bias = bias.pad([(0, 0)] * (bias.ndim - 1) + [(0, missing)], value=low)
    column = Tensor.arange(total, device=q.device, dtype=dtypes.int64)
    hidden = None
    if node.get("is_causal", 0):
        row = Tensor.arange(q.shape[2], device=q.device, dtype=dtypes.int64).reshape((-1, 1)) + past
        if known is not None:  # the last query looks at the last key that is no padding
            row = row + (known.cast(dtypes.int64) - int(q.shape[2])).reshape((-1, 1, 1, 1))
        hidden = column > row
    if known is not None:
        padding = column >= known.cast(dtypes.int64).reshape((-1, 1, 1, 1))
        hidden = padding if hidden is None else hidden | padding
    if hidden is None:
        return bias
    return hidden.where(low, 0.0 if bias is None else bias).cast(q.dtype)


@operator("Attention", since=(23, 24))
def attention(
    node: Node,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    known: Tensor | None = None,
) -> tuple[Value, ...]:
    """softmax(q @ k.T * scale + bias) @ v; also the keys and values with their past, and the scores."""
    is_flat = q.ndim == 3
    if is_flat:
        few = int(node.get("kv_num_heads"))
        q, k, v = split_heads(q, int(node.get("q_num_heads"))), split_heads(k, few), split_heads(v, few)
    past = 0
    if past_key is not None and past_value is not None:
        past = int(past_key.shape[2])
        k, v = past_key.cat(k, dim=2), past_value.cat(v, dim=2)
    present = (k, v)
    heads = int(q.shape[1])
    k, v = shared_heads(k, heads), shared_heads(v, heads)
    scale = node.get("scale") or 1 / math.sqrt(int(q.shape[-1]))
    bias = _bias(node, q, k, mask, known, past)
    result, scores = _attend(node, (q, k, v), bias, float(scale))
    return (join_heads(result) if is_flat else result, *present, scores)[: node.outputs]


def _attend(node: Node, parts: tuple[Tensor, ...], bias: Tensor | None, scale: float) -> tuple[Tensor, Tensor | None]:
    q, k, v = parts
    softcap, precision = float(node.get("softcap", 0.0)), int(node.get("softmax_precision", 0))
    if not softcap and node.outputs < 4 and not precision and bias is None:
        return q.scaled_dot_product_attention(k, v, scale=scale), None
    root = math.sqrt(scale)
    product = (q * root) @ (k * root).transpose(-1, -2)
    capped = (product / softcap).tanh() * softcap if softcap else product
    masked = capped if bias is None else capped + bias
    wide = masked.cast(dtype_of(precision)) if precision else masked
    highest = wide.max(-1, True)
    powers = (wide - (highest == -float("inf")).where(0, highest)).exp()
    total = powers.sum(-1, True)
    shares = (total == 0).where(0, powers / total).cast(q.dtype)  # a row without keys sees nothing
    shown = (product, capped, masked, shares)[int(node.get("qk_matmul_output_mode", 0))]
    return shares @ v, shown


def rotate(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
    """Pairs of the last axis, neighbours or from the two halves, turned by angles."""
    if interleaved:
        pairs = x.reshape((*x.shape[:-1], x.shape[-1] // 2, 2))
        a, b = pairs[..., 0], pairs[..., 1]
        return (cos * a - sin * b).stack(sin * a + cos * b, dim=-1).reshape(x.shape)
    a, b = x.chunk(2, dim=-1)
    return (cos * a - sin * b).cat(sin * a + cos * b, dim=-1)


@operator("RotaryEmbedding", since=(23,))
def rotary_embedding(node: Node, x: Tensor, cos: Tensor, sin: Tensor, positions: Tensor | None = None) -> Tensor:
    """The first elements of each head turned by the angles of their position."""
    is_flat = x.ndim == 3
    if is_flat and not node.get("num_heads", 0):
        raise ArgumentError(f"{node}: 3 axes without num_heads", fix="The model is wrong.")
    heads = split_heads(x, int(node.get("num_heads"))) if is_flat else x
    size = int(node.get("rotary_embedding_dim", 0)) or int(heads.shape[-1])
    if positions is not None:
        flat = positions.reshape((positions.numel(),))
        cos, sin = (t.index_select(0, flat).reshape((*positions.shape, t.shape[-1])) for t in (cos, sin))
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    turned = rotate(heads[..., :size], cos, sin, bool(node.get("interleaved", 0)))
    result = turned if size == heads.shape[-1] else turned.cat(heads[..., size:], dim=-1)
    return join_heads(result) if is_flat else result


@operator("LinearAttention", since=(27,))
def linear_attention(
    node: Node,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    state: Tensor | None = None,
    decay: Tensor | None = None,
    beta: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """One state of keys times values for each head, changed at every position and read by the query."""
    heads, few = int(node.get("q_num_heads")), int(node.get("kv_num_heads"))
    rule = node.get("update_rule", "gated_delta")
    length, dtype = int(q.shape[1]), q.dtype
    wide = dtypes.float64 if dtype is dtypes.float64 else dtypes.float32
    queries, keys, values = (split_heads(x.cast(wide), n) for x, n in ((q, heads), (k, few), (v, few)))
    batch, size_k, size_v = int(q.shape[0]), int(keys.shape[-1]), int(values.shape[-1])
    scale = float(node.get("scale", 0.0)) or 1 / math.sqrt(size_k)
    memory = (
        Tensor.zeros(batch, few, size_k, size_v, dtype=wide, device=q.device) if state is None else state.cast(wide)
    )
    gates: Any = None if decay is None or "gated" not in rule else split_heads(decay.cast(wide), few).exp()
    rates: Any = None if beta is None or "delta" not in rule else beta.cast(wide).transpose(1, 2).unsqueeze(-1)
    outputs = []
    for t in range(length):
        if gates is not None:
            memory = memory * gates[:, :, t].unsqueeze(-1)
        key, value = keys[:, :, t].unsqueeze(-1), values[:, :, t].unsqueeze(-2)
        if rates is not None:
            value = (value - (key * memory).sum(-2, True)) * rates[:, :, t].unsqueeze(-1)
        memory = memory + key * value
        shared = shared_heads(memory, heads)
        outputs.append((queries[:, :, t].unsqueeze(-2) @ shared).squeeze(-2) * scale)
    result = outputs[0].stack(*outputs[1:], dim=2)
    return join_heads(result).cast(dtype), memory.cast(dtype if state is None else state.dtype)
