"""`x[...]` on both sides of `=`, by NumPy's rules.

Integers, slices, None and `...` are movement: at most one SHRINK, FLIP, PAD and two RESHAPEs. What they give is a view.
A step other than 1 cuts each axis into pieces of that size and keeps the first element of each.

Integer tensors, lists and masks are positions: one INDEX reads them, one STORE writes them. What they give is a copy.
Their axes come first, those of the shape that they broadcast to in their place:

    x[2:, i, j]     view of x[2:], axes of i and j to the front, index(i, j), common axes to where i and j stood
    x[i, 2:, j]     the same, but where they do not stand side by side, their axes stay in front
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, Self

from whit.engine.devices.device import is_disk
from whit.errors import ArgumentError, ShapeError
from whit.ir import ops
from whit.ir.op import Op, Shape, spell_shape
from whit.ir.uop import UOp
from whit.records import dataclass
from whit.tensor.core import Core, expand_to, join_shapes
from whit.tensor.graphs.positions import both, moved_axes, nonzero_places, rank_of, taken
from whit.tensor.methods.data.assign import fitted
from whit.tensor.methods.indexing.entries import Mask, Parsing, Picked, Window, is_plain
from whit.tensor.methods.readings import check_not_unpacked


@dataclass(frozen=True, slots=True)
class _Target:
    """A view whose first axes are indexed: `index(*positions)` of it has the shape `common + rest`."""

    view: UOp
    positions: tuple[UOp, ...]
    gate: UOp | None
    common: int  # how many axes the positions have
    place: int  # where these axes stand in the result

    def shown(self, node: UOp) -> UOp:
        """The axes of positions, which are the first ones of a node, where they belong."""
        rest = len(node.shape) - self.common
        first, others = list(range(self.common)), list(range(self.common, self.common + rest))
        return moved_axes(node, [*others[: self.place], *first, *others[self.place :]])

    def stored(self, node: UOp) -> UOp:
        """The opposite."""
        axes = list(range(len(node.shape)))
        first = axes[self.place : self.place + self.common]
        return moved_axes(node, [*first, *axes[: self.place], *axes[self.place + self.common :]])


class Subscripts(Parsing):
    """Reading and writing parts."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Self:
        entries = self._entries("getitem", index)
        if is_plain(entries):
            return self._view(picked(self.uop, entries))
        target = self._target(entries)
        return self._wrap(target.shown(taken(target.view, target.positions, target.gate)))

    def __setitem__(self, index: Any, value: Any) -> None:
        if is_disk(self.uop.device):
            self[index]._write_file("setitem", value)
            return
        self._put("setitem", index, value, None)

    def __iter__(self) -> Iterator[Self]:
        if not self.shape:
            raise ArgumentError("iter: a tensor of shape () has no elements to go through", self._made(), "Use item().")
        check_not_unpacked(self)
        return (self[i] for i in range(len(self)))

    def index_put(self, indices: Any, values: Any, accumulate: bool = False) -> Self:
        """A copy with values at an index; accumulate: added to what is there, as often as a position is named."""
        result = self._wrap(self.uop)
        result._put("index_put", tuple(indices), values, ops.ADD if accumulate else None)
        return result

    def _put(self, name: str, index: Any, value: Any, combine: Op | None) -> None:
        entries = self._entries(name, index)
        if combine is not None and self.dtype.is_bool:
            combine = ops.OR
        if is_plain(entries):
            target = picked(self.uop, entries)
            if isinstance(value, Core) and value.uop is target and combine is None:
                return  # what `x[i] += y` ends with: the view was written to already
            node = self._value_to_write(name, value).cast(self.dtype)
            self._write(name, target, fitted(name, self, node, target.shape), combine=combine)
            return
        node = self._value_to_write(name, value).cast(self.dtype)
        if combine is None and self._put_by_mask(name, entries, node):
            return
        goal = self._target(entries)
        shape = goal.shown(goal.view.index(*goal.positions)).shape
        stored = goal.stored(fitted(name, self, node, shape))
        self._write(name, goal.view, stored, goal.positions, combine, goal.gate)

    def _target(self, entries: list[Any]) -> _Target:
        """The view and the positions that entries with tensors, lists or masks among them mean."""
        basic: list[Any] = []
        chosen: list[Any] = []  # (axis of the view, positions, gate)
        shapes: list[Shape] = []
        rest: list[int] = []
        for entry in entries:
            if entry is Ellipsis:
                continue
            if _is_kept(entry):
                rest.append(len(rest) + len(chosen))
            if not isinstance(entry, Picked | Mask):
                basic.append(entry)
                continue
            shape, positions = self._positions(entry)
            shapes.append(shape)
            for node, gate in positions:
                chosen.append((len(rest) + len(chosen), node, gate))
                basic.append(slice(None))
        common = self._common(shapes)
        view = picked(self.uop, basic)
        if not chosen:  # only masks of shape ()
            view = view.reshape((1, *view.shape))
            rest = [axis + 1 for axis in rest]
            chosen.append((0, UOp.arange(common[0]), None))
        view = moved_axes(view, [*(axis for axis, _, _ in chosen), *rest])
        places = tuple(expand_to(node, common) for _, node, _ in chosen)
        gate = both(*(None if gate is None else expand_to(gate, common) for _, _, gate in chosen))
        return _Target(view, places, gate, len(common), _place_of_positions(entries))

    def _positions(self, entry: Picked | Mask) -> tuple[Shape, list[tuple[UOp, UOp | None]]]:
        """Their shape, and for each axis that the entry stands for the positions on it, with their gate."""
        if isinstance(entry, Picked):
            return entry.shape, [(entry.places.node, entry.places.gate)]
        count = self._counted_mask(entry)
        nodes = nonzero_places(entry.node, count) if count else [UOp.arange(0)] * len(entry.node.shape)
        return (count,), [(node, None) for node in nodes]

    def _common(self, shapes: list[Shape]) -> Shape:
        result: Shape | None = ()
        for shape in shapes:
            result = join_shapes(result or (), shape) if result is not None else None
        if result is None:
            listed = " and ".join(spell_shape(shape) for shape in shapes)
            raise ShapeError(
                f"index: shapes {listed} of index tensors do not broadcast",
                self._made(),
                "Together they name one position for each element. For a grid, reshape them to (n, 1) and (m,).",
            )
        return result

    # ---- masks on the left

    def _put_by_mask(self, name: str, entries: list[Any], value: UOp) -> bool:
        """x[mask] = value, where nothing but slices stands beside the mask: no positions are needed."""
        place = _place_of_only_mask(entries)
        if place is None:
            return False
        mask = entries[place].node
        basic = [entry for entry in entries[:place] if entry is not Ellipsis]
        before = len(basic)
        basic += [slice(None)] * len(mask.shape)
        basic += [entry for entry in entries[place + 1 :] if entry is not Ellipsis]
        view = picked(self.uop, basic)
        after = len(view.shape) - before - len(mask.shape)
        shape = value.shape
        while len(shape) > before + 1 + after and shape[0] == 1:
            shape = shape[1:]
        padded = (1,) * (before + 1 + after - len(shape)) + shape
        if len(padded) != before + 1 + after:
            return False  # the general way finds what is wrong
        gate = mask.reshape((*(1,) * before, *mask.shape, *(1,) * after))
        node = value.reshape(padded) if value.shape != padded else value
        if padded[before] == 1:
            node = node.reshape((*padded[:before], *(1,) * len(mask.shape), *padded[before + 1 :]))
        else:
            self._check_count(name, entries[place], padded[before])
            node = _spread_out(node, mask, before)
        node = fitted(name, self, node, view.shape)
        self._write(name, view, node, gate=expand_to(gate, view.shape))
        return True

    def _check_count(self, name: str, mask: Mask, given: int) -> None:
        count = self._counted_mask(mask)
        if given != count:
            raise ShapeError(
                f"{name}: {given} values where the mask holds {count} times",
                self._made(),
                "Give one value for each, or one for all.",
            )


def _place_of_only_mask(entries: list[Any]) -> int | None:
    """Where a mask of one axis or more stands, if nothing but slices, None and `...` stands beside it."""
    others = [i for i, entry in enumerate(entries) if not _is_kept(entry)]
    if len(others) != 1:
        return None
    (place,) = others
    entry = entries[place]
    return place if isinstance(entry, Mask) and entry.node.shape else None


def _place_of_positions(entries: list[Any]) -> int:
    """Where the axes of positions and integers stand among the others: in their place, or first if they are apart.
    `...` that stands for no axes only keeps its neighbours apart."""
    are_kept = [_is_kept(entry) for entry in entries]
    first, end = are_kept.index(False), len(entries) - are_kept[::-1].index(False)
    if any(are_kept[first:end]):
        return 0
    return sum(entry is not Ellipsis for entry in entries[:first])


def _is_kept(entry: Any) -> bool:
    """Whether an entry stands for axes of the result as they are: slices, None and `...`."""
    return entry is None or entry is Ellipsis or isinstance(entry, slice | Window)


def _spread_out(values: UOp, mask: UOp, axis: int) -> UOp:
    """Values along an axis put, in order, where a mask holds; its axes replace that one."""
    first = moved_axes(values, [axis, *(i for i in range(len(values.shape)) if i != axis)])
    found = first.index(rank_of(mask), gate=mask)
    count = len(mask.shape)
    rest = list(range(count, len(found.shape)))
    return moved_axes(found, [*rest[:axis], *range(count), *rest[axis:]])


def picked(node: UOp, entries: list[Any]) -> UOp:
    """The elements that checked integers, slices and None name."""
    windows: list[tuple[Any, Any]] = []
    flips: list[int] = []
    steps: list[tuple[Any, int]] = []
    shape: list[Any] = []
    sizes = iter(enumerate(node.shape))
    for entry in entries:
        if entry is None:
            shape.append(1)
            continue
        if entry is Ellipsis:
            continue
        axis, size = next(sizes)
        window = _window(entry, size)
        windows.append((window.start, window.length))
        steps.append((window.count, abs(window.step)))
        if window.step < 0:
            flips.append(axis)
        if isinstance(entry, Window | slice):
            shape.append(window.count)
    if any(window != (0, size) for window, size in zip(windows, node.shape, strict=True)):
        node = node.shrink(windows)
    if flips:
        node = node.flip(tuple(flips))
    node = _every(node, steps)
    return node if node.shape == tuple(shape) else node.reshape(tuple(shape))


_ALL = slice(None)


def _window(entry: Any, size: Any) -> Window:
    """What an integer, a slice or a window shows of an axis."""
    if isinstance(entry, Window):
        return entry
    if not isinstance(entry, slice):
        return Window(entry, 1, 1, 1)
    if entry == _ALL:  # also where the size is symbolic
        return Window(0, size, size, 1)
    positions = range(size)[entry]
    count, step = len(positions), positions.step
    if count < 2:
        return Window(positions[0] if count else 0, count, count, 1)
    return Window(min(positions[0], positions[-1]), (count - 1) * abs(step) + 1, count, step)


def _every(node: UOp, steps: list[tuple[Any, int]]) -> UOp:
    """(count, step) for each axis: its elements 0, step, 2*step ... The last piece is padded; that is never read."""
    if all(step == 1 for _, step in steps):
        return node
    node = node.pad([(0, count * step - size) for size, (count, step) in zip(node.shape, steps, strict=True)])
    node = node.reshape(tuple(chain.from_iterable(steps)))
    return node.shrink([(0, 1 if i % 2 else size) for i, size in enumerate(node.shape)])
