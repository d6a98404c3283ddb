"""Copies with some elements replaced, named by positions along an axis, by a mask, or by their places in the whole.

Positions follow the rules of `gather`. Where one is named several times, the last value in row-major order stays,
unless values are combined.
"""

from __future__ import annotations

from math import prod
from typing import Any, Self

from whit.dtype import dtypes
from whit.errors import ArgumentError, ShapeError
from whit.ir import ops
from whit.ir.op import spell_shape
from whit.ir.uop import UOp, const
from whit.tensor.build import fitting
from whit.tensor.core import Core, broadcast_scalar, expand_to, join_shapes
from whit.tensor.graphs.positions import both, moved_axes, rank_of, taken
from whit.tensor.methods.indexing.scatter import _COMBINE, Scattering, _identity


class Replacement(Scattering):
    """PyTorch's `index_copy` and its relatives, NumPy's `put`, `choose`, `compress`."""

    __slots__ = ()

    # ---- slices at positions of an axis

    def _slices(self, name: str, dim: int, index: Any, source: Any) -> tuple[UOp, UOp, UOp, UOp | None, list[int]]:
        """The node with the axis first, values of its slices, their positions with a gate, and the order of axes."""
        axis = self._axis(name, dim)
        places, shape = self._places(name, index, axis) if self.shape else (None, ())
        order = [axis, *(i for i in range(self.ndim) if i != axis)]
        if places is None or len(shape) > 1:
            raise ShapeError(
                f"{name}: positions of shape {spell_shape(shape)} in {spell_shape(self.shape)}",
                self._made(),
                "Positions are one row, of a tensor that has an axis.",
            )
        node = places.node if shape else places.node.reshape((1,))
        gate = places.gate if shape or places.gate is None else places.gate.reshape((1,))
        wanted = (*self.shape[:axis], node.shape[0], *self.shape[axis + 1 :])
        if isinstance(source, bool | int | float | complex) or not source.shape:
            value = source.uop.cast(self.dtype) if isinstance(source, Core) else fitting(name, source, self.dtype)
            values = broadcast_scalar(value, wanted)
        else:
            given = self._operand(name, source)
            self._one_device(name, given)
            self._same_dtype(name, given)
            if given.shape != wanted:
                raise ShapeError(
                    f"{name}: slices {spell_shape(given.shape)} at {node.shape[0]} positions of axis {axis} "
                    f"of {spell_shape(self.shape)}",
                    f"the tensor {self._made()}, the slices {given._made()}",
                    f"Slices have shape {spell_shape(wanted)}.",
                )
            values = given.uop
        return moved_axes(self.uop, order), moved_axes(values, order), node, gate, order

    def _back(self, node: UOp, order: list[int]) -> Self:
        return self._wrap(moved_axes(node, [order.index(axis) for axis in range(len(order))]))

    def index_copy(self, dim: int, index: Any, source: Any) -> Self:
        """A copy with the slices of source at these positions of an axis."""
        target, values, node, gate, order = self._slices("index_copy", dim, index, self._operand("index_copy", source))
        return self._back(self._stored(target, values, (node,), gate), order)

    def index_fill(self, dim: int, index: Any, value: Any) -> Self:
        """A copy with one number in the slices at these positions of an axis."""
        target, values, node, gate, order = self._slices("index_fill", dim, index, value)
        return self._back(self._stored(target, values, (node,), gate), order)

    def index_reduce(self, dim: int, index: Any, source: Any, reduce: str, include_self: bool = True) -> Self:
        """A copy with slices combined with what is there: their product, mean, largest or smallest."""
        if reduce not in _COMBINE:
            raise ArgumentError(
                f"index_reduce: there is no reduce={reduce!r}", self._made(), f"Use one of {', '.join(_COMBINE)}."
            )
        given = self._operand("index_reduce", source)
        target, values, node, gate, order = self._slices("index_reduce", dim, index, given)
        combine = _COMBINE[reduce]
        base = target
        if not include_self:
            never = broadcast_scalar(const(dtypes.bool, False), target.shape)
            always = broadcast_scalar(const(dtypes.bool, True), values.shape)
            hit = self._stored(never, always, (node,), gate)
            base = hit.where(_identity(combine, self.dtype), base)
        result = self._stored(base, values, (node,), gate, combine)
        if reduce == "mean":
            counted = broadcast_scalar(const(dtypes.int32, int(include_self)), target.shape)
            ones = broadcast_scalar(const(dtypes.int32, 1), values.shape)
            number = self._stored(counted, ones, (node,), gate, ops.ADD).maximum(1).cast(self.dtype)
            result = result / number if self.dtype.is_float else result // number
        return self._back(result, order)

    # ---- elements where a mask holds, or at places in the whole

    def masked_scatter(self, mask: Any, source: Any) -> Self:
        """A copy with the elements of source, one after another, where the mask holds."""
        chosen = self._mask("masked_scatter", mask)
        values = self._operand("masked_scatter", source)
        self._one_device("masked_scatter", values)
        self._same_dtype("masked_scatter", values)
        shape = join_shapes(self.shape, chosen.shape)
        if shape is None:
            raise ShapeError(
                f"masked_scatter: shapes {spell_shape(self.shape)} and {spell_shape(chosen.shape)} do not broadcast",
                f"the tensor {self._made()}, the mask {chosen._made()}",
                "Use a mask of the tensor's shape.",
            )
        holds = expand_to(chosen.uop, shape) if chosen.shape else broadcast_scalar(chosen.uop, shape)
        base = expand_to(self.uop, shape) if self.shape else broadcast_scalar(self.uop, shape)
        if not values.numel():
            return self._wrap(base)
        rank = rank_of(holds)
        found = taken(values.flatten().uop, (rank,), both(holds, rank < values.numel()))
        return self._wrap(holds.where(found, base))

    def _with_put(self, index: Any, source: Any, accumulate: bool = False) -> Self:
        """The value of `put_`: source at places in the flattened tensor, added to what is there if asked for."""
        flat = self.flatten()
        places, shape = flat._places("put", index, 0)
        values = self._operand("put", source).cast(self.dtype)
        node = values.uop
        if node.shape != shape:
            if values.numel() not in (1, prod(shape)):
                raise ShapeError(
                    f"put: {values.numel()} values for {prod(shape)} places",
                    f"the tensor {self._made()}, the values {values._made()}",
                    "Give one for each place.",
                )
            node = values.flatten().uop.expand(shape) if values.numel() == 1 and shape else node.reshape(shape)
        combine = ops.ADD if accumulate else None
        stored = flat._stored(flat.uop, node, (places.node,), places.gate, combine)
        return self._wrap(stored.reshape(self.shape))

    def put(self, indices: Any, values: Any) -> None:
        """Writes values at places in the flattened tensor, again from the first one where they are too few (NumPy)."""
        known = self._operand("put", indices) if not isinstance(indices, int) else type(self)([indices])
        count = known.numel()
        given = values if isinstance(values, Core) else type(self)(values, dtype=self.dtype, device=self._in_memory())
        flat = self._operand("put", given).flatten()
        if not count or not flat.numel():
            return
        repeated = flat.repeat(-(-count // flat.numel())).shrink(((0, count),))
        self._become("put_", self._with_put(known.flatten(), repeated))

    # ---- chosen

    def take_along_dim(self, indices: Any, dim: int | None = None) -> Self:
        """`take_along_axis`; without an axis, of the flattened tensor and flattened positions (PyTorch)."""
        if dim is None:
            return self.flatten().take_along_axis(self._operand("take_along_dim", indices).flatten(), 0)
        return self.take_along_axis(indices, dim)

    def choose(self, choices: Any) -> Self:
        """At each position the element of one of several tensors, self being the number of that (NumPy)."""
        self._require("choose", self.dtype.is_int, "it names tensors by their numbers", "Cast it.")
        given = list(choices)
        first = next((c for c in given if isinstance(c, Core)), self)
        is_number = [isinstance(c, int | float | complex) for c in given]
        pairs = zip(given, is_number, strict=True)
        tensors = [type(self)(c) if number else first._operand("choose", c) for c, number in pairs]  # type: ignore[attr-defined]
        shape: Any = self.shape
        for tensor in tensors:
            shape = None if shape is None else join_shapes(shape, tensor.shape)
        if shape is None or not tensors:
            raise ShapeError("choose: the choices do not broadcast to one shape", self._made(), "Use equal shapes.")
        same = tensors[0]._together("choose", tuple(tensors[1:]))
        stacked = same[0].expand(shape).stack(*(t.expand(shape) for t in same[1:]))
        return stacked.gather(0, self.expand(shape).unsqueeze(0)).squeeze(0)  # type: ignore[no-any-return]

    def compress(self, condition: Any, axis: int | None = None) -> Self:
        """The positions of an axis, or of the flattened tensor, where a row of bools holds (NumPy)."""
        x, place = (self.flatten(), 0) if axis is None else (self, self._axis("compress", axis, scalars=False))
        mask = self._operand("compress", condition).cast(dtypes.bool)
        if mask.ndim != 1 or mask.shape[0] > x.shape[place]:
            raise ShapeError(
                f"compress: a condition {spell_shape(mask.shape)} for axis {place} of {spell_shape(x.shape)}",
                mask._made(),
                "Give one row, at most as long as the axis.",
            )
        return x.take(mask.nonzero().flatten(), place)

    def extract(self, condition: Any) -> Self:
        """The elements where a condition holds, in one row."""
        return self.flatten().masked_select(self._operand("extract", condition).cast(dtypes.bool).flatten())

    def nonzero_static(self, size: int, fill_value: int = -1) -> Self:
        """`nonzero` of a known number of rows (PyTorch)."""
        return self.nonzero(size, fill_value)

    def flatnonzero(self) -> Self:
        """The places in the flattened tensor of what is not zero (NumPy)."""
        return self.flatten().nonzero().flatten()
