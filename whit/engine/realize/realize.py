"""From tensor graphs to values in memory.

    (c,) = realize([a * 2 + b], "CPU")      # the BUFFER that holds the result; `a * 2 + b` is never computed again

The way of a graph: what was computed before is read from its buffer; copies between devices are carried out first, then
stores to parts of tensors, with everything that can be computed in the same schedule (`changes`); then the rest. Each
of the three is a program that is run once (`programs.parts`), of which the schedule is looked up or made (`find_plan`).
The second identical step rewrites nothing: one pass over the graph, one lookup, one launch.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat

from whit.engine.devices.device import canonicalize, is_disk
from whit.engine.devices.file_views import compute_into_file, copy_into_file, read_view
from whit.engine.memory.holders import keeping
from whit.engine.memory.storage import computed, computed_entries, new_buffer, remember, storage
from whit.engine.memory.view import view_of_buffer
from whit.engine.programs.parts import Parts, add_copy, add_schedule
from whit.engine.realize.changes import (
    OldContents,
    add_change,
    changes_of,
    is_worth_reusing,
    old_contents,
    results_of,
)
from whit.engine.realize.effects import last_changes
from whit.engine.realize.known import keep, known, unknown, value_of, without_kernel
from whit.engine.realize.parametrise import below
from whit.engine.realize.store_once import to_store
from whit.engine.realize.windows import find_windows
from whit.ir import ops
from whit.ir.uop import UOp
from whit.runtime.buffer import has_memory, is_on_host


def realize(roots: Sequence[UOp], device: str | None = None) -> list[UOp]:
    """The BUFFERs that hold the values of these nodes. `device` is for values that have none: those of constants."""
    wanted = [(value_of(root), root.device or canonicalize(device)) for root in roots]
    todo = unknown(wanted)
    found = _realize_all(roots, todo) if todo else {}
    results: list[UOp] = [found[pair] if pair in found else known(pair[0]) for pair in wanted]  # type: ignore[misc]
    return _apart(roots, results) if len(roots) > 1 else results


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
        todo = unknown([*todo, *[(node, str(node.device)) for node in marked]])
    assigned = [root for root in roots if root.op is ops.AFTER and is_worth_reusing(root)]
    if not has_special and not assigned:
        return _compute_all(todo, order, OldContents())
    changed = [node for node in last_changes(order) if node.device is not None]
    old = old_contents(todo, changed, assigned)
    if not changed:
        return _compute_all(todo, order, old)
    found = _change_all(todo, order, changed, old)
    todo = [pair for pair in unknown(todo) if pair not in found]
    return found | _compute_all(todo, _below(todo)[0], old)


def _apart(roots: Sequence[UOp], results: list[UOp]) -> list[UOp]:
    """Leaves of the same value are different tensors to a gradient, so each gets memory of its own."""
    owners: dict[UOp, UOp] = {}
    for place, (root, result) in enumerate(zip(roots, results, strict=True)):
        if root.op is ops.LEAF and owners.setdefault(result, root) is not root:
            results[place] = _copied(result, storage(result).device)
    return results


def realize_one(node: UOp, device: str) -> UOp:
    """The same for one node."""
    return realize([node], device)[0]


# ---- first copies between devices


def _copy_first(order: list[UOp], todo: list[tuple[UOp, str]]) -> bool:
    """Makes the copies between devices that a graph has, sources before users. Whether there are any."""
    copies = [node for node in order if node.op is ops.COPY and id(node) not in computed_entries]
    with keeping(node for node, _ in todo if copies):  # what is copied may write to what these read
        for node in copies:
            if computed(node) is None:
                remember(node, _copy(node.src[0], canonicalize(node.arg)))
    return bool(copies)


def _copy(source: UOp, target: str) -> UOp:
    """A BUFFER of a device, or of a file, with the value of a node of another one."""
    if is_disk(source.device) and not (is_disk(target) and view_of_buffer(source)):
        can_be_read_there = is_on_host(target) or not has_memory(target)
        found = read_view(source, target if can_be_read_there else "CPU", realize_one)
    else:
        (found,) = realize((source,), target)
    if storage(found).device == target:
        return found
    return copy_into_file(found, target, realize_one) if is_disk(target) else _copied(found, target)


def _copied(source: UOp, device: str) -> UOp:
    """A BUFFER with the same bytes in memory of its own, on any device."""
    result = new_buffer(source.dtype, source.shape, device)
    program = Parts()
    places = program.new_place(storage(result)), program.new_place(storage(source))
    add_copy(program, *places, device, is_fresh=True)
    program.run_once()
    return result


# ---- then effects, and what can be computed together with them


def _change_all(
    todo: list[tuple[UOp, str]], order: list[UOp], changed: list[UOp], old: OldContents
) -> dict[tuple[UOp, str], UOp]:
    """Carries out the changes of parts of tensors in a graph; what was computed besides and is not remembered."""
    changes = changes_of(todo, changed, old)
    program = Parts()
    for change in changes:
        is_all = len(changes) == 1 and len(todo) == 1
        nodes = order if is_all else below([*change.roots, *(effect.top for effect in change.effects)])[0]
        add_change(program, change, nodes, old)
    program.run_once()
    found: dict[tuple[UOp, str], UOp] = {}
    for change in changes:
        for effect, content in zip(change.effects, change.contents, strict=True):
            if not effect.in_place:
                remember(effect.top, content if content.op is ops.BUFFER else realize([content])[0])
        for node, result in zip(change.roots, change.results, strict=True):
            if node.device is None:
                found[node, change.device] = result
    return found


# ---- then everything else


def _compute_all(todo: list[tuple[UOp, str]], order: list[UOp], old: OldContents) -> dict[tuple[UOp, str], UOp]:
    """The values of nodes on their devices, where there are no effects; what is remembered is not in the result."""
    found: dict[tuple[UOp, str], UOp] = {}
    batches: dict[str, list[UOp]] = {}
    for node, name in todo:
        result = known(node)
        if result is None:
            result = without_kernel(node, name)
        if result is not None:
            keep(node, name, result, found)
        else:
            batches.setdefault(name, []).append(node)
    program = Parts()
    made: list[tuple[UOp, str, UOp]] = []
    for name, batch in batches.items():
        if is_disk(name):
            results = [compute_into_file(root, name, realize_one) for root in batch]
        else:
            nodes = order if len(batch) == len(todo) else below(batch)[0]
            results = _add_values(program, batch, nodes, name, old)
        made += zip(batch, repeat(name), results)
    program.run_once()
    for node, name, result in made:
        keep(node, name, result, found)
    return found


def _add_values(program: Parts, roots: list[UOp], order: list[UOp], device: str, old: OldContents) -> list[UOp]:
    """Adds the schedule of these roots; the BUFFERs that have their values after it."""
    part = add_schedule(program, roots, (), order, device, find_windows(order, {*old.free.values()}))
    return results_of(program, part, roots, old)
