"""Families of language models: a row each, of what their files do not say.

What a file shows by having a tensor is in no row: biases, norms of queries and keys, norms behind a layer, projections
that are one matrix, gates, experts, an output matrix of its own. Sizes are in the file, too. A row says what is left:

    Family("gemma2", activation="gelu_tanh", scales_embedding=True, window_every=2, ...)

The name is `general.architecture` of GGUF; `hugging_face` is `model_type` of config.json. `pairs` is which numbers
of a head turn
together: GGUF and Hugging Face store llama differently, so there are two.
"""

from __future__ import annotations

from whit.errors import NotSupportedError, nearest
from whit.records import dataclass

NEXT, HALVES, NONE = "next", "halves", "none"  # numbers 2i and 2i + 1 turn together; i and i + half; nothing turns


@dataclass(frozen=True)
class Family:
    """A row: see the module."""

    name: str
    hugging_face: tuple[str, ...] = ()  # names there; none: the same
    norm: str = "rms"  # or "layer"
    activation: str = "silu"  # or "gelu", "gelu_tanh"
    pairs: str = NEXT  # in GGUF
    hugging_face_pairs: str = HALVES
    is_parallel: bool = False  # attention and feed-forward see the same input
    learns_positions: bool = False
    is_causal: bool = True
    scales_embedding: bool = False  # by the root of the width
    norm_adds_one: bool = False  # in Hugging Face's files weights of norms are what is added to 1
    window_every: int = 1  # of so many layers ...
    window_layers: int = 1  # ... the first so many see a window, if there is one
    local_base: float | None = None  # the rotation's base in layers with a window
    query_size: bool = False  # Hugging Face: scores are divided by the root of query_pre_attn_scalar
    normalises_experts: bool = True  # weights of the chosen experts are made to sum to 1
    output_is_tied: bool = False  # the default where config.json does not say


FAMILIES: tuple[Family, ...] = (
    Family("llama", ("llama", "mistral", "mixtral", "smollm")),
    Family("qwen2", pairs=HALVES),
    Family("qwen2moe", ("qwen2_moe",), pairs=HALVES, normalises_experts=False),
    Family("qwen3", pairs=HALVES),
    Family("qwen3moe", ("qwen3_moe",), pairs=HALVES),
    Family(
        "gemma", pairs=HALVES, activation="gelu_tanh", scales_embedding=True, norm_adds_one=True, output_is_tied=True
    ),
    Family(
        "gemma2", pairs=HALVES, activation="gelu_tanh", scales_embedding=True, norm_adds_one=True, window_every=2,
        query_size=True, output_is_tied=True,
    ),
    Family(
        "gemma3", ("gemma3_text", "gemma3"), pairs=HALVES, activation="gelu_tanh", scales_embedding=True,
        norm_adds_one=True, window_every=6, window_layers=5, local_base=10000.0, query_size=True, output_is_tied=True,
    ),
    Family("phi3", pairs=HALVES),
    Family("olmo", norm="layer"),
    Family("olmo2", pairs=HALVES),
    Family("olmoe", pairs=HALVES, normalises_experts=False),
    Family("deepseek2", ("deepseek_v2",), hugging_face_pairs=NEXT, normalises_experts=False),
    Family(
        "gpt2", norm="layer", activation="gelu_tanh", pairs=NONE, hugging_face_pairs=NONE, learns_positions=True,
        output_is_tied=True,
    ),
    Family("gptneox", ("gpt_neox",), norm="layer", activation="gelu", pairs=HALVES, is_parallel=True),
    Family("starcoder2", norm="layer", activation="gelu_tanh", pairs=HALVES, output_is_tied=True),
    Family("falcon", norm="layer", activation="gelu", pairs=HALVES, is_parallel=True, output_is_tied=True),
    Family("command-r", ("cohere",), norm="layer", hugging_face_pairs=NEXT, is_parallel=True, output_is_tied=True),
    Family("stablelm", norm="layer", pairs=HALVES),
    Family(
        "bert", norm="layer", activation="gelu", pairs=NONE, hugging_face_pairs=NONE, learns_positions=True,
        is_causal=False,
    ),
    Family("nomic-bert", ("nomic_bert",), norm="layer", pairs=HALVES, is_causal=False),
)  # fmt: skip

BY_NAME = {family.name: family for family in FAMILIES}
BY_HUGGING_FACE_NAME = {name: family for family in FAMILIES for name in family.hugging_face or (family.name,)}


def family_of(name: object, table: dict[str, Family]) -> Family:
    """The row with a name."""
    found = table.get(name) if isinstance(name, str) else None
    if found is None:
        shown = f"{name!r:.60}"
        raise NotSupportedError(
            f"load: models of the family {shown} are not known", "", f"Known: {', '.join(table)}.{_hint(name, table)}"
        )
    return found


def _hint(name: object, table: dict[str, Family]) -> str:
    return nearest(name, list(table)) if isinstance(name, str) and len(name) < 60 else ""
