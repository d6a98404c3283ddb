"""GroupQueryAttention: what decoders of language models are made of.

Sequences of a batch have pasts of different lengths. The cache has room for the longest; new keys and values are put
behind the past of each sequence, and a query looks at the keys up to its own position.
"""

from __future__ import annotations

from typing import Any

from whit.dtype import dtypes
from whit.onnx.operators.attention import join_heads, split_heads
from whit.onnx.operators.microsoft.attention import attended, rotated
from whit.onnx.operators.microsoft.fused import DOMAIN
from whit.onnx.operators.registry import Node, Value, host_int_list, operator
from whit.tensor import Tensor


def _cached(past: Tensor | None, new: Tensor, start: Tensor, room: int) -> Tensor:
    """(batch, heads, room, size): the past with the new elements from `start` (batch,) on."""
    batch, heads, length, size = (int(n) for n in new.shape)
    known = 0 if past is None else int(past.shape[2])
    if past is None or known == 0:
        cache = Tensor.zeros(batch, heads, room, size, dtype=new.dtype, device=new.device)
    else:
        cache = past.pad([(0, 0), (0, 0), (0, room - known), (0, 0)])
    step = Tensor.arange(length, device=new.device, dtype=dtypes.int64)
    place = start.reshape((batch, 1, 1, 1)) + step.reshape((1, 1, length, 1))
    return cache.scatter(2, place.expand(new.shape), new)


def _heads(node: Node, query: Tensor, key: Tensor | None, value: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    heads, few = int(node.get("num_heads")), int(node.get("kv_num_heads"))
    if key is None or value is None:  # all in one
        size = int(query.shape[2]) // (heads + 2 * few)
        query, key, value = query.split([heads * size, few * size, few * size], dim=2)
    return split_heads(query, heads), split_heads(key, few), split_heads(value, few)


@operator("GroupQueryAttention", since=(1,), domain=DOMAIN, host=(6,))
def group_query_attention(
    node: Node,
    query: Tensor,
    key: Tensor | None,
    value: Tensor | None,
    past_key: Tensor | None,
    past_value: Tensor | None,
    last: Tensor,
    total: Value,
    cos: Tensor | None = None,
    sin: Tensor | None = None,
    positions: Tensor | None = None,
    more: Tensor | None = None,
    *_: Any,
) -> tuple[Value, ...]:
    """The output, and the caches of keys and values; `last` is the position of the last key of each sequence."""
    q, k, v = _heads(node, query, key, value)
    batch, length, longest = int(q.shape[0]), int(q.shape[2]), host_int_list(total)[0]
    room = max(longest, 0 if past_key is None else int(past_key.shape[2]))
    ends = last.cast(dtypes.int64).reshape((batch,))
    start = ends * 0 if longest == length else ends + 1 - length
    step = Tensor.arange(length, device=q.device, dtype=dtypes.int64)
    place = start.reshape((batch, 1)) + step.reshape((1, length))
    if node.get("do_rotary", 0) and cos is not None and sin is not None:
        turned = place if positions is None else positions.reshape((batch, length))
        q, k = rotated(node, q, turned, cos, sin), rotated(node, k, turned, cos, sin)
    keys, values = _cached(past_key, k, start, room), _cached(past_value, v, start, room)
    column = Tensor.arange(room, device=q.device, dtype=dtypes.int64).reshape((1, 1, room))
    hidden = (column > place.unsqueeze(2)) | (column > ends.reshape((batch, 1, 1)))
    window = int(node.get("local_window_size", -1))
    if window > 0:
        hidden = hidden | (column <= place.unsqueeze(2) - window)
    if more is not None and more.shape[-1] < room:
        more = more.pad([(0, 0)] * (more.ndim - 1) + [(0, room - int(more.shape[-1]))])
    filled = Node(
        node.op_type,
        node.domain,
        node.version,
        node.name,
        node.outputs,
        {**node.attributes, "mask_filter_value": -1e30},
    )
    result = attended(filled, q, keys, values, more, hidden.unsqueeze(1))
    return (join_heads(result), keys, values)[: node.outputs]
