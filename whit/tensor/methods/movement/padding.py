"""Axes with more before and after them: numbers, mirror images, repetitions. One kernel, whatever the mode.

    reflect    [0, 1, 2, 3]  ->  2 1 [0, 1, 2, 3] 2 1      the edge itself is not repeated
    replicate  [0, 1, 2, 3]  ->  0 0 [0, 1, 2, 3] 3 3
    circular   [0, 1, 2, 3]  ->  2 3 [0, 1, 2, 3] 0 1

Padding may be longer than the axis: it goes on back and forth, or round and round.
"""

from __future__ import annotations

from itertools import chain
from typing import Any, Self

from whit.dtype import dtypes
from whit.errors import ArgumentError, ShapeError
from whit.ir.assumed import fits, is_size_now
from whit.ir.op import spell_shape
from whit.ir.sizes import is_at_most, larger, settled, smaller
from whit.ir.uop import UOp, const
from whit.tensor.core import broadcast_scalar, check_number, whole_or_symbolic
from whit.tensor.graphs.convolution.sliding import taken
from whit.tensor.topic import Topic, scalar_node

MODES = ("constant", "reflect", "replicate", "circular")


class Padding(Topic):
    """`pad`."""

    __slots__ = ()

    def pad(self, padding: Any, mode: str = "constant", value: float = 0.0) -> Self:
        """More before and after each axis: ((before, after), ...), or PyTorch's flat form, last axis first.

        Modes: "constant" (`value`), "reflect", "replicate", "circular". Negative padding cuts off, first.
        """
        if mode not in MODES:
            raise ArgumentError(
                f"pad: there is no mode {mode!r}", self._made(), f"Use one of {', '.join(repr(m) for m in MODES)}."
            )
        if not isinstance(value, complex):
            check_number("pad", "value", value, self._made())
        pads = self._padding(padding)
        inner = self._cropped(pads)
        grow = [_added(*pair, size) for pair, size in zip(pads, inner.shape, strict=True)]
        if not any(isinstance(pad, UOp) or pad for pad in chain.from_iterable(grow)):
            return self._wrap(inner.uop)
        if mode != "constant":
            return self._wrap(self._continued(inner.uop, grow, mode))
        padded = inner.uop.pad(grow)
        if value == 0:
            return self._wrap(padded)
        inside = broadcast_scalar(const(dtypes.bool, True), inner.shape).pad(grow)
        weak = type(value) is float and not self.dtype.is_float
        dtype = dtypes.default_float if weak else self.dtype
        return self._wrap(inside.where(padded.cast(dtype), scalar_node(dtype, value)))

    def pad_to(self, shape: Any, *args: Any) -> Self:
        """Zeros after the last position of each axis, up to the sizes of a shape; None keeps one (tinygrad)."""
        sizes = tuple(shape) if isinstance(shape, tuple | list) else (shape, *args)
        if len(sizes) != self.ndim or any(
            new is not None and not is_at_most(old, new) for old, new in zip(self.shape, sizes, strict=True)
        ):
            raise ShapeError(
                f"pad_to: {spell_shape(self.shape)} does not grow to {sizes}",
                self._made(),
                "Give a size for each axis that is no less than its own, or None.",
            )
        return self.pad([(0, 0 if new is None else new - old) for old, new in zip(self.shape, sizes, strict=True)])

    def _cropped(self, pads: list[tuple[int, int]]) -> Self:
        """Without what negative padding takes away."""
        if all(fits(0, pad) for pad in chain.from_iterable(pads)):
            return self
        for axis, (size, (before, after)) in enumerate(zip(self.shape, pads, strict=True)):
            if not fits(0, size + smaller(before, 0) + smaller(after, 0)):
                raise ShapeError(
                    f"pad: {spell_shape((before, after))} takes more than axis {axis} of {spell_shape(self.shape)} has",
                    self._made(),
                    "Cut off less.",
                )
        pairs = zip(self.shape, pads, strict=True)
        return self.shrink([(_taken(before), size - _taken(after)) for size, (before, after) in pairs])

    def _continued(self, x: UOp, grow: list[tuple[int, int]], mode: str) -> UOp:
        """Each axis with elements of its own before and after it."""
        extend = {"reflect": _reflected, "replicate": _replicated, "circular": _circular}[mode]
        for axis, (before, after) in enumerate(grow):
            if all(isinstance(pad, int) and pad == 0 for pad in (before, after)):
                continue
            if x.shape[axis] == 0:
                raise ShapeError(
                    f'pad: mode="{mode}" of axis {axis}, which has no elements, in {spell_shape(self.shape)}',
                    self._made(),
                    "There is nothing to repeat.",
                )
            x = extend(x, axis, before, after)
        return x

    def _pad(self, value: Any) -> Any:
        return whole_or_symbolic("pad", "padding", value, self._made())

    def _padding(self, padding: Any) -> list[tuple[int, int]]:
        count = self.ndim
        if not isinstance(padding, tuple | list):
            raise ArgumentError(f"pad: {padding!r} is no padding", self._made(), "Give ((before, after), ...).")
        if any(isinstance(pair, tuple | list) or pair is None for pair in padding):
            pairs = [(0, 0) if pair is None else pair for pair in padding]
            if len(pairs) == count and all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
                return [(self._pad(before), self._pad(after)) for before, after in pairs]
        elif len(padding) % 2 == 0 and len(padding) <= 2 * count:
            flat = [(self._pad(padding[i]), self._pad(padding[i + 1])) for i in range(0, len(padding), 2)]
            return [(0, 0)] * (count - len(flat)) + flat[::-1]
        raise ShapeError(
            f"pad: {tuple(padding)} does not fit the {count} axes of {spell_shape(self.shape)}",
            self._made(),
            "Give (before, after) for each axis, or pairs of numbers for the last axes, last axis first.",
        )


def _added(before: Any, after: Any, size: Any) -> tuple[Any, Any]:
    """How much padding adds to an axis: the plain sizes, where they and what there is then can be no less than 0."""
    if fits(0, before) and fits(0, after) and is_size_now(settled(before + size + after)):
        return before, after
    return larger(before, 0), larger(after, 0)


def _taken(pad: Any) -> Any:
    """How much negative padding cuts off."""
    return 0 if fits(0, pad) else larger(-pad, 0)


def _circular(x: UOp, axis: int, before: int, after: int) -> UOp:
    """Copies end to end, and a window of them."""
    n, shape = x.shape[axis], x.shape
    front = -(-before // n)  # whole copies before it
    copies = front + 1 - (-after // n)
    x = x.reshape((*shape[:axis], 1, *shape[axis:])).expand((*shape[:axis], copies, *shape[axis:]))
    x = x.reshape((*shape[:axis], copies * n, *shape[axis + 1 :]))
    window = (front * n - before, before + n + after)
    return x.shrink([window if i == axis else (0, size) for i, size in enumerate(x.shape)])


def _reflected(x: UOp, axis: int, before: int, after: int) -> UOp:
    """There and back without the two ends, again and again; of a single element, that element."""
    n = x.shape[axis]
    if n <= 2:
        return _circular(x, axis, before, after)
    trip = 2 * n - 2
    place = (UOp.arange(before + n + after) + (-before % trip)) % trip
    return taken(x, axis, place.minimum(trip - place))


def _replicated(x: UOp, axis: int, before: int, after: int) -> UOp:
    """The first element before, the last after."""
    n = x.shape[axis]
    return taken(x, axis, (UOp.arange(before + n + after) - before).maximum(0).minimum(n - 1))
