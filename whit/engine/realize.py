"""From tensor graphs to values in memory.

    (c,) = realize([a * 2 + b], "CPU")      # the BUFFER that holds the result; `a * 2 + b` is never computed again

The way of a graph: what was computed before is read from its buffer; copies between devices and stores to parts of a
buffer are carried out first, in order; the rest is normalised (`normalise`), its schedule looked up or made, made ready
for the device (`plan`, the device's `load`) and run. The second identical step rewrites nothing: one pass over the
graph, one lookup, one launch.
"""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from whit.cache import register_cache
from whit.config import DEBUG, settings_key
from whit.dtype import encode
from whit.engine.counters import Counts, GlobalCounters
from whit.engine.device import Device, canonicalize, is_disk
from whit.engine.disk import not_computed
from whit.engine.effects import is_private, memory_of, stored_value
from whit.engine.failure import explain_failure
from whit.engine.file_views import compute_into_file, copy_into_file, read_view
from whit.engine.normalise import SPECIAL, SPREADS, Normalised, Normaliser, below, normalise
from whit.engine.plan import make_plan
from whit.engine.show import show_graph
from whit.engine.storage import (
    attach,
    computed,
    computed_entries,
    detach_storage,
    from_bytes,
    nbytes_of,
    new_buffer,
    remember,
    storage,
)
from whit.engine.view import view_of_buffer
from whit.errors import BackendError, NotSupportedError, UserError
from whit.ir import ops
from whit.ir.uop import UOp, make
from whit.runtime.buffer import Buffer

MOST_PLANS = 10_000
FILLED_BY_HAND = 4096  # bytes; a constant tensor of at most this size is written from Python, without a kernel

_plans: dict[tuple[Any, ...], Any] = {}  # (graph, device, settings) -> what the device's `load` gave
_constants: dict[tuple[UOp, str], Buffer] = {}
_lock = threading.RLock()
register_cache(_plans.clear, "engine.plans")
register_cache(_constants.clear, "engine.constants")


def realize(roots: Sequence[UOp], device: str | None = None) -> list[UOp]:
    """The BUFFERs that hold the values of these nodes. `device` is for values that have none: those of constants."""
    wanted = [(_value(root), root.device or canonicalize(device)) for root in roots]
    todo = [pair for pair in dict.fromkeys(wanted) if _known(pair[0]) is None]
    found: dict[tuple[UOp, str], UOp] = {}
    if todo:
        order, has_special = below([node for node, _ in todo])
        if has_special:
            special = [node for node in order if node.op in SPECIAL and id(node) not in computed_entries]
            del order  # a list of its nodes would make every one of them look used
            _carry_out(special, device)
            order, _ = below([node for node, _ in todo])
        batches: dict[str, list[UOp]] = {}
        for node, name in todo:
            result = _known(node)
            if result is None:
                result = _without_kernel(node, name)
            if result is not None:
                _keep(node, name, result, found)
            else:
                batches.setdefault(name, []).append(node)
        for name, batch in batches.items():
            results = _compute(batch, order if len(batch) == len(todo) else below(batch)[0], name)
            for node, result in zip(batch, results, strict=True):
                _keep(node, name, result, found)
    return [found[pair] if pair in found else _known(pair[0]) for pair in wanted]  # type: ignore[misc]


def realize_one(node: UOp, device: str) -> UOp:
    """The same for one node."""
    return realize([node], device)[0]


def _value(root: UOp) -> UOp:
    """The node that has the value of a root: behind those that only have other gradients, and behind whole stores."""
    while True:
        value = root.src[0] if root.op in ops.SAME_VALUE else stored_value(root)
        if value is None or id(root) in computed_entries:
            return root
        root = value


def _known(node: UOp) -> UOp | None:
    """The BUFFER of a node, if it has one."""
    return node if node.op is ops.BUFFER else computed(node)


def _keep(node: UOp, device: str, result: UOp, found: dict[tuple[UOp, str], UOp]) -> None:
    """What has a device is remembered for all graphs; a value of constants may be wanted elsewhere next time."""
    if node.device is None:
        found[node, device] = result
    else:
        remember(node, result)


# ---- without a kernel


def _without_kernel(root: UOp, device: str) -> UOp | None:
    """A contiguous part of a buffer needs no kernel, and a small constant no code."""
    part = view_of_buffer(root)
    if part is not None:
        base, offset = part
        return attach(storage(base).view(offset, nbytes_of(root.dtype, root.shape)), root.dtype, root.shape)
    value = root
    while (value.op in SPREADS and len(value.src) == 1) or value.op in ops.SAME_VALUE:
        value = value.src[0]
    if value.op is not ops.CONST or device.startswith(("NULL", "DISK")):
        return None
    count = prod(root.shape)
    if not value.dtype.itemsize or count * value.dtype.itemsize > FILLED_BY_HAND:
        return None
    return from_bytes(_encoded(value) * count, root.dtype, root.shape, device)


def _encoded(node: UOp) -> bytes:
    bits = encode(node.dtype, node.arg)
    return int(bits).to_bytes(node.dtype.itemsize, "little")


# ---- first copies and effects


def _carry_out(special: list[UOp], device: str | None) -> None:
    """Copies between devices and stores to parts of buffers, sources before users. Empties the list as it goes, so that
    what is done looks used by nobody."""
    special.reverse()
    while special:
        node = special.pop()
        if computed(node) is not None:
            continue
        if node.op is ops.COPY:
            _copy(node)
        elif stored_value(node) is None:
            _update(node, device)


def _copy(node: UOp) -> None:
    """The value of the source in memory of another device."""
    target = canonicalize(node.arg)
    if is_disk(node.src[0].device) and not (is_disk(target) and view_of_buffer(node.src[0])):
        read = read_view(node.src[0], "CPU" if is_disk(target) else target, realize_one)
        remember(node, copy_into_file(read, target, realize_one) if is_disk(target) else read)
        return
    (source,) = realize(node.src, target)
    if storage(source).device == target:
        remember(node, source)
        return
    if is_disk(target):
        remember(node, copy_into_file(source, target, realize_one))
        return
    result = new_buffer(source.dtype, source.shape, target)
    storage(result).copy_from(storage(source))
    moved = storage(result).nbytes
    GlobalCounters.add(target, Counts(copy_count=1, bytes_read=moved, bytes_written=moved))
    remember(node, result)


def _update(node: UOp, device: str | None) -> None:
    """AFTER of stores to parts of a tensor: into its memory if nobody else can see it, else into a copy."""
    if is_disk(node.device):
        raise not_computed(
            node.device or "", "realize", "a file is written at once, by write_view, and never by a graph"
        )
    old, in_place = _old_content(node, device)
    memory = memory_of(node.src[0])
    state = Normaliser(1)
    target = UOp.param(0, old.dtype, old.shape)
    stores = [_part_store(effect, memory, target, state) for effect in node.src[1:]]
    graph = Normalised(make(ops.GROUP, tuple(stores)), 1, tuple(state.slots), tuple(state.variables.items()))
    before = storage(old)
    is_read = old in state.slots  # what is written must not be what is read: x[1:] = x[:-1]
    in_place = in_place and not is_read and before.writable and not before.is_shared
    if in_place:
        buffer = before
    else:
        buffer = Buffer(before.device, before.nbytes)
        buffer.copy_from(before)
    _run(graph, [buffer], before.device)
    result = attach(buffer, old.dtype, old.shape)
    if in_place:
        detach_storage(old)
    views = _chain(node.src[0], memory)
    if views:
        (result,) = realize([_on(views, result, lambda size: size)])
    remember(node, result)


def _old_content(node: UOp, device: str | None) -> tuple[UOp, bool]:
    """The BUFFER that an AFTER changes, and whether nobody else can ask for what is in it."""
    if _known(memory_of(node.src[0])) is None:
        (fresh,) = realize([memory_of(node.src[0])], node.device or device)
        if memory_of(node.src[0]).device is None:  # made here, and remembered nowhere
            return fresh, True
        del fresh
    is_ours = is_private(below([node])[0])
    return _known(memory_of(node.src[0])), is_ours  # type: ignore[return-value]


def _part_store(effect: UOp, memory: UOp, target: UOp, state: Normaliser) -> UOp:
    """A store to a view of the memory as a store to the same view of a param."""
    views = _chain(effect.src[0], memory) if effect.op is ops.STORE else None
    if views is None:
        raise NotSupportedError(
            "realize: an effect that is not a store to the tensor it stands after",
            effect.short(),
            "Store into the tensor itself.",
        )
    _, *sources = effect.src
    order, _ = below([*sources, *(size for view in views for size in view.src[1:])])
    state.visit([node for node in order if node not in state.done])
    place = _on(views, target, state.done.__getitem__)
    return make(ops.STORE, (place, *[state.done[s] for s in sources]), effect.arg)


def _chain(view: UOp, memory: UOp) -> list[UOp] | None:
    """The movement ops from a memory to a view of it, the first one first; None if it is not a view of that memory."""
    chain: list[UOp] = []
    while view is not memory:
        if view.op in ops.MOVEMENT or view.op is ops.BITCAST:
            chain.append(view)
        elif view.op is not ops.DETACH:
            return None
        view = view.src[0]
    chain.reverse()
    return chain


def _on(views: list[UOp], memory: UOp, source: Callable[[UOp], UOp]) -> UOp:
    """The same views of another memory."""
    for view in views:
        memory = make(view.op, (memory, *[source(s) for s in view.src[1:]]), view.arg)
    return memory


# ---- then everything else


def _compute(roots: list[UOp], order: list[UOp], device: str) -> list[UOp]:
    """Runs the schedule of these roots; the BUFFERs with their values."""
    if is_disk(device):
        return [compute_into_file(root, device, realize_one) for root in roots]
    graph = normalise(roots, order)
    results = [new_buffer(root.dtype, root.shape, device) for root in roots]
    _run(graph, [storage(result) for result in results], device)
    return results


def _run(graph: Normalised, outputs: list[Buffer], device: str) -> None:
    loaded = find_plan(graph, device)
    buffers = outputs
    for slot in graph.slots:
        buffers.append(memory_of_slot(slot, device))
    Device[device].run(loaded, buffers, dict(graph.variables))


def find_plan(graph: Normalised, device: str) -> Any:
    """What the device runs for a graph; made, if it is the first of its kind."""
    loaded = _plans.get((graph.graph, device, settings_key()))
    return _load(graph, device) if loaded is None else loaded


def memory_of_slot(slot: UOp, device: str) -> Buffer:
    """The memory that a slot of a normalised graph stands for."""
    return storage(slot) if slot.op is ops.BUFFER else _constant(slot, device)


def _constant(node: UOp, device: str) -> Buffer:
    """The memory of a number that is passed to kernels."""
    found = _constants.get((node, device))
    if found is None:
        if len(_constants) > MOST_PLANS:
            _constants.clear()
        found = _constants[node, device] = Buffer.wrap(device, _encoded(node))
    return found


def _load(graph: Normalised, device: str) -> Any:
    """Schedules the graph and makes it ready for the device."""
    key = (graph.graph, device, settings_key())
    with _lock:
        if key in _plans:  # another thread was first
            return _plans[key]
        try:
            if DEBUG >= 5:
                show_graph("graph", graph.graph)
            linear = load_scheduler()(graph.graph)
            if DEBUG >= 5:
                show_graph("schedule", linear)
            loaded = Device[device].load(make_plan(linear, graph.outputs + len(graph.slots)))
        except (UserError, BackendError, MemoryError, OSError):  # the last: a pipe that nobody reads, a full disk
            raise
        except Exception as error:
            raise explain_failure(graph.graph, device, error) from error
        if len(_plans) >= MOST_PLANS:
            _plans.pop(next(iter(_plans)))
        _plans[key] = loaded
        return loaded


def load_scheduler() -> Callable[[UOp], UOp]:
    """`whit.schedule.schedule`; a program that only builds graphs does not load it."""
    schedule: Callable[[UOp], UOp] = importlib.import_module("whit.schedule").schedule  # lazy: the first realize does
    return schedule


def _after_fork() -> None:
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
