"""`jax.scipy.special`: methods of Tensor, by the names that SciPy has for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whit.jax.nn import log_softmax, logsumexp, softmax
from whit.numpy.operands import tensor_of
from whit.tensor import Tensor

__all__ = [
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfinv",
    "expit",
    "gammaln",
    "i0",
    "log_ndtr",
    "log_softmax",
    "logit",
    "logsumexp",
    "multigammaln",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "softmax",
    "xlog1py",
    "xlogy",
]


def _of(name: str) -> Callable[..., Tensor]:
    method = getattr(Tensor, name)

    def function(x: Any, *args: Any) -> Tensor:
        """See the method of Tensor."""
        found: Tensor = method(tensor_of(x), *args)
        return found

    function.__name__ = function.__qualname__ = name
    return function


digamma = psi = _of("digamma")
erf, erfc, erfinv = _of("erf"), _of("erfc"), _of("erfinv")
expit, gammaln, i0, logit, xlogy = _of("sigmoid"), _of("lgamma"), _of("i0"), _of("logit"), _of("xlogy")
multigammaln = _of("mvlgamma")


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


def polygamma(n: int, x: Any) -> Tensor:
    """The n-th derivative of digamma."""
    return tensor_of(x).polygamma(n)


def xlog1py(x: Any, y: Any) -> Tensor:
    """x log(1 + y); 0 where x is 0."""
    given, other = tensor_of(x), tensor_of(y)
    return ((given == 0) & other.isnan().logical_not()).where(0.0, given * other.log1p())
