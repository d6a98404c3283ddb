"""Losses of classes, labels and numbers. `reduction`: "mean", "sum" or "none".

Those that `Tensor` has as methods are written there; these have PyTorch's arguments.
"""

from __future__ import annotations

import math

from whit.errors import ArgumentError
from whit.nn.functional.reduction import reduced, same_shape, weighted
from whit.tensor import Tensor

SMALLEST_PRODUCT = 1.0  # below it, Stirling's approximation of log(n!) is left out


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Minus the logarithm of the probability of the right class; classes are axis 1, or 0 of a vector.

    target: class numbers, or probabilities in the shape of the input. `weight`: one for each class.
    """
    if weight is None:
        return input.cross_entropy(target, reduction, label_smoothing, ignore_index)
    axis = min(1, input.ndim - 1)
    logs = input.log_softmax(axis)
    share = label_smoothing / input.shape[axis]
    factors = weight.reshape(*(-1 if place == axis else 1 for place in range(input.ndim)))
    if not target.dtype.is_int:
        same_shape("cross_entropy", input, target)
        return reduced(
            "cross_entropy", -(logs * factors * (target * (1 - label_smoothing) + share)).sum(axis), reduction
        )
    if not label_smoothing:
        return logs.nll_loss(target, weight, ignore_index, reduction)
    chosen = logs.nll_loss(target, weight, ignore_index, "none")
    counts = target != ignore_index
    loss = chosen * (1 - label_smoothing) - counts.where((logs * factors).sum(axis), 0) * share
    if reduction != "mean":
        return reduced("cross_entropy", loss, reduction)
    total = counts.where(weight[counts.where(target, 0)], 0).sum()
    mean: Tensor = loss.sum() / total
    return mean


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """Minus the logarithms, which are the input, of the probabilities of the classes."""
    return input.nll_loss(target, weight, ignore_index, reduction)


def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: str = "mean"
) -> Tensor:
    """Cross entropy of probabilities and labels from 0 to 1; `weight` is a factor for each element."""
    if weight is None:
        return input.binary_crossentropy(target, reduction)
    return weighted("binary_cross_entropy", input.binary_crossentropy(target, "none"), weight, reduction)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """The same with sigmoid(input); `pos_weight` multiplies the loss where the label is 1."""
    if weight is None:
        return input.binary_crossentropy_logits(target, reduction, pos_weight)
    loss = input.binary_crossentropy_logits(target, "none", pos_weight)
    return weighted("binary_cross_entropy_with_logits", loss, weight, reduction)


def mse_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """Squares of differences. With a weight, the mean is divided by its sum."""
    if weight is None:
        return input.mse_loss(target, reduction)
    return _by_weight("mse_loss", input.mse_loss(target, "none"), weight, reduction)


def l1_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """Absolute differences. With a weight, the mean is divided by its sum."""
    if weight is None:
        return input.l1_loss(target, reduction)
    return _by_weight("l1_loss", input.l1_loss(target, "none"), weight, reduction)


def _by_weight(name: str, loss: Tensor, weight: Tensor, reduction: str) -> Tensor:
    if reduction != "mean":
        return weighted(name, loss, weight, reduction)
    return (loss * weight).sum() / weight.expand(loss.shape).sum()


def smooth_l1_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """Squares below beta, absolute differences above."""
    return input.smooth_l1_loss(target, reduction, beta)


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """Squares below delta, absolute differences times delta above."""
    if weight is None:
        return input.huber_loss(target, reduction, delta)
    return _by_weight("huber_loss", input.huber_loss(target, "none", delta), weight, reduction)


def kl_div(input: Tensor, target: Tensor, *, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """target * (log(target) - input), the input being logarithms; "batchmean" divides the sum by the batch."""
    if reduction == "batchmean":
        return input.kl_div(target, "sum", log_target) / max(input.shape[0] if input.ndim else 1, 1)
    return input.kl_div(target, reduction, log_target)


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    *,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Tensor:
    """Minus the logarithm of Poisson's probability of the target, of the rate exp(input), or of the input itself.

    `full` adds Stirling's approximation of log(target!).
    """
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        safe = (target > SMALLEST_PRODUCT).where(target, 1)
        stirling = safe * safe.log() - safe + 0.5 * (2 * math.pi * safe).log()
        loss = loss + (target > SMALLEST_PRODUCT).where(stirling, 0)
    return reduced("poisson_nll_loss", loss, reduction)


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """Minus the logarithm of the normal density of the target, the input being the mean; variances not below eps.

    `full` adds log(2 pi) / 2.
    """
    spread = var if isinstance(var, Tensor) else Tensor(float(var), device=input.device)
    if spread.ndim == input.ndim - 1 and spread.shape == input.shape[:-1]:
        spread = spread.unsqueeze(-1)
    clamped = spread + (spread.maximum(eps) - spread).detach()  # the gradient is that of the variance, clamped or not
    loss = 0.5 * (clamped.log() + (input - target).square() / clamped)
    return reduced("gaussian_nll_loss", loss + (0.5 * math.log(2 * math.pi) if full else 0), reduction)


def soft_margin_loss(input: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """log(1 + exp(-target * input)), targets being 1 and -1."""
    return reduced("soft_margin_loss", (-target * input).softplus(), reduction)


def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, *, reduction: str = "mean") -> Tensor:
    """The input where the target is 1, max(0, margin - input) where it is -1."""
    near = (target != -1).where(input, 0)
    far = (target != 1).where((margin - input).relu(), 0)
    return reduced("hinge_embedding_loss", near + far, reduction)


def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: str = "mean"
) -> Tensor:
    """The mean over classes, the last axis, of two-class cross entropies; `weight` has a factor for each class."""
    loss = input.binary_crossentropy_logits(target, "none")
    return reduced("multilabel_soft_margin_loss", (loss if weight is None else loss * weight).mean(-1), reduction)


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    *,
    reduction: str = "mean",
) -> Tensor:
    """The sum over the other classes of max(0, margin - input[class] + input[other]) ** p, by the number of classes."""
    if p not in (1, 2):
        raise ArgumentError(f"multi_margin_loss: p={p!r}", fix="It is 1 or 2.")
    rows, classes = (input, target) if input.ndim == 2 else (input.unsqueeze(0), target.reshape(1))
    count = rows.shape[1]
    is_right = Tensor.arange(count).reshape(1, -1) == classes.reshape(-1, 1)
    missing = (margin - rows.gather(1, classes.reshape(-1, 1)) + rows).relu()
    missing = missing.square() if p == 2 else missing
    missing = missing if weight is None else missing * weight[classes].reshape(-1, 1)
    loss = is_right.where(0, missing).sum(1) / count
    return reduced("multi_margin_loss", loss if input.ndim == 2 else loss.reshape(()), reduction)


def multilabel_margin_loss(input: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """The sum of max(0, 1 - input[right] + input[wrong]) over right and wrong classes, by the number of classes.

    A row of the target has the right classes, up to the first -1.
    """
    same_shape("multilabel_margin_loss", input, target)
    rows, classes = (input, target) if input.ndim == 2 else (input.unsqueeze(0), target.unsqueeze(0))
    count = rows.shape[1]
    is_listed = (classes < 0).int().cumsum(1) == 0
    place = is_listed.where(classes, 0)
    is_right = ((Tensor.arange(count).reshape(1, 1, -1) == place.unsqueeze(2)) & is_listed.unsqueeze(2)).any(1)
    right = rows.gather(1, place)
    missing = (1 - right.unsqueeze(2) + rows.unsqueeze(1)).relu()
    counts = is_listed.unsqueeze(2) & ~is_right.unsqueeze(1)
    loss = counts.where(missing, 0).sum((1, 2)) / count
    return reduced("multilabel_margin_loss", loss if input.ndim == 2 else loss.reshape(()), reduction)
