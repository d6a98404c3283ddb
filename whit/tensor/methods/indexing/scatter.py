"""Values put at positions: scatter and its relatives, and counting.

Each is one STORE with a combining op: work and memory go with the values and the target, whatever the range of the
positions. Where several values meet without a combining op, the last one in row-major order stays. Positions follow the
rules of `gather`; values at positions outside go nowhere.
"""

from __future__ import annotations

import math
from typing import Any, Self

from whit.dtype import DType, convert, dtypes, least_upper_float
from whit.errors import ArgumentError, DTypeError, OutOfRangeError, ShapeError
from whit.ir import ops
from whit.ir.op import Op, spell_shape
from whit.ir.uop import UOp, const
from whit.tensor.build import fitting
from whit.tensor.core import Core, broadcast_scalar, whole
from whit.tensor.graphs.positions import both, moved_axes, positions_along
from whit.tensor.methods.data.assign import fitted
from whit.tensor.methods.indexing.select import Selection

_COMBINE = {"sum": ops.ADD, "prod": ops.MUL, "amax": ops.MAX, "amin": ops.MIN, "mean": ops.ADD}
_ON_BOOLS = {ops.ADD: ops.OR, ops.MUL: ops.AND, ops.MAX: ops.OR, ops.MIN: ops.AND}


class Scattering(Selection):
    """Writing by position, mostly into a copy."""

    __slots__ = ()

    def _scattering(self, name: str, dim: int, index: Any, src: Any) -> tuple[UOp, tuple[UOp, ...], UOp | None]:
        """The values of a scatter, a position on every axis for each of them, and which of these are inside."""
        axis = self._axis(name, dim, scalars=False)
        places, shape = self._places(name, index, axis)
        made = index._made() if isinstance(index, Core) else "given here"
        self._beside(name, axis, shape, made)
        positions = tuple(places.node if i == axis else positions_along(shape, i) for i in range(self.ndim))
        if isinstance(src, bool | int | float | complex):
            return broadcast_scalar(fitting(name, src, self.dtype), shape), positions, places.gate
        values = self._operand(name, src)
        self._one_device(name, values)
        self._same_dtype(name, values)
        if values.ndim != self.ndim or any(size > mine for size, mine in zip(shape, values.shape, strict=True)):
            raise ShapeError(
                f"{name}: values {spell_shape(values.shape)} for an index {spell_shape(shape)}",
                f"the values {values._made()}, the index {made}",
                "There must be a value for each position.",
            )
        node = values.uop if values.shape == shape else values.uop.shrink([(0, size) for size in shape])
        return node, positions, places.gate

    def _same_dtype(self, name: str, values: Core) -> None:
        if values.dtype is not self.dtype:
            raise DTypeError(
                f"{name}: values are {values.dtype.name}, and the tensor is {self.dtype.name}",
                f"the tensor {self._made()}, the values {values._made()}",
                "Cast one of them.",
            )

    def _stored(
        self, base: UOp, values: UOp, positions: tuple[UOp, ...], gate: UOp | None, combine: Op | None = None
    ) -> UOp:
        """A base with values stored into it."""
        if combine is not None and base.dtype.is_bool:
            combine = _ON_BOOLS[combine]
        return base.after(base.store(values, *positions, combine=combine, gate=gate))

    def scatter(self, dim: int, index: Any, src: Any, reduce: str | None = None) -> Self:
        """A copy with src at these positions of an axis, all other positions being the index's own.

        reduce="add" or "multiply": combined with what is there.
        """
        combines = {None: None, "add": ops.ADD, "multiply": ops.MUL}
        if reduce not in combines:
            raise ArgumentError(
                f"scatter: there is no reduce={reduce!r}", self._made(), 'Use "add", "multiply", or scatter_reduce().'
            )
        values, positions, gate = self._scattering("scatter", dim, index, src)
        return self._wrap(self._stored(self.uop, values, positions, gate, combines[reduce]))

    def scatter_add(self, dim: int, index: Any, src: Any) -> Self:
        """`scatter` with reduce="add"."""
        return self.scatter(dim, index, src, reduce="add")

    def scatter_reduce(self, dim: int, index: Any, src: Any, reduce: str, include_self: bool = True) -> Self:
        """A copy with the sum, product, mean, largest ("amax") or smallest ("amin") of the values for each position,
        and of what is there already (include_self). Where there is no value, everything stays."""
        if reduce not in _COMBINE:
            raise ArgumentError(
                f"scatter_reduce: there is no reduce={reduce!r}", self._made(), f"Use one of {', '.join(_COMBINE)}."
            )
        values, positions, gate = self._scattering("scatter_reduce", dim, index, src)
        combine = _COMBINE[reduce]
        base = self.uop
        if not include_self:
            never = broadcast_scalar(const(dtypes.bool, False), self.shape)
            hit = self._stored(never, broadcast_scalar(const(dtypes.bool, True), values.shape), positions, gate)
            base = hit.where(_identity(combine, self.dtype), base)
        result = self._stored(base, values, positions, gate, combine)
        if reduce == "mean":
            counted = broadcast_scalar(const(dtypes.int32, 1 if include_self else 0), self.shape)
            ones = broadcast_scalar(const(dtypes.int32, 1), values.shape)
            number = self._stored(counted, ones, positions, gate, ops.ADD).maximum(1).cast(self.dtype)
            result = result / number if self.dtype.is_float else result // number
        return self._wrap(result)

    def index_add(self, dim: int, index: Any, source: Any, alpha: Any = 1) -> Self:
        """A copy with the slices of source, times alpha, added at these positions of an axis."""
        axis = self._axis("index_add", dim, scalars=False)
        places, shape = self._places("index_add", index, axis)
        values = self._operand("index_add", source)
        self._one_device("index_add", values)
        self._same_dtype("index_add", values)
        wanted = (*self.shape[:axis], *shape, *self.shape[axis + 1 :])
        if len(shape) != 1 or values.shape != wanted:
            raise ShapeError(
                f"index_add: slices {spell_shape(values.shape)} at positions {spell_shape(shape)} of axis {axis} "
                f"of {spell_shape(self.shape)}",
                f"the tensor {self._made()}, the slices {values._made()}",
                f"Positions are one row, and slices have shape {spell_shape(wanted)}.",
            )
        order = [axis, *(i for i in range(self.ndim) if i != axis)]
        node = values.uop if alpha == 1 else (values * alpha).uop
        target, combine = moved_axes(self.uop, order), ops.OR if self.dtype.is_bool else ops.ADD
        effect = target.store(moved_axes(node, order), places.node, combine=combine, gate=places.gate)
        return self._wrap(self.uop.after(effect))

    def put_along_axis(self, indices: Any, values: Any, axis: int) -> None:
        """Writes values into this tensor at these positions of an axis, as NumPy's function of the name does."""
        place = self._axis("put_along_axis", axis, scalars=False)
        places, shape = self._places("put_along_axis", indices, place)
        self._beside("put_along_axis", place, shape, "given here")
        node = self._value_to_write("put_along_axis", values).cast(self.dtype)
        positions = tuple(places.node if i == place else positions_along(shape, i) for i in range(self.ndim))
        value = fitted("put_along_axis", self, node, shape)
        self._write("put_along_axis", self.uop, value, positions, gate=places.gate)

    # ---- counting

    def bincount(self, weights: Any = None, minlength: int = 0) -> Self:
        """How often each of 0, 1, 2 ... occurs, or the sum of their weights. The length is data, one more than the
        largest value: it is computed at once."""
        self._require("bincount", self.dtype.is_int, "only integers can be counted", "Cast it.")
        if self.ndim != 1:
            raise ShapeError(f"bincount: {spell_shape(self.shape)} is no row", self._made(), "Flatten it.")
        given = self._element_weights("bincount", weights)
        size = whole("bincount", "minlength", minlength, self._made())
        if self.shape[0]:
            low, high = int(self.min().item()), int(self.max().item())
            if low < 0:
                raise OutOfRangeError(f"bincount: {low} is negative", self._made(), "Count from 0.")
            size = max(size, high + 1)
        return self._count(self.uop, size, given, None)

    def _element_weights(self, name: str, weights: Any) -> Self | None:
        """A weight for each element, checked."""
        if weights is None:
            return None
        given = self._operand(name, weights)
        self._one_device(name, given)
        if given.shape != self.shape:
            raise ShapeError(
                f"{name}: weights {spell_shape(given.shape)} for {spell_shape(self.shape)}",
                f"the tensor {self._made()}, the weights {given._made()}",
                "Give one for each element.",
            )
        return given

    def _count(self, places: UOp, size: int, weights: Self | None, gate: UOp | None) -> Self:
        """The number, or the sum of weights, of the elements that name each place."""
        value = broadcast_scalar(const(dtypes.default_int, 1), places.shape)
        if weights is not None:
            value = weights._as_float().reshape(places.shape)
        start = broadcast_scalar(const(value.dtype, 0), (size,))
        return self._wrap(self._stored(start, value, (places,), gate, ops.ADD))

    def histogram(
        self, bins: Any = 10, range: Any = None, weights: Any = None, density: bool = False
    ) -> tuple[Self, Self]:
        """How many elements lie in each bin, and the edges of the bins; the last bin has both its edges.

        `bins` is a number of equal ones over `range`, (smallest, largest) if it is not given; or the edges themselves.
        """
        given = self._element_weights("histogram", weights)
        flat = self.flatten()
        if isinstance(bins, int):
            edges = self._equal_bins(flat, bins, range)
        else:
            edges = self._operand("histogram", bins)
            if edges.ndim != 1 or edges.shape[0] < 2:
                raise ShapeError(
                    f"histogram: edges of shape {spell_shape(edges.shape)}", edges._made(), "Give two edges or more."
                )
        count = edges.shape[0] - 1
        place = edges.searchsorted(flat, side="right").uop - 1
        last = edges.uop.shrink([(count, 1)]).reshape(())
        is_last = flat.uop.cast(last.dtype).eq(last)
        place = is_last.where(place.constant(count - 1), place)
        inside = both(place >= 0, place < count)
        found = self._count(place, count, given, inside)
        if density:
            width = edges.shrink(((1, count + 1),)) - edges.shrink(((0, count),))
            found = found / width / found.sum()
        return found, edges

    def _equal_bins(self, flat: Self, bins: int, span: Any) -> Self:
        """The edges of equal bins; of a range of no width, one of width 1 around it."""
        if bins < 1:
            raise ArgumentError(f"histogram: {bins} bins", self._made(), "Ask for at least one.")
        dtype = least_upper_float(self.dtype)
        if span is None and not flat.shape[0]:
            span = (0.0, 1.0)
        if span is None:
            low, high = flat.min().uop.cast(dtype), flat.max().uop.cast(dtype)
        else:
            low, high = (const(dtype, float(end)) for end in span)
            if not low.arg <= high.arg:
                raise ArgumentError(f"histogram: the range {tuple(span)}", self._made(), "Give (smallest, largest).")
        half = low.eq(high).where(const(dtype, 0.5), const(dtype, 0.0))
        low, high = low - half, high + half
        place = UOp.arange(bins + 1, dtypes.int32)
        inner = place.cast(dtype) * ((high - low) / float(bins)) + low
        return self._wrap(place.eq(bins).where(high, inner))


def _identity(combine: Op, dtype: DType) -> UOp:
    """What changes nothing when it is combined."""
    if combine is ops.ADD or combine is ops.MUL:
        return const(dtype, convert(dtype, int(combine is ops.MUL)))
    if dtype.is_bool:
        return const(dtype, combine is ops.MIN)
    largest = math.inf if dtype.is_float else dtype.max
    smallest = -math.inf if dtype.is_float else dtype.min
    return const(dtype, smallest if combine is ops.MAX else largest)
