"""Captured programs in a file, to be run by another process on the same kind of machine.

    step.save("step.whit")                             # here: what was captured so far
    step = TinyJit.load("step.whit"); step(x)          # there: no tracing, no scheduling, no compiling

A file holds for every capture the signature, the schedule as text, the machine code of its kernels, and which memory
goes where; and the values of captured tensors, each under the way to it (`model.layers[0].weight`). Nothing in it is
run as Python. A loaded function has tensors of its own: `tensors`, by those names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from whit.dtype import DType, to_dtype
from whit.engine.compile import add_kernel, code_of, target_text_of
from whit.engine.device import Device
from whit.engine.disk_cache import pack, unpack
from whit.engine.normalise import Normalised
from whit.engine.plan import make_plan
from whit.engine.program import Part, Program, State, plan_of, resident_of
from whit.engine.realize import realize
from whit.engine.replayer import MISSED, Change, Guards, Output, Replay, Seen, Site
from whit.engine.signature import Arguments, Result, template_from, template_to
from whit.engine.storage import from_bytes, storage, to_bytes
from whit.engine.trace import Drawn, current, new_placeholder, result_type
from whit.errors import JitError
from whit.ir.parse import parse
from whit.ir.text import to_text
from whit.ir.uop import UOp

FORMAT = 1


class _Blobs:
    """Bytes one after another, and where each is."""

    def __init__(self) -> None:
        self.data = bytearray()

    def add(self, data: bytes) -> list[int]:
        self.data += data
        return [len(self.data) - len(data), len(data)]


def spell_key(key: Any) -> str:
    """A signature as text, the same in every process."""
    if isinstance(key, tuple):
        return f"({', '.join(spell_key(part) for part in key)})"
    if isinstance(key, type):
        return key.__qualname__
    return key.name if isinstance(key, DType) else key.short() if isinstance(key, UOp) else repr(key)


# ---- saving


def save(path: str | Path, name: str, captures: Sequence[tuple[Any, Replay, Mapping[int, str]]]) -> None:
    """Writes captures: of each the signature, what is replayed, and the ways to tensors by their ids."""
    blobs = _Blobs()
    tensors: dict[int, tuple[str, Any]] = {}
    programs = []
    for key, replay, ways in captures:
        for seen in replay.seen:
            if seen.argument < 0 and id(seen.tensor) not in tensors:
                way = ways.get(id(seen.tensor), f"tensor {len(tensors)}")
                tensors[id(seen.tensor)] = (way, seen.tensor)
        programs.append(_program_to(name, key, replay, list(tensors), blobs))
    values = []
    for way, tensor in tensors.values():
        (node,) = realize([tensor.uop], tensor.device)
        values.append([way, node.dtype.name, list(node.shape), tensor.device, *blobs.add(to_bytes(node))])
    devices = {program["device"] for program in programs}
    header = {
        "format": FORMAT,
        "name": name,
        "targets": {device: target_text_of(device) for device in sorted(devices)},
        "programs": programs,
        "tensors": values,
    }
    Path(path).write_bytes(pack(header, bytes(blobs.data)))


def _program_to(name: str, key: Any, replay: Replay, tensors: list[int], blobs: _Blobs) -> dict[str, Any]:
    program = replay.program
    part = program.parts[0] if len(program.parts) == 1 else None
    shapes = [site.placeholder.shape for site in replay.sites] + [output.shape for output in replay.outputs]
    reasons = {
        "it runs on more than one device": part is None or part.graph is None,
        "it sees tensors as views of others": replay.views
        or any(s.start is not replay.sites[s.site].placeholder for s in replay.seen),
        "it leaves gradients": any(grad.output >= 0 for grad in replay.gradients),
        "it reads gradients": any(seen.owner is not None or seen.owner_argument >= 0 for seen in replay.seen),
        "it has symbolic sizes": not all(type(size) is int for shape in shapes for size in shape),
        "it writes to a constant": any(change.seen < 0 for change in replay.changes),
        "an argument is a captured tensor, too": bool(replay.guards.same),
        "work was pruned": bool(program.pruned),
    }
    reason = next((text for text, holds in reasons.items() if holds), None)
    if reason is not None or part is None:
        raise JitError(f"save: {name} cannot be saved: {reason}", fix="Save a function of whole tensors on one device.")
    plan = plan_of(part.loaded)
    functions = list(dict.fromkeys(step.function for step in plan.steps))
    codes = [code_of(function, part.device) for function in functions]
    return {
        "key": spell_key(key),
        "device": part.device,
        "linear": to_text(plan.linear),
        "slots": len(plan.params),
        "kernels": [[header, *blobs.add(code)] for header, code in codes],
        "places": part.places,
        "size": program.size,
        "fixed": [[place, *blobs.add(bytes(buffer.memory()))] for place, buffer in program.fixed.items()],
        "copied": program.copied,
        "variables": program.variables,
        "sites": [
            [s.placeholder.dtype.name, list(s.placeholder.shape), s.placeholder.device, s.place] for s in replay.sites
        ],
        "seen": [[s.argument, -1 if s.argument >= 0 else tensors.index(id(s.tensor)), s.site] for s in replay.seen],
        "changes": [
            [*_state_to(c.state), c.seen, c.is_replaced, c.writes_first, c.dtype.name, list(c.shape)]
            for c in replay.changes
        ],
        "results": program.outputs,
        "outputs": [[o.dtype.name, list(o.shape), o.device] for o in replay.outputs],
        "draws": [
            [program.inputs.get(d.placeholder, -1), d.placeholder.device, d.seed, d.start, d.count]
            for d in replay.draws
        ],
        "seed": [replay.seed, replay.drawn],
        "result": [replay.result.count, template_to(replay.result.template, name)],
    }


def _state_to(state: State) -> list[Any]:
    return [state.device, state.place, state.is_part, state.can_overwrite]


# ---- loading


class LoadedJit:
    """A captured function from a file."""

    def __init__(self, name: str, replays: dict[str, Replay], tensors: dict[str, Any]) -> None:
        self.name = name
        self.tensors = tensors  # what was captured, by the way to it: write to them to change them
        self._replays = replays

    @property
    def kernels(self) -> int:
        """Kernels of the program that was captured last."""
        return list(self._replays.values())[-1].program.kernels()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the program that was captured with arguments like these."""
        if current() is not None:
            raise JitError(f"{self.name}: a loaded function cannot be part of another capture", fix="Call it outside.")
        arguments = Arguments()
        key = [arguments.key(value, i) for i, value in enumerate(args)]
        key += [(name, arguments.key(kwargs[name], name)) for name in sorted(kwargs)]
        replay = self._replays.get(spell_key(tuple(key)))
        result = MISSED if replay is None else replay(arguments.tensors, arguments.bindings)
        if result is MISSED:
            raise JitError(
                f"{self.name}: the file has no program for these arguments",
                "\n".join(["captured were", *self._replays]),
                "Call it with the same shapes, dtypes and values, or capture it anew.",
            )
        return result


def load(path: str | Path) -> LoadedJit:
    """Reads what `save` has written."""
    found = unpack(Path(path).read_bytes())
    if found is None or found[0].get("format") != FORMAT:
        raise JitError(f"load: {path} is no file of captured functions, or a damaged one", fix="Save it again.")
    header, blobs = found
    for device, target in header["targets"].items():
        if target_text_of(device) != target:
            raise JitError(
                f"load: {path} was compiled for another {device} than this one",
                f"the file {target}\nhere {target_text_of(device)}",
                "Capture and save it on a machine of this kind.",
            )
    kind = result_type()
    tensors = {}
    for way, dtype, shape, device, start, length in header["tensors"]:
        node = from_bytes(blobs[start : start + length], to_dtype(dtype), tuple(shape), device)
        tensors[way] = kind._of_buffer(node, None)
    known = list(tensors.values())
    replays = {entry["key"]: _program_from(header["name"], entry, known, blobs, kind) for entry in header["programs"]}
    return LoadedJit(header["name"], replays, tensors)


def _program_from(name: str, entry: dict[str, Any], tensors: list[Any], blobs: bytes, kind: Any) -> Replay:
    device = entry["device"]
    linear = parse(entry["linear"])
    functions = list(dict.fromkeys(call.src[0] for call in linear.src))
    for function, (header, start, length) in zip(functions, entry["kernels"], strict=True):
        add_kernel(function, device, header, blobs[start : start + length])
    loaded = Device[device].load(make_plan(linear, entry["slots"]))
    sites = [
        Site(new_placeholder(to_dtype(d), tuple(shape), where), place) for d, shape, where, place in entry["sites"]
    ]
    draws = []
    program = Program(outputs=entry["results"], size=entry["size"], variables=entry["variables"])
    program.inputs = {site.placeholder: site.place for site in sites if site.place >= 0}
    for place, where, seed, first, count in entry["draws"]:
        node = new_placeholder(to_dtype("uint32"), (4,), where)
        draws.append(Drawn(node, seed, first, count))
        if place >= 0:
            program.inputs[node] = place
    for place, start, length in entry["fixed"]:
        program.fixed[place] = storage(from_bytes(blobs[start : start + length], to_dtype("uint8"), (length,), device))
    program.copied = [(place, source) for place, source in entry["copied"]]
    seen = []
    for argument, number, site in entry["seen"]:
        tensor = None if argument >= 0 else tensors[number]
        seen.append(Seen(tensor, argument, None, -1, sites[site].placeholder, site))
    changes = []
    for device_of, place, is_part, can_overwrite, number, is_replaced, writes_first, dtype, shape in entry["changes"]:
        state = State(sites[seen[number].site].placeholder, device_of, place, is_part, can_overwrite)
        changes.append(
            Change(state, number, seen[number].tensor, is_replaced, writes_first, to_dtype(dtype), tuple(shape))
        )
    program.states = [change.state for change in changes]
    places = entry["places"] or list(range(program.size))
    program.parts = [Part(device, places, Normalised(linear, 0, (), ()), loaded, resident_of(device, loaded))]
    count, template = entry["result"]
    return Replay(
        name=name,
        program=program,
        views=False,
        sites=sites,
        seen=seen,
        changes=changes,
        gradients=[],
        outputs=[
            Output(kind, to_dtype(d), tuple(shape), where, None, "", False) for d, shape, where in entry["outputs"]
        ],
        result=Result(count, template_from(template)),
        guards=Guards([], [], [], [], []),
        draws=draws,
        seed=entry["seed"][0],
        drawn=entry["seed"][1],
    )
