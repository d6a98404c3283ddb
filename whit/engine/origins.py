"""What a tensor without a graph was computed from, as far as a gradient by it could still be asked for.

    m = (t ** 2).realize()          m is a BUFFER now; t and t ** 2 are noted as its origins
    (m * t).sum().gradient(t)       an error: a part of the gradient would be lost at m

A graph that was realised is gone, and with it the memory of all that it was made of. What stays is a list of weak
references to its nodes that outlive it: the leaves, and what other tensors still are. Of a BUFFER that was realised
before, the record is referred to as long as the BUFFER lives, and taken over when it is dead, so that a state that is
computed from itself a million times has one short list.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from typing import Any

from whit.engine.node_table import NodeTable
from whit.grad import flow, smooth_sources
from whit.ir import ops
from whit.ir.uop import UOp

LARGE = 64  # references of a record that is looked through again: gradients hold on to graphs for one more step


class Origins:
    """Of one node without a graph: nodes it was computed from, and the records of such nodes."""

    __slots__ = ("__weakref__", "before", "captured", "function", "node", "references")

    def __init__(
        self,
        node: UOp,
        references: Iterable[weakref.ref[UOp]],
        before: Iterable[Origins],
        function: str = "",
        captured: Sequence[weakref.ref[Any]] = (),
    ) -> None:
        self.node = weakref.ref(node)
        self.references = tuple(references)
        self.before = tuple(before)
        self.function = function  # the captured function it is a result of; "" if it was realised
        self.captured = captured  # the tensors that this function reads

    def shorten(self) -> None:
        """Drops references to the dead, and takes over the records of the dead."""
        alive = {reference for reference in self.references if reference() is not None}
        before: list[Origins] = []
        todo, seen = [*self.before], set(map(id, self.before))
        while todo:
            record = todo.pop()
            is_other = record.function != self.function or record.captured is not self.captured
            if record.node() is not None or is_other:
                before.append(record)
                continue
            alive.update(reference for reference in record.references if reference() is not None)
            todo += [older for older in record.before if id(older) not in seen]
            seen.update(map(id, record.before))
        self.references, self.before = tuple(alive), tuple(before)
        for record in before:
            if record.node() is None and any(older.node() is None for older in record.before):
                record.shorten()


_origins: NodeTable[Origins] = NodeTable()
_large: list[weakref.ref[Origins]] = []  # of the last realisations


def of(node: UOp) -> Origins | None:
    """The record of a node without a graph."""
    return _origins.get(node)


class Trail:
    """The nodes below some roots, held weakly: made while they have their graphs, asked when those are gone."""

    def __init__(self, roots: Sequence[UOp]) -> None:
        self._places: list[int] = []  # of the roots
        self._nodes: list[tuple[weakref.ref[UOp] | None, Origins | None, list[int]]] = []
        order = flow([root for root in roots if root.op is not ops.BUFFER])
        if not order:
            return
        places: dict[UOp, int] = {}
        for node in order:
            sources = [places[source] for source in smooth_sources(node) if source in places]
            reference = weakref.ref(node) if _can_be_asked(node) else None
            places[node] = len(self._nodes)
            self._nodes.append((reference, _origins.get(node), sources))
        self._places = [places.get(root, -1) for root in roots]

    def note(self, results: Sequence[UOp]) -> None:
        """The roots have become these nodes, and whatever nobody else holds is gone."""
        if _large:
            _shorten_large()
        known: list[weakref.ref[UOp] | Origins] = []
        below: list[int] = []  # what is known below each node, as bits
        for reference, record, sources in self._nodes:
            bits = 0
            for source in sources:
                bits |= below[source]
            if reference is not None and reference() is not None:
                bits |= 1 << len(known)
                known.append(reference)
            if record is not None:
                record.shorten()
                bits |= 1 << len(known)
                known.append(record)
            below.append(bits)
        for place, result in zip(self._places, results, strict=False):
            if place >= 0 and below[place]:
                _keep(result, [item for number, item in enumerate(known) if below[place] >> number & 1])


def _keep(result: UOp, known: Sequence[weakref.ref[UOp] | Origins]) -> None:
    before = [item for item in known if isinstance(item, Origins)]
    references = [item for item in known if not isinstance(item, Origins) and item() is not result]
    if not references and not before:
        return
    record = _origins[result] = Origins(result, references, before)
    if len(references) > LARGE:
        _large.append(weakref.ref(record))


def note_result(result: UOp, function: str, inputs: Sequence[UOp], captured: Sequence[weakref.ref[Any]]) -> None:
    """A node is the result of a captured function of these inputs, which reads some tensors besides."""
    references = [weakref.ref(node) for node in inputs if _can_be_asked(node)]
    known = [record for node in inputs if (record := _origins.get(node)) is not None]
    lazy = [node for node in inputs if node.op is not ops.BUFFER]
    if lazy:
        order = flow(lazy)
        references += [weakref.ref(node) for node in order if _can_be_asked(node)]
        known += [record for node in order if (record := _origins.get(node)) is not None]
    for record in known:
        record.shorten()
    _origins[result] = Origins(result, references, known, function, captured)


def cuts(nodes: Iterable[UOp]) -> list[Origins]:
    """The records of those among some nodes that have one."""
    return [record for node in nodes if (record := _origins.get(node)) is not None]


def behind(record: Origins, targets: Iterable[UOp]) -> tuple[UOp, str] | None:
    """Which of the targets something was computed from, and the captured function where it would be lost."""
    wanted = set(targets)
    stack, seen = [(record, record.function)], {id(record)}
    while stack:
        record, function = stack.pop()
        found = [reference() for reference in record.references]
        found += [tensor.uop for reference in record.captured if (tensor := reference()) is not None]
        for node in found:
            if node is not None and node in wanted:
                return node, function
        fresh = [older for older in record.before if id(older) not in seen]
        seen.update(map(id, fresh))
        stack += [(older, function or older.function) for older in fresh]
    return None


def _can_be_asked(node: UOp) -> bool:
    """Whether a tensor that a gradient is asked by may be this node. Constants are everywhere."""
    return node.dtype.is_float and (node.device is not None or node.op is ops.LEAF)


def _shorten_large() -> None:
    waiting = [record for reference in _large if (record := reference()) is not None]
    for record in waiting:
        record.shorten()
    _large[:] = [weakref.ref(record) for record in waiting[-2:] if len(record.references) > LARGE]
