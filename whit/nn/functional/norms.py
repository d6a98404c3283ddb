"""Normalisation with the statistics and weights given."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from whit.dtype import dtypes
from whit.errors import ArgumentError, ShapeError
from whit.ir.op import spell_shape
from whit.tensor import Tensor
from whit.tensor.told import told


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float | Tensor = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Over the batch and all axes after the channels; while training the running statistics are written to."""
    if not training:
        if running_mean is None or running_var is None:
            raise ArgumentError("batch_norm: no running statistics", fix="Give them, or training=True.")
        result = input.batchnorm(weight, bias, running_mean, (running_var + eps).rsqrt())
        return told("batch_norm", result, input, weight, bias, running_mean, running_var, eps=eps)
    axes = tuple(axis for axis in range(input.ndim) if axis != 1)
    variance, mean = input.var_mean(axis=axes, correction=0)
    keep_running(input, mean, variance, running_mean, running_var, momentum)
    return input.batchnorm(weight, bias, mean, (variance + eps).rsqrt())


def keep_running(
    x: Tensor,
    mean: Tensor,
    variance: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float | Tensor,
) -> None:
    """Running statistics with those of one more batch; the variance is the unbiased one."""
    count = prod(x.shape) // x.shape[1]
    if running_mean is not None:
        running_mean.assign((running_mean * (1 - momentum) + mean.detach() * momentum).cast(running_mean.dtype))
    if running_var is not None:
        unbiased = variance.detach() * (count / max(count - 1, 1))
        running_var.assign((running_var * (1 - momentum) + unbiased * momentum).cast(running_var.dtype))


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float | Tensor = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Over all axes after the channels, of each element of the batch alone."""
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    if input.ndim < 3 or prod(input.shape[2:]) < 2:
        raise ShapeError(
            f"instance_norm: {spell_shape(input.shape)} has no two values in a channel",
            input._made(),
            "It is (batch, channels, ...).",
        )
    axes = tuple(range(2, input.ndim))
    variance, mean = input.var_mean(axis=axes, correction=0)
    if running_mean is not None or running_var is not None:
        count = prod(input.shape[2:])
        average = variance.mean(0) * (count / max(count - 1, 1))
        factor = prod(input.shape) // input.shape[1]
        keep_running(input, mean.mean(0), average * ((factor - 1) / factor), running_mean, running_var, momentum)
    normal = input.layernorm(axis=axes, eps=eps)
    shape = (1, -1, *(1 for _ in axes))
    normal = normal if weight is None else normal * weight.reshape(shape)
    normal = normal if bias is None else normal + bias.reshape(shape)
    return told("instance_norm", normal, input, weight, bias, eps=eps)


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Over the last axes, which have this shape."""
    axes = tuple(range(-len(normalized_shape), 0))
    check_last("layer_norm", input, tuple(normalized_shape))
    return shifted_and_scaled(input, weight, bias, axes, eps)


def shifted_and_scaled(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, axes: tuple[int, ...], eps: float
) -> Tensor:
    """To mean 0 and variance 1 along the axes, then by weights that have their sizes."""
    normal = input.layernorm(eps=eps, axis=axes)
    normal = normal if weight is None else normal * weight
    normal = normal if bias is None else normal + bias
    places = tuple(axis % input.ndim for axis in axes)
    return told("layer_norm", normal, input, weight, bias, axes=places, eps=eps)


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """x divided by the root of the mean of its squares along the last axes. Without an eps it is that of the dtype."""
    check_last("rms_norm", input, tuple(normalized_shape))
    wide = input.float() if input.dtype.itemsize < 4 else input
    axes = tuple(range(-len(normalized_shape), 0))
    small = 2.0 ** -dtypes.finfo(input.dtype)[1] if eps is None else eps
    normal = (wide * (wide.square().mean(axes, keepdim=True) + small).rsqrt()).cast(input.dtype)
    normal = normal if weight is None else normal * weight
    places = tuple(axis % input.ndim for axis in axes)
    return told("rms_norm", normal, input, weight, axes=places, eps=small)


def check_last(name: str, x: Tensor, shape: tuple[int, ...]) -> None:
    """Refuses a tensor whose last axes have another shape."""
    if not shape or x.shape[-len(shape) :] != shape:
        raise ShapeError(
            f"{name}: the last axes of {spell_shape(x.shape)} are not {spell_shape(shape)}",
            x._made(),
            "It is made for one shape of the last axes.",
        )


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Over groups of channels, and every axis after them."""
    if input.ndim < 2 or num_groups < 1 or input.shape[1] % num_groups:
        raise ShapeError(f"group_norm: {spell_shape(input.shape)} in {num_groups} groups", input._made())
    size = prod(input.shape[1:]) // num_groups
    normal = input.reshape(input.shape[0], num_groups, size).layernorm(eps=eps).reshape(input.shape)
    shape = (1, -1, *(1 for _ in input.shape[2:]))
    normal = normal if weight is None else normal * weight.reshape(shape)
    normal = normal if bias is None else normal + bias.reshape(shape)
    return told("group_norm", normal, input, weight, bias, groups=num_groups, eps=eps)


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """x / (k + alpha * mean of squares of `size` channels around) ** beta."""
    if input.ndim < 3:
        raise ShapeError(f"local_response_norm: {spell_shape(input.shape)}", input._made(), "It has 3 axes or more.")
    pads = ((0, 0), (size // 2, (size - 1) // 2), *((0, 0) for _ in input.shape[2:]))
    around = input.square().pad(pads).unfold(1, size, 1).mean(-1)
    return input / (around * alpha + k) ** beta
