"""In which order samples are read.

Orders come from `Tensor`'s random numbers, so `Tensor.manual_seed` makes them the same again, and a run that is resumed
with its `rng_state` goes on with the order it would have had. A `generator`, a number or a `random.Random`, is another
source.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence, Sized
from itertools import islice
from typing import Any

from whit.errors import ArgumentError
from whit.tensor import Tensor

Generator = int | random.Random | None
LARGEST_SEED = 2**31 - 1


def source(generator: Generator) -> random.Random:
    """Where random numbers come from: of None, a seed is drawn from those of `Tensor`."""
    if isinstance(generator, random.Random):
        return generator
    if generator is None:
        return random.Random(int(Tensor.randint(1, low=0, high=LARGEST_SEED, device="CPU").item()))
    if isinstance(generator, bool) or not isinstance(generator, int):
        raise ArgumentError(f"generator={generator!r:.60}", fix="Give a number, or a random.Random.")
    return random.Random(generator)


def shuffled(count: int, generator: Generator) -> list[int]:
    """The numbers below `count` in any order."""
    order = list(range(count))
    source(generator).shuffle(order)
    return order


class Sampler:
    """A base for orders: `__iter__` gives numbers of samples, and `__len__` says how many."""

    def __iter__(self) -> Iterator[Any]:
        raise ArgumentError(f"{type(self).__name__}: there is no __iter__", fix="Define it.")


class SequentialSampler(Sampler):
    """One after the other."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler):
    """In any order; with `replacement` each is drawn from all. `num_samples` may be fewer, or more: then again."""

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator = None,
    ) -> None:
        if num_samples is not None and num_samples < 1:
            raise ArgumentError(f"RandomSampler: num_samples={num_samples!r}", fix="It is above 0.")
        self.data_source, self.replacement, self.generator = data_source, replacement, generator
        self._number = num_samples

    @property
    def num_samples(self) -> int:
        """How many are drawn."""
        return len(self.data_source) if self._number is None else self._number

    def __iter__(self) -> Iterator[int]:
        chance, count = source(self.generator), len(self.data_source)
        if self.replacement:
            return (chance.randrange(count) for _ in range(self.num_samples))
        return islice(_again(count, chance), self.num_samples if count else 0)

    def __len__(self) -> int:
        return self.num_samples


def _again(count: int, chance: random.Random) -> Iterator[int]:
    while True:
        yield from shuffled(count, chance)


class SubsetRandomSampler(Sampler):
    """Some numbers in any order."""

    def __init__(self, indices: Sequence[int], generator: Generator = None) -> None:
        self.indices, self.generator = indices, generator

    def __iter__(self) -> Iterator[int]:
        return (self.indices[place] for place in shuffled(len(self.indices), self.generator))

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    """Drawn by weights; without `replacement` no number comes twice."""

    def __init__(
        self, weights: Sequence[float], num_samples: int, replacement: bool = True, generator: Generator = None
    ) -> None:
        self.weights = [float(weight) for weight in weights]
        self.num_samples, self.replacement, self.generator = num_samples, replacement, generator
        if num_samples < 1 or (not replacement and num_samples > sum(weight > 0 for weight in self.weights)):
            raise ArgumentError(
                f"WeightedRandomSampler: num_samples={num_samples!r} of {len(self.weights)} weights",
                fix="It is above 0; without replacement, no more than there are weights above 0.",
            )

    def __iter__(self) -> Iterator[int]:
        chance, places = source(self.generator), range(len(self.weights))
        if self.replacement:
            return iter(chance.choices(places, self.weights, k=self.num_samples))
        # The smallest of exponential times, each divided by its weight, are a draw without replacement.
        times = [(chance.expovariate(1.0) / weight, place) for place, weight in enumerate(self.weights) if weight > 0]
        return iter([place for _, place in sorted(times)[: self.num_samples]])

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler):
    """Lists of numbers of another order."""

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool = False) -> None:
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
            raise ArgumentError(f"BatchSampler: batch_size={batch_size!r}", fix="It is an integer, 1 or more.")
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self) -> Iterator[list[Any]]:
        rest = iter(self.sampler)
        while batch := list(islice(rest, self.batch_size)):
            if len(batch) < self.batch_size and self.drop_last:
                return
            yield batch

    def __len__(self) -> int:
        count: int = len(self.sampler)  # type: ignore[arg-type]  # a sampler that has no length says so
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
