"""Axes in other arrangements: formulas of names, rolling, repeating, windows, grids: all movement."""

from __future__ import annotations

from itertools import chain
from math import prod
from typing import Any, Self

from whit.dtype import dtypes
from whit.errors import ArgumentError, ShapeError
from whit.ir.op import spell_shape, spell_size
from whit.ir.sizes import quotient
from whit.ir.uop import UOp
from whit.tensor.core import Core, either, whole, whole_or_symbolic
from whit.tensor.graphs.convolution.sliding import taken, window
from whit.tensor.graphs.rearrange import Group, parse_formula
from whit.tensor.methods.movement.views import listed
from whit.tensor.topic import Topic


class Arrangement(Topic):
    """What is not a single movement op."""

    __slots__ = ()

    # ---- other names and orders

    def ravel(self) -> Self:
        """All elements in one axis."""
        return self.reshape((-1,)) if self.numel() else self.reshape((0,))

    def broadcast_to(self, shape: Any, *args: Any) -> Self:
        """The same as `expand`."""
        return self.expand(shape, *args)

    def swapaxes(self, axis0: int, axis1: int) -> Self:
        """The same as `transpose`."""
        return self.transpose(axis0, axis1)

    def moveaxis(self, source: Any, destination: Any) -> Self:
        """Some axes at other places; the others keep their order."""
        old, new = (listed(axes, ()) for axes in (source, destination))
        if len(old) != len(new):
            raise ArgumentError(
                f"moveaxis: {len(old)} axes to {len(new)} places", self._made(), "Give one place for each axis."
            )
        sources, places = ([self._axis("moveaxis", axis) for axis in axes] for axes in (old, new))
        self._axes("moveaxis", old), self._axes("moveaxis", new)  # each named once
        order: list[int] = [axis for axis in range(self.ndim) if axis not in sources]
        for place, axis in sorted(zip(places, sources, strict=True)):
            order.insert(place, axis)
        return self.permute(tuple(order))

    def movedim(self, source: Any, destination: Any) -> Self:
        """The same as `moveaxis`."""
        return self.moveaxis(source, destination)

    def rot90(self, k: int = 1, dims: tuple[int, int] = (0, 1)) -> Self:
        """A quarter turn k times, from the first of two axes to the second."""
        axes = self._axes("rot90", tuple(dims))
        if len(axes) != 2 or self.ndim < 2:
            raise ArgumentError(f"rot90: {dims!r} are not two axes", self._made(), "Name two different axes.")
        first, second = (self._axis("rot90", axis) for axis in dims)
        turns = k % 4
        if turns == 2:
            return self.flip(first, second)
        if not turns:
            return self
        return self.flip(second).transpose(first, second) if turns == 1 else self.transpose(first, second).flip(second)

    def unbind(self, dim: int = 0, axis: int | None = None) -> tuple[Self, ...]:
        """The slices along an axis, without it."""
        place = self._axis("unbind", dim if axis is None else axis, scalars=False)
        rest = self.shape[:place] + self.shape[place + 1 :]
        return tuple(piece.reshape(rest) for piece in self.split([1] * self.shape[place], place))

    def rearrange(self, formula: str, **sizes: int) -> Self:
        """Axes split, ordered and joined by a formula of names: "b (h w) c -> b c h w", h=4."""
        left, right = parse_formula(formula, self.ndim, self._made())
        lengths = self._lengths(formula, left, sizes)
        names, order = (list(chain.from_iterable(side)) for side in (left, right))
        x = self.reshape(tuple(lengths[name] for name in names))
        x = x.permute(tuple(names.index(name) for name in order))
        return x.reshape(tuple(prod(lengths[name] for name in group) for group in right))

    def _lengths(self, formula: str, left: list[Group], sizes: dict[str, int]) -> dict[str, Any]:
        """The size of each name, worked out from the shape and the sizes given."""
        known: dict[str, Any] = {}
        for name, size in sizes.items():
            if not any(name in group for group in left):
                raise ArgumentError(
                    f"rearrange: {name}={size} is no axis on the left of {formula!r}", self._made(), "Leave it out."
                )
        for group, total in zip(left, self.shape, strict=True):
            open_names = [name for name in group if name not in sizes]
            rest = prod(sizes[name] for name in group if name in sizes)
            remaining = quotient(total, rest) if open_names else None
            fits = total == rest if not open_names else remaining is not None
            if len(open_names) > 1 or not fits:
                raise ShapeError(
                    f"rearrange: ({' '.join(group)}) for an axis of size {spell_size(total)} in {formula!r}",
                    self._made(),
                    "The sizes must multiply to that of the axis, and all but one must be given.",
                )
            known |= {name: sizes[name] for name in group if name in sizes}
            known |= dict.fromkeys(open_names, remaining)
        return known

    # ---- repeated and rolled

    def tile(self, repeats: Any, *args: Any) -> Self:
        """`repeat` as NumPy has it: fewer numbers than axes are for the last ones."""
        counts = listed(repeats, args)
        return self.repeat((1,) * (self.ndim - len(counts)) + counts)

    def repeat_interleave(self, repeats: Any, dim: int | None = None, axis: int | None = None) -> Self:
        """Each element several times in a row; of a flat copy if no axis is named. A list has a number for each.

        Numbers in a tensor are read when this is called, because they decide the shape.
        """
        named = either("repeat_interleave", axis, dim)
        if named is None:
            return self.ravel().repeat_interleave(repeats, 0)
        axis = self._axis("repeat_interleave", named, scalars=False)
        if isinstance(repeats, Core):
            repeats = repeats.tolist()  # type: ignore[attr-defined]
        size, shape = self.shape[axis], self.shape
        counts = list(repeats) if isinstance(repeats, tuple | list) else [repeats]
        if len(counts) not in (1, size) or any(not isinstance(count, int) or count < 0 for count in counts):
            raise ArgumentError(
                f"repeat_interleave: repeats {counts} for axis {axis} of {spell_shape(shape)}",
                self._made(),
                "Give one number of at least 0, or one for each position.",
            )
        if len(counts) == 1:
            x = self.uop.reshape((*shape[: axis + 1], 1, *shape[axis + 1 :]))
            x = x.expand((*shape[: axis + 1], counts[0], *shape[axis + 1 :]))
            return self._wrap(x.reshape((*shape[:axis], size * counts[0], *shape[axis + 1 :])))
        places = [place for place, count in enumerate(counts) for _ in range(count)]
        if not places:
            return self.shrink([(0, 0) if i == axis else None for i in range(self.ndim)])
        index = type(self)(places, device=self.device, dtype=dtypes.int32)
        return self._wrap(taken(self.uop, axis, index.uop.cast(dtypes.weakint)))

    def roll(self, shifts: Any, dims: Any = None, axis: Any = None) -> Self:
        """Elements moved along axes; what leaves at the end comes back at the start."""
        dims = either("roll", axis, dims)
        if dims is None:
            return self.ravel().roll(shifts, 0).reshape(self.shape)
        axes = [self._axis("roll", axis, scalars=False) for axis in listed(dims, ())]
        steps = tuple(whole_or_symbolic("roll", "shift", shift, self._made()) for shift in listed(shifts, ()))
        steps = steps * len(axes) if len(steps) == 1 else steps
        if len(steps) != len(axes):
            raise ArgumentError(
                f"roll: {len(steps)} shifts for {len(axes)} axes", self._made(), "Give one shift for each axis."
            )
        x = self.uop
        for place, step in zip(axes, steps, strict=True):
            x = _rolled(x, place, step)
        return self._wrap(x)

    def unfold(self, dim: int, size: int, step: int) -> Self:
        """All windows of `size` elements along an axis, `step` apart, in a new last axis."""
        axis = self._axis("unfold", dim, scalars=False)
        size, step = (whole("unfold", what, given, self._made()) for what, given in (("size", size), ("step", step)))
        if not 1 <= size <= self.shape[axis] or step < 1:
            raise ShapeError(
                f"unfold: windows of {size}, {step} apart, on axis {axis} of {spell_shape(self.shape)}",
                self._made(),
                "A window has at least 1 element and fits the axis; the step is at least 1.",
            )
        x = window(self.uop, axis, size, step, 1)
        last = [i for i in range(len(x.shape)) if i != axis + 1]
        return self._wrap(x.permute((*last, axis + 1)))

    # ---- grids

    def meshgrid(self, *others: Any, indexing: str = "ij") -> tuple[Self, ...]:
        """Vectors spread over the grid that they span: one tensor each. "xy" exchanges the first two axes."""
        if indexing not in ("ij", "xy"):
            raise ArgumentError(f"meshgrid: there is no indexing {indexing!r}", self._made(), 'Use "ij" or "xy".')
        vectors = [self, *(self._operand("meshgrid", other) for other in others)]
        self._one_device("meshgrid", *vectors)
        for vector in vectors:
            if vector.ndim > 1:
                raise ShapeError(
                    f"meshgrid: {spell_shape(vector.shape)} is no vector", vector._made(), "Use ravel() first."
                )
        shape = tuple(vector.numel() for vector in vectors)
        grids = []
        for place, vector in enumerate(vectors):
            alone = tuple(size if i == place else 1 for i, size in enumerate(shape))
            grid = vector.reshape(alone).expand(shape)
            grids.append(grid.transpose(0, 1) if indexing == "xy" and len(shape) > 1 else grid)
        return tuple(grids)


def _rolled(x: UOp, axis: int, step: Any) -> UOp:
    """A window of two copies laid end to end."""
    shape, n = x.shape, x.shape[axis]
    if isinstance(n, int) and (n == 0 or (isinstance(step, int) and step % n == 0)):
        return x
    start = -step % n
    x = x.reshape((*shape[:axis], 1, *shape[axis:])).expand((*shape[:axis], 2, *shape[axis:]))
    x = x.reshape((*shape[:axis], 2 * n, *shape[axis + 1 :]))
    return x.shrink([(start, n) if i == axis else (0, size) for i, size in enumerate(shape)])
