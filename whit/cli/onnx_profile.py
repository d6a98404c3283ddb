"""`python -m whit onnx FILE --profile`: where the time goes, by node of the model.

A kernel counts for the node that is most of it, and names the others that it computes. What no kernel takes is Python,
and what nodes do on the host.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

from whit.cli.answer import columns
from whit.engine.report.launch_words import OUTSIDE
from whit.engine.report.profile import LaunchTimes, profile
from whit.onnx import Model
from whit.onnx.places import paths

CALLS = 5
MOST_SHOWN = 30
MOST_FUSED = 60  # columns of the nodes beside the main one


def profiled(model: Model, call: Callable[[], object], seconds: float) -> tuple[dict[str, Any], list[str]]:
    """The rows as data, and as lines. `seconds` is what a call takes that nobody looks at."""
    steps = paths(model.graph)
    with profile():  # kernels that run one by one are made for that
        call()
    with profile() as found:
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        whole = (time.perf_counter() - start) / CALLS
    nodes: dict[str, dict[str, Any]] = {}
    for launch in found.launches:
        path = launch.layer if launch.layer != OUTSIDE else launch.name
        step = steps.get(path)
        row = nodes.setdefault(
            path, {"node": path, "operator": step.node.op_type if step else "", "seconds": 0.0, "kernels": 0}
        )
        row["seconds"] += launch.seconds / CALLS
        row["kernels"] += round(launch.calls / CALLS)
        row["fused"] = list(dict.fromkeys([*row.get("fused", []), *_others(launch, path)]))
        row["floor_seconds"] = _sum(row.get("floor_seconds", 0.0), launch.floor_seconds())
    rows = sorted(nodes.values(), key=lambda row: -row["seconds"])
    inside = sum(row["seconds"] for row in rows)
    data = {
        "seconds": whole,
        "kernel_seconds": inside,
        "unwatched_seconds": seconds,
        "nodes": rows,
        "operators": _by_operator(rows),
    }
    return data, _lines(data)


def _sum(left: float | None, right: float | None) -> float | None:
    return None if left is None or right is None else left + right / CALLS


def _others(launch: LaunchTimes, path: str) -> list[str]:
    """The nodes that are in the same kernels."""
    found = [text.rpartition(" ")[0] for text in launch.fused]
    return [other for other in found if other and other != path]


def _by_operator(rows: list[dict[str, Any]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for row in rows:
        name = row["operator"] or OUTSIDE
        found[name] = found.get(name, 0.0) + row["seconds"]
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _lines(data: dict[str, Any]) -> list[str]:
    whole = data["kernel_seconds"] or 1.0
    lines = [
        f"profile     {_ms(data['kernel_seconds'])} ms in kernels, one after the other; "
        f"a call that nobody watches takes {_ms(data['unwatched_seconds'])} ms"
    ]
    table = [("ms", "share", "floor ms", "kernels", "operator", "node", "with")]
    for row in data["nodes"][:MOST_SHOWN]:
        floor = row["floor_seconds"]
        cells = _ms(row["seconds"]), f"{100 * row['seconds'] / whole:.1f} %", "" if floor is None else _ms(floor)
        table.append((*cells, str(row["kernels"]), row["operator"], ascii_of(row["node"]), _fused(row)))
    lines += columns(table, right=(0, 1, 2, 3), indent="            ")
    rest = data["nodes"][MOST_SHOWN:]
    if rest:
        lines.append(f"            and {len(rest)} more, {_ms(sum(row['seconds'] for row in rest))} ms")
    operators = [f"{name} {100 * seconds / whole:.1f} %" for name, seconds in data["operators"].items()]
    return [*lines, f"            by operator: {', '.join(operators[:8])}"]


def _fused(row: dict[str, Any]) -> str:
    """The other nodes, without what their path has in common with that of the first."""
    scope = row["node"].rpartition(".")[0]
    names = [ascii_of(name.removeprefix(f"{scope}.") if scope else name) for name in row["fused"]]
    text = ", ".join(names)
    if len(text) <= MOST_FUSED:
        return text
    kept: list[str] = []
    for name in names:
        if len(", ".join([*kept, name])) > MOST_FUSED:
            break
        kept.append(name)
    return f"{', '.join(kept) or names[0]}, {len(names) - len(kept or names[:1])} more"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3f}"


def ascii_of(text: str) -> str:
    """Names of nodes on any terminal."""
    return text.encode("ascii", "backslashreplace").decode()


def configure(parser: argparse.ArgumentParser) -> None:
    """The argument."""
    parser.add_argument("--profile", action="store_true", help="where the time goes, by node of the model")
