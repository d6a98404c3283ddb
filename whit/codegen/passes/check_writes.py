"""Proves that a program writes what its kernel says, as often as it says, and reads no register that it has not
written; the setting VERIFY turns it on.

    r0 < 17; store p0, x, r0           ->   o < 2: store p0, (x, ...), o*8      places 0 .. 15: the one at 16 is missing
    r0 < 5; store p0, 1, 2, combine    ->   store p0, 1, 2, combine             once instead of five times
    sum over r1                        ->   load acc ... store acc              read before it is cleared

Goes in: the kernel and the LINEAR that was made of it. All values of the ranges are tried, in both, independently: the
kernel by its ranges, the program by its loops, conditions, masks and vectors. A plain store may come to a place more
often than the kernel says; one that combines may not. Where data decides the place, only how often is compared.

Left out is what takes too many values, symbolic sizes, and what writes with other instructions than stores (tiles of
matrices, sorts); on GPUs also scatters, which blocks share out by what they find.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from whit.codegen.passes.check_bounds import Access, accesses, all_points, as_lanes, conditions, inputs_of, values_at
from whit.codegen.passes.flatten import flat_param, flat_position
from whit.dtype import dtypes
from whit.errors import InternalError
from whit.ir import ops
from whit.ir.args import Memory
from whit.ir.graph import topological
from whit.ir.uop import UOp, const
from whit.kernel.ranges import free_ranges, in_order

MOST_POINTS = 1 << 14  # values of ranges that are tried for one access
MOST_PLACES = 1 << 18  # elements of a memory that are counted
OTHER_WRITES = (ops.BLOCK_STORE, ops.BLOCK_MMA, ops.SORT, ops.STAGE)


@dataclass(slots=True)
class Writes:
    """What happens to one memory: how often each place is written, and how often in all."""

    places: Any  # array of counts; None where data decides
    times: int = 0
    combines: bool = False
    accesses: list[Access] = field(default_factory=list)


def check_writes(body: UOp, linear: UOp, name: str = "kernel", is_gpu: bool = False) -> None:
    """Raises if the program writes other places than the kernel, or in other numbers, or reads before it writes."""
    _check_own_memory(linear, name)
    if any(node.op in OTHER_WRITES for node in topological((body, linear))):
        return
    wanted, found = _writes(_stores_of_kernel(body)), _writes(_stores_of_program(linear))
    if wanted is None or found is None:
        return
    for slot, writes in wanted.items():
        if slot in found and not (writes.combines and is_gpu):
            _compare(name, slot, writes, found[slot])
        elif slot not in found and writes.times:
            raise _broken(name, f"never writes param {slot}", writes)


def _compare(name: str, slot: int, wanted: Writes, found: Writes) -> None:
    if wanted.places is None or found.places is None:
        if wanted.combines and wanted.times != found.times:
            raise _broken(name, f"writes param {slot} {found.times} times instead of {wanted.times}", found)
        return
    if not wanted.combines:
        wanted.places, found.places = wanted.places > 0, found.places > 0
    if (bad := np.flatnonzero(wanted.places != found.places)).size:
        place = int(bad[0])
        counts = f"{int(found.places[place])} times instead of {int(wanted.places[place])}"
        raise _broken(name, f"writes place {place} of param {slot} {counts}, and {bad.size - 1} others wrongly", found)


def _broken(name: str, what: str, writes: Writes) -> InternalError:
    shown = "\n".join(access.node.short() for access in writes.accesses[:4])
    return InternalError(f"check_writes: {name} {what}", shown, "A pass has lost or repeated an effect.")


def _stores_of_kernel(body: UOp) -> list[Access]:
    """The stores of a kernel, each inside of all ranges that it has."""
    free = free_ranges(body)
    found: list[Access] = []
    for store in topological((body,)):
        if store.op is ops.STORE:
            memory, _, *position = store.src
            gate = position.pop() if store.arg.gated else None
            place = flat_position(memory.shape, tuple(position[: len(memory.shape)]))
            found.append(Access(store, flat_param(memory), place, gate, 1, tuple(in_order(free[store]))))
    return found


def _stores_of_program(linear: UOp) -> list[Access]:
    return [a for a in accesses(linear) if a.node.op is ops.STORE and a.memory.op is ops.PARAM]


def _writes(stores: list[Access]) -> dict[int, Writes] | None:
    """What stores do to each param; None if that is too much to try."""
    found: dict[int, Writes] = {}
    for access in stores:
        size = prod(access.memory.shape) if all(isinstance(n, int) for n in access.memory.shape) else None
        times = None if size is None or size > MOST_PLACES else _times(access)
        if times is None or size is None:
            return None
        writes = found.setdefault(access.memory.arg.slot, Writes(np.zeros(size, np.int64)))
        writes.accesses.append(access)
        writes.combines |= access.node.arg.combine is not None
        writes.times += times
        places = _places(access)
        if places is None or writes.places is None:
            writes.places = None
        else:
            writes.places += np.bincount(places[0], minlength=size)[:size] * places[1]
    return found


def _is_small(access: Access) -> bool:
    count = 1
    for block in access.blocks:
        if block.op is ops.RANGE:
            size = block.src[0]
            count *= int(size.arg) if size.op is ops.CONST else 2
    return count <= MOST_POINTS and not any(node.op is ops.VARIABLE for node in topological((access.position,)))


def _times(access: Access) -> int | None:
    """How often a store happens, its lanes counted; None if that is too much to try, or data decides."""
    lanes = access.position.shape[0] if access.position.shape else access.width
    found = _places(replace(access, position=const(dtypes.int64, 0), width=1), lanes)
    return None if found is None else int(found[0].size) * found[1]


def _places(access: Access, lanes: int = 1) -> tuple[Any, int] | None:
    """The places that an access comes to, one after the other, and how often all of that happens."""
    if not _is_small(access):
        return None
    inputs = inputs_of(access)
    points = None if inputs is None else all_points(access)
    if inputs is None or points is None:
        return None
    count = len(next(iter(points.values()))) if points else 1
    loops = [block for block in access.blocks if block.op is ops.RANGE and block not in inputs]
    with np.errstate(all="ignore"):
        position = as_lanes(values_at(access.position, points), access.position)
        position = position + np.arange(access.width) if access.width > 1 else position
        shape = np.broadcast_shapes(position.shape, (count, lanes))
        happens = np.ones(shape, np.bool_)
        for condition in conditions(access):
            happens = happens & np.asarray(as_lanes(values_at(condition, points), condition), np.bool_)
    positions = np.broadcast_to(position, happens.shape)[happens]
    return positions.astype(np.int64), prod(int(loop.src[0].arg) for loop in loops)


# ---- registers


def _check_own_memory(linear: UOp, name: str) -> None:
    """Nothing is read of registers that no store before has written. Panels are left out: tiles read rows past their
    ends, for results that nobody stores."""
    mine = {node for node in linear.src if node.op is ops.BUFFER and node.arg.memory is Memory.REGISTER}
    for node in linear.src:  # what other instructions fill is theirs to check
        if node.op not in (ops.LOAD, ops.STORE, ops.AFTER, ops.BARRIER, ops.END):
            mine -= {source.src[0] if source.op is ops.AFTER else source for source in node.src}
    written: dict[UOp, Any] = {}
    for access in accesses(linear):
        memory = access.memory
        if memory not in mine:
            continue
        places = _places(access)
        if places is None:
            mine.discard(memory)
            continue
        known = written.setdefault(memory, np.zeros(prod(memory.shape), np.bool_))
        if access.node.op is ops.STORE:
            known[places[0]] = True
            continue
        if not known[places[0]].all():
            place = int(places[0][~known[places[0]]][0])
            raise InternalError(
                f"check_writes: {name} reads place {place} of {memory.short()}, which nothing has written",
                access.node.short(),
                "A pass has lost a store, or has put it behind the load.",
            )
