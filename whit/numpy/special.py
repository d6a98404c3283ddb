"""Special functions by SciPy's names that are no methods of Tensor: the normal distribution, entropy.

Goes in: tensors, arrays or numbers. Comes out: a tensor. `whit.torch.special` and `whit.jax.scipy.special` have them.
"""

from __future__ import annotations

from typing import Any

from whit.numpy.operands import tensor_of
from whit.tensor import Tensor

__all__ = ["entr", "log_ndtr", "ndtr", "ndtri", "xlog1py", "xlogy"]


def entr(x: Any) -> Tensor:
    """-x log x; 0 at 0, -inf below."""
    given = tensor_of(x)
    positive = given.clamp(min_=0)
    return (given < 0).where(-float("inf"), -positive.xlogy(positive))


def ndtr(x: Any) -> Tensor:
    """The share of a normal distribution below x."""
    found: Tensor = (tensor_of(x) * -(0.5**0.5)).erfc() * 0.5
    return found


def log_ndtr(x: Any) -> Tensor:
    """Its logarithm; far below 0 by a series."""
    given = tensor_of(x)
    far = given.clamp(max_=-5.0)
    square = far.square()
    series = 1 - 1 / square + 3 / square**2 - 15 / square**3
    tail = -square / 2 - (-far).log() - 0.9189385332046727 + series.log()
    return (given > -5.0).where(ndtr(given.clamp(min_=-5.0)).log(), tail)


def ndtri(p: Any) -> Tensor:
    """The value that such a share is below."""
    found: Tensor = (2 * tensor_of(p) - 1).erfinv() * 2**0.5
    return found


def xlogy(x: Any, y: Any) -> Tensor:
    """x log y; 0 where x is 0."""
    return tensor_of(x).xlogy(tensor_of(y))


def xlog1py(x: Any, y: Any) -> Tensor:
    """x log(1 + y); 0 where x is 0."""
    given, other = tensor_of(x), tensor_of(y)
    return ((given == 0) & other.isnan().logical_not()).where(0.0, given * other.log1p())
