"""Rule sets that report what they do: to a trace, to counts, to a recording.

The functions of rules are compiled apart for this, so watching costs nothing when it is off.
"""

from __future__ import annotations

import time
from typing import Any

from whit.cache import register_cache
from whit.dtype import DType
from whit.ir.op import Op
from whit.ir.rules import AnyRule, Compiled, Rules, compile_rules, short_location
from whit.ir.uop import UOp
from whit.recording import hooks
from whit.records import dataclass, field


@dataclass(frozen=True, slots=True)
class RewriteStep:
    """One rewrite."""

    rule: AnyRule
    before: UOp
    after: UOp

    def __str__(self) -> str:
        where = short_location(self.rule.where)
        return f"{self.before.expression()}  ->  {self.after.expression()}    [{self.rule.name}, {where}]"


@dataclass(slots=True)
class Count:
    """What one rule did."""

    attempts: int = 0
    hits: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class Counts:
    """Statistics by rule."""

    by_rule: dict[AnyRule, Count] = field(default_factory=dict)

    def __str__(self) -> str:
        rows = sorted(self.by_rule.items(), key=lambda row: -row[1].seconds)
        lines = [f"{'hits':>8} {'attempts':>9} {'ms':>9}  rule"]
        for rule, count in rows:
            where = short_location(rule.where)
            lines.append(f"{count.hits:8} {count.attempts:9} {count.seconds * 1e3:9.3f}  {rule.name}  [{where}]")
        return "\n".join(lines)


class Watched(Rules):
    """A rule set whose functions report to a trace and to counts."""

    def __init__(self, rules: Rules, trace: list[RewriteStep] | None, counts: Counts | None) -> None:
        super().__init__(rules.name, rules.rules)
        self.trace = trace
        self.counts = counts

    def compile(self, op: Op, dtype: DType) -> Compiled | None:
        rules = self.applicable(op, dtype)
        function = self._watch(rules, op, dtype) if rules else None
        self.compiled[op][dtype] = function
        return function

    def _watch(self, rules: list[AnyRule], op: Op, dtype: DType) -> Compiled:
        trace, counts = self.trace, self.counts

        def observe(rule: AnyRule, before: UOp, after: UOp) -> None:
            if trace is not None:
                trace.append(RewriteStep(rule, before, after))

        functions = [(rule, compile_rules(self.name, [rule], op, dtype, observe)[1]) for rule in rules]

        def function(node: UOp, context: Any) -> UOp | None:
            for rule, apply in functions:
                start = time.perf_counter()
                found = apply(node, context)
                if counts is not None:
                    count = counts.by_rule.setdefault(rule, Count())
                    count.attempts += 1
                    count.hits += found is not None
                    count.seconds += time.perf_counter() - start
                if found is not None:
                    return found
            return None

        return function


class _Recorded(Rules):
    """A rule set whose functions report to the recorder, while there is one."""

    def compile(self, op: Op, dtype: DType) -> Compiled | None:
        functions = [(rule, compile_rules(self.name, [rule], op, dtype)[1]) for rule in self.applicable(op, dtype)]

        def function(node: UOp, context: Any) -> UOp | None:
            recorder = hooks.recorder
            for rule, apply in functions:
                start = time.perf_counter_ns()
                found = apply(node, context)
                if recorder is not None:
                    recorder.tried(rule, found is not None, time.perf_counter_ns() - start)
                    if found is not None:
                        recorder.rewrote(rule, node, found)
                if found is not None:
                    return found
            return None

        self.compiled[op][dtype] = function if functions else None
        return self.compiled[op][dtype]


_recorded_sets: dict[Rules, _Recorded] = {}
register_cache(_recorded_sets.clear, "ir.recorded_rules")


def recorded(rules: Rules) -> _Recorded:
    found = _recorded_sets.get(rules)
    if found is None:
        found = _recorded_sets[rules] = _Recorded(rules.name, rules.rules)
    return found
