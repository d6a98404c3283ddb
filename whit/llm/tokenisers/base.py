"""What all tokenisers share: special tokens, the words in front and behind, and text that comes piece by piece."""

from __future__ import annotations

import codecs
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator

from whit.errors import ArgumentError
from whit.llm.tokenisers.vocabulary import BYTE, CONTROL, UNKNOWN, USER, Vocabulary


class Tokeniser(ABC):
    """Text into numbers of words and back."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.numbers = {word: i for i, word in enumerate(vocabulary.words)}
        types = vocabulary.types
        self.users = {w: i for w, i in self.numbers.items() if types[i] == USER and w}
        self.specials = {w: i for w, i in self.numbers.items() if types[i] in (USER, CONTROL, UNKNOWN) and w}
        self._user_pattern, self._special_pattern = _one_of(self.users), _one_of(self.specials)

    def encode(self, text: str, *, special: bool = False, add: bool = True) -> list[int]:
        """Numbers of words. `special`: special tokens that are spelled in the text are those, not letters. `add`: with
        the first and last word that the model wants."""
        if not isinstance(text, str):
            raise ArgumentError(f"encode: a {type(text).__name__} is no text", fix="Give a str.")
        found: list[int] = []
        is_first = True  # at the start, or behind a special token
        for piece, number in self._parts(text, special):
            if number is not None:
                found.append(number)
            elif piece:
                found += self.tokens(piece, is_first)
            is_first = number is not None
        return self.around(found) if add else found

    def around(self, tokens: list[int]) -> list[int]:
        """With the first and the last word."""
        v = self.vocabulary
        front = [v.first] if v.adds_first and v.first is not None else []
        last = v.separator if v.separator is not None else v.last
        back = [last] if v.adds_last and last is not None else []
        return [*front, *tokens, *back]

    def _parts(self, text: str, special: bool) -> Iterator[tuple[str, int | None]]:
        """Pieces of text, and special tokens with their number."""
        pattern = self._special_pattern if special else self._user_pattern
        end = 0
        for match in pattern.finditer(text) if pattern is not None else ():
            yield text[end : match.start()], None
            yield match.group(), self.specials[match.group()]
            end = match.end()
        yield text[end:], None

    @abstractmethod
    def tokens(self, text: str, is_first: bool) -> list[int]:
        """Numbers of a text without special tokens; `is_first`: nothing, or a special token, stands before it."""

    @abstractmethod
    def spell(self, number: int) -> bytes:
        """The bytes of an ordinary word."""

    def bytes_of(self, number: int, special: bool = False) -> bytes:
        """The bytes of a word. Those of control tokens are empty unless they are asked for."""
        v = self.vocabulary
        if not 0 <= number < len(v.words):
            raise ArgumentError(f"decode: {number} is none of {len(v.words)} words", fix="Give numbers of words.")
        kind = v.types[number]
        if kind in (CONTROL, UNKNOWN):
            return v.words[number].encode(errors="surrogateescape") if special else b""
        if kind == USER:
            return v.words[number].encode(errors="surrogateescape")
        if kind == BYTE:
            return bytes([int(v.words[number][3:5], 16)])
        return self.spell(number)

    def decode(self, tokens: Iterable[int], *, special: bool = False) -> str:
        """The text; bytes that are no UTF-8 become U+FFFD."""
        return b"".join(self.bytes_of(int(number), special) for number in tokens).decode(errors="replace")

    def decoder(self) -> Decoder:
        """For words that come one after the other."""
        return Decoder(self)


class Decoder:
    """Gives text as soon as its bytes are whole characters."""

    def __init__(self, tokeniser: Tokeniser) -> None:
        self._tokeniser = tokeniser
        self._decode = codecs.getincrementaldecoder("utf-8")("replace")

    def __call__(self, number: int) -> str:
        """What the next word adds."""
        return self._decode.decode(self._tokeniser.bytes_of(number))

    def end(self) -> str:
        """What was left."""
        return self._decode.decode(b"", final=True)


def _one_of(words: dict[str, int]) -> re.Pattern[str] | None:
    """Any of these, the longest first."""
    return re.compile("|".join(map(re.escape, sorted(words, key=len, reverse=True)))) if words else None
