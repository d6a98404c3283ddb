"""WordPiece (BERT): words without accents and capitals, cut into the longest pieces that are known.

In GGUF the first piece of a word has ▁ in front, later ones nothing.
"""

from __future__ import annotations

import unicodedata

from whit.llm.tokenisers.base import Tokeniser
from whit.llm.tokenisers.byte_pair import SPACE

MOST_LETTERS = 200  # of a word; longer ones are unknown


def _is_alone(letter: str) -> bool:
    """Punctuation, symbols of ASCII, and ideographs are words of their own."""
    code = ord(letter)
    if 0x4E00 <= code <= 0x9FFF or 0x3400 <= code <= 0x4DBF or 0xF900 <= code <= 0xFAFF or 0x20000 <= code <= 0x2FA1F:
        return True
    category = unicodedata.category(letter)
    return category[0] == "P" or (code < 128 and category[0] == "S")


def words_of(text: str) -> list[str]:
    """Lower case, no accents, no control characters."""
    words: list[str] = []
    word = ""
    for letter in unicodedata.normalize("NFD", text):
        category = unicodedata.category(letter)
        if letter.isspace() or category[0] == "Z":
            words, word = [*words, word] if word else words, ""
        elif letter in "\0\ufffd" or category[0] == "C" or category == "Mn":
            continue
        elif _is_alone(letter):
            words, word = [*words, *([word] if word else []), letter], ""
        else:
            word += letter.lower()
    return [*words, word] if word else words


class WordPiece(Tokeniser):
    """See the module."""

    def tokens(self, text: str, is_first: bool) -> list[int]:
        """See the base."""
        return [number for word in words_of(text) for number in self._word(word)]

    def _word(self, word: str) -> list[int]:
        unknown = [] if self.vocabulary.unknown is None else [self.vocabulary.unknown]
        if len(word) > MOST_LETTERS:
            return unknown
        rest, found = SPACE + word, []
        while rest:
            number, end = None, len(rest)
            while end and number is None:
                number = self.numbers.get(rest[:end])
                end -= number is None
            if number is None:
                return unknown
            found.append(number)
            rest = rest[end:]
        return found

    def spell(self, number: int) -> bytes:
        """See the base."""
        word = self.vocabulary.words[number]
        return word.replace(SPACE, " ").encode(errors="surrogateescape")
