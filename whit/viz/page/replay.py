"""The rewrites of a pass as changes of one graph, so that the page can show it before and after any of them.

The graph is a set of slots, each with a row and the slots of its operands. A rewrite makes the slots that are new in
what comes after it, and then one slot stands for another:

    slots     0 range   1 mul 0, 2   2 add 1, "0"   3 store 2
    rewrite   x + 0 -> x             slot 2 becomes slot 1: the store now reads 1
    rewrite   x * 2 -> x << 1        makes slot 4, shl 0, "1"; slot 1 becomes 4

Nodes above a change keep their slots: a rewrite of 10,000 costs what it changes, not the graph. A rewrite of something
that is not in the graph, as rules do on the side, makes slots that nothing refers to.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from whit.ir import ops
from whit.ir.text.parse import parse_all
from whit.ir.uop import UOp
from whit.viz.model import Rewriting, Trace
from whit.viz.page.rows import Data, Row, row
from whit.viz.report.graphs import UNREADABLE, parsed

CHUNK_REWRITES = 1000  # rewrites of one document

_SOURCE = re.compile(r"%(\d{1,12})")


@dataclass(frozen=True, slots=True)
class RewritePlace:
    """Where rewrites happened: a name for the page, the graph they began with, and what they were."""

    name: str
    title: str
    graph: int
    rewriting: Rewriting


class Replay:
    """The slots of one place, after the chunks that were asked for so far."""

    def __init__(self, trace: Trace, place: RewritePlace) -> None:
        self._trace = trace
        self._steps = place.rewriting.steps
        self._rows: list[Row] = []
        self._by_key: dict[str, int] = {}  # a row, with the slots that its operands stand for now -> its slot
        self._slots: dict[UOp, int] = {}
        self._became: dict[int, int] = {}
        self._users: dict[int, list[int]] = {}
        self._nodes: dict[int, UOp] = {}
        self._chunks: list[Data] = []
        root = parsed(trace, place.graph)
        if root is not None and root.op is not ops.FUNCTION:
            self._slot(root)
        self._root = len(self._rows) - 1

    def chunk(self, number: int) -> Data | None:
        """One document; those before it are made on the way."""
        while len(self._chunks) <= number and len(self._chunks) * CHUNK_REWRITES < max(len(self._steps), 1):
            self._chunks.append(self._next())
        return self._chunks[number] if number < len(self._chunks) else None

    def _next(self) -> Data:
        first = len(self._chunks) * CHUNK_REWRITES
        made = len(self._rows) if self._chunks else 0
        steps = self._steps[first : first + CHUNK_REWRITES]
        self._read({node for _, *pair in steps for node in pair})
        events = [self._step(rule, before, after) for rule, before, after in steps]
        return {
            "first": first,
            "total": len(self._steps),
            "root": self._root,
            "made": made,
            "rows": self._rows[made:],
            "steps": events,
        }

    def _step(self, rule: int, before: int, after: int) -> list[int]:
        """[rule, slot before, slot after, how many slots there are then]; -1 for what cannot be shown."""
        old, new = self._nodes.get(before), self._nodes.get(after)
        source = -1 if old is None or old.op is ops.CONST else self._slot(old)
        if new is None:
            return [rule, source, -1, len(self._rows)]
        if old is not None and source >= 0 and self._is_new_above(new, old):
            return [rule, *self._wrap(old, new, source), len(self._rows)]
        target = self._slot(new)
        if source >= 0 and source != target:
            self._replace(source, target)
        return [rule, source, target, len(self._rows)]

    def _wrap(self, old: UOp, new: UOp, source: int) -> tuple[int, int]:
        """`x -> f(x)`: what reads x now reads f(x), but f reads x, which therefore gets a slot of its own."""
        self._slots[old] = self._add(list(self._rows[source]))
        target = self._slot(new)
        self._replace(source, target)
        return source, target

    def _is_new_above(self, root: UOp, node: UOp) -> bool:
        """Whether new nodes lie above a known one."""
        stack = [] if root in self._slots else [root]
        seen = set(stack)
        while stack:
            for source in stack.pop().src:
                if source is node:
                    return True
                if source not in self._slots and source not in seen:
                    seen.add(source)
                    stack.append(source)
        return False

    # ---- slots

    def _find(self, slot: int) -> int:
        while slot in self._became:
            slot = self._became[slot]
        return slot

    def _slot(self, root: UOp) -> int:
        """The slot that stands for a node now; it is made where there is none. A constant has a row of its own."""
        stack = [root]
        while stack:
            node = stack[-1]
            missing = [s for s in node.src if s not in self._slots and s.op not in (ops.CONST, ops.FUNCTION)]
            if node in self._slots or not missing:
                stack.pop()
                if node not in self._slots:
                    self._slots[node] = self._known_or_new(node)
            else:
                stack += reversed(missing)
        return self._find(self._slots[root])

    def _known_or_new(self, node: UOp) -> int:
        made = row(node, lambda source: self._find(self._slots[source]))
        key = repr(made[:3])
        if key not in self._by_key:
            self._by_key[key] = self._add(made)
        return self._by_key[key]

    def _add(self, made: Row) -> int:
        slot = len(self._rows)
        self._rows.append(made)
        for operand in made[1]:
            if isinstance(operand, int):
                self._users.setdefault(operand, []).append(slot)
        return slot

    def _replace(self, source: int, target: int) -> None:
        """`source` stands for `target` from here on: what refers to it is known under another key."""
        self._became[source] = target
        users = self._users.pop(source, [])
        for user in users:
            made = self._rows[user]
            operands = [self._find(o) if isinstance(o, int) else o for o in made[1]]
            self._by_key.setdefault(repr([made[0], operands, made[2]]), user)
        self._users.setdefault(target, []).extend(users)

    # ---- nodes of the file

    def _read(self, wanted: set[int]) -> None:
        """Nodes by number, with all that lies below them."""
        lines = self._lines_below(wanted)
        constants = {n: line.removeprefix("const ") for n, line in lines.items() if line.startswith("const ")}
        named = {number: f"%{number}" for number in lines} | constants
        text = "\n".join(f"%{number} = {line}" for number, line in lines.items() if number not in constants)
        try:
            roots = parse_all(f"{text}\nroots {', '.join(named.values())}") if named else ()
            self._nodes.update(zip(named, roots, strict=True))
        except UNREADABLE:
            return

    def _lines_below(self, wanted: set[int]) -> dict[int, str]:
        """The lines of nodes by number, operands first. Functions are named only: what refers to one has no node."""
        lines: dict[int, str] = {}
        stack = [number for number in wanted if number not in self._nodes]
        while stack:
            number = stack.pop()
            line = self._trace.nodes.get(number)
            if number in lines or line is None or line.startswith("function ") or "\n" in line:
                continue
            lines[number] = line
            stack += [below for text in _SOURCE.findall(line) if (below := int(text)) < number]
        known: dict[int, str] = {}
        for number in sorted(lines):
            if all(int(source) in known for source in _SOURCE.findall(lines[number])):
                known[number] = lines[number]
        return known


def places(trace: Trace) -> dict[str, RewritePlace]:
    """Every place with rewrites, by name: s0, k3.2 (its second pass), k3.0 (while its source was written), rest."""
    found = [RewritePlace(s.label, f"schedule {s.label}", s.graph, s.rewriting) for s in trace.schedules.values()]
    for kernel in trace.kernels.values():
        before = kernel.graph
        for number, step in enumerate(kernel.passes, start=1):
            found.append(RewritePlace(f"{kernel.label}.{number}", step.name, before, step.rewriting))
            before = step.graph if step.graph >= 0 else before
        found.append(RewritePlace(f"{kernel.label}.0", "write source", before, kernel.rendering))
    found.append(RewritePlace("rest", "elsewhere", -1, trace.elsewhere))
    return {place.name: place for place in found if place.rewriting.steps}
