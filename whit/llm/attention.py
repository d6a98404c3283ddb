"""Attention with a cache: shared heads, norms of queries and keys, rotation, caps, windows; and the compressed one
(MLA)."""

from __future__ import annotations

from typing import Any

from whit.dtype import dtypes
from whit.llm.cache import Cache
from whit.llm.config import Config, Latent
from whit.llm.families import NEXT
from whit.llm.layers import Norm, norm_of
from whit.llm.weights import Matrix, Weights
from whit.nn.module import Module
from whit.tensor import Tensor

Turns = tuple[Tensor, Tensor]  # cosines and sines of the positions, (positions, size / 2)


def turned(heads: Tensor, turns: Turns, pairs: str) -> Tensor:
    """Queries or keys (heads, positions, size), rotated. The first numbers of all pairs come first in the result
    whatever the order was: queries and keys are turned alike, so that their products are the same."""
    cos, sin = turns
    half = cos.shape[-1]
    first, rest = heads[..., : 2 * half], heads[..., 2 * half :]
    if pairs == NEXT:
        split = first.reshape(*first.shape[:-1], half, 2)
        a, b = split[..., 0], split[..., 1]
    else:
        a, b = first[..., :half], first[..., half:]
    parts = [a * cos - b * sin, b * cos + a * sin]
    return Tensor.cat(*parts, rest, dim=-1) if rest.shape[-1] else Tensor.cat(*parts, dim=-1)


def mixed(
    config: Config, queries: Tensor, keys: Tensor, values: Tensor, position: Any, window: int, is_causal: bool
) -> Tensor:
    """softmax(q k' * scale, capped and masked) v: (heads, rows, size) -> (heads, rows, value size). Heads that share
    keys are like rows of one head."""
    heads, rows, size = queries.shape
    shared = keys.shape[0]
    together = rows == 1
    grouped = queries.reshape(shared, heads // shared * rows, size) if together else queries
    if not together and shared != heads:
        keys, values = (x.repeat_interleave(heads // shared, 0) for x in (keys, values))
    scores = (grouped @ keys.cast(dtypes.float32).transpose(-2, -1)) * config.score_scale
    if config.score_cap:
        scores = (scores / config.score_cap).tanh() * config.score_cap
    seen = _seen(rows, keys.shape[1], position, window, is_causal, queries.device)
    if seen is not None:
        scores = seen.where(scores, -float("inf"))
    values = values.cast(dtypes.float32)
    if together:  # divided at the end, with less to do along a symbolic axis: 66 -> 51 us for 9 heads and 200 keys
        weights = (scores - scores.max(-1, keepdim=True)).exp()
        found = (weights @ values) / weights.sum(-1, keepdim=True)
    else:
        found = (scores.softmax(-1) @ values).contiguous()  # else in the order of what reads it, which is slow
    return found.reshape(heads, rows, values.shape[-1])


def _seen(rows: int, keys: Any, position: Any, window: int, is_causal: bool, device: str) -> Tensor | None:
    """Which keys each row may see; None: all of them."""
    if not is_causal or (rows == 1 and not window):
        return None
    place = Tensor.arange(keys, device=device)
    row = Tensor.arange(rows, device=device).unsqueeze(1) + position
    seen: Tensor = place <= row
    if window:
        seen = seen & (place > row - window)
    return seen


class Attention(Module):
    """Of one layer."""

    def __init__(self, config: Config, weights: Weights, name: str, layer: int) -> None:
        self.config, self.layer, self.window = config, layer, config.window(layer)
        rope = config.rope_of(layer)
        self.pairs = rope.pairs if rope is not None else ""
        self.has_local_turns = rope is not None and rope is config.local_rope
        queries, keys = config.heads * config.size, config.shared * config.size
        values, width = config.shared * config.value_size, config.width
        joined = f"{name}.attn_qkv"
        is_joined = f"{joined}.weight" in weights
        self.joined = weights.matrix(joined, queries + keys + values, width) if is_joined else None
        self.query = None if is_joined else weights.matrix(f"{name}.attn_q", queries, width)
        self.key = None if is_joined else weights.matrix(f"{name}.attn_k", keys, width)
        self.value = None if is_joined else weights.matrix(f"{name}.attn_v", values, width)
        self.out = weights.matrix(f"{name}.attn_output", width, config.heads * config.value_size)
        self.query_norm = _head_norm(config, weights, f"{name}.attn_q_norm", config.heads)
        self.key_norm = _head_norm(config, weights, f"{name}.attn_k_norm", config.shared)

    def __call__(self, x: Tensor, position: Any, turns: Turns | None, cache: Cache | None) -> Tensor:
        """(positions, width) -> (positions, width); without a cache these are all there are."""
        c = self.config
        rows = x.shape[0]
        query, key, value = self._projected(x)
        if c.clamp:
            query, key, value = (part.clamp(-c.clamp, c.clamp) for part in (query, key, value))
        queries, keys = query.reshape(rows, c.heads, c.size), key.reshape(rows, c.shared, c.size)
        queries = queries if self.query_norm is None else _normed(self.query_norm, queries)
        keys = keys if self.key_norm is None else _normed(self.key_norm, keys)
        values = value.reshape(rows, c.shared, c.value_size).transpose(0, 1)
        queries, keys = queries.transpose(0, 1), keys.transpose(0, 1)
        if turns is not None:
            queries, keys = turned(queries, turns, self.pairs), turned(keys, turns, self.pairs)
        if cache is not None:
            keys, values = cache.update(self.layer, keys, values, position)
        found = mixed(c, queries, keys, values, position, self.window, c.family.is_causal)
        return self.out(found.transpose(0, 1).reshape(rows, -1))

    def _projected(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if self.joined is None:
            assert self.query and self.key and self.value, "without a joined matrix there are three"
            return self.query(x), self.key(x), self.value(x)
        c = self.config
        first, second = c.heads * c.size, (c.heads + c.shared) * c.size
        found = self.joined(x)
        return found[:, :first], found[:, first:second], found[:, second:]


def _head_norm(config: Config, weights: Weights, name: str, heads: int) -> Norm | None:
    """A norm of each head, or of all of them as one row."""
    if f"{name}.weight" not in weights:
        return None
    shape = weights.entry(f"{name}.weight").shape
    if shape == (config.size,):
        return norm_of(config, weights, name, config.size)
    return norm_of(config, weights, name, *((heads, config.size) if len(shape) == 2 else (heads * config.size,)))


def _normed(norm: Norm, heads: Tensor) -> Tensor:
    """(positions, heads, size), by the shape of the norm's weight."""
    assert norm.weight is not None, "norms of heads have weights"
    if norm.weight.ndim == 1 and norm.weight.shape[0] != heads.shape[-1]:
        return norm(heads.flatten(1)).reshape(heads.shape)
    return norm(heads)


class LatentAttention(Module):
    """Keys and values are products of a short row that alone is kept (DeepSeek-V2): queries are multiplied into its
    space, and what was mixed there comes out of it."""

    def __init__(self, config: Config, latent: Latent, weights: Weights, name: str, layer: int) -> None:
        self.config, self.latent, self.layer = config, latent, layer
        self.pairs = config.rope.pairs if config.rope is not None else ""
        self.has_local_turns = False
        c, width, plain = config, config.width, config.size - latent.rope
        self.query_down = self.query_norm = None
        inner = width
        if latent.query_rank:
            inner = latent.query_rank
            self.query_down = weights.matrix(f"{name}.attn_q_a", inner, width)
            self.query_norm = norm_of(c, weights, f"{name}.attn_q_a_norm", inner)
        part = "attn_q_b" if latent.query_rank else "attn_q"
        self.query = weights.matrix(f"{name}.{part}", c.heads * c.size, inner)
        self.down = weights.matrix(f"{name}.attn_kv_a_mqa", latent.rank + latent.rope, width)
        self.norm = norm_of(c, weights, f"{name}.attn_kv_a_norm", latent.rank)
        self.both: Matrix | None = None
        if f"{name}.attn_kv_b.weight" in weights:
            self.both = weights.matrix(f"{name}.attn_kv_b", c.heads * (plain + c.value_size), latent.rank)
        else:
            self.into = weights.matrix(f"{name}.attn_k_b", c.heads, latent.rank, plain)
            self.from_ = weights.matrix(f"{name}.attn_v_b", c.heads, c.value_size, latent.rank)
        self.out = weights.matrix(f"{name}.attn_output", width, c.heads * c.value_size)

    def _factors(self) -> tuple[Tensor, Tensor]:
        """(heads, plain, rank) and (heads, value size, rank)."""
        c = self.config
        plain = c.size - self.latent.rope
        if self.both is None:
            return self.into.unpacked().transpose(-2, -1), self.from_.unpacked()
        found = self.both.unpacked().reshape(c.heads, plain + c.value_size, self.latent.rank)
        return found[:, :plain], found[:, plain:]

    def __call__(self, x: Tensor, position: Any, turns: Turns | None, cache: Cache | None) -> Tensor:
        """(positions, width) -> (positions, width)"""
        c, latent = self.config, self.latent
        rows, plain = x.shape[0], c.size - latent.rope
        inner = x if self.query_down is None else self.query_down(x)
        inner = inner if self.query_norm is None else self.query_norm(inner)
        queries = self.query(inner).reshape(rows, c.heads, c.size).transpose(0, 1)
        down = self.down(x)
        short, tail = down[:, : latent.rank], down[:, latent.rank :].unsqueeze(0)
        short = short if self.norm is None else self.norm(short)
        ends = queries[..., plain:]
        if turns is not None:
            ends, tail = turned(ends, turns, self.pairs), turned(tail, turns, self.pairs)
        into, back = self._factors()
        inside = Tensor.cat(queries[..., :plain] @ into, ends, dim=-1)  # (heads, rows, rank + rope)
        keys = Tensor.cat(short.unsqueeze(0), tail, dim=-1)
        if cache is not None:
            keys = cache.update_latent(self.layer, keys, position)
        found = mixed(c, inside, keys, keys[..., : latent.rank], position, 0, True)
        found = found @ back.transpose(-2, -1)  # (heads, rows, value size)
        return self.out(found.transpose(0, 1).reshape(rows, -1))
