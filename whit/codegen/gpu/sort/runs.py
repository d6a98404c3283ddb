"""Pieces of rows that the blocks of a GPU put in order: their numbers, how long they are, what is written of them."""

from __future__ import annotations

from whit.codegen.cpu.sort import SortJob
from whit.dtype import DType, dtypes
from whit.ir import ops
from whit.ir.uop import UOp, const, make

EIGHT = 8  # elements of a thread
I32, I64, U16 = dtypes.int32, dtypes.int64, dtypes.uint16


class Pieces:
    """The pieces of a job, and shared memory of a block."""

    def __init__(self, job: SortJob) -> None:
        self.job, self.w = job, job.w
        self.count = job.row_count * job.pieces
        self.memories: list[UOp] = []

    def row(self, number: UOp) -> dict[UOp, UOp]:
        """The ranges of the rows for the row of a piece."""
        return self.job.row(number // self.job.pieces if self.job.pieces > 1 else number)

    def first(self, number: UOp) -> UOp:
        """Where a piece begins."""
        return self.w.value(number % self.job.pieces * self.job.piece) if self.job.pieces > 1 else const(I64, 0)

    def length(self, first: UOp) -> UOp:
        """How many elements a piece has."""
        if self.job.size % self.job.piece == 0:
            return const(I32, self.job.piece)
        return self.w.value((const(I64, self.job.size) - first).minimum(self.job.piece).cast(I32))

    def kept(self, length: UOp) -> UOp:
        """How many of them are written."""
        return length if self.job.pieces > 1 else const(I32, self.job.arg.count)

    def shared(self, dtype: DType, size: int) -> UOp:
        """Shared memory."""
        self.memories.append(self.w.buffer(dtype, size))
        return self.memories[-1]

    def wait(self) -> None:
        """All threads wait for what others have put there."""
        last = tuple(self.w.last_store[memory] for memory in self.memories if memory in self.w.last_store)
        self.w.effect(make(ops.BARRIER, last), *self.memories)
