"""Stores as values: what is written into which memory, in which order.

Goes in: GROUP of STOREs into params or views of params; values may contain AFTER, a value with some elements replaced.
Comes out (`Settled`): the values to compute, each with the param it goes to, and the *writes*: AFTERs that put their
elements into the memory of what they stand on. Every other AFTER is an expression like WHERE.

    group(store(shrink(p0), v))                       write 1 = after(p0, store(shrink(place), v))
    store(p9, after(p1, store(shrink(p1), v)))        no write: p9 gets where(inside, v, p1)
    store(p9, after(p1, store(p1, v, rows)))          p9 gets a copy of p1, then write 1 = after(copy, store(...))
    store(p9, after(zeros, store(shrink(zeros), stage(v)), ...))      no write: a join (`join.py`), if all is covered

A chain of AFTERs that nobody looks into is one AFTER with several stores, and those that touch different elements are
one write. The target of a store is a view of a placeholder (`memory_of_value`): writing is not reading, so that the
graph below an AFTER has nothing in it but what is read. A param changes only if the GROUP stores to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from whit.errors import ArgumentError, InternalError, ShapeError
from whit.ir import ops
from whit.ir.args import PLACE_SLOT, StageArg
from whit.ir.map_graph import map_graph, rebuilt
from whit.ir.op import spell_shape
from whit.ir.uop import UOp, make
from whit.records import dataclass, field
from whit.schedule.movement import ranges_over
from whit.schedule.stages.join import as_join
from whit.schedule.values import prod_of
from whit.schedule.writes.footprint import Footprint, footprint_of, target_position

MOST_CHOSEN_STORES = 24  # stores that become a chain of choices; more are written into memory
MOST_STORES_A_KERNEL = 24  # stores of one kernel
WASTE_RATIO = 4  # times the work: what a kernel that runs over unequal stores at once may do at most

MEMORY = (ops.PARAM, ops.BUFFER)

Sources = tuple[UOp, ...]


@dataclass(slots=True)
class Settled:
    """What a graph computes and writes."""

    outputs: list[tuple[UOp, UOp]] = field(default_factory=list)  # (param, value): every element, and nobody reads it
    writes: dict[UOp, UOp] = field(default_factory=dict)  # AFTER -> the value whose memory it takes over

    def take_home(self, write: UOp, homes: dict[UOp, UOp], param: UOp) -> bool:
        """Lets the copy that a write changes lie in a param from the beginning, unless it has another place."""
        base = write
        while base in self.writes:
            base = self.writes[base]
        is_last = write not in self.writes.values()
        if base.op is not ops.STAGE or base in homes or not is_last:
            return False
        homes[base] = param
        return True


def memory_of_value(value: UOp) -> UOp:
    """What stands for the memory of a value in the targets of stores."""
    return UOp.param(PLACE_SLOT, value.dtype, value.shape)


def part_targets(graph: UOp) -> UOp:
    """The graph with placeholders under the targets of stores that values stand after.

    A target is a view of the very node that is written to. Rewriting may change either of them alone, as when the flip
    of a flip goes away; so this comes first.
    """
    done: dict[UOp, UOp] = {}

    def parted(node: UOp, src: Sources) -> UOp | None:
        if node.op is not ops.AFTER:
            return None
        old, *effects = node.src
        return rebuilt(node, (src[0], *[_parted(effect, old, done) for effect in effects]))

    return map_graph(graph, parted, done)


def _parted(effect: UOp, old: UOp, done: dict[UOp, UOp]) -> UOp:
    if effect.op is not ops.STORE:
        return done[effect]
    target, *sources = effect.src
    views, leaf = views_of(target, old)
    if leaf is not old and leaf.op not in MEMORY:  # a chain of changes of one memory names the memory itself
        raise InternalError(f"schedule: {effect.short()} writes to something else than it stands on")
    memory = on_views(views, memory_of_value(done[old]), done.__getitem__)
    return make(ops.STORE, (memory, *[done[s] for s in sources]), effect.arg)


def settle_writes(graph: UOp) -> Settled:
    """The values and the writes of a graph."""
    stores: dict[UOp, list[UOp]] = {}
    for store in graph.src:
        if store.op is not ops.STORE:
            raise InternalError(f"schedule: {store.short()} is not a store")
        _, leaf = views_of(store.src[0])
        if leaf.op not in MEMORY:
            raise InternalError(f"schedule: {store.short()} goes to {leaf.short()}, which is no memory")
        stores.setdefault(leaf, []).append(store)
    read = {node for node in value_order([s for store in graph.src for s in sources_of(store)]) if node.op in MEMORY}
    plain: list[tuple[UOp, UOp]] = []
    in_place: dict[UOp, UOp] = {}
    for memory, found in stores.items():
        value = whole_value(found[0]) if len(found) == 1 else None
        if value is None:
            in_place[memory] = make(ops.AFTER, (memory, *found))
        elif memory not in read:
            plain.append((memory, value))
        else:
            in_place[memory] = value if _stands_on(value, memory) else make(ops.AFTER, (memory, *found))
    return _Settling(plain, in_place).settled()


def whole_value(store: UOp) -> UOp | None:
    """The value of a store that replaces all elements of a param."""
    target, value, *positions = store.src
    is_whole = target.op in MEMORY and not positions and store.arg.combine is None
    return value if is_whole and value.shape == target.shape else None


def _stands_on(value: UOp, memory: UOp) -> bool:
    """Whether a value is a chain of AFTERs on this memory."""
    while value.op is ops.AFTER:
        value = value.src[0]
        if value is memory:
            return True
    return False


def views_of(target: UOp, base: UOp | None = None) -> tuple[list[UOp], UOp]:
    """The views from a base (if none is given, a memory) to the target of a store, the first one first; the base."""
    views: list[UOp] = []
    while target is not base and (target.op in ops.MOVEMENT or target.op in (ops.BITCAST, ops.DETACH)):
        if target.op is not ops.DETACH:
            views.append(target)
        (target, *_) = target.src
    return views[::-1], target


def sources_of(store: UOp) -> list[UOp]:
    """What a store reads: value, positions, gate, and the symbolic sizes of its views."""
    target, *sources = store.src
    views, _ = views_of(target)
    return [*sources, *(size for view in views for size in view.src[1:])]


def _read_by(node: UOp) -> Sources:
    """The sources of a node that it reads: the target of a store is not among them."""
    if node.op is not ops.AFTER:
        return node.src
    base, *effects = node.src
    for effect in effects:
        if effect.op is not ops.STORE:
            raise InternalError(f"schedule: {effect.short()} is an effect that a value cannot stand after")
    return (base, *(s for effect in effects for s in sources_of(effect)))


def value_order(roots: Iterable[UOp]) -> list[UOp]:
    """Everything that the roots read, sources first."""
    order: list[UOp] = []
    seen: set[UOp] = set()
    stack: list[tuple[UOp, bool]] = [(root, False) for root in reversed(list(roots))]
    while stack:
        node, is_left = stack.pop()
        if is_left:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            if not node.op.opaque:
                stack.extend((s, False) for s in reversed(_read_by(node)) if s not in seen)
    return order


class _Settling:
    """The state of settling one graph."""

    def __init__(self, plain: list[tuple[UOp, UOp]], in_place: dict[UOp, UOp]) -> None:
        self.plain = plain
        self.in_place = in_place
        self.found = Settled()
        self.done: dict[UOp, UOp] = {}
        roots = [*(value for _, value in plain), *in_place.values()]
        self.order = value_order(roots)
        self.users = Counter(roots)
        for node in self.order:
            if not node.op.opaque:
                self.users.update(_read_by(node))
        self.bases = {node.src[0] for node in self.order if node.op is ops.AFTER}
        self.on_memory = {node for memory, top in in_place.items() for node in _chain(top, memory)}
        self.copied: dict[UOp, UOp] = {}  # value -> its last copy
        self.copies = 0

    def settled(self) -> Settled:
        """Every node anew, sources first."""
        done = self.done
        for node in self.order:
            if node.op is not ops.AFTER:
                src = tuple([done[s] for s in node.src]) if not node.op.opaque else node.src
                done[node] = rebuilt(node, src)
            elif self._is_absorbed(node):
                done[node] = node  # only the AFTER on it looks at it
            else:
                done[node] = self._after(node)
        self.found.outputs = [(memory, done[value]) for memory, value in self.plain]
        return self.found

    def _is_absorbed(self, node: UOp) -> bool:
        """Whether an AFTER is nothing but the base of another."""
        return node.op is ops.AFTER and self.users[node] == 1 and node in self.bases

    def _after(self, node: UOp) -> UOp:
        old, stores = self._stores(node)
        if not prod_of(old.shape) or not stores:
            return old
        may_choose = len(stores) <= MOST_CHOSEN_STORES and not any(map(is_scatter, stores))
        if node not in self.on_memory:
            join = as_join(stores)
            if join is not None:
                return join
            if may_choose:
                return make(ops.AFTER, (old, *stores))
            old = self._copy(old)
        waves = split_writes(stores)
        covered = sum(prod_of(store.src[0].shape) for store in stores)
        if len(waves) > 1 and may_choose and covered * WASTE_RATIO >= prod_of(old.shape):
            waves = [[memory_of_value(old).store(make(ops.AFTER, (old, *stores)))]]
        for wave in waves:
            before, old = old, make(ops.AFTER, (old, *wave))
            self.found.writes[old] = before
        return old

    def _stores(self, node: UOp) -> tuple[UOp, list[UOp]]:
        """The value that a chain of AFTERs stands on, and the stores of all of them, the first one first."""
        effects: list[Sources] = []
        base = node
        while base is node or self._is_absorbed(base):
            effects.append(base.src)
            base = base.src[0]
        old = self.done[base]
        return old, [self._placed(store, part[0], old) for part in reversed(effects) for store in part[1:]]

    def _copy(self, value: UOp) -> UOp:
        """A copy that nobody else writes to, or reads: not even who keeps the same value in memory (`contiguous`)."""
        self.copies += 1
        copy = self.copied[value] = self.copied.get(value, value).stage(arg=StageArg(copy=self.copies))
        return copy

    def _placed(self, store: UOp, written: UOp, base: UOp) -> UOp:
        """The store with a view of a placeholder as its target."""
        target, *sources = store.src
        views, leaf = views_of(target, written)
        if leaf.shape != base.shape or leaf.dtype is not base.dtype:
            raise InternalError(f"schedule: {store.short()} writes to something else than it stands on")
        memory = on_views(views, memory_of_value(base), self.done.__getitem__)
        new = make(ops.STORE, (memory, *[self.done[s] for s in sources]), store.arg)
        check_target(new)
        return new


def _chain(top: UOp, memory: UOp) -> Iterable[UOp]:
    while top is not memory:
        yield top
        top = top.src[0]


def on_views(views: list[UOp], memory: UOp, source: Callable[[UOp], UOp]) -> UOp:
    """The same views of another memory."""
    for view in views:
        memory = make(view.op, (memory, *[source(s) for s in view.src[1:]]), view.arg)
    return memory


def check_target(store: UOp) -> None:
    """The target shows each element once, and the value has one for each place."""
    target, value, *positions = store.src
    for view in views_of(target)[0]:
        if view.op is ops.EXPAND and view.shape != view.src[0].shape:
            raise ArgumentError(
                f"store: the target repeats elements, {spell_shape(view.src[0].shape)} as {spell_shape(view.shape)}",
                store.short(),
                "Write to the tensor before it is expanded.",
            )
    if store.arg.gated:
        positions.pop()
    shape = picked_shape(positions) + target.shape[len(positions) :]
    if value.shape and value.shape != shape:
        raise ShapeError(
            f"store: a value of shape {spell_shape(value.shape)} for {spell_shape(shape)}",
            store.short(),
            "It has the shape of the positions, then the axes of the target that have none.",
        )


def picked_shape(positions: Iterable[UOp]) -> tuple[Any, ...]:
    """The shape that positions have together: scalars go with any."""
    return next((position.shape for position in positions if position.shape), ())


# ---- which stores are one kernel


def is_scatter(store: UOp) -> bool:
    """Whether data says where a store goes: it has positions."""
    return bool(len(store.src) - store.arg.gated > 2)


def split_writes(stores: list[UOp]) -> list[list[UOp]]:
    """Stores in groups that run one after the other; those of a group touch different elements."""
    waves: list[list[UOp]] = []
    footprints: list[Footprint] = []
    for store in stores:
        target = store.src[0]
        if not prod_of(target.shape):
            continue
        footprint = None if is_scatter(store) else footprint_of(target_position(target, ranges_over(target.shape)[1]))
        fits = waves and footprint is not None and len(waves[-1]) < MOST_STORES_A_KERNEL
        if fits and all(footprint is not None and footprint.is_apart(other) for other in footprints):
            waves[-1].append(store)
        else:
            waves.append([store])
            footprints = []
        footprints += [footprint] if footprint is not None else []
        if is_scatter(store):
            footprints = [Footprint.anywhere(len(target.shape))]
    return [part for wave in waves for part in _by_shape(wave)]


def _by_shape(wave: list[UOp]) -> list[list[UOp]]:
    """One kernel if the stores run over about the same number of elements, else one for each shape."""
    counts = [prod_of(store.src[0].shape) for store in wave]
    known = all(isinstance(count, int) for count in counts)
    if len({store.src[0].shape for store in wave}) == 1:
        return [wave]
    if known and max(counts) * len(counts) <= WASTE_RATIO * sum(counts):
        return [wave]
    parts: dict[Any, list[UOp]] = {}
    for store in wave:
        parts.setdefault(store.src[0].shape, []).append(store)
    return list(parts.values())
