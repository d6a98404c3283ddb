"""What a model is, whatever file it came from: sizes, and what its family says.

`gguf.py` and `hugging_face.py` make it; all numbers are checked there, so that a hostile file gives a message.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, isfinite
from typing import Any

from whit.errors import ParseError
from whit.llm.families import Family
from whit.records import dataclass, field

MOST = 1 << 31  # of any size
FIX = "The file is damaged, or not of a language model. Get it again."


@dataclass(frozen=True)
class Rope:
    """How positions turn queries and keys."""

    size: int  # numbers of a head that turn
    base: float = 10000.0
    pairs: str = "halves"
    kind: str = "none"  # of scaling: linear, yarn, llama3, longrope
    factor: float = 1.0
    original: int = 0  # the context before it was scaled
    low: float = 1.0  # llama3: low_freq_factor; yarn: beta_slow
    high: float = 4.0  # llama3: high_freq_factor; yarn: beta_fast
    attention: float | None = None  # factor of cosine and sine
    factors: tuple[float, ...] = ()  # each frequency is divided by one of these


@dataclass(frozen=True)
class Experts:
    """A mixture of experts in place of one feed-forward layer."""

    count: int
    used: int
    normalises: bool = True
    scale: float = 1.0
    uses_sigmoid: bool = False
    first: int = 0  # the layers before this one have none


@dataclass(frozen=True)
class Latent:
    """Attention over compressed keys and values (MLA)."""

    rank: int
    rope: int  # numbers of a head that turn
    query_rank: int = 0


@dataclass(frozen=True)
class Config:
    """A model."""

    family: Family
    layers: int
    width: int
    heads: int
    shared: int  # heads of keys and values
    size: int  # of a head's query and key
    value_size: int
    words: int
    context: int  # positions that it was made for
    epsilon: float
    rope: Rope | None
    local_rope: Rope | None = None  # of layers with a window
    windows: tuple[int, ...] = ()  # of each layer, 0 for none; (): none at all
    score_scale: float = 0.0  # of scores
    score_cap: float = 0.0
    logit_cap: float = 0.0
    logit_scale: float = 1.0
    embedding_scale: float = 1.0
    residual_scale: float = 1.0
    clamp: float = 0.0  # of queries, keys and values
    experts: Experts | None = None
    latent: Latent | None = None
    is_parallel: bool = False
    pooling: str = "mean"  # of embeddings: mean, first, last
    extra: Mapping[str, Any] = field(default_factory=dict)

    def window(self, layer: int) -> int:
        """How many positions back a layer sees, itself included; 0: all."""
        return self.windows[layer] if self.windows else 0

    def rope_of(self, layer: int) -> Rope | None:
        """The rotation of a layer."""
        return self.local_rope if self.local_rope is not None and self.window(layer) else self.rope


class Numbers:
    """Values of a file by name, each checked where it is read.

    `prefix` stands before each name: "llama." in GGUF.
    """

    def __init__(self, values: Mapping[str, Any], what: str, prefix: str = "") -> None:
        self.values, self.what, self.prefix = values, what, prefix

    def error(self, name: str, text: str) -> ParseError:
        """A value is wrong."""
        return ParseError(f"load: {self.what}: {self.prefix}{name} {text}", "", FIX)

    def get(self, *names: str) -> Any:
        """The first of these that is there."""
        return next((x for name in names if (x := self.values.get(self.prefix + name)) is not None), None)

    def size(self, *names: str, default: int | None = None, least: int = 1) -> int:
        """A whole number that is the size of something; an error if it is not there and has no default."""
        found = self.get(*names)
        if found is None and default is not None:
            return default
        if type(found) is not int or not least <= found <= MOST:
            raise self.error(names[0], "is missing" if found is None else f"is no size: {found!r:.60}")
        return found

    def sizes(self, *names: str, count: int, default: int | None = None) -> tuple[int, ...]:
        """One for each layer: of a list, or the same for all."""
        found = self.get(*names)
        if not isinstance(found, list):
            return (self.size(*names, default=default, least=0),) * count
        if len(found) != count or not all(type(x) is int and 0 <= x <= MOST for x in found):
            raise self.error(names[0], f"is no list of {count} sizes: {found!r:.60}")
        return tuple(found)

    def number(self, *names: str, default: float) -> float:
        """A finite number."""
        found = self.get(*names)
        if found is None:
            return default
        if isinstance(found, bool) or not isinstance(found, int | float) or not isfinite(found) or abs(found) == inf:
            raise self.error(names[0], f"is no number: {found!r:.60}")
        return float(found)

    def flag(self, *names: str, default: bool) -> bool:
        """Yes or no."""
        found = self.get(*names)
        if found is None:
            return default
        if not isinstance(found, bool):
            raise self.error(names[0], f"is not true or false: {found!r:.60}")
        return found

    def text(self, *names: str, default: str = "") -> str:
        """A text."""
        found = self.get(*names)
        if found is None:
            return default
        if not isinstance(found, str):
            raise self.error(names[0], f"is no text: {found!r:.60}")
        return found
