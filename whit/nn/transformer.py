"""PyTorch's transformer: encoder, decoder, their layers, and both together."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from whit.dtype import DTypeLike, dtypes
from whit.errors import ArgumentError
from whit.nn.attention import MultiheadAttention
from whit.nn.dropout import Dropout
from whit.nn.init import xavier_uniform
from whit.nn.linear import Linear
from whit.nn.module import Module
from whit.nn.norm import LayerNorm
from whit.nn.placed import placed
from whit.tensor import Tensor

Activation = str | Callable[[Tensor], Tensor]


def _function(activation: Activation) -> Callable[[Tensor], Tensor]:
    """The function of a name; that of "gelu" is exact."""
    if callable(activation):
        return activation
    if activation not in ("relu", "gelu"):
        raise ArgumentError(f"Transformer: activation={activation!r}", fix='It is "relu", "gelu" or a function.')
    return Tensor.relu if activation == "relu" else _gelu


def _gelu(x: Tensor) -> Tensor:
    return x.gelu("none")


class _Layer(Module):
    """What layers of encoders and decoders have in common: attention to themselves, and two products."""

    @placed
    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first)
        self._make_attention(d_model, nhead, dropout, bias, batch_first)
        self.linear1 = Linear(d_model, dim_feedforward, bias)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias)
        self.norm_first, self.batch_first = norm_first, batch_first
        for place in range(1, self.parts + 1):
            setattr(self, f"norm{place}", LayerNorm(d_model, layer_norm_eps, bias=bias))
            setattr(self, f"dropout{place}", Dropout(dropout))
        self.activation = _function(activation)

    parts = 2

    def _make_attention(self, d_model: int, nhead: int, dropout: float, bias: bool, batch_first: bool) -> None:
        """Attention to something else, if there is any."""

    def _attended(
        self, attention: MultiheadAttention, x: Tensor, other: Tensor, mask: Any, padding: Any, is_causal: bool
    ) -> Tensor:
        found, _ = attention(x, other, other, padding, False, mask, is_causal=is_causal)
        return found

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))

    def _residual(self, place: int, x: Tensor, part: Callable[[Tensor], Tensor]) -> Tensor:
        """x + dropout(part(norm(x))), or norm(x + dropout(part(x)))."""
        norm, dropout = getattr(self, f"norm{place}"), getattr(self, f"dropout{place}")
        found: Tensor = x + dropout(part(norm(x))) if self.norm_first else norm(x + dropout(part(x)))
        return found


class TransformerEncoderLayer(_Layer):
    """Attention, then two products with an activation between them; each added to what came in."""

    def __call__(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """src of shape (time, batch, d_model), or (batch, time, ...) with `batch_first`, gives the same shape."""

        def attend(x: Tensor) -> Tensor:
            return self._attended(self.self_attn, x, x, src_mask, src_key_padding_mask, is_causal)

        return self._residual(2, self._residual(1, src, attend), self._feed_forward)


class TransformerDecoderLayer(_Layer):
    """The same, with attention to a memory between the two."""

    parts = 3

    def _make_attention(self, d_model: int, nhead: int, dropout: float, bias: bool, batch_first: bool) -> None:
        self.multihead_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first)

    def __call__(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """tgt and memory of shape (time, batch, d_model), or with `batch_first`: the shape of tgt."""

        def attend(x: Tensor) -> Tensor:
            return self._attended(self.self_attn, x, x, tgt_mask, tgt_key_padding_mask, tgt_is_causal)

        def remember(x: Tensor) -> Tensor:
            return self._attended(
                self.multihead_attn, x, memory, memory_mask, memory_key_padding_mask, memory_is_causal
            )

        x = self._residual(2, self._residual(1, tgt, attend), remember)
        return self._residual(3, x, self._feed_forward)


class TransformerEncoder(Module):
    """Copies of a layer, one after another. `enable_nested_tensor` and `mask_check` are accepted, without effect."""

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        self.layers = [copy.deepcopy(encoder_layer) for _ in range(num_layers)]
        self.num_layers, self.norm = num_layers, norm

    def __call__(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """src of shape (time, batch, d_model) gives the same shape."""
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, bool(is_causal))
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """Copies of a layer, one after another, all with one memory."""

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        self.layers = [copy.deepcopy(decoder_layer) for _ in range(num_layers)]
        self.num_layers, self.norm = num_layers, norm

    def __call__(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """tgt and memory of shape (time, batch, d_model): the shape of tgt."""
        for layer in self.layers:
            tgt = layer(
                tgt,
                memory,
                tgt_mask,
                memory_mask,
                tgt_key_padding_mask,
                memory_key_padding_mask,
                bool(tgt_is_causal),
                memory_is_causal,
            )
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """An encoder, and a decoder that has its result as memory."""

    @placed
    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        given = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)
        self.encoder = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(*given), num_encoder_layers, LayerNorm(d_model, layer_norm_eps, bias=bias)
        )
        self.decoder = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(*given), num_decoder_layers, LayerNorm(d_model, layer_norm_eps, bias=bias)
        )
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        for tensor in self.parameters():
            if tensor.ndim > 1:
                tensor.replace(xavier_uniform(*tensor.shape))

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: str | None = None) -> Tensor:
        """0 up to the diagonal, minus infinity after it: what hides the future."""
        hidden = Tensor.ones(sz, sz, dtype=dtypes.bool, device=device).triu(1)
        return hidden.where(-float("inf"), 0.0)

    def __call__(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """src and tgt of shape (time, batch, d_model), or (batch, time, ...) with `batch_first`: the shape of tgt."""
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        return self.decoder(
            tgt,
            memory,
            tgt_mask,
            memory_mask,
            tgt_key_padding_mask,
            memory_key_padding_mask,
            tgt_is_causal,
            memory_is_causal,
        )
