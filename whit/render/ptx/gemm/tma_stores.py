"""Results of a tile by the copy engine (TMA): the threads of a warp group put a box into shared memory, and one of them
starts its copy to memory.

    the first thread waits until the box that was here before has been read;  then all know
    st.shared ...                                        in lines of 128 bytes, swizzled: no two threads in one bank
    the copy engine sees what was stored;  all wait
    the first thread:   cp.async.bulk.tensor             what is outside of the result is left out

Nobody waits until a copy has arrived: the next boxes go to other places in shared memory, those of the next tile are
there after its products.
"""

from __future__ import annotations

from math import prod
from typing import Any

from whit.ir import ops
from whit.ir.args import BlockMmaArg, BlockStoreArg, place_of
from whit.ir.uop import UOp
from whit.render.ptx.gemm.tma_loads import SWIZZLE_BYTES, short, stages_bytes
from whit.render.ptx.parts import pair
from whit.render.ptx.values import PtxWriter, memory_type
from whit.target import GPU_LIMITS

BOX_BYTES = 64 * SWIZZLE_BYTES  # bytes
MOST_BOXES = 2  # of a group
GROUP_THREADS = GPU_LIMITS.warp_group_threads


def results_of(linear: UOp) -> dict[tuple[UOp, BlockStoreArg], int]:
    """The results that boxes of a program are of, with their numbers."""
    found = dict.fromkeys((node.src[0], node.arg) for node in linear.src if node.op is ops.BLOCK_STORE)
    return {result: number for number, result in enumerate(found)}


def boxes_of(arg: BlockMmaArg) -> int:
    """How many boxes of each group have room beside the stages of a tile."""
    groups = arg.threads[0].count
    room = (GPU_LIMITS.most_shared_bytes if groups > 1 else GPU_LIMITS.paired_shared_bytes) - stages_bytes(arg)
    return min(room // (groups * BOX_BYTES), MOST_BOXES)


def staged_bytes(linear: UOp, arg: BlockMmaArg) -> int:
    """The bytes of all boxes of a block."""
    return boxes_of(arg) * arg.threads[0].count * BOX_BYTES if results_of(linear) else 0


def result_map(memory: UOp, arg: BlockStoreArg) -> dict[str, Any]:
    """What the copy engine has to know about a result."""
    matrix, itemsize = arg.matrix, memory.dtype.itemsize
    rows, columns = arg.sizes
    line = matrix.row * itemsize
    return {
        "slot": int(memory.arg.slot),
        "itemsize": itemsize,
        "start": matrix.start * itemsize,
        "sizes": [columns, rows, matrix.batches],
        "strides": [line, matrix.batch * itemsize or line],
        "box": [arg.box[1], arg.box[0], 1],
    }


class TmaStores:
    """Writes the stores of a program's tile, box by box."""

    def __init__(self, w: PtxWriter, tile: BlockMmaArg, thread: str, base: str) -> None:
        self.w, self.thread = w, thread
        self.base, self.count = base, boxes_of(tile)
        self.stored = 0  # boxes of the tile so far

    def store(self, node: UOp, to: str) -> None:
        """A box of each group, to a result that a tensor map describes."""
        w, arg = self.w, node.arg
        _, _, row, column, batch, *values = node.src
        place, before = self.stored % self.count, self.stored
        self.stored += 1
        group = w.value("b32", "group", "shr.u32", self.thread, "7")
        barrier = w.value("b32", "bar", "add.u32", group, "1")
        in_group = w.value("b32", "tid", "and.b32", self.thread, str(GROUP_THREADS - 1))
        first = w.value("pred", "first", "setp.eq.u32", in_group, "0")
        box = w.value("b32", "box", "mad.lo.u32", group, str(self.count * BOX_BYTES), self.base)
        box = w.value("b32", "box", "add.u32", box, str(place * BOX_BYTES)) if place else box
        if before == 0 or before >= self.count:
            w.line(f"@{first} cp.async.bulk.wait_group.read {self.count - 1 if before else 0};")
            w.line(f"bar.sync {barrier}, {GROUP_THREADS};")
        self.fill(arg, values, in_group, box)
        w.line("fence.proxy.async.shared::cta;")
        w.line(f"bar.sync {barrier}, {GROUP_THREADS};")
        row_of_group = w.value("b32", "row", "mad.lo.u32", group, str(arg.threads[0].row), short(w, row))
        where = ", ".join((short(w, column), row_of_group, short(w, batch)))
        w.line(f"@{first} cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [{to}, {{{where}}}], [{box}];")
        w.line(f"@{first} cp.async.bulk.commit_group;")

    def fill(self, arg: BlockStoreArg, values: list[UOp], thread: str, box: str) -> None:
        """What a thread has, two neighbours at a time. No two threads store into a bank, but for dtypes of four bytes.
        A value that is a number stands for a vector of it."""
        lanes = range(prod(mode.count for mode in arg.elements) // len(values))
        elements = [(value, lane) for value in values for lane in lanes]
        w, dtype = self.w, elements[0][0].dtype
        warp, lane = w.value("b32", "warp", "shr.u32", thread, "5"), w.value("b32", "lane", "and.b32", thread, "31")
        line, four = w.value("b32", "line", "shr.u32", lane, "2"), w.value("b32", "four", "and.b32", lane, "3")
        line = w.value("b32", "line", "mad.lo.u32", warp, "16", line)
        offset = w.value("b32", "at", "mul.lo.u32", line, str(SWIZZLE_BYTES))
        offset = w.value("b32", "at", "mad.lo.u32", four, str(2 * dtype.itemsize), offset)
        start = w.value("b32", "at", "add.u32", box, swizzled(w, offset))
        for number in range(0, len(elements), 2):
            down, right = place_of(number, arg.elements)
            at = w.value("b32", "at", "xor.b32", start, str(right * dtype.itemsize)) if right else start
            at = f"{at}+{down * SWIZZLE_BYTES}" if down else at
            low, high = elements[number : number + 2]
            if dtype.itemsize == 2:
                w.line(f"st.shared.b32 [{at}], {pair(w, w.operand(*low), w.operand(*high))};")
            else:
                w.line(f"st.shared.v2.{memory_type(dtype)} [{at}], {{{w.operand(*low)}, {w.operand(*high)}}};")

    def close(self) -> None:
        """Shared memory stays until the copy engine has read it."""
        self.w.line("cp.async.bulk.wait_group.read 0;")


def swizzled(w: PtxWriter, offset: str) -> str:
    """Where bytes are in lines of 128 bytes: groups of 16 change places, by the number of the line."""
    turn = w.value("b32", "turn", "and.b32", w.value("b32", "turn", "shr.u32", offset, "3"), "0x70")
    return w.value("b32", "at", "xor.b32", offset, turn)
