"""SentencePiece's byte pairs: neighbours are merged to the word with the highest score; what no word has is its bytes.

Spaces are ▁, and one stands in front of the text where the model wants it: "Hello" is "▁Hello".
"""

from __future__ import annotations

from whit.llm.tokenisers.base import Tokeniser
from whit.llm.tokenisers.byte_pair import SPACE
from whit.llm.tokenisers.merging import merge
from whit.llm.tokenisers.vocabulary import BYTE, Vocabulary


class SentencePiece(Tokeniser):
    """See the module."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__(vocabulary)
        self.bytes = {
            int(word[3:5], 16): i
            for i, word in enumerate(vocabulary.words)
            if vocabulary.types[i] == BYTE and word[:3] == "<0x"
        }

    def _rank(self, pair: tuple[str, str]) -> float | None:
        number = self.numbers.get(pair[0] + pair[1])
        return None if number is None else -self.vocabulary.scores[number]

    def tokens(self, text: str, is_first: bool) -> list[int]:
        """See the base."""
        if self.vocabulary.adds_space and is_first:
            text = " " + text
        found: list[int] = []
        for symbol in merge(list(text.replace(" ", SPACE)), self._rank):
            number = self.numbers.get(symbol)
            found += self._unknown(symbol) if number is None else [number]
        return found

    def _unknown(self, symbol: str) -> list[int]:
        codes = [self.bytes.get(byte) for byte in symbol.encode(errors="replace")]
        known = [code for code in codes if code is not None]
        if len(known) == len(codes):
            return known
        return [] if self.vocabulary.unknown is None else [self.vocabulary.unknown]

    def spell(self, number: int) -> bytes:
        """See the base."""
        return self.vocabulary.words[number].replace(SPACE, " ").encode(errors="surrogateescape")

    def decode(self, tokens: object, *, special: bool = False) -> str:
        """The text without the space in front that encoding adds."""
        text = super().decode(tokens, special=special)  # type: ignore[arg-type]
        return text[1:] if self.vocabulary.adds_space and text[:1] == " " else text
