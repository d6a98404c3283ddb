"""`layers`: the model as its layers, with parameters, time and memory of each, forward and backward.

    layer                 class      parameters                             forward ms  backward ms  step ms
    blocks.0.attn         Attention  4,224 in 4                                  0.031        0.044    0.012
      qkv                 Linear     weight (96, 32), bias (96,)  12.7 kB        0.012        0.014    0.008

The time of a layer is that of the launches that are called after it, and of the layers inside of it. A launch that
computes parts of several layers counts for the one that it is called after.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from whit.engine.report.launch_words import OUTSIDE
from whit.engine.report.layers import around, layer_of
from whit.viz.model import Launch, Layer, Trace
from whit.viz.report.table import Data, amount, ms, table

PHASES = ("forward", "backward", "step")


def layers_data(trace: Trace) -> Data:
    """All layers, those inside of others after them, and what belongs to none under the path None."""
    found: dict[str, Data] = {}
    for path in _paths(trace):
        layer = trace.layers.get(path, Layer(path, ""))
        found[path] = _layer_data(layer)
    rest: Data = {"launches": 0, "ns": dict.fromkeys(PHASES, 0), "kernels": []}
    kernels: dict[str | None, dict[tuple[str, int, str], Data]] = {}
    for number, name, launch, taken in _launches(trace):
        where = owner_of(launch.layer, found) if name else None
        phase = launch.phase if launch.phase in PHASES else PHASES[0]
        row = kernels.setdefault(where, {}).setdefault((name, number, phase), _new_row(trace, name, number, phase))
        row["runs"] += 1
        row["ns"] += taken
        row["also"] = launch.also
    for where, rows in kernels.items():
        home = rest if where is None else found[where]
        home["kernels"] = sorted(rows.values(), key=lambda row: -row["ns"])
        for row in rows.values():
            home["ns"][row["phase"]] += row["ns"]
            home["launches"] += row["runs"]
    _add_up(found)
    flows = [list(pair) for pair in trace.flows if found.keys() >= set(map(layer_of, pair))]
    return {"layers": list(found.values()), "flows": flows, "rest": rest}


def _launches(trace: Trace) -> Iterator[tuple[int, str, Launch, int]]:
    """Of each launch the kernel, the name, what else is known, and nanoseconds."""
    unknown = Launch(OUTSIDE, "", "")
    for run in trace.runs:
        schedule = trace.schedules.get(run.schedule)
        calls = schedule.calls if schedule is not None else []
        for call, (number, (start, end)) in enumerate(zip(calls, run.times, strict=False)):
            launch = run.launches[call] if call < len(run.launches) else unknown
            name = run.names[call].partition("  ")[0] if call < len(run.names) else ""
            yield number, name, launch, end - start


def owner_of(path: str, known: Data) -> str | None:
    """The layer that a launch belongs to: of the path of a parameter the layer that has it. None: to no layer."""
    if path == OUTSIDE:
        return None
    while path and path not in known:
        path = path.rpartition(".")[0]
    return path if path in known else None


def _paths(trace: Trace) -> list[str]:
    """All layers and what is around them, as they were first met: a layer before those inside of it."""
    found: dict[str, None] = {}
    met: set[str] = set()  # what is around those that are found
    for path in trace.layers:
        for outer in around(path)[1:]:
            if outer in met or outer in trace.layers:
                found.setdefault(outer, None)
            met.add(outer)
        found[path] = None
    children: dict[str, list[str]] = {}
    for path in found:
        children.setdefault(_parent(path, found), []).append(path)
    order: list[str] = []
    stack = list(reversed(children.get("-", [])))
    while stack:
        path = stack.pop()
        order.append(path)
        stack += reversed(children.get(path, []))
    return order


def _parent(path: str, known: Iterable[str]) -> str:
    """The path of the layer around one; "-" for the outermost."""
    if not path:
        return "-"
    outer = path.rpartition(".")[0]
    while outer and outer not in known:
        outer = outer.rpartition(".")[0]
    return outer if outer in known else "-"


def _layer_data(layer: Layer) -> Data:
    return {
        "path": layer.path,
        "kind": layer.kind,
        "parameters": [
            {"name": name, "dtype": dtype, "shape": shape, "bytes": nbytes}
            for name, dtype, shape, nbytes in layer.parameters
        ],
        "kernels": [],
        "launches": 0,
        "ns": dict.fromkeys(PHASES, 0),
    }


def _new_row(trace: Trace, name: str, number: int, phase: str) -> Data:
    kernel = trace.kernels.get(number)
    return {
        "kernel": f"k{number}",
        "name": name or (kernel.name if kernel else ""),
        "code": kernel.name if kernel else "",
        "phase": phase,
        "runs": 0,
        "ns": 0,
        "bytes": kernel.nbytes if kernel else 0,
        "also": "",
    }


def _add_up(found: Data) -> None:
    """What layers need with all that is inside of them: time, parameters, memory."""
    for data in found.values():
        data["all_ns"] = dict(data["ns"])
        data["own_bytes"] = data["all_bytes"] = sum(each["bytes"] for each in data["parameters"])
        data["moved_bytes"] = sum(row["bytes"] * row["runs"] for row in data["kernels"])
    for path in reversed(list(found)):
        outer = _parent(path, found)
        if outer in found:
            around, inside = found[outer], found[path]
            around["all_bytes"] += inside["all_bytes"]
            around["moved_bytes"] += inside["moved_bytes"]
            for phase in PHASES:
                around["all_ns"][phase] += inside["all_ns"][phase]


def layers_text(data: Data) -> str:
    """The same in words."""
    if not data["layers"]:
        return (
            "no layers were recorded: a layer is an object whose method makes tensors, and older recordings have none"
        )
    known = {layer["path"] for layer in data["layers"]}
    rows = [_row(layer, known) for layer in data["layers"]]
    rest = data["rest"]
    if rest["launches"]:
        rows.append(("outside of layers", "", "", "", *_times(rest["ns"]), ""))
    header = ("layer", "class", "parameters", "bytes", *(f"{phase} ms" for phase in PHASES), "moved")
    return table(header, rows, left=(0, 1, 2))


def _row(layer: Data, known: set[str]) -> tuple[str, ...]:
    outer = _parent(layer["path"], known)
    depth, name = 0, layer["path"].removeprefix(outer).removeprefix(".") or "the model"
    while outer != "-":
        depth, outer = depth + 1, _parent(outer, known)
    shown = ", ".join(f"{each['name']} {_shape(each['shape'])}" for each in layer["parameters"])
    size = amount(layer["all_bytes"]) if layer["all_bytes"] else ""
    moved = amount(layer["moved_bytes"]) if layer["moved_bytes"] else ""
    return f"{'  ' * depth}{name}", layer["kind"], shown, size, *_times(layer["all_ns"]), moved


def _shape(sizes: list[int]) -> str:
    return f"({', '.join(map(str, sizes))}{',' * (len(sizes) == 1)})"


def _times(times: Data) -> list[str]:
    return [ms(times[phase]) if times[phase] else "" for phase in PHASES]
