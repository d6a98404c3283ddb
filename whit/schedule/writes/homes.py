"""Where values lie: in the params that they are stored to, in new buffers, or in the memory that they are written over.

Goes in: the outputs and writes of a graph (`effects`). Comes out: which values to compute, and once there are kernels,
the memory of each.

    store(p0, v); store(p1, v)              v lies in p0, and its kernel stores it into p1, too
    store(p0, p1)                           a value is made of it: something other than the memory that it reads
    store(p0, after(copy of p1, ...))       the copy lies in p0 from the beginning
"""

from __future__ import annotations

from collections.abc import Iterable

from whit.ir import ops
from whit.ir.uop import UOp
from whit.records import dataclass, field
from whit.schedule.values import is_join, prod_of
from whit.schedule.writes.effects import Settled, value_order


@dataclass(slots=True)
class Homes:
    """Which params values lie in."""

    targets: dict[UOp, list[UOp]] = field(default_factory=dict)  # value -> the params that get it
    copies: dict[UOp, UOp] = field(default_factory=dict)  # copy that is written over -> the param that gets it at last
    last: dict[UOp, UOp] = field(default_factory=dict)  # memory -> the last value that is put there


def find_homes(settled: Settled) -> Homes:
    """The params of outputs."""
    found = Homes()
    for target, value in settled.outputs:
        found.last[target] = value
        if value in settled.writes and settled.take_home(value, found.copies, target):
            continue
        is_memory = value.op in (ops.PARAM, ops.BUFFER) or value in settled.writes
        if is_memory or (is_join(value) and value in found.targets):  # the parts of a join lie in one place
            found.last[target] = value = value.stage()
        if prod_of(target.shape):
            found.targets.setdefault(value, []).append(target)
    return found


def to_compute(settled: Settled, homes: Homes) -> list[UOp]:
    """The outputs, and the values that are to be stored whatever is made of them."""
    nodes = value_order([*homes.targets, *settled.writes])
    return [*homes.targets, *(node for node in nodes if node.op is ops.STAGE and prod_of(node.shape))]


def find_memory(roots: Iterable[UOp], homes: Homes, over: dict[UOp, UOp]) -> dict[UOp, UOp]:
    """The memory of every kernel's value: a param, a new buffer, or that of the value it writes over."""
    memory = {root: found[0] for root, found in homes.targets.items()} | homes.copies
    buffers = 0
    for root in roots:
        if root not in memory and root not in over:
            memory[root] = UOp.buffer(len(homes.targets) + buffers, root.dtype, root.shape)
            buffers += 1
    for write, old in over.items():  # in the order in which they happen
        memory[write] = memory.get(old, old)
    return memory
