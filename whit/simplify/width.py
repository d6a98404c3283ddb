"""Which fixed-width integer index arithmetic can be done in.

r0 in [0, 1023], r0*4096 + 7     int32
r0 in [0, 2**20], r0*4096        int64
"""

from __future__ import annotations

from whit.dtype import DType, dtypes
from whit.errors import NotSupportedError
from whit.ir.graph import topological
from whit.ir.uop import UOp
from whit.simplify.bounds import bounds


def index_dtype(root: UOp) -> DType:
    """int32 if every index value below root fits it, else int64; an error where neither does."""
    widest = dtypes.int32
    for node in topological((root,)):
        if node.dtype is not dtypes.weakint:
            continue
        reach = bounds(node)
        if reach is None or not _fits(reach, dtypes.int64):
            raise NotSupportedError(
                f"index: {node.expression()} can be as large as {reach[1] if reach else 'anything'}"
                f"{f' and as small as {reach[0]}' if reach else ''}",
                "Index arithmetic is done in int32 or int64.",
                "Use smaller sizes, or split the work.",
            )
        if not _fits(reach, dtypes.int32):
            widest = dtypes.int64
    return widest


def _fits(reach: tuple[int, int], dtype: DType) -> bool:
    return bool(dtype.min <= reach[0] and reach[1] <= dtype.max)
