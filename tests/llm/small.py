"""A small random model of each family: metadata as llama.cpp writes it, weights, and what the reference is told.

small("gemma2") -> Small(metadata, weights, spec)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

WORDS, WIDTH, HEADS, SHARED, SIZE, HIDDEN, LAYERS = 40, 32, 4, 2, 8, 48, 2


@dataclass
class Small:
    """A model as dictionaries."""

    metadata: dict[str, Any]
    weights: dict[str, np.ndarray]
    spec: dict[str, Any]


class Maker:
    """Makes the weights of one model."""

    def __init__(self, name: str, **sizes: int) -> None:
        self.rng = np.random.default_rng(len(name))
        self.heads, self.shared = sizes.get("heads", HEADS), sizes.get("shared", SHARED)
        self.size, self.layers = sizes.get("size", SIZE), sizes.get("layers", LAYERS)
        self.name = name
        self.w: dict[str, np.ndarray] = {}
        self.meta: dict[str, Any] = {
            "general.architecture": name, f"{name}.block_count": self.layers, f"{name}.embedding_length": WIDTH,
            f"{name}.context_length": 64, f"{name}.feed_forward_length": HIDDEN,
            f"{name}.attention.head_count": self.heads, f"{name}.attention.head_count_kv": self.shared,
            f"{name}.attention.layer_norm_rms_epsilon": 1e-5, f"{name}.attention.layer_norm_epsilon": 1e-5,
            f"{name}.rope.freq_base": 1000.0, f"{name}.attention.key_length": self.size,
            f"{name}.attention.value_length": self.size,
        }  # fmt: skip
        self.spec: dict[str, Any] = {
            "layers": self.layers, "heads": self.heads, "shared": self.shared, "size": self.size, "value": self.size,
            "act": "silu", "scale": 1 / sqrt(self.size), "base": 1000.0, "turning": self.size, "pairs": "next",
        }  # fmt: skip
        self.add("token_embd.weight", WORDS, WIDTH)

    def add(self, name: str, *shape: int) -> None:
        scale = 1.5 / sqrt(shape[-1]) if len(shape) > 1 else 0.2
        middle = 1.0 if name.endswith("norm.weight") or "norm_2.weight" in name else 0.0
        self.w[name] = (self.rng.standard_normal(shape) * scale + middle).astype(np.float32)

    def each(self, *parts: str, bias: bool = False) -> Maker:
        """Matrices and norms of every layer, by the last part of their names."""
        shapes = {
            "attn_q": (self.heads * self.size, WIDTH), "attn_k": (self.shared * self.size, WIDTH),
            "attn_v": (self.shared * self.size, WIDTH), "attn_output": (WIDTH, self.heads * self.size),
            "attn_qkv": ((self.heads + 2 * self.shared) * self.size, WIDTH), "ffn_up": (HIDDEN, WIDTH),
            "ffn_gate": (HIDDEN, WIDTH), "ffn_down": (WIDTH, HIDDEN),
        }  # fmt: skip
        for layer in range(self.layers):
            for part in parts:
                name = f"blk.{layer}.{part}"
                shape = shapes.get(part, (WIDTH,))
                self.add(f"{name}.weight", *shape)
                if bias:
                    self.add(f"{name}.bias", shape[0])
        return self

    def tensors(self, **shapes: tuple[int, ...]) -> Maker:
        """Other tensors of every layer: a__b is a.b."""
        for layer in range(self.layers):
            for part, shape in shapes.items():
                self.add(f"blk.{layer}.{part.replace('__', '.')}", *shape)
        return self

    def end(self, bias: bool = False, tied: bool = False) -> Maker:
        self.add("output_norm.weight", WIDTH)
        if bias:
            self.add("output_norm.bias", WIDTH)
        if not tied:
            self.add("output.weight", WORDS, WIDTH)
        return self

    def says(self, **values: Any) -> Maker:
        """Metadata: a__b is a.b."""
        self.meta |= {f"{self.name}.{key.replace('__', '.')}": x for key, x in values.items()}
        return self

    def means(self, **values: Any) -> Maker:
        """What the reference is told."""
        self.spec |= values
        return self


QKVO, GATED = ("attn_q", "attn_k", "attn_v", "attn_output"), ("ffn_gate", "ffn_up", "ffn_down")
PLAIN, NORMS = ("ffn_up", "ffn_down"), ("attn_norm", "ffn_norm")


def llama() -> Maker:
    return Maker("llama").each(*NORMS, *QKVO, *GATED).end()


def llama3() -> Maker:
    """With frequencies divided by factors, as llama 3.1's."""
    made = Maker("llama").each(*NORMS, *QKVO, *GATED).end(tied=True)
    factors = [1.0, 1.5, 4.0, 8.0]
    made.w["rope_freqs.weight"] = np.array(factors, np.float32)
    return made.means(scaling="factors", factors=factors)


def yarn() -> Maker:
    made = Maker("llama", size=16).each(*NORMS, *QKVO, *GATED).end()
    values = {"type": "yarn", "factor": 4.0, "original_context_length": 32}
    made.says(**{f"rope__scaling__{key}": x for key, x in values.items()})
    return made.means(scaling="yarn", factor=4.0, original=32)


def linear() -> Maker:
    made = Maker("llama").each(*NORMS, *QKVO, *GATED).end()
    return made.says(rope__scaling__type="linear", rope__scaling__factor=2.0).means(scaling="linear", factor=2.0)


def mistral() -> Maker:
    made = Maker("llama").each(*NORMS, *QKVO, *GATED).end()
    return made.says(attention__sliding_window=5).means(windows=[5] * LAYERS)


def mixtral() -> Maker:
    made = Maker("llama").each(*NORMS, *QKVO).end()
    return expert_parts(made.says(expert_count=6, expert_used_count=2).means(used=2, normalises=True), 6)


def expert_parts(made: Maker, count: int, hidden: int = HIDDEN) -> Maker:
    return made.tensors(
        ffn_gate_inp__weight=(count, WIDTH), ffn_gate_exps__weight=(count, hidden, WIDTH),
        ffn_up_exps__weight=(count, hidden, WIDTH), ffn_down_exps__weight=(count, WIDTH, hidden),
    )  # fmt: skip


def qwen2() -> Maker:
    made = Maker("qwen2").each("attn_q", "attn_k", "attn_v", bias=True).each(*NORMS, "attn_output", *GATED)
    return made.end(tied=True).means(pairs="halves")


def qwen2moe() -> Maker:
    made = Maker("qwen2moe").each("attn_q", "attn_k", "attn_v", bias=True).each(*NORMS, "attn_output").end()
    expert_parts(made, 5, 24).tensors(
        ffn_gate_shexp__weight=(16, WIDTH), ffn_up_shexp__weight=(16, WIDTH), ffn_down_shexp__weight=(WIDTH, 16),
        ffn_gate_inp_shexp__weight=(WIDTH,),
    )  # fmt: skip
    return made.says(expert_count=5, expert_used_count=2).means(used=2, normalises=False, pairs="halves")


def qwen3() -> Maker:
    made = Maker("qwen3").each(*NORMS, *QKVO, *GATED).end()
    return made.tensors(attn_q_norm__weight=(SIZE,), attn_k_norm__weight=(SIZE,)).means(pairs="halves", head_norms=True)


def qwen3moe() -> Maker:
    made = Maker("qwen3moe").each(*NORMS, *QKVO).end()
    made.tensors(attn_q_norm__weight=(SIZE,), attn_k_norm__weight=(SIZE,)).means(pairs="halves", head_norms=True)
    return expert_parts(made.says(expert_count=5, expert_used_count=3).means(used=3, normalises=True), 5, 24)


def gemma() -> Maker:
    made = Maker("gemma", shared=1).each(*NORMS, *QKVO, *GATED).end(tied=True)
    return made.means(pairs="halves", act="gelu_tanh", embedding_scale=sqrt(WIDTH))


def gemma2() -> Maker:
    made = Maker("gemma2").each(*NORMS, *QKVO, *GATED, "post_attention_norm", "post_ffw_norm").end(tied=True)
    made.says(attention__sliding_window=4, attn_logit_softcapping=5.0, final_logit_softcapping=3.0)
    made.means(pairs="halves", act="gelu_tanh", embedding_scale=sqrt(WIDTH), windows=[4, 0], cap=5.0, logit_cap=3.0)
    return made


def gemma3() -> Maker:
    made = Maker("gemma3", layers=6).each(*NORMS, *QKVO, *GATED, "post_attention_norm", "post_ffw_norm")
    made.end(tied=True).tensors(attn_q_norm__weight=(SIZE,), attn_k_norm__weight=(SIZE,))
    made.says(attention__sliding_window=4, rope__scaling__type="linear", rope__scaling__factor=8.0)
    made.means(pairs="halves", act="gelu_tanh", embedding_scale=sqrt(WIDTH), windows=[4] * 5 + [0], local_base=10000.0)
    return made.means(head_norms=True, scaling="linear", factor=8.0)


def phi3() -> Maker:
    made = Maker("phi3").each(*NORMS, "attn_qkv", "attn_output", "ffn_down").end()
    return made.tensors(ffn_up__weight=(2 * HIDDEN, WIDTH)).means(pairs="halves", joined_gate=True)


def olmo() -> Maker:
    made = Maker("olmo").each(*QKVO, *GATED)
    made.add("output.weight", WORDS, WIDTH)
    return made.says(attention__clamp_kqv=0.5).means(norm="layer", plain_norms=True, clamp=0.5)


def olmo2() -> Maker:
    made = Maker("olmo2", shared=4).each(*QKVO, *GATED, "post_attention_norm", "post_ffw_norm").end()
    made.tensors(attn_q_norm__weight=(WIDTH,), attn_k_norm__weight=(WIDTH,))
    return made.means(pairs="halves", whole_norms=True)


def olmoe() -> Maker:
    made = Maker("olmoe", shared=4).each(*QKVO, *NORMS).end()
    made.tensors(attn_q_norm__weight=(WIDTH,), attn_k_norm__weight=(WIDTH,)).means(pairs="halves", whole_norms=True)
    return expert_parts(made.says(expert_count=5, expert_used_count=2).means(used=2, normalises=False), 5, 24)


def deepseek2(is_split: bool = False) -> Maker:
    """Latent attention; a dense layer, then experts with a shared one."""
    rank, turning, plain, value = 12, 4, 6, 5
    made = Maker("deepseek2", shared=1 if is_split else HEADS, size=plain + turning).each(*NORMS).end()
    for layer in range(LAYERS):
        name = f"blk.{layer}"
        made.add(f"{name}.attn_q_a.weight", 16, WIDTH)
        made.add(f"{name}.attn_q_a_norm.weight", 16)
        made.add(f"{name}.attn_q_b.weight", HEADS * (plain + turning), 16)
        made.add(f"{name}.attn_kv_a_mqa.weight", rank + turning, WIDTH)
        made.add(f"{name}.attn_kv_a_norm.weight", rank)
        if is_split:
            made.add(f"{name}.attn_k_b.weight", HEADS, rank, plain)
            made.add(f"{name}.attn_v_b.weight", HEADS, value, rank)
        else:
            made.add(f"{name}.attn_kv_b.weight", HEADS * (plain + value), rank)
        made.add(f"{name}.attn_output.weight", WIDTH, HEADS * value)
    for part, shape in {"gate": (HIDDEN, WIDTH), "up": (HIDDEN, WIDTH), "down": (WIDTH, HIDDEN)}.items():
        made.add(f"blk.0.ffn_{part}.weight", *shape)
        made.add(f"blk.1.ffn_{part}_exps.weight", 5, *(24 if x == HIDDEN else x for x in shape))
        made.add(f"blk.1.ffn_{part}_shexp.weight", *(24 if x == HIDDEN else x for x in shape))
    made.add("blk.1.ffn_gate_inp.weight", 5, WIDTH)
    made.says(attention__kv_lora_rank=rank, attention__q_lora_rank=16, rope__dimension_count=turning)
    made.says(expert_count=5, expert_used_count=2, expert_weights_scale=1.5, leading_dense_block_count=1)
    long = {"attention__key_length": rank + turning, "attention__value_length": rank}
    sizes = {"attention__key_length_mla": plain + turning, "attention__value_length_mla": value}
    made.says(**({**long, **sizes} if is_split else {"attention__value_length": value}))
    made.means(rank=rank, query_rank=16, turning=turning, value=value, used=2, normalises=False, expert_scale=1.5)
    return made.means(scale=1 / sqrt(plain + turning))


def deepseek_split() -> Maker:
    """As llama.cpp writes it now: two factors, and sigmoids with a preference (DeepSeek-V3)."""
    made = deepseek2(is_split=True)
    made.add("blk.1.exp_probs_b.bias", 5)
    made.says(expert_gating_func=2, expert_weights_norm=True)
    return made.means(sigmoid=True, normalises=True)


def gpt2() -> Maker:
    made = Maker("gpt2", shared=4).each("attn_qkv", "attn_output", *PLAIN, *NORMS, bias=True).end(bias=True, tied=True)
    made.add("position_embd.weight", 64, WIDTH)
    return made.means(norm="layer", act="gelu_tanh", pairs=None)


def gptneox() -> Maker:
    made = Maker("gptneox", shared=4).each("attn_qkv", "attn_output", *PLAIN, *NORMS, bias=True).end(bias=True)
    made.says(rope__dimension_count=4, use_parallel_residual=True)
    return made.means(norm="layer", act="gelu", pairs="halves", turning=4, parallel=True)


def starcoder2() -> Maker:
    made = Maker("starcoder2").each(*QKVO, *PLAIN, *NORMS, bias=True).end(bias=True, tied=True)
    return made.means(norm="layer", act="gelu_tanh", pairs="halves")


def falcon() -> Maker:
    made = Maker("falcon", shared=1).each("attn_qkv", "attn_output", *PLAIN).each("attn_norm", bias=True)
    return made.end(bias=True, tied=True).means(norm="layer", act="gelu", pairs="halves", parallel=True)


def command_r() -> Maker:
    made = Maker("command-r").each(*QKVO, *GATED, "attn_norm").end(tied=True)
    return made.says(logit_scale=0.25).means(norm="layer", parallel=True, logit_scale=0.25)


def stablelm() -> Maker:
    made = Maker("stablelm").each(*QKVO, *GATED).each(*NORMS, bias=True).end(bias=True)
    return made.says(rope__dimension_count=4).means(norm="layer", pairs="halves", turning=4)


def bert() -> Maker:
    made = Maker("bert", shared=4).each(*QKVO, *PLAIN, "attn_output_norm", "layer_output_norm", bias=True)
    return encoder(made).means(norm="layer", act="gelu", pairs=None)


def nomic_bert() -> Maker:
    made = Maker("nomic-bert", shared=4).each("attn_qkv", "attn_output", *GATED)
    made.each("attn_output_norm", "layer_output_norm", bias=True)
    return encoder(made).means(norm="layer", pairs="halves")


def encoder(made: Maker) -> Maker:
    made.add("position_embd.weight", 64, WIDTH)
    if made.name != "bert":
        del made.w["position_embd.weight"]
    made.add("token_types.weight", 2, WIDTH)
    made.add("token_embd_norm.weight", WIDTH)
    made.add("token_embd_norm.bias", WIDTH)
    return made.means(causal=False)


MAKERS: dict[str, Callable[[], Maker]] = {
    made.__name__: made
    for made in (
        llama, llama3, yarn, linear, mistral, mixtral, qwen2, qwen2moe, qwen3, qwen3moe, gemma, gemma2, gemma3, phi3,
        olmo,
        olmo2, olmoe, deepseek2, deepseek_split, gpt2, gptneox, starcoder2, falcon, command_r, stablelm, bert,
        nomic_bert,
    )
}  # fmt: skip
ENCODERS = ("bert", "nomic_bert")


def small(name: str) -> Small:
    """A model."""
    made = MAKERS[name]()
    return Small(made.meta, made.w, made.spec)
