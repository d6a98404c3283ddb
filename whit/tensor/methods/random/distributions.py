"""Random numbers that depend on a tensor: dropout, coin flips, choices by weight; and whether a model is training.

`Tensor.training` is the setting TRAINING under another name: assigning it holds to the end of the innermost Context
that sets it, `with Tensor.train():` is `with Context(TRAINING=1):`.
"""

from __future__ import annotations

from typing import Self

from whit.config import TRAINING, Context
from whit.dtype import DTypeLike, dtypes
from whit.errors import ArgumentError, DTypeError, ShapeError
from whit.ir import ops
from whit.ir.op import spell_shape
from whit.ir.uop import UOp, const
from whit.tensor.core import broadcast_scalar, check_number, storable
from whit.tensor.graphs import uniform
from whit.tensor.graphs.positions import positions_along
from whit.tensor.methods.random.sampling import Sampling, _sizes


class Training(type):
    """Why there is a metaclass: programs write `Tensor.training = True`, and a class cannot see that otherwise."""

    @property
    def training(cls) -> bool:
        """Whether layers behave as in training."""
        return bool(TRAINING)

    @training.setter
    def training(cls, value: bool) -> None:
        TRAINING.assign(bool(value))


class Distributions(Sampling, metaclass=Training):
    """Randomness applied to tensors."""

    __slots__ = ()

    @staticmethod
    def train(mode: bool = True) -> Context:
        """`with Tensor.train():` sets `Tensor.training` inside."""
        return Context(TRAINING=bool(mode))

    def dropout(self, p: float = 0.5) -> Self:
        """In training, zero with probability p and else divided by 1 - p, so that the mean stays; otherwise self."""
        check_number("dropout", "p", p, self._made())
        if not 0 <= p <= 1:
            raise ArgumentError(f"dropout: p={p} is no probability", self._made(), "Use one from 0 to 1.")
        self._require("dropout", self.dtype.is_float, "only floats can be scaled", "Cast it.")
        if not TRAINING or p == 0:
            return self
        if p == 1:
            return self._wrap(broadcast_scalar(const(self.dtype, 0), self.shape))
        inner = dtypes.float64 if self.dtype is dtypes.float64 else dtypes.float32
        scaled = (self.uop.cast(inner) * const(inner, 1 / (1 - p))).cast(self.dtype)
        return self._wrap(self._flips(1 - p).where(scaled, 0))

    def _flips(self, p: float) -> UOp:
        """True with probability p, rounded to a multiple of 2**-32, at every position of this tensor."""
        ((high, _),) = self._draw(_sizes("dropout", (self.shape,)), self.device)
        return high < const(dtypes.uint32, min(round(p * 2**32), 2**32 - 1))

    def bernoulli(self) -> Self:
        """1 with the probability that each element gives, else 0."""
        self._require("bernoulli", self.dtype.is_float, "probabilities are floats", "Cast it.")
        inner = dtypes.float64 if self.dtype is dtypes.float64 else dtypes.float32
        (pair,) = self._draw(_sizes("bernoulli", (self.shape,)), self.device)
        chosen = uniform.unit(pair, inner) < self.uop.cast(inner)
        return self._wrap(chosen.cast(self.dtype))

    def multinomial(self, num_samples: int = 1, replacement: bool = False) -> Self:
        """Positions on the last axis, chosen by weights that are 0 or more and need not add up to 1.

        Without replacement no position is chosen twice; positions of weight 0 come after all others.
        """
        self._check_weights(num_samples, replacement)
        if replacement or num_samples == 1:
            return self._independent(num_samples)
        # Waiting times for events of these rates: the first ones to happen.
        (pair,) = self._draw(_sizes("multinomial", (self.shape,)), self.device)
        times = self._wrap(uniform.minus_log(pair, dtypes.float64) / self.uop.cast(dtypes.float64))
        return times.argsort(-1)[..., :num_samples].cast(dtypes.default_int)

    @classmethod
    def randperm(
        cls, n: int, dtype: DTypeLike = dtypes.int32, device: str | None = None, requires_grad: bool | None = None
    ) -> Self:
        """0 .. n - 1 in random order, every order being equally likely."""
        (count,) = _sizes("randperm", (n,))
        wanted = storable("randperm", dtype)
        if wanted.is_int and count - 1 > wanted.max:
            raise DTypeError(f"randperm: {count - 1} is outside {wanted.name}", fix="Use a wider dtype.")
        ((high, low),) = cls._draw((count,), device)
        keys = (high.cast(dtypes.uint64) << 32) | low.cast(dtypes.uint64)
        order = cls._fresh(keys, device).argsort(0)
        return cls._drawn_once(order.uop.cast(wanted), device, requires_grad)

    def shuffle(self, dim: int = 0) -> Self:
        """The parts along an axis in random order."""
        axis = self._axis("shuffle", dim, scalars=False)
        order = self.randperm(self.shape[axis], dtypes.int64, self.device)
        beside = tuple(size if i == axis else 1 for i, size in enumerate(self.shape))
        return self.gather(axis, order.reshape(beside).expand(self.shape))

    def _check_weights(self, count: int, replacement: bool) -> None:
        if self.ndim not in (1, 2) or not self.shape[-1]:
            raise ShapeError(
                f"multinomial: weights {spell_shape(self.shape)}", self._made(), "Use (choices,) or (rows, choices)."
            )
        if isinstance(count, bool) or not hasattr(count, "__index__") or count < 1:
            raise ArgumentError(f"multinomial: num_samples={count!r}", self._made(), "Ask for one or more.")
        if not replacement and count > self.shape[-1]:
            raise ArgumentError(
                f"multinomial: {count} of {self.shape[-1]} without replacement",
                self._made(),
                "Ask for fewer, or use replacement=True.",
            )

    def _independent(self, count: int) -> Self:
        """Where a random part of the total falls among the running sums: a binary search, all in one kernel."""
        size = self.shape[-1]
        rank = self.ndim
        weights = self.uop.cast(dtypes.float64)
        sums = weights.scan(ops.ADD, rank - 1).stage()
        shape = (*self.shape[:-1], count)
        last = sums.shrink([*((0, n) for n in self.shape[:-1]), (size - 1, 1)])
        total = last.expand(shape)
        (pair,) = self._draw(shape, self.device)
        target = uniform.unit(pair, dtypes.float64) * total
        rows = [positions_along(shape, i) for i in range(rank - 1)]
        found = broadcast_scalar(const(dtypes.int64, 0), shape)
        step = 1 << max(size - 1, 1).bit_length() - 1
        while step:
            # After the search `found` is how many sums are at most the target, the total itself not counted.
            place = found + step
            inside = place < size
            sum_before = sums.index(*rows, (place - 1).cast(dtypes.weakint), gate=inside)
            found = (inside & (sum_before <= target) & (sum_before < total)).where(place, found)
            step //= 2
        return self._wrap(found.cast(dtypes.default_int))
