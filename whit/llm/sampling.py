"""The next word out of logits, on the device: greedy, or drawn after temperature, top-k, top-p, min-p and penalties.

    sampling = Sampling(temperature=0.8, top_p=0.95, seed=1)
    choose(logits, sampling.plan, numbers, noise)       # a number of a word, int32 (1,)

What is a number (the temperature ...) is in a tensor, so that another one is no other program; what decides which
steps there
are is the plan. The order is: penalties, temperature, top-k, typical, top-p, min-p, and one draw.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from math import isfinite

import numpy as np

from whit.dtype import dtypes
from whit.errors import ArgumentError
from whit.records import dataclass, field
from whit.tensor import Tensor

RECENT = 64  # words that penalties look back at
MOST_CANDIDATES = 1024  # words that are drawn from, if top_k says nothing


@dataclass(frozen=True)
class Plan:
    """Which steps there are: a captured program for each."""

    is_greedy: bool
    candidates: int = 0
    has_penalties: bool = False
    is_typical: bool = False
    has_bias: bool = False


@dataclass(frozen=True)
class Sampling:
    """How words are chosen. Without a temperature the most likely one always is."""

    temperature: float = 0.0
    top_k: int = 0  # 0: as many as there are, up to 1024
    top_p: float = 1.0
    min_p: float = 0.0
    typical: float = 1.0
    repetition: float = 1.0  # logits of recent words are divided by it
    presence: float = 0.0  # taken off those of recent words
    frequency: float = 0.0  # the same, for each time
    bias: Mapping[int, float] = field(default_factory=dict)  # added to logits
    seed: int | None = None  # the same seed, the same words

    def __post_init__(self) -> None:
        limits = {
            "temperature": (0.0, 100.0), "top_p": (0.0, 1.0), "min_p": (0.0, 1.0), "typical": (0.0, 1.0),
            "repetition": (0.01, 100.0), "presence": (-100.0, 100.0), "frequency": (-100.0, 100.0),
        }  # fmt: skip
        for name, (low, high) in limits.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
                raise ArgumentError(f"Sampling: {name}={value!r}", fix=f"Give a number from {low} to {high}.")
        if type(self.top_k) is not int or self.top_k < 0:
            raise ArgumentError(f"Sampling: top_k={self.top_k!r}", fix="Give a whole number, 0 for no limit.")
        for word, value in self.bias.items():
            if type(word) is not int or not isinstance(value, int | float) or not isfinite(value):
                raise ArgumentError(f"Sampling: bias {word!r}: {value!r}", fix="Give numbers of words, and numbers.")

    def plan(self, words: int) -> Plan:
        """Which steps there are."""
        has_penalties = (self.repetition, self.presence, self.frequency) != (1.0, 0.0, 0.0)
        is_greedy = self.temperature == 0.0
        candidates = 0 if is_greedy else min(self.top_k or MOST_CANDIDATES, words)
        return Plan(is_greedy, candidates, has_penalties, self.typical < 1.0 and not is_greedy, bool(self.bias))

    def numbers(self) -> np.ndarray:
        """Those that `choose` takes."""
        values = (
            self.temperature,
            self.top_p,
            self.min_p,
            self.typical,
            self.repetition,
            self.presence,
            self.frequency,
        )
        return np.array(values, np.float32)

    def noise(self, count: int) -> np.ndarray:
        """A number in [0, 1) for each position."""
        seed = random.randrange(1 << 32) if self.seed is None else self.seed
        return np.random.default_rng(seed).random(count, np.float32)

    def biases(self, words: int) -> np.ndarray:
        """Of every word."""
        found = np.zeros(words, np.float32)
        for word, value in self.bias.items():
            if not 0 <= word < words:
                raise ArgumentError(f"Sampling: bias of the word {word}", fix=f"The model has {words} words.")
            found[word] = value
        return found


def recent_words(tokens: Sequence[int]) -> np.ndarray:
    """The last words for penalties, -1 where there are none."""
    found = np.full(RECENT, -1, np.int32)
    last = tokens[-RECENT:]
    found[: len(last)] = last
    return found


def choose(
    logits: Tensor, plan: Plan, numbers: Tensor, noise: Tensor, recent: Tensor | None = None, bias: Tensor | None = None
) -> Tensor:
    """Logits (1, words), `numbers` of `Sampling`, one number of noise (1,) -> the word, int32 (1,)."""
    logits = logits.reshape(-1)
    if plan.has_bias and bias is not None:
        logits = logits + bias
    if plan.has_penalties and recent is not None:
        logits = _penalised(logits, recent, numbers)
    if plan.is_greedy:
        return logits.contiguous().argmax(-1, keepdim=True).cast(dtypes.int32)
    values, words = logits.contiguous().topk(plan.candidates)
    share = (values / numbers[0]).softmax(-1)
    share = _limited(share, plan, numbers)
    ends = share.cumsum(-1)
    place = (ends <= noise * ends[-1:]).sum(-1, keepdim=True).minimum(plan.candidates - 1)
    return words.gather(0, place.cast(dtypes.int32)).cast(dtypes.int32)


def _limited(share: Tensor, plan: Plan, numbers: Tensor) -> Tensor:
    """Shares, the largest first, with 0 for those that are not drawn."""
    if plan.is_typical:
        share = _typical(share, numbers[3])
    before = share.cumsum(-1) - share
    total = share.sum(-1, keepdim=True)
    kept = (before < numbers[1] * total) & (share >= numbers[2] * share[:1])
    first = Tensor.arange(plan.candidates, device=share.device) == 0
    return (kept | (first & (share > 0))).where(share, 0.0)


def _typical(share: Tensor, most: Tensor) -> Tensor:
    """Locally typical words (Meister and others, 2022): those whose surprise is nearest to the mean one."""
    surprise = -(share.maximum(1e-30)).log()
    distance = (surprise - (share * surprise).sum(-1, keepdim=True)).abs()
    order = distance.argsort(-1)
    sorted_share = share.gather(0, order)
    kept = (sorted_share.cumsum(-1) - sorted_share) < most
    return (kept.where(sorted_share, 0.0)).gather(0, order.argsort(-1))


def _penalised(logits: Tensor, recent: Tensor, numbers: Tensor) -> Tensor:
    """Words that were used not long ago are less likely."""
    is_there = recent >= 0
    zeros = Tensor.zeros(logits.shape[0], device=logits.device)
    ones = is_there.where(1.0, 0.0)
    count = zeros.scatter_reduce(0, is_there.where(recent, 0), ones, "sum")
    divided = (logits > 0).where(logits / numbers[4], logits * numbers[4])
    return (count > 0).where(divided - numbers[5], logits) - count * numbers[6]
