"""A loss over many classes, of which few are frequent: the rare ones are groups, with a smaller product for each.

loss = nn.AdaptiveLogSoftmaxWithLoss(64, 10_000, cutoffs=[100, 1000])
output, mean = loss(hidden, target)              # hidden (batch, 64), target (batch,) of classes
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from whit.dtype import DTypeLike
from whit.errors import ArgumentError, ShapeError
from whit.ir.op import spell_shape
from whit.nn.linear import Linear
from whit.nn.module import Module, Sequential
from whit.nn.placed import placed
from whit.tensor import Tensor


class ASMoutput(NamedTuple):
    """The logarithm of the probability of each target, and the mean loss."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Classes below the first cutoff, and one group for each cutoff after it, are the head; a group is a product with
    `div_value` times fewer columns than the one before. Classes are in the order of their frequency."""

    @placed
    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        ends = list(cutoffs)
        if not ends or ends != sorted(set(ends)) or ends[0] <= 0 or ends[-1] > n_classes - 1:
            raise ArgumentError(
                f"AdaptiveLogSoftmaxWithLoss: cutoffs={ends} of {n_classes} classes",
                fix="Give different classes in order, from 1 to n_classes - 1.",
            )
        self.in_features, self.n_classes, self.div_value, self.head_bias = in_features, n_classes, div_value, head_bias
        self.cutoffs = [*ends, n_classes]
        self.shortlist_size, self.n_clusters = ends[0], len(ends)
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, head_bias)
        self.tail = []
        for place in range(self.n_clusters):
            hidden = int(in_features // div_value ** (place + 1))
            size = self.cutoffs[place + 1] - self.cutoffs[place]
            self.tail.append(Sequential(Linear(in_features, hidden, False), Linear(hidden, size, False)))

    def _groups(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Logarithms of probabilities of the head, and those within each group."""
        return self.head(x).log_softmax(1), [group(x).log_softmax(1) for group in self.tail]

    def __call__(self, input: Tensor, target: Tensor) -> ASMoutput:
        """input of shape (batch, in_features) and target of (batch,), or both without the batch."""
        if input.ndim == 1 and target.ndim == 0:
            output, loss = self(input.unsqueeze(0), target.unsqueeze(0))
            return ASMoutput(output.squeeze(0), loss)
        if input.ndim != 2 or target.shape != input.shape[:1]:
            raise ShapeError(
                f"AdaptiveLogSoftmaxWithLoss: input {spell_shape(input.shape)}, target {spell_shape(target.shape)}",
                input._made(),
                "They are (batch, in_features) and (batch,).",
            )
        head, groups = self._groups(input)
        output = _at(head, target, 0, self.shortlist_size)
        for place, group in enumerate(groups):
            begin, end = self.cutoffs[place], self.cutoffs[place + 1]
            is_in = (target >= begin) & (target < end)
            found = head[:, self.shortlist_size + place] + _at(group, target - begin, 0, end - begin)
            output = is_in.where(found, output)
        is_class = (target >= 0) & (target < self.n_classes)
        output = is_class.where(output, float("nan"))  # as in other losses: there is no such class
        return ASMoutput(output, -output.mean())

    def log_prob(self, input: Tensor) -> Tensor:
        """The logarithms of the probabilities of all classes: (batch, n_classes)."""
        head, groups = self._groups(input)
        parts = [head[:, : self.shortlist_size]]
        parts += [group + head[:, self.shortlist_size + i].unsqueeze(1) for i, group in enumerate(groups)]
        return parts[0].cat(*parts[1:], dim=1)

    def predict(self, input: Tensor) -> Tensor:
        """The most likely class: (batch,)."""
        return self.log_prob(input).argmax(1)


def _at(table: Tensor, classes: Tensor, least: int, end: int) -> Tensor:
    """A column for each row; any of them where the class is not in the table."""
    return table.gather(1, classes.clip(least, end - 1).unsqueeze(1)).squeeze(1)
