"""Values of all threads of a block combined, through shared memory.

    x of thread 0 .. 255     ->     kept in shared memory, and all threads wait
                                    each 16 threads combine the 16 values of theirs, and keep that
                                    all threads combine the 16 results

Every thread has the result. The order is always the same, so sums are too.
"""

from __future__ import annotations

from whit.ir import ops
from whit.ir.args import Memory, RangeKind, StageArg
from whit.ir.op import Op
from whit.ir.uop import UOp, as_index, make

GROUP = 16
FIRST_ID = 20_000  # of the ranges over shared values
LEVELS = 2


def combine_threads(value: UOp, op: Op, thread: UOp, number: int) -> UOp:
    """The values of all threads combined. `number` tells the reductions of a kernel apart."""
    threads = int(thread.src[0].arg)
    id = number * LEVELS
    near = UOp.range(GROUP, FIRST_ID + id, RangeKind.REDUCE)
    far = UOp.range(threads // GROUP, FIRST_ID + id + 1, RangeKind.REDUCE)
    first = _shared(value, thread, threads, id).index(thread // GROUP * GROUP + near)
    second = _shared(first.reduce(op, ranges=(near,)), thread, threads, id + 1).index(far * GROUP)
    return second.reduce(op, ranges=(far,))


def _shared(value: UOp, thread: UOp, threads: int, id: int) -> UOp:
    """Memory that holds the value of each thread."""
    memory = UOp.buffer(id, value.dtype, (threads,), memory=Memory.SHARED)
    fill = memory.store(value, as_index(thread))
    return memory.after(make(ops.STAGE, (UOp.group(fill),), StageArg(Memory.SHARED)))
