"""Dropout with `training` given. It is True unless it is said, as in PyTorch."""

from __future__ import annotations

from whit.nn.dropout import alpha_dropped, check_probability, dropped, kept_channels
from whit.tensor import Tensor


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Elements are 0 with probability p, and the others are larger for it."""
    check_probability(p)
    return dropped(input, p, training)


def _channels(input: Tensor, p: float, training: bool, axes: int) -> Tensor:
    check_probability(p)
    return input * kept_channels(input, p, axes) if training and p else input


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """The same with channels (batch, channels, length)."""
    return _channels(input, p, training, 1)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """The same with channels of images."""
    return _channels(input, p, training, 2)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """The same with channels of volumes."""
    return _channels(input, p, training, 3)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Elements are the limit of SELU at minus infinity with probability p; mean and variance stay."""
    return alpha_dropped(input, p, training)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """The same with whole channels."""
    return alpha_dropped(input, p, training, max(input.ndim - 2, 0))
