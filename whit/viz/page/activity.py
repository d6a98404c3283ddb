"""Time and memory for the page: what ran when on which queue, what was in use, where compile time went."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from whit.engine.programs.dependencies import written_by
from whit.ir import ops
from whit.viz.memory import Curve, alive_at, before_start, curves
from whit.viz.model import Allocation, Kernel, Rewriting, Trace
from whit.viz.page.rows import Data
from whit.viz.report.effort import effort_data
from whit.viz.report.graphs import parsed
from whit.viz.report.memory import memory_data, role

MOST_LAUNCHES = 200_000
MOST_BUFFERS = 800  # of a device that are shown one by one
MOST_POINTS = 4000  # of a curve
MOST_RULES = 12  # of a pass
MOST_RULES_LISTED = 200


# ---- time


def timeline_document(trace: Trace) -> Data:
    """Lanes (a queue of a device: a thread that launches, or a stream), launches as columns, with their names, copies,
    and what the host did."""
    lanes: dict[tuple[str, str], int] = {}
    columns: dict[str, list[int]] = {name: [] for name in ("lane", "start", "ns", "kernel", "call", "run", "name")}
    names: dict[str, int] = {"": 0}
    runs: list[list[int]] = []
    left_out = 0
    for run in trace.runs:
        schedule = trace.schedules.get(run.schedule)
        device, calls = (schedule.device, schedule.calls) if schedule is not None else ("?", [])
        lane = lanes.setdefault((device, run.queue_name), len(lanes))
        if len(columns["start"]) >= MOST_LAUNCHES:
            left_out += len(run.times)
            continue
        for call, (kernel, (start, end)) in enumerate(zip(calls, run.times, strict=False)):
            text = run.names[call] if call < len(run.names) else ""
            number = names.setdefault(text, len(names))
            for name, value in zip(columns, (lane, start, end - start, kernel, call, len(runs), number), strict=True):
                columns[name].append(value)
        runs.append([run.schedule, run.stack])
    ways: dict[tuple[str, str], int] = {}  # lanes of copies, after the others
    copies = [
        [len(lanes) + ways.setdefault((c.device, c.what), len(ways)), c.start, c.end - c.start, c.nbytes, c.stack]
        for c in trace.copies[:MOST_LAUNCHES]
    ]
    return {
        "end": trace.last,
        "lanes": [{"device": device, "queue": queue} for device, queue in (*lanes, *ways)],
        "launches": columns,
        "names": list(names),
        "copies": copies,
        "runs": runs,
        "host": _host(trace),
        "events": [
            [event["at"], str(event.get("kind", "")), str((event.get("fields") or {}).get("name", ""))]
            for event in trace.events
            if type(event.get("at")) is int and isinstance(event.get("fields"), dict | None)
        ],
        "left_out": left_out + len(trace.copies) - len(copies),
    }


def _host(trace: Trace) -> list[list[Any]]:
    """[start, ns, "schedule" or "kernel", number] of all that was scheduled and compiled, in order."""
    spans = [[max(s.at - s.ns, 0), s.ns, "schedule", s.id] for s in trace.schedules.values() if s.ns]
    spans += [[max(k.at - k.compile_ns, 0), k.compile_ns, "kernel", k.id] for k in trace.kernels.values() if k.at]
    return sorted(spans)


def dependencies(trace: Trace, schedule: int) -> list[list[list[int]]]:
    """For each call of a schedule, [earlier call, argument]: where the memory of an argument was last written."""
    found = trace.schedules.get(schedule)
    linear = parsed(trace, found.linear) if found is not None else None
    last: dict[Any, int] = {}
    needed: list[list[list[int]]] = []
    for number, call in enumerate(linear.src if linear is not None else ()):
        arguments = call.src[1:]
        needed.append([[last[node], place] for place, node in enumerate(arguments) if node in last])
        if call.op is ops.CALL and call.src[0].op is ops.FUNCTION:
            last.update((arguments[slot], number) for slot in written_by(call.src[0]) if slot < len(arguments))
    return needed


# ---- memory


def memory_document(trace: Trace) -> Data:
    """Of each device: the curve, the peak with its holders, and the buffers that matter one by one."""
    summaries = memory_data(trace, 1, 100)["devices"]
    return {
        "end": trace.last,
        "devices": [
            {**summary, **_device(trace, curve)} for summary, curve in zip(summaries, curves(trace), strict=True)
        ],
    }


def _device(trace: Trace, curve: Curve) -> Data:
    mine = [a for a in trace.allocations if a.device == curve.device]
    at_peak = {id(a) for a in alive_at(trace, curve.device, curve.peak[1])}
    mine.sort(key=lambda a: (-_weight(trace, a), a.number))
    shown = sorted(mine[:MOST_BUFFERS], key=lambda a: (a.start, a.number))
    moments, amounts = curve.moments, curve.amounts
    if len(moments) > MOST_POINTS:
        moments, amounts = map(list, zip(*curve.most_in(MOST_POINTS, trace.last), strict=True))
    return {
        "curve": [moments, amounts],
        "before": before_start(trace, curve.device),
        "buffers": [[a.start, a.end, a.nbytes, a.type, role(trace, a), a.stack, int(id(a) in at_peak)] for a in shown],
        "left_out": len(mine) - len(shown),
    }


def _weight(trace: Trace, allocation: Allocation) -> int:
    end = allocation.end if allocation.end >= 0 else trace.last
    return allocation.nbytes * max(end - allocation.start, 1)


# ---- compile time


def compile_document(trace: Trace) -> Data:
    """A tree of [name, ns, children, link]: schedules and kernels, passes, rules."""
    schedules = [
        [f"{s.label} {s.device}", s.ns, _rules(trace, s.rewriting, s.ns), f"schedule/{s.id}"]
        for s in trace.schedules.values()
        if s.ns
    ]
    kernels = [
        [f"{k.label} {k.name}", k.compile_ns, _phases(trace, k), f"kernel/{k.id}"]
        for k in trace.kernels.values()
        if k.passes
    ]
    parts = [["schedules", _total(schedules), schedules, ""], ["kernels", _total(kernels), kernels, ""]]
    return {"tree": ["all", _total(parts), parts, ""], **effort_data(trace, None, MOST_RULES_LISTED)}


def _phases(trace: Trace, kernel: Kernel) -> list[list[Any]]:
    phases = [
        [step.name, step.ns, _rules(trace, step.rewriting, step.ns), f"kernel/{kernel.id}/pass/{number}"]
        for number, step in enumerate(kernel.passes, start=1)
    ]
    link = f"kernel/{kernel.id}"
    phases.append(["write source", kernel.render_ns, _rules(trace, kernel.rendering, kernel.render_ns), link])
    phases.append(["machine code", kernel.code_ns, [], link])
    return phases


def _rules(trace: Trace, rewriting: Rewriting, most: int) -> list[list[Any]]:
    """Rules that took longest. One that rewrites in turn has that time too: all are scaled down to what there is."""
    counts = sorted(rewriting.counts.items(), key=lambda item: (-item[1][2], item[0]))
    total = sum(count[2] for _, count in counts)
    scale = min(1.0, most / total) if total else 0.0
    found = []
    for number, (_, hits, ns) in counts[:MOST_RULES]:
        rule = trace.rules.get(number)
        name = rule.name if rule is not None else f"rule {number}"
        found.append([f"{name} ({hits} hits)", int(ns * scale), [], ""])
    return found


def _total(nodes: Iterable[list[Any]]) -> int:
    return sum(node[1] for node in nodes)
