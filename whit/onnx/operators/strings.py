"""Strings, on the host: joined, split, matched, cleaned, counted."""

from __future__ import annotations

import itertools
import re
from typing import Any, Final

import numpy

from whit.errors import ArgumentError, NotSupportedError
from whit.onnx.operators.registry import ALL, Node, Value, as_tensor, host_array, operator
from whit.tensor import Tensor

Array = numpy.ndarray[Any, Any]
MOST_LETTERS: Final = 1 << 26  # of one value; a few nodes that double a text would fill any memory


def text_array(texts: Any, shape: tuple[int, ...]) -> Array:
    """Strings as an array of a shape."""
    result = numpy.empty(len(texts), dtype=object)
    result[:] = texts
    return result.reshape(shape)


@operator("StringConcat", since=(20,), host=ALL)
def string_concat(node: Node, a: Value, b: Value) -> Value:
    """Element by element, with broadcasting."""
    left, right = numpy.broadcast_arrays(a, b)
    letters = sum(len(str(text)) for side in (left, right) for text in side.reshape(-1))
    if letters > MOST_LETTERS:
        raise NotSupportedError(
            f"{node}: the texts together have {letters:,} letters",
            f"a value has {MOST_LETTERS:,} at most",
            "Join fewer.",
        )
    pairs = zip(left.reshape(-1), right.reshape(-1), strict=True)
    return text_array([str(x) + str(y) for x, y in pairs], left.shape)


@operator("StringSplit", since=(20,), host=ALL)
def string_split(node: Node, x: Value) -> tuple[Value, ...]:
    """Parts on a new last axis, filled with empty strings; and how many there are of each."""
    delimiter, most = node.get("delimiter") or None, int(node.get("maxsplit", -1))
    parts = [str(text).split(delimiter, most) for text in x.reshape(-1)]
    longest = max((len(each) for each in parts), default=0)
    flat = [text for each in parts for text in each + [""] * (longest - len(each))]
    counts = numpy.array([len(each) for each in parts], dtype=numpy.int64).reshape(x.shape)
    return text_array(flat, (*x.shape, longest)), as_tensor(counts)


@operator("RegexFullMatch", since=(20,), host=ALL)
def regex_full_match(node: Node, x: Value) -> Tensor:
    """Whether the whole of each string matches a pattern."""
    try:
        pattern = re.compile(node.get("pattern"))
    except re.error as error:
        raise ArgumentError(f"{node}: pattern {node.get('pattern')!r}", str(error), "Python must know it.") from error
    found = [pattern.fullmatch(str(text)) is not None for text in x.reshape(-1)]
    return Tensor(numpy.array(found, dtype=bool).reshape(x.shape))


@operator("StringNormalizer", since=(10,), host=ALL)
def string_normalizer(node: Node, x: Value) -> Value:
    """Without some words, in another case."""
    words = list(node.get("stopwords") or ())
    exact = bool(node.get("is_case_sensitive", 0))
    unwanted = set(words if exact else [word.lower() for word in words])
    kept = [str(text) for text in x.reshape(-1) if (str(text) if exact else str(text).lower()) not in unwanted]
    change = {"LOWER": str.lower, "UPPER": str.upper}.get(node.get("case_change_action", "NONE"), str)
    texts = [change(text) for text in kept] or [""]
    return text_array(texts, (len(texts),) if x.ndim == 1 else (1, len(texts)))


_WEIGHTED: Final = ("IDF", "TFIDF")


def _grams(node: Node) -> dict[tuple[Any, ...], int]:
    """The n-grams that are looked for, of the lengths that are asked for, and their number."""
    pool = node.get("pool_strings") or node.get("pool_int64s")
    starts = [*node.get("ngram_counts"), len(pool)]
    known: dict[tuple[Any, ...], int] = {}
    number = 0
    for length, (begin, end) in enumerate(itertools.pairwise(starts), 1):
        for at in range(begin, end, length):
            known[tuple(pool[at : at + length])] = number
            number += 1
    return known


@operator("TfIdfVectorizer", since=(9,), host=ALL)
def count_n_grams(node: Node, x: Value) -> Tensor:
    """How often n-grams occur, with up to `max_skip_count` elements between two of theirs."""
    known, places = _grams(node), list(node.get("ngram_indexes"))
    weights = list(node.get("weights") or [1.0] * len(places))
    array = host_array(x)
    rows = array.reshape(1, -1) if array.ndim < 2 else array
    result = numpy.zeros((rows.shape[0], max(places) + 1), dtype=numpy.float32)
    for row, elements in enumerate(rows.tolist()):
        for number in _occurrences(node, elements, known):
            result[row, places[number]] += 1
    mode = node.get("mode")
    if mode == "IDF":
        result = (result > 0).astype(numpy.float32)
    if mode in _WEIGHTED:
        scale = numpy.ones(result.shape[1], dtype=numpy.float32)
        scale[places] = weights
        result = result * scale
    return Tensor(result if array.ndim > 1 else result[0])


def _occurrences(node: Node, elements: list[Any], known: dict[tuple[Any, ...], int]) -> list[int]:
    found = []
    for length in range(int(node.get("min_gram_length")), int(node.get("max_gram_length")) + 1):
        for step in range(1, 2 + (int(node.get("max_skip_count")) if length > 1 else 0)):
            for start in range(len(elements) - (length - 1) * step):
                gram = tuple(elements[start : start + (length - 1) * step + 1 : step])
                if gram in known:
                    found.append(known[gram])
    return found
