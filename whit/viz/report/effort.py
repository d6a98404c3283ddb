"""`compile`: where compile time went, by phase, by pass and by rule."""

from __future__ import annotations

from collections.abc import Iterable

from whit.viz.model import Counts, Kernel, Pass, Rewriting, Trace
from whit.viz.report.table import Data, ms, plural, table


def effort_data(trace: Trace, kernel: Kernel | None, count: int) -> Data:
    """Of all, or of one kernel; the `count` rules that took longest."""
    kernels = list(trace.kernels.values()) if kernel is None else [kernel]
    steps = [step for one in kernels for step in one.passes]
    rendering = [one.rendering for one in kernels]
    phases = [
        *_passes(steps),
        _phase("write source", sum(one.render_ns for one in kernels), rendering),
        _phase("machine code", sum(one.code_ns for one in kernels), ()),
    ]
    places = [*rendering, *(step.rewriting for step in steps)]
    if kernel is None:
        schedules = trace.schedules.values()
        scheduling = [schedule.rewriting for schedule in schedules]
        phases.insert(0, _phase("schedule", sum(schedule.ns for schedule in schedules), scheduling))
        places += [trace.elsewhere, *scheduling]
    return {
        "kernel": None if kernel is None else kernel.label,
        "kernels": sum(one.is_compiled for one in kernels),
        "total_ns": sum(phase["ns"] for phase in phases),
        "phases": phases,
        "rules": _rules(trace, places)[:count],
    }


def _phase(name: str, ns: int, rewriting: Iterable[Rewriting]) -> Data:
    return {"phase": name, "ns": ns, "rewrites": sum(one.total_hits for one in rewriting)}


def _passes(steps: Iterable[Pass]) -> list[Data]:
    """A phase for each pass, in the order in which kernels go through them."""
    by_name: dict[str, list[Pass]] = {}
    for step in steps:
        by_name.setdefault(step.name, []).append(step)
    return [_phase(name, sum(one.ns for one in of), [one.rewriting for one in of]) for name, of in by_name.items()]


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
