"""Writes that overwrite what somebody still has to read.

A write takes over the memory of a value, so everyone who reads that value runs before it. Two things can stand against
that, and each has its remedy:

    x[1:] = x[:-1]          the write reads elements that it also writes: its sources are computed and stored first
    y = x_new + x_old       a reader of the old value needs the new one: it gets a copy of the old value

A write may read the very element that it writes, in the iteration that writes it (x += 1), and elements that it does
not write at all.
"""

from __future__ import annotations

from collections.abc import Iterable

from whit.errors import InternalError
from whit.ir import ops
from whit.ir.args import RangeKind
from whit.ir.graph import topological
from whit.ir.uop import UOp
from whit.schedule.lower import STORED
from whit.schedule.movement import flat_position
from whit.schedule.stages.choose import StoredValue, Writes, choose_stages
from whit.schedule.writes.effects import value_order
from whit.schedule.writes.footprint import footprint_of
from whit.target import ANY_CPU, Target

ONE_BY_ONE = 8  # conflicts that are solved alone, to copy as little as possible; then all that are left at once


def choose_writes(
    outputs: Iterable[UOp], over: dict[UOp, UOp], target: Target = ANY_CPU
) -> tuple[dict[UOp, StoredValue], dict[UOp, list[UOp]]]:
    """The kernels of outputs and writes, and for each write the kernels that must run before it."""
    writes = Writes(over)
    roots = list(outputs)
    for attempt in range(ONE_BY_ONE + 2 * len(over) + 1):
        kernels = choose_stages(roots, writes, target)
        if not over:
            return kernels, {}
        if _stage_own_reads(kernels, writes):
            continue
        earlier = readers(kernels, over)
        if not _break_circles(kernels, earlier, writes, attempt >= ONE_BY_ONE):
            return kernels, earlier
    raise InternalError("schedule: writes and reads of one memory cannot be put in order")


def readers(kernels: dict[UOp, StoredValue], over: dict[UOp, UOp]) -> dict[UOp, list[UOp]]:
    """For each write the kernel of the value it overwrites, and those who read that value."""
    overwriting = {old: write for write, old in over.items()}
    found: dict[UOp, list[UOp]] = {write: [old] if old in kernels else [] for write, old in over.items()}
    for root, kernel in kernels.items():
        for old in kernel.reads:
            write = overwriting.get(old)
            if write is not None and write is not root:
                found[write].append(root)
    return found


# ---- a write that reads what it overwrites


def _stage_own_reads(kernels: dict[UOp, StoredValue], writes: Writes) -> bool:
    """Marks the stores whose sources must be stored first; whether there were any."""
    found = False
    for write, old in writes.over.items():
        kernel = kernels[write]
        if old not in kernel.reads:
            continue
        for i, store in enumerate(kernel.value.src):
            if (write, i) not in writes.staged and not _is_safe(store, kernel.value.src, old):
                writes.staged[write, i] = None
                found = True
    return found


def _is_safe(store: UOp, beside: tuple[UOp, ...], old: UOp) -> bool:
    """Whether nothing that a store reads of the old value can have been overwritten in the same kernel."""
    _, _, *own = store.src
    place = tuple(own[: len(own) - store.arg.gated])
    shape = store.src[0].shape
    for node in topological(store.src[1:]):
        if not _reads(node, old):
            continue
        if node.op is not ops.INDEX:
            position: tuple[UOp, ...] = ()  # a scalar: its only element
        else:
            position = node.src[1 : len(node.src) - bool(node.arg)]
        if _is_ordered(store):
            return False
        if flat_position(position, shape) is flat_position(place, shape):
            continue
        footprint = footprint_of(position)
        places = [other.src[2 : len(other.src) - other.arg.gated] for other in beside]
        if not all(footprint.is_apart(footprint_of(p)) for p in places):
            return False
    return True


def _reads(node: UOp, old: UOp) -> bool:
    """Whether a node of a kernel is a read of the memory of this value."""
    if node.op is ops.INDEX:
        return _is_memory(node.src[0], old)
    return not old.shape and _is_memory(node, old)


def _is_memory(node: UOp, old: UOp) -> bool:
    return node is old or (node.op is ops.FUNCTION and node.arg == STORED and node.src[0] is old)


def _is_ordered(store: UOp) -> bool:
    """Whether a store may go to one place twice."""
    return any(node.op is ops.RANGE and node.arg.kind is RangeKind.ORDERED for node in store.topological())


# ---- circles


def _break_circles(
    kernels: dict[UOp, StoredValue], earlier: dict[UOp, list[UOp]], writes: Writes, everywhere: bool
) -> bool:
    """Marks what to keep or copy so that the kernels can be put in order; whether there was anything."""
    needs = {root: {r for r in kernel.reads if r in kernels} for root, kernel in kernels.items()}
    stuck = in_circles({root: needs[root] | set(earlier.get(root, ())) for root in kernels})
    found = False
    for write, old in writes.over.items():
        for reader in earlier[write] if write in stuck else ():
            if reader not in stuck or reader is old:
                continue
            found = True
            _let_apart(reader, old, writes)
            if not everywhere:
                return True
    if stuck and not found:
        raise InternalError("schedule: kernels need each other in a circle")
    return found


def _let_apart(reader: UOp, old: UOp, writes: Writes) -> None:
    """Marks what makes a reader of an old value independent of when that is overwritten."""
    if reader in writes.over and _store_sources(reader, old, writes):
        return
    if old in writes.saved:
        raise InternalError("schedule: a copy of an old value is needed before it can be made", old.short())
    writes.saved[old] = old.stage()


def _store_sources(write: UOp, old: UOp, writes: Writes) -> bool:
    """Marks the stores of a write that read an old value, so that their sources are computed before."""
    found = False
    for i, store in enumerate(write.src[1:]):
        if (write, i) not in writes.staged and old in value_order(store.src[1:]):
            writes.staged[write, i] = None
            found = True
    return found


def in_circles(needs: dict[UOp, set[UOp]]) -> set[UOp]:
    """What is left when everything is taken away whose needs are met."""
    users: dict[UOp, list[UOp]] = {}
    waiting = {root: len(sources - {root}) for root, sources in needs.items()}
    for root, sources in needs.items():
        for s in sources:
            if s is not root:
                users.setdefault(s, []).append(root)
    ready = [root for root, count in waiting.items() if not count]
    left = set(needs)
    while ready:
        root = ready.pop()
        left.discard(root)
        for user in users.get(root, ()):
            waiting[user] -= 1
            if not waiting[user]:
                ready.append(user)
    return left
