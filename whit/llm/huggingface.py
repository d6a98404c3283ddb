"""What a folder of Hugging Face says of a model: config.json -> Config, safetensors under the names of GGUF.

    file = read("SmolLM2-135M")

Names are translated by tables; what is stored in another form (transposed, joined head by head, an expert each, one
less
than the weight of a norm) is put into ours by a function of tensors, computed when the model is loaded.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from math import log, sqrt
from pathlib import Path
from typing import Any

from whit.errors import FileMissingError, ParseError
from whit.llm.config import FIX, Config, Experts, Latent, Numbers, Rope
from whit.llm.families import BY_HUGGING_FACE_NAME, NONE, Family, family_of
from whit.llm.gguf import ModelFile, mapped, windows_of
from whit.llm.huggingface_tokeniser import vocabulary_of
from whit.llm.weights import Entry
from whit.nn.state.gguf_blocks import KINDS, Kind
from whit.nn.state.safetensors import safe_load
from whit.records import dataclass, replace
from whit.tensor import Tensor

FLOATS = {kind.dtype: kind for kind in KINDS.values() if kind.unpack is None}
F32 = KINDS[0]
MOST_JSON = 1 << 26  # bytes


@dataclass(frozen=True)
class Stored:
    """A tensor of a safetensors file, or one that is made of some."""

    tensor: Tensor

    @property
    def kind(self) -> Kind:
        """Floats of its dtype."""
        return FLOATS[self.tensor.dtype]

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return tuple(int(size) for size in self.tensor.shape)

    def bytes(self) -> Tensor:
        """Its elements."""
        return self.tensor


# Patterns of names, and what they are called in GGUF: \1 is the number of the layer.
OUTSIDE = {
    r"(?:model\.|transformer\.)?(?:embed_tokens|wte|word_embeddings|embeddings\.word_embeddings)": "token_embd",
    r"(?:gpt_neox\.)?embed_in": "token_embd",
    r"(?:transformer\.)?wpe|(?:bert\.)?embeddings\.position_embeddings": "position_embd",
    r"(?:bert\.)?embeddings\.token_type_embeddings": "token_types",
    r"bert\.embeddings\.word_embeddings": "token_embd",
    r"(?:bert\.)?embeddings\.LayerNorm|emb_ln": "token_embd_norm",
    r"(?:model\.|transformer\.|gpt_neox\.)?(?:norm|ln_f|final_layer_norm|final_layernorm)": "output_norm",
    r"lm_head|embed_out": "output",
}
LAYER = r"(?:model\.|transformer\.|gpt_neox\.|bert\.)?(?:encoder\.)?(?:layers|layer|h)\.(\d+)\."
INSIDE = {
    r"input_layernorm|ln_1|ln_attn": "attn_norm",
    r"post_attention_layernorm|pre_feedforward_layernorm|ln_2|ln_mlp": "ffn_norm",
    r"post_feedforward_layernorm": "post_ffw_norm",
    r"self_attn\.q_proj|attention\.self\.query": "attn_q",
    r"self_attn\.k_proj|attention\.self\.key": "attn_k",
    r"self_attn\.v_proj|attention\.self\.value": "attn_v",
    r"self_attn\.(?:o_proj|dense)|attention\.output\.dense|attention\.dense|self_attention\.dense": "attn_output",
    r"attn\.c_proj|attn\.out_proj": "attn_output",
    r"self_attn\.qkv_proj|attn\.c_attn|(?:self_)?attention\.query_key_value|attn\.Wqkv": "attn_qkv",
    r"self_attn\.(?:q_norm|q_layernorm)": "attn_q_norm",
    r"self_attn\.(?:k_norm|k_layernorm)": "attn_k_norm",
    r"self_attn\.q_a_proj": "attn_q_a",
    r"self_attn\.q_a_layernorm": "attn_q_a_norm",
    r"self_attn\.q_b_proj": "attn_q_b",
    r"self_attn\.kv_a_proj_with_mqa": "attn_kv_a_mqa",
    r"self_attn\.kv_a_layernorm": "attn_kv_a_norm",
    r"self_attn\.kv_b_proj": "attn_kv_b",
    r"mlp\.gate_proj|mlp\.fc12": "ffn_gate",
    r"mlp\.up_proj|mlp\.gate_up_proj|mlp\.c_fc|mlp\.dense_h_to_4h|intermediate\.dense|mlp\.fc11": "ffn_up",
    r"mlp\.down_proj|mlp\.c_proj|mlp\.dense_4h_to_h|output\.dense|mlp\.fc2": "ffn_down",
    r"attention\.output\.LayerNorm|norm1": "attn_output_norm",
    r"output\.LayerNorm|norm2": "layer_output_norm",
    r"block_sparse_moe\.gate|mlp\.gate": "ffn_gate_inp",
    r"mlp\.shared_experts?\.gate_proj": "ffn_gate_shexp",
    r"mlp\.shared_experts?\.up_proj": "ffn_up_shexp",
    r"mlp\.shared_experts?\.down_proj": "ffn_down_shexp",
    r"mlp\.shared_expert_gate": "ffn_gate_inp_shexp",
}
EXPERT = re.compile(LAYER + r"(?:block_sparse_moe|mlp)\.experts\.(\d+)\.(w1|w2|w3|gate_proj|up_proj|down_proj)\.weight")
EXPERT_PARTS = {"w1": "gate", "w3": "up", "w2": "down", "gate_proj": "gate", "up_proj": "up", "down_proj": "down"}
BEHIND = {"post_attention_layernorm": "post_attention_norm"}  # in families whose norms are behind their layers
HAS_BEHIND = {"gemma2", "gemma3", "olmo2"}
TRANSPOSED = {"attn_qkv", "attn_output", "ffn_up", "ffn_down"}  # of gpt-2

_OUTSIDE = [(re.compile(pattern), name) for pattern, name in OUTSIDE.items()]
_INSIDE = [(re.compile(pattern), name) for pattern, name in INSIDE.items()]
_LAYER = re.compile(LAYER)


def name_of(name: str, family: Family) -> str | None:
    """The name in GGUF, None for what is not used."""
    stem, _, end = name.rpartition(".")
    if end not in ("weight", "bias"):
        return None
    found = _LAYER.match(stem)
    if found is None:
        return next((f"{other}.{end}" for pattern, other in _OUTSIDE if pattern.fullmatch(stem)), None)
    part = stem[found.end() :]
    if family.name in HAS_BEHIND and part in BEHIND:
        return f"blk.{found.group(1)}.{BEHIND[part]}.{end}"
    return next((f"blk.{found.group(1)}.{other}.{end}" for pattern, other in _INSIDE if pattern.fullmatch(part)), None)


def read(path: str | os.PathLike[str]) -> ModelFile:
    """A folder with config.json and safetensors."""
    folder = Path(path)
    values = read_json(folder / "config.json")
    values = values.get("text_config") or values
    family = family_of(values.get("model_type"), BY_HUGGING_FACE_NAME)
    n = Numbers(values, "config.json")
    config, hidden = config_of(n, family)
    entries = _entries(_tensors(folder), family, config, n)
    return ModelFile(config, hidden, entries, values, vocabulary_of(folder, read_json))


def read_json(path: Path) -> dict[str, Any]:
    """An object in a file, not too large."""
    if not path.is_file():
        raise FileMissingError(f"load: {path.name} is not in the folder", str(path.parent), "Give a model's folder.")
    if path.stat().st_size > MOST_JSON:
        raise ParseError(f"load: {path.name} is too large", f"more than {MOST_JSON} bytes", FIX)
    try:
        found = json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ParseError(f"load: {path.name} is no JSON", f"{error!s:.200}", FIX) from None
    if not isinstance(found, dict):
        raise ParseError(f"load: {path.name} is no JSON object", "", FIX)
    return found


def _tensors(folder: Path) -> dict[str, Tensor]:
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise FileMissingError("load: the folder has no safetensors", str(folder), "Convert the model to safetensors.")
    found: dict[str, Tensor] = {}
    for file in files:
        found |= safe_load(mapped(file))
    return found


def _entries(tensors: Mapping[str, Tensor], family: Family, config: Config, n: Numbers) -> dict[str, Entry]:
    found: dict[str, Tensor] = {}
    experts: dict[str, dict[int, Tensor]] = {}
    change = CHANGES.get(family.name)
    for name, tensor in tensors.items():
        if (match := EXPERT.fullmatch(name)) is not None:
            part = f"blk.{match.group(1)}.ffn_{EXPERT_PARTS[match.group(3)]}_exps.weight"
            experts.setdefault(part, {})[int(match.group(2))] = tensor
        elif (other := name_of(name, family)) is not None and tensor.dtype in FLOATS:
            found[other] = tensor if change is None else change(other, tensor, config, n)
    for name, parts in experts.items():
        if sorted(parts) != list(range(len(parts))):
            raise ParseError(f"load: some experts of {name} are missing", f"{len(parts)} are there", FIX)
        found[name] = Tensor.stack([parts[i] for i in range(len(parts))]).realize()
    if n.flag("tie_word_embeddings", default=family.output_is_tied):
        found.pop("output.weight", None)
    return {name: Stored(tensor) for name, tensor in found.items()}


# ---- other forms


def _norm_plus_one(name: str, tensor: Tensor, config: Config, n: Numbers) -> Tensor:
    return (tensor.float() + 1).realize() if name.endswith("norm.weight") else tensor


def _transposed(name: str, tensor: Tensor, config: Config, n: Numbers) -> Tensor:
    is_turned = name.endswith(".weight") and name.split(".")[-2] in TRANSPOSED
    return tensor.transpose().contiguous().realize() if is_turned else tensor


def _head_by_head(name: str, tensor: Tensor, config: Config, n: Numbers) -> Tensor:
    """(groups, queries + key + value, size, ...) -> all queries, all keys, all values."""
    if ".attn_qkv." not in name:
        return tensor
    if config.family.name == "falcon" and not n.flag("new_decoder_architecture", default=False):
        return tensor  # one key for all heads, or (7b's elders) plain
    group = config.heads // config.shared
    rest = tuple(tensor.shape[1:])
    parts = tensor.reshape(config.shared, group + 2, config.size, *rest)
    pieces = (parts[:, :group], parts[:, group : group + 1], parts[:, group + 1 :])
    return Tensor.cat(*(piece.reshape(-1, *rest) for piece in pieces)).contiguous().realize()


Change = Callable[[str, Tensor, Config, Numbers], Tensor]
CHANGES: dict[str, Change] = {
    "gemma": _norm_plus_one,
    "gemma2": _norm_plus_one,
    "gemma3": _norm_plus_one,
    "gpt2": _transposed,
    "gptneox": _head_by_head,
    "falcon": _head_by_head,
}


# ---- sizes


def config_of(n: Numbers, family: Family) -> tuple[Config, tuple[int, ...]]:
    """The model, and the size of each feed-forward layer."""
    layers = n.size("num_hidden_layers", "n_layer")
    width = n.size("hidden_size", "n_embd")
    heads = n.size("num_attention_heads", "n_head")
    shared = _shared(n, family, heads)
    size = n.size("head_dim", default=width // heads)
    latent = _latent(n, family)
    if latent is not None:
        size = n.size("qk_nope_head_dim") + latent.rope
    value_size = n.size("v_head_dim", default=size) if latent is not None else size
    if heads % shared:
        raise n.error("num_attention_heads", f"is {heads}, for {shared} of keys and values")
    context = n.size("max_position_embeddings", "n_positions", default=2048)
    rope, local = _ropes(n, family, size if latent is None else latent.rope, context)
    window = n.size("sliding_window", default=0, least=0) if n.flag("use_sliding_window", default=True) else 0
    pre_scale = n.number("query_pre_attn_scalar", default=size) if family.query_size else size
    config = Config(
        family=replace(family, activation=_activation(n, family)),
        layers=layers,
        width=width,
        heads=heads,
        shared=shared,
        size=size,
        value_size=value_size,
        words=n.size("vocab_size"),
        context=context,
        epsilon=n.number("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", default=1e-5),
        rope=rope,
        local_rope=local,
        windows=windows_of(family, window, layers) if family.name not in ("qwen2", "qwen3") else (),
        score_scale=1 / sqrt(pre_scale) * _yarn_score(n),
        score_cap=n.number("attn_logit_softcapping", default=0.0),
        logit_cap=n.number("final_logit_softcapping", default=0.0),
        logit_scale=n.number("logit_scale", default=1.0),
        embedding_scale=sqrt(width) if family.scales_embedding else 1.0,
        clamp=n.number("clip_qkv", default=0.0),
        experts=_experts(n, family),
        latent=latent,
        is_parallel=_is_parallel(n, family),
    )
    hidden = n.size("ffn_hidden_size", "intermediate_size", "n_inner", default=4 * width)
    return config, (hidden,) * layers


def _shared(n: Numbers, family: Family, heads: int) -> int:
    if family.name == "falcon" and not n.flag("new_decoder_architecture", default=False):
        return 1 if n.flag("multi_query", default=True) else heads
    if family.name in ("gpt2", "gptneox", "bert", "nomic-bert"):
        return heads
    return n.size("num_key_value_heads", "num_kv_heads", default=heads)


ACTIVATIONS = {
    "silu": "silu", "swish": "silu", "swiglu": "silu", "gelu": "gelu", "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh", "gelu_fast": "gelu_tanh", "relu": "relu",
}  # fmt: skip


def _activation(n: Numbers, family: Family) -> str:
    if family.name.startswith("gemma"):
        return family.activation
    name = n.text("hidden_act", "activation_function", "activation", "hidden_activation", default=family.activation)
    if name not in ACTIVATIONS:
        raise n.error("hidden_act", f"is not known: {name!r:.60}")
    return ACTIVATIONS[name]


def _is_parallel(n: Numbers, family: Family) -> bool:
    if family.name == "falcon":
        return n.flag("parallel_attn", default=True) or n.flag("new_decoder_architecture", default=False)
    return n.flag("use_parallel_residual", default=family.is_parallel)


def _ropes(n: Numbers, family: Family, size: int, context: int) -> tuple[Rope | None, Rope | None]:
    """The rotation, and that of layers with a window."""
    if family.hugging_face_pairs == NONE:
        return None, None
    given = n.get("rope_parameters", "rope_scaling") or {}
    if not isinstance(given, dict):
        raise n.error("rope_scaling", f"is no object: {given!r:.60}")
    is_layered = "full_attention" in given  # gemma 3, since transformers 5
    main = given["full_attention"] if is_layered else given
    local = given.get("sliding_attention", {}) if is_layered else {}
    if not isinstance(main, dict) or not isinstance(local, dict):
        raise n.error("rope_parameters", f"is no object: {given!r:.60}")
    part = n.number("partial_rotary_factor", "rotary_pct", default=main.get("partial_rotary_factor") or 1.0)
    rope = _rope(n, Numbers(main, "config.json: rope_scaling"), family, int(size * part), context)
    base = n.number("rope_local_base_freq", default=local.get("rope_theta") or family.local_base or 0.0)
    return rope, replace(rope, base=base, kind="none", factors=()) if base else None


def _rope(n: Numbers, r: Numbers, family: Family, size: int, context: int) -> Rope:
    kind = r.text("rope_type", "type", default="default")
    kinds = {
        "default": "none",
        "linear": "linear",
        "yarn": "yarn",
        "llama3": "llama3",
        "longrope": "longrope",
        "su": "longrope",
    }
    if kind not in kinds or size < 2 or size % 2:
        raise r.error("rope_type", f"{kind!r:.40} of {size} numbers is not known")
    original = r.size("original_max_position_embeddings", default=0, least=0)
    original = original or n.size("original_max_position_embeddings", default=context)
    base = r.number("rope_theta", default=n.number("rope_theta", "rotary_emb_base", default=10000.0))
    factor = r.number("factor", default=max(context / original, 1.0))
    if base <= 0 or factor <= 0:
        raise r.error("factor", f"is {factor}, of the base {base}")
    factors: tuple[float, ...] = ()
    attention = r.number("attention_factor", default=0.0) or None
    if kinds[kind] == "longrope":
        factors = _long_factors(r, size // 2, context > original)
        if attention is None and factor > 1:
            attention = _long_scale(factor, original)
    if kinds[kind] == "yarn" and r.get("mscale_all_dim") is not None:
        attention = _yarn_scale(factor, r.number("mscale", default=1.0)) / _yarn_scale(
            factor, r.number("mscale_all_dim", default=1.0)
        )
    return Rope(
        size=size, base=base, pairs=family.hugging_face_pairs, kind=kinds[kind], factor=factor, original=original,
        low=r.number("low_freq_factor", "beta_slow", default=1.0),
        high=r.number("high_freq_factor", "beta_fast", default=4.0 if kind == "llama3" else 32.0),
        attention=attention, factors=factors,
    )  # fmt: skip


def _long_factors(r: Numbers, count: int, is_long: bool) -> tuple[float, ...]:
    name = "long_factor" if is_long else "short_factor"
    found = r.get(name)
    if (
        not isinstance(found, list)
        or len(found) != count
        or not all(isinstance(x, int | float) and x > 0 for x in found)
    ):
        raise r.error(name, f"is no list of {count} factors")
    return tuple(map(float, found))


def _long_scale(factor: float, original: int) -> float:
    return sqrt(1 + log(factor) / log(original))


def _yarn_scale(factor: float, by: float) -> float:
    return 0.1 * by * log(factor) + 1.0 if factor > 1 else 1.0


def _yarn_score(n: Numbers) -> float:
    """DeepSeek's scores are larger the more a context was stretched."""
    given = n.get("rope_parameters", "rope_scaling") or {}
    if not isinstance(given, dict) or given.get("mscale_all_dim") is None:
        return 1.0
    r = Numbers(given, "config.json: rope_scaling")
    return _yarn_scale(r.number("factor", default=1.0), r.number("mscale_all_dim", default=1.0)) ** 2


def _experts(n: Numbers, family: Family) -> Experts | None:
    count = n.size("num_local_experts", "num_experts", "n_routed_experts", default=0, least=0)
    if not count:
        return None
    used = n.size("num_experts_per_tok")
    if used > count:
        raise n.error("num_experts_per_tok", f"is {used} of {count} experts")
    return Experts(
        count,
        used,
        n.flag("norm_topk_prob", default=family.normalises_experts),
        n.number("routed_scaling_factor", default=1.0),
        n.text("scoring_func", default="softmax") == "sigmoid",
        n.size("first_k_dense_replace", default=0, least=0),
    )


def _latent(n: Numbers, family: Family) -> Latent | None:
    if family.name != "deepseek2":
        return None
    return Latent(n.size("kv_lora_rank"), n.size("qk_rope_head_dim"), n.size("q_lora_rank", default=0, least=0))
