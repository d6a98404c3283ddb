"""Losses as objects, as PyTorch has them: `nn.MSELoss()(x, y)` is `F.mse_loss(x, y)`."""

from __future__ import annotations

from collections.abc import Callable

from whit.nn import functional as F
from whit.nn.functional.ctc import Lengths
from whit.nn.module import Module
from whit.tensor import Tensor


class _Loss(Module):
    """`reduction`: "mean", "sum" or "none"."""

    def __init__(self, reduction: str = "mean") -> None:
        self.reduction = reduction


class _Weighted(_Loss):
    """`weight`: a factor for each class or element, which is not trained."""

    weight: Tensor | None

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean") -> None:
        self.reduction = reduction
        self._weigh(weight)

    def _weigh(self, weight: Tensor | None) -> None:
        self.weight = weight
        if weight is not None:
            weight.requires_grad = False


# ---- numbers


class MSELoss(_Loss):
    """Squares of differences."""

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        return x.mse_loss(y, reduction=self.reduction)


class L1Loss(_Loss):
    """Absolute differences."""

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        return x.l1_loss(y, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """Squares below beta, absolute differences above."""

    def __init__(self, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__(reduction)
        self.beta = beta

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        return x.smooth_l1_loss(y, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """Squares below delta, absolute differences times delta above."""

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction)
        self.delta = delta

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        return x.huber_loss(y, reduction=self.reduction, delta=self.delta)


class PoissonNLLLoss(_Loss):
    """Minus the logarithm of Poisson's probability of y, of the rate exp(x), or x with `log_input=False`."""

    def __init__(self, log_input: bool = True, full: bool = False, eps: float = 1e-8, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.log_input, self.full, self.eps = log_input, full, eps

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        return F.poisson_nll_loss(x, y, self.log_input, self.full, eps=self.eps, reduction=self.reduction)


class GaussianNLLLoss(_Loss):
    """Minus the logarithm of the normal density of y, x being the mean; variances not below eps."""

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.full, self.eps = full, eps

    def __call__(self, x: Tensor, y: Tensor, var: Tensor | float) -> Tensor:
        return F.gaussian_nll_loss(x, y, var, self.full, self.eps, self.reduction)


# ---- probabilities and classes


class KLDivLoss(_Loss):
    """y * (log(y) - x), x being logarithms, and y too with `log_target`. Also of reduction "batchmean"."""

    def __init__(self, reduction: str = "mean", log_target: bool = False) -> None:
        super().__init__(reduction)
        self.log_target = log_target

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        return F.kl_div(x, y, reduction=self.reduction, log_target=self.log_target)


class BCELoss(_Weighted):
    """Cross entropy of probabilities x and labels y, 0 to 1."""

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        return F.binary_cross_entropy(x, y, self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Weighted):
    """Cross entropy of sigmoid(x) and labels y, 0 to 1; `pos_weight` multiplies the loss where y is 1."""

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean", pos_weight: Tensor | None = None) -> None:
        super().__init__(weight, reduction)
        self.pos_weight = pos_weight
        if pos_weight is not None:
            pos_weight.requires_grad = False

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(
            x, y, self.weight, reduction=self.reduction, pos_weight=self.pos_weight
        )


class CrossEntropyLoss(_Weighted):
    """Cross entropy of softmax(x) and classes y, integers or probabilities; classes on axis 1."""

    def __init__(
        self,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, reduction)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(
            x,
            y,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class NLLLoss(_Weighted):
    """Minus the logarithms x of the probabilities of classes y."""

    def __init__(self, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean") -> None:
        super().__init__(weight, reduction)
        self.ignore_index = ignore_index

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        return F.nll_loss(x, y, self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_Weighted):
    """The mean over classes of two-class cross entropies of logits x and labels y."""

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        return F.multilabel_soft_margin_loss(x, y, self.weight, reduction=self.reduction)


class MultiLabelMarginLoss(_Loss):
    """Of each right class and each wrong one, max(0, 1 - x[right] + x[wrong]); y lists right classes up to a -1."""

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        return F.multilabel_margin_loss(x, y, reduction=self.reduction)


class MultiMarginLoss(_Weighted):
    """The sum over the other classes of max(0, margin - x[y] + x[other]) ** p, by the number of classes."""

    def __init__(self, p: int = 1, margin: float = 1.0, weight: Tensor | None = None, reduction: str = "mean") -> None:
        super().__init__(weight, reduction)
        self.p, self.margin = p, margin

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        return F.multi_margin_loss(x, y, self.p, self.margin, self.weight, reduction=self.reduction)


class SoftMarginLoss(_Loss):
    """log(1 + exp(-y * x)) of labels 1 and -1."""

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        return F.soft_margin_loss(x, y, reduction=self.reduction)


class HingeEmbeddingLoss(_Loss):
    """x where y is 1, max(0, margin - x) where it is -1."""

    def __init__(self, margin: float = 1.0, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        return F.hinge_embedding_loss(x, y, self.margin, reduction=self.reduction)


class CTCLoss(_Loss):
    """Of labels whose places in time are not known; x are logarithms (time, batch, classes)."""

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction)
        self.blank, self.zero_infinity = blank, zero_infinity

    def __call__(self, x: Tensor, y: Tensor, input_lengths: Lengths, target_lengths: Lengths) -> Tensor:
        return F.ctc_loss(x, y, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity)


# ---- pairs and triplets of vectors


class CosineEmbeddingLoss(_Loss):
    """1 - cosine of pairs where y is 1, max(0, cosine - margin) where it is -1."""

    def __init__(self, margin: float = 0.0, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin

    def __call__(self, x1: Tensor, x2: Tensor, y: Tensor) -> Tensor:
        return F.cosine_embedding_loss(x1, x2, y, self.margin, reduction=self.reduction)


class MarginRankingLoss(CosineEmbeddingLoss):
    """max(0, margin - y * (x1 - x2)): the first should be larger where y is 1, the second where it is -1."""

    def __call__(self, x1: Tensor, x2: Tensor, y: Tensor) -> Tensor:
        return F.margin_ranking_loss(x1, x2, y, self.margin, reduction=self.reduction)


class TripletMarginLoss(_Loss):
    """max(0, margin + distance to the positive - distance to the negative)."""

    def __init__(
        self, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False, reduction: str = "mean"
    ) -> None:
        super().__init__(reduction)
        self.margin, self.p, self.eps, self.swap = margin, p, eps, swap

    def __call__(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_loss(
            anchor, positive, negative, self.margin, self.p, self.eps, self.swap, reduction=self.reduction
        )


class TripletMarginWithDistanceLoss(_Loss):
    """The same with any distance."""

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction)
        self.distance_function, self.margin, self.swap = distance_function, margin, swap

    def __call__(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )
