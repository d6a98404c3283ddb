"""Norms, activations, and the two kinds of feed-forward layers."""

from __future__ import annotations

from collections.abc import Callable

from whit.dtype import dtypes
from whit.llm.config import Config, Experts
from whit.llm.weights import Weights
from whit.nn.module import Module
from whit.tensor import Tensor

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": lambda x: x.silu(),
    "gelu": lambda x: x.gelu("none"),
    "gelu_tanh": lambda x: x.gelu("tanh"),
    "relu": lambda x: x.relu(),
}


class Norm(Module):
    """RMS norm or layer norm over the last axis, with a weight and a bias if the file has them."""

    def __init__(self, kind: str, epsilon: float, weight: Tensor | None, bias: Tensor | None) -> None:
        self.kind, self.epsilon, self.weight, self.bias = kind, epsilon, weight, bias

    def __call__(self, x: Tensor) -> Tensor:
        """The same shape."""
        if self.kind == "layer":
            x = x - x.mean(-1, keepdim=True)
        x = x * (x.square().mean(-1, keepdim=True) + self.epsilon).rsqrt()
        x = x if self.weight is None else x * self.weight
        return x if self.bias is None else x + self.bias


def norm_of(config: Config, weights: Weights, name: str, *shape: int) -> Norm | None:
    """The norm with this name. None if the file has none; olmo's has neither weight nor bias and is always there."""
    kind = config.family.norm
    if f"{name}.weight" not in weights:
        return None
    bias = weights.vector(f"{name}.bias", *shape) if f"{name}.bias" in weights else None
    return Norm(kind, config.epsilon, weights.vector(f"{name}.weight", *shape), bias)


class FeedForward(Module):
    """down(activation(gate x) * up x), or down(activation(up x)); gate and up may be one matrix."""

    def __init__(self, config: Config, weights: Weights, name: str, hidden: int, suffix: str = "") -> None:
        width = config.width
        self.activation = ACTIVATIONS[config.family.activation]
        is_gated = f"{name}.ffn_gate{suffix}.weight" in weights
        entry = weights.entry(f"{name}.ffn_up{suffix}.weight")
        self.is_joined = not is_gated and entry.shape == (2 * hidden, width)
        self.gate = weights.matrix(f"{name}.ffn_gate{suffix}", hidden, width) if is_gated else None
        self.up = weights.matrix(f"{name}.ffn_up{suffix}", hidden * (1 + self.is_joined), width)
        self.down = weights.matrix(f"{name}.ffn_down{suffix}", width, hidden)

    def __call__(self, x: Tensor) -> Tensor:
        """(..., width) -> (..., width)"""
        gate = None if self.gate is None else self.gate(x)
        up = self.up(x, gate)
        if self.is_joined:
            half = up.shape[-1] // 2
            return self.down(self.activation(up[..., :half]) * up[..., half:])
        return self.down(self.activation(up) if gate is None else self.activation(gate) * up)


class MixedExperts(Module):
    """The experts with the largest weights, each of its own matrices, and one that all positions share."""

    def __init__(self, config: Config, experts: Experts, weights: Weights, name: str) -> None:
        self.experts, self.activation = experts, ACTIVATIONS[config.family.activation]
        hidden = weights.entry(f"{name}.ffn_up_exps.weight").shape[-2]
        count, width = experts.count, config.width
        self.router = weights.matrix(f"{name}.ffn_gate_inp", count, width)
        bias = f"{name}.exp_probs_b.bias"
        self.preference = weights.vector(bias, count) if bias in weights else None
        self.gate = weights.matrix(f"{name}.ffn_gate_exps", count, hidden, width)
        self.up = weights.matrix(f"{name}.ffn_up_exps", count, hidden, width)
        self.down = weights.matrix(f"{name}.ffn_down_exps", count, width, hidden)
        self.shared = None
        if f"{name}.ffn_up_shexp.weight" in weights:
            self.shared = FeedForward(
                config, weights, name, weights.entry(f"{name}.ffn_up_shexp.weight").shape[-2], "_shexp"
            )
        gate = f"{name}.ffn_gate_inp_shexp.weight"
        self.shared_gate = weights.vector(gate, width) if gate in weights else None

    def __call__(self, x: Tensor) -> Tensor:
        """(positions, width) -> (positions, width)"""
        found = self._one(x) if x.shape[0] == 1 else self._many(x)
        if self.shared is None:
            return found
        more = self.shared(x)
        if self.shared_gate is not None:
            more = more * (x * self.shared_gate).sum(-1, keepdim=True).sigmoid()
        return found + more

    def choose(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Weights and numbers of the chosen experts: (positions, used) each."""
        logits = self.router(x)
        share = logits.sigmoid() if self.experts.uses_sigmoid else logits.softmax(-1)
        wanted = share if self.preference is None else share + self.preference
        numbers = wanted.topk(self.experts.used, -1)[1]
        share = share.gather(-1, numbers)
        if self.experts.normalises:
            share = share / share.sum(-1, keepdim=True)
        return share * self.experts.scale, numbers

    def _one(self, x: Tensor) -> Tensor:
        """Of one position: only the chosen matrices are read."""
        share, numbers = self.choose(x)
        numbers = numbers.reshape(-1)
        gate, up, down = (part.rows(numbers).transpose(-2, -1) for part in (self.gate, self.up, self.down))
        row = x.reshape(1, 1, -1)
        inner = self.activation(row @ gate) * (row @ up)  # (used, 1, hidden)
        return ((inner @ down).squeeze(1) * share.reshape(-1, 1)).sum(0, keepdim=True)

    def _many(self, x: Tensor) -> Tensor:
        """Of many positions: every expert computes all of them, and those that were not chosen count 0."""
        share, numbers = self.choose(x)
        chosen = numbers.unsqueeze(-1) == Tensor.arange(self.experts.count, dtype=dtypes.int32, device=x.device)
        part = chosen.where(share.unsqueeze(-1), 0.0).sum(1)  # (positions, experts)
        rows = x.unsqueeze(0)
        inner = self.activation(self.gate(rows)) * self.up(rows)  # (experts, positions, hidden)
        return (self.down(inner) * part.transpose(0, 1).unsqueeze(-1)).sum(0)
