"""Elements chosen by positions or masks: gather and its relatives, nonzero, searchsorted, diagonals and triangles.

Positions count from either end. Given as lists or arrays they are checked at the call. Those of tensors are data: what
lies outside reads as NaN (0 in integers), or raises under CHECK_INDEX=1, which computes them at the call.
"""

from __future__ import annotations

from typing import Any, Self

from whit.config import CHECK_INDEX
from whit.dtype import DType, dtypes, least_upper_dtype, resolve_weak
from whit.errors import ArgumentError, DTypeError, OutOfRangeError, ShapeError
from whit.ir.op import Shape, spell_shape
from whit.ir.uop import UOp, const
from whit.tensor.build import fitting
from whit.tensor.core import Core, broadcast_scalar, either, expand_to, join_shapes, whole, whole_or_symbolic
from whit.tensor.engine import from_numpy, item, realize
from whit.tensor.graphs.positions import (
    Places,
    compacted,
    counting_dtype,
    moved_axes,
    nonzero_places,
    places_of,
    positions_along,
    taken,
)
from whit.tensor.methods.readings import note_single
from whit.tensor.topic import Topic


class Selection(Topic):
    """Reading by position."""

    __slots__ = ()

    # ---- positions

    def _places(self, name: str, index: Any, axis: int, size: Any = None) -> tuple[Places, Shape]:
        """Positions on an axis from a tensor, a list or an array, and their shape."""
        size = self.shape[axis] if size is None else size
        if not isinstance(index, Core):
            return self._known_places(name, index, axis, size)
        index._require(name, index.dtype.is_int, "positions are integers", "Cast the index.")
        self._one_device(name, index)
        if CHECK_INDEX:
            self._known_places(name, index.numpy(), axis, size)  # type: ignore[attr-defined]
        return places_of(index.uop, size), index.shape

    def _known_places(self, name: str, index: Any, axis: int, size: Any) -> tuple[Places, Shape]:
        """The same of values that are known now: they are checked, and those from the end counted from the start."""
        import numpy as np  # lazy: `import whit` must not load it

        array = np.asarray(index)
        if array.size == 0 and not isinstance(index, np.ndarray):
            array = array.astype(np.int64)
        if array.dtype.kind not in "iu":
            raise ArgumentError(f"{name}: positions are integers, not {array.dtype}", self._made(), "Cast the index.")
        if not isinstance(size, int):
            return places_of(self._array(array), size), array.shape
        outside = (array >= size) | (array < -size)
        if outside.any():
            raise OutOfRangeError(
                f"{name}: {int(array[outside][0])} is outside axis {axis} of {spell_shape(self.shape)}",
                self._made(),
                f"Positions go from {-size} to {size - 1}." if size else "The axis is empty.",
            )
        narrow = np.int32 if size <= 2**31 else np.int64
        wide = array.astype(np.int64)
        return Places(self._array(np.where(wide < 0, wide + size, wide).astype(narrow))), array.shape

    def _array(self, array: Any) -> UOp:
        return from_numpy(array, self.uop.device or self._wanted)

    def _mask(self, name: str, mask: Any) -> Core:
        """A tensor of bools."""
        chosen = self._operand(name, mask)
        if not chosen.dtype.is_bool:
            raise DTypeError(f"{name}: the mask is {chosen.dtype.name}", chosen._made(), "Compare it with something.")
        self._one_device(name, chosen)
        return chosen

    # ---- along an axis

    def _beside(self, name: str, axis: int, shape: Shape, made: str) -> None:
        """An index must have as many axes, and beside one of them no larger sizes."""
        pairs = enumerate(zip(shape, self.shape, strict=False))
        if len(shape) != self.ndim or any(i != axis and size > mine for i, (size, mine) in pairs):
            raise ShapeError(
                f"{name}: an index {spell_shape(shape)} for {spell_shape(self.shape)} along axis {axis}",
                f"the tensor {self._made()}, the index {made}",
                "It must have as many axes, and beside that axis no larger sizes.",
            )

    def gather(self, dim: int, index: Any) -> Self:
        """The elements at these positions of an axis, all other positions being the index's own."""
        axis = self._axis("gather", dim, scalars=False)
        places, shape = self._places("gather", index, axis)
        self._beside("gather", axis, shape, index._made() if isinstance(index, Core) else "given here")
        return self._wrap(taken(self.uop, _with_own(places.node, shape, axis), places.gate))

    def take_along_axis(self, indices: Any, axis: int | None = -1, dim: int | None = None) -> Self:
        """`gather`, where sizes beside the axis broadcast. axis=None: of the flattened tensor."""
        chosen = either("take_along_axis", None if axis == -1 else axis, dim) if dim is not None else axis
        if chosen is None:
            return self.flatten().take_along_axis(indices, 0)
        place = self._axis("take_along_axis", chosen, scalars=False)
        places, shape = self._places("take_along_axis", indices, place)
        both = None
        if len(shape) == self.ndim:
            both = join_shapes(_without(shape, place), _without(self.shape, place))
        if both is None:
            raise ShapeError(
                f"take_along_axis: an index {spell_shape(shape)} for {spell_shape(self.shape)} along axis {place}",
                self._made(),
                "It must have as many axes, and beside that axis sizes that broadcast.",
            )
        full = (*both[:place], shape[place], *both[place:])
        source = expand_to(self.uop, (*both[:place], self.shape[place], *both[place:]))
        gate = None if places.gate is None else expand_to(places.gate, full)
        return self._wrap(taken(source, _with_own(expand_to(places.node, full), full, place), gate))

    def take(self, indices: Any, axis: int | None = None, dim: int | None = None) -> Self:
        """The elements at these positions of an axis, or of the flattened tensor: their shape replaces the axis."""
        chosen = either("take", axis, dim)
        if chosen is None:
            return self.flatten().take(indices, 0)
        place = self._axis("take", chosen, scalars=False)
        places, shape = self._places("take", indices, place)
        first = moved_axes(self.uop, [place, *(i for i in range(self.ndim) if i != place)])
        found = taken(first, (places.node,), places.gate)
        count = len(shape)
        order = [*range(count, count + place), *range(count), *range(count + place, len(found.shape))]
        return self._wrap(moved_axes(found, order))

    def index_select(self, dim: int, index: Any) -> Self:
        """The slices at these positions of an axis, the index being one row of them."""
        shape = index.shape if isinstance(index, Core) else (len(index) if hasattr(index, "__len__") else 1,)
        index = [index] if hasattr(index, "__index__") and not isinstance(index, Core) else index
        if len(shape) > 1:
            raise ShapeError(
                f"index_select: the index has shape {spell_shape(shape)}", self._made(), "Use one row, or take()."
            )
        return self.take(index if shape else index.reshape(1), axis=dim)

    # ---- masks

    def masked_fill(self, mask: Any, value: Any) -> Self:
        """`value` where the mask holds."""
        if self.dtype.is_bool and isinstance(value, int | float):
            value = bool(value)
        return self._mask("masked_fill", mask).where(value, self)  # type: ignore[attr-defined,no-any-return]

    def masked_select(self, mask: Any, size: int | None = None, fill_value: Any = 0) -> Self:
        """The elements where the mask holds, in one row. Its length is data: it is computed at once, unless `size` says
        how long the row shall be. What is missing then is `fill_value`, what is too much is left out."""
        chosen = self._mask("masked_select", mask)
        shape = join_shapes(self.shape, chosen.shape)
        if shape is None:
            raise ShapeError(
                f"masked_select: shapes {spell_shape(self.shape)} and {spell_shape(chosen.shape)} do not broadcast",
                f"the tensor {self._made()}, the mask {chosen._made()}",
                "Use a mask of the tensor's shape.",
            )
        keep = _all_of(chosen.uop, shape)
        count = self._counted("masked_select", self._wrap(keep), size)
        fill = fitting("masked_select", fill_value, self.dtype)
        return self._wrap(compacted(_all_of(self.uop, shape), keep, count, fill))

    def nonzero(self, size: int | None = None, fill_value: int = 0) -> Self:
        """The positions of what is not zero, a row of coordinates each, in row-major order. Their number is data: it is
        computed at once, unless `size` says how many rows there shall be; rows that are too many are `fill_value`."""
        mask = self._wrap(self.uop.cast(dtypes.bool))
        count = self._counted("nonzero", mask, size)
        dtype = dtypes.default_int
        if not self.shape or not count:
            return self._wrap(broadcast_scalar(const(dtype, 0), (count, self.ndim)))
        columns = [place.cast(dtype) for place in nonzero_places(mask.uop, count)]
        found = UOp.stack(*columns).permute((1, 0))
        if size is None:
            result = self._wrap(found)
            return note_single("nonzero", result, result.shape, "For a tensor of each axis, as in NumPy, use .T of it.")
        total = mask.sum().uop
        there = positions_along(found.shape, 0, total.dtype) < total
        return self._wrap(there.where(found, const(dtype, fill_value)))

    def _counted(self, name: str, mask: Any, size: int | None) -> int:
        """How many elements of a mask hold; computed, unless it is said."""
        if size is not None:
            if whole(name, "size", size, self._made()) < 0:
                raise ArgumentError(f"{name}: size={size}", self._made(), "Sizes are zero or more.")
            return size
        total = mask.sum()
        # The mask and the tensor are kept, too: a loop would compute all of its past again in every turn. (Values of
        # constants have no device and are never kept.)
        count, *_ = realize(
            [total.uop, *(node for node in (mask.uop, self.uop) if node.device is not None)], self._wanted
        )
        return int(item(count))

    # ---- sorted data

    def searchsorted(self, values: Any, side: str = "left", right: bool = False, out_dtype: Any = None) -> Self:
        """Where values would have to be put into this sorted row for it to stay sorted: before ("left") or after equal
        ones. Rows of several axes are searched one by one, each with its own values. NaN is larger than all numbers."""
        if side not in ("left", "right"):
            raise ArgumentError(f"searchsorted: there is no side {side!r}", self._made(), 'Use "left" or "right".')
        if not self.shape:
            raise ShapeError("searchsorted: a tensor of shape () is no row", self._made(), "Use one axis or more.")
        if isinstance(values, bool | int | float | complex):
            values = type(self)(values, device=self.uop.device or self._wanted)
        sought = self._operand("searchsorted", values)
        self._one_device("searchsorted", sought)
        if self.ndim > 1 and (sought.ndim != self.ndim or sought.shape[:-1] != self.shape[:-1]):
            raise ShapeError(
                f"searchsorted: values {spell_shape(sought.shape)} for rows {spell_shape(self.shape)}",
                f"the rows {self._made()}, the values {sought._made()}",
                "All axes but the last must be equal.",
            )
        common = resolve_weak(least_upper_dtype(self.dtype, sought.dtype))
        rows, value = self.uop.cast(common), sought.uop.cast(common)
        own = tuple(positions_along(value.shape, axis) for axis in range(self.ndim - 1))
        size = self.shape[-1]
        place = broadcast_scalar(const(counting_dtype(size), 0), value.shape)
        for step in _powers(size):
            probe = place + step
            inside = probe <= size
            found = rows.index(*own, probe - 1, gate=inside)
            before = _less(found, value) if side == "left" and not right else ~_less(value, found)
            place = (inside & before).where(probe, place)
        return self._wrap(place.cast(dtypes.default_int if out_dtype is None else out_dtype))

    # ---- diagonals and triangles

    def diagonal(self, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Self:
        """The elements (i, i + offset) of two axes, as a last axis: a view."""
        first, second = self._axis("diagonal", dim1, False), self._axis("diagonal", dim2, False)
        if first == second:
            raise ArgumentError(f"diagonal: both axes are {first}", self._made(), "Name two axes.")
        offset = whole("diagonal", "offset", offset, self._made())
        rest = [axis for axis in range(self.ndim) if axis not in (first, second)]
        node = moved_axes(self.uop, [*rest, first, second])
        lead = node.shape[:-2]
        rows, columns = node.shape[-2:]
        size = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
        window = [(max(-offset, 0), size), (max(offset, 0), size)] if size else [(0, 0), (0, 0)]
        square = node.shrink([*((0, n) for n in lead), *window])
        # Rows that are longer by one: the diagonal is the first column.
        row = square.reshape((*lead, size * size)).pad([*((0, 0) for _ in lead), (0, size)])
        first_column = row.reshape((*lead, size, size + 1)).shrink([*((0, n) for n in (*lead, size)), (0, 1)])
        return self._view(first_column.reshape((*lead, size)))

    def diag(self, diagonal: int = 0) -> Self:
        """Of a matrix its diagonal; of a row the matrix with it on the diagonal, and zeros elsewhere."""
        if self.ndim == 2:
            return self._wrap(self.diagonal(diagonal).uop)
        if self.ndim != 1:
            raise ShapeError(
                f"diag: {spell_shape(self.shape)} is no row and no matrix", self._made(), "Use diagonal()."
            )
        diagonal = whole("diag", "diagonal", diagonal, self._made())
        size = self.shape[0]
        # A first column in rows that are longer by one is the diagonal of a square.
        grid = self.uop.reshape((size, 1)).pad([(0, 0), (0, size)]).reshape((size * (size + 1),))
        square = grid.shrink([(0, size * size)]).reshape((size, size))
        around = (max(-diagonal, 0), max(diagonal, 0))
        return self._wrap(square.pad([around, around[::-1]]) if diagonal else square)

    def trace(self, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Self:
        """The sum of a diagonal."""
        return self.diagonal(offset, dim1, dim2).sum(-1)

    def _triangle(self, name: str, diagonal: int, lower: bool) -> Self:
        if self.ndim < 2:
            raise ShapeError(f"{name}: {spell_shape(self.shape)} has fewer than 2 axes", self._made(), "Use a matrix.")
        offset = whole_or_symbolic(name, "diagonal", diagonal, self._made())
        farthest = (*self.shape[-2:], offset)
        is_known = all(isinstance(size, int) for size in farthest)
        dtype = counting_dtype(sum(map(abs, farthest))) if is_known else dtypes.int64
        row = positions_along(self.shape, self.ndim - 2, dtype)
        row = row + (offset.cast(dtype) if isinstance(offset, UOp) else offset)
        column = positions_along(self.shape, self.ndim - 1, dtype)
        return self._wrap((column <= row if lower else column >= row).where(self.uop, 0))

    def tril(self, diagonal: int = 0) -> Self:
        """The lower triangle of the last two axes, zeros above."""
        return self._triangle("tril", diagonal, lower=True)

    def triu(self, diagonal: int = 0) -> Self:
        """The upper triangle of the last two axes, zeros below."""
        return self._triangle("triu", diagonal, lower=False)

    def one_hot(self, num_classes: int) -> Self:
        """A new last axis with a 1 at the position that each element names, else 0."""
        self._require("one_hot", self.dtype.is_int, "classes are integers", "Cast it.")
        if whole("one_hot", "num_classes", num_classes, self._made()) < 0:
            raise ShapeError(f"one_hot: {num_classes} classes", self._made(), "Ask for zero or more.")
        shape = (*self.shape, num_classes)
        classes = positions_along(shape, self.ndim, dtypes.int64)
        named = self.uop.cast(dtypes.int64).reshape((*self.shape, 1)).expand(shape)
        dtype: DType = dtypes.default_int
        return self._wrap(named.eq(classes).where(const(dtype, 1), const(dtype, 0)))


def _with_own(node: UOp, shape: Shape, axis: int) -> tuple[UOp, ...]:
    """Positions on every axis: given ones on one, each element's own on the others."""
    return tuple(node if i == axis else positions_along(shape, i) for i in range(len(shape)))


def _without(shape: Shape, axis: int) -> Shape:
    return shape[:axis] + shape[axis + 1 :]


def _all_of(node: UOp, shape: Shape) -> UOp:
    return expand_to(node, shape) if node.shape else broadcast_scalar(node, shape)


def _powers(size: int) -> list[int]:
    """The powers of two up to a size, largest first."""
    return [1 << bit for bit in reversed(range(size.bit_length()))]


def _less(x: UOp, y: UOp) -> UOp:
    """x < y, where NaN is larger than everything else."""
    return (x < y) | (y.ne(y) & x.eq(x)) if x.dtype.is_float else x < y
