"""Attention, and the block of a transformer that is made of it."""

from __future__ import annotations

from whit.dtype import DTypeLike
from whit.errors import ArgumentError, ShapeError
from whit.ir.op import spell_shape
from whit.nn.dropout import dropped
from whit.nn.functional.attention import attention_with_weights, scaled_dot_product_attention
from whit.nn.init import xavier_uniform
from whit.nn.linear import Linear
from whit.nn.module import Module
from whit.nn.norm import LayerNorm
from whit.nn.placed import placed
from whit.tensor import Tensor


class MultiHeadAttention(Module):
    """Attention of `n_heads` heads over x of shape (batch, time, dim), or from x to another sequence."""

    @placed
    def __init__(
        self,
        dim: int,
        n_heads: int,
        bias: bool = True,
        dropout: float = 0.0,
        device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
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
        rate = self.dropout if self.training else 0.0
        mixed = scaled_dot_product_attention(q, k, v, mask, rate, is_causal)
        return self.out(mixed.transpose(1, 2).reshape(x.shape))


class TransformerBlock(Module):
    """x + attention(norm(x)), then x + mlp(norm(x)); `prenorm=False` normalises after the sums instead."""

    @placed
    def __init__(
        self,
        dim: int,
        n_heads: int,
        ff_dim: int | None = None,
        prenorm: bool = True,
        dropout: float = 0.0,
        device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        hidden = 4 * dim if ff_dim is None else ff_dim
        self.attention = MultiHeadAttention(dim, n_heads, dropout=dropout)
        self.norm1, self.norm2 = LayerNorm(dim), LayerNorm(dim)
        self.ff1, self.ff2 = Linear(dim, hidden), Linear(hidden, dim)
        self.prenorm, self.dropout = prenorm, dropout

    def _mlp(self, x: Tensor) -> Tensor:
        return self.ff2(self.ff1(x).gelu())

    def _drop(self, x: Tensor) -> Tensor:
        return dropped(x, self.dropout, self.training)

    def __call__(self, x: Tensor, mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        """x of shape (batch, time, dim) gives the same shape; mask and is_causal as in MultiHeadAttention."""
        if self.prenorm:
            x = x + self._drop(self.attention(self.norm1(x), mask=mask, is_causal=is_causal))
            return x + self._drop(self._mlp(self.norm2(x)))
        x = self.norm1(x + self._drop(self.attention(x, mask=mask, is_causal=is_causal)))
        return self.norm2(x + self._drop(self._mlp(x)))


class MultiheadAttention(Module):
    """PyTorch's: queries, keys and values are given, the weights of all three are one, and masks say what is hidden.

    bias_k, bias_v      with `add_bias_kv`: one more key and value, which are trained
    add_zero_attn       one more key and value of zeros
    kdim, vdim          sizes of keys and values, where they are not those of queries
    """

    @placed
    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        if num_heads < 1 or embed_dim % num_heads:
            raise ArgumentError(
                f"MultiheadAttention: embed_dim={embed_dim} does not divide into {num_heads} heads",
                fix="It must be a multiple.",
            )
        self.embed_dim, self.num_heads, self.dropout, self.batch_first = embed_dim, num_heads, dropout, batch_first
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        if self.kdim == self.vdim == embed_dim:
            self.in_proj_weight = xavier_uniform(3 * embed_dim, embed_dim)
        else:
            self.q_proj_weight = xavier_uniform(embed_dim, embed_dim)
            self.k_proj_weight = xavier_uniform(embed_dim, self.kdim)
            self.v_proj_weight = xavier_uniform(embed_dim, self.vdim)
        self.in_proj_bias = Tensor.zeros(3 * embed_dim) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias)
        if self.out_proj.bias is not None:
            self.out_proj.bias = Tensor.zeros(embed_dim)
        self.bias_k = Tensor.normal(1, 1, embed_dim, std=embed_dim**-0.5) if add_bias_kv else None
        self.bias_v = Tensor.normal(1, 1, embed_dim, std=embed_dim**-0.5) if add_bias_kv else None
        self.add_zero_attn = add_zero_attn

    def _projected(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        """The three times their weights; one product where all are the same."""
        bias = self.in_proj_bias
        if self.kdim == self.vdim == self.embed_dim:
            if query is key and key is value:
                return list(query.linear(self.in_proj_weight.transpose(), bias).chunk(3, -1))
            weights = self.in_proj_weight.chunk(3)
        else:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        biases = (None, None, None) if bias is None else bias.chunk(3)
        pairs = zip((query, key, value), weights, biases, strict=True)
        return [x.linear(weight.transpose(), offset) for x, weight, offset in pairs]

    def __call__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Queries (time, batch, embed_dim), or (batch, time, ...) with `batch_first`, or without a batch; keys and
        values of one other time. The result, and the weights (batch, queries, keys), or of each head.

        Masks: True where a position is hidden, or numbers that are added to scores; `key_padding_mask` of
        (batch, keys), `attn_mask` of (queries, keys) or (batch * heads, queries, keys). `is_causal` without a mask
        hides what comes later. `need_weights=False` is faster, and needs no memory for them.
        """
        self._check(query, key, value)
        has_batch = query.ndim == 3
        if not has_batch:
            query, key, value = self._one_batch(query, key, value)
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        q, k, v = self._projected(query, key, value)
        if has_batch and not self.batch_first:
            q, k, v = (x.transpose(0, 1) for x in (q, k, v))
        mask = self._mask(key_padding_mask, attn_mask, is_causal, q, k)
        k, v, mask = self._extended(k, v, mask)
        heads = self._heads(q), self._heads(k), self._heads(v)
        rate = self.dropout if self.training else 0.0
        weights: Tensor | None = None
        if need_weights:
            mixed, weights = attention_with_weights(*heads, mask, rate)
            weights = weights.mean(1) if average_attn_weights else weights
        else:
            mixed = scaled_dot_product_attention(*heads, mask, rate)
        found = self.out_proj(mixed.transpose(1, 2).reshape(q.shape))
        if not has_batch:
            return found.squeeze(0), None if weights is None else weights.squeeze(0)
        return found if self.batch_first else found.transpose(0, 1), weights

    @staticmethod
    def _one_batch(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """A batch of one; the three are still the same if they were."""
        if query is key and key is value:
            alone = query.unsqueeze(0)
            return alone, alone, alone
        return query.unsqueeze(0), key.unsqueeze(0), value.unsqueeze(0)

    def _check(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        shapes = [x.shape for x in (query, key, value)]
        sizes = [self.embed_dim, self.kdim, self.vdim]
        has_axes = query.ndim in (2, 3) and key.ndim == value.ndim == query.ndim
        if has_axes and [shape[-1] for shape in shapes] == sizes and key.shape[:-1] == value.shape[:-1]:
            return
        raise ShapeError(
            f"MultiheadAttention: queries, keys and values {', '.join(map(spell_shape, shapes))}",
            f"queries {query._made()}, keys {key._made()}, values {value._made()}",
            f"They have 3 axes each (or 2, without a batch), and the last ones are {', '.join(map(str, sizes))}.",
        )

    def _heads(self, x: Tensor) -> Tensor:
        return x.reshape(*x.shape[:2], self.num_heads, self.embed_dim // self.num_heads).transpose(1, 2)

    def _mask(
        self, padding: Tensor | None, mask: Tensor | None, is_causal: bool, q: Tensor, k: Tensor
    ) -> Tensor | None:
        """Both masks as one for (batch, heads, queries, keys): True where a position is seen, or numbers."""
        queries, keys = q.shape[1], k.shape[1]
        if mask is None and is_causal:
            mask = Tensor.ones(queries, keys, dtype="bool", device=q.device).triu(1)
        parts = []
        if mask is not None:
            shape = (q.shape[0], self.num_heads, queries, keys) if mask.ndim == 3 else (1, 1, queries, keys)
            parts.append(self._reshaped("attn_mask", mask, shape))
        if padding is not None:
            parts.append(self._reshaped("key_padding_mask", padding, (k.shape[0], 1, 1, keys)))
        if not parts:
            return None
        if all(part.dtype.is_bool for part in parts):
            return ~(parts[0] if len(parts) == 1 else parts[0] | parts[1])
        numbers = [part.where(-float("inf"), 0.0) if part.dtype.is_bool else part for part in parts]
        return numbers[0] if len(numbers) == 1 else numbers[0] + numbers[1]

    @staticmethod
    def _reshaped(name: str, mask: Tensor, shape: tuple[int, ...]) -> Tensor:
        wanted = 1
        for size in shape:
            wanted *= size
        if mask.numel() != wanted or mask.shape[-1] != shape[-1]:
            raise ShapeError(
                f"MultiheadAttention: {name} {spell_shape(mask.shape)} for (batch, heads, queries, keys) of "
                f"{spell_shape(shape)}",
                mask._made(),
                "It is (queries, keys), (batch * heads, queries, keys), or for padding (batch, keys).",
            )
        return mask.reshape(shape)

    def _extended(self, k: Tensor, v: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
        """Keys and values with those that are added, which everybody sees."""
        batch, more = k.shape[0], 0
        if self.bias_k is not None and self.bias_v is not None:
            k = k.cat(self.bias_k.expand(batch, 1, self.embed_dim), dim=1)
            v = v.cat(self.bias_v.expand(batch, 1, self.embed_dim), dim=1)
            more += 1
        if self.add_zero_attn:
            k, v = (x.pad(((0, 0), (0, 1), (0, 0))) for x in (k, v))
            more += 1
        if mask is not None and more:
            seen = mask.dtype.is_bool
            mask = (~mask).pad((0, more)).logical_not() if seen else mask.pad((0, more))
        return k, v, mask
