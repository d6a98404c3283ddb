"""Unigram (SentencePiece's other kind: T5, XLM-R): the cutting whose words have the largest sum of scores.

Text is normalised by the table of the file first: a trie of strings, in the two arrays that SentencePiece writes.
"""

from __future__ import annotations

import struct

from whit.errors import ParseError
from whit.llm.config import FIX
from whit.llm.tokenisers.base import Tokeniser
from whit.llm.tokenisers.byte_pair import SPACE
from whit.llm.tokenisers.vocabulary import BYTE, CONTROL, UNKNOWN, UNUSED, Vocabulary

UNKNOWN_PENALTY = 10.0  # below the worst score, as SentencePiece has it


class Normaliser:
    """Longest prefixes that a trie knows are replaced."""

    def __init__(self, charsmap: bytes) -> None:
        self.units: tuple[int, ...] = ()
        self.texts = b""
        if len(charsmap) < 4:
            return
        size = struct.unpack("<I", charsmap[:4])[0]
        if size % 4 or 4 + size > len(charsmap):
            raise ParseError("load: GGUF: tokenizer.ggml.precompiled_charsmap is cut off", "", FIX)
        self.units = struct.unpack(f"<{size // 4}I", charsmap[4 : 4 + size])
        self.texts = charsmap[4 + size :]

    def __call__(self, text: str) -> str:
        """The text with spaces as one each."""
        found, data, place = bytearray(), text.encode(errors="replace"), 0
        while place < len(data):
            length, value = self._longest(data, place)
            if length:
                end = self.texts.find(b"\0", value)
                found += self.texts[value : len(self.texts) if end < 0 else end]
            else:
                first = data[place]
                length = 1 if first < 0x80 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4
                found += data[place : place + length]
            place += length
        return " ".join(found.decode(errors="replace").split(" ")) if self.units else found.decode(errors="replace")

    def _longest(self, data: bytes, place: int) -> tuple[int, int]:
        """Bytes of the longest entry here, and where its text is: a walk through a double array."""
        units, best, value = self.units, 0, 0
        if not units:
            return 0, 0
        node = self._offset(units[0])
        for at in range(place, len(data)):
            node ^= data[at]
            if node >= len(units) or units[node] & ((1 << 31) | 0xFF) != data[at]:
                break
            unit = units[node]
            node ^= self._offset(unit)
            if unit >> 8 & 1 and node < len(units):
                best, value = at + 1 - place, units[node] & ((1 << 31) - 1)
        return best, value

    @staticmethod
    def _offset(unit: int) -> int:
        return (unit >> 10) << ((unit & (1 << 9)) >> 6)


class Unigram(Tokeniser):
    """See the module."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__(vocabulary)
        self.normalise = Normaliser(vocabulary.charsmap)
        hidden = (CONTROL, UNKNOWN, UNUSED, BYTE)
        self.known = {w: i for w, i in self.numbers.items() if vocabulary.types[i] not in hidden and w}
        self.longest = max(map(len, self.known), default=1)
        scores = [vocabulary.scores[i] for i in self.known.values()]
        self.penalty = min(scores, default=0.0) - UNKNOWN_PENALTY

    def tokens(self, text: str, is_first: bool) -> list[int]:
        """See the base."""
        text = self.normalise(text)
        text = " ".join(word for word in text.split(" ") if word)
        if not text:
            return []
        text = SPACE + text.replace(" ", SPACE) if self.vocabulary.adds_space and is_first else text.replace(" ", SPACE)
        unknown = self.vocabulary.unknown
        found = [unknown if number is None else number for number in self._best(text)]
        return [x for i, x in enumerate(found) if x is not None and (x != unknown or i == 0 or found[i - 1] != unknown)]

    def _best(self, text: str) -> list[int | None]:
        """The best cutting of each beginning, from the last word of it."""
        count, scores = len(text), self.vocabulary.scores
        best: list[float] = [0.0] + [-float("inf")] * count
        back: list[tuple[int, int | None]] = [(0, None)] * (count + 1)
        for start in range(count):
            for end in range(start + 1, min(start + self.longest, count) + 1):
                number = self.known.get(text[start:end])
                if number is None and end > start + 1:
                    continue
                score = best[start] + (self.penalty if number is None else scores[number])
                if score > best[end]:
                    best[end], back[end] = score, (start, number)
        found: list[int | None] = []
        end = count
        while end:
            end, number = back[end]
            found.append(number)
        return found[::-1]

    def spell(self, number: int) -> bytes:
        """See the base."""
        return self.vocabulary.words[number].replace(SPACE, " ").encode(errors="surrogateescape")
