"""Values one after the other in one memory: each is computed where it lies in the end, and nothing is copied.

Goes in: the stores of an AFTER whose targets are windows of a flat memory, one after the other, all of it together.
Comes out: a *join*, an AFTER on a placeholder, since what was there before is not read.

    after(zeros(9), store(shrink (0, 6), stage(a @ b)), store(shrink (6, 3), stage(p4)))
        kernel 1    a @ b, written to elements 0 .. 5 of the memory
        kernel 2    all parts that only show memory or numbers, with a loop for each size

A kernel gets its window as an argument, so that equal kernels are one, wherever their results lie.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from whit.ir import ops
from whit.ir.uop import UOp, make
from whit.records import dataclass
from whit.schedule.lower import Lowering, read_value
from whit.schedule.movement import ZERO, Position, reshape_position
from whit.schedule.values import is_join, prod_of

SAME_ORDER = (ops.RESHAPE, ops.STAGE)
SHOWS = (*ops.MOVEMENT, ops.STAGE, ops.CAST, *ops.SAME_VALUE)
MEMORY = (ops.PARAM, ops.BUFFER)


def as_join(stores: Sequence[UOp]) -> UOp | None:
    """The join that stores are, if all of their values are stored anyway."""
    memory = stores[0].src[0]
    while memory.op in ops.MOVEMENT:
        memory = memory.src[0]
    end = 0
    parts: list[UOp] = []
    for store in stores:
        target, value, *others = store.src
        window = _window(target, memory)
        if window is None or others or store.arg.combine is not None or value.shape != target.shape:
            return None
        start, size = window
        if start != end or value.dtype is not memory.dtype:
            return None
        is_stored = False
        while value.op in SAME_ORDER and len(value.src) == 1:
            is_stored = is_stored or value.op is ops.STAGE
            value = value.src[0]
        if not is_stored:
            return None
        parts.append(memory.shrink([window]).reshape(value.shape).store(value))
        end = start + size
    return make(ops.AFTER, (memory, *parts)) if memory.shape == (end,) else None


def _window(target: UOp, memory: UOp) -> tuple[int, int] | None:
    """The part of a flat memory that a target shows in its order."""
    while target.op is ops.RESHAPE:
        target = target.src[0]
    if target.op is not ops.SHRINK or target.src != (memory,) or len(memory.shape) != 1:
        return None
    ((start, size),) = target.arg
    return start, size


@dataclass(frozen=True, slots=True)
class JoinPart:
    """One value of a join."""

    start: int
    value: UOp
    along: UOp  # the position in the part: a range that parts of one size share

    @property
    def position(self) -> Position:
        """The position in the value."""
        return reshape_position(self.value.shape, (prod_of(self.value.shape),), (self.along,))

    def window(self, memory: UOp) -> UOp:
        """Where it lies in the memory of the join."""
        return memory.shrink([(self.start, prod_of(self.value.shape))]).reshape(self.value.shape)


def parts_of(join: UOp) -> list[JoinPart]:
    """The parts that have elements."""
    ranges: dict[Any, UOp] = {1: ZERO}
    found = []
    for store in join.src[1:]:
        target, value = store.src
        ((start, count),) = target.src[0].arg
        if count:
            found.append(JoinPart(start, value, ranges.setdefault(count, UOp.range(count, len(ranges)))))
    return found


def is_shown(value: UOp, stored: Container[UOp]) -> bool:
    """Whether a value is a view of memory or of a number, and no kernel's own: reading it is all there is to do."""
    if value in stored:
        return False
    while value.op in SHOWS and value not in stored:
        value = value.src[0]
    return value.op in MEMORY or value.op is ops.CONST or value in stored


def to_compute(join: UOp, stored: Container[UOp]) -> list[UOp]:
    """The values that get kernels of their own."""
    return [part.value for part in parts_of(join) if not is_shown(part.value, stored)]


def lower_join(join: UOp, lowering: Lowering) -> UOp:
    """An element of each part."""
    elements = []
    for part in parts_of(join):
        if is_shown(part.value, lowering.stored):
            elements.append(lowering.lower(part.value, (part.along,), part.position))
        else:
            elements.append(read_value(part.value, part.position))
    return UOp.group(*elements)


def put_inside(joins: Iterable[UOp], memory: Mapping[UOp, UOp], taken: Container[UOp]) -> dict[UOp, UOp]:
    """For the memory of values that are in no other place already: the window of a join that it is."""
    inside: dict[UOp, UOp] = {}
    for join in joins:
        for part in parts_of(join):
            own = memory.get(part.value)
            if own is not None and own not in inside and part.value not in taken and not is_join(part.value):
                inside[own] = part.window(memory[join])
    return inside


def stores_of(join: UOp, elements: UOp, memory: Mapping[UOp, UOp], inside: Mapping[UOp, UOp]) -> list[UOp]:
    """What is left to write: the parts that do not lie in the memory of the join."""
    target = memory[join]
    stores = []
    for part, element in zip(parts_of(join), elements.src, strict=True):
        own = memory.get(part.value)
        if own is None or inside.get(own) is not part.window(target):
            stores.append(target.store(element, part.along + part.start))
    return stores
