"""The kernel of a write: stores into the memory of what an AFTER stands on.

    after(p0, store(shrink (2, 3) of place, v))     ->   store p0, v[r0], r0 + 2
    after(p0, store(place, v, rows))                ->   store p0, v[r0, r1], rows[r0], r1      r0 ordered
    two stores of 3 and 5 elements                  ->   store p0, a[r0], r0, where r0 < 3;  store p0, b[r0], r0 + 7

All stores of a write run over the same ranges, and touch different elements. A range that the data in a position hides
may lead to one element twice: it is ordered, so that the last store wins, and no two cores meet in one place.

A sum counts every value of such a range, also where position and value are the same for all of them, or turn out to be
when they are simplified or split: the gate says so (EACH), and is dropped when the loops are written. So does any store
over a range that may have no values.

    after(zeros, store(place, 1, 2 five times, combine=add))      ->   store p0, 1, 2, gate=each(r0), combine=add
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod

from whit.dtype import dtypes
from whit.errors import NotSupportedError
from whit.ir import ops
from whit.ir.args import RangeKind
from whit.ir.sizes import settled
from whit.ir.uop import UOp, as_index, make
from whit.schedule.lower import WRITTEN, Lowering, Request
from whit.schedule.movement import Position, flat_position, ranges_over, reshape_position
from whit.schedule.stages.may_fuse import COMPUTED, of_scattered
from whit.schedule.values import prod_of
from whit.schedule.writes.effects import is_scatter, picked_shape, value_order
from whit.schedule.writes.footprint import distinct_ranges, target_position

ONCE_IS_ENOUGH = (None, ops.MAX, ops.MIN, ops.AND, ops.OR)  # the same value again changes nothing


def written(root: UOp) -> UOp:
    """What stands for the memory that a write goes to."""
    return make(ops.FUNCTION, (root,), WRITTEN)


def lower_write(
    root: UOp, staged: Sequence[bool], overwritten: Collection[UOp], lowering: Lowering
) -> tuple[tuple[UOp, ...], UOp]:
    """The ranges of a write, and its stores at them."""
    _, *stores = root.src
    if any(staged):
        old = set(overwritten)
        stores = [
            with_stored_sources(store, old) if keep else store for store, keep in zip(stores, staged, strict=True)
        ]
    for store in stores:
        lowering.to_store.update((s, "computed before it is written") for s in store.src[1:] if s.op is ops.STAGE)
    if len(stores) == 1 and is_scatter(stores[0]):
        return _lower_scatter(root, stores[0], lowering)
    shapes = [store.src[0].shape for store in stores]
    if len(set(shapes)) == 1:
        ranges, position = ranges_over(shapes[0])
        return ranges, UOp.group(*(_lower_store(root, store, ranges, position, None, lowering) for store in stores))
    return _lower_unequal(root, stores, lowering)


def _lower_unequal(root: UOp, stores: Sequence[UOp], lowering: Lowering) -> tuple[tuple[UOp, ...], UOp]:
    """Stores of several shapes over one range, each as far as it has elements."""
    shapes = [store.src[0].shape for store in stores]
    most = max(prod_of(shape) for shape in shapes)
    along = UOp.range(most, 0)
    lowered = []
    for store, shape in zip(stores, shapes, strict=True):
        count = settled(prod(shape))
        inside = along < as_index(count) if not isinstance(count, int) or count < most else None
        position = reshape_position(shape, (count,), (along,))
        lowered.append(_lower_store(root, store, (along,), position, inside, lowering))
    return (along,), UOp.group(*lowered)


def with_stored_sources(store: UOp, overwritten: set[UOp]) -> UOp:
    """The store with everything computed before that reads a value whose memory is taken."""
    target, *sources = store.src
    stored = [s if overwritten.isdisjoint(value_order([s])) else s.stage() for s in sources]
    return make(ops.STORE, (target, *stored), store.arg)


def _lower_store(
    root: UOp, store: UOp, ranges: tuple[UOp, ...], position: Position, inside: UOp | None, lowering: Lowering
) -> UOp:
    """One store to a view."""
    target, value, *gates = store.src
    gate = inside
    for allowed in gates:
        gate = _both(gate, _ask(lowering, allowed, position, inside, ranges))
    new = _ask(lowering, value, position, gate, ranges)
    return _stored(root, store, new, target_position(target, position), gate)


def _ask(lowering: Lowering, node: UOp, position: Position, gate: UOp | None, ranges: tuple[UOp, ...]) -> UOp:
    """An element of a value, or the only one of a scalar."""
    return lowering.ask(Request(node, position if node.shape else (), gate, ranges))


def _stored(root: UOp, store: UOp, value: UOp, position: Position, gate: UOp | None) -> UOp:
    memory = written(root)
    if value.dtype is not memory.dtype:
        if store.arg.combine is not None:
            raise NotSupportedError(
                f"store: {store.arg.combine.name} of {value.dtype.name} in memory of {memory.dtype.name}",
                store.short(),
                "Combine in the dtype of the memory, or write the combined value.",
            )
        value = value.bitcast(memory.dtype)
    return memory.store(value, *position, combine=store.arg.combine, gate=gate)


def _lower_scatter(root: UOp, store: UOp, lowering: Lowering) -> tuple[tuple[UOp, ...], UOp]:
    target, value, *positions = store.src
    allowed = positions.pop() if store.arg.gated else None
    picked = picked_shape([*([] if allowed is None else [allowed]), *positions])
    ranges, position = ranges_over(picked + target.shape[len(positions) :])
    outer, rest = position[: len(picked)], position[len(picked) :]
    gate = None if allowed is None else _ask(lowering, allowed, outer, None, ranges)
    places = [_ask(lowering, p, outer, gate, ranges) for p in positions]
    place = target_position(target, (*(p.cast(dtypes.weakint) for p in places), *rest))
    new = _ask(lowering, value, position, gate, ranges)
    apart = distinct_ranges(place)
    together = [r for r in ranges if r not in apart]
    renamed = {r: UOp.range(r.src[0], r.arg.id, RangeKind.ORDERED, r.arg.owner) for r in together}
    if _counts_each(store, together):
        gate = _both(gate, make(ops.EACH, (flat_position(tuple(together), tuple(r.size for r in together)),)))
    answer = of_scattered(lowering.fused) if renamed else COMPUTED
    if answer.stored:
        lowering.to_store.setdefault(value, answer.reason)
    result = UOp.group(_stored(root, store, new, place, gate)).substitute(renamed)
    return tuple(renamed.get(r, r) for r in ranges), result


def _counts_each(store: UOp, together: Sequence[UOp]) -> bool:
    """Whether the store has to happen as often as ranges have values together that may lead to one place."""
    may_be_none = not all(isinstance(r.size, int) and r.size for r in together)
    return bool(together) and (may_be_none or store.arg.combine not in ONCE_IS_ENOUGH)


def _both(gate: UOp | None, other: UOp) -> UOp:
    return other if gate is None else gate & other
