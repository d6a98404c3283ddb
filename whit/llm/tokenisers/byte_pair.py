"""Byte pairs: words of bytes, merged in the order that was learned.

Each byte is spelled as a printable letter in the vocabulary (GPT-2's table): " world" is "Ġworld". Vocabularies of
gemma 4's kind spell text itself, with ▁ for a space, and bytes that no word has as <0xE2>.
"""

from __future__ import annotations

from functools import lru_cache

from whit.errors import ParseError
from whit.llm.config import FIX
from whit.llm.tokenisers.base import Tokeniser
from whit.llm.tokenisers.merging import merge
from whit.llm.tokenisers.split import cut, patterns_of
from whit.llm.tokenisers.vocabulary import Vocabulary

WHOLE_WORDS = {
    "llama-bpe",
    "llama3",
    "llama-v3",
    "tekken",
    "falcon3",
    "pixtral",
    "falcon-h1",
    "lfm2",
}  # first as they are
PLAIN = {"gemma4", "sarvam-moe", "whitespace"}  # text itself, not spelled bytes
MOST_CACHED = 1 << 14
SPACE = "▁"


def byte_letters() -> list[str]:
    """The letter of each byte: itself where it is printable, else one from 256 on."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters, other = {code: chr(code) for code in printable}, 256
    for code in range(256):
        if code not in letters:
            letters[code] = chr(other)
            other += 1
    return [letters[code] for code in range(256)]


LETTERS = byte_letters()
CODES = {letter: code for code, letter in enumerate(LETTERS)}
SPELLED = dict(enumerate(LETTERS))


class BytePair(Tokeniser):
    """See the module."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__(vocabulary)
        self.patterns = vocabulary.patterns or patterns_of(vocabulary.pre)
        self.is_plain = vocabulary.pre in PLAIN
        self.takes_whole = vocabulary.pre in WHOLE_WORDS
        self.ranks: dict[tuple[str, str], int] = {}
        for i, pair in enumerate(vocabulary.merges):
            left, _, right = pair[1:].partition(" ")  # a space may be the first letter
            self.ranks.setdefault((pair[:1] + left, right), i)
        if not self.ranks and vocabulary.model == "gpt2":
            raise ParseError("load: GGUF: tokenizer.ggml.merges is missing", "byte pairs need it", FIX)
        self._word = lru_cache(MOST_CACHED)(self._word_tokens)

    def tokens(self, text: str, is_first: bool) -> list[int]:
        """See the base."""
        if self.is_plain:
            text = text.replace(" ", SPACE)
        return [number for word in cut(text, self.patterns) for number in self._word(word)]

    def _word_tokens(self, word: str) -> tuple[int, ...]:
        if not self.is_plain:
            word = word.encode(errors="replace").decode("latin-1").translate(SPELLED)
        whole = self.numbers.get(word) if self.takes_whole else None
        if whole is not None:
            return (whole,)
        found: list[int] = []
        for symbol in merge(list(word), self.ranks.get):
            number = self.numbers.get(symbol)
            found += self._unknown(symbol) if number is None else [number]
        return tuple(found)

    def _unknown(self, symbol: str) -> list[int]:
        """Single letters, or bytes, where a merged word is in no vocabulary."""
        if self.is_plain:
            names = [f"<0x{byte:02X}>" for byte in symbol.encode(errors="replace")]
        else:
            names = list(symbol)
        return [self.numbers[name] for name in names if name in self.numbers]

    def spell(self, number: int) -> bytes:
        """See the base."""
        word = self.vocabulary.words[number]
        if self.is_plain:
            return word.replace(SPACE, " ").encode(errors="surrogateescape")
        found = bytearray()
        for letter in word:
            code = CODES.get(letter)
            found += letter.encode(errors="surrogateescape") if code is None else bytes([code])
        return bytes(found)
