"""tokenizer.json -> Vocabulary: byte pairs, SentencePiece's byte pairs, WordPiece and Unigram as Hugging Face stores
them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from whit.errors import NotSupportedError, ParseError
from whit.llm.config import FIX
from whit.llm.tokenisers.split import GPT2
from whit.llm.tokenisers.vocabulary import BYTE, CONTROL, ENDS, NORMAL, USER, Vocabulary

MOST_WORDS = 1 << 24


def vocabulary_of(folder: Path, read_json: Callable[[Path], dict[str, Any]]) -> Vocabulary | None:
    """The vocabulary of a folder; None if it has no tokenizer.json."""
    path = folder / "tokenizer.json"
    if not path.is_file():
        return None
    settings = folder / "tokenizer_config.json"
    template = folder / "chat_template.jinja"
    said = read_json(settings) if settings.is_file() else {}
    if template.is_file():
        said["chat_template"] = template.read_text("utf-8")
    return converted(read_json(path), said)


def converted(data: dict[str, Any], said: dict[str, Any]) -> Vocabulary:
    """Of the two files."""
    model = data.get("model")
    if not isinstance(model, dict):
        raise ParseError("load: tokenizer.json has no model", "", FIX)
    words, scores = _words(model)
    types = _with_added(words, data.get("added_tokens") or [])
    scores += [0.0] * (len(words) - len(scores))
    kind = model.get("type") or ("BPE" if "merges" in model else "")
    if kind == "BPE" and model.get("byte_fallback"):
        types = [BYTE if _is_byte(word) and t == NORMAL else t for word, t in zip(words, types, strict=True)]
        ranks = {"".join(pair): -float(i) for i, pair in enumerate(_merges(model))}
        scores = [ranks.get(word, -1e9) for word in words]
        kind = "pieces"
    if kind == "WordPiece":
        words = [_marked(word, kind_of) for word, kind_of in zip(words, types, strict=True)]
    if kind not in KINDS:
        raise NotSupportedError(f"load: tokenizer.json: models of the kind {kind!r:.40} are not known", "", "")
    return _made(KINDS[kind], words, types, scores, model, data, said)


KINDS = {"BPE": "gpt2", "pieces": "llama", "WordPiece": "bert", "Unigram": "t5"}


def _with_added(words: list[str], added: Any) -> list[int]:
    """The type of each word; words that were added are put in."""
    types = [NORMAL] * len(words)
    for each in added if isinstance(added, list) else []:
        number, word = (each.get("id"), each.get("content")) if isinstance(each, dict) else (None, None)
        if type(number) is not int or not isinstance(word, str) or not 0 <= number < MOST_WORDS:
            raise ParseError("load: tokenizer.json has a wrong added token", f"{each!r:.80}", FIX)
        more = number + 1 - len(words)
        words += [""] * more
        types += [NORMAL] * more
        words[number], types[number] = word, CONTROL if each.get("special") else USER
    return types


def _marked(word: str, kind: int) -> str:
    """WordPiece's words as GGUF has them: ▁ in front of those that begin a word."""
    if kind == CONTROL:
        return word
    return word[2:] if word[:2] == "##" else f"▁{word}"


def _words(model: dict[str, Any]) -> tuple[list[str], list[float]]:
    given = model.get("vocab")
    if isinstance(given, list):
        if not all(isinstance(x, list) and len(x) == 2 and isinstance(x[0], str) for x in given):
            raise ParseError("load: tokenizer.json: the vocabulary is no list of words and scores", "", FIX)
        return [x[0] for x in given], [float(x[1]) for x in given]
    if not isinstance(given, dict) or not all(type(x) is int and 0 <= x < MOST_WORDS for x in given.values()):
        raise ParseError("load: tokenizer.json has no vocabulary", "", FIX)
    words = [""] * (max(given.values(), default=-1) + 1)
    for word, number in given.items():
        words[number] = word
    return words, [0.0] * len(words)


def _merges(model: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for pair in model.get("merges") or []:
        left, right = (
            pair if isinstance(pair, list) else (pair[:1] + pair[1:].partition(" ")[0], pair[1:].partition(" ")[2])
        )
        yield left, right


def _is_byte(word: str) -> bool:
    return len(word) == 6 and word[:3] == "<0x" and word[5] == ">"


def _word(words: dict[str, int], said: dict[str, Any], name: str) -> int | None:
    given = said.get(name)
    text = given.get("content") if isinstance(given, dict) else given
    return words.get(text) if isinstance(text, str) else None


def _made(
    model: str,
    words: list[str],
    types: list[int],
    scores: list[float],
    given: dict[str, Any],
    data: dict[str, Any],
    said: dict[str, Any],
) -> Vocabulary:
    numbers = {word: i for i, word in enumerate(words)}
    names = ("cls_token", "sep_token") if model == "bert" else ("bos_token", "eos_token")
    first, last = (_word(numbers, said, name) for name in names)
    marks = {numbers[w] for w in ENDS if w in numbers and types[numbers[w]] in (CONTROL, USER)}
    template = said.get("chat_template")
    return Vocabulary(
        model=model,
        pre="",
        words=tuple(words),
        types=tuple(types),
        scores=tuple(scores),
        merges=tuple(f"{a} {b}" for a, b in _merges(given)) if model == "gpt2" else (),
        first=first,
        last=last,
        unknown=_unknown(numbers, given),
        separator=last if model == "bert" else None,
        ends=frozenset(marks if last is None else {*marks, last}),
        adds_first=model == "bert" or _adds_first(first, words, data, said),
        adds_last=model in ("bert", "t5"),
        adds_space=model in ("llama", "t5") and "▁" in str(data.get("normalizer")),
        template=template if isinstance(template, str) else None,
        patterns=tuple(_patterns(data.get("pre_tokenizer"))) if model == "gpt2" else (),
    )


def _unknown(numbers: dict[str, int], given: dict[str, Any]) -> int | None:
    word, number = given.get("unk_token"), given.get("unk_id")
    if isinstance(word, str):
        return numbers.get(word)
    return number if type(number) is int and 0 <= number < len(numbers) else None


def _adds_first(first: int | None, words: list[str], data: dict[str, Any], said: dict[str, Any]) -> bool:
    """What the settings say, else whether the first word is a part of what is put around texts."""
    given = said.get("add_bos_token")
    if given is not None or first is None:
        return bool(given)
    return words[first] in str(data.get("post_processor") or "")


def _patterns(given: Any) -> Iterator[str]:
    """Of pre-tokenisers, in their order."""
    if not isinstance(given, dict):
        return
    kind = given.get("type")
    if kind == "Sequence":
        for each in given.get("pretokenizers") or []:
            yield from _patterns(each)
    elif kind == "Split" and isinstance(given.get("pattern"), dict) and isinstance(given["pattern"].get("Regex"), str):
        yield given["pattern"]["Regex"]
    elif kind == "Digits":
        yield r"\p{N}" if given.get("individual_digits") else r"\p{N}+"
    elif kind == "ByteLevel" and given.get("use_regex", True):
        yield GPT2[0]
    elif kind == "Punctuation":
        yield r"[\p{P}\$\+<=>\^~\|`]"
