"""Losses of classes: the negative logarithm of the probability of the right one."""

from __future__ import annotations

from whit.dtype import dtypes
from whit.onnx.operators.registry import Node, operator
from whit.tensor import Tensor


def likelihood_loss(node: Node, logs: Tensor, target: Tensor, weight: Tensor | None) -> Tensor:
    """(batch, classes, …) and the right classes (batch, …) -> a loss for each, or their sum or (weighted) mean."""
    ignored = node.get("ignore_index")
    right = target.cast(dtypes.int64)
    counts = right == right if ignored is None else right != int(ignored)
    safe = counts.where(right, 0)
    picked = logs.gather(1, safe.unsqueeze(1)).squeeze(1)
    share = (
        Tensor.ones_like(picked)
        if weight is None
        else weight.cast(logs.dtype).index_select(0, safe.reshape((safe.numel(),))).reshape(safe.shape)
    )
    share = counts.where(share, 0).cast(logs.dtype)
    loss = counts.where(-picked * share, 0).cast(logs.dtype)
    how = node.get("reduction", "mean")
    if how == "none":
        return loss
    return loss.sum() if how == "sum" else loss.sum() / share.sum()


@operator("NegativeLogLikelihoodLoss", since=(12, 13, 22))
def negative_log_likelihood(node: Node, x: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
    """From logarithms of probabilities."""
    return likelihood_loss(node, x, target, weight)


@operator("SoftmaxCrossEntropyLoss", since=(12, 13))
def softmax_cross_entropy(node: Node, x: Tensor, target: Tensor, weight: Tensor | None = None) -> tuple[Tensor, ...]:
    """From scores; also the logarithms of the probabilities."""
    logs = x.log_softmax(1)
    return (likelihood_loss(node, logs, target, weight), logs)[: node.outputs]
