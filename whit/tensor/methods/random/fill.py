"""Random numbers written into a tensor, by PyTorch's names: `x.normal_()` draws in the shape and dtype of x."""

from __future__ import annotations

import math
from typing import Any, Self

from whit.dtype import DTypeLike, dtypes
from whit.errors import ArgumentError, DTypeError
from whit.tensor.core import Core, check_number
from whit.tensor.methods.random.distributions import Distributions


class Filling(Distributions):
    """What is drawn in float32 is rounded to the dtype; float64 has its own."""

    __slots__ = ()

    def _filled(self, name: str, numbers: Any) -> Self:
        """Numbers written into this tensor, cast to its dtype."""
        return self._become(name, numbers.cast(self.dtype))

    def _floats(self, name: str) -> dict[str, Any]:
        """The dtype to draw in, and the device."""
        if not self.dtype.is_float:
            raise DTypeError(f"{name}: the tensor is {self.dtype.name}", self._made(), "Use a float, or random_().")
        wide = dtypes.float64 if self.dtype is dtypes.float64 else dtypes.float32
        return {"dtype": wide, "device": self._in_memory()}

    def _check(self, name: str, **numbers: Any) -> None:
        for what, number in numbers.items():
            check_number(name, what, number, self._made())

    def uniform_(self, low: float = 0.0, high: float = 1.0) -> Self:
        """Uniform in [low, high)."""
        options = self._floats("uniform_")
        return self._filled("uniform_", self.uniform(*self.shape, low=low, high=high, **options))

    def normal_(self, mean: float = 0.0, std: float = 1.0) -> Self:
        """Normal."""
        return self._filled("normal_", self.normal(*self.shape, mean=mean, std=std, **self._floats("normal_")))

    def log_normal_(self, mean: float = 1.0, std: float = 2.0) -> Self:
        """e to the power of normal numbers."""
        numbers = self.normal(*self.shape, mean=mean, std=std, **self._floats("log_normal_"))
        return self._filled("log_normal_", numbers.exp())

    def exponential_(self, lambd: float = 1.0) -> Self:
        """Waiting times for events of this rate."""
        numbers = self.exponential(*self.shape, rate=lambd, **self._floats("exponential_"))
        return self._filled("exponential_", numbers)

    def cauchy_(self, median: float = 0.0, sigma: float = 1.0) -> Self:
        """Cauchy's distribution."""
        self._check("cauchy_", median=median, sigma=sigma)
        angle = (self.rand(*self.shape, **self._floats("cauchy_")) - 0.5) * math.pi
        return self._filled("cauchy_", angle.tan() * sigma + median)

    def geometric_(self, p: float) -> Self:
        """How many throws it takes until one of probability p succeeds: 1, 2, 3 ..."""
        self._check("geometric_", p=p)
        if not 0 < p < 1:
            raise ArgumentError(f"geometric_: p={p}", self._made(), "It is between 0 and 1.")
        times = self.exponential(*self.shape, device=self._in_memory(), dtype=dtypes.float64)
        return self._filled("geometric_", (times / -math.log1p(-p)).ceil().clamp(1))

    def bernoulli_(self, p: Any = 0.5) -> Self:
        """1 with probability p, which may be a tensor, else 0."""
        if not isinstance(p, Core):
            self._check("bernoulli_", p=p)
        numbers = self.rand(*self.shape, dtype=dtypes.float32, device=self._in_memory())
        return self._filled("bernoulli_", numbers < p)

    def random_(self, low: int = 0, high: int | None = None) -> Self:
        """Integers in [low, high), or in [0, low) if that is all that is said; without both of the whole dtype, of
        floats as far as all integers are floats."""
        if high is None:
            whole_of = 2 ** (self.dtype.mantissa_bits + 1) + 1 if self.dtype.is_float else int(self.dtype.max) + 1
            low, high = (0, low) if low else (0, whole_of)
        drawn = dtypes.uint64 if high > 2**63 else dtypes.int64
        numbers = self.randint(*self.shape, low=low, high=high, dtype=drawn, device=self._in_memory())
        return self._filled("random_", numbers)

    def randint_like(self, low: int = 0, high: int | None = None, dtype: DTypeLike | None = None) -> Self:
        """Integers in [low, high), or in [0, low) if that is all that is said, in this shape and dtype."""
        low, high = (0, low) if high is None else (low, high)
        numbers = self.randint(*self.shape, low=low, high=high, dtype=dtypes.int64, device=self._in_memory())
        return numbers.cast(self.dtype if dtype is None else dtype)
