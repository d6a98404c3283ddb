"""Tokenisers on vocabularies written by hand; llama.cpp's own vectors are in test_downloads.py."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm.vocabularies import byte_pairs, pieces
from whit.errors import NotSupportedError, ParseError, UserError
from whit.llm.tokenisers import Tokeniser, tokeniser_of, vocabulary_of
from whit.llm.tokenisers.merging import merge
from whit.llm.tokenisers.split import PATTERNS, split
from whit.llm.tokenisers.word_piece import words_of


def tokeniser(metadata: dict[str, Any]) -> Tokeniser:
    return tokeniser_of(vocabulary_of(metadata))


def shown(made: Tokeniser, text: str, **options: bool) -> list[str]:
    """Words in place of numbers."""
    return [made.vocabulary.words[i] for i in made.encode(text, **options)]


def test_the_pair_that_was_learned_first_is_merged_first_and_of_equals_the_leftmost() -> None:
    ranks: dict[tuple[str, str], float] = {("b", "c"): 0, ("a", "b"): 1, ("a", "a"): 2}
    assert merge(list("abc"), ranks.get) == ["a", "bc"]
    assert merge(list("aaaaa"), ranks.get) == ["aa", "aa", "a"]
    assert merge([], ranks.get) == []


def test_a_text_without_spaces_takes_no_longer_than_another() -> None:
    made = tokeniser(byte_pairs("a a", "aa aa", "aaaa aaaa"))
    assert len(made.encode("a" * 40_000)) == 5_000


@pytest.mark.parametrize(
    ("pre", "text", "want"),
    [
        ("gpt-2", "I've 123 a  b", ["I", "'ve", " 123", " a", " ", " b"]),
        ("llama-bpe", "I'VE 1234\n\n x", ["I", "'VE", " ", "123", "4", "\n\n", " x"]),
        ("qwen2", "a12 b", ["a", "1", "2", " b"]),
        ("smollm", "a12 b", ["a", "1", "2", " b"]),
        ("falcon", "a, b 1234", ["a", ",", " b", " ", "123", "4"]),
        ("gpt-4o", "helloWorld it's", ["hello", "World", " it's"]),
        ("tekken", "helloWorld it's", ["hello", "World", " it", "'s"]),
        ("deepseek-v3", "中文abc 12345", ["中文", "abc", " ", "123", "45"]),
        ("gpt-2", "Ωμέγα ½ ٣", ["Ωμέγα", " ½", " ٣"]),
        ("gemma4", "a b\n\nc", ["a b", "\n\n", "c"]),
    ],
)
def test_text_is_split_as_the_family_says(pre: str, text: str, want: list[str]) -> None:
    assert split(pre, text) == want


@given(st.sampled_from(sorted(PATTERNS)), st.text())
def test_nothing_is_lost_where_text_is_split(pre: str, text: str) -> None:
    assert "".join(split(pre, text)) == text


@given(st.text())
def test_byte_pairs_give_the_text_back(text: str) -> None:
    made = tokeniser(byte_pairs("Ġ t", "h e", "Ġt he"))
    text = text.encode(errors="replace").decode()
    assert made.decode(made.encode(text)) == text
    decode = made.decoder()
    assert "".join(map(decode, made.encode(text))) + decode.end() == text


@given(st.text(st.characters(exclude_characters="▁")))
def test_pieces_give_the_text_back(text: str) -> None:
    made = tokeniser(
        pieces("llama", [("▁", -1.0), ("▁the", -2.0), ("▁t", -3.0), ("he", -2.5), ("t", -9.0), ("h", -9.0)])
    )
    text = text.encode(errors="replace").decode()
    assert made.decode(made.encode(text)) == text


def test_special_tokens_are_letters_unless_they_are_asked_for() -> None:
    made = tokeniser(byte_pairs("a b", extra=("<tool>",)))
    text = "<|im_end|><tool>"
    assert shown(made, text) == [*"<|im_end|>", "<tool>"]  # a word of the user's kind is part of the text
    assert shown(made, text, special=True) == ["<|im_end|>", "<tool>"]
    assert made.decode(made.encode(text, special=True)) == "<tool>"
    assert made.decode(made.encode(text, special=True), special=True) == text


def test_pieces_are_merged_by_score_and_unknown_letters_are_bytes() -> None:
    made = tokeniser(pieces("llama", [("▁", -1.0), ("a", -5.0), ("b", -5.0), ("ab", -4.0), ("▁a", -2.0)]))
    assert shown(made, "ab") == ["<s>", "▁a", "b"]
    assert shown(made, "é", add=False) == ["▁", "<0xC3>", "<0xA9>"]
    assert tokeniser(pieces("llama", [("a", -1.0)], add_space_prefix=False)).encode("a", add=False) == [259]


def test_unigram_takes_the_best_sum_and_joins_what_is_unknown() -> None:
    made = tokeniser(
        pieces("t5", [("▁", -3.0), ("▁a", -2.0), ("b", -2.0), ("▁ab", -5.0), ("bb", -2.5)], add_eos_token=True)
    )
    assert shown(made, "ab") == ["▁a", "b", "</s>"]
    assert shown(made, "  abb ", add=False) == ["▁a", "bb"]
    assert shown(made, "a??b", add=False) == ["▁a", "<unk>", "b"]


def test_word_pieces_are_the_longest_that_are_known() -> None:
    words = ["[UNK]", "[CLS]", "[SEP]", "▁un", "▁unable", "able", "s", "▁,"]
    made = tokeniser(
        {
            "tokenizer.ggml.model": "bert", "tokenizer.ggml.tokens": words, "tokenizer.ggml.token_type": [3, 3, 3,
            *[1] * 5],
            "tokenizer.ggml.unknown_token_id": 0, "tokenizer.ggml.cls_token_id": 1,
            "tokenizer.ggml.seperator_token_id": 2,
        }
    )  # fmt: skip
    assert shown(made, "Unables, zzz") == ["[CLS]", "▁unable", "s", "▁,", "[UNK]", "[SEP]"]
    assert words_of("Ünïcode 中文!") == ["unicode", "中", "文", "!"]


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        ({"tokenizer.ggml.tokens": []}, ParseError, "tokens is missing"),
        ({"tokenizer.ggml.tokens": [1, 2]}, ParseError, "is no list of texts"),
        ({"tokenizer.ggml.eos_token_id": 10**6}, ParseError, "is none of 259 words"),
        ({"tokenizer.ggml.token_type": [1]}, ParseError, "is no list of 259 numbers"),
        ({"tokenizer.ggml.merges": []}, ParseError, "merges is missing"),
        ({"tokenizer.ggml.pre": "llama-bpf"}, NotSupportedError, 'Did you mean "llama-bpe"'),
        ({"tokenizer.ggml.model": "rwkv"}, NotSupportedError, "of the kind 'rwkv' are not known"),
    ],
)
def test_a_wrong_vocabulary_says_what_is_wrong(change: dict[str, Any], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        tokeniser(byte_pairs("a b") | change)


def test_a_number_that_is_no_word_is_refused() -> None:
    with pytest.raises(UserError, match="decode: 999 is none of 259 words"):
        tokeniser(byte_pairs("a b")).decode([999])
