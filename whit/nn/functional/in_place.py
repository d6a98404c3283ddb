"""Activations that write into their input, and return it."""

from __future__ import annotations

from whit.nn.functional import activations
from whit.tensor import Tensor


def relu_(input: Tensor) -> Tensor:
    """The input becomes its `relu`."""
    return input.assign(activations.relu(input))


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """The input becomes its `leaky_relu`."""
    return input.assign(activations.leaky_relu(input, negative_slope))


def rrelu_(input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False) -> Tensor:
    """The input becomes its `rrelu`."""
    return input.assign(activations.rrelu(input, lower, upper, training))


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """The input becomes its `elu`."""
    return input.assign(activations.elu(input, alpha))


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """The input becomes its `celu`."""
    return input.assign(activations.celu(input, alpha))


def selu_(input: Tensor) -> Tensor:
    """The input becomes its `selu`."""
    return input.assign(activations.selu(input))


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """The input becomes its `hardtanh`."""
    return input.assign(activations.hardtanh(input, min_val, max_val))


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """The input becomes its `threshold`."""
    return input.assign(activations.threshold(input, threshold, value))
