"""`torch.special`: methods of Tensor, by the names that they have there."""

from __future__ import annotations

from whit.numpy.special import entr, ndtr, ndtri, xlog1py, xlogy
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
