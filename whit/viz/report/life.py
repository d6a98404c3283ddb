"""`show`: the life of a kernel, from its graph through every pass to source, machine code and time."""

from __future__ import annotations

import statistics
from collections.abc import Collection

from whit.viz.model import Kernel, Pass, Rewriting, Trace
from whit.viz.report.graphs import NodeTexts, graph_diff, graph_text
from whit.viz.report.overview import kernel_data
from whit.viz.report.roofline import roofline_data, roofline_text
from whit.viz.report.table import Data, amount, ms, plural, table

PARTS = ("graph", "passes", "diff", "rules", "rewrites", "source", "assembly")
MOST_REWRITES = 200  # of one pass, as text


def life_data(trace: Trace, kernel: Kernel, parts: Collection[str]) -> Data:
    """All about a kernel; `parts` says which long parts are wanted."""
    texts = NodeTexts(trace) if "rewrites" in parts else None
    passes = []
    before = kernel.graph
    for step in kernel.passes:
        passes.append(_pass_data(trace, step, before, parts, texts))
        before = step.graph if step.graph >= 0 else before
    durations = kernel.durations
    return {
        **kernel_data(kernel),
        "also": _also(trace, kernel),
        "target": kernel.target,
        "line": trace.line(kernel.stack),
        "stack": [f"{file}:{line} in {name}" for file, line, name in trace.stacks.get(kernel.stack, [])],
        "schedules": [s.label for s in trace.schedules.values() if kernel.id in s.calls],
        "bytes_read": kernel.bytes_read,
        "bytes_written": kernel.bytes_written,
        "median_ns": int(statistics.median(durations)) if durations else 0,
        "explanation": kernel.explanation.splitlines(),
        "cores_range": kernel.total,
        "code_bytes": kernel.code_bytes,
        "render_ns": kernel.render_ns,
        "render_rewrites": kernel.rendering.total_hits,
        "code_ns": kernel.code_ns,
        "roofline": roofline_data(trace, kernel),
        "graph": graph_text(trace, kernel.graph) if "graph" in parts else None,
        "passes": passes,
        "source": kernel.source if "source" in parts else None,
        "assembly": kernel.assembly if "assembly" in parts else None,
    }


def _also(trace: Trace, kernel: Kernel) -> str:
    """What it computes beside what its first launch is called after."""
    for schedule in trace.schedules.values():
        for number, launch in zip(schedule.calls, schedule.launches, strict=False):
            if number == kernel.id and launch.also:
                return launch.also
    return ""


def _pass_data(trace: Trace, step: Pass, before: int, parts: Collection[str], texts: NodeTexts | None) -> Data:
    data: Data = {
        "name": step.name,
        "why": step.why,
        "ns": step.ns,
        "rewrites": step.rewriting.total_hits,
        "changed": step.graph not in (before, -1),
        "lines": len(trace.graphs[step.graph].splitlines()) if step.graph in trace.graphs else 0,
    }
    if "rules" in parts:
        data["rules"] = rules_data(trace, step.rewriting)
    if texts is not None:
        data["steps"] = steps_data(trace, step.rewriting, texts)
    if "passes" in parts:
        data["graph"] = graph_text(trace, step.graph)
    if "diff" in parts:
        data["diff"] = graph_diff(trace, before, step.graph)
    return data


def rules_data(trace: Trace, rewriting: Rewriting) -> list[Data]:
    """The rules that fired."""
    found = []
    for number, hits in rewriting.hits().items():
        rule = trace.rules.get(number)
        if rule is not None:
            found.append({"rule": rule.name, "where": rule.place, "hits": hits})
    return found


def steps_data(trace: Trace, rewriting: Rewriting, texts: NodeTexts) -> list[Data]:
    """The rewrites in order."""
    found = []
    for number, before, after in rewriting.steps[:MOST_REWRITES]:
        rule = trace.rules.get(number)
        name, place = (rule.name, rule.place) if rule is not None else (f"rule {number}", "")
        found.append({"rule": name, "where": place, "before": texts[before], "after": texts[after]})
    return found


def life_text(data: Data) -> str:
    """The same in words."""
    parts = [_summary(data), roofline_text(data["roofline"])]
    reasons = data["explanation"] or ["none: loops as they are, or an algorithm of its own"]
    parts.append("\n".join(["tiling:", *(f"  {reason}" for reason in reasons)]))
    if data["passes"]:
        rows = [
            (
                step["name"],
                ms(step["ns"]),
                str(step["rewrites"]),
                str(step["lines"]) if step["changed"] else "unchanged",
            )
            for step in data["passes"]
        ]
        rows.append(("write source", ms(data["render_ns"]), str(data["render_rewrites"]), ""))
        rows.append(("machine code", ms(data["code_ns"]), "", ""))
        parts.append(table(("pass", "ms", "rewrites", "lines"), rows))
    elif not data["is_compiled"]:
        parts.append("it was compiled before the recording began, or not at all: no passes, no source")
    if data["graph"] is not None:
        parts.append(f"--- graph\n{data['graph']}")
    parts += [text for step in data["passes"] if (text := _pass_text(step))]
    if data["source"]:
        parts.append(f"--- source\n{data['source'].rstrip()}")
    if data["assembly"]:
        parts.append(f"--- machine code\n{data['assembly'].rstrip()}")
    return "\n\n".join(parts)


def _summary(data: Data) -> str:
    where = f", compiled at {data['line']}" if data["line"] else ""
    lines = [f"{data['id']} {data['name']} for {data['target'] or 'a device that does not compile'}{where}"]
    lines += [f"computes {data['computes']}"] if data["computes"] else []
    lines += [f"with {data['also']}"] if data["also"] else []
    used = ", ".join(data["schedules"])
    if data["runs"]:
        best, median = data["best_ns"] / 1e3, data["median_ns"] / 1e3
        lines.append(f"{plural(data['runs'], 'run')} in {used}: best {best:.1f} us, median {median:.1f} us")
    else:
        lines.append(f"in {used or 'no schedule'}; it did not run")
    if data["passes"] and not data["is_compiled"]:
        lines.append(f"its compilation did not come further than {data['passes'][-1]['name']}")
    lines.append(
        f"reads {amount(data['bytes_read'])}, writes {amount(data['bytes_written'])}, {data['ops']:,} operations, "
        f"{amount(data['code_bytes'])} of machine code, {plural(data['cores_range'], 'part')} for the cores"
    )
    return "\n".join(lines)


def _pass_text(step: Data) -> str:
    lines: list[str] = []
    if step.get("rules"):
        lines += [f"{rule['hits']:6}  {rule['rule']}  [{rule['where']}]" for rule in step["rules"]]
    for rewrite in step.get("steps", []):
        lines.append(f"  {rewrite['rule']}  [{rewrite['where']}]")
        lines.append(f"    {rewrite['before']}  ->  {rewrite['after']}")
    if step.get("graph") is not None:
        lines.append(step["graph"] if step["changed"] else "(unchanged)")
    if step.get("diff"):
        lines.append(step["diff"])
    return "\n".join([f"--- after {step['name']}", *lines]) if lines else ""
