"""`jax.scipy.stats.norm`: the normal distribution."""

from __future__ import annotations

import math
from typing import Any

from whit.jax.scipy.special import log_ndtr, ndtr, ndtri
from whit.numpy.operands import tensor_of
from whit.tensor import Tensor


def _scaled(x: Any, loc: Any, scale: Any) -> Tensor:
    found: Tensor = (tensor_of(x) - loc) / scale
    return found


def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Tensor:
    """The logarithm of the density."""
    spread = tensor_of(scale).cast(tensor_of(x).dtype) if not isinstance(scale, Tensor) else scale
    found: Tensor = -0.5 * _scaled(x, loc, spread).square() - spread.log() - 0.5 * math.log(2 * math.pi)
    return found


def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Tensor:
    """The density."""
    return logpdf(x, loc, scale).exp()


def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Tensor:
    """The share below."""
    return ndtr(_scaled(x, loc, scale))


def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Tensor:
    """Its logarithm."""
    return log_ndtr(_scaled(x, loc, scale))


def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Tensor:
    """The share above."""
    return ndtr(-_scaled(x, loc, scale))


def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Tensor:
    """The value that a share is below."""
    found: Tensor = ndtri(q) * scale + loc
    return found
