"""Elements by position: `x[...]`, gathering, and masks made of positions.

Indexing with integers, slices, None and `...` is movement only: at most one SHRINK, FLIP, PAD and two RESHAPEs. A step
other than 1 cuts each axis into pieces of that size and keeps the first element of each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Self

from whit.dtype import dtypes
from whit.engine.device import is_disk
from whit.errors import ArgumentError, DTypeError, NotSupportedError, OutOfRangeError, ShapeError
from whit.ir.op import spell_shape
from whit.ir.uop import UOp, const
from whit.tensor.core import Core
from whit.tensor.reduce import Reductions


class Indexing(Reductions):
    """Reading parts."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Self:
        return self._wrap(_picked(self.uop, self._parsed(index)))

    def __setitem__(self, index: Any, value: Any) -> None:
        if is_disk(self.uop.device):
            self[index]._write_file("setitem", value)
            return
        raise NotSupportedError(
            "setitem: tensors cannot be assigned to in parts yet", self._made(), "Use where(), cat() or pad()."
        )

    def __iter__(self) -> Iterator[Self]:
        if not self.shape:
            raise ArgumentError("iter: a tensor of shape () has no elements to go through", self._made(), "Use item().")
        return (self[i] for i in range(len(self)))

    def _parsed(self, index: Any) -> list[Any]:
        """One entry an axis (int or slice) with None for new axes: no `...` left, everything checked."""
        entries = list(index) if isinstance(index, tuple) else [index]
        for entry in entries:
            if type(entry) is int or type(entry) is slice:
                continue
            if isinstance(entry, Core | list) or (hasattr(entry, "__array__") and getattr(entry, "shape", ()) != ()):
                raise NotSupportedError(
                    "getitem: tensors, lists and masks cannot be indices yet",
                    self._made(),
                    "Use integers, slices, None and ..., or gather().",
                )
        dots = [i for i, entry in enumerate(entries) if entry is Ellipsis]
        if len(dots) > 1:
            raise OutOfRangeError(f"getitem: ... stands {len(dots)} times in the index", self._made(), "Use it once.")
        used = len([entry for entry in entries if entry is not None]) - len(dots)
        if used > self.ndim:
            raise OutOfRangeError(
                f"getitem: {used} indices for the {self.ndim} axes of {spell_shape(self.shape)}",
                self._made(),
                "Give at most one for each axis.",
            )
        place = dots[0] if dots else len(entries)
        entries[place : place + 1] = [slice(None)] * (self.ndim - used)
        axis = 0
        for i, entry in enumerate(entries):
            if entry is not None:
                entries[i] = self._entry(entry, axis)
                axis += 1
        return entries

    def _entry(self, entry: Any, axis: int) -> Any:
        size = self.shape[axis]
        if isinstance(entry, slice):
            if entry.step is not None and entry.step == 0:
                raise ArgumentError(
                    "getitem: the step of a slice is 0", self._made(), "Use a positive or negative one."
                )
            return entry
        if isinstance(entry, bool) or not hasattr(entry, "__index__"):
            raise ArgumentError(
                f"getitem: {entry!r} is no index, it is a {type(entry).__name__}",
                self._made(),
                "Use integers, slices, None and ... .",
            )
        position = entry.__index__()
        if not -size <= position < size:
            raise OutOfRangeError(
                f"getitem: {position} is outside axis {axis} of {spell_shape(self.shape)}",
                self._made(),
                f"Positions go from {-size} to {size - 1}." if size else "The axis is empty.",
            )
        return int(position % size)

    # ---- positions as values

    def gather(self, dim: int, index: Any) -> Self:
        """The elements at these positions of an axis, all other positions being the index's own.

        Negative positions count from the end. What lies outside gives NaN, in integers and bools 0.
        """
        axis = self._axis("gather", dim, scalars=False)
        places = self._operand("gather", index)
        places._require("gather", places.dtype.is_int, "positions are integers", "Cast the index.")
        self._one_device("gather", places)
        fits = places.ndim == self.ndim and all(
            i == axis or size <= mine for i, (size, mine) in enumerate(zip(places.shape, self.shape, strict=False))
        )
        if not fits:
            raise ShapeError(
                f"gather: an index {spell_shape(places.shape)} for {spell_shape(self.shape)} along axis {axis}",
                f"the tensor {self._made()}, the index {places._made()}",
                "It must have as many axes, and beside that axis no larger sizes.",
            )
        size, shape = self.shape[axis], places.shape
        signed = places.uop.cast(dtypes.weakint)
        wrapped = (signed < 0).where(signed + size, signed)
        inside = (wrapped >= 0) & (wrapped < size)
        positions = [wrapped if i == axis else _positions(shape, i) for i in range(self.ndim)]
        found = self.uop.index(*positions, gate=inside)
        return self._wrap(inside.where(found, math.nan) if self.dtype.is_float else found)

    def one_hot(self, num_classes: int) -> Self:
        """A new last axis with a 1 at the position that each element names, else 0."""
        self._require("one_hot", self.dtype.is_int, "classes are integers", "Cast it.")
        shape = (*self.shape, num_classes)
        classes = _positions(shape, self.ndim, dtypes.int64)
        named = self.uop.cast(dtypes.int64).reshape((*self.shape, 1)).expand(shape)
        dtype = dtypes.default_int
        return self._wrap(named.eq(classes).where(const(dtype, 1), const(dtype, 0)))

    def masked_fill(self, mask: Any, value: Any) -> Self:
        """`value` where the mask holds."""
        chosen = self._operand("masked_fill", mask)
        if not chosen.dtype.is_bool:
            raise DTypeError(
                f"masked_fill: the mask is {chosen.dtype.name}", chosen._made(), "Compare it with something."
            )
        return chosen.where(value, self)

    def _triangle(self, name: str, diagonal: int, lower: bool) -> Self:
        if self.ndim < 2:
            raise ShapeError(f"{name}: {spell_shape(self.shape)} has fewer than 2 axes", self._made(), "Use a matrix.")
        row = _positions(self.shape, self.ndim - 2, dtypes.int64) + diagonal
        column = _positions(self.shape, self.ndim - 1, dtypes.int64)
        return self._wrap((column <= row if lower else column >= row).where(self.uop, 0))

    def tril(self, diagonal: int = 0) -> Self:
        """The lower triangle of the last two axes, zeros above."""
        return self._triangle("tril", diagonal, lower=True)

    def triu(self, diagonal: int = 0) -> Self:
        """The upper triangle of the last two axes, zeros below."""
        return self._triangle("triu", diagonal, lower=False)


def _positions(shape: tuple[Any, ...], axis: int, dtype: Any = dtypes.weakint) -> UOp:
    """The position on one axis, at every element of a shape."""
    alone = tuple(size if i == axis else 1 for i, size in enumerate(shape))
    return UOp.arange(shape[axis], dtype).reshape(alone).expand(shape)


def _picked(node: UOp, entries: list[Any]) -> UOp:
    """The elements that checked entries name."""
    windows, flips, steps, shape = [], [], [], []
    sizes = iter(enumerate(node.shape))
    for entry in entries:
        if entry is None:
            shape.append(1)
            continue
        axis, size = next(sizes)
        if isinstance(entry, int):
            windows.append((entry, 1))
            steps.append((1, 1))
            continue
        if entry == slice(None):  # also where the size is symbolic
            windows.append((0, size))
            steps.append((size, 1))
            shape.append(size)
            continue
        positions = range(size)[entry]
        count, step = len(positions), abs(positions.step)
        low = min(positions[0], positions[-1]) if count else 0
        span = (count - 1) * step + 1 if count else 0
        windows.append((low, span))
        if positions.step < 0 and count > 1:
            flips.append(axis)
        steps.append((count, step if count > 1 else 1))
        shape.append(count)
    if any(window != (0, size) for window, size in zip(windows, node.shape, strict=True)):
        node = node.shrink(windows)
    if flips:
        node = node.flip(tuple(flips))
    node = _every(node, steps)
    return node if node.shape == tuple(shape) else node.reshape(tuple(shape))


def _every(node: UOp, steps: list[tuple[int, int]]) -> UOp:
    """(count, step) for each axis: its elements 0, step, 2*step ... The last piece is padded; that is never read."""
    if all(step == 1 for _, step in steps):
        return node
    node = node.pad([(0, count * step - size) for size, (count, step) in zip(node.shape, steps, strict=True)])
    node = node.reshape(tuple(part for pair in steps for part in pair))
    return node.shrink([(0, 1 if i % 2 else size) for i, size in enumerate(node.shape)])
