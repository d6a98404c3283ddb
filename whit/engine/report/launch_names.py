"""Which lines and layers of the user's program a kernel computes: names for launches, for people.

    blocks.3.attn softmax  model.py:31

A tensor notes where it was made on its node (`whit.tensor.place`). Nodes of a graph that is run are replaced: buffers
become params (`parametrise` keeps the places, if somebody wants names), and the scheduler rewrites what is left. So
names are found backward: the scheduler says which values a call computes (`schedule(graph, target, traced)`), these are
laid beside the graph that it was given, and a node that has no place of its own is part of what uses it.

Names belong to launches. Programs, schedules and kernels are found under what they compute and know nothing of them: 32
equal layers are one kernel with 32 names. Nothing of this is done before somebody asks, by DEBUG=2, PROFILE, `explain`
or a recording; these also have the paths of layers, which take long to look up for every tensor. How names are put into
words: `launch_words`; what is known of layers: `layers`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from whit.cache import register_cache
from whit.config import DEBUG, settings_key
from whit.engine.report.layers import note_flow, parameter_path
from whit.engine.report.user_place import Place, is_step
from whit.errors import ParseError
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.record import set_made
from whit.ir.uop import UOp
from whit.records import dataclass, field

if TYPE_CHECKING:
    from whit.engine.report.launch_words import LaunchName

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


# ---- the places of a graph


@dataclass(slots=True, eq=False)
class Places:
    """Where the nodes of a parametrised graph were made, and the names of the calls of its schedule, once asked for."""

    known: Mapping[UOp, Place]
    memories: Mapping[UOp, UOp]  # what slots hold that is no number: PARAM -> BUFFER, or a part of one
    names: dict[tuple[Any, ...], tuple[LaunchName, ...]] = field(default_factory=dict)


def made(node: UOp) -> Place | None:
    """Where a node was made, if that was by a tensor."""
    return getattr(node, "made", None)


def keep_made(new: UOp, old: UOp) -> UOp:
    """The new node, made where the one was that it stands for."""
    place = made(old)
    if place is not None and new.src and made(new) is None:
        set_made(new, place)
    return new


def places_of(done: Mapping[UOp, UOp], params: Mapping[UOp, UOp]) -> Places:
    """Those of nodes that have replaced others; `params`: what slots hold -> the PARAM."""
    known: dict[UOp, Place] = {}
    for old, new in done.items():
        place = made(old)
        if place is not None and new.src:
            before = known.setdefault(new, place)  # several are one where they have the same value: the first made it
            if (
                before[4] and not place[4] and not is_step(place)
            ):  # but a gradient that needs a value is not what it is known for
                known[new] = place
    return Places(known, {param: node for node, param in params.items() if node.op is not ops.CONST})


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


def names_of(
    graph: UOp, places: Places | None, device: str, trace: Callable[[UOp, Traced], object]
) -> tuple[LaunchName, ...]:
    """A name for each call of the schedule of a graph; none if nothing is known. `trace` schedules it again."""
    if places is None or not places.known:
        return ()
    key = (graph, device, settings_key())
    found = places.names.get(key[1:])
    if found is None:
        from whit.engine.report.launch_words import name_of  # lazy: when somebody asks for names

        if key not in _traced:
            traced = Traced()
            trace(graph, traced)
            note_traced(graph, device, traced)
        owners = _inherited(graph, places.known)
        regions = _traced[key]
        written = [_parameter(region, owners, places.memories) for region in regions]
        found = tuple(name_of(region, owners, path) for region, path in zip(regions, written, strict=True))
        places.names[key[1:]] = found
        note_flow(graph, owners, places.memories)
    return found


def _parameter(region: Sequence[UOp], owners: Mapping[UOp, Place], memories: Mapping[UOp, UOp]) -> str:
    """The path of the parameter that an optimiser changes here: the one that it reads; "" if none that is known."""
    for node in reversed(region):
        place = owners.get(node)
        if place is None or not is_step(place):
            continue
        for source in node.src:
            while source.op in ops.MOVEMENT or source.op is ops.CAST:
                source = source.src[0]
            if path := parameter_path(memories.get(source)):
                return path
    return ""


def _inherited(graph: UOp, known: Mapping[UOp, Place]) -> dict[UOp, Place]:
    """A place for each node: that of what uses it, if it has none. Of several users it is part of one that is no
    gradient, if there is such a one: values of the forward pass are used by gradients again."""
    found = dict(known)
    for node in reversed(topological((graph,))):
        place = found.get(node)
        if place is not None:
            for source in node.src:
                before = found.setdefault(source, place)
                if before[4] and not place[4] and source not in known and not is_step(place):
                    found[source] = place
    return found


def _regions(graph: UOp, traced: Traced) -> Iterable[tuple[UOp, ...]]:
    """For each call, the nodes of the graph that it computes, sources first; the last one is what it stores."""
    origins = _origins(graph, traced)
    roots = {root for call in traced.calls for root in call}
    for call in traced.calls:
        if call[0].op is ops.CALL or call[0].op is ops.LOOP:  # a kernel of a function
            yield call
            continue
        others = roots.difference(call)
        nodes = topological(call, stop=others)
        inside = [node for node in nodes if node not in others and node.src]
        yield tuple(dict.fromkeys(origins[node] for node in inside if node in origins))


def _origins(graph: UOp, traced: Traced) -> dict[UOp, UOp]:
    """For each node of rewritten values, the node of the graph that it is, or is a part of."""
    order = topological((graph,))
    given = set(order)
    wanted = {_slot(store.src[0]): store.src[1] for store in graph.src}
    stack = [(wanted[slot], value) for target, value in traced.values if (slot := _slot(target)) in wanted]
    stack += _operands(order, traced)
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


def _operands(order: Sequence[UOp], traced: Traced) -> Iterable[tuple[UOp, UOp]]:
    """What calls of functions and loops are given, before and after: their results are read from memory, so nothing
    that is stored in the end leads there."""
    before: dict[Any, list[UOp]] = {}
    for node in order:
        if node.op is ops.LOOP:
            before.setdefault(_function(node), []).append(node)
    for call in traced.calls:
        if call[0].op is ops.LOOP and (known := before.get(_function(call[0]))):
            old = known.pop(0)
            yield from zip(old.src, call[0].src, strict=False)


def _function(node: UOp) -> tuple[object, int]:
    """What tells loops apart, whatever they are given."""
    return node.arg, len(node.src)


def _slot(target: UOp) -> int | None:
    """The slot of the param that a target shows: of complex numbers or, in rewritten graphs, of floats."""
    while target.op is not ops.PARAM and target.src:
        target = target.src[0]
    return target.arg.slot if target.op is ops.PARAM else None


# ---- launches


class _Running(threading.local):
    names: Callable[[], tuple[LaunchName, ...]] | None = None


_running = _Running()


def run_named(names: Callable[[], tuple[LaunchName, ...]], run: Callable[..., None], *arguments: Any) -> None:
    """Runs a plan; who is told of it can ask for the names of its calls."""
    before, _running.names = _running.names, names
    try:
        run(*arguments)
    finally:
        _running.names = before


def running_names(count: int) -> tuple[LaunchName, ...]:
    """The names of the calls of the plan that this thread runs; empty ones where nothing is known."""
    from whit.engine.report.launch_words import NO_NAME  # lazy: as above

    names = () if _running.names is None else _running.names()
    return names if len(names) == count else (NO_NAME,) * count
