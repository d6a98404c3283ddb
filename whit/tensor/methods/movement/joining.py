"""Tensors cut along named axes and put together along them, by the names of PyTorch and NumPy."""

from __future__ import annotations

from typing import Any, Self

from whit.errors import ArgumentError, ShapeError
from whit.ir.op import spell_shape
from whit.tensor.core import Core, common_shape, whole
from whit.tensor.methods.movement.views import listed
from whit.tensor.topic import Topic


def _given(name: str, first: Any, others: tuple[Any, ...]) -> list[Any]:
    """The tensors of a call: one by one, or in a list."""
    tensors = [*first, *others] if isinstance(first, list | tuple) else [first, *others]
    if not tensors or not isinstance(tensors[0], Core):
        raise ArgumentError(f"{name}: there are no tensors", fix=f"Give one or more: Tensor.{name}([a, b]).")
    return [tensors[0]._operand(name, tensor) for tensor in tensors]  # type: ignore[attr-defined]


class Joining(Topic):
    """`hstack`, `vsplit` and their relatives: an axis is part of the name."""

    __slots__ = ()

    # ---- several from one

    def tensor_split(
        self, indices_or_sections: Any, dim: int = 0, *, indices: Any = None, sections: Any = None
    ) -> tuple[Self, ...]:
        """So many pieces along an axis, the first ones longer by one if they must be; or cut before these positions."""
        given = [value for value in (indices_or_sections, indices, sections) if value is not None]
        cuts = given[0].tolist() if isinstance(given[0], Core) else given[0]  # type: ignore[attr-defined]
        axis = self._axis("tensor_split", dim, scalars=False)
        size = self.shape[axis]
        if not isinstance(cuts, tuple | list):
            count = whole("tensor_split", "sections", cuts, self._made())
            if count < 1:
                raise ArgumentError(f"tensor_split: {count} pieces", self._made(), "Ask for at least one.")
            each, more = divmod(size, count)
            return self.split([each + (i < more) for i in range(count)], axis)
        ends = [min(max(cut + size if cut < 0 else cut, 0), size) for cut in cuts] + [size]
        starts = [0, *ends[:-1]]
        windows = [(start, max(start, end)) for start, end in zip(starts, ends, strict=True)]
        return tuple(self.shrink([w if i == axis else None for i in range(self.ndim)]) for w in windows)

    def _split_at(self, name: str, cuts: Any, axis: int, least: int) -> tuple[Self, ...]:
        """The pieces of one axis; a number of pieces must divide it."""
        if self.ndim < least:
            raise ShapeError(
                f"{name}: {spell_shape(self.shape)} has fewer than {least} axes", self._made(), "Use split()."
            )
        if not isinstance(cuts, tuple | list) and self.shape[axis] % whole(name, "sections", cuts, self._made()):
            raise ShapeError(
                f"{name}: {cuts} pieces of axis {axis} of {spell_shape(self.shape)}",
                self._made(),
                "The pieces are equal: use tensor_split() for others.",
            )
        return self.tensor_split(cuts, axis)

    def hsplit(self, indices_or_sections: Any) -> tuple[Self, ...]:
        """Pieces along the second axis; of a vector along its only one."""
        return self._split_at("hsplit", indices_or_sections, 1 if self.ndim > 1 else 0, 1)

    def vsplit(self, indices_or_sections: Any) -> tuple[Self, ...]:
        """Pieces along the first axis."""
        return self._split_at("vsplit", indices_or_sections, 0, 2)

    def dsplit(self, indices_or_sections: Any) -> tuple[Self, ...]:
        """Pieces along the third axis."""
        return self._split_at("dsplit", indices_or_sections, 2, 3)

    # ---- one from several

    def hstack(self, *tensors: Any) -> Self:
        """Tensors side by side: along the second axis, vectors along their only one."""
        parts = [part.atleast_1d() for part in _given("hstack", self, tensors)]
        return parts[0].cat(*parts[1:], dim=0 if parts[0].ndim == 1 else 1)  # type: ignore[no-any-return]

    def vstack(self, *tensors: Any) -> Self:
        """Tensors below each other: along the first axis, vectors being rows."""
        parts = [part.atleast_2d() for part in _given("vstack", self, tensors)]
        return parts[0].cat(*parts[1:], dim=0)  # type: ignore[no-any-return]

    def row_stack(self, *tensors: Any) -> Self:
        """The same as `vstack`."""
        return Joining.vstack(self, *tensors)

    def dstack(self, *tensors: Any) -> Self:
        """Tensors behind each other: along the third axis."""
        parts = [part.atleast_3d() for part in _given("dstack", self, tensors)]
        return parts[0].cat(*parts[1:], dim=2)  # type: ignore[no-any-return]

    def column_stack(self, *tensors: Any) -> Self:
        """Tensors side by side, vectors being columns."""
        given = _given("column_stack", self, tensors)
        parts = [part if part.ndim > 1 else part.reshape((part.numel(), 1)) for part in given]
        return parts[0].cat(*parts[1:], dim=1)  # type: ignore[no-any-return]

    def append(self, values: Any, axis: int | None = None) -> Self:
        """A copy with more at the end of an axis, or of the flattened tensor (NumPy)."""
        other = self._operand("append", values)
        if axis is None:
            return self.flatten().cat(other.flatten())  # type: ignore[no-any-return]
        return self.cat(other, dim=axis)  # type: ignore[no-any-return]

    # ---- the number of axes

    def atleast_1d(self) -> Self:
        """With one axis at least."""
        return self if self.ndim else self.reshape((1,))

    def atleast_2d(self) -> Self:
        """With two axes at least: a vector is a row."""
        return self if self.ndim > 1 else self.reshape((1, self.numel()))

    def atleast_3d(self) -> Self:
        """With three axes at least: a matrix is a layer of depth 1, a vector the only row of one."""
        if self.ndim > 2:
            return self
        return self.reshape((*self.shape, 1)) if self.ndim == 2 else self.reshape((1, self.numel(), 1))

    def broadcast_tensors(self, *tensors: Any) -> tuple[Self, ...]:
        """Tensors expanded to the shape that they broadcast to."""
        given = _given("broadcast_tensors", self, tensors)
        shape = common_shape("broadcast_tensors", [(f"operand {i}", t) for i, t in enumerate(given)])
        return tuple(t.expand(shape) for t in given)

    def broadcast_arrays(self, *tensors: Any) -> tuple[Self, ...]:
        """The same as `broadcast_tensors` (NumPy)."""
        return Joining.broadcast_tensors(self, *tensors)

    def sum_to_size(self, *size: Any) -> Self:
        """The sum over the axes that broadcasting from this size would make: the opposite of `expand`."""
        wanted = tuple(listed(size[0], size[1:])) if size else ()
        lead = self.ndim - len(wanted)
        fits = lead >= 0 and all(new in (1, old) for old, new in zip(self.shape[lead:], wanted, strict=True))
        if not fits:
            raise ShapeError(
                f"sum_to_size: {spell_shape(self.shape)} does not come from {spell_shape(wanted)}",
                self._made(),
                "Name a shape that broadcasts to the tensor's.",
            )
        axes = [axis for axis in range(self.ndim) if axis < lead or (wanted[axis - lead] == 1 != self.shape[axis])]
        dtype = None if self.dtype.is_bool else self.dtype
        return self.sum(tuple(axes), dtype=dtype).reshape(wanted) if axes else self

    def rollaxis(self, axis: int, start: int = 0) -> Self:
        """An axis moved to before another one (NumPy)."""
        place = self._axis("rollaxis", axis, scalars=False)
        count = self.ndim
        target = start + count if start < 0 else start
        return self.moveaxis(place, target - 1 if place < target else target)

    # ---- positions taken out and put in, by numbers that are known (NumPy)

    def delete(self, obj: Any, axis: int | None = None) -> Self:
        """A copy without these positions of an axis, or of the flattened tensor."""
        x, place = (self.flatten(), 0) if axis is None else (self, self._axis("delete", axis, scalars=False))
        gone = set(x._known_positions("delete", obj, place))
        kept = [i for i in range(x.shape[place]) if i not in gone]
        return x.take(kept, place)

    def insert(self, obj: Any, values: Any, axis: int | None = None) -> Self:
        """A copy with values before these positions of an axis, or of the flattened tensor."""
        x, place = (self.flatten(), 0) if axis is None else (self, self._axis("insert", axis, scalars=False))
        size = x.shape[place]
        at = x._known_positions("insert", obj, place, end=1)
        more = self._values_for("insert", values)
        more = more.reshape((1,) * (x.ndim - more.ndim) + more.shape)
        if not isinstance(obj, list | tuple | slice):
            more = more.moveaxis(0, place)
        at = at * more.shape[place] if len(at) == 1 else at
        wide = more.expand((*x.shape[:place], len(at), *x.shape[place + 1 :]))
        order = sorted([(position, 0, i) for i, position in enumerate(at)] + [(i, 1, i) for i in range(size)])
        chosen = [i + (0 if kind else size) for _, kind, i in order]
        return x.cat(wide, dim=place).take(chosen, place)  # type: ignore[no-any-return]

    def _values_for(self, name: str, values: Any) -> Self:
        """Values to be put beside the elements, in their dtype."""
        if isinstance(values, Core):
            return self._operand(name, values).cast(self.dtype)
        return type(self)(values, dtype=self.dtype, device=self._in_memory())

    def _known_positions(self, name: str, obj: Any, axis: int, end: int = 0) -> list[int]:
        """Positions of an axis that are numbers, a slice or a tensor, which is read."""
        size = self.shape[axis]
        given = obj.tolist() if isinstance(obj, Core) else obj  # type: ignore[attr-defined]
        if isinstance(given, slice):
            return list(range(size)[given])
        listed_ = list(given) if isinstance(given, list | tuple) else [given]
        if listed_ and all(isinstance(value, bool) for value in listed_):
            return [i for i, value in enumerate(listed_) if value]
        for value in listed_:
            if not -size <= whole(name, "obj", value, self._made()) < size + end:
                raise ArgumentError(
                    f"{name}: {value} is outside axis {axis} of {spell_shape(self.shape)}",
                    self._made(),
                    f"Positions go from {-size} to {size + end - 1}.",
                )
        return [value + size if value < 0 else value for value in listed_]
