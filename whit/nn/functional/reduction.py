"""What losses share: the mean of all elements, their sum, or all of them."""

from __future__ import annotations

from whit.errors import ArgumentError, ShapeError
from whit.ir.op import spell_shape
from whit.tensor import Tensor


def reduced(name: str, loss: Tensor, reduction: str) -> Tensor:
    """A loss for each element -> what the user wants."""
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    if reduction != "none":
        raise ArgumentError(f"{name}: there is no reduction {reduction!r}", fix='Use "mean", "sum" or "none".')
    return loss


def weighted(name: str, loss: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    """The same with a factor for each element."""
    return reduced(name, loss if weight is None else loss * weight, reduction)


def same_shape(name: str, first: Tensor, second: Tensor) -> None:
    """Refuses a prediction and a target of different shapes."""
    if first.shape != second.shape:
        raise ShapeError(
            f"{name}: shapes {spell_shape(first.shape)} and {spell_shape(second.shape)}",
            f"the first {first._made()}, the second {second._made()}",
            "They must be equal.",
        )
