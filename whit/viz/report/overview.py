"""`list`: what was recorded, its schedules and its kernels."""

from __future__ import annotations

import json

from whit.viz.model import Kernel, Trace
from whit.viz.report.table import Data, amount, ms, plural, table


def overview_data(trace: Trace) -> Data:
    """Everything that has a number."""
    return {
        "trace": head_data(trace),
        "schedules": [
            {
                "id": schedule.label,
                "device": schedule.device,
                "kernels": len(schedule.calls),
                "temporaries_bytes": schedule.arena,
                "runs": schedule.runs,
                "schedule_ns": schedule.ns,
                "line": trace.line(schedule.stack),
            }
            for schedule in trace.schedules.values()
        ],
        "kernels": [kernel_data(kernel) for kernel in trace.kernels.values()],
        "copies": _copies(trace),
        "events": _events(trace),
    }


def _events(trace: Trace) -> list[Data]:
    """Those that differ, each with how often it was."""
    found: dict[str, Data] = {}
    for event in trace.events:
        data = {"kind": str(event.get("kind")), "fields": event.get("fields"), "count": 0}
        found.setdefault(json.dumps(data, sort_keys=True), data)["count"] += 1
    return list(found.values())


def _copies(trace: Trace) -> list[Data]:
    """By device and direction."""
    found: dict[tuple[str, str], Data] = {}
    for copy in trace.copies:
        new = {"device": copy.device, "what": copy.what, "count": 0, "bytes": 0, "total_ns": 0}
        data = found.setdefault((copy.device, copy.what), new)
        data["count"] += 1
        data["bytes"] += copy.nbytes
        data["total_ns"] += copy.end - copy.start
    return list(found.values())


def head_data(trace: Trace) -> Data:
    """What the first lines say."""
    return {
        "path": trace.path,
        "program": trace.start.get("program", []),
        "whit": trace.start.get("whit", ""),
        "target": trace.start.get("target", ""),
        "cores": trace.start.get("cores", 0),
        "seconds": trace.last / 1e9,
        "runs": len(trace.runs),
        "launches": sum(len(run.times) for run in trace.runs),
        "is_whole": trace.is_whole,
        "dropped": trace.dropped,
    }


def kernel_data(kernel: Kernel) -> Data:
    """One kernel in numbers."""
    return {
        "id": kernel.label,
        "name": kernel.name,
        "runs": len(kernel.durations),
        "total_ns": sum(kernel.durations),
        "best_ns": min(kernel.durations, default=0),
        "bytes": kernel.nbytes,
        "ops": kernel.ops,
        "compile_ns": kernel.compile_ns,
        "is_compiled": kernel.is_compiled,
        "called": kernel.called,
        "computes": kernel.computes,
    }


def overview_text(data: Data) -> str:
    """The same in words."""
    schedules = table(
        ("schedule", "device", "kernels", "temporaries", "runs", "made in ms", "line"),
        [
            (
                s["id"],
                s["device"],
                str(s["kernels"]),
                amount(s["temporaries_bytes"]),
                str(s["runs"]),
                ms(s["schedule_ns"]),
                s["line"],
            )
            for s in data["schedules"]
        ],
        left=(0, 1, 6),
    )
    parts = [head_text(data["trace"]), schedules, kernels_text(data["kernels"])]
    parts += [_copies_text(data["copies"])] if data["copies"] else []
    parts += ["\n".join(_event_text(event) for event in data["events"])] if data["events"] else []
    return "\n\n".join(parts)


def _copies_text(copies: list[Data]) -> str:
    rows = [
        (
            c["device"],
            c["what"],
            str(c["count"]),
            amount(c["bytes"]),
            ms(c["total_ns"]),
            f"{c['bytes'] / max(c['total_ns'], 1):.1f}",
        )
        for c in copies
    ]
    return table(("device", "copies", "number", "bytes", "total ms", "GB/s"), rows, left=(0, 1))


def _event_text(event: Data) -> str:
    fields = event["fields"] if isinstance(event["fields"], dict) else {}
    listed = ", ".join(f"{name} {value}" for name, value in fields.items())
    return f"{event['kind']}, {plural(event['count'], 'time')}: {listed}"


def head_text(data: Data) -> str:
    """What was recorded, and what is missing."""
    words = data["program"] if isinstance(data["program"], list) else []
    program = " ".join(map(str, words)) or "a program"
    lines = [f"{program} on {data['target']}, {data['cores']} cores, whit {data['whit']}"]
    lines.append(f"{data['seconds']:.2f} s, {plural(data['runs'], 'run')}, {data['launches']:,} launches")
    if not data["is_whole"]:
        lines.append("the recording has no end: the process was killed, or is still running")
    lines += [f"left out from some point on, because of VIZ_LIMIT: {what}" for what in data["dropped"]]
    return "\n".join(lines)


def kernels_text(kernels: list[Data]) -> str:
    """A table of kernels."""
    rows = [
        (
            k["id"],
            k["called"],
            str(k["runs"]),
            ms(k["total_ns"]),
            f"{k['best_ns'] / 1e3:.1f}",
            amount(k["bytes"]),
            f"{k['ops']:,}",
            ms(k["compile_ns"]) if k["is_compiled"] else "before",
            k["name"],
            k["computes"].partition(";")[0].partition("  ")[2],
        )
        for k in kernels
    ]
    header = ("kernel", "computes", "runs", "total ms", "best us", "bytes", "ops", "compiled in ms", "name", "line")
    return table(header, rows, left=(0, 1, 8, 9))
