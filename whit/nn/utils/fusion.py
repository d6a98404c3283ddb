"""A layer and the batch norm after it as one layer, for evaluation."""

from __future__ import annotations

import copy
from typing import Any

from whit.errors import ArgumentError
from whit.nn.own_class import trained_as
from whit.tensor import Tensor

Weights = tuple[Tensor, Tensor]


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> Weights:
    """The weight and the bias of a convolution that gives what the norm of its results is."""
    scale = (bn_rv + bn_eps).rsqrt()
    scale = scale if bn_w is None else scale * bn_w
    shape = (1, -1) if transpose else (-1, 1)
    weight = conv_w * scale.reshape(*shape, *[1] * (conv_w.ndim - 2)).cast(conv_w.dtype)
    bias = (-bn_rm if conv_b is None else conv_b - bn_rm) * scale
    return weight, bias if bn_b is None else bias + bn_b


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
) -> Weights:
    """The same of a linear layer."""
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A copy of a convolution that gives what both layers give in evaluation."""
    if conv.training or bn.training:
        raise ArgumentError("fuse_conv_bn_eval: a layer is in training", fix="Call conv.eval() and bn.eval() before.")
    fused = copy.deepcopy(conv)
    tensors = (bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias)
    weight, bias = fuse_conv_bn_weights(fused.weight, fused.bias, *tensors, transpose)
    fused.weight, fused.bias = (trained_as(tensor.realize(), conv.weight) for tensor in (weight, bias))
    return fused


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """The same of a linear layer."""
    return fuse_conv_bn_eval(linear, bn)
