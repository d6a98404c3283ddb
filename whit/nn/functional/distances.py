"""Distances between vectors, and losses of pairs and triplets of them."""

from __future__ import annotations

from collections.abc import Callable

from whit.errors import ArgumentError, ShapeError
from whit.ir.op import spell_shape
from whit.nn.functional.reduction import reduced
from whit.tensor import Tensor

SMALLEST_SQUARE = 1e-12  # beside squares of lengths in cosine_embedding_loss, as in PyTorch


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along an axis; lengths are not below eps, but in gradients."""
    first, second = (x / _at_least(x.norm(2, dim, keepdim=True), eps) for x in (x1, x2))
    return (first * second).sum(dim)


def _at_least(length: Tensor, eps: float) -> Tensor:
    """The length or eps, with the gradient of the length, as in PyTorch."""
    return length + (length.maximum(eps) - length).detach()


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The norm of x1 - x2 + eps along the last axis."""
    return (x1 - x2 + eps).norm(p, -1, keepdim=keepdim)


def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The distances of all pairs of rows, each pair once."""
    if input.ndim != 2:
        raise ShapeError(f"pdist: a tensor {spell_shape(input.shape)}", input._made(), "It has rows and columns.")
    count = input.shape[0]
    first = [i for i in range(count) for _ in range(i + 1, count)]
    second = [j for i in range(count) for j in range(i + 1, count)]
    if not first:
        return Tensor.zeros(0, dtype=input.dtype, device=input.device)
    device = input.device
    return (input[Tensor(first, device=device)] - input[Tensor(second, device=device)]).norm(p, -1)


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, *, reduction: str = "mean"
) -> Tensor:
    """1 - cosine where the target is 1, max(0, cosine - margin) where it is -1; vectors are the last axis."""
    product = (input1 * input2).sum(-1)
    lengths = (input1.square().sum(-1) + SMALLEST_SQUARE) * (input2.square().sum(-1) + SMALLEST_SQUARE)
    cosine = product / lengths.sqrt()
    loss = (target == 1).where(1 - cosine, (target == -1).where((cosine - margin).relu(), 0))
    return reduced("cosine_embedding_loss", loss, reduction)


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, *, reduction: str = "mean"
) -> Tensor:
    """max(0, margin - target * (input1 - input2)): with a target of 1 the first should be larger, of -1 the second."""
    return reduced("margin_ranking_loss", (margin - target * (input1 - input2)).relu(), reduction)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    *,
    reduction: str = "mean",
) -> Tensor:
    """max(0, margin + distance to the positive - distance to the negative). `swap`: the negative also is measured from
    the positive, and the smaller distance counts."""

    def distance(first: Tensor, second: Tensor) -> Tensor:
        return pairwise_distance(first, second, p, eps)

    return triplet_margin_with_distance_loss(
        anchor, positive, negative, distance_function=distance, margin=margin, swap=swap, reduction=reduction
    )


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """The same with any distance."""
    if not margin > 0:
        raise ArgumentError(f"triplet_margin_loss: margin={margin!r}", fix="It is above 0.")
    distance = distance_function or pairwise_distance
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = far.minimum(distance(positive, negative))
    return reduced("triplet_margin_loss", (margin + near - far).relu(), reduction)
