"""Normalisations: with statistics that are given, of the batch, of each example, or of neighbours."""

from __future__ import annotations

from whit.dtype import dtypes
from whit.onnx.operators.element_types import dtype_of
from whit.onnx.operators.registry import Node, Value, axis_of, operator, positive_axes
from whit.tensor import Tensor
from whit.tensor.told import told


def _of_channels(values: Tensor, x: Tensor) -> Tensor:
    return values.reshape((1, -1, *(1,) * (x.ndim - 2)))


@operator("BatchNormalization", since=(1, 6, 7, 9, 14, 15))
def batch_normalisation(node: Node, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor) -> Value:
    """With the statistics that are given, or in training with those of the batch, and the running ones after it."""
    epsilon = node.get("epsilon", 1e-5)
    if not node.get("spatial", 1):  # each position is a channel of its own
        return _scaled(x, scale.unsqueeze(0), bias.unsqueeze(0), mean.unsqueeze(0), variance.unsqueeze(0), epsilon)
    training = node.get("training_mode", 0) or (node.version < 14 and node.outputs > 1)
    if not training:
        parts = [_of_channels(part, x) for part in (scale, bias, mean, variance)]
        result = _scaled(x, parts[0], parts[1], parts[2], parts[3], epsilon)
        return told("batch_norm", result, x, scale, bias, mean, variance, eps=epsilon)
    axes = tuple(axis for axis in range(x.ndim) if axis != 1)
    wide = x.cast(dtypes.float32) if x.dtype in dtypes.float16s else x
    now_variance, now_mean = wide.var_mean(axes, correction=0)
    keep = node.get("momentum", 0.9)
    parts = [_of_channels(part, x) for part in (scale, bias, now_mean.cast(x.dtype), now_variance.cast(x.dtype))]
    result = _scaled(x, parts[0], parts[1], parts[2], parts[3], epsilon)
    running_mean = (mean * keep + now_mean * (1 - keep)).cast(mean.dtype)
    running_variance = (variance * keep + now_variance * (1 - keep)).cast(variance.dtype)
    return (result, running_mean, running_variance, now_mean, now_variance)[: node.outputs]


def _scaled(x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor, epsilon: float) -> Tensor:
    return ((x - mean) * (scale * (variance + epsilon).rsqrt()) + bias).cast(x.dtype)


@operator("InstanceNormalization", since=(1, 6, 22))
def instance_normalisation(node: Node, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """Each channel of each example by its own mean and variance."""
    axes = tuple(range(2, x.ndim))
    normal = _standardised(x, axes, node.get("epsilon", 1e-5))
    result = normal * _of_channels(scale, x) + _of_channels(bias, x)
    return told("instance_norm", result, x, scale, bias, eps=node.get("epsilon", 1e-5))


def _standardised(x: Tensor, axes: tuple[int, ...], epsilon: float) -> Tensor:
    centred = x - x.mean(axes, True)
    return centred * (centred.square().mean(axes, True) + epsilon).rsqrt()


@operator("GroupNormalization", since=(18, 21))
def group_normalisation(node: Node, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """Groups of channels by their own mean and variance. A scale for each group (18), or for each channel (21)."""
    groups, stash = int(node.get("num_groups")), dtype_of(int(node.get("stash_type", 1)))
    batch, channels = x.shape[:2]
    parts = x.cast(stash).reshape((batch, groups, x.numel() // max(batch * groups, 1)))
    normal = _standardised(parts, (2,), node.get("epsilon", 1e-5)).cast(x.dtype)
    if node.version < 21 and scale.shape[0] == groups:
        scale, bias = (part.repeat_interleave(channels // groups) for part in (scale, bias))
    result = normal.reshape(x.shape) * _of_channels(scale, x) + _of_channels(bias, x)
    return told("group_norm", result, x, scale, bias, groups=groups, eps=node.get("epsilon", 1e-5))


@operator("LayerNormalization", since=(1, 17))
def layer_normalisation(node: Node, x: Tensor, scale: Tensor, bias: Tensor | None = None) -> tuple[Tensor, ...]:
    """The axes from `axis` on by their mean and variance; also the mean and 1 / standard deviation."""
    axes = tuple(range(axis_of(node, x, -1), x.ndim))
    stash = dtype_of(int(node.get("stash_type", 1)))
    wide = x if x.dtype is dtypes.float64 else x.cast(stash)
    mean = wide.mean(axes, True)
    centred = wide - mean
    inverse = (centred.square().mean(axes, True) + node.get("epsilon", 1e-5)).rsqrt()
    normal = (centred * inverse).cast(x.dtype) * scale
    result = normal if bias is None else normal + bias
    result = told("layer_norm", result, x, scale, bias, axes=axes, eps=node.get("epsilon", 1e-5))
    return (result, mean.cast(stash), inverse.cast(stash))[: node.outputs]


@operator("RMSNormalization", since=(23,))
def rms_normalisation(node: Node, x: Tensor, scale: Tensor) -> Tensor:
    """The axes from `axis` on, divided by the root of the mean of their squares."""
    axes = tuple(range(axis_of(node, x, -1), x.ndim))
    wide = x.cast(dtype_of(int(node.get("stash_type", 1))))
    inverse = (wide.square().mean(axes, True) + node.get("epsilon", 1e-5)).rsqrt()
    result: Tensor = ((wide * inverse).cast(scale.dtype) * scale).cast(scale.dtype)
    return told("rms_norm", result, x, scale, axes=axes, eps=node.get("epsilon", 1e-5))


@operator("LpNormalization", since=(1, 22))
def lp_normalisation(node: Node, x: Tensor) -> Tensor:
    """Divided by a norm along an axis; zeros stay zeros."""
    axis = axis_of(node, x, -1)
    norm = x.abs().sum(axis, True) if node.get("p", 2) == 1 else x.square().sum(axis, True).sqrt()
    return (norm == 0).where(0, x / norm)


@operator("MeanVarianceNormalization", since=(9, 13))
def mean_variance_normalisation(node: Node, x: Tensor) -> Tensor:
    """(x - mean) / standard deviation."""
    axes = positive_axes(node, node.get("axes") or (0, 2, 3), x.ndim)
    centred = x - x.mean(axes, True)
    return centred / (centred.square().mean(axes, True).sqrt() + 1e-9)


@operator("LRN", since=(1, 13))
def local_response_normalisation(node: Node, x: Tensor) -> Tensor:
    """Divided by a power of the squares of the channels around."""
    size = int(node.get("size"))
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    pads = [(0, 0), (before, after), *((0, 0),) * (x.ndim - 2)]
    padded = x.square().pad(pads)
    total = padded[:, : x.shape[1]]
    for i in range(1, size):
        total = total + padded[:, i : i + x.shape[1]]
    result: Tensor = x / (node.get("bias", 1.0) + node.get("alpha", 1e-4) / size * total) ** node.get("beta", 0.75)
    return result
