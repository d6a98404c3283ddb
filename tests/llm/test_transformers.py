"""Folders of Hugging Face: logits are those of `transformers`, of small random models that it makes and saves."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whit.llm import load

pytestmark = pytest.mark.large  # needs torch and transformers

TOKENS = [3, 17, 5, 5, 29, 11, 0, 38, 21, 2, 13]
SIZES = {
    "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
GPT2 = {
    "vocab_size": 64,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
EXPERTS = {"num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "rope_theta": 10000.0,
    "original_max_position_embeddings": 16,
}  # fmt: skip
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", SIZES),
    "llama3": ("llama", SIZES | {"rope_parameters": LLAMA3, "tie_word_embeddings": True}),
    "mistral": ("mistral", SIZES | {"sliding_window": 5}),
    "mixtral": ("mixtral", SIZES | {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None}),
    "qwen2": ("qwen2", SIZES),
    "qwen2_moe": (
        "qwen2_moe", SIZES | EXPERTS | {"shared_expert_intermediate_size": 16, "decoder_sparse_step": 1},
    ),
    "qwen3": ("qwen3", SIZES | {"head_dim": 16}),
    "qwen3_moe": ("qwen3_moe", SIZES | EXPERTS | {"head_dim": 8, "norm_topk_prob": True}),
    "gemma": ("gemma", SIZES | {"head_dim": 8, "hidden_activation": "gelu_pytorch_tanh"}),
    "gemma2": ("gemma2", SIZES | {"head_dim": 8, "sliding_window": 4, "query_pre_attn_scalar": 12}),
    "gemma3": ("gemma3_text", SIZES | {"head_dim": 8, "sliding_window": 4, "num_hidden_layers": 7}),
    "phi3": ("phi3", SIZES | {"sliding_window": 5}),
    "olmo": ("olmo", SIZES | {"clip_qkv": 0.5}),
    "olmo2": ("olmo2", SIZES),
    "olmoe": ("olmoe", SIZES | {"num_experts": 5, "num_experts_per_tok": 2, "norm_topk_prob": False}),
    "deepseek_v2": (
        "deepseek_v2",
        SIZES | {
            "num_key_value_heads": 4, "kv_lora_rank": 12, "q_lora_rank": 16, "qk_rope_head_dim": 4, "v_head_dim": 5,
            "qk_nope_head_dim": 6, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1,
            "moe_intermediate_size": 24, "first_k_dense_replace": 1, "routed_scaling_factor": 1.5, "n_group": None,
            "topk_method": "greedy", "topk_group": None, "head_dim": 4,
        },
    ),
    "gpt2": ("gpt2", GPT2),
    "gpt_neox": ("gpt_neox", SIZES | {"rotary_pct": 0.5}),
    "starcoder2": ("starcoder2", SIZES | {"sliding_window": None}),
    "falcon": ("falcon", SIZES | {"new_decoder_architecture": True, "num_kv_heads": 2, "alibi": False}),
    "falcon7": ("falcon", SIZES | {"multi_query": True, "alibi": False}),
    "cohere": ("cohere", SIZES | {"logit_scale": 0.25}),
    "stablelm": ("stablelm", SIZES | {"partial_rotary_factor": 0.5}),
}  # fmt: skip


def made(kind: str, sizes: dict[str, Any], folder: Path) -> tuple[Any, Any]:
    """A model, saved."""
    torch, transformers = (importlib.import_module(name) for name in ("torch", "transformers"))
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(kind, **sizes)
    auto = transformers.AutoModel if kind == "bert" else transformers.AutoModelForCausalLM
    model = auto.from_config(config, attn_implementation="eager").eval().float()
    for name, parameter in model.named_parameters():
        scale = 1.5 / parameter.shape[-1] ** 0.5 if parameter.ndim > 1 else 0.2
        middle = 0.0 if "gemma" in kind or name.endswith("bias") or parameter.ndim > 1 else 1.0
        parameter.data.normal_(middle, scale)
    model.save_pretrained(folder)
    return torch, model


@pytest.mark.parametrize("name", CASES)
def test_logits_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    torch, model = made(*CASES[name], tmp_path)
    with torch.no_grad():
        want = model(torch.tensor([TOKENS])).logits[0].numpy()
    np.testing.assert_allclose(load(tmp_path, cache="f32").logits(TOKENS).numpy(), want, rtol=0, atol=1e-3)


def test_bert_gives_the_hidden_rows_of_transformers(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    torch, model = made("bert", SIZES, tmp_path)
    with torch.no_grad():
        want = model(torch.tensor([TOKENS])).last_hidden_state[0].mean(0).numpy()
    np.testing.assert_allclose(load(tmp_path)._embedded(TOKENS), want, rtol=0, atol=1e-4)
