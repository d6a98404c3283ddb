"""`jax.scipy.stats.bernoulli`: two values."""

from __future__ import annotations

from typing import Any

from whit.numpy.operands import tensor_of
from whit.tensor import Tensor


def logpmf(k: Any, p: Any, loc: Any = 0) -> Tensor:
    """The logarithm of the probability of k."""
    x, share = tensor_of(k) - loc, tensor_of(p)
    found: Tensor = x.cast(share.dtype).xlogy(share) + (1 - x).cast(share.dtype) * (-share).log1p()
    result: Tensor = ((x == 0) | (x == 1)).where(found, -float("inf"))
    return result


def pmf(k: Any, p: Any, loc: Any = 0) -> Tensor:
    """The probability of k."""
    return logpmf(k, p, loc).exp()
