"""Writes to parts of tensors, carried out: one schedule for each device, with what can be computed in it besides.

    y = x * 2;  x[0] = 1;  realize([y, x])          one schedule: y is saved from the memory that is about to change

Memory is changed in place where nobody can ask for the old content once all this is realised (`old_contents`), else in
a copy. A tensor that is replaced as a whole may get the memory that it had.
"""

from __future__ import annotations

from typing import Any

from whit.engine.devices.device import is_disk
from whit.engine.devices.disk import not_computed
from whit.engine.memory.ownership import unseen
from whit.engine.memory.storage import (
    attach,
    computed,
    computed_entries,
    forgetting,
    nbytes_of,
    new_buffer,
    remembering,
    storage,
    taking_over,
)
from whit.engine.memory.view import view_of_buffer
from whit.engine.plan.find_plan import can_lie_in
from whit.engine.programs.parts import Parts, ProgramPart, add_schedule
from whit.engine.realize.effects import (
    Effect,
    effect_of,
    memory_changed,
    memory_under,
    on_views,
    stored_value,
)
from whit.engine.realize.known import known, value_of
from whit.engine.realize.windows import find_windows
from whit.errors import ArgumentError
from whit.ir import ops
from whit.ir.uop import UOp
from whit.records import dataclass, field
from whit.runtime.buffer import Buffer

# bytes; the memory of a replaced tensor of at least this size is used again, if nobody can see it
LEAST_REUSED_BYTES = 1 << 16


def is_worth_reusing(root: UOp) -> bool:
    """Whether a root replaces all of a tensor that is large enough to ask whether its memory is free now."""
    if id(root) in computed_entries or stored_value(root) is None:
        return False
    if nbytes_of(root.dtype, root.shape) < LEAST_REUSED_BYTES or known(value_of(root)) is not None:
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


def old_contents(todo: list[tuple[UOp, str]], changed: list[UOp], assigned: list[UOp]) -> OldContents:
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
            old.free.setdefault(value_of(root), memory)
    return old


@dataclass(slots=True)
class Change:
    """What one schedule is to change and to compute, and what there is after it."""

    device: str
    effects: list[Effect] = field(default_factory=list)
    roots: list[UOp] = field(default_factory=list)
    results: list[UOp] = field(default_factory=list)  # BUFFERs with the values of the roots
    contents: list[UOp] = field(default_factory=list)  # what the last AFTERs of the effects are


def changes_of(todo: list[tuple[UOp, str]], changed: list[UOp], old: OldContents) -> list[Change]:
    """The changes of parts of tensors, by device, and what is wanted besides in the same schedule.

    What a view of a changed tensor shows is left for later: it may need no kernel.
    """
    found: dict[str, Change] = {}
    for top in changed:
        if is_disk(top.device):
            why = "a file is written at once, by write_view, and never by a graph"
            raise not_computed(str(top.device), "realize", why)
        effect = effect_of(top, old.private)
        change = found.setdefault(str(top.device), Change(str(top.device)))
        if effect is None:
            change.roots.append(top)
        else:
            old.private.discard(effect.memory)  # another effect on it works on a copy
            change.effects.append(effect)
    tops = set(changed)
    memories = {effect.memory for change in found.values() for effect in change.effects} | {*old.free.values()}
    for node, name in todo:
        if name in found and not shows(node, tops) and needs_kernel(node, memories):
            found[name].roots.append(node)
    for change in found.values():
        change.roots = list(dict.fromkeys(change.roots))
    return list(found.values())


def needs_kernel(node: UOp, changed: set[UOp]) -> bool:
    """Whether a value is computed, or has to be saved from a memory that is about to change."""
    part = view_of_buffer(node)
    return part is None or part[0] in changed


def shows(node: UOp, changed: set[UOp]) -> bool:
    """Whether a node is a changed tensor or a view of one."""
    while node not in changed:
        if not node.src or not (node.op in ops.MOVEMENT or node.op in (ops.BITCAST, ops.DETACH)):
            return False
        node = node.src[0]
    return True


def add_change(program: Parts, change: Change, order: list[UOp], old: OldContents) -> None:
    """Adds the schedule of a change; `order` is what is below it.

    The old content of a memory that is changed in place can be had from nobody but the results: they are remembered
    together with the change.
    """
    changed = {effect.memory for effect in change.effects}
    shown = [effect.views() for effect in change.effects]  # while it is known which of them are in memory
    for effect, views in zip(change.effects, shown, strict=True):
        effect.in_place = effect.in_place and _can_stay(effect.memory, views)
    windows = find_windows(order, changed | {*old.free.values()})
    part = add_schedule(program, change.roots, change.effects, order, change.device, windows)
    change.results = results_of(program, part, change.roots, old)
    for root, result in zip(change.roots, change.results, strict=True):
        part.then += (*remembering(root, result),)
    places = part.places[len(change.roots) :]
    for effect, views, place in zip(change.effects, shown, places, strict=False):
        content = on_views(views, attach(program.fixed[place], effect.memory.dtype, effect.memory.shape), _itself)
        if effect.in_place:
            content = _as_it_lies(content)
            part.then += (*old.forgetting(effect.memory), *taking_over(effect.memory, effect.top, content))
        change.contents.append(content)


def _itself(size: UOp) -> UOp:
    return size


def _as_it_lies(view: UOp) -> UOp:
    """The BUFFER of a view that needs no kernel."""
    if view.op is ops.BUFFER:
        return view
    part = view_of_buffer(view)
    assert part is not None, "only views that lie in their memory as they are shown come here"
    base, offset = part
    return attach(storage(base).view(offset, nbytes_of(view.dtype, view.shape)), view.dtype, view.shape)


def _can_stay(memory: UOp, views: list[UOp]) -> bool:
    """Whether a memory that nobody asks for can be changed: not where views of it would have to be computed afterwards.
    An interrupt may come then, and the old content would be gone."""
    before = storage(memory)
    if not before.writable or before.is_shared:
        return False
    return not views or view_of_buffer(on_views(views, memory, _itself)) is not None


# ---- where values come to lie


def results_of(program: Parts, part: ProgramPart, roots: list[UOp], old: OldContents) -> list[UOp]:
    """BUFFERs for the values of roots: new ones, or in memory that is free, and that the schedule can overwrite."""
    graph, device = part.graph, part.device
    assert graph is not None, "a schedule has a graph"
    if graph.unbound:
        names = ", ".join(sorted(graph.unbound))
        raise ArgumentError(f"realize: no value for {names}", fix="Use variables with a value: variable.bind(3).")
    results = []
    for slot, root in enumerate(roots):
        memory = old.free.get(root)
        if memory is not None and _is_free(storage(memory), device) and can_lie_in(graph, slot, memory, device):
            result = attach(storage(memory), root.dtype, root.shape)
            part.then += (*old.forgetting(memory), *taking_over(memory, root, result))
        else:
            result = new_buffer(root.dtype, root.shape, device)
        program.fixed[part.places[slot]] = storage(result)
        results.append(result)
    return results


def _is_free(buffer: Buffer, device: str) -> bool:
    """Whether a buffer that nobody asks for can be written to; views of it may have been made a moment ago."""
    return buffer.device == device and buffer.writable and not buffer.is_shared
