"""The tokeniser of a vocabulary."""

from __future__ import annotations

from collections.abc import Callable

from whit.errors import NotSupportedError
from whit.llm.tokenisers.base import Tokeniser
from whit.llm.tokenisers.byte_pair import BytePair
from whit.llm.tokenisers.sentence_piece import SentencePiece
from whit.llm.tokenisers.unigram import Unigram
from whit.llm.tokenisers.vocabulary import Vocabulary
from whit.llm.tokenisers.word_piece import WordPiece

MODELS: dict[str, Callable[[Vocabulary], Tokeniser]] = {
    "gpt2": BytePair,
    "gemma4": BytePair,
    "llama": SentencePiece,
    "bert": WordPiece,
    "t5": Unigram,
}


def tokeniser_of(vocabulary: Vocabulary) -> Tokeniser:
    """By its model."""
    kind = MODELS.get(vocabulary.model)
    if kind is None:
        raise NotSupportedError(
            f"load: tokenisers of the kind {vocabulary.model!r:.40} are not known", "", f"Known: {', '.join(MODELS)}."
        )
    return kind(vocabulary)
