"""Matrices in memory, by the positions of their elements.

x[b*6000 + r*100 + c + 8], rows r, columns c, batch b    ->    start 8, 100 from row to row, 6000 between batches
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from whit.dtype import DType
from whit.ir import ops
from whit.ir.args import MatrixArg, Mode
from whit.ir.uop import UOp, as_index
from whit.kernel.ranges import size_of
from whit.simplify.sums import linear_form
from whit.target import Target


@dataclass(frozen=True, slots=True)
class Operand:
    """A matrix in memory."""

    memory: UOp
    matrix: MatrixArg
    batch: UOp  # which of its matrices


def matrix_at(
    memory: UOp, position: UOp, rows: list[UOp], along: list[UOp], batches: list[UOp], target: Target
) -> Operand | None:
    """The matrix whose elements are at a position with a stride along everything, 1 along rows or the depth."""
    terms, start = linear_form(position)
    if any(base.op is not ops.RANGE or step < 0 for base, step in terms.items()):
        return None
    row, depth = _as_one(terms, rows), _as_one(terms, along)
    if row is None or depth is None or 1 not in (row, depth) or not row or not depth:
        return None
    if not set(terms) <= {*rows, *along, *batches}:
        return None
    steps = {r: terms[r] for r in batches if r in terms}
    unit = gcd(*steps.values()) if steps else 0
    batch, count = as_index(0), 1
    for r, step in steps.items():
        batch = batch + r * (step // unit)
        count += (size_of(r) - 1) * (step // unit)
    matrix = MatrixArg(start, row, depth, unit, count, _copied(memory.dtype, start, row * depth, unit, target))
    return Operand(memory, matrix, batch)


def _as_one(terms: dict[UOp, int], ranges: list[UOp]) -> int | None:
    """The stride along several ranges that are walked as one."""
    step = terms.get(ranges[-1], 0)
    after = step
    for r in reversed(ranges):
        if terms.get(r, 0) != after:
            return None
        after *= size_of(r)
    return step


def _copied(dtype: DType, start: int, line: int, batch: int, target: Target) -> int:
    """How many neighbouring bytes are certainly aligned: 16, 8, 4, or one element."""
    parts = gcd(start, line, batch) * dtype.itemsize
    return max(dtype.itemsize, min(gcd(parts, 16), target.vector_bytes))


def first_place(thread: UOp, modes: tuple[Mode, ...]) -> tuple[UOp, UOp]:
    """How far the first element of a thread is from the tile's."""
    row, column, after = as_index(0), as_index(0), 1
    for mode in reversed(modes):
        value = thread // after % mode.count
        row, column, after = row + value * mode.row, column + value * mode.column, after * mode.count
    return row, column
