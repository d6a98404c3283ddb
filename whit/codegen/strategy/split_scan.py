"""A scan with its lanes along the range that it runs over.

    scan add over r of x[r]          ->    v = x[o*8 + lane], scanned in the register: three shuffles and additions
                                           scan add over o of v[7], without the element itself: what came before
                                           the sum of both

Where the size of the range is no multiple of the width, the lanes past its end are masked; they come last, so what they
hold reaches nobody.
"""

from __future__ import annotations

from whit.codegen.cpu.loops import LoopStrategy
from whit.codegen.passes.lanes import lane_numbers, masked
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.map_graph import map_graph
from whit.ir.op import Op, Sources
from whit.ir.uop import UOp, const, make


def split_scan(body: UOp, strategy: LoopStrategy) -> UOp:
    """The kernel with its scanned range in vectors, if the strategy asks for it; its order names the new range."""
    scanned = {node.src[1] for node in topological((body,)) if node.op is ops.SCAN}
    along = next((r for r in scanned if r in strategy.lanes), None)
    if along is None:
        return body
    width, size = strategy.lanes.pop(along), along.size
    block = along.resized(-(-size // width))
    lanes = lane_numbers(width)

    def in_vectors(node: UOp, src: Sources) -> UOp | None:
        return _in_vectors(src[0], block, node.arg.op, width) if node.op is ops.SCAN else None

    result = map_graph(body, in_vectors, {along: block * width + lanes})
    strategy.order[strategy.order.index(along)] = block
    is_whole = isinstance(size, int) and size % width == 0
    return result if is_whole else masked(result, lanes < (size - block * width))


def _in_vectors(value: UOp, block: UOp, op: Op, width: int) -> UOp:
    """The scan of a vector, and what came before it."""
    identity = const(value.dtype, op.identity(value.dtype))  # type: ignore[misc]
    start = UOp.stack(*([identity] * width))
    vector = value if value.shape else UOp.stack(*([value] * width))
    step = 1
    while step < width:
        moved = tuple(width if lane < step else lane - step for lane in range(width))
        vector = make(op, (make(ops.SHUFFLE, (vector, start), moved), vector))
        step *= 2
    before = vector.index(width - 1).scan(op, range=block, exclusive=True)
    return make(op, (before, vector))
