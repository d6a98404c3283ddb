"""`compare`: two traces, kernel by kernel: how often it ran, bytes, time, and whether its source is another.

Kernels of the same graph are one kernel. Those left over are paired by name, in order: the same step of the program,
compiled from another graph. What then has no partner was added or removed.
"""

from __future__ import annotations

import difflib

from whit.viz.memory import curves
from whit.viz.model import Kernel, Trace
from whit.viz.report.graphs import graph_text
from whit.viz.report.overview import kernel_data
from whit.viz.report.table import Data, amount, ms, table

Pair = tuple[Kernel | None, Kernel | None]


def changes_data(old: Trace, new: Trace, diffs: bool) -> Data:
    """Totals and kernels of both."""
    return {
        "old": _totals(old),
        "new": _totals(new),
        "kernels": [_pair_data(old, new, pair, diffs) for pair in pairs(old, new)],
    }


def _totals(trace: Trace) -> Data:
    kernels = trace.kernels.values()
    return {
        "path": trace.path,
        "kernels": len(kernels),
        "launches": sum(len(kernel.durations) for kernel in kernels),
        "bytes": sum(kernel.nbytes * len(kernel.durations) for kernel in kernels),
        "kernel_ns": sum(sum(kernel.durations) for kernel in kernels),
        "compile_ns": sum(kernel.compile_ns for kernel in kernels),
        "peak_bytes": {curve.device: curve.peak[0] for curve in curves(trace)},
    }


def pairs(old: Trace, new: Trace) -> list[Pair]:
    """The kernels of both traces, each once."""
    by_digest = {new.digests.get(kernel.graph): kernel for kernel in new.kernels.values()}
    partner: dict[int, Kernel] = {}
    for kernel in old.kernels.values():
        same = by_digest.pop(old.digests.get(kernel.graph), None)
        if same is not None:
            partner[kernel.id] = same
    taken = {kernel.id for kernel in partner.values()}
    by_name: dict[str, list[Kernel]] = {}
    for kernel in new.kernels.values():
        if kernel.id not in taken:
            by_name.setdefault(kernel.name, []).append(kernel)
    for kernel in old.kernels.values():
        if kernel.id not in partner and by_name.get(kernel.name):
            partner[kernel.id] = by_name[kernel.name].pop(0)
    found: list[Pair] = [(kernel, partner.get(kernel.id)) for kernel in old.kernels.values()]
    return found + [(None, kernel) for left in by_name.values() for kernel in left]


def _pair_data(old: Trace, new: Trace, pair: Pair, diffs: bool) -> Data:
    before, after = pair
    data: Data = {
        "name": (before or after).name,  # type: ignore[union-attr]  # one of them is there
        "old": None if before is None else kernel_data(before),
        "new": None if after is None else kernel_data(after),
    }
    if before is None or after is None:
        return data | {"changed": ["added" if before is None else "removed"]}
    has_sources = bool(before.source and after.source)
    sides = {
        "graph": (old.digests.get(before.graph), new.digests.get(after.graph)),
        "source": (before.source, after.source) if has_sources else ("", ""),
        "tiling": (before.explanation, after.explanation),
        "runs": (len(before.durations), len(after.durations)),
        "bytes": (before.nbytes, after.nbytes),
        "ops": (before.ops, after.ops),
    }
    data["changed"] = [what for what, (was, now) in sides.items() if was != now]
    if diffs and data["changed"]:
        data["tiling_diff"] = _difference(before.explanation, after.explanation)
        data["graph_diff"] = _difference(graph_text(old, before.graph), graph_text(new, after.graph))
        data["source_diff"] = _difference(before.source, after.source)
    return data


def _difference(before: str, after: str) -> str:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), "old", "new", lineterm="", n=2)
    return "\n".join(lines)


def changes_text(data: Data) -> str:
    """The same in words."""
    old, new = data["old"], data["new"]
    rows = [
        ("kernels", str(old["kernels"]), str(new["kernels"])),
        ("launches", str(old["launches"]), str(new["launches"])),
        ("bytes moved", amount(old["bytes"]), amount(new["bytes"])),
        ("ms in kernels", ms(old["kernel_ns"]), ms(new["kernel_ns"])),
        ("ms compiling", ms(old["compile_ns"]), ms(new["compile_ns"])),
    ]
    for device in sorted({*old["peak_bytes"], *new["peak_bytes"]}):
        peaks = [amount(side["peak_bytes"].get(device, 0)) for side in (old, new)]
        rows.append((f"peak on {device}", peaks[0], peaks[1]))
    parts = [table(("", "old", "new"), rows), _kernels(data["kernels"])]
    for kernel in data["kernels"]:
        for what in ("tiling", "graph", "source"):
            if kernel.get(f"{what}_diff"):
                parts.append(f"--- {what} of {kernel['name']}\n{kernel[f'{what}_diff']}")
    return "\n\n".join(parts)


def _kernels(kernels: list[Data]) -> str:
    rows = []
    for kernel in kernels:
        sides = [kernel["old"], kernel["new"]]
        ids = "/".join(side["id"] if side else "-" for side in sides)
        runs = "/".join(str(side["runs"]) if side else "-" for side in sides)
        moved = " / ".join(amount(side["bytes"]) if side else "-" for side in sides)
        best = " / ".join(f"{side['best_ns'] / 1e3:.1f}" if side else "-" for side in sides)
        rows.append((ids, kernel["name"], runs, moved, best, ", ".join(kernel["changed"]) or "same"))
    return table(("old/new", "name", "runs", "bytes", "best us", "changed"), rows, left=(0, 1, 5))
