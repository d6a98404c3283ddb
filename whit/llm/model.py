"""The transformer: one for all families, made of what the file has.

    model = Transformer(config, weights)
    hidden = model(tokens, position, cache)     # (positions, width)
    model.logits(hidden)                        # (positions, words)

A block is   x + attention(norm x), then x + feed_forward(norm x)

with norms in front, behind (gemma, olmo2), or after each sum (bert), where the file has them; or both from the same x
(falcon, gptneox, command-r). All of it are plain modules of tensors: change a layer by assigning another one.
"""

from __future__ import annotations

from typing import Any

from whit.llm.attention import Attention, LatentAttention, Turns
from whit.llm.cache import Cache
from whit.llm.config import Config, Rope
from whit.llm.layers import FeedForward, MixedExperts, Norm, norm_of
from whit.llm.rope import table
from whit.llm.weights import Matrix, Weights
from whit.nn.module import Module
from whit.tensor import Tensor


class Block(Module):
    """One layer."""

    def __init__(self, config: Config, weights: Weights, layer: int, hidden: int) -> None:
        name = f"blk.{layer}"
        self.is_parallel, self.scale = config.is_parallel, config.residual_scale

        def norm(part: str) -> Norm | None:
            return norm_of(config, weights, f"{name}.{part}", config.width)

        plain = Norm("layer", config.epsilon, None, None) if config.family.name == "olmo" else None
        self.attention_norm, self.norm = norm("attn_norm") or plain, norm("ffn_norm") or plain
        if config.is_parallel and self.norm is None and f"{name}.attn_norm_2.weight" in weights:
            self.attention_norm, self.norm = norm("attn_norm_2"), self.attention_norm  # falcon 40b
        self.after_attention, self.after = norm("post_attention_norm"), norm("post_ffw_norm")
        self.sum_norm, self.last_norm = norm("attn_output_norm"), norm("layer_output_norm")
        latent, experts = config.latent, config.experts
        self.attention: Attention | LatentAttention = (
            Attention(config, weights, name, layer)
            if latent is None
            else LatentAttention(config, latent, weights, name, layer)
        )
        self.feed_forward: FeedForward | MixedExperts = (
            FeedForward(config, weights, name, hidden)
            if experts is None or f"{name}.ffn_gate_inp.weight" not in weights
            else MixedExperts(config, experts, weights, name)
        )

    def __call__(self, x: Tensor, position: Any, turns: Turns | None, cache: Cache | None) -> Tensor:
        """(positions, width) -> (positions, width)"""
        first = _applied(self.attention_norm, x)
        found = _applied(self.after_attention, self.attention(first, position, turns, cache))
        if self.is_parallel:
            second = first if self.norm is None else self.norm(x)
            return x + found + self.feed_forward(second)
        x = _applied(self.sum_norm, x + self._scaled(found))
        found = _applied(self.after, self.feed_forward(_applied(self.norm, x)))
        return _applied(self.last_norm, x + self._scaled(found))

    def _scaled(self, x: Tensor) -> Tensor:
        return x if self.scale == 1.0 else x * self.scale


def _applied(norm: Norm | None, x: Tensor) -> Tensor:
    return x if norm is None else norm(x)


class Transformer(Module):
    """All layers, and the words in front and behind."""

    def __init__(self, config: Config, weights: Weights, hidden: tuple[int, ...], context: int) -> None:
        self.config, self.context = config, context
        self.words = weights.matrix("token_embd", config.words, config.width)
        self.places = _places(config, weights)
        types = "token_types.weight"
        self.first_type = weights.floats(types)[0].realize() if types in weights else None
        self.words_norm = norm_of(config, weights, "token_embd_norm", config.width)
        self.blocks = [Block(config, weights, i, hidden[i]) for i in range(config.layers)]
        is_plain = config.family.name == "olmo"
        self.norm = (
            Norm("layer", config.epsilon, None, None)
            if is_plain
            else norm_of(config, weights, "output_norm", config.width)
        )
        has_output = "output.weight" in weights
        self.output: Matrix = weights.matrix("output", config.words, config.width) if has_output else self.words
        self.turns = _turns(config.rope, context, weights.device)
        self.local_turns = _turns(config.local_rope, context, weights.device)

    def __call__(self, tokens: Tensor, position: Any = 0, cache: Cache | None = None) -> Tensor:
        """Numbers of words (positions,), the first of them at a position -> (positions, width)."""
        rows = tokens.shape[0]
        x = self.words.rows(tokens)
        if self.config.embedding_scale != 1.0:
            x = x * self.config.embedding_scale
        if self.places is not None:
            x = x + self.places[position : position + rows]
        if self.first_type is not None:
            x = x + self.first_type
        x = _applied(self.words_norm, x)
        turns, local = (_at(table, position, rows) for table in (self.turns, self.local_turns))
        for block in self.blocks:
            x = block(x, position, local if block.attention.has_local_turns else turns, cache)
        return x

    def logits(self, hidden: Tensor) -> Tensor:
        """How likely each word is the next one, before softmax: (positions, words)."""
        c = self.config
        found = self.output(_applied(self.norm, hidden))
        if c.logit_scale != 1.0:
            found = found * c.logit_scale
        return (found / c.logit_cap).tanh() * c.logit_cap if c.logit_cap else found


def _places(config: Config, weights: Weights) -> Tensor | None:
    if not config.family.learns_positions:
        return None
    count = weights.entry("position_embd.weight").shape[0]
    return weights.vector("position_embd.weight", count, config.width).realize()


def _turns(rope: Rope | None, context: int, device: str) -> Turns | None:
    if rope is None:
        return None
    cos, sin = table(rope, context)
    return Tensor(cos, device=device).realize(), Tensor(sin, device=device).realize()


def _at(turns: Turns | None, position: Any, rows: int) -> Turns | None:
    if turns is None:
        return None
    cos, sin = turns
    return cos[position : position + rows], sin[position : position + rows]
