"""Activations: functions of each element with a few numbers as attributes, and those along an axis (softmax)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from whit.onnx.operators.registry import Node, axis_of, operator, unary
from whit.tensor import Tensor
from whit.tensor.told import told

EACH_AXIS: Final = 13  # the version since which softmax looks at one axis, not at all from it on

unary("Relu", Tensor.relu, (1, 6, 13, 14))
unary("Sigmoid", Tensor.sigmoid, (1, 6, 13))
unary("HardSwish", Tensor.hardswish, (14, 22))
unary("Softsign", Tensor.softsign, (1, 22))
unary("Mish", Tensor.mish, (18, 22))
unary("Softplus", Tensor.softplus, (1, 22))


@operator("LeakyRelu", since=(1, 6, 16))
def leaky_relu(node: Node, x: Tensor) -> Tensor:
    """x, or alpha * x below zero."""
    return x.leaky_relu(node.get("alpha", 0.01))


@operator("Elu", since=(1, 6, 22))
def elu(node: Node, x: Tensor) -> Tensor:
    """x, or alpha * (exp(x) - 1) below zero."""
    return (x < 0).where(node.get("alpha", 1.0) * x.minimum(0).expm1(), x)


@operator("Celu", since=(12,))
def celu(node: Node, x: Tensor) -> Tensor:
    """x, or alpha * (exp(x / alpha) - 1) below zero."""
    return x.celu(node.get("alpha", 1.0))


@operator("Selu", since=(1, 6, 22))
def selu(node: Node, x: Tensor) -> Tensor:
    """gamma * elu(x)."""
    alpha, gamma = (1.6732, 1.0507) if node.version < 6 else (1.67326319217681884765625, 1.05070102214813232421875)
    alpha, gamma = node.get("alpha", alpha), node.get("gamma", gamma)
    result: Tensor = gamma * (x <= 0).where(alpha * x.minimum(0).expm1(), x)
    return result


@operator("ThresholdedRelu", since=(10, 22))
def thresholded_relu(node: Node, x: Tensor) -> Tensor:
    """x above alpha, else zero."""
    result: Tensor = (x > node.get("alpha", 1.0)).where(x, 0)
    return result


@operator("Shrink", since=(9,))
def shrink(node: Node, x: Tensor) -> Tensor:
    """Towards zero by `bias`, and zero between -lambd and lambd."""
    bias, limit = node.get("bias", 0.0), node.get("lambd", 0.5)
    result: Tensor = (x < -limit).where(x + bias, (x > limit).where(x - bias, 0)).cast(x.dtype)
    return result


@operator("HardSigmoid", since=(1, 6, 22))
def hard_sigmoid(node: Node, x: Tensor) -> Tensor:
    """alpha * x + beta between 0 and 1."""
    alpha, beta = node.get("alpha", 0.2), node.get("beta", 0.5)
    result: Tensor = (x * alpha + beta).clip(0, 1)
    return told("hardsigmoid", result, x, alpha=alpha, beta=beta)


@operator("Swish", since=(24,))
def swish(node: Node, x: Tensor) -> Tensor:
    """x * sigmoid(alpha * x)."""
    result: Tensor = x * (x * node.get("alpha", 1.0)).sigmoid()
    return result


@operator("Gelu", since=(20,))
def gelu(node: Node, x: Tensor) -> Tensor:
    """Exact, or by a hyperbolic tangent."""
    return x.gelu(node.get("approximate", "none"))


@operator("PRelu", since=(1, 6, 7, 9, 16))
def prelu(node: Node, x: Tensor, slope: Tensor) -> Tensor:
    """x, or slope * x below zero. Before version 7 a slope is one number for each channel."""
    if node.version < 7 and slope.ndim == 1 and slope.shape[0] > 1:
        slope = slope.reshape((-1, *(1,) * (x.ndim - 2)))
    return told("prelu", (x < 0).where(x * slope, x), x, slope)


def _along(node: Node, x: Tensor, function: Callable[[Tensor, int], Tensor]) -> Tensor:
    """A function of rows: of one axis, or before version 13 of all axes from it on as one."""
    axis = axis_of(node, x, -1 if node.version >= EACH_AXIS else 1)
    if node.version >= EACH_AXIS:
        return function(x, axis)
    rows = math.prod(x.shape[:axis])
    return function(x.reshape((rows, math.prod(x.shape[axis:]))), 1).reshape(x.shape)


@operator("Softmax", since=(1, 11, 13))
def softmax(node: Node, x: Tensor) -> Tensor:
    """exp(x) / sum(exp(x))."""
    return _along(node, x, lambda rows, axis: rows.softmax(axis))


@operator("LogSoftmax", since=(1, 11, 13))
def log_softmax(node: Node, x: Tensor) -> Tensor:
    """log(softmax(x))."""
    return _along(node, x, lambda rows, axis: rows.log_softmax(axis))


@operator("Hardmax", since=(1, 11, 13))
def hardmax(node: Node, x: Tensor) -> Tensor:
    """1 at the first largest element, else 0."""

    def first_largest(rows: Tensor, axis: int) -> Tensor:
        place = rows.argmax(axis, keepdim=True)
        shape = [1] * rows.ndim
        shape[axis] = rows.shape[axis]
        return (Tensor.arange(rows.shape[axis], device=rows.device).reshape(shape) == place).cast(rows.dtype)

    return _along(node, x, first_largest)
