"""Losses as objects, as PyTorch has them: `nn.MSELoss()(x, y)` is `x.mse_loss(y)`."""

from __future__ import annotations

from typing import Any

from whit.nn.module import Module
from whit.tensor import Tensor


class _Loss(Module):
    """`reduction`: "mean", "sum" or "none"."""

    def __init__(self, reduction: str = "mean") -> None:
        self.reduction = reduction


class MSELoss(_Loss):
    """Squares of differences."""

    def __call__(self, x: Tensor, y: Any) -> Tensor:
        return x.mse_loss(y, reduction=self.reduction)


class L1Loss(_Loss):
    """Absolute differences."""

    def __call__(self, x: Tensor, y: Any) -> Tensor:
        return x.l1_loss(y, reduction=self.reduction)


class BCELoss(_Loss):
    """Cross entropy of probabilities x and labels y, 0 to 1."""

    def __call__(self, x: Tensor, y: Any) -> Tensor:
        return x.binary_crossentropy(y, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """Cross entropy of sigmoid(x) and labels y, 0 to 1."""

    def __call__(self, x: Tensor, y: Any) -> Tensor:
        return x.binary_crossentropy_logits(y, reduction=self.reduction)


class CrossEntropyLoss(_Loss):
    """Cross entropy of softmax(x) and classes y, integers or probabilities; classes on axis 1."""

    def __init__(self, ignore_index: int = -100, reduction: str = "mean", label_smoothing: float = 0.0) -> None:
        super().__init__(reduction)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing

    def __call__(self, x: Tensor, y: Any) -> Tensor:
        return x.cross_entropy(
            y, reduction=self.reduction, label_smoothing=self.label_smoothing, ignore_index=self.ignore_index
        )


class NLLLoss(_Loss):
    """Minus the logarithms x of the probabilities of classes y."""

    def __init__(self, ignore_index: int = -100, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.ignore_index = ignore_index

    def __call__(self, x: Tensor, y: Any) -> Tensor:
        return x.nll_loss(y, ignore_index=self.ignore_index, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """Squares below beta, absolute differences above."""

    def __init__(self, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__(reduction)
        self.beta = beta

    def __call__(self, x: Tensor, y: Any) -> Tensor:
        return x.smooth_l1_loss(y, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """Squares below delta, absolute differences times delta above."""

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction)
        self.delta = delta

    def __call__(self, x: Tensor, y: Any) -> Tensor:
        return x.huber_loss(y, reduction=self.reduction, delta=self.delta)
