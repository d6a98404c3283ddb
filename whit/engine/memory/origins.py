"""What a tensor without a graph was computed from, as far as a gradient by it could still be asked for.

    m = (t ** 2).realize()          m is a BUFFER now; t and t ** 2 are noted as its origins
    (m * t).sum().gradient(t)       an error: a part of the gradient would be lost at m

A graph that was realised is gone, and with it the memory of all that it was made of. What stays is a list of weak
references to its nodes that outlive it: the leaves, and what other tensors still are. Of a BUFFER that was realised
before, the record is referred to as long as the BUFFER lives, and taken over when it is dead, so that a state that is
computed from itself a million times has one short list.

What a tensor was computed from by a gradient alone is told apart: `w.assign(w - rate * gradient).realize()` is a step
of training, whose result does not depend on the data for anybody who asks. A tensor that was written to forgets such
origins.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from whit.engine.memory.node_table import NodeTable
from whit.ir import ops
from whit.ir.uop import UOp
from whit.transform import flow, smooth_sources

# references of a record that is looked through again: gradients hold on to graphs for one more step
LARGE_REFERENCES = 64


class Origins:
    """Of one node without a graph: nodes it was computed from, and the records of such nodes. With each, whether it was
    computed from that directly, not by a gradient alone."""

    __slots__ = ("__weakref__", "before", "captured", "function", "is_state", "node", "references")

    def __init__(
        self,
        node: UOp,
        references: Mapping[weakref.ref[UOp], bool],
        before: Iterable[tuple[Origins, bool]],
        function: str = "",
        captured: Sequence[weakref.ref[Any]] = (),
        is_state: bool = False,
    ) -> None:
        self.node = weakref.ref(node)
        self.references = dict(references)
        self.before = list(before)
        self.function = function  # the captured function it is a result of; "" if it was realised
        self.captured = captured  # the tensors that this function reads
        self.is_state = is_state  # it was written to: gradients that were used for that do not count

    @property
    def is_dead(self) -> bool:
        """Whether nobody has the node any more."""
        return self.node() is None

    @property
    def refers_to_dead(self) -> bool:
        """Whether one of the records that it refers to is of a node that nobody has."""
        return any(record.is_dead for record, _ in self.before)

    def counts(self, is_near: bool) -> bool:
        """Whether something matters that this was computed from, directly or by a gradient alone."""
        return is_near or not self.is_state

    def alive(self) -> list[tuple[weakref.ref[UOp], bool]]:
        """The references to nodes that somebody has."""
        return [(reference, is_near) for reference, is_near in self.references.items() if reference() is not None]

    def nodes(self) -> list[tuple[UOp | None, bool]]:
        """The nodes of the references, and of the tensors that the captured function reads."""
        read = [(tensor.uop, True) for reference in self.captured if (tensor := reference()) is not None]
        return [*((reference(), is_near) for reference, is_near in self.references.items()), *read]

    def shorten(self) -> None:
        """Drops references to the dead, and takes over the records of the dead."""
        alive = dict(self.alive())
        before: list[tuple[Origins, bool]] = []
        todo, seen = [*self.before], {id(record) for record, _ in self.before}
        while todo:
            record, direct = todo.pop()
            if not self._can_take_over(record):
                before.append((record, direct))
                continue
            for reference, is_near in record.alive():
                if self.counts(is_near):
                    alive[reference] = alive.get(reference, False) or (direct and is_near)
            for older, is_near in record.before:
                if id(older) not in seen:
                    seen.add(id(older))
                    if self.counts(is_near):
                        todo.append((older, direct and is_near))
        self.references, self.before = alive, before
        for record, _ in before:
            if record.is_dead and record.refers_to_dead:
                record.shorten()

    def _can_take_over(self, record: Origins) -> bool:
        """Whether what a record says can stand in this one: both belong to one captured function, or to none."""
        return record.is_dead and record.function == self.function and record.captured is self.captured


_origins: NodeTable[Origins] = NodeTable()
_large: list[weakref.ref[Origins]] = []  # of the last realisations
_gradients: NodeTable[bool] = NodeTable()  # nodes that are gradients


def note_gradient(node: UOp) -> None:
    """A node is what a gradient was asked for."""
    if node.op is not ops.BUFFER and node.device is not None:
        _gradients[node] = True


def of(node: UOp) -> Origins | None:
    """The record of a node without a graph."""
    return _origins.get(node)


class Trail:
    """The nodes below some roots, held weakly: made while they have their graphs, asked when those are gone."""

    def __init__(self, roots: Sequence[UOp]) -> None:
        self._places: list[int] = []  # of the roots
        self._nodes: list[tuple[weakref.ref[UOp] | None, Origins | None, list[int], bool]] = []
        order = flow([root for root in roots if root.op is not ops.BUFFER])
        if not order:
            return
        places: dict[UOp, int] = {}
        for node in order:
            sources = [places[source] for source in smooth_sources(node) if source in places]
            reference = weakref.ref(node) if _can_be_asked(node) else None
            places[node] = len(self._nodes)
            self._nodes.append((reference, _origins.get(node), sources, _gradients.get(node) is not None))
        self._places = [places.get(root, -1) for root in roots]
        self._are_written = [root.op is ops.AFTER for root in roots]

    def note(self, results: Sequence[UOp]) -> None:
        """The roots have become these nodes, and whatever nobody else holds is gone."""
        if _large:
            _shorten_large()
        known: list[weakref.ref[UOp] | Origins] = []
        below: list[tuple[int, int]] = []  # what is known below each node, as bits: directly, and in all
        for reference, record, sources, is_gradient in self._nodes:
            near = all_ = 0
            for source in sources:
                near, all_ = near | below[source][0], all_ | below[source][1]
            own = 0
            if reference is not None and reference() is not None:
                own |= 1 << len(known)
                known.append(reference)
            if record is not None:
                record.shorten()
                own |= 1 << len(known)
                known.append(record)
            below.append((own if is_gradient else near | own, all_ | own))
        for number, result in enumerate(results if self._nodes else ()):
            place = self._places[number]
            if place >= 0 and below[place][1]:
                _keep(result, known, *below[place], self._are_written[number])


def _keep(result: UOp, known: Sequence[weakref.ref[UOp] | Origins], near: int, all_: int, is_state: bool) -> None:
    references: dict[weakref.ref[UOp], bool] = {}
    before: list[tuple[Origins, bool]] = []
    chosen = near if is_state else all_
    for place, item in enumerate(known):
        if not chosen >> place & 1:
            continue
        direct = bool(near >> place & 1)
        if isinstance(item, Origins):
            before.append((item, direct))
        elif item() is not result:
            references[item] = direct
    if not references and not before:
        return
    record = _origins[result] = Origins(result, references, before, is_state=is_state)
    if len(references) > LARGE_REFERENCES:
        _large.append(weakref.ref(record))


def note_result(result: UOp, function: str, inputs: Sequence[UOp], captured: Sequence[weakref.ref[Any]]) -> None:
    """A node is the result of a captured function of these inputs, which reads some tensors besides."""
    references = {weakref.ref(node): True for node in inputs if _can_be_asked(node)}
    known = [record for node in inputs if (record := _origins.get(node)) is not None]
    lazy = [node for node in inputs if node.op is not ops.BUFFER]
    if lazy:
        order = flow(lazy)
        references |= {weakref.ref(node): True for node in order if _can_be_asked(node)}
        known += [record for node in order if (record := _origins.get(node)) is not None]
    for record in known:
        record.shorten()
    _origins[result] = Origins(result, references, [(record, True) for record in known], function, captured)


def cuts(nodes: Iterable[UOp]) -> list[Origins]:
    """The records of those among some nodes that have one."""
    return [record for node in nodes if (record := _origins.get(node)) is not None]


def behind(record: Origins, targets: Iterable[UOp], directly: Iterable[UOp] = ()) -> tuple[UOp, str] | None:
    """Which of the targets something was computed from, or of others directly, not by a gradient alone; and the
    captured function where the graph was lost."""
    wanted, wanted_near = set(targets), {*targets, *directly}
    stack, seen = [(record, record.function, True)], {(id(record), True)}
    while stack:
        record, function, is_near = stack.pop()
        for node, near in record.nodes():
            if node in (wanted_near if near and is_near else wanted):
                return node, function
        for older, near in record.before:
            key = (id(older), near and is_near)
            if key not in seen and record.counts(near):
                seen.add(key)
                stack.append((older, function or older.function, near and is_near))
    return None


def _can_be_asked(node: UOp) -> bool:
    """Whether a tensor that a gradient is asked by may be this node. Constants are everywhere."""
    return node.dtype.is_continuous and (node.device is not None or node.op is ops.LEAF)


def _shorten_large() -> None:
    waiting = [record for reference in _large if (record := reference()) is not None]
    for record in waiting:
        record.shorten()
    _large[:] = [weakref.ref(record) for record in waiting[-2:] if len(record.references) > LARGE_REFERENCES]
