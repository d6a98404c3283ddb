"""Grid-stride loops: a persistent kernel has as many blocks as a GPU runs at once, each with a loop over chunks.

store p0[block*256 + thread] over block < 10000     ->     store p0[(step*528 + block)*256 + thread]
                                                           over block < 528, step < (10000 + 527 - block) // 528

Whatever does not depend on the step, such as the weights of a norm, is read once, in front of the loop. Shared memory
is a double buffer, a half for every other step: who writes a half again has waited, in the step between, for those who
read it.
"""

from __future__ import annotations

from whit.codegen.gpu.thread_index import block_range
from whit.ir import ops
from whit.ir.args import Memory, RangeKind
from whit.ir.graph import memory_of
from whit.ir.nesting import Owner
from whit.ir.uop import UOp, make
from whit.kernel.ranges import free_ranges, size_of
from whit.target import GPU_LIMITS, Target

MOST_BLOCKS = GPU_LIMITS.launch_blocks


def stride_blocks(body: UOp, target: Target) -> UOp:
    """The kernel by blocks that stay, if it has more than can be started."""
    counted = {node.arg.kind: node for node in body.topological() if node.op is ops.RANGE}
    block, thread = counted.get(RangeKind.BLOCK), counted.get(RangeKind.THREAD)
    if block is None or thread is None or size_of(block) <= MOST_BLOCKS:
        return body
    return by_blocks_that_stay(
        body, block, min(target.cores * max(GPU_LIMITS.resident_threads // size_of(thread), 1), MOST_BLOCKS)
    )


def by_blocks_that_stay(body: UOp, block: UOp, resident: int) -> UOp:
    """The kernel as a grid-stride loop of `resident` blocks."""
    here = block_range(resident)
    step = UOp.range((size_of(block) + (resident - 1) - here) // resident, 0, owner=Owner.ROUND)
    done = {block: step * resident + here}
    free = free_ranges(body)
    refilled = {memory_of(node.src[0]) for node in free if node.op is ops.STORE and block in free[node]}
    for node in free:
        if node in done:
            continue
        src = [done[s] for s in node.src]
        if _is_shared(node) and node in refilled:
            done[node] = UOp.buffer(node.arg.id, node.dtype, (2 * node.shape[0],), memory=Memory.SHARED)
            continue
        if node.op in (ops.INDEX, ops.STORE) and _is_shared(memory := memory_of(node.src[0])) and memory in refilled:
            place = 1 if node.op is ops.INDEX else 2
            src[place] = src[place] + step % 2 * memory.shape[0]
        done[node] = node if tuple(src) == node.src else make(node.op, tuple(src), node.arg)
    return done[body]


def _is_shared(node: UOp) -> bool:
    return node.op is ops.BUFFER and node.arg.memory is Memory.SHARED
