"""The words of a model and what its file says of them: `tokenizer.ggml.*` -> Vocabulary, everything checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from whit.llm.config import Numbers
from whit.records import dataclass

NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = 1, 2, 3, 4, 5, 6  # types of words in GGUF

# What cuts the prompt of a chat off, or ends an answer, under the names that files give it.
ENDS = (
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|END_OF_TURN_TOKEN|>", "</s>",
    "<|eom_id|>", "<｜end▁of▁sentence｜>", "<|end_of_text|>",
)  # fmt: skip
STARTS_WITH = {
    "llama-bpe",
    "llama3",
    "llama-v3",
    "tekken",
    "falcon3",
    "pixtral",
}  # byte-level ones that add a first word


@dataclass(frozen=True)
class Vocabulary:
    """Words by number."""

    model: str  # gpt2 (byte pairs), llama (SentencePiece), bert (WordPiece), t5 (Unigram), gemma4
    pre: str  # how text is split into words
    words: tuple[str, ...]
    types: tuple[int, ...]
    scores: tuple[float, ...]
    merges: tuple[str, ...]
    first: int | None  # "bos"
    last: int | None  # "eos"
    unknown: int | None
    separator: int | None
    ends: frozenset[int]  # words that end an answer
    adds_first: bool
    adds_last: bool
    adds_space: bool
    template: str | None  # of a chat
    charsmap: bytes = b""  # Unigram's normalisation
    patterns: tuple[str, ...] = ()  # in place of `pre`

    def piece(self, number: int | None) -> str:
        """A word, "" for none."""
        return "" if number is None else self.words[number]


def _texts(n: Numbers, name: str) -> list[str]:
    found = n.get(name)
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(x, str) for x in found):
        raise n.error(name, "is no list of texts")
    return found


def _numbers(n: Numbers, name: str, count: int, default: Any) -> tuple[Any, ...]:
    found = n.get(name)
    if found is None:
        return (default,) * count
    if not isinstance(found, list) or len(found) != count or not all(isinstance(x, int | float) for x in found):
        raise n.error(name, f"is no list of {count} numbers")
    return tuple(found)


def _word(n: Numbers, name: str, count: int, default: int | None = None) -> int | None:
    found = n.get(name)
    if found is None:
        return default if default is not None and default < count else None
    if type(found) is not int or not 0 <= found < count:
        raise n.error(name, f"is none of {count} words: {found!r:.40}")
    return found


def vocabulary_of(metadata: Mapping[str, Any]) -> Vocabulary:
    """Of the metadata of GGUF."""
    n = Numbers(metadata, "GGUF", "tokenizer.ggml.")
    words = _texts(n, "tokens")
    count = len(words)
    if not count:
        raise n.error("tokens", "is missing")
    model = n.text("model")
    pre = "gemma4" if model == "gemma4" else n.text("pre", default="default")
    types = _numbers(n, "token_type", count, NORMAL)
    first, last, unknown, separator = _special(n, model, count)
    is_piece, is_word = model == "llama", model == "bert"
    template = metadata.get("tokenizer.chat_template")
    return Vocabulary(
        model=model,
        pre=pre,
        words=tuple(words),
        types=types,
        scores=_numbers(n, "scores", count, 0.0),
        merges=tuple(_texts(n, "merges")),
        first=first,
        last=last,
        unknown=unknown,
        separator=separator,
        ends=_ends(n, words, types, last),
        adds_first=n.flag("add_bos_token", default=is_piece or is_word or pre in STARTS_WITH),
        adds_last=n.flag("add_eos_token", default=is_word or model == "t5"),
        adds_space=n.flag("add_space_prefix", default=is_piece or model == "t5"),
        template=template if isinstance(template, str) else None,
        charsmap=_charsmap(n),
    )


# Words that files leave out where they have their usual numbers: first, last, unknown, separator.
USUAL: dict[str, tuple[int | None, ...]] = {"llama": (1, 2, 0, None), "bert": (101, None, 100, 102)}


def _special(n: Numbers, model: str, count: int) -> tuple[int | None, ...]:
    first, last, unknown, separator = USUAL.get(model, (None,) * 4)
    first = _word(n, "bos_token_id", count, first)
    if model == "bert":
        first = _word(n, "cls_token_id", count, first)
    return (
        first,
        _word(n, "eos_token_id", count, last),
        _word(n, "unknown_token_id", count, unknown),
        _word(n, "seperator_token_id", count, separator),  # spelled so in the format
    )


def _charsmap(n: Numbers) -> bytes:
    found = n.get("precompiled_charsmap") or []
    if not isinstance(found, list) or not all(type(x) is int and -128 <= x < 256 for x in found):
        raise n.error("precompiled_charsmap", "is no list of bytes")
    return bytes(x & 255 for x in found)


def _ends(n: Numbers, words: list[str], types: tuple[int, ...], last: int | None) -> frozenset[int]:
    count = len(words)
    given = (last, *(_word(n, name, count) for name in ("eot_token_id", "eom_token_id")))
    special = {word: i for i, word in enumerate(words) if types[i] in (CONTROL, USER)}
    named = (special[name] for name in ENDS if name in special)
    return frozenset(number for number in (*given, *named) if number is not None)
