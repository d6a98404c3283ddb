"""Words one after the other: prompts in chunks, then a word a step, each a captured program for all positions.

    run = Runner(transformer, context=4096, dtype=dtypes.float16)
    for token in run.tokens(prompt, Sampling()):
        ...

Two programs are captured: `prefill` for up to 512 positions, whose number is a variable, and `step` for one. The
cache remembers
what it holds: of a prompt that begins as the last one did, only the rest is computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from whit.dtype import DType, dtypes
from whit.errors import ArgumentError
from whit.ir.uop import UOp
from whit.jit.jit import TinyJit
from whit.llm.cache import Cache
from whit.llm.model import Transformer
from whit.llm.sampling import Plan, Sampling, choose, recent_words
from whit.nn.state.model import get_parameters
from whit.tensor import Tensor

MOST_CHUNK, LEAST_CHUNK = 512, 32  # positions that are computed at once
# A program for prompts takes seconds to capture. Before it is there, prompts are computed word by word as long as
# that reads
# no more bytes of weights than this: less than half a second.
MOST_STEPPED_BYTES = 4 << 30
MOST_SCORES = 1 << 25  # of all heads and positions of a chunk


class Programs:
    """What is captured: functions of tensors and bound variables. Nothing here changes, or they would be captured
    again."""

    def __init__(self, model: Transformer, cache: Cache) -> None:
        self.model, self.cache = model, cache

    def prefill(self, tokens: Tensor, position: Any, count: Any, plan: Plan, *given: Tensor) -> Tensor:
        """The first `count` words at a position -> the next word."""
        hidden = self.model(tokens[:count], position, self.cache)
        return self._chosen(hidden[count - 1 : count], position + count - 1, plan, given)

    def step(self, token: Tensor, position: Any, plan: Plan, *given: Tensor) -> Tensor:
        """One word -> the next one."""
        return self._chosen(self.model(token, position, self.cache), position, plan, given)

    def every(self, tokens: Tensor, position: Any, count: Any) -> Tensor:
        """Logits of every position."""
        return self.model.logits(self.model(tokens[:count], position, self.cache))

    def _chosen(self, hidden: Tensor, position: Any, plan: Plan, given: tuple[Tensor, ...]) -> Tensor:
        numbers, noise, *rest = given
        recent = rest.pop(0) if plan.has_penalties else None
        bias = rest.pop(0) if plan.has_bias else None
        return choose(self.model.logits(hidden), plan, numbers, noise[position : position + 1], recent, bias)


class Runner:
    """A model with the cache of one sequence."""

    def __init__(self, model: Transformer, context: int, dtype: DType, device: str) -> None:
        self.model, self.context, self.device = model, context, device
        self.chunk = _chunk(model.config.heads, context)
        self.past: list[int] = []  # words whose keys and values are in the cache
        self.position = UOp.variable("position", 0, context - 1)
        self.count = UOp.variable("count", 1, self.chunk)
        self.nbytes = sum(int(x.nbytes()) for x in get_parameters(model))
        self.stepped = 0  # words of prompts that were computed one by one
        programs = Programs(model, Cache(model.config, context, dtype, device))
        self._prefill, self._step, self._all = (
            TinyJit(programs.prefill),
            TinyJit(programs.step),
            TinyJit(programs.every),
        )

    def logits(self, tokens: Sequence[int]) -> Tensor:
        """Of every position of a text: (positions, words). The cache starts anew."""
        self._check(tokens)
        self.past = []
        parts = []
        for start in range(0, len(tokens), self.chunk):
            part = tokens[start : start + self.chunk]
            given = self._tensor(_padded(part, self.chunk))
            found = self._all(given, self.position.bind(start), self.count.bind(len(part)))
            parts.append(found.numpy())
        self.past = list(tokens)
        return Tensor(np.concatenate(parts), device=self.device)

    def tokens(self, prompt: Sequence[int], sampling: Sampling, most: int | None = None) -> Iterator[int]:
        """Words after a prompt, as long as they are asked for, `most` at most, and until the context is full."""
        self._check(prompt)
        words = self.model.config.words
        plan = sampling.plan(words)
        fixed = (self._tensor(sampling.numbers()), self._tensor(sampling.noise(self.context)))
        last = (self._tensor(sampling.biases(words)),) if plan.has_bias else ()
        seen = list(prompt)
        token = self._after_prompt(seen, plan, fixed, last)
        room = self.context - len(prompt) + 1
        for made in range(room if most is None else min(most, room)):
            if made:
                recent = (self._tensor(recent_words(seen)),) if plan.has_penalties else ()
                token = self._step(token, self.position.bind(len(seen) - 1), plan, *fixed, *recent, *last)
                self.past.append(seen[-1])
            number = int(token.item())
            seen.append(number)
            yield number

    def _after_prompt(
        self, prompt: list[int], plan: Plan, fixed: tuple[Tensor, ...], last: tuple[Tensor, ...]
    ) -> Tensor:
        """Computes what the cache does not have; the first word of the answer."""
        start = min(_common(self.past, prompt), len(prompt) - 1)
        del self.past[start:]
        recent = (self._tensor(recent_words(prompt)),) if plan.has_penalties else ()
        given = (*fixed, *recent, *last)
        while True:
            part = prompt[start : start + self.chunk]
            if len(part) == 1 or self._are_few(len(part)):
                for i, word in enumerate(part):
                    single = self._tensor(np.array([word], np.int32))
                    token = self._step(single, self.position.bind(start + i), plan, *given)
            else:
                tokens = self._tensor(_padded(part, self.chunk))
                token = self._prefill(tokens, self.position.bind(start), self.count.bind(len(part)), plan, *given)
            self.past += part
            start += len(part)
            if start == len(prompt):
                return token

    def _are_few(self, count: int) -> bool:
        """Whether words of a prompt are computed one by one; they are counted, so that it ends soon."""
        if self._prefill.captured or (self.stepped + count) * self.nbytes > MOST_STEPPED_BYTES:
            return False
        self.stepped += count
        return True

    def _tensor(self, array: np.ndarray) -> Tensor:
        return Tensor(array, device=self.device).realize()

    def _check(self, tokens: Sequence[int]) -> None:
        words = self.model.config.words
        if not tokens:
            raise ArgumentError("generate: the prompt has no words", fix="Give a text, or at least one number.")
        wrong = next((x for x in tokens if type(x) is not int or not 0 <= x < words), None)
        if wrong is not None:
            raise ArgumentError(f"generate: {wrong!r:.40} is none of {words} words", fix="Give numbers of words.")
        if len(tokens) > self.context:
            raise ArgumentError(
                f"generate: the prompt has {len(tokens)} words, and the context {self.context}",
                fix="Load the model with a larger context=, or give less text.",
            )


def _chunk(heads: int, context: int) -> int:
    """As many positions as scores have room for, a power of two."""
    size = MOST_CHUNK
    while size > LEAST_CHUNK and (size * heads * context > MOST_SCORES or size >= 2 * context):
        size //= 2
    return min(size, context)


def _padded(tokens: Sequence[int], size: int) -> np.ndarray:
    found = np.zeros(size, np.int32)
    found[: len(tokens)] = tokens
    return found


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """How many words at the start are the same."""
    for i, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return i
    return min(len(one), len(other))


CACHES: dict[str, DType] = {"f16": dtypes.float16, "bf16": dtypes.bfloat16, "f32": dtypes.float32}
