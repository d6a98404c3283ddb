"""Losses. `reduction`: "mean", "sum" or "none". Integers and small floats are computed in a wider float.

Classes are read at their position, not searched for: the loss of a row is one kernel, log(sum(exp(x))) - x[class].
"""

# ruff: noqa: N803  # Y is the name that callers write
from __future__ import annotations

import math
from typing import Any, Self

from whit.dtype import dtypes
from whit.errors import ArgumentError, DTypeError, ShapeError
from whit.ir import ops
from whit.ir.op import spell_shape
from whit.ir.uop import UOp
from whit.tensor.core import check_number
from whit.tensor.graphs import formulas
from whit.tensor.graphs.softmax import below, reduced
from whit.tensor.methods.reduction.reduce import mean_of, sum_dtype
from whit.tensor.topic import Topic
from whit.transform import Form, derivative


class Losses(Topic):
    """How far predictions, self, are from what they should be."""

    __slots__ = ()

    # ---- reduction

    def _settled(self, name: str, loss: UOp, reduction: str, weight: UOp | None = None) -> Self:
        """A loss for each element as the user wants it; the mean is weighted where there are weights."""
        if reduction not in ("mean", "sum", "none"):
            raise ArgumentError(
                f"{name}: there is no reduction {reduction!r}", self._made(), 'Use "mean", "sum" or "none".'
            )
        axes = tuple(range(len(loss.shape)))
        if reduction == "sum":
            loss = reduced(loss, ops.ADD, axes)
        elif reduction == "mean" and weight is None:
            loss = mean_of(loss, axes)
        elif reduction == "mean" and weight is not None:
            loss = reduced(loss, ops.ADD, axes) / reduced(weight, ops.ADD, axes)
        return self._narrow(loss)

    def _loss_target(self, name: str, target: Any) -> tuple[UOp, UOp]:
        """Predictions and what they should be, broadcast, in a wide float."""
        x, y = self._pair(name, target, real=True)
        wide = sum_dtype(x.dtype)
        return x.cast(wide), y.cast(wide)

    # ---- classes

    def _classes(self, name: str, classes: Any, axis: int) -> Self:
        """Class numbers, checked against the shape of the predictions without the axis of classes."""
        chosen = self._operand(name, classes)
        self._one_device(name, chosen)
        wanted = self.shape[:axis] + self.shape[axis + 1 :]
        if chosen.shape != wanted:
            raise ShapeError(
                f"{name}: predictions {spell_shape(self.shape)} and classes {spell_shape(chosen.shape)}",
                f"predictions {self._made()}, classes {chosen._made()}",
                f"Axis {axis} has the classes; one class is needed for each of {spell_shape(wanted)}.",
            )
        if not chosen.dtype.is_int:
            raise DTypeError(f"{name}: classes are {chosen.dtype.name}", chosen._made(), "Use integers.")
        return chosen

    def _class_axis(self, name: str) -> int:
        if not self.ndim:
            raise ShapeError(f"{name}: a single number has no classes", self._made(), "Use (batch, classes).")
        return 0 if self.ndim == 1 else 1

    def cross_entropy(
        self, Y: Any, reduction: str = "mean", label_smoothing: float = 0.0, ignore_index: int = -100
    ) -> Self:
        """Minus the logarithm of the probability of the right class, self being logits with classes on axis 1.

        Y: class numbers, or probabilities in the shape of self. Other classes get their share of `label_smoothing`.
        """
        axis = self._class_axis("cross_entropy")
        target = self._operand("cross_entropy", Y)
        if target.dtype.is_int:
            return self._sparse("cross_entropy", target, axis, ignore_index, label_smoothing, reduction)
        if target.shape != self.shape:
            raise ShapeError(
                f"cross_entropy: logits {spell_shape(self.shape)} and probabilities {spell_shape(target.shape)}",
                f"logits {self._made()}, probabilities {target._made()}",
                "Probabilities have the shape of the logits; class numbers are integers.",
            )
        x, y = self._loss_target("cross_entropy", target)
        _smoothing("cross_entropy", label_smoothing)
        if label_smoothing:
            y = y * (1 - label_smoothing) + label_smoothing / self.shape[axis]
        logits = self._wrap(x).log_softmax(axis)
        loss = -reduced(logits.uop * y, ops.ADD, (axis,))
        return self._settled("cross_entropy", loss, reduction)

    def sparse_categorical_crossentropy(
        self, Y: Any, ignore_index: int = -1, label_smoothing: float = 0.0, reduction: str = "mean"
    ) -> Self:
        """`cross_entropy` of class numbers, with the classes on the last axis."""
        axis = self._axis("sparse_categorical_crossentropy", -1, scalars=False)
        name = "sparse_categorical_crossentropy"
        return self._sparse(name, Y, axis, ignore_index, label_smoothing, reduction)

    def _sparse(
        self, name: str, classes: Any, axis: int, ignore_index: int, label_smoothing: float, reduction: str
    ) -> Self:
        chosen = self._classes(name, classes, axis)
        _smoothing(name, label_smoothing)
        shifted, top, axes = self._shifted(name, axis)
        whole = formulas.log(reduced(formulas.exp(shifted), ops.ADD, axes))
        loss = whole - below(top.reshape(whole.shape), _picked(self._wide(), chosen.uop, axis))
        if label_smoothing:
            rest = whole - mean_of(shifted, axes)
            loss = loss * (1 - label_smoothing) + rest * label_smoothing
        counts = chosen.ne(ignore_index).uop
        loss = counts.where(loss, 0.0)
        return self._settled(name, loss, reduction, counts.cast(loss.dtype))

    def nll_loss(self, Y: Any, weight: Any = None, ignore_index: int | None = None, reduction: str = "mean") -> Self:
        """Minus the logarithm of the probability of the right class, self being logarithms with classes on axis 1.

        `weight`: one for each class; the mean is weighted too.
        """
        axis = self._class_axis("nll_loss")
        chosen = self._classes("nll_loss", Y, axis)
        loss = -_picked(self._wide(), chosen.uop, axis)
        if weight is None and ignore_index is None:
            return self._settled("nll_loss", loss, reduction)
        share = loss.constant(1.0).reshape((1,) * len(loss.shape)).expand(loss.shape)
        if weight is not None:
            factors = self._operand("nll_loss", weight)
            self._one_device("nll_loss", factors)
            if factors.shape != (self.shape[axis],):
                raise ShapeError(
                    f"nll_loss: weights {spell_shape(factors.shape)} for {self.shape[axis]} classes",
                    factors._made(),
                    "Give one weight for each class.",
                )
            share = _picked(factors.uop.cast(loss.dtype), chosen.uop, 0)
        if ignore_index is not None:
            share = chosen.ne(ignore_index).uop.where(share, 0.0)
        loss = share.eq(0.0).where(loss.constant(0.0), loss * share)
        return self._settled("nll_loss", loss, reduction, share)

    # ---- two classes

    def binary_crossentropy(self, Y: Any, reduction: str = "mean") -> Self:
        """-(Y log p + (1 - Y) log(1 - p)), self being probabilities; logarithms are not below -100."""
        p, y = self._loss_target("binary_crossentropy", Y)
        return self._settled("binary_crossentropy", formulas.crossentropy(p, y), reduction)

    def binary_crossentropy_logits(self, Y: Any, reduction: str = "mean", pos_weight: Any = None) -> Self:
        """`binary_crossentropy` of sigmoid(self), without overflow. `pos_weight` multiplies the loss where Y is 1."""
        x, y = self._loss_target("binary_crossentropy_logits", Y)
        if pos_weight is None:
            return self._settled("binary_crossentropy_logits", formulas.crossentropy_logits(x, y), reduction)
        weight = self._wrap(y) * (self._operand_or_number(pos_weight) - 1) + 1
        missed = weight * self._wrap(formulas.softplus(-x))
        loss = (self._wrap((1.0 - y) * x) + missed).uop.cast(x.dtype)
        return self._settled("binary_crossentropy_logits", loss, reduction)

    def _operand_or_number(self, value: Any) -> Any:
        return value if isinstance(value, int | float) else self._operand("binary_crossentropy_logits", value)

    # ---- distances

    def mse_loss(self, Y: Any, reduction: str = "mean") -> Self:
        """(self - Y) squared."""
        x, y = self._loss_target("mse_loss", Y)
        return self._settled("mse_loss", (x - y) * (x - y), reduction)

    def l1_loss(self, Y: Any, reduction: str = "mean") -> Self:
        """|self - Y|."""
        x, y = self._loss_target("l1_loss", Y)
        return self._settled("l1_loss", abs(x - y), reduction)

    def huber_loss(self, Y: Any, reduction: str = "mean", delta: float = 1.0) -> Self:
        """Half the square of the distance up to delta; beyond, a straight line."""
        check_number("huber_loss", "delta", delta, self._made())
        if not delta > 0:
            raise ArgumentError(f"huber_loss: delta={delta}", self._made(), "It is more than 0.")
        x, y = self._loss_target("huber_loss", Y)
        away = abs(x - y)
        loss = (away < delta).where(away * away * 0.5, (away - 0.5 * delta) * delta)
        return self._settled("huber_loss", loss, reduction)

    def smooth_l1_loss(self, Y: Any, reduction: str = "mean", beta: float = 1.0) -> Self:
        """`huber_loss` divided by beta; of beta 0, `l1_loss`."""
        check_number("smooth_l1_loss", "beta", beta, self._made())
        if not beta >= 0:
            raise ArgumentError(f"smooth_l1_loss: beta={beta}", self._made(), "It is 0 or more.")
        return self.huber_loss(Y, reduction, beta) / beta if beta else self.l1_loss(Y, reduction)

    def kl_div(self, Y: Any, reduction: str = "mean", log_target: bool = False) -> Self:
        """Y * (log(Y) - self), self being logarithms, and Y too with `log_target`."""
        x, y = self._loss_target("kl_div", Y)
        loss = formulas.exp(y) * (y - x) if log_target else formulas.xlogy(y, y) - y * x
        return self._settled("kl_div", loss, reduction)


def _smoothing(name: str, label_smoothing: float) -> None:
    check_number(name, "label_smoothing", label_smoothing)
    if not 0.0 <= label_smoothing <= 1.0:
        raise ArgumentError(f"{name}: label_smoothing={label_smoothing}", fix="It lies between 0 and 1.")


@derivative("pick", Form.LEADING)
def _picked_gradient(_: UOp, dy: UOp, rows: UOp, place: UOp) -> tuple[UOp | None, ...]:
    """dy at the class, found by comparing: that joins what the rest of a loss gives, a scatter would be kernels."""
    lead, count = rows.shape[:-1], rows.shape[-1]
    classes = UOp.arange(count).reshape((1,) * len(lead) + (count,)).expand(rows.shape)
    is_chosen = classes.eq(place.reshape((*lead, 1)).expand(rows.shape))
    return is_chosen.where(dy.reshape((*lead, 1)).expand(rows.shape), 0.0), None


def _picked(x: UOp, classes: UOp, axis: int) -> UOp:
    """x at the class of each position, x having the other axes too, or none; NaN where there is no such class."""
    count: int = x.shape[axis]
    place = classes.cast(dtypes.weakint)
    inside = (place >= 0) & (place < count)
    shape = classes.shape
    order = (*(i for i in range(len(x.shape)) if i != axis), axis)
    positions = []
    for i, size in enumerate(shape if len(x.shape) > 1 else ()):
        alone = tuple(size if j == i else 1 for j in range(len(shape)))
        positions.append(UOp.arange(size).reshape(alone).expand(shape))
    rows = x.permute(order)
    found = rows.index(*positions, place, gate=inside)
    if len(rows.shape) == len(shape) + 1:
        found = found.formula("pick", rows, place)
    return inside.where(found, found.constant(math.nan))
