"""`memory`: how much was in use over time on each device, the peak, and what held it."""

from __future__ import annotations

from whit.viz.memory import TEMPORARIES, Curve, alive_at, curves, left_from_before, schedule_of
from whit.viz.model import Allocation, Trace
from whit.viz.report.table import Data, amount, ms, plural, table

BAR_CHARACTERS = 40  # characters
ROLES = {
    "engine.realize.changes.results_of": "result",
    "jit.replayer._make": "result",
    "engine.devices.cpu.shared_arena": "temporaries of the JIT",
    "engine.realize.realize._copied": "copy from another device",
    "engine.programs.parts._add_memory": "copy before a change",
    "engine.realize.known.without_kernel": "constant",
}


def memory_data(trace: Trace, parts: int, count: int) -> Data:
    """One entry for each device; the curve in `parts` parts, the `count` largest groups of holders."""
    return {"devices": [_device_data(trace, curve, parts, count) for curve in curves(trace)]}


def _device_data(trace: Trace, curve: Curve, parts: int, count: int) -> Data:
    most, moment = curve.peak
    alive = alive_at(trace, curve.device, moment)
    groups: dict[tuple[str, str, str], list[Allocation]] = {}
    for allocation in alive:
        groups.setdefault((trace.line(allocation.stack), role(trace, allocation), allocation.type), []).append(
            allocation
        )
    holders = [
        {
            "bytes": sum(a.nbytes for a in group),
            "buffers": len(group),
            "line": line,
            "what": role,
            "type": kind,
            "since_ns": min(a.start for a in group),
        }
        for (line, role, kind), group in groups.items()
    ]
    holders.sort(key=lambda holder: (-int(str(holder["bytes"])), str(holder["line"])))
    return {
        "device": curve.device,
        "peak_bytes": most,
        "peak_ns": moment,
        "end_bytes": curve.amounts[-1],
        "buffers_at_peak": len(alive),
        "before_bytes": left_from_before(trace, curve.device, moment),
        "holders": holders[:count],
        "curve": [{"from_ns": start, "most_bytes": nbytes} for start, nbytes in curve.most_in(parts, trace.last)],
    }


def role(trace: Trace, allocation: Allocation) -> str:
    """What a buffer is for, from who made it."""
    if allocation.maker.endswith(TEMPORARIES):
        schedule = schedule_of(trace, allocation)
        return "temporaries" if schedule is None else f"temporaries of s{schedule}"
    if "from_bytes" in allocation.maker:
        return "data from Python"
    return ROLES.get(allocation.maker, allocation.maker)


def memory_text(data: Data) -> str:
    """The same in words."""
    return "\n\n".join(_device_text(device) for device in data["devices"]) or "no memory was allocated"


def _device_text(data: Data) -> str:
    peak = data["peak_bytes"]
    lines = [
        f"{data['device']}: peak {amount(peak)} at {ms(data['peak_ns'])} ms "
        f"in {plural(data['buffers_at_peak'], 'buffer')}, {amount(data['end_bytes'])} at the end"
    ]
    for part in data["curve"]:
        bar = "#" * round(BAR_CHARACTERS * part["most_bytes"] / peak) if peak > 0 else ""
        lines.append(f"{ms(part['from_ns']):>12} ms  {amount(part['most_bytes']):>9}  {bar}".rstrip())
    rows = [(amount(h["bytes"]), str(h["buffers"]), h["type"], h["what"], h["line"]) for h in data["holders"]]
    if data["before_bytes"]:
        rows.append((amount(data["before_bytes"]), "", "", "from before the recording", ""))
    lines += ["", "at the peak:", table(("bytes", "buffers", "each", "what", "line"), rows, left=(2, 3, 4))]
    return "\n".join(lines)
