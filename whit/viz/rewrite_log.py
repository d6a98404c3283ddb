"""Rewrites and the time of rules, collected by thread until it is known which pass they belong to."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from whit.ir.rules import AnyRule
from whit.ir.uop import UOp
from whit.viz.tables import Nodes, RuleTable
from whit.viz.writer import TraceWriter

MOST_STEPS = 200_000  # of one pass; the counts go on


@dataclass(slots=True)
class Pending:
    """What one thread has done since the last pass ended."""

    steps: list[tuple[int, int, int]] = field(default_factory=list)  # rule, before, after
    counts: dict[AnyRule, list[int]] = field(default_factory=dict)  # rule -> attempts, hits, nanoseconds


class RewriteLog:
    """The rewrites that are not written yet."""

    def __init__(self, writer: TraceWriter, rules: RuleTable) -> None:
        self._writer = writer
        self._rules = rules
        self._nodes = Nodes(writer)
        self._threads: dict[int, Pending] = {}

    def _pending(self) -> Pending:
        thread = threading.get_ident()
        found = self._threads.get(thread)
        if found is None:
            found = self._threads[thread] = Pending()
        return found

    def tried(self, rule: AnyRule, hit: bool, nanoseconds: int) -> None:
        """A rule was tried."""
        counts = self._pending().counts
        count = counts.get(rule)
        if count is None:
            counts[rule] = [1, int(hit), nanoseconds]
        else:
            count[0] += 1
            count[1] += hit
            count[2] += nanoseconds

    def rewrote(self, rule: AnyRule, before: UOp, after: UOp) -> None:
        """A rule replaced a node."""
        steps = self._pending().steps
        if len(steps) < MOST_STEPS:
            steps.append((self._rules.number(rule), self._nodes.number(before), self._nodes.number(after)))

    def write(self, place: dict[str, Any]) -> None:
        """What this thread has done belongs to this place: a pass of a kernel, a schedule, or neither."""
        pending = self._threads.pop(threading.get_ident(), None)
        if pending is None:
            return
        if pending.steps:
            self._nodes.write()
            self._writer.add("rewrites", **place, steps=pending.steps)
        counts = [[self._rules.number(rule), *count] for rule, count in pending.counts.items()]
        if counts:
            self._writer.add("rules", **place, counts=counts)
