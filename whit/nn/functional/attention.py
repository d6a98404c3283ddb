"""Attention with PyTorch's arguments."""

from __future__ import annotations

from whit.nn.dropout import dropped
from whit.tensor import Tensor


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(query @ key' * scale + mask) @ value; `dropout_p` holds whether somebody is training or not.

    A mask of bools says what may be seen, one of floats is added. A query that sees nothing gives 0.
    """
    with Tensor.train(dropout_p > 0 or Tensor.training):
        return query.scaled_dot_product_attention(key, value, attn_mask, dropout_p, is_causal, enable_gqa, scale)


def attention_with_weights(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout_p: float
) -> tuple[Tensor, Tensor]:
    """The same with the weights, (..., queries, keys), which are stored for it."""
    scores = (query * query.shape[-1] ** -0.5) @ key.transpose(-2, -1)
    if mask is not None:
        scores = mask.where(scores, -float("inf")) if mask.dtype.is_bool else scores + mask.cast(scores.dtype)
    weights = dropped(scores.softmax(-1), dropout_p, dropout_p > 0)
    return weights @ value, weights
