"""A model that has been loaded: text in, text out.

model = load("SmolLM2-135M-Instruct.Q4_1.gguf")
"".join(model.generate("The capital of France is", most=8))
for piece in model.chat([{"role": "user", "content": "Hello"}]): print(piece, end="", flush=True)
model.embed(["one text", "another"])                    # of encoders: (2, width)
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from whit.engine.devices.device import canonicalize
from whit.errors import ArgumentError, nearest
from whit.llm import gguf, huggingface
from whit.llm.chat import Message, render
from whit.llm.config import Config
from whit.llm.generate import CACHES, Runner
from whit.llm.gguf import ModelFile
from whit.llm.model import Transformer
from whit.llm.sampling import Sampling
from whit.llm.tokenisers import Tokeniser, Vocabulary, tokeniser_of
from whit.llm.weights import Weights
from whit.tensor import Tensor

DEFAULT_CONTEXT = 4096  # if the model was made for more: a cache takes memory


class LanguageModel:
    """See the module. `transformer` is made of plain modules, `config` says what it is."""

    def __init__(self, file: ModelFile, context: int, cache: str, device: str) -> None:
        self.config: Config = file.config
        self.entries, self.metadata = file.entries, file.metadata
        self.device, self.context = device, context
        self.transformer = Transformer(file.config, Weights(file.entries, device), file.hidden, context)
        self.vocabulary = file.vocabulary
        self._tokeniser = None if file.vocabulary is None else tokeniser_of(file.vocabulary)
        self.runner = Runner(self.transformer, context, CACHES[cache], device) if file.config.family.is_causal else None

    @property
    def tokeniser(self) -> Tokeniser:
        """What makes words of text."""
        if self._tokeniser is None:
            raise ArgumentError("the model's files have no tokeniser", fix="Give numbers of words in place of text.")
        return self._tokeniser

    def _running(self) -> Runner:
        if self.runner is None:
            raise ArgumentError(f"{self.config.family.name} is an encoder, and writes no text", fix="Use embed().")
        return self.runner

    def logits(self, tokens: Sequence[int]) -> Tensor:
        """How likely each word is after each one of a text, before softmax: (positions, words)."""
        return self._running().logits(tokens)

    def tokens(
        self, prompt: str | Sequence[int], sampling: Sampling | None = None, most: int | None = None
    ) -> Iterator[int]:
        """Numbers of the words that follow, without the one that ends the answer."""
        runner = self._running()
        given = self.tokeniser.encode(prompt) if isinstance(prompt, str) else list(prompt)
        ends = self.vocabulary.ends if self.vocabulary is not None else frozenset()
        for number in runner.tokens(given, sampling or Sampling(), most):
            if number in ends:
                return
            yield number

    def generate(
        self,
        prompt: str | Sequence[int],
        sampling: Sampling | None = None,
        *,
        most: int | None = None,
        stop: str | Sequence[str] = (),
    ) -> Iterator[str]:
        """The text that follows, in pieces: `most` words at most, up to a text of `stop`, or until the model ends."""
        stops = (stop,) if isinstance(stop, str) else tuple(stop)
        decode = self.tokeniser.decoder()
        pieces = (decode(number) for number in self.tokens(prompt, sampling, most))
        return stopped(_with_end(pieces, decode.end), tuple(s for s in stops if s))

    def chat(
        self,
        messages: Iterable[Message],
        sampling: Sampling | None = None,
        *,
        most: int | None = None,
        stop: str | Sequence[str] = (),
    ) -> Iterator[str]:
        """The answer to messages, in pieces."""
        return self.generate(self.chat_tokens(messages), sampling, most=most, stop=stop)

    def chat_tokens(self, messages: Iterable[Message]) -> list[int]:
        """The prompt of a chat. The texts of messages never become special tokens: marks of the template do."""
        if self.vocabulary is None:
            raise ArgumentError("chat: the model's files have no tokeniser", fix="Use tokens().")
        return chat_tokens(messages, self.vocabulary, self.tokeniser)

    def embed(self, texts: str | Sequence[str], *, normalise: bool = True) -> np.ndarray:
        """A vector for each text: (texts, width), of length 1."""
        given = [texts] if isinstance(texts, str) else list(texts)
        found = np.stack([self._embedded(self.tokeniser.encode(text)) for text in given])
        return found / np.linalg.norm(found, axis=1, keepdims=True) if normalise else found

    def _embedded(self, tokens: Sequence[int]) -> np.ndarray:
        if not 0 < len(tokens) <= self.context:
            raise ArgumentError(
                f"embed: a text has {len(tokens)} words, and the context {self.context}", fix="Give other texts."
            )
        hidden = self.transformer(Tensor(np.array(tokens, np.int32), device=self.device).realize())
        if self.transformer.norm is not None:
            hidden = self.transformer.norm(hidden)
        pooled = {"mean": lambda: hidden.mean(0), "first": lambda: hidden[0], "last": lambda: hidden[-1]}
        return np.asarray(pooled[self.config.pooling]().numpy())


def chat_tokens(messages: Iterable[Message], vocabulary: Vocabulary, tokeniser: Tokeniser) -> list[int]:
    """Texts of users stand for themselves: they go through the template as marks that nothing else is, and are put back
    after it was cut into special tokens."""
    given = [dict(message) for message in messages]
    texts: list[str] = []
    for message in given:
        content = message.get("content")
        if isinstance(content, str) and _has_special(content, tokeniser):
            message["content"] = f"\ue000{len(texts)}\ue001"
            texts.append(content)
    text = render(given, vocabulary.template, vocabulary)
    found: list[int] = []
    for i, piece in enumerate(text.split("\ue000")):
        number, mark, rest = piece.partition("\ue001") if i else ("", "", piece)
        if mark and number.isdecimal() and int(number) < len(texts):
            found += tokeniser.encode(texts[int(number)], add=False)
        elif i:
            rest = piece
        found += tokeniser.encode(rest, special=True, add=False)
    has_first = bool(found) and found[0] == vocabulary.first
    return found if has_first or not vocabulary.adds_first or vocabulary.first is None else [vocabulary.first, *found]


def _has_special(text: str, tokeniser: Tokeniser) -> bool:
    """Whether a text spells a special token, or the marks that stand for texts."""
    return "\ue000" in text or any(word in text for word in tokeniser.specials)


def _with_end(pieces: Iterator[str], end: object) -> Iterator[str]:
    yield from pieces
    yield end()  # type: ignore[operator]


def stopped(pieces: Iterable[str], stops: tuple[str, ...]) -> Iterator[str]:
    """Pieces up to the first text of `stops`, which is left out; what may be the beginning of one waits."""
    kept = ""
    for piece in pieces:
        kept += piece
        places = [place for stop in stops if (place := kept.find(stop)) >= 0]
        if places:
            if min(places):
                yield kept[: min(places)]
            return
        wait = max((size for stop in stops for size in range(1, len(stop)) if kept.endswith(stop[:size])), default=0)
        if ready := kept[: len(kept) - wait]:
            yield ready
        kept = kept[len(kept) - wait :]
    if kept:
        yield kept


def load(
    path: str | os.PathLike[str], *, context: int | None = None, cache: str = "f16", device: str | None = None
) -> LanguageModel:
    """A model from a GGUF file, or from a folder of Hugging Face (config.json and safetensors).

    `context`: positions that there is room for; the model's own, at most 4096, if it is not given. `cache`: how keys
    and values
    are kept, "f16", "bf16" or "f32". Nothing of the weights is read before it is needed.
    """
    if cache not in CACHES:
        raise ArgumentError(
            f"load: cache={cache!r}", fix=f"Use one of {', '.join(CACHES)}.{nearest(str(cache), list(CACHES))}"
        )
    name = canonicalize(device)
    file = huggingface.read(path) if os.path.isdir(path) else gguf.read(path)
    most = file.config.context
    if context is not None and (type(context) is not int or not 0 < context <= most):
        raise ArgumentError(
            f"load: context={context!r}", fix=f"Give a number from 1 to {most}, what the model is made for."
        )
    size = min(most, DEFAULT_CONTEXT) if context is None else context
    return LanguageModel(file, size, cache, name)
