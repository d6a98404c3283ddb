"""Attention as it is in encoders: packed projections, masks of several kinds, a past.

Attention             x @ weights + bias gives queries, keys and values
MultiHeadAttention    queries, keys and values are given, packed or not
RotaryEmbedding       turns pairs of elements by angles of their positions
"""

from __future__ import annotations

import math
from typing import Any

from whit.dtype import dtypes
from whit.onnx.operators.attention import join_heads, rotate, shared_heads, split_heads
from whit.onnx.operators.microsoft.fused import DOMAIN
from whit.onnx.operators.registry import Node, Value, operator
from whit.tensor import Tensor


def attended(node: Node, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, hidden: Tensor | None) -> Tensor:
    """(batch, heads, length, size) all: softmax(q @ k.T * scale + bias) @ v; what is hidden counts for next to
    nothing."""
    heads = int(q.shape[1])
    k, v = shared_heads(k, heads), shared_heads(v, heads)
    scale = float(node.get("scale") or 1 / math.sqrt(int(q.shape[-1])))
    if bias is None and hidden is None and not node.get("softcap", 0.0):
        return q.scaled_dot_product_attention(k, v, scale=scale)
    wide = q.dtype if q.dtype is dtypes.float64 else dtypes.float32
    scores = (q @ k.transpose(-1, -2)).cast(wide) * scale
    cap = float(node.get("softcap", 0.0))
    scores = (scores / cap).tanh() * cap if cap else scores
    scores = scores if bias is None else scores + bias.cast(wide)
    if hidden is not None:
        scores = hidden.where(float(node.get("mask_filter_value", -10000.0)) + scores * 0, scores)
    return scores.softmax(-1).cast(v.dtype) @ v


def hidden_by(mask: Tensor, batch: int, rows: int, total: int) -> Tensor:
    """A mask, of one of the shapes that there are -> True where a key is not to be looked at."""
    if mask.ndim == 1:  # how many keys of each sequence count, or also where they begin
        column = Tensor.arange(total, device=mask.device, dtype=dtypes.int64)
        end = mask[:batch].cast(dtypes.int64).reshape((batch, 1, 1, 1))
        if mask.shape[0] == batch:
            return column >= end
        if mask.shape[0] == 2 * batch:
            return (column >= end) | (column < mask[batch:].cast(dtypes.int64).reshape((batch, 1, 1, 1)))
        return column >= mask[:batch].cast(dtypes.int64).reshape((batch, 1, 1, 1))
    off = mask == 0
    if mask.ndim == 2:
        return off.reshape((batch, 1, 1, mask.shape[1]))
    if mask.ndim == 3:
        return off.unsqueeze(1)
    return off[:, :, total - rows : total, :total]


def after_now(q: Tensor, total: int) -> Tensor:
    """True where a key is later than the query, the last of which stands at the last key."""
    rows = int(q.shape[2])
    row = Tensor.arange(rows, device=q.device).reshape((rows, 1)) + (total - rows)
    return Tensor.arange(total, device=q.device) > row


@operator("Attention", since=(1,), domain=DOMAIN)
def packed_attention(
    node: Node,
    x: Tensor,
    weights: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    past: Tensor | None = None,
    more: Tensor | None = None,
    _: Tensor | None = None,
) -> tuple[Value, ...]:
    """(batch, length, in) with (in, sizes of q, k and v): the output, and the keys and values with their past."""
    product = x @ weights
    return from_packed(node, product if bias is None else product + bias, mask, past, more)


def from_packed(
    node: Node, product: Tensor, mask: Tensor | None, past: Tensor | None, more: Tensor | None
) -> tuple[Value, ...]:
    """The same from the projections."""
    heads, wide = int(node.get("num_heads")), int(product.shape[-1])
    sizes = [int(size) for size in node.get("qkv_hidden_sizes") or (wide // 3,) * 3]
    q, k, v = (split_heads(part, heads) for part in product.split(sizes, dim=2))
    if past is not None:
        k, v = past[0].cat(k, dim=2), past[1].cat(v, dim=2)
    present = k.stack(v, dim=0) if node.outputs > 1 else None
    hidden = _hidden(node, q, mask, int(k.shape[2]))
    result = join_heads(attended(node, q, k, v, more, hidden))
    return (result, present)[: node.outputs]


def _hidden(node: Node, q: Tensor, mask: Tensor | None, total: int) -> Tensor | None:
    hidden = None if mask is None else hidden_by(mask, int(q.shape[0]), int(q.shape[2]), total)
    if node.get("unidirectional", 0):
        later = after_now(q, total)
        hidden = later if hidden is None else hidden | later
    return hidden


def _parts(
    node: Node, query: Tensor, key: Tensor | None, value: Tensor | None, bias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values by heads, however they are packed."""
    heads = int(node.get("num_heads"))
    if query.ndim == 5:  # (batch, length, heads, 3, size)
        q, k, v = (query[:, :, :, i].transpose(1, 2) for i in range(3))
        return q, k, v
    shift: list[Any] = [None, None, None]
    if bias is not None:
        wide = int(query.shape[-1])
        shift = [bias[:wide], bias[wide : 2 * wide], bias[2 * wide :]]
    q = split_heads(query if shift[0] is None else query + shift[0], heads)
    if key is not None and key.ndim == 5:  # (batch, length, heads, 2, size)
        return q, key[:, :, :, 0].transpose(1, 2), key[:, :, :, 1].transpose(1, 2)
    k, v = (
        part if part.ndim == 4 else split_heads(part if added is None else part + added, heads)
        for part, added in (
            (key if key is not None else query, shift[1]),
            (value if value is not None else query, shift[2]),
        )
    )
    return q, k, v


@operator("MultiHeadAttention", since=(1,), domain=DOMAIN)
def multi_head_attention(
    node: Node,
    query: Tensor,
    key: Tensor | None = None,
    value: Tensor | None = None,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    more: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
) -> tuple[Value, ...]:
    """The output, and the keys and values with their past."""
    q, k, v = _parts(node, query, key, value, bias)
    if past_key is not None and past_value is not None and not (key is not None and key.ndim == 4):
        k, v = past_key.cat(k, dim=2), past_value.cat(v, dim=2)
    hidden = _hidden(node, q, mask, int(k.shape[2]))
    return (join_heads(attended(node, q, k, v, more, hidden)), k, v)[: node.outputs]


def rotated(node: Node, x: Tensor, positions: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """(batch, heads, length, size) with the first elements of each head turned; positions (batch, length)."""
    size = 2 * int(cos.shape[1])
    flat = positions.cast(dtypes.int64).reshape((positions.numel(),))
    angles = [t.index_select(0, flat).reshape((*positions.shape, t.shape[1])).unsqueeze(1) for t in (cos, sin)]
    interleaved = bool(node.get("interleaved", node.get("rotary_interleaved", 0)))
    turned = rotate(x[..., :size], angles[0].cast(x.dtype), angles[1].cast(x.dtype), interleaved)
    return turned if size == x.shape[-1] else turned.cat(x[..., size:], dim=-1)


@operator("RotaryEmbedding", since=(1,), domain=DOMAIN)
def rotary_embedding(node: Node, x: Tensor, positions: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Heads from the attribute, or from the size of the angles; one position is that of the first element."""
    is_flat = x.ndim == 3
    count = int(node.get("num_heads", 0)) or int(x.shape[-1]) // (2 * int(cos.shape[1])) if is_flat else 0
    heads = split_heads(x, count) if is_flat else x
    batch, length = int(heads.shape[0]), int(heads.shape[2])
    places = positions
    if positions.numel() == 1 and (batch, length) != (1, 1):
        places = positions.reshape((1, 1)) + Tensor.arange(length, device=x.device, dtype=positions.dtype)
        places = places.expand((batch, length))
    turned = rotated(node, heads, places.reshape((batch, length)), cos, sin)
    return join_heads(turned) if is_flat else turned
