"""`whit.numpy.random`: generators, as `numpy.random.default_rng`, and the functions of one that all share.

    rng = np.random.default_rng(0)
    rng.normal(0, 1, size=(2, 3))

The numbers are those of keys by Threefry (docs/random.md), not those of NumPy; a generator draws the same ones whenever
it is made with the same seed, whatever others draw.
"""

from __future__ import annotations

import math
import os
from typing import Any

from whit.dtype import dtypes, to_dtype
from whit.errors import ArgumentError
from whit.tensor import Tensor
from whit.tensor.graphs.threefry import set_state, state

Size = Any  # None, a number, or a tuple of them


def _shape(size: Size, *like: Any) -> tuple[int, ...]:
    if size is None:
        tensors = [each for each in like if isinstance(each, Tensor)]
        return tuple(tensors[0].shape) if tensors else ()
    return (size,) if isinstance(size, int) else tuple(size)


class Generator:
    """Random numbers of a seed."""

    def __init__(self, seed: Any = None) -> None:
        if seed is None:
            seed = int.from_bytes(os.urandom(8), "little")
        if isinstance(seed, bool) or not hasattr(seed, "__index__"):
            raise ArgumentError(f"default_rng: {seed!r:.60} is no seed", fix="Use an integer, or nothing.")
        self._state = (seed.__index__() % 2**64, 0)

    def _draw(self, method: Any, *args: Any, **given: Any) -> Tensor:
        """What a method of Tensor draws, of this generator."""
        outside = state()
        set_state(*self._state)
        try:
            found: Tensor = method(*args, **given)
            self._state = state()
        finally:
            set_state(*outside)
        return found

    def random(self, size: Size = None, dtype: Any = None) -> Tensor:
        """From 0 on, below 1."""
        return self._draw(Tensor.rand, *_shape(size), dtype=dtype or dtypes.default_float)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Size = None) -> Tensor:
        """From low on, below high."""
        result: Tensor = self.random(_shape(size, low, high)) * (high - low) + low
        return result

    def standard_normal(self, size: Size = None, dtype: Any = None) -> Tensor:
        """Of mean 0 and variance 1."""
        return self._draw(Tensor.randn, *_shape(size), dtype=dtype or dtypes.default_float)

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Size = None) -> Tensor:
        """Of a mean and a standard deviation."""
        result: Tensor = self.standard_normal(_shape(size, loc, scale)) * scale + loc
        return result

    def lognormal(self, mean: Any = 0.0, sigma: Any = 1.0, size: Size = None) -> Tensor:
        """Whose logarithm is normal."""
        return self.normal(mean, sigma, size).exp()

    def exponential(self, scale: Any = 1.0, size: Size = None) -> Tensor:
        """Waiting times."""
        result: Tensor = self._draw(Tensor.exponential, *_shape(size, scale)) * scale
        return result

    def integers(
        self, low: Any, high: Any = None, size: Size = None, dtype: Any = None, endpoint: bool = False
    ) -> Tensor:
        """From low on, below high; from 0 on, below low, if there is no high."""
        first, last = (0, low) if high is None else (low, high)
        wanted = to_dtype(dtype or dtypes.default_int)
        return self._draw(Tensor.randint, *_shape(size), low=first, high=last + int(endpoint), dtype=wanted)

    def binomial(self, n: int, p: Any, size: Size = None) -> Tensor:
        """How often of n times."""
        result: Tensor = (self.random((n, *_shape(size, p))) < p).sum(axis=0)
        return result

    def permutation(self, x: Any, axis: int = 0) -> Tensor:
        """0 ... x - 1, or the parts of an array, in random order."""
        if isinstance(x, int):
            return self._draw(Tensor.randperm, x)
        given = x if isinstance(x, Tensor) else Tensor(x)
        return given.index_select(axis, self._draw(Tensor.randperm, given.shape[axis]))

    def shuffle(self, x: Tensor, axis: int = 0) -> None:
        """Puts the parts of an array into random order."""
        x.assign(self.permutation(x, axis))

    def choice(self, a: Any, size: Size = None, replace: bool = True, p: Any = None, axis: int = 0) -> Tensor:
        """Some of 0 ... a - 1, or of the parts of an array."""
        given = None if isinstance(a, int) else a if isinstance(a, Tensor) else Tensor(a)
        count = a if given is None else given.shape[axis]
        shape = _shape(size)
        total = math.prod(shape)
        if not replace and total > count:
            raise ArgumentError(f"choice: {total} of {count} without replacement", fix="Use replace=True.")
        if p is not None:
            shares = p if isinstance(p, Tensor) else Tensor(p)
            places = self._draw(lambda: shares.multinomial(total, replacement=replace))
        elif replace:
            places = self.integers(count, size=total)
        else:
            places = self.permutation(count)[:total]
        places = places.reshape(shape)
        if given is None:
            return places
        rest = [each for place, each in enumerate(given.shape) if place != axis]
        return given.index_select(axis, places.flatten()).reshape(*shape, *rest)


_shared = [Generator(0)]  # of the functions of the module


def default_rng(seed: Any = None) -> Generator:
    """A generator of a seed; of one that nobody knows, if there is none."""
    return seed if isinstance(seed, Generator) else Generator(seed)


def seed(seed: int) -> None:
    """Starts the numbers of the functions below."""
    _shared[0] = Generator(seed)


def rand(*shape: int) -> Tensor:
    """From 0 on, below 1."""
    return _shared[0].random(shape)


def randn(*shape: int) -> Tensor:
    """Of mean 0 and variance 1."""
    return _shared[0].standard_normal(shape)


def random(size: Size = None) -> Tensor:
    """From 0 on, below 1."""
    return _shared[0].random(size)


def normal(loc: Any = 0.0, scale: Any = 1.0, size: Size = None) -> Tensor:
    """Of a mean and a standard deviation."""
    return _shared[0].normal(loc, scale, size)


def uniform(low: Any = 0.0, high: Any = 1.0, size: Size = None) -> Tensor:
    """From low on, below high."""
    return _shared[0].uniform(low, high, size)


def randint(low: Any, high: Any = None, size: Size = None, dtype: Any = None) -> Tensor:
    """From low on, below high."""
    return _shared[0].integers(low, high, size, dtype)


def choice(a: Any, size: Size = None, replace: bool = True, p: Any = None) -> Tensor:
    """Some of 0 ... a - 1, or of the elements of an array."""
    return _shared[0].choice(a, size, replace, p)


def permutation(x: Any) -> Tensor:
    """0 ... x - 1, or the parts of an array, in random order."""
    return _shared[0].permutation(x)


def shuffle(x: Tensor) -> None:
    """Puts the parts of an array into random order."""
    _shared[0].shuffle(x)
