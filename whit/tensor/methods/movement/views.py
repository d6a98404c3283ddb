"""The same elements in other places: reshape, expand, permute, flip, shrink, and what is made of them.

Sizes and axes may be given one by one or as a tuple. Axes count from either end. What only moves elements gives a view,
as in NumPy; what may show an element twice or not at all (pad, repeat, cat) has a value of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, pairwise, starmap
from math import prod
from typing import Any, Self, TypeVar, overload

from whit.dtype import DType
from whit.errors import ArgumentError, OutOfRangeError, ShapeError
from whit.ir.assumed import fits, is_size_now
from whit.ir.op import spell_shape, spell_size
from whit.ir.sizes import larger, quotient, reach, same_size, settled
from whit.ir.uop import UOp
from whit.tensor.core import Core, broadcast_scalar, either, expand_to, whole, whole_or_symbolic
from whit.tensor.family import is_reshape_a_view
from whit.tensor.topic import Topic


def listed(first: Any, rest: tuple[Any, ...]) -> tuple[Any, ...]:
    """f(2, 3) and f((2, 3)) are the same."""
    if isinstance(first, tuple | list) and not rest:
        return tuple(first)
    return (first, *rest)


def is_known(shape: tuple[Any, ...]) -> bool:
    """Whether no size is symbolic."""
    for size in shape:  # noqa: SIM110  # a generator in `all` takes 0.7 us, this 0.25 us, twice in every reshape
        if type(size) is not int:
            return False
    return True


MOST_TENSORS_A_KERNEL = 16  # tensors of different sizes that one kernel concatenates

Some = TypeVar("Some", bound=Core)


class Views(Topic):
    """Nothing is computed, and without a reason nothing is copied."""

    __slots__ = ()

    def _sizes(self, name: str, shape: tuple[Any, ...]) -> tuple[Any, ...]:
        """Sizes as Python integers or symbolic nodes."""
        sizes = []
        for size in shape:
            if type(size) is int or size is None or isinstance(size, UOp):
                sizes.append(size)
            elif hasattr(size, "__index__") and not isinstance(size, bool):
                sizes.append(size.__index__())
            else:
                raise ArgumentError(f"{name}: {size!r} is not a size", self._made(), "Sizes are integers.")
        return tuple(sizes)

    def reshape(self, shape: Any, *args: Any) -> Self:
        """The same elements in row-major order under another shape. One size may be -1: what is left for it."""
        old = self.uop.shape
        new = listed(shape, args)
        if new == old and is_known(new):  # 2.0 == 2, and is no size
            return self
        for size in new:
            if type(size) is not int or size < 0:
                new = self._worked_out(new)
                break
        if not is_known(old) or not is_known(new):
            return self._reshaped(new)  # symbolic sizes are compared there
        if prod(old) != prod(new):
            raise ShapeError(
                f"reshape: {spell_shape(old)} has {prod(old)} elements and {spell_shape(new)} has {prod(new)}",
                self._made(),
                "The number of elements must stay the same.",
            )
        return self if new == old else self._reshaped(new)

    def _reshaped(self, shape: tuple[Any, ...]) -> Self:
        """A view where NumPy makes one; else the elements are copied."""
        node = self.uop.reshape(shape)
        family = self._family
        if family is None or is_reshape_a_view(family, self.uop, shape):
            return self._view(node)
        return self._wrap(node)

    def _worked_out(self, shape: tuple[Any, ...]) -> tuple[Any, ...]:
        """A shape with the sizes in the places of -1 and of None, which keeps the size that the axis has."""
        old = self.shape
        sizes = list(self._sizes("reshape", shape))
        sizes = [old[i] if size is None and i < len(old) else size for i, size in enumerate(sizes)]
        if sizes.count(-1) > 1:
            raise ShapeError(
                f"reshape: more than one size is -1 in {tuple(sizes)}", self._made(), "Only one can be worked out."
            )
        if any(isinstance(size, int) and size < -1 for size in sizes):
            raise ShapeError(f"reshape: a size is negative in {tuple(sizes)}", self._made(), "Sizes are zero or more.")
        if -1 in sizes:
            rest = settled(prod(size for size in sizes if size != -1))
            count = settled(prod(old))
            left = quotient(count, rest)
            if left is None:
                why = f"{spell_size(count)} is no multiple of {spell_size(rest)}."
                raise ShapeError(
                    f"reshape: {spell_shape(old)} has {spell_size(count)} elements, "
                    f"which {spell_shape(tuple(sizes))} cannot hold",
                    self._made(),
                    "Next to a size of 0, -1 could be anything." if isinstance(rest, int) and rest == 0 else why,
                )
            sizes[sizes.index(-1)] = left
        return tuple(sizes)

    def view(self, shape: Any, *args: Any) -> Self:
        """The same as `reshape`; with a dtype, as `bitcast`."""
        if isinstance(shape, DType | str | type):
            return self.bitcast(shape)
        return self.reshape(shape, *args)

    def expand(self, shape: Any, *args: Any) -> Self:
        """Axes of size 1 repeated, new axes in front. A size of -1 stays what it is."""
        sizes = self._sizes("expand", listed(shape, args))
        old = self.shape
        lead = len(sizes) - len(old)
        padded = (1,) * lead + old if lead >= 0 else old
        new = tuple(o if n is None or n == -1 else settled(n) for o, n in zip(padded, sizes, strict=False))
        fits = lead >= 0 and all(o is n or o in (1, n) for o, n in zip(padded, new, strict=True))
        if not fits or _has_negative(sizes[:lead]) or _has_negative(new):
            raise ShapeError(
                f"expand: {spell_shape(old)} does not become {spell_shape(tuple(n for n in sizes if n is not None))}",
                self._made(),
                "Only axes of size 1 grow; new axes come in front, and have a size; -1 keeps one.",
            )
        return self if new == old else self._view(expand_to(self.uop, new) if old else broadcast_scalar(self.uop, new))

    def permute(self, order: Any = (), *args: Any, dims: Any = (), axes: Any = ()) -> Self:
        """The axes in another order. `dims=` and `axes=` are the same."""
        given = listed(order, args) or tuple(dims) or tuple(axes)
        axes = tuple([self._axis("permute", axis) for axis in given])
        if sorted(axes) != list(range(self.ndim)):
            raise ShapeError(
                f"permute: {given} is not an order of the {self.ndim} axes of {spell_shape(self.shape)}",
                self._made(),
                "Name each axis once.",
            )
        return self if axes == tuple(range(self.ndim)) else self._view(self.uop.permute(axes))

    def transpose(self, dim0: int | None = None, dim1: int | None = None) -> Self:
        """Two axes exchanged; of a matrix they need not be named."""
        if dim0 is None and dim1 is None and self.ndim > 2:
            raise ArgumentError(
                f"transpose: no axes are given for shape {spell_shape(self.shape)}",
                self._made(),
                "Left out, they are 0 and 1 in tinygrad, all in opposite order in NumPy: use transpose(0, 1), or .T.",
            )
        dim0, dim1 = 1 if dim0 is None else dim0, 0 if dim1 is None else dim1
        order = list(range(self.ndim))
        first, second = self._axis("transpose", dim0), self._axis("transpose", dim1)
        if order:
            order[first], order[second] = order[second], order[first]
        return self.permute(tuple(order))

    @property
    def T(self) -> Self:  # noqa: N802  # the name that everybody uses
        """All axes in the opposite order."""
        return self.permute(tuple(range(self.ndim))[::-1])

    def flip(self, axis: Any = None, *args: Any, dims: Any = None) -> Self:
        """These axes back to front; all, if none is named."""
        named = either("flip", axis, dims)
        axes = self._axes("flip", None if named is None else listed(named, args))
        return self._view(self.uop.flip(axes)) if axes else self

    def shrink(self, arg: Sequence[tuple[Any, Any] | None]) -> Self:
        """A window (start, end) of each axis; None is all of it."""
        if not isinstance(arg, tuple | list) or not all(pair is None or _is_window(pair) for pair in arg):
            raise ArgumentError(
                f"shrink: {arg!r:.80} is no list of windows", self._made(), "Give (start, end) or None for each axis."
            )
        if len(arg) != self.ndim:
            raise ShapeError(
                f"shrink: {len(arg)} windows for the {self.ndim} axes of {spell_shape(self.shape)}",
                self._made(),
                "Give (start, end) or None for each axis.",
            )
        windows = [(0, size) if pair is None else tuple(pair) for size, pair in zip(self.shape, arg, strict=True)]
        for axis, ((start, end), size) in enumerate(zip(windows, self.shape, strict=True)):
            if _are_in_order(0, start, end, size):
                continue
            always = "" if is_known((start, end, size)) else ", with the values that variables have now"
            raise ShapeError(
                f"shrink: {spell_shape((start, end))} is not inside axis {axis} of {spell_shape(self.shape)}",
                self._made(),
                f"A window goes from start up to end, 0 <= start <= end <= size{always}.",
            )
        if all(window == (0, size) for window, size in zip(windows, self.shape, strict=True)):
            return self
        return self._view(self.uop.shrink([(start, _length(start, end)) for start, end in windows]))

    def shrink_to(self, shape: Any, *args: Any) -> Self:
        """The first positions of each axis, as many as a shape has; None is all of them (tinygrad)."""
        return self.shrink([None if size is None else (0, size) for size in listed(shape, args)])

    # ---- axes joined, split, added, removed

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Self:
        """The axes from start_dim to end_dim as one."""
        start, end = self._axis("flatten", start_dim), self._axis("flatten", end_dim)
        shape = self.shape
        if not shape:
            return self.reshape((1,))
        if start > end:
            raise ShapeError(f"flatten: axis {start} comes after axis {end}", self._made(), "Give them in order.")
        return self.reshape((*shape[:start], prod(shape[start : end + 1]), *shape[end + 1 :]))

    def unflatten(self, dim: int | None = None, sizes: tuple[int, ...] = (), axis: int | None = None) -> Self:
        """One axis as several, of these sizes; one of them may be -1."""
        axis = self._axis("unflatten", either("unflatten", axis, dim), scalars=False)
        if not isinstance(sizes, tuple | list):
            raise ArgumentError(f"unflatten: {sizes!r:.60} is no list of sizes", self._made(), "Give a tuple of them.")
        parts = list(self._sizes("unflatten", tuple(sizes)))
        size = self.shape[axis]
        if parts.count(-1) == 1:
            rest = quotient(size, prod(part for part in parts if part != -1))
            parts[parts.index(-1)] = 0 if rest is None else rest
        if settled(prod(parts)) != size or any(isinstance(part, int) and part < 0 for part in parts):
            raise ShapeError(
                f"unflatten: axis {axis} has size {spell_size(size)}, "
                f"and {spell_shape(tuple(sizes))} holds {spell_size(settled(prod(parts)))}",
                self._made(),
                "The product of the sizes, zero or more each, must be the size of the axis.",
            )
        return self.reshape((*self.shape[:axis], *parts, *self.shape[axis + 1 :]))

    def squeeze(self, dim: Any = None, axis: Any = None) -> Self:
        """Without axes of size 1: all of them, or those named."""
        axes = self._axes("squeeze", either("squeeze", axis, dim))
        shape = tuple(size for axis, size in enumerate(self.shape) if axis not in axes or size != 1)
        return self.reshape(shape)

    def unsqueeze(self, dim: int | None = None, axis: int | None = None) -> Self:
        """A new axis of size 1 at this place."""
        return self._new_axis("unsqueeze", either("unsqueeze", axis, dim))

    def _new_axis(self, name: str, dim: Any) -> Self:
        count = self.ndim + 1
        dim = whole(name, "dim", dim, self._made())
        if not -count <= dim < count:
            raise OutOfRangeError(
                f"{name}: there is no place {dim} among the {self.ndim} axes of {spell_shape(self.shape)}",
                self._made(),
                f"Places go from {-count} to {count - 1}.",
            )
        place = dim % count
        return self.reshape((*self.shape[:place], 1, *self.shape[place:]))

    # ---- several tensors from one, one from several

    def split(self, sizes: int | Sequence[Any], dim: int = 0, axis: int | None = None) -> tuple[Self, ...]:
        """Pieces along an axis: of one size, the last perhaps smaller, or of these sizes."""
        axis = self._axis("split", dim if axis is None else axis, scalars=False)
        total = self.shape[axis]
        if not isinstance(sizes, tuple | list):
            sizes = self._pieces(whole_or_symbolic("split", "sizes", sizes, self._made()), axis)
        sizes = [whole_or_symbolic("split", "size", size, self._made()) for size in sizes]
        if not same_size(settled(sum(sizes)), total) or not all(fits(0, size) for size in sizes):
            raise ShapeError(
                f"split: sizes [{', '.join(map(spell_size, sizes))}] for axis {axis} of {spell_shape(self.shape)}",
                self._made(),
                f"They must add up to {spell_size(total)}.",
            )
        pieces = []
        start = 0
        for size in sizes:
            window: list[Any] = [None] * self.ndim
            window[axis] = (start, start + size)
            pieces.append(self.shrink(window))
            start += size
        return tuple(pieces)

    def _pieces(self, size: Any, axis: int) -> list[Any]:
        """The sizes of pieces of one size, the last perhaps smaller, if their number is the same for all values."""
        total = self.shape[axis]
        if not fits(1, size):
            raise ShapeError(f"split: pieces of size {spell_size(size)}", self._made(), "Give a size of at least 1.")
        if isinstance(size, int) and isinstance(total, int):
            return [min(size, total - start) for start in range(0, total, size)] or [0]
        count = quotient(total, size)
        if isinstance(count, int) and count:
            return [size] * count
        fewest, most = reach(settled(-(-total // size)))
        if fewest is None or fewest != most or fewest < 1:
            raise self._unknown_count("split", axis, "Give a list of sizes.")
        return [size] * (fewest - 1) + [settled(total - (fewest - 1) * size)]

    def _unknown_count(self, name: str, axis: int, fix: str) -> ShapeError:
        return ShapeError(
            f"{name}: how many pieces axis {axis} of {spell_shape(self.shape)} has depends on a variable",
            self._made(),
            fix,
        )

    def chunk(self, chunks: int, dim: int = 0, axis: int | None = None) -> tuple[Self, ...]:
        """At most this many pieces along an axis, equal but for the last."""
        chunks = whole("chunk", "chunks", chunks, self._made())
        if chunks < 1:
            raise ShapeError(f"chunk: {chunks} pieces", self._made(), "Ask for at least one.")
        place = self._axis("chunk", dim if axis is None else axis, scalars=False)
        size = self.shape[place]
        if not isinstance(size, int):
            return self.split(self._parts(chunks, place), place)
        return self.split(max(-(-size // chunks), 1), place) if size else self.split([0] * chunks, place)

    def _parts(self, chunks: int, axis: int) -> list[Any]:
        """The sizes of this many pieces of a symbolic axis, equal but for the last."""
        size = self.shape[axis]
        part = quotient(size, chunks)
        if part is not None:
            return [part] * chunks
        fewest, most = reach(size)
        if (
            fewest is None
            or most is None
            or any(
                (chunks - 1) * -(-count // chunks) >= count for count in range(fewest, min(most, chunks * chunks) + 1)
            )
        ):
            fix = f"Bounds with which there are always {chunks}, or sizes that {chunks} divides; or split() into sizes."
            raise self._unknown_count("chunk", axis, fix)
        part = settled(-(-size // chunks))
        return [part] * (chunks - 1) + [settled(size - (chunks - 1) * part)]

    def repeat(self, repeats: Any, *args: Any) -> Self:
        """Tiles: the whole tensor this often along each axis; further numbers are for new axes in front."""
        counts = self._sizes("repeat", listed(repeats, args))
        lead = len(counts) - self.ndim
        if lead < 0 or any(count is None or count < 0 for count in counts):
            raise ShapeError(
                f"repeat: {counts} for the {self.ndim} axes of {spell_shape(self.shape)}",
                self._made(),
                "Give a number of at least 0 for each axis.",
            )
        shape = (1,) * lead + self.shape
        paired = self.uop.reshape(tuple(chain.from_iterable((1, size) for size in shape)))
        tiled = paired.expand(tuple(chain.from_iterable(zip(counts, shape, strict=True))))
        return self._wrap(tiled.reshape(tuple(count * size for count, size in zip(counts, shape, strict=True))))

    @overload
    def stack(self, *args: Any, dim: int = 0, axis: int | None = None) -> Self: ...

    @overload
    def stack(  # type: ignore[misc]  # of a list, called as a function of the class
        self: list[Some] | tuple[Some, ...], *args: int, dim: int = 0, axis: int | None = None
    ) -> Some: ...

    def stack(self, *args: Any, dim: int = 0, axis: int | None = None) -> Any:
        """Tensors of one shape along a new axis. `stack([a, b], 1)` is `stack(a, b, dim=1)`."""
        if isinstance(self, list | tuple):
            if len(args) == 1 and isinstance(args[0], int):
                args, dim = (), args[0]
            first, *rest = _tensors("stack", (*self, *args))
            return first.stack(*rest, dim=dim, axis=axis)
        dim = dim if axis is None else axis
        tensors = self._together("stack", args)
        for tensor in tensors:
            if tensor.shape != self.shape:
                raise ShapeError(
                    f"stack: shapes {spell_shape(self.shape)} and {spell_shape(tensor.shape)} differ",
                    f"the first {self._made()}, the other {tensor._made()}",
                    "All tensors need one shape.",
                )
        return self._wrap(_along_first(tensors, self._new_axis("stack", dim).ndim, dim))

    @overload
    def cat(self, *args: Any, dim: int = 0, axis: int | None = None) -> Self: ...

    @overload
    def cat(  # type: ignore[misc]  # of a list, called as a function of the class
        self: list[Some] | tuple[Some, ...], *args: int, dim: int = 0, axis: int | None = None
    ) -> Some: ...

    def cat(self, *args: Any, dim: int = 0, axis: int | None = None) -> Any:
        """Tensors one after another along an axis. `cat([a, b], 1)` is `cat(a, b, dim=1)`."""
        if isinstance(self, list | tuple):
            if len(args) == 1 and isinstance(args[0], int):
                args, dim = (), args[0]
            first, *rest = _tensors("cat", (*self, *args))
            return first.cat(*rest, dim=dim, axis=axis)
        dim = dim if axis is None else axis
        tensors = self._together("cat", args)
        place = self._axis("cat", dim, scalars=False)
        for tensor in tensors:
            if tensor.ndim != self.ndim or _without(tensor, place) != _without(self, place):
                raise ShapeError(
                    f"cat: shapes {spell_shape(self.shape)} and {spell_shape(tensor.shape)} differ beside axis {place}",
                    f"the first {self._made()}, the other {tensor._made()}",
                    "All other sizes must be equal.",
                )
        filled = tuple(t for t in tensors if t.shape[place] != 0)
        if len(filled) <= 1:
            return self._wrap((filled or tensors)[0].uop)
        if all(tensor.shape == filled[0].shape for tensor in filled):
            return self._wrap(_along_first(filled, self.ndim + 1, place)).flatten(place, place + 1)
        return self._wrap(_joined([tensor.uop for tensor in filled], place))


def _tensors(name: str, given: tuple[Any, ...]) -> tuple[Any, ...]:
    """A list that a tensor can be made of: it has one, and begins with one."""
    if not given or not isinstance(given[0], Core):
        found = f"{given[0]!r:.60} is no tensor" if given else "there are no tensors"
        raise ArgumentError(f"{name}: {found}", fix=f"Give at least one: Tensor.{name}([a, b]).")
    return given


def _are_in_order(*sizes: Any) -> bool:
    return all(starmap(fits, pairwise(sizes)))


def _length(start: Any, end: Any) -> Any:
    """The size of a window that is in order now."""
    length = settled(end - start)
    return length if is_size_now(length) else larger(length, 0)


def _has_negative(sizes: Sequence[Any]) -> bool:
    return any(isinstance(size, int) and size < 0 for size in sizes)


def _is_window(pair: Any) -> bool:
    return (
        isinstance(pair, tuple | list)
        and len(pair) == 2
        and all(hasattr(end, "__index__") or isinstance(end, UOp) for end in pair)
    )


def _without(tensor: Core, axis: int) -> tuple[Any, ...]:
    return tensor.shape[:axis] + tensor.shape[axis + 1 :]


def _along_first(tensors: Sequence[Core], rank: int, dim: int) -> UOp:
    """A stack whose new axis stands at `dim`."""
    axis = dim % rank
    order = [*range(1, axis + 1), 0, *range(axis + 1, rank)]
    stacked = UOp.stack(*(tensor.uop for tensor in tensors))
    return stacked if axis == 0 else stacked.permute(tuple(order))


def _joined(parts: list[UOp], axis: int) -> UOp:
    """Parts one after another, a few in each kernel: every element of a kernel looks at all of its parts."""
    while len(parts) > MOST_TENSORS_A_KERNEL:
        firsts = range(0, len(parts), MOST_TENSORS_A_KERNEL)
        parts = [_beside(parts[first : first + MOST_TENSORS_A_KERNEL], axis).stage() for first in firsts]
    return _beside(parts, axis)


def _beside(parts: list[UOp], axis: int) -> UOp:
    """Each part padded to the whole axis, and for each position the part that it lies in; bits stay as they are."""
    total = sum(part.shape[axis] for part in parts)
    rank = len(parts[0].shape)
    shape = tuple(total if i == axis else size for i, size in enumerate(parts[0].shape))
    place = UOp.arange(total).reshape(tuple(total if i == axis else 1 for i in range(rank))).expand(shape)
    result: UOp | None = None
    end = total
    for part in reversed(parts):
        start = end - part.shape[axis]
        pads = [(0, 0)] * rank
        pads[axis] = (start, total - end)
        padded = part.pad(pads)
        result = padded if result is None else (place < end).where(padded, result)
        end = start
    assert result is not None, "at least one tensor is joined"
    return result
