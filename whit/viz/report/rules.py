"""`rule`: what rules say, where they are written, and what they did."""

from __future__ import annotations

from whit.viz.model import Rewriting, Trace
from whit.viz.report.effort import total_counts
from whit.viz.report.search import compiled
from whit.viz.report.table import Data, ms, plural


def rules_data(trace: Trace, pattern: str, count: int) -> Data:
    """The first `count` rules whose name or text matches, those that fired most often first."""
    wanted = compiled(pattern)
    totals = total_counts(_everywhere(trace))
    found = [
        {
            "rule": rule.name,
            "where": rule.place,
            **dict(zip(("attempts", "hits", "ns"), totals.get(number, [0, 0, 0]), strict=True)),
            "source": rule.source,
        }
        for number, rule in trace.rules.items()
        if wanted.search(rule.name) or wanted.search(rule.source)
    ]
    found.sort(key=lambda rule: (-int(str(rule["hits"])), str(rule["rule"])))
    return {"pattern": pattern, "found": len(found), "rules": found[:count]}


def _everywhere(trace: Trace) -> list[Rewriting]:
    places = [trace.elsewhere, *(schedule.rewriting for schedule in trace.schedules.values())]
    for kernel in trace.kernels.values():
        places += [kernel.rendering, *(step.rewriting for step in kernel.passes)]
    return places


def rules_text(data: Data) -> str:
    """The same in words."""
    parts = []
    for rule in data["rules"]:
        did = f"{plural(rule['hits'], 'hit')} in {plural(rule['attempts'], 'attempt')}, {ms(rule['ns'])} ms"
        source = "\n".join(f"    {line}" for line in rule["source"].splitlines())
        parts.append(f"{rule['rule']}  [{rule['where']}]\n  {did}" + (f"\n{source}" if source else ""))
    left = data["found"] - len(data["rules"])
    parts += [f"... {left:,} more; -n shows more of them"] if left else []
    return "\n\n".join(parts) if parts else f"no rule matches {data['pattern']}"
