"""`jax.nn`: activations and softmax with JAX's arguments, of `whit.nn.functional` where these are the same."""

from __future__ import annotations

from typing import Any

from whit.dtype import dtypes
from whit.jax.nn import initializers
from whit.nn import functional as _functional
from whit.numpy.operands import tensor_of
from whit.tensor import Tensor

__all__ = [
    "celu",
    "dot_product_attention",
    "elu",
    "gelu",
    "glu",
    "hard_sigmoid",
    "hard_silu",
    "hard_swish",
    "hard_tanh",
    "identity",
    "initializers",
    "leaky_relu",
    "log1mexp",
    "log_sigmoid",
    "log_softmax",
    "logmeanexp",
    "logsumexp",
    "mish",
    "one_hot",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "silu",
    "soft_sign",
    "softmax",
    "softplus",
    "sparse_plus",
    "sparse_sigmoid",
    "squareplus",
    "standardize",
    "swish",
    "tanh",
]


def relu(x: Any) -> Tensor:
    """max(x, 0)."""
    return tensor_of(x).relu()


def relu6(x: Any) -> Tensor:
    """min(max(x, 0), 6)."""
    return tensor_of(x).relu6()


def sigmoid(x: Any) -> Tensor:
    """1 / (1 + exp(-x))."""
    return tensor_of(x).sigmoid()


def tanh(x: Any) -> Tensor:
    """The hyperbolic tangent."""
    return tensor_of(x).tanh()


def softplus(x: Any) -> Tensor:
    """log(1 + exp(x))."""
    return tensor_of(x).softplus()


def soft_sign(x: Any) -> Tensor:
    """x / (1 + |x|)."""
    return tensor_of(x).softsign()


def silu(x: Any) -> Tensor:
    """x * sigmoid(x)."""
    return tensor_of(x).silu()


swish = silu


def log_sigmoid(x: Any) -> Tensor:
    """log(sigmoid(x))."""
    return tensor_of(x).logsigmoid()


def leaky_relu(x: Any, negative_slope: Any = 1e-2) -> Tensor:
    """x, or a part of it below 0."""
    return _functional.leaky_relu(tensor_of(x), negative_slope)


def hard_sigmoid(x: Any) -> Tensor:
    """relu6(x + 3) / 6."""
    return _functional.hardsigmoid(tensor_of(x))


def hard_silu(x: Any) -> Tensor:
    """x * hard_sigmoid(x)."""
    return _functional.hardswish(tensor_of(x))


hard_swish = hard_silu


def hard_tanh(x: Any) -> Tensor:
    """x between -1 and 1."""
    return _functional.hardtanh(tensor_of(x))


def elu(x: Any, alpha: Any = 1.0) -> Tensor:
    """x, or alpha * (exp(x) - 1) below 0."""
    return _functional.elu(tensor_of(x), alpha)


def celu(x: Any, alpha: Any = 1.0) -> Tensor:
    """x, or alpha * (exp(x / alpha) - 1) below 0."""
    return _functional.celu(tensor_of(x), alpha)


def selu(x: Any) -> Tensor:
    """elu with the factors that keep mean and variance."""
    return _functional.selu(tensor_of(x))


def gelu(x: Any, approximate: bool = True) -> Tensor:
    """x times the share of a normal distribution below x; by tanh unless approximate=False."""
    return _functional.gelu(tensor_of(x), "tanh" if approximate else "none")


def mish(x: Any) -> Tensor:
    """x * tanh(softplus(x))."""
    return tensor_of(x).mish()


def glu(x: Any, axis: int = -1) -> Tensor:
    """One half times the sigmoid of the other."""
    return _functional.glu(tensor_of(x), axis)


def squareplus(x: Any, b: Any = 4) -> Tensor:
    """(x + sqrt(x^2 + b)) / 2."""
    given = tensor_of(x)
    result: Tensor = (given + (given.square() + b).sqrt()) / 2
    return result


def sparse_plus(x: Any) -> Tensor:
    """0 up to -1, x from 1 on, a parabola between."""
    given = tensor_of(x)
    return (given <= -1).where(0.0, (given >= 1).where(given, (given + 1).square() / 4))


def sparse_sigmoid(x: Any) -> Tensor:
    """The slope of `sparse_plus`."""
    return ((tensor_of(x) + 1) / 2).clamp(0.0, 1.0)


def identity(x: Any) -> Tensor:
    """x."""
    return tensor_of(x)


# ---- along an axis


def _masked(x: Any, where: Any, other: float) -> Tensor:
    given = tensor_of(x)
    return given if where is None else tensor_of(where).where(given, other)


def softmax(x: Any, axis: Any = -1, where: Any = None) -> Tensor:
    """exp(x) as shares."""
    found = _masked(x, where, -float("inf")).softmax(axis)
    return found if where is None else tensor_of(where).where(found, 0.0)


def log_softmax(x: Any, axis: Any = -1, where: Any = None) -> Tensor:
    """Their logarithms."""
    return _masked(x, where, -float("inf")).log_softmax(axis)


def logsumexp(
    a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False, where: Any = None
) -> Any:
    """log(sum(b * exp(a))); with `return_sign`, of the size of the sum, and its sign."""
    given = _masked(a, where, -float("inf"))
    if b is None and not return_sign:
        return given.logsumexp(axis, keepdim=keepdims)
    most = given.max(axis, keepdim=True).detach()
    most = most.isfinite().where(most, 0.0)
    parts = (given - most).exp() if b is None else tensor_of(b) * (given - most).exp()
    total = parts.sum(axis, keepdim=True)
    found = (total.abs() if return_sign else total).log() + most
    both = (found, total.sign()) if keepdims else (found.squeeze(axis), total.sign().squeeze(axis))
    return both if return_sign else both[0]


def logmeanexp(x: Any, axis: Any = None, where: Any = None, keepdims: bool = False) -> Tensor:
    """log(mean(exp(x)))."""
    given = tensor_of(x)
    ones = given.ones_like() if where is None else tensor_of(where).cast(given.dtype)
    found: Tensor = logsumexp(given, axis, keepdims=keepdims, where=where) - ones.sum(axis, keepdim=keepdims).log()
    return found


def standardize(
    x: Any, axis: Any = -1, mean: Any = None, variance: Any = None, epsilon: float = 1e-5, where: Any = None
) -> Tensor:
    """Of mean 0 and variance 1."""
    given = tensor_of(x)
    centre = given.mean(axis, keepdim=True) if mean is None else mean
    spread = (given.square().mean(axis, keepdim=True) - centre * centre) if variance is None else variance
    result: Tensor = (given - centre) * (spread + epsilon).rsqrt()
    return result


def one_hot(x: Any, num_classes: int, *, dtype: Any = None, axis: int = -1) -> Tensor:
    """1 at the place that x says, 0 elsewhere; nothing but 0 where there is no such place."""
    given = tensor_of(x)
    classes = Tensor.arange(num_classes, dtype=given.dtype, device=given.device)
    found = (given.unsqueeze(-1) == classes).cast(dtype or dtypes.default_float)
    return found if axis in (-1, given.ndim) else found.movedim(-1, axis)


def dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Any = None,
    mask: Any = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    **options: Any,
) -> Tensor:
    """Attention of (batch, time, heads, size), or without batch."""
    query, key, value = (each.transpose(-3, -2) for each in (query, key, value))
    if scale is not None:
        query = query * (scale * query.shape[-1] ** 0.5)
    allowed = bias
    if mask is not None:
        allowed = tensor_of(mask) if bias is None else tensor_of(mask).where(bias, -float("inf"))
    grouped = query.shape[-3] != key.shape[-3]
    found = query.scaled_dot_product_attention(key, value, allowed, is_causal=is_causal, enable_gqa=grouped)
    return found.transpose(-3, -2)


def log1mexp(x: Any) -> Tensor:
    """log(1 - exp(-x))."""
    given = tensor_of(x)
    return (given < 0.6931471805599453).where((-(-given).expm1()).log(), (-(-given).exp()).log1p())
