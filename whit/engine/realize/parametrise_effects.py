"""Graphs that change memory, parametrised: an effect's memory is an output and an input.

    b7 after x[2:5] = v      graph: group(store(p0, after(p0, store(shrink(p0, (s, 3)), p1))))      s = 2

The slot of an effect holds the old content before and the new one afterwards: the memory of the BUFFER itself if nobody
else can see it, else a copy. Reads of the BUFFER in the graph are reads of the slot: the scheduler puts them in front.

Where a window of that memory begins is a variable, and further windows are counted from the first one, so that the next
step of a loop (x[i] = x[i - 1] + 1) is the same graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from whit.engine.memory.storage import computed_entries
from whit.engine.realize.effects import Effect, changed_memory, views_between
from whit.engine.realize.parametrise import (
    NO_NAMES,
    NO_WINDOWS,
    REARRANGED,
    Names,
    Parametrised,
    Parametriser,
    output,
    parametrised,
    views_to,
)
from whit.engine.realize.windows import Anchor, Window
from whit.ir import ops
from whit.ir.uop import UOp, make


def parametrise_effects(
    roots: Sequence[UOp],
    effects: Sequence[Effect],
    order: list[UOp],
    windows: Mapping[UOp, Window] = NO_WINDOWS,
    is_named: bool = False,
    given: Names = NO_NAMES,
) -> Parametrised:
    """The graph that computes the roots and carries out the effects; `order` is what is below both. `windows` are those
    of other memories; `is_named`: with the places of nodes; `given`: names of variables."""
    state = EffectParametriser(len(roots), effects, order, windows, given)
    state.visit(order)
    values = [state.root(r, roots, order) if r.op in REARRANGED else state.stored(r) for r in roots]
    stores = [output(state, slot, *pair) for slot, pair in enumerate(zip(roots, values, strict=True))]
    for number, effect in enumerate(effects):
        place = state.places[number]
        stores.append(place.store(state.contents[effect.top, number]))
    graph = make(ops.GROUP, tuple(stores))
    return parametrised(state, graph, is_named)


class EffectParametriser(Parametriser):
    """The state of normalising one graph with effects."""

    def __init__(
        self, roots: int, effects: Sequence[Effect], order: list[UOp], windows: Mapping[UOp, Window], given: Names
    ) -> None:
        super().__init__(roots + len(effects), order, windows, given)
        self.places: list[UOp] = []
        self.bases = [effect.memory for effect in effects]
        self.owner: dict[UOp, int] = {}  # AFTER -> the first effect that it is part of
        self.contents: dict[tuple[UOp, int], UOp] = {}  # (AFTER, effect) -> the content of the effect's memory after it
        self.views: dict[UOp, list[UOp]] = {}  # AFTER -> the views that show the memory in its shape
        self.memories: dict[UOp, UOp] = {}  # BUFFER, what stands for it, AFTER in its shape -> the BUFFER
        for number, effect in enumerate(effects):
            place = self.param_like(effect.memory, roots + number)
            self.places.append(place)
            self.params.setdefault(effect.memory, place)
            self.memories[effect.memory] = effect.memory
            for node in effect.chain:
                self.owner.setdefault(node, number)
        self.anchors = self._find_anchors(order)

    def after(self, node: UOp) -> UOp:
        """The content of the memory so far, in the shape of the AFTER."""
        number = self.owner.get(node)
        if number is None:
            return super().after(node)
        return self.viewed(self.views_of(node), self.content(node, number))

    def views_of(self, node: UOp) -> list[UOp]:
        """The views through which an AFTER shows its memory."""
        found = self.views.get(node)
        if found is None:
            base = changed_memory(node)
            inner = self.views[base] if base in self.owner else []
            found = self.views[node] = inner + (views_between(node.src[0], base) or [])
        return found

    def content(self, top: UOp, number: int) -> UOp:
        """The memory of an effect after one AFTER of its chain. What is in another effect's chain too is done again."""
        missing = [top]
        while changed_memory(missing[-1]) in self.owner and (changed_memory(missing[-1]), number) not in self.contents:
            missing.append(changed_memory(missing[-1]))
        place = self.places[number]
        content = self.contents.get((changed_memory(missing[-1]), number), place)
        for node in reversed(missing):
            old, *stores = node.src
            views = self.views_of(node)
            changes = [self.store_into(store, place, views + views_to(store, old)) for store in stores]
            content = self.contents[node, number] = make(ops.AFTER, (content, *changes))
        return content

    def store_into(self, effect: UOp, place: UOp, views: list[UOp]) -> UOp:
        """A STORE into a view of a place, its window moved as others are."""
        if views and views[0].op is ops.SHRINK and place in self.places and len(views[0].src) == 1:
            place = self._moved(views[0], self.bases[self.places.index(place)], place)
            views = views[1:]
        return super().store_into(effect, place, views)

    # ---- windows

    def _find_anchors(self, order: list[UOp]) -> dict[tuple[UOp, int], Anchor]:
        """How windows of the memories lie, for each axis that one has a part of."""
        anchors: dict[tuple[UOp, int], Anchor] = {}
        for node in order:
            memory = self._memory(node)
            if memory is not None:
                self.memories[node] = memory
            if node.op is not ops.SHRINK or len(node.src) != 1 or node.src[0] not in self.memories:
                continue
            memory = self.memories[node.src[0]]
            for axis, ((start, length), size) in enumerate(zip(node.arg, memory.shape, strict=True)):
                if length == size or not isinstance(size, int):
                    continue
                anchors.setdefault((memory, axis), Anchor(start, 0, size)).hold(start, length, size)
        return anchors

    def _memory(self, node: UOp) -> UOp | None:
        """The memory that a node shows as it is."""
        if node in self.owner:
            return None if self.views_of(node) else self.bases[self.owner[node]]
        entry = computed_entries.get(id(node))
        return None if entry is None else self.memories.get(entry[0])

    def window(self, node: UOp) -> UOp:
        """A SHRINK; that of a changed memory begins at a variable."""
        memory = self.memories.get(node.src[0])
        if memory is None or len(node.src) != 1:
            return super().window(node)
        return self._moved(node, memory, self.done[node.src[0]])

    def _moved(self, node: UOp, memory: UOp, source: UOp) -> UOp:
        axes = [axis for axis, (_, length) in enumerate(node.arg) if length != memory.shape[axis]]
        found = {axis: self.anchors[memory, axis] for axis in axes if (memory, axis) in self.anchors}
        return self.moved(node, source, found)
