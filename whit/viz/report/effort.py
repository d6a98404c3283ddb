"""`compile`: where compile time went, by phase, by pass and by rule."""

from __future__ import annotations

from collections.abc import Iterable

from whit.viz.model import Counts, Kernel, Rewriting, Trace
from whit.viz.report.table import Data, ms, plural, table


def effort_data(trace: Trace, kernel: Kernel | None, count: int) -> Data:
    """Of all, or of one kernel; the `count` rules that took longest."""
    kernels = list(trace.kernels.values()) if kernel is None else [kernel]
    passes: dict[str, list[int]] = {}
    for step in (step for one in kernels for step in one.passes):
        entry = passes.setdefault(step.name, [0, 0])
        entry[0] += step.ns
        entry[1] += step.rewriting.total_hits
    phases = [{"phase": name, "ns": ns, "rewrites": rewrites} for name, (ns, rewrites) in passes.items()]
    schedules = list(trace.schedules.values()) if kernel is None else []
    if kernel is None:
        hits = sum(schedule.rewriting.total_hits for schedule in schedules)
        phases.insert(0, {"phase": "schedule", "ns": sum(s.ns for s in schedules), "rewrites": hits})
    rendering = [one.rendering for one in kernels]
    hits = sum(one.total_hits for one in rendering)
    phases.append({"phase": "write source", "ns": sum(k.render_ns for k in kernels), "rewrites": hits})
    phases.append({"phase": "machine code", "ns": sum(k.code_ns for k in kernels), "rewrites": 0})
    places = [*rendering, *(step.rewriting for one in kernels for step in one.passes)]
    if kernel is None:
        places += [trace.elsewhere, *(schedule.rewriting for schedule in schedules)]
    return {
        "kernel": None if kernel is None else kernel.label,
        "kernels": sum(one.is_compiled for one in kernels),
        "total_ns": sum(phase["ns"] for phase in phases),
        "phases": phases,
        "rules": _rules(trace, places)[:count],
    }


def _rules(trace: Trace, places: Iterable[Rewriting]) -> list[Data]:
    """Counts of all places together, the most time first. A rule that rewrites in turn has that time too."""
    found = []
    for number, (attempts, hits, ns) in sorted(total_counts(places).items(), key=lambda item: -item[1][2]):
        rule = trace.rules.get(number)
        name, place = (rule.name, rule.place) if rule is not None else (f"rule {number}", "")
        found.append({"rule": name, "where": place, "attempts": attempts, "hits": hits, "ns": ns})
    return found


def total_counts(places: Iterable[Rewriting]) -> Counts:
    """Attempts, hits and nanoseconds of each rule in some places."""
    total: Counts = {}
    for rewriting in places:
        for number, counts in rewriting.counts.items():
            sums = total.setdefault(number, [0, 0, 0])
            for i, value in enumerate(counts):
                sums[i] += value
    return total


def effort_text(data: Data) -> str:
    """The same in words."""
    total = data["total_ns"]
    of = data["kernel"] or plural(data["kernels"], "kernel")
    lines = [f"{ms(total)} ms for {of}"]
    rows = [
        (phase["phase"], ms(phase["ns"]), f"{phase['ns'] / total:.1%}" if total else "", str(phase["rewrites"]))
        for phase in data["phases"]
    ]
    lines.append(table(("phase", "ms", "share", "rewrites"), rows))
    if data["rules"]:
        rules = [
            (ms(rule["ns"]), str(rule["hits"]), str(rule["attempts"]), f"{rule['rule']}  [{rule['where']}]")
            for rule in data["rules"]
        ]
        lines += ["", table(("ms", "hits", "attempts", "rule"), rules, left=(3,))]
    else:
        lines += ["", "no rewrites were recorded (VIZ_REWRITES=0)"]
    return "\n".join(lines)
