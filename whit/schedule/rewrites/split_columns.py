"""Sums of columns in two steps, for GPUs.

    sum of (128, 56, 56, 64) over all but the last  ->  sum over 256 of stored( sum of 1568 rows for each of 256, 64 )

A kernel gives 32 neighbouring results to a block, so that its threads read neighbours: 64 results are two blocks, on a
chip with room for hundreds. So the outermost axes of a long reduction to few columns are cut, and the parts are stored.
The statistics of a batch norm and the gradients of scales and biases are such sums.
"""

from __future__ import annotations

from whit.ir import ops
from whit.ir.rules import Rules, function_rule
from whit.ir.uop import UOp
from whit.schedule.rewrites.split_reduce import in_parts
from whit.schedule.values import is_contraction, is_serial, prod_of

ENOUGH_RESULTS = 1 << 14  # results, of which each 32 have a block
LEAST_PART_ELEMENTS = 512  # elements of a part, for each of its results
FEWEST_PARTS = 4  # parts that are worth a kernel


@function_rule(ops.REDUCE)
def split_columns_of_few(node: UOp) -> UOp | None:
    """reduce over (n, m) -> reduce over parts of stage of reduce over (n / parts, m)"""
    value, axes = node.src[0], node.arg.axes
    if len(node.src) > 1 or not all(isinstance(size, int) for size in value.shape):
        return None
    first = next((axis for axis, size in enumerate(value.shape) if size != 1), -1)
    results = prod_of(node.shape)
    if first not in axes or not 1 < results < ENOUGH_RESULTS or is_serial(node) or is_contraction(node):
        return None
    count = next((i for i in range(len(value.shape)) if i not in axes), len(value.shape))
    if count == len(axes):  # they are the outermost: one axis of rows
        value = value.reshape((prod_of(value.shape[:count]), *value.shape[count:]))
        node, first = value.reduce(node.arg.op, (0,)), 0
    most = min(ENOUGH_RESULTS // results, prod_of(value.shape) // (results * LEAST_PART_ELEMENTS))
    parts = _most_parts(value.shape[first], most)
    return None if parts is None else in_parts(value, first, parts, node)


def _most_parts(size: int, most: int) -> int | None:
    """The largest number of equal parts of an axis, at most `most`; None if there are too few to be worth it."""
    return next((n for n in range(min(most, size), FEWEST_PARTS - 1, -1) if size % n == 0), None)


SPLIT_COLUMNS = Rules("split_columns", (split_columns_of_few,))
