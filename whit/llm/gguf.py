"""What GGUF says of a model: metadata -> Config, and its tensors.

file = read("model.gguf")
file.config, file.hidden, file.entries, file.metadata
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np

from whit.errors import NotSupportedError
from whit.llm.config import Config, Experts, Latent, Numbers, Rope
from whit.llm.families import BY_NAME, NONE, Family, family_of
from whit.llm.tokenisers.vocabulary import Vocabulary, vocabulary_of
from whit.llm.weights import Entry
from whit.nn.state.gguf import gguf_read
from whit.records import dataclass, replace
from whit.tensor.source import open_source

SCALINGS = {"": "none", "none": "none", "linear": "linear", "yarn": "yarn", "longrope": "longrope"}
POOLINGS = {0: "mean", 1: "mean", 2: "first", 3: "last"}


@dataclass(frozen=True)
class ModelFile:
    """A model that has been opened: nothing of its weights is read."""

    config: Config
    hidden: tuple[int, ...]  # sizes of feed-forward layers
    entries: Mapping[str, Entry]
    metadata: Mapping[str, Any]
    vocabulary: Vocabulary | None


def mapped(path: str | os.PathLike[str]) -> memoryview:
    """The bytes of a file, in memory that the operating system reads when it is touched."""
    with Path(path).open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return memoryview(b"")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def read(path: str | os.PathLike[str]) -> ModelFile:
    """A file of GGUF. Errors of the operating system name it."""
    open_source("load", path)  # its error says what is wrong with a path
    metadata, packed = gguf_read(mapped(path))
    config, hidden = config_of(metadata, packed)
    vocabulary = vocabulary_of(metadata) if "tokenizer.ggml.tokens" in metadata else None
    return ModelFile(config, hidden, packed, metadata, vocabulary)


def config_of(metadata: Mapping[str, Any], entries: Mapping[str, Entry]) -> tuple[Config, tuple[int, ...]]:
    """The model, and the size of each feed-forward layer."""
    family = family_of(metadata.get("general.architecture"), BY_NAME)
    n = Numbers(metadata, "GGUF", f"{family.name}.")
    layers, width = n.size("block_count"), n.size("embedding_length")
    heads = _same(n, "attention.head_count", n.sizes("attention.head_count", count=layers))
    shared = _same(n, "attention.head_count_kv", n.sizes("attention.head_count_kv", count=layers, default=heads))
    size = n.size("attention.key_length_mla", "attention.key_length", default=width // max(heads, 1))
    value_size = n.size("attention.value_length_mla", "attention.value_length", default=size)
    if not heads or not shared or heads % shared:
        raise n.error("attention.head_count", f"is {heads}, for {shared} heads of keys and values")
    context = n.size("context_length")
    latent = _latent(n)
    rope = _rope(n, family, size if latent is None else latent.rope, context, entries)
    windows = _windows(n, family, layers)
    local = replace(rope, base=family.local_base, kind="none", factors=()) if rope and family.local_base else None
    epsilon = n.number("attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon", default=1e-5)
    config = Config(
        family=family,
        layers=layers,
        width=width,
        heads=heads,
        shared=shared,
        size=size,
        value_size=value_size,
        words=_words(n, metadata, entries),
        context=context,
        epsilon=epsilon,
        rope=rope,
        local_rope=local if windows else None,
        windows=windows,
        score_scale=_score_scale(n, family, size, width, heads, layers),
        score_cap=n.number("attn_logit_softcapping", default=50.0 if family.name == "gemma2" else 0.0),
        logit_cap=n.number("final_logit_softcapping", default=30.0 if family.name == "gemma2" else 0.0),
        logit_scale=n.number("logit_scale", default=1.0),
        embedding_scale=sqrt(width) if family.scales_embedding else n.number("embedding_scale", default=1.0),
        residual_scale=n.number("residual_scale", default=1.0),
        clamp=n.number("attention.clamp_kqv", default=0.0),
        experts=_experts(n, family),
        latent=latent,
        is_parallel=_is_parallel(n, family, entries),
        pooling=POOLINGS.get(n.size("pooling_type", default=1, least=0), "mean"),
    )
    return config, n.sizes("feed_forward_length", count=layers, default=0)


def _same(n: Numbers, name: str, sizes: tuple[int, ...]) -> int:
    if len(set(sizes)) != 1:
        raise NotSupportedError(f"load: GGUF: {n.prefix}{name} differs between layers", f"{sizes[:8]} ...", "")
    return sizes[0]


def _words(n: Numbers, metadata: Mapping[str, Any], entries: Mapping[str, Entry]) -> int:
    """How many there are: the matrix knows, also where the metadata counts others."""
    entry = entries.get("token_embd.weight")
    if entry is not None and len(entry.shape) == 2:
        return entry.shape[0]
    return n.size("vocab_size", default=len(metadata.get("tokenizer.ggml.tokens") or ()))


def _rope(n: Numbers, family: Family, size: int, context: int, entries: Mapping[str, Entry]) -> Rope | None:
    if family.pairs == NONE:
        return None
    kind = n.text("rope.scaling.type")
    if kind not in SCALINGS:
        raise n.error("rope.scaling.type", f"is not known: {kind!r:.60}")
    factor = n.number("rope.scaling.factor", "rope.scale_linear", default=1.0)
    kind = SCALINGS[kind] if kind or factor == 1.0 else "linear"
    original = n.size("rope.scaling.original_context_length", default=context)
    turning = n.size("rope.dimension_count", default=size)
    attention = n.get("rope.scaling.attn_factor")
    base = n.number("rope.freq_base", default=10000.0)
    if turning > size or turning % 2 or base <= 0 or factor <= 0:
        raise n.error("rope.dimension_count", f"{turning} of {size}, base {base}, factor {factor} cannot be")
    return Rope(
        size=turning,
        base=base,
        pairs=family.pairs,
        kind=kind,
        factor=factor,
        original=original,
        low=n.number("rope.scaling.yarn_beta_slow", default=1.0),
        high=n.number("rope.scaling.yarn_beta_fast", default=32.0),
        attention=None if attention is None else n.number("rope.scaling.attn_factor", default=1.0),
        factors=_factors(n, entries, turning // 2, context > original),
    )


def _factors(n: Numbers, entries: Mapping[str, Entry], count: int, is_long: bool) -> tuple[float, ...]:
    """Divisors of frequencies, which are a tensor."""
    name = (
        "rope_freqs.weight"
        if "rope_freqs.weight" in entries
        else f"rope_factors_{'long' if is_long else 'short'}.weight"
    )
    entry = entries.get(name)
    if entry is None:
        return ()
    found = np.asarray(entry.bytes().numpy(), np.float64).reshape(-1) if entry.kind.name == "F32" else np.zeros(0)
    if found.shape != (count,) or not np.all(found > 0):
        raise n.error(name, f"has no {count} factors")
    return tuple(found.tolist())


def _windows(n: Numbers, family: Family, layers: int) -> tuple[int, ...]:
    window = n.size("attention.sliding_window", default=0, least=0)
    return windows_of(family, window, layers)


def windows_of(family: Family, window: int, layers: int) -> tuple[int, ...]:
    """The window of each layer, where the family has some."""
    if not window:
        return ()
    return tuple(window if i % family.window_every < family.window_layers else 0 for i in range(layers))


def _score_scale(n: Numbers, family: Family, size: int, width: int, heads: int, layers: int) -> float:
    given = n.number("attention.scale", default=0.0)
    if given:
        return given
    # The largest gemmas divide by the root of another size than a head's.
    is_largest = (family.name, layers) in (("gemma2", 46), ("gemma3", 62))
    scale = 1 / sqrt(width / heads if is_largest else size)
    factor, per_log = (
        n.number("rope.scaling.factor", default=1.0),
        n.number("rope.scaling.yarn_log_multiplier", default=0.0),
    )
    return scale * (1 + per_log * float(np.log(factor))) ** 2 if per_log and factor > 1 else scale


def _experts(n: Numbers, family: Family) -> Experts | None:
    count = n.size("expert_count", default=0, least=0)
    if not count:
        return None
    used = n.size("expert_used_count")
    if used > count:
        raise n.error("expert_used_count", f"is {used} of {count} experts")
    return Experts(
        count=count,
        used=used,
        normalises=n.flag("expert_weights_norm", default=family.normalises_experts),
        scale=n.number("expert_weights_scale", default=1.0) or 1.0,
        uses_sigmoid=n.size("expert_gating_func", default=1, least=0) == 2,
        first=n.size("leading_dense_block_count", default=0, least=0),
    )


def _latent(n: Numbers) -> Latent | None:
    rank = n.size("attention.kv_lora_rank", default=0, least=0)
    if not rank:
        return None
    return Latent(rank, n.size("rope.dimension_count"), n.size("attention.q_lora_rank", default=0, least=0))


def _is_parallel(n: Numbers, family: Family, entries: Mapping[str, Entry]) -> bool:
    if family.name == "stablelm":  # those with one norm only
        return "blk.0.ffn_norm.weight" not in entries
    return n.flag("use_parallel_residual", default=family.is_parallel)
