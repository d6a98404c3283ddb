"""Functions of one tensor, element by element or along an axis. `inplace` is accepted, and changes nothing here."""

from __future__ import annotations

import math
from typing import Any

from whit.dtype import DType
from whit.errors import ArgumentError, ShapeError
from whit.ir.op import spell_shape
from whit.tensor import Tensor


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0)."""
    return input.relu()


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x, 0), 6)."""
    return input.relu6()


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x, or negative_slope * x below 0."""
    return input.leaky_relu(negative_slope)


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x, or weight * x below 0; one weight for all, or one for each channel (axis 1)."""
    if weight.numel() != 1:
        channels = input.shape[1] if input.ndim > 1 else 1
        if weight.shape != (channels,):
            raise ShapeError(
                f"prelu: weights {spell_shape(weight.shape)} for an input {spell_shape(input.shape)}",
                input._made(),
                "Give one weight, or one for each channel, which are axis 1.",
            )
        weight = weight.reshape(1, -1, *(1 for _ in input.shape[2:])) if input.ndim > 1 else weight
    else:
        weight = weight.reshape(())
    return (input > 0).where(input, input * weight)


def rrelu(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """x, or a slope times x below 0: random between lower and upper while training, else their mean."""
    if not training:
        return input.leaky_relu((lower + upper) / 2)
    slope = Tensor.uniform(*input.shape, low=lower, high=upper, device=input.device).cast(input.dtype)
    return (input > 0).where(input, input * slope)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x, or alpha * (exp(x) - 1) below 0."""
    return input.elu(alpha)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x, or alpha * (exp(x / alpha) - 1) below 0."""
    return input.celu(alpha)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """ELU whose numbers keep mean and variance."""
    return input.selu()


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """x times the probability of a normal number below x; exact unless `approximate="tanh"`."""
    return input.gelu(approximate)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x * sigmoid(x)."""
    return input.silu()


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * tanh(softplus(x))."""
    return input.mish()


def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + exp(-x))."""
    return input.sigmoid()


def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent."""
    return input.tanh()


def logsigmoid(input: Tensor) -> Tensor:
    """The logarithm of the sigmoid."""
    return input.logsigmoid()


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """relu6(x + 3) / 6."""
    return input.hardsigmoid()


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * relu6(x + 3) / 6."""
    return input.hardswish()


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """x, but not below min_val or above max_val."""
    return input.hardtanh(min_val, max_val)


def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x, or 0 where |x| is at most lambd."""
    return (input.abs() <= lambd).where(0, input)


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x moved by lambd towards 0, and 0 where it would pass."""
    if not lambd >= 0:
        raise ArgumentError(f"softshrink: lambd={lambd!r}", fix="It is 0 or more.")
    return (input > lambd).where(input - lambd, (input < -lambd).where(input + lambd, input * 0))


def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x)."""
    return input - input.tanh()


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta * x)) / beta. It needs no threshold, above which PyTorch's is x."""
    return input.softplus(beta)


def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|)."""
    return input.softsign()


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x, or value where x is at most the threshold."""
    return (input <= threshold).where(value, input)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half of an axis times the sigmoid of the second."""
    if input.ndim == 0 or input.shape[dim] % 2:
        raise ShapeError(f"glu: axis {dim} of {spell_shape(input.shape)} has no two halves", input._made())
    value, gate = input.chunk(2, dim)
    return value * gate.sigmoid()


def softmax(input: Tensor, dim: int = -1, _stacklevel: int = 3, dtype: DType | None = None) -> Tensor:
    """exp(x) in shares of its sum along an axis."""
    return input.softmax(dim, dtype=dtype)


def log_softmax(input: Tensor, dim: int = -1, _stacklevel: int = 3, dtype: DType | None = None) -> Tensor:
    """The logarithm of the softmax."""
    return input.log_softmax(dim, dtype=dtype)


def softmin(input: Tensor, dim: int = -1, _stacklevel: int = 3, dtype: DType | None = None) -> Tensor:
    """The softmax of -x."""
    return input.softmin(dim, dtype=dtype)


def gumbel_softmax(logits: Tensor, tau: float = 1.0, hard: bool = False, dim: int = -1) -> Tensor:
    """The softmax of logits with random numbers added; `hard` gives 1 at its largest, and its gradient."""
    if not tau > 0 or math.isinf(tau):
        raise ArgumentError(f"gumbel_softmax: tau={tau!r}", fix="It is above 0.")
    noise = Tensor.gumbel(*logits.shape, device=logits.device).cast(logits.dtype)
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    chosen = soft.argmax(dim, keepdim=True).transpose(dim, -1).squeeze(-1).one_hot(logits.shape[dim])
    return (soft - soft.detach()) + chosen.transpose(dim, -1).cast(soft.dtype)


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """x divided by its norm along an axis."""
    return input.normalize(p, dim, eps)


def one_hot(tensor: Tensor, num_classes: int = -1) -> Any:
    """1 at the class, 0 elsewhere; without a number of classes the largest is read."""
    return tensor.one_hot(int(tensor.max().item()) + 1 if num_classes == -1 else num_classes)
