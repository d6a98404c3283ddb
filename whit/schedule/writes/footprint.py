"""Where a store or a read goes in its memory, and whether two of them can meet.

A position is one index expression an axis. Along an axis it goes from `low` to `high` in steps, counted from a symbolic
offset, if it has one. Two boxes are apart if on some axis their intervals or their residues are.

    shrink (2, 3) at (r0)        ->  (r0 + 2)               low 2, high 4, step 1
    every second at (r0)         ->  (r0*2)                 low 0, high 2n-2, step 2
"""

from __future__ import annotations

from math import gcd

from whit.errors import ArgumentError
from whit.ir import ops
from whit.ir.uop import UOp
from whit.records import dataclass
from whit.schedule.movement import Position, source_position
from whit.simplify import simplify
from whit.simplify.bounds import bounds
from whit.simplify.sums import linear_form


@dataclass(frozen=True, slots=True)
class Span:
    """Where a position may be along one axis; `offset` is what is not known, and the same for all ranges."""

    offset: frozenset[tuple[UOp, int]]
    low: int
    high: int
    step: int  # 0 if there is one value

    def is_apart(self, other: Span) -> bool:
        """Whether no element is in both."""
        if self.offset != other.offset:
            return False
        if self.high < other.low or other.high < self.low:
            return True
        step = gcd(self.step, other.step)
        return step > 1 and (self.low - other.low) % step != 0


@dataclass(frozen=True, slots=True)
class Footprint:
    """A span for each axis; None where nothing is known."""

    spans: tuple[Span | None, ...]

    def is_apart(self, other: Footprint) -> bool:
        """Whether no element is in both."""
        if len(self.spans) != len(other.spans):  # views with other axes
            return False
        pairs = zip(self.spans, other.spans, strict=True)
        return any(a is not None and b is not None and a.is_apart(b) for a, b in pairs)

    @staticmethod
    def anywhere(axes: int) -> Footprint:
        """The box of which nothing is known."""
        return Footprint((None,) * axes)


def footprint_of(position: Position) -> Footprint:
    """The box that a position stays in, whatever its ranges are."""
    return Footprint(tuple(_span(i) for i in position))


def _span(i: UOp) -> Span | None:
    terms, low = linear_form(i)
    high, step = low, 0
    offset: dict[UOp, int] = {}
    for base, factor in terms.items():
        if not any(node.op is ops.RANGE for node in base.topological()):
            if any(node.op in (ops.INDEX, ops.FUNCTION, ops.PARAM, ops.LOAD) for node in base.topological()):
                return None
            offset[base] = factor
            continue
        found = bounds(base)
        if found is None:
            return None
        ends = sorted((factor * found[0], factor * found[1]))
        low, high, step = low + ends[0], high + ends[1], gcd(step, factor)
    return Span(frozenset(offset.items()), low, high, step)


def target_position(target: UOp, position: Position) -> Position:
    """Where in the memory an element of a view is that is written to."""
    while target.op in ops.MOVEMENT or target.op is ops.BITCAST:
        if target.op in ops.MOVEMENT:
            position, valid = source_position(target, position)
            if valid is not None and not _holds(valid):
                raise ArgumentError(
                    "store: the target has elements that are not in memory, which a pad has added",
                    target.short(),
                    "Write to the tensor before it is padded.",
                )
        target = target.src[0]
    return position


def _holds(condition: UOp) -> bool:
    return bounds(simplify(condition)) == (1, 1)


def distinct_ranges(position: Position) -> set[UOp]:
    """Ranges that lead to different elements, whatever the data in the position is.

    p[idx[r0], r1]        ->   r1: two values of it are two columns
    p[idx[r0]*8 + r1]     ->   r1 < 8: the rest is a multiple of 8
    """
    found: set[UOp] = set()
    for i in position:
        terms, _ = linear_form(i)
        ranges = sorted((abs(factor), base.arg.order, base) for base, factor in terms.items() if base.op is ops.RANGE)
        reach = 1  # the residues so far
        taken: list[UOp] = []
        best: list[UOp] = []
        for factor, _, base in ranges:
            if factor < reach or not isinstance(base.size, int):
                break
            reach += factor * (base.size - 1)
            taken.append(base)
            rest = gcd(*(factor for term, factor in terms.items() if term not in taken))
            if rest == 0 or rest >= reach:
                best = list(taken)
        found.update(best)
    return found
