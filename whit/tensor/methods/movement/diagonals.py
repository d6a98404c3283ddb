"""Diagonals, slices and positions put into another tensor: copies with a part replaced."""

from __future__ import annotations

from typing import Any, Self

from whit.dtype import dtypes
from whit.errors import ArgumentError, ShapeError
from whit.ir.op import spell_shape
from whit.tensor.core import whole
from whit.tensor.graphs.positions import moved_axes, positions_along
from whit.tensor.topic import Topic


class Diagonals(Topic):
    """Matrices of diagonals, and what PyTorch calls scatter of views."""

    __slots__ = ()

    def diag_embed(self, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Self:
        """The last axis as the diagonal of two new ones, zeros elsewhere."""
        if not self.ndim:
            raise ShapeError("diag_embed: a tensor of shape () has no axis", self._made(), "Use one axis or more.")
        offset = whole("diag_embed", "offset", offset, self._made())
        rank = self.ndim + 1
        first, second = (self._axis_of_result("diag_embed", dim, rank) for dim in (dim1, dim2))
        if first == second:
            raise ArgumentError(f"diag_embed: both axes are {first}", self._made(), "Name two axes.")
        *lead, size = self.shape
        # A first column in rows that are longer by one is the diagonal of a square.
        before = [(0, 0)] * len(lead)
        grid = self.uop.reshape((*lead, size, 1)).pad([*before, (0, 0), (0, size)])
        flat = grid.reshape((*lead, size * (size + 1))).shrink([*((0, n) for n in lead), (0, size * size)])
        around = (max(-offset, 0), max(offset, 0))
        square = flat.reshape((*lead, size, size)).pad([*before, around, around[::-1]])
        order = [axis for axis in range(rank) if axis not in (first, second)]
        source = dict(zip([*order, first, second], range(rank), strict=True))
        return self._wrap(moved_axes(square, [source[axis] for axis in range(rank)]))

    def _axis_of_result(self, name: str, dim: int, rank: int) -> int:
        """An axis of a result of that many."""
        axis = whole(name, "dim", dim, self._made())
        if not -rank <= axis < rank:
            raise ArgumentError(f"{name}: there is no axis {axis} among {rank}", self._made(), "Count from either end.")
        return axis % rank

    def diagflat(self, offset: int = 0) -> Self:
        """A square matrix with all elements on its diagonal, zeros elsewhere."""
        return self.flatten().diag_embed(offset)

    def diagonal_scatter(self, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Self:
        """A copy with src as a diagonal."""
        return self._with_part("diagonal_scatter", lambda x: x.diagonal(offset, dim1, dim2), src)

    def select_scatter(self, src: Any, dim: int, index: int) -> Self:
        """A copy with src at one position of an axis."""
        return self._with_part("select_scatter", lambda x: x.select(dim, index), src)

    def slice_scatter(
        self, src: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
    ) -> Self:
        """A copy with src as a slice of an axis."""
        axis = self._axis("slice_scatter", dim, scalars=False)
        index = (slice(None),) * axis + (slice(start, end, step),)
        return self._with_part("slice_scatter", lambda x: x[index], src)

    def _with_part(self, name: str, part_of: Any, src: Any) -> Self:
        """A copy of which a view was written to."""
        copy = self._wrap(self.uop)
        view = part_of(copy)
        value = self._operand(name, src)
        if value.shape != view.shape:
            raise ShapeError(
                f"{name}: values {spell_shape(value.shape)} for a part of shape {spell_shape(view.shape)}",
                f"the tensor {self._made()}, the values {value._made()}",
                "The shapes must be equal.",
            )
        view[...] = value
        return copy

    def _with_diagonal(self, fill_value: Any, wrap: bool = False) -> Self:
        """The value of `fill_diagonal_`: one number where all positions are equal; tall matrices may begin again."""
        if self.ndim < 2 or (self.ndim > 2 and len(set(self.shape)) != 1):
            raise ShapeError(
                f"fill_diagonal_: {spell_shape(self.shape)}", self._made(), "Use a matrix, or axes of one size."
            )
        shape, small = self.shape, dtypes.int32
        row, second = positions_along(shape, 0, small), positions_along(shape, 1, small)
        is_there = (row % (shape[1] + 1) if wrap and self.ndim == 2 else row).eq(second)
        for axis in range(2, self.ndim):
            is_there = is_there & row.eq(positions_along(shape, axis, small))
        value = bool(fill_value) if self.dtype.is_bool else fill_value
        return self._wrap(is_there).where(value, self)
