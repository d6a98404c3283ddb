"""Equal steps of a long graph become calls of one function, so that a loop over time is scheduled once.

    x = x - model(x, t0) * a0                       x = f(x, w, t0, a0)
    x = x - model(x, t1) * a1                 ->    x = f(x, w, t1, a1)        f: one FUNCTION
    ...                                             ...

Goes in: a graph over params. Comes out: the same, its longest run of equal steps called. In a list of the nodes that
puts what a step has from the one before first, a loop comes step by step, and equal steps are a period: nodes at that
distance are the same op, and their sources are at the same distance again, or the same node, or numbers and windows of
one memory. A step begins where the least is handed on to the next one. What is the same in all steps is computed once,
before them.

Only long graphs are looked at, and only loops: steps that share their weights, and have reductions. Layers, which have
weights of their own, are left alone; fusing across them is worth more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from math import prod

from whit.ir import ops
from whit.ir.contiguous import start_of_view
from whit.ir.graph import topological
from whit.ir.map_graph import map_graphs
from whit.ir.uop import UOp, make
from whit.records import dataclass, field

LONG = 2000  # nodes of a graph that is looked at
REPEATS = 8  # steps of a loop, at least
LEAST = 20  # nodes of a step, at least
TRIED = 3  # lengths of a step
MOST_ALIKE = 8  # nodes of one kind in a step, for which the next step is looked for
# What has effects, or is put into the list by calls and variables.
NEVER = frozenset({ops.STORE, ops.AFTER, ops.GROUP, ops.CALL, ops.ITEM, ops.COPY, ops.RECOMPUTE, ops.BIND, ops.PARAM})


def roll_steps(graph: UOp) -> UOp:
    """The graph with calls in the place of equal steps."""
    while True:
        order = topological((graph,))
        if len(order) < LONG:
            return graph
        order = _deepest_first(graph, order)
        run = _find_run(order)
        rolled = None if run is None else _Roll(order, *run).rolled(graph)
        if rolled is None:
            return graph
        graph = rolled


def _deepest_first(graph: UOp, order: list[UOp]) -> list[UOp]:
    """The nodes with what has the longest way below it first, sources before users: the step before, then the input."""
    depth: dict[UOp, int] = {}
    for node in order:
        below = () if node.op.opaque else node.src
        depth[node] = 1 + max([depth[s] for s in below], default=0)
    found: list[UOp] = []
    seen: set[UOp | None] = set()
    stack: list[UOp | None] = [graph]
    while stack:
        top = stack.pop()
        if top is None:  # the node below it was left
            found.append(stack.pop())  # type: ignore[arg-type]
        elif top not in seen:
            seen.add(top)
            stack += [top, None]
            if not top.op.opaque:
                sources: list[UOp] = sorted(top.src, key=depth.__getitem__)
                stack += sources
    return found


def _is_window(node: UOp) -> bool:
    """Whether a node is a contiguous part of a memory, or all of it in another shape."""
    while node.op in (ops.RESHAPE, ops.SHRINK) and len(node.src) == 1 and start_of_view(node) is not None:
        node = node.src[0]
    return node.op is ops.PARAM


def _is_in_steps(node: UOp) -> bool:
    """Whether a node can be part of a step: not memory, numbers and windows, which are given to it."""
    return bool(node.src) and node.op not in NEVER and not node.op.opaque and not _is_window(node)


def _label(node: UOp) -> Hashable:
    return node.op, node.arg, node.dtype, node.shape


def _find_run(order: list[UOp]) -> tuple[list[UOp], int, int, int] | None:
    """The nodes that steps can be made of, where steps begin there, how long one is, and how many there are."""
    nodes = [node for node in order if _is_in_steps(node)]
    labels = [_label(node) for node in nodes]
    best: tuple[int, int] = (0, 0)
    chosen = 0
    for distance in _distances(labels):
        start, length = _longest(nodes, labels, distance)
        if length + distance > best[1] + chosen:
            best, chosen = (start, length), distance
    repeats = best[1] // chosen + 1 if chosen else 0
    is_worth_it = repeats >= REPEATS and 2 * repeats * chosen >= LONG
    return (nodes, best[0], chosen, repeats) if is_worth_it else None


def _distances(labels: list[Hashable]) -> list[int]:
    """How long a step may be: the distances at which most nodes have one of their kind again."""
    places: dict[Hashable, list[int]] = {}
    for i, label in enumerate(labels):
        places.setdefault(label, []).append(i)
    votes: Counter[int] = Counter()
    for found in places.values():
        for later in range(1, min(MOST_ALIKE, len(found) // REPEATS) + 1):
            distances = Counter(b - a for a, b in zip(found, found[later:], strict=False))
            distance, often = distances.most_common(1)[0]
            if distance >= LEAST and 4 * often >= 3 * (len(found) - later):
                votes[distance] += often
                break
    return [distance for distance, _ in votes.most_common(TRIED)]


def _longest(nodes: list[UOp], labels: list[Hashable], distance: int) -> tuple[int, int]:
    """Where nodes begin to be like those a distance later, and how many in a row are."""
    place = {node: i for i, node in enumerate(nodes)}
    best = (0, 0)
    start = 0
    for i in range(len(nodes) - distance + 1):
        if i < len(nodes) - distance and labels[i] == labels[i + distance]:
            pairs = zip(nodes[i].src, nodes[i + distance].src, strict=True)
            if all(_corresponds(a, b, place, distance) for a, b in pairs):
                continue
        if i - start > best[1]:
            best = (start, i - start)
        start = i + 1
    return best


def _corresponds(one: UOp, other: UOp, place: dict[UOp, int], distance: int) -> bool:
    """Whether two sources are the same to two steps."""
    if one is other:
        return True
    if one in place and other in place:
        return place[other] == place[one] + distance
    if one.dtype is not other.dtype or one.shape != other.shape:
        return False
    if one.op is ops.PARAM and other.op is ops.PARAM:
        return not one.shape  # numbers
    return _is_window(one) and _is_window(other) and _memory(one) is _memory(other)


def _memory(node: UOp) -> UOp:
    while node.op is not ops.PARAM:
        node = node.src[0]
    return node


@dataclass(slots=True)
class _Roll:
    """Making calls of the steps of a run."""

    order: list[UOp]
    nodes: list[UOp]
    start: int
    distance: int
    repeats: int
    place: dict[UOp, int] = field(default_factory=dict)

    def rolled(self, graph: UOp) -> UOp | None:
        """The graph with calls; None if these steps are not worth it."""
        self.place = {node: i for i, node in enumerate(self.nodes)}
        self._choose_start()
        first = self.nodes[self.start : self.start + self.distance]
        if not any(node.op is ops.REDUCE for node in first):
            return None
        if any(type(size) is not int for node in first for size in node.shape):
            return None
        members = self._members()
        inside = {node: i for i, node in enumerate(first)}
        outer = self._arguments(first, inside)
        given = self._given(first, inside, outer)
        if given is None:
            return None
        params = {node: UOp.param(slot, node.dtype, node.shape) for slot, node in enumerate(outer)}
        body = _over(first, params)
        function = UOp.group(*[body[first[member]] for member in members]).function("step")
        return self._called(graph, function, members, given)

    def _choose_start(self) -> None:
        """Moves the first step to where the least is handed on."""
        last = self._last_uses()
        cost = [0] * self.distance
        for i in range(self.start, self.start + self.distance):
            size = prod(self.nodes[i].shape) * max(self.nodes[i].dtype.itemsize, 1)
            reach = min(last.get(i, i) - i, self.distance)
            for cut in range(i + 1, i + reach + 1):
                cost[(cut - self.start) % self.distance] += size
        shift = cost.index(min(cost))
        if shift:
            self.start += shift
            self.repeats -= 1

    def _last_uses(self) -> dict[int, int]:
        """The last place in the run where a node is used, by its place."""
        found: dict[int, int] = {}
        for i in range(self.start, self.start + self.distance * self.repeats):
            for source in self.nodes[i].src:
                if source in self.place:
                    found[self.place[source]] = i
        return found

    def _step_of(self, i: int) -> int:
        """The step that a place belongs to; -1 outside of the run."""
        step = (i - self.start) // self.distance
        return step if 0 <= step < self.repeats and i >= self.start else -1

    def _members(self) -> list[int]:
        """Which nodes of a step are used by others than itself."""
        found: set[int] = set()
        for node in self.order:
            at = self._step_of(self.place[node]) if node in self.place else -1
            for source in node.src:
                step = self._step_of(self.place[source]) if source in self.place else -1
                if step >= 0 and step != at:
                    found.add((self.place[source] - self.start) % self.distance)
        return sorted(found)

    def _arguments(self, first: list[UOp], inside: dict[UOp, int]) -> list[UOp]:
        """What the first step reads from elsewhere. Views of memory and numbers that all steps have stay in it."""
        second = self.nodes[self.start + self.distance : self.start + 2 * self.distance]
        found: dict[UOp, None] = {}
        for node, other in zip(first, second, strict=True):
            for source, again in zip(node.src, other.src, strict=True):
                if source not in inside:
                    found.update(dict.fromkeys(_bases(source) if source is again else [source]))
        return list(found)

    def _given(self, first: list[UOp], inside: dict[UOp, int], outer: list[UOp]) -> list[list[UOp]] | None:
        """The arguments of each step; None if two that are one in the first step differ in another."""
        given: list[list[UOp]] = []
        for step in range(self.repeats):
            begin = self.start + step * self.distance
            known: dict[UOp, UOp] = {}
            for node, other in zip(first, self.nodes[begin : begin + self.distance], strict=True):
                for source, again in zip(node.src, other.src, strict=True):
                    if source not in inside and known.setdefault(source, again) is not again:
                        return None
            given.append([known.get(argument, argument) for argument in outer])
        around = self._around()
        return None if any(argument in around for arguments in given for argument in arguments) else given

    def _around(self) -> set[UOp]:
        """What is computed from steps, but in none of them."""
        found: set[UOp] = set()
        for node in self.order:
            if node not in self.place or self._step_of(self.place[node]) < 0:
                inner = [s for s in node.src if s in self.place and self._step_of(self.place[s]) >= 0]
                if inner or not found.isdisjoint(node.src):
                    found.add(node)
        return found

    def _called(self, graph: UOp, function: UOp, members: list[int], given: list[list[UOp]]) -> UOp:
        """The graph with a call for each step, made when the first of its nodes that others use comes."""
        done: dict[UOp, UOp] = {}
        calls: list[UOp] = []
        places = {member: number for number, member in enumerate(members)}
        for node in self.order:
            step = self._step_of(self.place[node]) if node in self.place else -1
            if step < 0:
                src = [done.get(s, s) for s in node.src]
                if tuple(src) != node.src:
                    done[node] = make(node.op, tuple(src), node.arg)
                continue
            member = places.get((self.place[node] - self.start) % self.distance)
            if member is not None:
                if step == len(calls):
                    calls.append(function.call(*[done.get(s, s) for s in given[step]]))
                done[node] = make(ops.ITEM, (calls[step],), member)
        return done.get(graph, graph)


def _bases(node: UOp) -> list[UOp]:
    """The memory that a node shows, or itself if it is computed; nothing for what is made of numbers alone."""
    seen: dict[UOp, None] = {}
    stack = [node]
    while stack:
        part = stack.pop()
        if part.op is ops.PARAM:
            seen[part] = None
        elif part.op in ops.MOVEMENT:
            stack.extend(part.src)
        elif part.src and any(each.op is ops.PARAM for each in topological((part,))):
            return [node]
    return list(seen)


def _over(first: list[UOp], params: dict[UOp, UOp]) -> dict[UOp, UOp]:
    """The nodes of the first step on params."""
    return map_graphs(first, lambda *_: None, dict(params))
