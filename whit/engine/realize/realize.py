"""From tensor graphs to values in memory.

    (c,) = realize([a * 2 + b], "CPU")      # the BUFFER that holds the result; `a * 2 + b` is never computed again

The way of a graph: what was computed before is read from its buffer; copies between devices are carried out first, then
stores to parts of tensors, with everything that can be computed in the same schedule; the rest is parametrised
(`parametrise`), its schedule looked up or made, made ready for the device (`plan`, the device's `load`) and run. The
second identical step rewrites nothing: one pass over the graph, one lookup, one launch.
"""

from __future__ import annotations

import importlib
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial
from itertools import starmap
from math import prod
from operator import call
from time import perf_counter_ns
from typing import Any

from whit.cache import register_cache
from whit.config import CHECK_PLAN, DEBUG, settings_key
from whit.dtype import encode
from whit.engine.compile.progress import Compiling
from whit.engine.compile.schedules import find_or_make
from whit.engine.devices.device import Device, canonicalize, is_disk
from whit.engine.devices.disk import allocate, not_computed
from whit.engine.devices.file_views import compute_into_file, copy_into_file, read_view
from whit.engine.memory.holders import keeping
from whit.engine.memory.ownership import unseen
from whit.engine.memory.storage import (
    attach,
    computed,
    computed_entries,
    forgetting,
    from_bytes,
    nbytes_of,
    new_buffer,
    remember,
    storage,
    taking_over,
)
from whit.engine.memory.view import view_of_buffer
from whit.engine.plan.plan import Plan, make_plan, plan_of
from whit.engine.realize.effects import (
    Effect,
    effect_of,
    last_changes,
    memory_changed,
    memory_under,
    on_views,
    stored_value,
)
from whit.engine.realize.failure import explain_failure
from whit.engine.realize.many_sizes import note_program
from whit.engine.realize.parametrise import SPREADS, Parametrised, below, parametrise
from whit.engine.realize.parametrise_effects import parametrise_effects
from whit.engine.realize.reuse import can_overwrite
from whit.engine.realize.store_once import to_store
from whit.engine.realize.windows import find_windows
from whit.engine.report.counters import Counts, GlobalCounters
from whit.engine.report.launch_names import Traced, keep_made, names_of, note_traced, run_named, watched
from whit.engine.report.show import show_graph, show_stored
from whit.engine.report.why_stored import WhyStored
from whit.errors import ArgumentError, BackendError, UserError
from whit.ir import ops
from whit.ir.uop import UOp
from whit.recording import hooks
from whit.records import dataclass
from whit.runtime.buffer import Buffer, has_memory, is_on_host

MOST_PLANS = 10_000
# bytes; the memory of a replaced tensor of at least this size is used again, if nobody can see it
LEAST_REUSED_BYTES = 1 << 16
# bytes; a constant tensor of at most this size is written from Python, without a kernel
MOST_FILLED_BY_HAND_BYTES = 4096

_plans: dict[tuple[Any, ...], Any] = {}  # (graph, slots, device, settings) -> what the device's `load` gave
_constants: dict[tuple[UOp, str], Buffer] = {}
_lock = threading.RLock()
register_cache(_plans.clear, "engine.plans")
register_cache(_constants.clear, "engine.constants")
_reused: dict[tuple[Any, ...], bool] = {}  # (key of the plan, output, input) -> whether they can be one memory
register_cache(_reused.clear, "engine.reused")


def realize(roots: Sequence[UOp], device: str | None = None) -> list[UOp]:
    """The BUFFERs that hold the values of these nodes. `device` is for values that have none: those of constants."""
    wanted = [(_value(root), root.device or canonicalize(device)) for root in roots]
    todo = _unknown(wanted)
    found = _realize_all(roots, todo) if todo else {}
    results: list[UOp] = [found[pair] if pair in found else _known(pair[0]) for pair in wanted]  # type: ignore[misc]
    return _apart(roots, results) if len(roots) > 1 else results


def _unknown(pairs: list[tuple[UOp, str]]) -> list[tuple[UOp, str]]:
    """Those of some nodes, with their devices, that are not in memory; each once."""
    return [pair for pair in dict.fromkeys(pairs) if _known(pair[0]) is None]


def _below(todo: list[tuple[UOp, str]]) -> tuple[list[UOp], bool]:
    return below([node for node, _ in todo])


def _realize_all(roots: Sequence[UOp], todo: list[tuple[UOp, str]]) -> dict[tuple[UOp, str], UOp]:
    """Computes what the roots need: copies between devices, effects, everything else. What is remembered is not in the
    result."""
    order, has_special = _below(todo)
    if has_special and _copy_first(order, todo):
        order, _ = _below(todo)
    marked = to_store(order)
    if marked:
        todo = _unknown([*todo, *[(node, str(node.device)) for node in marked]])
    assigned = [root for root in roots if root.op is ops.AFTER and _is_worth_reusing(root)]
    if not has_special and not assigned:
        return _compute_all(todo, order, OldContents())
    changed = [node for node in last_changes(order) if node.device is not None]
    old = _old_contents(todo, changed, assigned)
    if not changed:
        return _compute_all(todo, order, old)
    found = _change(todo, order, changed, old)
    todo = [pair for pair in _unknown(todo) if pair not in found]
    return found | _compute_all(todo, _below(todo)[0], old)


def _apart(roots: Sequence[UOp], results: list[UOp]) -> list[UOp]:
    """Leaves of the same value are different tensors to a gradient, so each gets memory of its own."""
    owners: dict[UOp, UOp] = {}
    for place, (root, result) in enumerate(zip(roots, results, strict=True)):
        if root.op is ops.LEAF and owners.setdefault(result, root) is not root:
            results[place] = new_buffer(result.dtype, result.shape, storage(result).device)
            _move(storage(results[place]), storage(result))
    return results


def realize_one(node: UOp, device: str) -> UOp:
    """The same for one node."""
    return realize([node], device)[0]


def _is_worth_reusing(root: UOp) -> bool:
    """Whether a root replaces all of a tensor that is large enough to ask whether its memory is free now."""
    if id(root) in computed_entries or stored_value(root) is None:
        return False
    if nbytes_of(root.dtype, root.shape) < LEAST_REUSED_BYTES or _known(_value(root)) is not None:
        return False
    return memory_under(root) is not None


@dataclass(slots=True)
class OldContents:
    """Memories that are about to have another content: what nobody can ask for any more."""

    private: set[UOp] = field(default_factory=set)  # BUFFERs that may be changed in place
    free: dict[UOp, UOp] = field(default_factory=dict)  # a value that replaces a whole tensor -> the BUFFER it replaces
    shown: list[UOp] = field(default_factory=list)  # expressions with a remembered value in memory that is changed

    def forgetting(self, memory: UOp) -> list[tuple[Any, ...]]:
        """The calls, of C, that forget the values that have been in a memory."""
        return [forgetting(node) for node in self.shown if computed(node) is memory]


def _old_contents(todo: list[tuple[UOp, str]], changed: list[UOp], assigned: list[UOp]) -> OldContents:
    """What nobody can ask for once all this is realised."""
    memories = {memory for top in changed if (memory := memory_changed(top)) is not None}
    memories |= {memory for root in assigned if (memory := memory_under(root)) is not None}
    realised = {*(node for node, _ in todo if node.device is not None), *changed, *assigned}
    old = OldContents()
    old.private, old.shown = unseen(memories, realised)
    tops = {memory_changed(top) for top in changed}
    for root in assigned:
        memory = memory_under(root)
        if memory is None or memory in tops or memory not in old.private:
            continue
        if nbytes_of(root.dtype, root.shape) == storage(memory).nbytes and memory not in old.free.values():
            old.free.setdefault(_value(root), memory)
    return old


def _compute_all(todo: list[tuple[UOp, str]], order: list[UOp], old: OldContents) -> dict[tuple[UOp, str], UOp]:
    """The values of nodes on their devices, where there are no effects; what is remembered is not in the result."""
    found: dict[tuple[UOp, str], UOp] = {}
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
        results = _compute(batch, order if len(batch) == len(todo) else below(batch)[0], name, old)
        for node, result in zip(batch, results, strict=True):
            _keep(node, name, result, found)
    return found


def _value(root: UOp) -> UOp:
    """The node that has the value of a root: behind those that only have other gradients, and behind whole stores."""
    while True:
        if root.op in ops.SAME_VALUE:
            value: UOp | None = root.src[0]
        else:
            value = root.member if root.op is ops.ITEM else stored_value(root)
        if value is None or id(root) in computed_entries:
            return root
        root = keep_made(value, root)


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
    value = filled_by_hand(root, device)
    return None if value is None else from_bytes(_encoded(value) * prod(root.shape), root.dtype, root.shape, device)


def filled_by_hand(root: UOp, device: str) -> UOp | None:
    """The CONST that fills a tensor, if the tensor is so small that no kernel is worth it."""
    value = root
    while (value.op in SPREADS and len(value.src) == 1) or value.op in ops.SAME_VALUE:
        value = value.src[0]
    if value.op is not ops.CONST or device.startswith(("NULL", "DISK")):
        return None
    size = value.dtype.itemsize
    return value if size and prod(root.shape) * size <= MOST_FILLED_BY_HAND_BYTES else None


def _encoded(node: UOp) -> bytes:
    bits = encode(node.dtype, node.arg)
    return int(bits).to_bytes(node.dtype.itemsize, "little")


# ---- first copies between devices


def _copy_first(order: list[UOp], todo: list[tuple[UOp, str]]) -> bool:
    """Makes the copies between devices that a graph has, sources before users. Whether there are any."""
    copies = [node for node in order if node.op is ops.COPY and id(node) not in computed_entries]
    with keeping(node for node, _ in todo if copies):  # what is copied may write to what these read
        for node in copies:
            if computed(node) is None:
                _copy(node)
    return bool(copies)


def _copy(node: UOp) -> None:
    """The value of the source in memory of another device."""
    target = canonicalize(node.arg)
    if is_disk(node.src[0].device) and not (is_disk(target) and view_of_buffer(node.src[0])):
        if is_disk(target) or not has_memory(target) or is_on_host(target):
            read = read_view(node.src[0], "CPU" if is_disk(target) else target, realize_one)
            remember(node, copy_into_file(read, target, realize_one) if is_disk(target) else read)
            return
        remember(node, _copied(read_view(node.src[0], "CPU", realize_one), target))
        return
    (source,) = realize(node.src, target)
    if storage(source).device == target:
        remember(node, source)
        return
    if is_disk(target):
        remember(node, copy_into_file(source, target, realize_one))
        return
    remember(node, _copied(source, target))


def _copied(source: UOp, device: str) -> UOp:
    """A BUFFER with the same bytes on another device."""
    result = new_buffer(source.dtype, source.shape, device)
    target, memory = storage(result), storage(source)
    if not is_on_host(memory.device) or not has_memory(device):
        _move(target, memory)
    else:
        target.fill(memory.memory())
        _count_copy(target)
    return result


def _move(target: Buffer, source: Buffer) -> None:
    target.copy_from(source)
    _count_copy(target)


def _count_copy(target: Buffer) -> None:
    GlobalCounters.add(target.device, Counts(copy_count=1, bytes_read=target.nbytes, bytes_written=target.nbytes))


# ---- then effects, and what can be computed together with them


def _change(
    todo: list[tuple[UOp, str]], order: list[UOp], changed: list[UOp], old: OldContents
) -> dict[tuple[UOp, str], UOp]:
    """Carries out the changes of parts of tensors in a graph, and computes what is wanted besides in the same schedule.

    What a view of a changed tensor shows is left for later: it may need no kernel.
    """
    batches: dict[str, tuple[list[Effect], list[UOp]]] = {}
    for top in changed:
        if is_disk(top.device):
            why = "a file is written at once, by write_view, and never by a graph"
            raise not_computed(str(top.device), "realize", why)
        effect = effect_of(top, old.private)
        effects, others = batches.setdefault(str(top.device), ([], []))
        if effect is None:
            others.append(top)
        else:
            old.private.discard(effect.memory)  # another effect on it works on a copy
            effects.append(effect)
    tops = set(changed)
    memories = {effect.memory for effects, _ in batches.values() for effect in effects}
    memories.update(old.free.values())
    for node, name in todo:
        if name in batches and not _shows(node, tops) and _needs_kernel(node, memories):
            batches[name][1].append(node)
    found: dict[tuple[UOp, str], UOp] = {}
    for name, (effects, others) in batches.items():
        roots = list(dict.fromkeys(others))
        is_all = len(batches) == 1 and len(todo) == 1
        nodes = order if is_all else below([*roots, *(effect.top for effect in effects)])[0]
        for node, result in zip(roots, _carry_out(roots, effects, nodes, name, old), strict=True):
            _keep(node, name, result, found)
    return found


def _needs_kernel(node: UOp, changed: set[UOp]) -> bool:
    """Whether a value is computed, or has to be saved from a memory that is about to change."""
    part = view_of_buffer(node)
    return part is None or part[0] in changed


def _shows(node: UOp, changed: set[UOp]) -> bool:
    """Whether a node is a changed tensor or a view of one."""
    while node not in changed:
        if not node.src or not (node.op in ops.MOVEMENT or node.op in (ops.BITCAST, ops.DETACH)):
            return False
        node = node.src[0]
    return True


def _carry_out(roots: list[UOp], effects: list[Effect], order: list[UOp], device: str, old: OldContents) -> list[UOp]:
    """Runs one schedule: the values of the roots, and the new contents of memories, in place or in copies."""
    changed = {effect.memory for effect in effects}
    graph = parametrise_effects(roots, effects, order, find_windows(order, changed | {*old.free.values()}))
    results = _results(roots, graph, device, old.free)
    views = [effect.views() for effect in effects]  # while it is known which of them are in memory
    memories = [_memory_for(effect, shown) for effect, shown in zip(effects, views, strict=True)]
    contents: list[UOp] = []  # of the last AFTERs
    then = _let_go(roots, results, old)
    for effect, buffer, shown in zip(effects, memories, views, strict=True):
        content = attach(buffer, effect.memory.dtype, effect.memory.shape)
        contents.append(on_views(shown, content, lambda size: size))
        if effect.in_place:
            if shown:
                contents[-1] = _known(contents[-1]) or _as_it_lies(contents[-1])
            then += old.forgetting(effect.memory) + taking_over(effect.memory, effect.top, contents[-1])
    _run(graph, [*(storage(result) for result in results), *memories], device, then)
    for effect, content in zip(effects, contents, strict=True):
        if not effect.in_place:
            remember(effect.top, content if content.op is ops.BUFFER else realize([content])[0])
    return results


def _as_it_lies(view: UOp) -> UOp:
    """The BUFFER of a view that needs no kernel."""
    part = view_of_buffer(view)
    assert part is not None, "only views that lie in their memory as they are shown come here"
    base, offset = part
    return attach(storage(base).view(offset, nbytes_of(view.dtype, view.shape)), view.dtype, view.shape)


def _memory_for(effect: Effect, shown: list[UOp]) -> Buffer:
    """The memory with the old content, to be changed: itself, or a copy, also where its views would have to be computed
    afterwards. An interrupt may come then, and the old content would be gone."""
    before = storage(effect.memory)
    effect.in_place = effect.in_place and before.writable and not before.is_shared
    if shown and effect.in_place:
        effect.in_place = view_of_buffer(on_views(shown, effect.memory, lambda size: size)) is not None
    if effect.in_place:
        return before
    copy = allocate(before.device, before.nbytes)
    _move(copy, before)
    return copy


# ---- then everything else


def _compute(roots: list[UOp], order: list[UOp], device: str, old: OldContents) -> list[UOp]:
    """Runs the schedule of these roots; the BUFFERs with their values."""
    if is_disk(device):
        return [compute_into_file(root, device, realize_one) for root in roots]
    graph = parametrise(roots, order, find_windows(order, {*old.free.values()}))
    results = _results(roots, graph, device, old.free)
    _run(graph, [storage(result) for result in results], device, _let_go(roots, results, old))
    return results


def _results(roots: list[UOp], graph: Parametrised, device: str, free: dict[UOp, UOp]) -> list[UOp]:
    """BUFFERs for the values of roots: new ones, or in memory that is free, and that the schedule can overwrite."""
    results = []
    for slot, root in enumerate(roots):
        memory = free.get(root)
        if memory is not None and _is_free(storage(memory), device) and can_lie_in(graph, slot, memory, device):
            results.append(attach(storage(memory), root.dtype, root.shape))
        else:
            results.append(new_buffer(root.dtype, root.shape, device))
    return results


def _is_free(buffer: Buffer, device: str) -> bool:
    """Whether a buffer that nobody asks for can be written to; views of it may have been made a moment ago."""
    return buffer.device == device and buffer.writable and not buffer.is_shared


def _let_go(roots: list[UOp], results: list[UOp], old: OldContents) -> list[tuple[Any, ...]]:
    """The calls that take the memory that has a new content from the BUFFERs that had the old one."""
    calls: list[tuple[Any, ...]] = []
    for root, result in zip(roots, results, strict=True):
        memory = old.free.get(root)
        if memory is not None and storage(memory) is storage(result):
            calls += old.forgetting(memory) + taking_over(memory, root, result)
    return calls


def can_lie_in(graph: Parametrised, slot: int, memory: UOp, device: str) -> bool:
    """Whether an output can lie in a memory that the graph may read."""
    if memory not in graph.slots:
        return True
    place = graph.slots.index(memory)
    key = (*_key(graph, device), slot, place)
    found = _reused.get(key)
    if found is None:
        linear = plan_of(find_plan(graph, device)).linear
        found = _reused[key] = can_overwrite(linear, slot, graph.outputs + place)
    return found


def _run(graph: Parametrised, outputs: list[Buffer], device: str, then: list[tuple[Any, ...]]) -> None:
    """Runs a graph, and makes the calls that note what it has written over. Where a device can do both at once, an
    interrupt comes before or after; it would be written over twice otherwise."""
    if graph.unbound:
        names = ", ".join(sorted(graph.unbound))
        raise ArgumentError(f"realize: no value for {names}", fix="Use variables with a value: variable.bind(3).")
    loaded = find_plan(graph, device)
    buffers = outputs
    for slot in graph.slots:
        buffers.append(memory_of_slot(slot, device))
    if CHECK_PLAN and isinstance(plan := plan_of(loaded), Plan):  # a backend may keep something else
        load_check("check_plan").check_shared(graph.graph, plan, buffers)
    backend: Any = Device[device]
    arguments: tuple[Any, ...] = (loaded, buffers, dict(graph.variables))
    is_one = bool(then) and getattr(backend, "calls_then", False)
    if is_one:
        arguments += (then,)
    if graph.places is None:
        backend.run(*arguments)
    else:
        run_named(partial(call_names, graph, device), backend.run, *arguments)
    if not is_one:
        deque(starmap(call, then), maxlen=0)


def call_names(graph: Parametrised, device: str) -> tuple[str, ...]:
    """What the calls of the schedule of a graph compute, for people; nothing where that is not known."""
    return names_of(graph.graph, graph.places, device, lambda each, traced: load_scheduler(device, traced)(each))


def find_plan(graph: Parametrised, device: str) -> Any:
    """What the device runs for a graph; made, if it is the first of its kind."""
    loaded = _plans.get(_key(graph, device))
    if loaded is None:
        start = perf_counter_ns()
        with Compiling():
            loaded = _load(graph, device)
        note_program(graph.graph, device)
        for timer in hooks.timers():
            timer.prepared(device, start, perf_counter_ns())
    return loaded


def _key(graph: Parametrised, device: str) -> tuple[Any, ...]:
    """What a plan is found under. A slot that the graph does not use is passed all the same, so their number counts."""
    return graph.graph, len(graph.slots), device, settings_key()


def memory_of_slot(slot: UOp, device: str) -> Buffer:
    """The memory that a slot of a parametrised graph stands for."""
    if slot.op is ops.BUFFER:
        return storage(slot)
    part = view_of_buffer(slot)
    if part is None:
        return _constant(slot, device)
    memory, start = part
    return storage(memory).view(start, nbytes_of(slot.dtype, slot.shape))


def _constant(node: UOp, device: str) -> Buffer:
    """The memory of a number that is passed to kernels."""
    found = _constants.get((node, device))
    if found is None:
        if len(_constants) > MOST_PLANS:
            _constants.clear()
        found = _constants[node, device] = _wrapped(device, _encoded(node))
    return found


def _wrapped(device: str, data: bytes) -> Buffer:
    """Bytes on a device, in the memory where they are if it can read that."""
    if is_on_host(device) or not has_memory(device):
        return Buffer.wrap(device, data)
    buffer = allocate(device, len(data), is_counted=False)
    buffer.write(memoryview(data))
    return buffer


def _load(graph: Parametrised, device: str) -> Any:
    """Schedules the graph and makes it ready for the device."""
    key = _key(graph, device)
    with _lock:
        if key in _plans:  # another thread was first
            return _plans[key]
        try:
            if DEBUG >= 5:
                show_graph("graph", graph.graph)
            if (recorder := hooks.recorder) is not None:
                recorder.begin_schedule()
            linear = find_or_make(graph.graph, device, lambda each: _scheduled(each, device))
            if DEBUG >= 5:
                show_graph("schedule", linear)
            plan = make_plan(linear, graph.outputs + len(graph.slots))
            if CHECK_PLAN:
                load_check("check_schedule").check_schedule(graph.graph, linear)
                load_check("check_plan").check_plan(graph.graph, plan)
            if (recorder := hooks.recorder) is not None:
                recorder.scheduled(graph.graph, plan, device)
            loaded = Device[device].load(plan)
        except (UserError, BackendError, MemoryError, Warning):  # the last: as errors, because the user wants them so
            raise
        except OSError:  # a pipe that nobody reads, a full disk
            raise
        except Exception as error:
            raise explain_failure(graph.graph, device, error) from error
        if len(_plans) >= MOST_PLANS:
            _plans.pop(next(iter(_plans)))
        _plans[key] = loaded
        return loaded


def load_check(name: str) -> Any:
    """A proof of plans, which loads NumPy."""
    return importlib.import_module(f"whit.engine.plan.{name}")  # lazy: few programs ask for it


def _scheduled(graph: UOp, device: str) -> UOp:
    traced = Traced() if watched else None
    why = WhyStored() if DEBUG >= 3 else None
    linear = load_scheduler(device, traced, None if why is None else why.observe)(graph)
    if traced is not None:
        note_traced(graph, device, traced)
    if why is not None:
        show_stored(why.calls)
    return linear


def load_scheduler(
    device: str, traced: Traced | None = None, observe: Callable[..., None] | None = None
) -> Callable[[UOp], UOp]:
    """`whit.schedule.schedule`, for a device; a program that only builds graphs does not load it."""
    schedule: Callable[..., UOp] = importlib.import_module("whit.schedule").schedule  # lazy: the first realize does
    target = Device[device].target
    return lambda graph: schedule(graph, target, traced, observe)


def _after_fork() -> None:
    global _lock  # noqa: PLW0603  a fork: nobody would release it
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
