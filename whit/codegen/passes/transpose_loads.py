"""Gathers that together read whole rows become row loads and a transpose in registers.

    for t in 0..3: load p0 at x + t + (0, n, 2n, 3n)
    ->  four loads of 4 neighbours, at x, x + n, x + 2n, x + 3n, and 8 shuffles

A transposed read walks down a column with every vector. Sixteen such vectors side by side read sixteen rows of one
cache line each; loading the lines as they lie touches each once, whatever the stride does to the cache. Rows may also
end at an edge, and be the last one from there on: lanes min((0, 1, 2, 3), m - 1) instead of (0, 1, 2, 3).
"""

from __future__ import annotations

from whit.codegen.passes.vector_access import is_count, stacks_of
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.uop import UOp, make
from whit.simplify.sums import build_sum, linear_form

Key = tuple[UOp, UOp, UOp, int, int]  # buffer, position without constant and lanes, lanes, their stride, width


def transpose_loads(body: UOp) -> UOp:
    """The kernel with every complete square of gathers loaded by rows."""
    squares: dict[Key, dict[int, UOp]] = {}
    for node in topological((body,)):
        found = _column(node)
        if found is not None:
            key, offset = found
            squares.setdefault(key, {})[offset] = node
    replaced: dict[UOp, UOp] = {}
    for (buffer, base, lanes, stride, width), columns in squares.items():
        for start in sorted(columns):
            wanted = [columns.get(start + t) for t in range(width)]
            if any(load is None or load in replaced for load in wanted):
                continue
            rows = [buffer.load(base + (_lane(lanes, i) * stride + start), width) for i in range(width)]
            for load, vector in zip(wanted, transpose(rows), strict=True):
                assert load is not None, "all loads of a square were found above"
                replaced[load] = vector
    return body.substitute(replaced)


def _column(node: UOp) -> tuple[Key, int] | None:
    """What a gather reads: buffer, base, lanes, stride, width; and the constant in its position."""
    if node.op is not ops.LOAD or len(node.src) != 2 or not node.src[1].shape:
        return None
    buffer, position = node.src
    terms, offset = linear_form(position)
    vectors = [base for base in terms if base.shape]
    if len(vectors) != 1 or not stacks_of(vectors[0]) or position.dtype is not dtypes.weakint:
        return None
    width, stride = position.shape[0], terms[vectors[0]]
    if width & (width - 1) or (is_count(vectors[0]) and stride < width):
        return None
    base = build_sum({b: c for b, c in terms.items() if not b.shape}, 0, dtypes.weakint)
    return (buffer, base, vectors[0], stride, width), offset


def _lane(vector: UOp, lane: int) -> UOp:
    """What one of the lanes of a vector is."""
    return vector.substitute({stack: stack.src[lane] for stack in stacks_of(vector)})


def transpose(rows: list[UOp]) -> list[UOp]:
    """The columns of a square of vectors, by log2(n) rounds of shuffles of pairs.

    Round k swaps bit k of the row number with bit k of the lane number; after all rounds they are exchanged.
    """
    count = len(rows)
    bit = 1
    while bit < count:
        swapped = list(rows)
        keep = tuple(lane if not lane & bit else count + (lane & ~bit) for lane in range(count))
        move = tuple(lane | bit if not lane & bit else count + lane for lane in range(count))
        for i in range(count):
            if i & bit:
                continue
            low, high = rows[i], rows[i | bit]
            swapped[i] = make(ops.SHUFFLE, (low, high), keep)
            swapped[i | bit] = make(ops.SHUFFLE, (low, high), move)
        rows = swapped
        bit *= 2
    return rows
