"""An index as the user writes it, turned into one entry for each axis, everything checked.

Integers and symbolic integers, slices and None stay what they are. Integer tensors, lists and arrays become `Picked`,
bools and masks `Mask`, which stands for as many axes as it has. `...` becomes the slices that it means; where it means
none it stays, because by NumPy's rules it still keeps its neighbours apart.
"""

from __future__ import annotations

from typing import Any

from whit.dtype import dtypes
from whit.errors import ArgumentError, OutOfRangeError
from whit.ir.assumed import fits, is_size_now
from whit.ir.op import Shape, spell_shape, spell_size
from whit.ir.sizes import decided, is_size, larger, reach, settled, smaller, value_now
from whit.ir.uop import UOp, const
from whit.records import dataclass
from whit.tensor.core import Core, broadcast_scalar
from whit.tensor.graphs.positions import Places
from whit.tensor.methods.indexing.select import Selection


@dataclass(frozen=True, slots=True)
class Picked:
    """Positions on one axis."""

    places: Places
    shape: Shape


@dataclass(frozen=True, slots=True)
class Mask:
    """The positions where a mask holds, on as many axes as it has."""

    node: UOp
    count: int | None  # how many they are, if that is known


@dataclass(frozen=True, slots=True)
class Window:
    """A slice whose ends depend on variables: every step-th of `length` elements from `start` on, `count` in all."""

    start: Any
    length: Any
    count: Any
    step: int


def is_plain(entries: list[Any]) -> bool:
    """Whether an index is movement alone."""
    for entry in entries:  # noqa: SIM110  # a generator in `any` takes twice the time
        if type(entry) is Picked or type(entry) is Mask:
            return False
    return True


class Parsing(Selection):
    """Reading an index."""

    __slots__ = ()

    def _entries(self, name: str, index: Any) -> list[Any]:  # complex: every x[i] runs it, in a loop over entries
        """One entry for each axis, and those for new axes."""
        entries = list(index) if type(index) is tuple or isinstance(index, tuple) else [index]
        used = dots = 0
        for i, entry in enumerate(entries):
            kind = type(entry)
            if kind is int or kind is slice:
                used += 1
            elif entry is Ellipsis:
                dots += 1
            elif entry is not None:
                entries[i] = entry = self._special(name, entry)
                used += len(entry.node.shape) if type(entry) is Mask else 1
        if dots > 1:
            raise OutOfRangeError(f"{name}: ... stands {dots} times in the index", self._made(), "Use it once.")
        shape = self.uop.shape
        if used > len(shape):
            raise OutOfRangeError(
                f"{name}: {used} indices for the {len(shape)} axes of {spell_shape(shape)}",
                self._made(),
                "Give at most one for each axis.",
            )
        left = len(shape) - used
        if not dots:
            entries += [slice(None)] * left
        elif left:
            place = next(i for i, entry in enumerate(entries) if entry is Ellipsis)
            entries[place : place + 1] = [slice(None)] * left
        axis = 0
        for i, entry in enumerate(entries):
            if entry is None or entry is Ellipsis:
                continue
            entries[i] = self._checked(name, entry, axis)
            axis += len(entry.node.shape) if type(entry) is Mask else 1
        return entries

    def _special(self, name: str, entry: Any) -> Any:
        """Everything but integers, slices, None and `...`: an integer, a tensor of positions, an array, or a Mask."""
        if isinstance(entry, Core):
            if entry.dtype.is_bool:
                self._one_device(name, entry)
                return Mask(entry.uop, None)
            if entry.dtype.is_int:
                return entry
            raise ArgumentError(
                f"{name}: a tensor of {entry.dtype.name} is no index",
                f"the tensor {self._made()}, the index {entry._made()}",
                "Index with integers, or with a mask of bools.",
            )
        if isinstance(entry, bool):
            return Mask(const(dtypes.bool, entry), int(entry))
        if isinstance(entry, UOp):
            if entry.dtype.is_int and not entry.shape:
                return entry
        elif isinstance(entry, list | tuple | range) or hasattr(entry, "__array__"):
            return self._array_entry(name, entry)
        elif isinstance(entry, slice):
            return entry
        elif hasattr(entry, "__index__"):
            return entry.__index__()
        raise ArgumentError(
            f"{name}: {entry!r:.80} is no index, it is a {type(entry).__name__}",
            self._made(),
            "Use integers, slices, None, ..., or tensors and lists of integers or bools.",
        )

    def _array_entry(self, name: str, entry: Any) -> Any:
        """A list, a tuple inside of the index, or an array."""
        import numpy as np  # lazy: `import whit` must not load it

        try:
            array = np.asarray(entry)
        except ValueError:
            raise ArgumentError(
                f"{name}: lists in an index are not of one length", self._made(), "Pad them to one length."
            ) from None
        if not array.size and not hasattr(entry, "dtype"):
            array = array.astype(np.int64)
        if array.dtype.kind == "b":
            return Mask(self._array(array), int(array.sum()))
        if array.dtype.kind not in "iu":
            raise ArgumentError(
                f"{name}: {entry!r:.80} is no index, it holds {array.dtype}",
                self._made(),
                "Index with integers, or with a mask of bools.",
            )
        return int(array) if array.ndim == 0 else array

    def _checked(self, name: str, entry: Any, axis: int) -> Any:
        """An entry that fits the axis it stands for."""
        size: Any = self.uop.shape[axis] if axis < len(self.uop.shape) else None
        if type(entry) is int:
            if isinstance(size, int) and not -size <= entry < size:
                raise OutOfRangeError(
                    f"{name}: {entry} is outside axis {axis} of {spell_shape(self.shape)}",
                    self._made(),
                    f"Positions go from {-size} to {size - 1}." if size else "The axis is empty.",
                )
            if not isinstance(size, int):
                return self._checked_symbol(name, _symbol(entry), axis)
            return entry if entry >= 0 else entry + size
        if type(entry) is slice:
            return self._checked_slice(name, entry, axis, size)
        if type(entry) is Mask:
            return self._checked_mask(name, entry, axis)
        if isinstance(entry, UOp):
            return self._checked_symbol(name, entry, axis)
        places, shape = self._places(name, entry, axis)
        return Picked(places, shape)

    def _checked_slice(self, name: str, entry: slice, axis: int, size: Any) -> slice | Window:
        parts = [entry.start, entry.stop, entry.step]
        for i, part in enumerate(parts):
            if part is None or type(part) is int or isinstance(part, UOp):
                continue
            if not hasattr(part, "__index__"):
                raise ArgumentError(
                    f"{name}: {part!r} in a slice is a {type(part).__name__}",
                    self._made(),
                    "Slices are made of integers.",
                )
            parts[i] = part.__index__()
        entry = slice(*parts)
        if isinstance(entry.step, int) and entry.step == 0:
            raise ArgumentError(f"{name}: the step of a slice is 0", self._made(), "Use a positive or negative one.")
        if entry == slice(None) or not (isinstance(size, UOp) or any(isinstance(part, UOp) for part in parts)):
            return entry
        return self._window(name, entry, axis, size)

    def _window(self, name: str, entry: slice, axis: int, size: Any) -> Window:
        """A slice with symbolic ends, or of a symbolic axis. Ends that are numbers mean the end of the axis where they
        lie outside; those with variables must be inside with the values that these have now."""
        step = 1 if entry.step is None else entry.step
        if isinstance(step, UOp):
            raise ArgumentError(f"{name}: the step of a slice is symbolic", self._made(), "Use an integer.")
        first, last = (0, size) if step > 0 else (size - 1, -1)
        start = first if entry.start is None else self._from_start(name, entry.start, axis, size)
        stop = last if entry.stop is None else self._from_start(name, entry.stop, axis, size)
        low, high = (start, stop) if step > 0 else (stop + 1, start + 1)
        given = (entry.start, entry.stop) if step > 0 else (entry.stop, entry.start)
        if value_now(settled(low + high + size)) is None:  # a variable has no value: for all of them
            begin = smaller(larger(low, 0), size)
            length = larger(smaller(high, size) - begin, 0)
        else:
            begin, end = (
                place if isinstance(part, UOp) else smaller(larger(place, 0), size)
                for place, part in zip((low, high), given, strict=True)
            )
            length = settled(end - begin)
            if isinstance(entry.start, UOp) or isinstance(entry.stop, UOp):
                self._check_window(name, axis, begin, end)
            if not is_size_now(length):
                length = larger(length, 0)
        return Window(begin, length, settled(-(-length // abs(step))), step)

    def _check_window(self, name: str, axis: int, start: Any, stop: Any) -> None:
        """A window with symbolic ends is inside the axis now."""
        size = self.uop.shape[axis]
        if fits(0, start) and fits(start, stop) and fits(stop, size):
            return
        text = f"{spell_size(settled(start))} to {spell_size(settled(stop))}"
        now = f"{value_now(start)} to {value_now(stop)} of {value_now(size)}"
        raise OutOfRangeError(
            f"{name}: {text} is not inside axis {axis} of {spell_shape(self.shape)}",
            f"now it is {now}; the tensor {self._made()}",
            "The ends of a slice that depend on variables must be in order and inside. Bind values that fit.",
        )

    def _from_start(self, name: str, position: Any, axis: int, size: Any) -> Any:
        """A position that counts from either end, as one that counts from the start. If it may be negative, it must
        not be so now."""
        is_from_end = decided(position < 0) if isinstance(position, UOp) else position < 0
        if is_from_end is None and not fits(0, position):
            low, high = reach(position)
            text = position.expression()
            raise OutOfRangeError(
                f"{name}: {text} on axis {axis} of {spell_shape(self.shape)} may count from the start or from the end",
                f"it lies between {low} and {high}; the tensor {self._made()}",
                f"Write {spell_size(size)} + ({text}) to count from the end, or give its variables other bounds.",
            )
        return position + size if is_from_end else position

    def _checked_symbol(self, name: str, entry: UOp, axis: int) -> Any:
        size = self.uop.shape[axis]
        if entry.dtype is not dtypes.weakint or not is_size(entry):
            raise ArgumentError(
                f"{name}: {entry.expression(20)} is no index, it is no number made of variables",
                self._made(),
                "Index with a tensor of integers.",
            )
        place = settled(self._from_start(name, entry, axis, size))
        if not (fits(0, place) and fits(place + 1, size)):
            now = value_now(place)
            is_open = now is None
            low, high = reach(place)
            raise OutOfRangeError(
                f"{name}: {entry.expression()} {'may be' if is_open else 'is'} outside axis {axis} of "
                f"{spell_shape(self.shape)}",
                self._made(),
                f"It lies between {low} and {high}. Give its variables bounds that fit."
                if is_open
                else f"It is {now} of {value_now(size)} now. Bind values that fit.",
            )
        return place

    def _checked_mask(self, name: str, mask: Mask, axis: int) -> Mask:
        """The mask, if it has the sizes of the axes. One of size 0 may stand for any size, and holds nowhere: NumPy,
        and the Array API standard."""
        mine = self.uop.shape[axis : axis + len(mask.node.shape)]
        given = mask.node.shape
        if given == mine:
            return mask
        is_empty = 0 in given and len(given) == len(mine)
        if not is_empty or any(size not in (0, other) for size, other in zip(given, mine, strict=True)):
            raise OutOfRangeError(
                f"{name}: a mask {spell_shape(given)} for axes of sizes {spell_shape(mine)}",
                self._made(),
                "A mask has the sizes of the axes it stands for.",
            )
        return Mask(broadcast_scalar(const(dtypes.bool, False), mine), 0)

    def _counted_mask(self, mask: Mask) -> int:
        """How many positions a mask has; computed, if that is not known."""
        return mask.count if mask.count is not None else self._counted("getitem", self._wrap(mask.node), None)


def _symbol(value: Any) -> UOp:
    return value if isinstance(value, UOp) else const(dtypes.weakint, value)
