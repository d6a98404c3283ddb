"""`jax.scipy.special`: methods of Tensor, by the names that SciPy has for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whit.jax.nn import log_softmax, logsumexp, softmax
from whit.numpy.operands import tensor_of
from whit.numpy.special import entr, log_ndtr, ndtr, ndtri, xlog1py, xlogy
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
expit, gammaln, i0, logit = _of("sigmoid"), _of("lgamma"), _of("i0"), _of("logit")
multigammaln = _of("mvlgamma")


def polygamma(n: int, x: Any) -> Tensor:
    """The n-th derivative of digamma."""
    return tensor_of(x).polygamma(n)
