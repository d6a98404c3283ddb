"""Tokenisers: text into numbers of words and back, as the model's file says.

    tokeniser = tokeniser_of(vocabulary)
    tokeniser.encode("The capital of France is")       # [504, 3575, 282, 4649, 314]
    tokeniser.decode([7042, 30])                        # " Paris."

`vocabulary.py` reads the file; `split.py` cuts text into words, `byte_pair.py`, `sentence_piece.py`, `word_piece.py`
and `unigram.py`
cut words into tokens; `base.py` is what they share. Special tokens are never made from text unless it is asked for.
"""

from whit.llm.tokenisers.base import Decoder, Tokeniser
from whit.llm.tokenisers.choose import tokeniser_of
from whit.llm.tokenisers.vocabulary import Vocabulary, vocabulary_of

__all__ = ["Decoder", "Tokeniser", "Vocabulary", "tokeniser_of", "vocabulary_of"]
