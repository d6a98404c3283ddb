"""Movement ops as index arithmetic.

Goes in: a movement op and the position asked of its result, one index expression an axis. Comes out: the position asked
of its source, and for a PAD the condition under which that position exists.

    permute (1, 0) at (r0, r1)            ->  (r1, r0)
    reshape (8,) from (2, 4) at (r0)      ->  (r0//4, r0%4)
    pad (2, 1) of size 5 at (r0)          ->  (r0 - 2), valid where 1 < r0 < 7
"""

from __future__ import annotations

from math import prod
from typing import Any

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.args import RangeKind
from whit.ir.nesting import Owner
from whit.ir.sizes import same_size, settled
from whit.ir.uop import UOp, as_index, const
from whit.simplify import simplify

Position = tuple[UOp, ...]

ZERO = const(dtypes.weakint, 0)


def new_range(size: int | UOp, id: int, kind: RangeKind = RangeKind.LOOP, owner: Owner = Owner.OUTPUT) -> UOp:
    """A range of a simplified size, so that no position in which it stands makes another one of it."""
    return UOp.range(size if isinstance(size, int) else simplify(size), id, kind, owner)


def ranges_over(shape: tuple[Any, ...], first_id: int = 0) -> tuple[tuple[UOp, ...], Position]:
    """A range for each axis that is longer than 1, and the position of an element by them."""
    ranges: list[UOp] = []
    position: list[UOp] = []
    for axis, size in enumerate(shape):
        if size == 1:
            position.append(ZERO)
        else:
            ranges.append(new_range(size, first_id + axis))
            position.append(ranges[-1])
    return tuple(ranges), tuple(position)


# (op, shape of the source, argument, symbolic sizes, position) -> what `source_position` says
Positions = dict[tuple[Any, ...], tuple[Position, UOp | None]]


def source_position(node: UOp, position: Position, known: Positions | None = None) -> tuple[Position, UOp | None]:
    """Where a movement op reads its source, and the condition under which it does. `known` is what was asked before:
    equal layers ask the same, and a kernel is often lowered several times."""
    if known is None:
        return _source_position(node, position)
    value, *symbolic = node.src
    key = (node.op, value.shape, node.arg, tuple(symbolic), position)
    found = known.get(key)
    if found is None:
        found = known[key] = _source_position(node, position)
    return found


def _source_position(node: UOp, position: Position) -> tuple[Position, UOp | None]:
    (value, *_), sizes = node.src, node.sizes
    if node.op is ops.PERMUTE:
        back = [ZERO] * len(position)
        for axis, i in zip(node.arg, position, strict=True):
            back[axis] = i
        return tuple(back), None
    if node.op is ops.EXPAND:
        stored = (
            ZERO if old == 1 and new != 1 else i for i, old, new in zip(position, value.shape, sizes, strict=True)
        )
        return tuple(stored), None
    if node.op is ops.SHRINK:
        return tuple(_plus(i, start) for i, (start, _) in zip(position, sizes, strict=True)), None
    if node.op is ops.FLIP:
        return _flip(node, position), None
    if node.op is ops.PAD:
        return _pad(value.shape, sizes, position)
    return reshape_position(value.shape, node.shape, position), None


def view_position(view: UOp, position: Position) -> tuple[Position, UOp | None]:
    """The other way round: where a view that shows each element at most once shows the element at this position of its
    source, and the condition under which it does."""
    (value, *_), sizes = view.src, view.sizes
    if view.op is ops.PERMUTE:
        return tuple(position[axis] for axis in view.arg), None
    if view.op is ops.SHRINK:
        lengths = tuple(length for _, length in sizes)
        rests = zip(sizes, value.shape, strict=True)
        pads = tuple((start, 0 if start == 0 and length is size else 1) for (start, length), size in rests)
        return _pad(lengths, pads, position)
    if view.op is ops.FLIP:
        return _flip(view, position), None
    if view.op is ops.PAD:
        return tuple(_plus(i, before) for i, (before, _) in zip(position, sizes, strict=True)), None
    if view.op is ops.EXPAND:
        return position, None
    return reshape_position(view.shape, value.shape, position), None


def _plus(i: UOp, offset: Any) -> UOp:
    return i if isinstance(offset, int) and offset == 0 else simplify(i + as_index(offset))


def _flip(node: UOp, position: Position) -> Position:
    (value,) = node.src
    flipped = list(position)
    for axis in node.arg:
        flipped[axis] = simplify(as_index(value.shape[axis]) - 1 - position[axis])
    return tuple(flipped)


def _pad(sizes: tuple[Any, ...], pads: tuple[Any, ...], position: Position) -> tuple[Position, UOp | None]:
    """The position without what was padded before each axis, and whether it is inside of the sizes."""
    inner: list[UOp] = []
    valid: UOp | None = None
    for i, size, (before, after) in zip(position, sizes, pads, strict=True):
        place = _plus(i, -before if isinstance(before, int) else before * -1)
        inner.append(place)
        checks = []
        if not (isinstance(before, int) and before == 0):
            checks.append(place >= 0)
        if not (isinstance(after, int) and after == 0):
            checks.append(place < as_index(size))
        for check in checks:
            valid = check if valid is None else valid & check
    return tuple(inner), None if valid is None else simplify(valid)


def reshape_position(old: tuple[Any, ...], new: tuple[Any, ...], position: Position) -> Position:
    """The position in shape `old` of the element at `position` in shape `new`.

    Axes are matched in groups of equal size, so that a reshape that only splits or merges one axis touches no other.
    """
    result: list[UOp] = []
    start_old = start_new = 0
    for end_old, end_new in _groups(old, new):
        sizes_old, sizes_new = old[start_old:end_old], new[start_new:end_new]
        places = position[start_new:end_new]
        if sizes_old == sizes_new:
            result.extend(places)
        else:
            result.extend(_unflatten(flat_position(places, sizes_new), sizes_old))
        start_old, start_new = end_old, end_new
    return tuple(result)


def _groups(old: tuple[Any, ...], new: tuple[Any, ...]) -> list[tuple[int, int]]:
    """Ends of the smallest runs of axes with equal products: (6, 4), (2, 3, 4) -> [(1, 2), (2, 3)]."""
    if not all(isinstance(size, int) for size in (*old, *new)):
        return _symbolic_groups(old, new)
    ends: list[tuple[int, int]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        a, b = 1, 1
        first = True
        while first or a != b:
            first = False
            if j == len(new) or (i < len(old) and a <= b):
                if i == len(old):
                    return [*ends, (len(old), len(new))]
                a, i = a * old[i], i + 1
            else:
                b, j = b * new[j], j + 1
        ends.append((i, j))
    return ends


def _symbolic_groups(old: tuple[Any, ...], new: tuple[Any, ...]) -> list[tuple[int, int]]:
    """The same by products that are settled: (2, n, 6), (2*n, 2, 3) -> [(2, 1), (3, 3)]."""
    products = [[settled(prod(shape[:end])) for end in range(len(shape) + 1)] for shape in (old, new)]
    ends: list[tuple[int, int]] = []
    done = 0
    for i in range(1, len(old) + 1):
        fitting = [j for j in range(done + 1, len(new) + 1) if same_size(products[0][i], products[1][j])]
        if fitting:
            done = fitting[0]
            ends.append((i, done))
    if not ends or ends[-1] != (len(old), len(new)):
        ends = [*ends[:-1], (len(old), len(new))]
    return ends


def flat_position(position: Position, sizes: tuple[Any, ...]) -> UOp:
    """The number of an element in row-major order."""
    flat = ZERO
    for i, size in zip(position, sizes, strict=True):
        flat = flat * as_index(size) + i
    return simplify(flat)


def _unflatten(flat: UOp, sizes: tuple[Any, ...]) -> list[UOp]:
    places: list[UOp] = []
    for axis in reversed(range(len(sizes))):
        size = sizes[axis]
        if all(before == 1 for before in sizes[:axis]) and not isinstance(size, int):
            places.append(flat)  # what is left is below it
        else:
            places.append(ZERO if size == 1 else simplify(flat % as_index(size)))
        flat = ZERO if isinstance(size, UOp) and places[-1] is flat else simplify(flat // as_index(size))
    return places[::-1]
