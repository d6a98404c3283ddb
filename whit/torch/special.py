"""`torch.special`: methods of Tensor, by the names that they have there."""

from __future__ import annotations

from typing import Any

from whit.tensor import Tensor
from whit.torch.functions import polygamma
from whit.torch.rows import functions, renamed

_SAME = """digamma erf erfc erfinv exp2 expm1 i0 log1p log_softmax logit logsumexp round sinc softmax""".split()
_NAMES = {"expit": "sigmoid", "gammaln": "lgamma", "psi": "digamma", "multigammaln": "mvlgamma"}
_ROWS = {**functions(_SAME, "torch.special"), **renamed(_NAMES, "torch.special")}

digamma, erf, erfc, erfinv = (_ROWS[name] for name in ("digamma", "erf", "erfc", "erfinv"))
exp2, expm1, i0, log1p = (_ROWS[name] for name in ("exp2", "expm1", "i0", "log1p"))
log_softmax, logit, logsumexp = (_ROWS[name] for name in ("log_softmax", "logit", "logsumexp"))
round, sinc, softmax = (_ROWS[name] for name in ("round", "sinc", "softmax"))
expit, gammaln, psi, multigammaln = (_ROWS[name] for name in ("expit", "gammaln", "psi", "multigammaln"))

__all__ = [
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "gammaln",
    "i0",
    "log1p",
    "log_softmax",
    "logit",
    "logsumexp",
    "multigammaln",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "round",
    "sinc",
    "softmax",
    "xlog1py",
    "xlogy",
]


def ndtr(input: Tensor) -> Tensor:
    """The share of a normal distribution below a value."""
    result: Tensor = (input * -(0.5**0.5)).erfc() * 0.5
    return result


def ndtri(input: Tensor) -> Tensor:
    """The value that such a share is below."""
    return (2 * input - 1).erfinv() * 2**0.5


def entr(input: Tensor) -> Tensor:
    """-x log x; 0 at 0, -inf below."""
    found = -input.clamp(min_=0).xlogy(input.clamp(min_=0))
    return (input < 0).where(-float("inf"), found)


def xlogy(input: Any, other: Any) -> Tensor:
    """x log y; 0 where x is 0."""
    given = input if isinstance(input, Tensor) else Tensor(float(input))
    return given.xlogy(other)


def xlog1py(input: Any, other: Tensor) -> Tensor:
    """x log(1 + y); 0 where x is 0."""
    given = input if isinstance(input, Tensor) else Tensor(float(input))
    return ((given == 0) & other.isnan().logical_not()).where(0.0, given * other.log1p())
