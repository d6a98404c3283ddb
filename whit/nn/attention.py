"""Attention, and the block of a transformer that is made of it."""

from __future__ import annotations

from whit.errors import ArgumentError
from whit.nn.linear import Linear
from whit.nn.module import Module
from whit.nn.norm import LayerNorm
from whit.tensor import Tensor


class MultiHeadAttention(Module):
    """Attention of `n_heads` heads over x of shape (batch, time, dim), or from x to another sequence."""

    def __init__(self, dim: int, n_heads: int, bias: bool = True, dropout: float = 0.0) -> None:
        if dim % n_heads:
            raise ArgumentError(f"MultiHeadAttention: dim={dim} does not divide into {n_heads} heads")
        self.n_heads, self.head_dim, self.dropout = n_heads, dim // n_heads, dropout
        self.query, self.key, self.value = (Linear(dim, dim, bias) for _ in range(3))
        self.out = Linear(dim, dim, bias)

    def _heads(self, x: Tensor) -> Tensor:
        return x.reshape(*x.shape[:2], self.n_heads, self.head_dim).transpose(1, 2)

    def __call__(
        self, x: Tensor, other: Tensor | None = None, mask: Tensor | None = None, is_causal: bool = False
    ) -> Tensor:
        """x of shape (batch, time, dim) gives the same shape; `other` is attended to instead of x. `mask`: True where a
        position may be seen, or numbers that are added to the scores."""
        source = x if other is None else other
        q, k, v = self._heads(self.query(x)), self._heads(self.key(source)), self._heads(self.value(source))
        mixed = q.scaled_dot_product_attention(k, v, mask, self.dropout, is_causal)
        return self.out(mixed.transpose(1, 2).reshape(x.shape))


class TransformerBlock(Module):
    """x + attention(norm(x)), then x + mlp(norm(x)); `prenorm=False` normalises after the sums instead."""

    def __init__(
        self, dim: int, n_heads: int, ff_dim: int | None = None, prenorm: bool = True, dropout: float = 0.0
    ) -> None:
        hidden = 4 * dim if ff_dim is None else ff_dim
        self.attention = MultiHeadAttention(dim, n_heads, dropout=dropout)
        self.norm1, self.norm2 = LayerNorm(dim), LayerNorm(dim)
        self.ff1, self.ff2 = Linear(dim, hidden), Linear(hidden, dim)
        self.prenorm, self.dropout = prenorm, dropout

    def _mlp(self, x: Tensor) -> Tensor:
        return self.ff2(self.ff1(x).gelu())

    def __call__(self, x: Tensor, mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        """x of shape (batch, time, dim) gives the same shape; mask and is_causal as in MultiHeadAttention."""
        if self.prenorm:
            x = x + self.attention(self.norm1(x), mask=mask, is_causal=is_causal).dropout(self.dropout)
            return x + self._mlp(self.norm2(x)).dropout(self.dropout)
        x = self.norm1(x + self.attention(x, mask=mask, is_causal=is_causal).dropout(self.dropout))
        return self.norm2(x + self._mlp(x).dropout(self.dropout))
