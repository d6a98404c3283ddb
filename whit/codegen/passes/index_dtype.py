"""Index arithmetic in a fixed width.

    weakint                  ->  int64; on a GPU int32, if everything that is computed fits in it
    param 0, float32(n*8,)   ->  param 0, float32(80,)      n being at most 10: so much memory there is

A register of a CPU holds 64 bits and addresses are that wide, so nothing is gained by less; index expressions that
could exceed it were refused before (`whit.simplify.width`). A GPU computes with 32 bits at a time.
"""

from __future__ import annotations

from whit.dtype import DType, dtypes
from whit.ir import ops
from whit.ir.args import ParamArg, VariableArg
from whit.ir.graph import topological
from whit.ir.map_graph import map_graph
from whit.ir.op import Sources
from whit.ir.sizes import reach
from whit.ir.uop import UOp, const, make
from whit.simplify.bounds import bounds

LIMIT = 1 << 31


def with_room(param: UOp) -> UOp:
    """A param of a symbolic size with the largest that this can be."""
    known = tuple(size if isinstance(size, int) else reach(size)[1] for size in param.shape)
    return make(ops.PARAM, (), ParamArg(param.arg.slot, param.dtype, known, param.arg.device))


def fits_in_32_bits(body: UOp) -> bool:
    """Whether no index expression of a kernel needs more. Variables have 64."""
    for node in topological((body,)):
        if node.dtype is not dtypes.weakint:
            continue
        known = bounds(node)
        if node.op in (ops.VARIABLE, ops.CAST) or known is None or known[0] < -LIMIT or known[1] >= LIMIT:
            return False
    return True


def fix_index_dtype(body: UOp, dtype: DType = dtypes.int64) -> UOp:
    """The kernel with every index of that dtype."""

    def sized(node: UOp, src: Sources) -> UOp | None:
        is_weak = node.dtype is dtypes.weakint
        if is_weak and node.op is ops.CONST:
            return const(dtype, node.arg)
        if is_weak and node.op is ops.VARIABLE:
            return make(ops.VARIABLE, (), VariableArg(node.arg.name, node.arg.low, node.arg.high, dtypes.int64))
        if node.op is ops.BIND:
            return src[0]
        if node.op is ops.CAST:
            return src[0].cast(dtypes.int64 if is_weak else node.dtype)
        if node.op is ops.PARAM:
            return with_room(node) if node.src else node
        return None

    return map_graph(body, sized)
