"""`grep`: nodes of graphs, or rewrites, that match a pattern."""

from __future__ import annotations

import re
from collections.abc import Iterator

from whit.errors import ArgumentError
from whit.viz.model import Rewriting, Trace
from whit.viz.report.graphs import NodeTexts
from whit.viz.report.table import Data


def compiled(pattern: str) -> re.Pattern[str]:
    """A regular expression of the user's."""
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ArgumentError(
            f"viz: {pattern!r} is no regular expression", str(error), "Put a backslash before ( [ * + ?"
        ) from None


def search_data(trace: Trace, pattern: str, rewrites: bool, count: int) -> Data:
    """The first `count` matches: lines of graphs, or rewrites whose rule or nodes match."""
    wanted = compiled(pattern)
    matches: list[Data] = []
    found = 0
    for match in _rewrites(trace, wanted) if rewrites else _lines(trace, wanted):
        found += 1
        if found <= count:
            matches.append(match)
    return {"pattern": pattern, "matches": matches, "found": found}


def _graphs(trace: Trace) -> Iterator[tuple[str, int]]:
    """Every graph with where it is from; each once."""
    seen: set[int] = set()
    for schedule in trace.schedules.values():
        for what, graph in (("graph", schedule.graph), ("schedule", schedule.linear)):
            if graph not in seen:
                seen.add(graph)
                yield f"{schedule.label} {what}", graph
    for kernel in trace.kernels.values():
        for what, graph in (("graph", kernel.graph), *((step.name, step.graph) for step in kernel.passes)):
            if graph not in seen:
                seen.add(graph)
                yield f"{kernel.label} {what}", graph


def _lines(trace: Trace, wanted: re.Pattern[str]) -> Iterator[Data]:
    for where, graph in _graphs(trace):
        for number, line in enumerate(trace.graphs.get(graph, "").split("\n"), start=1):
            if wanted.search(line):
                yield {"where": where, "line": number, "text": line.strip()}


def _places(trace: Trace) -> Iterator[tuple[str, Rewriting]]:
    for schedule in trace.schedules.values():
        yield schedule.label, schedule.rewriting
    for kernel in trace.kernels.values():
        for step in kernel.passes:
            yield f"{kernel.label} {step.name}", step.rewriting
        yield f"{kernel.label} write source", kernel.rendering
    yield "elsewhere", trace.elsewhere


def _rewrites(trace: Trace, wanted: re.Pattern[str]) -> Iterator[Data]:
    spelled = NodeTexts(trace)
    for where, rewriting in _places(trace):
        for number, (rule_number, before, after) in enumerate(rewriting.steps, start=1):
            rule = trace.rules.get(rule_number)
            name, place = (rule.name, rule.place) if rule is not None else (f"rule {rule_number}", "")
            text = f"{spelled[before]}  ->  {spelled[after]}"
            if wanted.search(text) or wanted.search(name):
                yield {"where": where, "line": number, "text": text, "rule": name, "rule_at": place}


def search_text(data: Data) -> str:
    """The same in words."""
    lines = []
    for match in data["matches"]:
        lines.append(f"{match['where']}:{match['line']}: {match['text']}")
        if "rule" in match:
            lines.append(f"    {match['rule']}  [{match['rule_at']}]")
    left = data["found"] - len(data["matches"])
    if left:
        lines.append(f"... {left:,} more; -n shows more of them")
    return "\n".join(lines) if lines else f"nothing matches {data['pattern']}"
