"""Values and the places that data names for them: a STORE with positions, read for the passes that rewrite it.

    store(place, v, rows)      v (1000, 4), rows (1000,)      ->      positions rows[i], j for each i < 1000, j < 4;
                                                                      1000 may meet in one place, in rows of 4

There is a position on every axis then, each over the whole shape of the value.
"""

from __future__ import annotations

from math import prod

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.op import Op
from whit.ir.uop import UOp, const
from whit.records import dataclass
from whit.schedule.movement import Position, ranges_over, source_position
from whit.schedule.writes.effects import memory_of_value, picked_shape
from whit.schedule.writes.footprint import distinct_ranges

Shape = tuple[int, ...]
COUNTING = (dtypes.weakint, dtypes.int32, dtypes.int64)  # what keeps positions that differ apart


@dataclass(frozen=True, slots=True)
class Scatter:
    """Values, where they go, and how many can meet."""

    value: UOp
    positions: tuple[UOp, ...]  # on all axes of the target
    gate: UOp | None  # nothing is written where it is false
    shape: Shape  # of the target
    ordered: int  # values that may meet in one place
    has_rows: bool  # whether the values beside each of these, which do not meet, go the same way

    @classmethod
    def of(cls, store: UOp) -> Scatter | None:
        """None if there are no positions, or sizes are not known."""
        target, value, *positions = store.src
        picked = picked_shape(positions)  # of the gate, too
        gate = positions.pop() if store.arg.gated else None
        shape = picked + target.shape[len(positions) :]
        if not positions or not all(isinstance(size, int) for size in (*shape, *target.shape)):
            return None
        _, where = ranges_over(shape)
        full = _on_all_axes(positions, len(picked), shape)
        counted = [_counted(p, where) for p in full]
        apart = distinct_ranges(tuple(i for i in counted if i is not None))
        wide = prod(size for size, i in zip(shape, where, strict=True) if i in apart)
        data = [p for p, i in zip(full, counted, strict=True) if i is None]
        has_rows = all(apart.isdisjoint(_ranges_of(p, where)) for p in data)
        if gate is not None:
            gate = broadcast_leading(gate, shape)
        ordered = prod(shape) // max(wide, 1)
        return cls(broadcast_leading(value, shape), tuple(full), gate, target.shape, ordered, has_rows)

    def combined(self, start: UOp, value: UOp, op: Op, *first: UOp) -> UOp:
        """Other values at the positions, combined with what they start from; `first` is a position before those."""
        return start.after(memory_of_value(start).store(value, *first, *self.positions, combine=op, gate=self.gate))


def _on_all_axes(positions: list[UOp], picked: int, shape: Shape) -> list[UOp]:
    """Positions over a whole shape, and behind them those of its axes that data says nothing about."""
    return [
        *[broadcast_leading(p, shape) for p in positions],
        *[_along(shape, axis) for axis in range(picked, len(shape))],
    ]


def broadcast_leading(value: UOp, shape: Shape) -> UOp:
    """A value over the first axes of a shape, or a scalar, at every place of it."""
    if value.shape == shape:
        return value
    return value.reshape((*value.shape, *[1] * (len(shape) - len(value.shape)))).expand(shape)


def zeros(value: UOp, shape: Shape) -> UOp:
    """Of the dtype of a value."""
    return broadcast_leading(const(value.dtype, 0), shape)


def _along(shape: Shape, axis: int) -> UOp:
    alone = tuple(size if i == axis else 1 for i, size in enumerate(shape))
    return UOp.arange(shape[axis]).reshape(alone).expand(shape)


def _counted(node: UOp, position: Position) -> UOp | None:
    """A number that counts along axes, at a position; None if it is data."""
    while node.op in ops.MOVEMENT or (node.op is ops.CAST and node.dtype in COUNTING):
        if node.op in ops.MOVEMENT:
            position, valid = source_position(node, position)
            if valid is not None:
                return None
        node = node.src[0]
    return position[0] if node.op is ops.ARANGE else None


def _ranges_of(node: UOp, position: Position) -> set[UOp]:
    """The ranges that a value depends on at a position, as far as they can be told without its memory."""
    found: set[UOp] = set()
    stack = [(node, position)]
    seen = set(stack)
    while stack:
        node, position = stack.pop()
        if node.op in ops.MOVEMENT:
            below = [(node.src[0], source_position(node, position)[0])]
        elif node.op in ops.ELEMENTWISE and all(s.shape in ((), node.shape) for s in node.src):
            below = [(s, position if s.shape else ()) for s in node.src]
        else:
            below = []
            found.update(r for i in position for r in i.topological() if r.op is ops.RANGE)
        stack += [one for one in below if one not in seen]
        seen.update(below)
    return found
