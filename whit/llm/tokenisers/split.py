r"""How text is cut into words before its bytes are merged: the pattern of each family.

    split("gpt-2", "Hello world") -> ["Hello", " world"]

Patterns are those of the models' own files. They name properties of characters (`\p{L}`: letters), which Python's
`re` does not
have: they become ranges, for text of ASCII those of ASCII. Patterns of a family are applied one after the other:
each cuts
what the one before left, into what it matches and what is between.
"""

from __future__ import annotations

import functools
import re
import unicodedata

from whit.errors import NotSupportedError, nearest

ANY_CASE = r"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])"
LAST = r"\s*[\r\n]+|\s+(?!\S)|\s+"  # lines' ends, and spaces but for the one before a word
GPT2 = (r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)",)
LLAMA3 = (rf"{ANY_CASE}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{LAST}",)
QWEN2 = (rf"{ANY_CASE}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{LAST}",)
QWEN35 = (rf"{ANY_CASE}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{LAST}",)
DIGITS = (r"\p{N}", *GPT2)
DEEPSEEK3 = (
    r"\p{N}{1,3}",
    "[一-龥\u3040-ゟ゠-ヿ]+",
    r"[!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|" + LAST,
)
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"


def _by_case(after: str, digits: str) -> tuple[str, ...]:
    """Words end where small letters are followed by large ones."""
    begin = r"[^\r\n\p{L}\p{N}]?"
    rest = rf" ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{LAST}"
    return (f"{begin}{UPPER}*{LOWER}+{after}|{begin}{UPPER}+{LOWER}*{after}|{digits}|{rest}",)


PATTERNS: dict[str, tuple[str, ...]] = {
    "default": (r"[\p{P}\$\+<=>\^~\|]+", *GPT2, r"\p{N}+", "[0-9][0-9][0-9]"),
    **dict.fromkeys(("gpt-2", "mpt", "olmo", "jais", "phi-2", "roberta-bpe", "modern-bert", "exaone4"), GPT2),
    **dict.fromkeys(("jina-v2-code", "jina-v1-en", "jina-es", "jina-de", "jina-v2-es", "jina-v2-de", "trillion"), GPT2),
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3", "dbrx", "smaug-bpe", "chatglm-bpe", "glm4"), LLAMA3),
    **dict.fromkeys(("falcon3", "pixtral", "falcon-h1", "lfm2"), LLAMA3),
    **dict.fromkeys(("qwen2", "stablelm2", "deepseek-r1-qwen", "megrez", "hunyuan", "grok-2"), QWEN2),
    "qwen35": QWEN35,
    **dict.fromkeys(("starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b"), DIGITS),
    "falcon": (r"[\p{P}\$\+<=>\^~\|`]+", *GPT2, "[0-9][0-9][0-9]"),
    "deepseek-llm": (
        "[\r\n]", r"\s?[\p{Lu}\p{Ll}\p{Lt}]+", r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+\Z", "[一-龥ࠀ-一가-퟿]+",
        r"\p{N}+",
    ),
    "deepseek-coder": ("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+", r"\p{N}"),
    **dict.fromkeys(("deepseek-v3", "hunyuan-dense", "joyai-llm"), DEEPSEEK3),
    **dict.fromkeys(("gpt-4o", "llama4", "kanana2", "minimax-m2"), _by_case(f"(?:{ANY_CASE})?", r"\p{N}{1,3}")),
    "tekken": _by_case("", r"\p{N}"),
    **dict.fromkeys(("poro-chat", "bloom", "gpt3-finnish"), (r" ?[^(\s|.,!?…。，、।۔،)]+",)),
    "viking": (r" ?[^(\s|.,!?…。，、।۔،)]+", r"\p{N}"),
    **dict.fromkeys(("gemma4", "sarvam-moe"), (r"[^\n]+|\n+",)),
    "whitespace": (r"\S+",),
}  # fmt: skip

SPACES = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
PROPERTY = re.compile(r"\\p\{(\w+)\}|\\([sSd])|\\.|\[|\]", re.DOTALL)
# Above the scanned planes there are ideographs, and variation selectors.
SCANNED, IDEOGRAPHS, SELECTORS = 0x30000, "\U00030000-\U000323af", "\U000e0100-\U000e01ef"


@functools.lru_cache(maxsize=32)
def _ranges(prefix: str, is_ascii: bool) -> str:
    """The characters whose category begins so, as the inside of a class."""
    codes = range(128 if is_ascii else SCANNED)
    found, start = [], -1
    for code in codes:
        is_in = unicodedata.category(chr(code)).startswith(prefix)
        if is_in and start < 0:
            start = code
        if not is_in and start >= 0:
            found.append((start, code - 1))
            start = -1
    if start >= 0:
        found.append((start, codes[-1]))
    text = "".join(re.escape(chr(a)) + (f"-{re.escape(chr(b))}" if b > a else "") for a, b in found)
    if is_ascii:
        return text or "\\u0100"  # a class must have something, and this is not in the text
    return text + {"L": IDEOGRAPHS, "Lo": IDEOGRAPHS, "M": SELECTORS, "Mn": SELECTORS}.get(prefix, "")


@functools.lru_cache(maxsize=256)
def compiled(pattern: str, is_ascii: bool) -> re.Pattern[str]:
    """A pattern with properties as one of `re`."""
    is_inside = False

    def replaced(match: re.Match[str]) -> str:
        nonlocal is_inside
        whole, name, letter = match.group(0), match.group(1), match.group(2)
        if whole in "[]":
            is_inside = whole == "["
            return whole
        if name is None and letter is None:
            return whole
        inside = _ranges(name or "Nd", is_ascii) if letter not in ("s", "S") else SPACES
        if is_inside:
            return inside
        return f"[{'^' if letter == 'S' else ''}{inside}]"

    return re.compile(PROPERTY.sub(replaced, pattern))


def patterns_of(pre: str) -> tuple[str, ...]:
    """Those of a family."""
    found = PATTERNS.get(pre)
    if found is None:
        raise NotSupportedError(
            f"load: no split pattern {pre!r:.60} is known",
            "tokenizer.ggml.pre of the file names it",
            f"Known: {', '.join(PATTERNS)}.{nearest(pre[:60], list(PATTERNS))}",
        )
    return found


def cut(text: str, patterns: tuple[str, ...]) -> list[str]:
    """Words, which put together are the text."""
    is_ascii = text.isascii()
    pieces = [text]
    for pattern in patterns:
        search = compiled(pattern, is_ascii).finditer
        found: list[str] = []
        for piece in pieces:
            end = 0
            for match in search(piece):
                start, stop = match.span()
                if start > end:
                    found.append(piece[end:start])
                if stop > start:
                    found.append(piece[start:stop])
                end = max(end, stop)
            if end < len(piece):
                found.append(piece[end:])
        pieces = found
    return pieces


def split(pre: str, text: str) -> list[str]:
    """Words of a text."""
    return cut(text, patterns_of(pre)) if text else []
