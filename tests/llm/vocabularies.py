"""Vocabularies small enough to see what a tokeniser must do."""

from __future__ import annotations

from typing import Any

from whit.llm.tokenisers.byte_pair import LETTERS

CHAT = ["<|im_start|>", "<|im_end|>"]


def byte_pairs(*merges: str, pre: str = "gpt-2", extra: tuple[str, ...] = ()) -> dict[str, Any]:
    """All bytes, what is merged, and the two marks of a chat; metadata of GGUF."""
    words = [*CHAT, *LETTERS, *("".join(pair.split(" ")) for pair in merges), *extra]
    types = [3, 3] + [1] * (len(words) - 2 - len(extra)) + [4] * len(extra)
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": words,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": list(merges),
        "tokenizer.ggml.eos_token_id": 1,
        "tokenizer.ggml.bos_token_id": 0,
    }


def pieces(kind: str, words: list[tuple[str, float]], **more: Any) -> dict[str, Any]:
    """SentencePiece's two kinds: an unknown word, a first one, a last one, all bytes, words with scores."""
    special = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3)]
    codes = [(f"<0x{code:02X}>", 0.0, 6) for code in range(256)] if kind == "llama" else []
    rows = [*special, *codes, *((word, score, 1) for word, score in words)]
    return {
        "tokenizer.ggml.model": kind,
        "tokenizer.ggml.tokens": [row[0] for row in rows],
        "tokenizer.ggml.scores": [row[1] for row in rows],
        "tokenizer.ggml.token_type": [row[2] for row in rows],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        **{f"tokenizer.ggml.{key}": value for key, value in more.items()},
    }
