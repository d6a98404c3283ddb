"""Which lines and layers of the user's program a kernel computes: names for launches, for people.

    blocks.3.attn · softmax  model.py:31

A tensor notes where it was made on its node (`whit.tensor.place`). Nodes of a graph that is run are replaced: buffers
become params (`parametrise` keeps the places, if somebody wants names), and the scheduler rewrites what is left. So
names are found backward: the scheduler says which values a call computes (`schedule(graph, target, traced)`), these are
laid beside the graph that it was given, and a node that has no place of its own is part of what uses it.

Names belong to launches. Programs, schedules and kernels are found under what they compute and know nothing of them: 32
equal layers are one kernel with 32 names. Nothing of this is done before somebody asks, by DEBUG=2, PROFILE, `explain`
or a recording; these also have the paths of layers, which take long to look up for every tensor.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import CodeType
from typing import Any

from whit.cache import register_cache
from whit.config import DEBUG, settings_key
from whit.errors import ParseError
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.record import set_made
from whit.ir.uop import UOp
from whit.records import dataclass, field

# The user's code and the offset in it, the function of whit that it called, the path of the layer ("" if nobody wanted
# to know), and whether this is a gradient of what was made there.
Place = tuple[CodeType, int, CodeType | None, str, bool]

SHOWN = 2  # names of one kernel
_MOVES = frozenset({*ops.MOVEMENT, ops.STAGE})  # what computes nothing has no name beside what does
MOST_TRACED = 256
watched: list[object] = []  # who wants the paths of layers; nobody: places are lines alone


def watch() -> Callable[[], None]:
    """Tensors note their layers from now on, up to the call of what this returns."""
    token = object()
    watched.append(token)
    return lambda: watched.remove(token) if token in watched else None


def watch_from_environment() -> None:
    """The same for the whole process, if DEBUG says so."""
    try:
        if DEBUG >= 2:
            watch()
    except ParseError:  # which must not fail `import whit`
        pass


def _begin(level: int) -> Callable[[], None]:
    return watch() if level >= 2 else _nothing


def _nothing() -> None:
    """There is nothing to end."""


DEBUG.begin = _begin


# ---- places in words


def spell_place(place: Place | None) -> str:
    """A line for messages: "train.py:12", or "?" where it is unknown."""
    if place is None:
        return "?"
    code, offset, *_ = place
    line = next((line for start, end, line in code.co_lines() if start <= offset < end), None)
    return f"{code.co_filename.rpartition(os.sep)[2]}:{line or code.co_firstlineno}"


def parts_of(place: Place) -> tuple[str, str]:
    """In which layer, and what was called: "blocks.3.attn", "softmax"; the class of the layer where its path is not
    known."""
    code, _, called, path, is_gradient = place
    what = "" if called is None else _method(called)
    what = f"gradient of {what}" if is_gradient and what else "gradient" if is_gradient else what
    where = path or (code.co_qualname.rpartition("<locals>.")[2].rpartition(".")[0])
    return where, what


def _joined(where: str, what: str) -> str:
    return f"{where} · {what}" if where and what else where or what


def _method(called: CodeType) -> str:
    """ "softmax" of Tensor.softmax, "Linear" of Linear.__call__, "add" of Tensor.__add__."""
    owner, _, name = called.co_qualname.rpartition(".")
    if name in ("__call__", "__init__"):
        return owner.rpartition(".")[2]
    return name.strip("_")


# ---- the places of a graph


@dataclass(slots=True, eq=False)
class Places:
    """Where the nodes of a parametrised graph were made, and the names of the calls of its schedule, once asked for."""

    known: Mapping[UOp, Place]
    names: dict[tuple[Any, ...], tuple[str, ...]] = field(default_factory=dict)


def made(node: UOp) -> Place | None:
    """Where a node was made, if that was by a tensor."""
    return getattr(node, "made", None)


def keep_made(new: UOp, old: UOp) -> UOp:
    """The new node, made where the one was that it stands for."""
    place = made(old)
    if place is not None and new.src and made(new) is None:
        set_made(new, place)
    return new


def places_of(done: Mapping[UOp, UOp]) -> Places:
    """Those of nodes that have replaced others."""
    known: dict[UOp, Place] = {}
    for old, new in done.items():
        place = made(old)
        if place is not None and new.src:
            known.setdefault(new, place)  # several are one where they have the same value: the first made it
    return Places(known)


# ---- names of calls


@dataclass(slots=True)
class Traced:
    """What the scheduler tells: the values that it stores in the end, and for each call those that it computes."""

    values: list[tuple[UOp, UOp]] = field(default_factory=list)  # target, value
    calls: list[tuple[UOp, ...]] = field(default_factory=list)


_traced: dict[tuple[Any, ...], tuple[tuple[UOp, ...], ...]] = {}
register_cache(_traced.clear, "engine.origins")


def note_traced(graph: UOp, device: str, traced: Traced) -> None:
    """Keeps what the nodes of each call are parts of."""
    if len(_traced) >= MOST_TRACED:
        _traced.pop(next(iter(_traced)))
    _traced[graph, device, settings_key()] = tuple(_regions(graph, traced))


def names_of(graph: UOp, places: Places | None, device: str, trace: Callable[[UOp, Traced], object]) -> tuple[str, ...]:
    """A name for each call of the schedule of a graph; none if nothing is known. `trace` schedules it again."""
    if places is None or not places.known:
        return ()
    key = (graph, device, settings_key())
    found = places.names.get(key[1:])
    if found is None:
        if key not in _traced:
            traced = Traced()
            trace(graph, traced)
            note_traced(graph, device, traced)
        owners = _inherited(graph, places.known)
        found = places.names[key[1:]] = tuple(_name(region, owners) for region in _traced[key])
    return found


def _inherited(graph: UOp, known: Mapping[UOp, Place]) -> dict[UOp, Place]:
    """A place for each node: that of what uses it, if it has none."""
    found = dict(known)
    for node in reversed(topological((graph,))):
        place = found.get(node)
        if place is not None:
            for source in node.src:
                found.setdefault(source, place)
    return found


def _regions(graph: UOp, traced: Traced) -> Iterable[tuple[UOp, ...]]:
    """For each call, the nodes of the graph that it computes, sources first; the last one is what it stores."""
    origins = _origins(graph, traced.values)
    roots = {root for call in traced.calls for root in call}
    for call in traced.calls:
        others = roots.difference(call)
        nodes = topological(call, stop=others)
        inside = [node for node in nodes if node not in others and node.src]
        yield tuple(dict.fromkeys(origins[node] for node in inside if node in origins))


def _origins(graph: UOp, values: Sequence[tuple[UOp, UOp]]) -> dict[UOp, UOp]:
    """For each node of rewritten values, the node of the graph that it is, or is a part of."""
    given = set(topological((graph,)))
    wanted = {_slot(store.src[0]): store.src[1] for store in graph.src}
    stack = [(wanted[slot], value) for target, value in values if (slot := _slot(target)) in wanted]
    found: dict[UOp, UOp] = {}
    while stack:
        old, new = stack.pop()
        if new in found:
            continue
        if new in given:
            found[new] = new
            stack.extend((source, source) for source in new.src)
            continue
        found[new] = old
        is_same = old.op is new.op and len(old.src) == len(new.src)
        for place, source in enumerate(new.src):
            other = old.src[place] if is_same else old
            stack.append((other if source.op is other.op else old, source))
    return found


def _slot(target: UOp) -> int | None:
    """The slot of the param that a target shows: of complex numbers or, in rewritten graphs, of floats."""
    while target.op is not ops.PARAM and target.src:
        target = target.src[0]
    return target.arg.slot if target.op is ops.PARAM else None


def _name(region: Sequence[UOp], owners: Mapping[UOp, Place]) -> str:
    """What a kernel computes: the last of its reductions, and what is stored."""
    placed = [node for node in region if node in owners and node.op not in _MOVES]
    placed = placed or [node for node in region if node in owners]
    reduced = [node for node in placed if node.op is ops.REDUCE]
    chosen = [*reduced[-1:], *placed[-1:]]
    names: dict[tuple[str, str], list[str]] = {}  # by line and layer
    for node in chosen:
        where, what = parts_of(owners[node])
        is_file = not owners[node][0].co_filename.startswith("<")  # lines at a prompt say nothing
        found = names.setdefault((spell_place(owners[node]) if is_file else "", where), [])
        if what not in found:
            found.append(what)
    lines: dict[str, list[str]] = {}
    for (line, where), whats in names.items():
        lines.setdefault(line, []).append(_joined(where, " and ".join(filter(None, whats))))
    return ", ".join(f"{', '.join(filter(None, texts))}  {line}".strip() for line, texts in lines.items())


def merged(names: Iterable[str]) -> str:
    """Names of several launches of one kernel: numbers that differ are left out."""
    found = list(dict.fromkeys(name for name in names if name))
    patterns = list(dict.fromkeys(re.sub(r"(?<=\.)\d+(?=\.)|(?<=\.)\d+(?= )|^\d+(?=\.)", "*", name) for name in found))
    shown = found if len(found) <= 1 else patterns
    return "; ".join(shown[:SHOWN]) + (f"; and {len(shown) - SHOWN} more" if len(shown) > SHOWN else "")


# ---- launches


class _Running(threading.local):
    names: Callable[[], tuple[str, ...]] | None = None


_running = _Running()


def run_named(names: Callable[[], tuple[str, ...]], run: Callable[..., None], *arguments: Any) -> None:
    """Runs a plan; who is told of it can ask for the names of its calls."""
    before, _running.names = _running.names, names
    try:
        run(*arguments)
    finally:
        _running.names = before


def running_names(count: int) -> tuple[str, ...]:
    """The names of the calls of the plan that this thread runs; empty ones where nothing is known."""
    names = () if _running.names is None else _running.names()
    return names if len(names) == count else ("",) * count
