"""Tiles of a matrix product by warp groups (Hopper's `wgmma`), with operands that the copy engine brings (TMA).

A block has the threads of the program, and a warp more, whose first thread only copies (warp specialisation). Shared
memory holds `stages` pieces of both operands, and two barriers for each: `full` is passed when its
bytes have arrived, `empty` when all warps have read them.

    copying:    for each tile, each piece:   wait until empty;  expect its bytes at full;  start the copies
    computing:  for each tile, each piece:   wait until full;   wgmma ...;  the piece before is empty now
                                             then what the program does with the tile (`gemm.tma_stores`: its stores)

The copying thread runs the program's own loop over tiles, up to where a tile is. A piece of an operand is 128 bytes
deep and lies in lines of 128 bytes, swizzled by the copy engine: a line for each row if the depth is contiguous in
memory, else a line for each step of the depth, of 64 rows at a time. The blocks of a cluster have tiles below each
other: each copies a part of their common columns to all of them, and waits until the stage is empty in all.

Where blocks share the depth of a tile (split-k), each has some of its pieces. At the end all put their sums into shared
memory, and the first of them adds what the others have, in order.

Sums of products of fp8 have about 14 bits while they are in the tensor cores. A piece of the depth, 128 of them, is
summed there, and then added to a float32 in a register, while the other group multiplies.
"""

from __future__ import annotations

from whit.dtype import dtypes
from whit.ir.uop import UOp
from whit.render.ptx.gemm.exchange import exchange, in_order_of, in_order_of_mma
from whit.render.ptx.gemm.tma_loads import RECEIVER_REGISTERS, SWIZZLE_BYTES, Copying, adds_apart, stage_bytes
from whit.render.ptx.gemm.tma_stores import TmaStores, results_of, staged_bytes
from whit.render.ptx.values import PtxWriter

KINDS = {
    dtypes.float16: "f16",
    dtypes.bfloat16: "bf16",
    dtypes.uint32: "tf32",
    dtypes.fp8e4m3: "e4m3",
    dtypes.fp8e5m2: "e5m2",
    dtypes.int8: "s8",
    dtypes.uint8: "u8",
}
_SWIZZLED = 1 << 30  # in the upper half of a matrix descriptor: lines of 128 bytes
_GROUP = 8 * SWIZZLE_BYTES  # bytes of eight lines, the unit of the swizzle


def kinds_of(node: UOp) -> list[str]:
    """The dtypes of the sums and of both operands, as instructions name them."""
    sums, a, b, *_ = node.src
    of_a = b if node.arg.a_in_registers else a
    return ["f32" if sums.dtype.is_float else "s32", KINDS[of_a.dtype], KINDS[b.dtype]]


class WarpGroups(Copying):
    """Writes both roles of a block."""

    def __init__(self, w: PtxWriter, linear: UOp, node: UOp, registers: list[str], threads: int) -> None:
        self.results = results_of(linear)
        super().__init__(w, node, threads, staged_bytes(linear, node.arg), len(self.results))
        self.is_exchanged = self.arg.elements[-1].count == 8
        self.registers = in_order_of_mma(registers) if self.is_exchanged else in_order_of(registers, self.arg.elements)
        self.mine = registers

    def open_computing(self) -> None:
        """What all other threads run."""
        w = self.w
        w.line("ret;")
        w.label("COMPUTING")
        if self.arg.donates_registers:
            w.line(f"setmaxnreg.inc.sync.aligned.u32 {RECEIVER_REGISTERS[self.arg.threads[0].count]};")
        lane = w.value("b32", "lane", "and.b32", self.thread, "31")
        self.is_first_lane = w.value("pred", "elected", "setp.eq.u32", lane, "0")
        group = w.value("b32", "group", "shr.u32", self.thread, "7")
        rows = self.arg.tile[0] * 128 // self.threads  # of a group
        self.group_base = w.value("b32", "mine", "mad.lo.u32", group, str(rows * SWIZZLE_BYTES), self.base)
        self.start_stages("0")
        self.stores = TmaStores(w, self.arg, self.thread, self.box_base)

    def store(self, node: UOp) -> None:
        """A part of the tile goes to memory."""
        self.stores.store(node, self.at[2 + self.results[node.src[0], node.arg]])

    def close(self) -> None:
        """No block ends before its boxes are read, none of a cluster before the others are done with its barriers and
        its sums."""
        if self.results:
            self.stores.close()
        if self.arg.cluster * self.arg.split_k > 1:
            self.wait_for_cluster()

    def compute(self) -> None:
        """A tile in registers."""
        if adds_apart(self.node):
            self.compute_apart()
        else:
            self.compute_in_place()
        if self.arg.split_k > 1:
            self.add_parts()
        if self.is_exchanged:
            exchange(self.w, self.mine)

    def add_parts(self) -> None:
        """The sums of all blocks that share a tile, in the first of them."""
        w, step = self.w, 4 * self.threads
        w.line(f"bar.sync 1, {self.threads};")  # all stages have been read
        at = w.value("b32", "at", "mad.lo.u32", self.thread, "4", self.base)
        for i, register in enumerate(self.mine):
            w.line(f"st.shared.f32 [{at}+{i * step}], {register};")
        self.wait_for_cluster()
        other = w.value("pred", "other", "setp.ne.u32", self.rank, "0")
        label = f"ADDED{w.count}"
        w.line(f"@{other} bra {label};")
        for part in range(1, self.arg.split_k):
            there = w.value("b32", "there", "mapa.shared::cluster.u32", at, str(part))
            found = [w.register("f32", "part") for _ in self.mine]
            for i, register in enumerate(found):
                w.line(f"ld.shared::cluster.f32 {register}, [{there}+{i * step}];")
            for total, register in zip(self.mine, found, strict=True):
                w.line(f"add.rn.f32 {total}, {total}, {register};")
        w.label(label)

    def compute_in_place(self) -> None:
        """Pieces one after another, two of them at a time."""
        w = self.w
        true = w.value("pred", "true", "setp.eq.u32", self.stage, self.stage)
        before = w.value("b32", "before", "mov.u32", "0")
        piece = self.open_pieces()
        later = w.value("pred", "later", "setp.ne.u32", piece, self.pieces[0])
        barrier = self.barrier()
        self.wait(barrier)
        a, b = self.descriptors()
        w.line("wgmma.fence.sync.aligned;")
        for step in range(4):
            self.multiply(self.registers, a, b, step, later if step == 0 else true)
        w.line("wgmma.commit_group.sync.aligned;")
        w.line("wgmma.wait_group.sync.aligned 1;")
        self.release(before, w.value("pred", "release", "and.pred", later, self.is_first_lane))
        w.line(f"add.u32 {before}, {barrier}, 8;")
        self.close_pieces(piece)
        w.line("wgmma.wait_group.sync.aligned 0;")
        self.release(before, self.is_first_lane)

    def compute_apart(self) -> None:
        """Each piece by itself, then added to the sums."""
        w = self.w
        true, false = (w.value("pred", "adds", f"setp.{test}.u32", self.stage, self.stage) for test in ("eq", "ne"))
        parts = [w.register("f32", "part") for _ in self.registers]
        for register in self.registers:
            w.line(f"mov.b32 {register}, 0;")
        piece = self.open_pieces()
        barrier = self.barrier()
        self.wait(barrier)
        a, b = self.descriptors()
        w.line("wgmma.fence.sync.aligned;")
        for step in range(4):
            self.multiply(parts, a, b, step, true if step else false)
        w.line("wgmma.commit_group.sync.aligned;")
        w.line("wgmma.wait_group.sync.aligned 0;")
        self.release(w.value("b32", "bar", "add.u32", barrier, "8"), self.is_first_lane)
        for total, part in zip(self.registers, parts, strict=True):
            w.line(f"add.rn.f32 {total}, {total}, {part};")
        self.close_pieces(piece)

    def release(self, barrier: str, test: str) -> None:
        """A stage is empty for this warp: says so to all who copy into it."""
        w = self.w
        if self.arg.cluster == 1:
            w.line(f"@{test} mbarrier.arrive.shared::cta.b64 _, [{barrier}];")
            return
        for block in range(self.arg.cluster):
            there = w.value("b32", "there", "mapa.shared::cluster.u32", barrier, str(block))
            w.line(f"@{test} mbarrier.arrive.shared::cluster.b64 _, [{there}];")

    def descriptors(self) -> tuple[str, str]:
        """The lower halves of the descriptors of both operands in the stage."""
        w, arg = self.w, self.arg
        lows = []
        for base, matrix, offset in ((self.group_base, arg.a, 0), (self.base, arg.b, arg.tile[0] * SWIZZLE_BYTES)):
            at = w.value("b32", "at", "mad.lo.u32", self.stage, str(stage_bytes(arg)), base)
            address = w.value("b32", "at", "add.u32", at, str(offset)) if offset else at
            leading = 1 if matrix.is_depth_major else 64 * SWIZZLE_BYTES >> 4  # from 64 rows to the next
            line = w.value("b32", "at", "shr.u32", address, "4")
            line = w.value("b32", "at", "and.b32", line, "0x3fff")  # in a cluster addresses say which block, too
            lows.append(w.value("b32", "low", "add.u32", line, str(leading << 16)))
        return lows[0], lows[1]

    def multiply(self, registers: list[str], a: str, b: str, step: int, adds: str) -> None:
        """32 bytes of the depth, for each 64 rows."""
        w, arg = self.w, self.arg
        _, columns, depth = arg.tile
        total, left, right = kinds_of(self.node)
        transposed = [0 if matrix.is_depth_major else 1 for matrix in (arg.a, arg.b)]
        # from there to the next
        steps = [(16 * SWIZZLE_BYTES if is_transposed else 32) >> 4 for is_transposed in transposed]
        how = "" if total == "s32" else ", 1, 1"
        how += f", {transposed[0]}, {transposed[1]}" if depth == 64 else ""
        of_b = self.descriptor(b, step * steps[1])
        count = columns // 2
        for piece in range(len(registers) // count):
            of_a = self.descriptor(a, step * steps[0] + piece * (64 * SWIZZLE_BYTES >> 4))
            sums = ", ".join(registers[piece * count : (piece + 1) * count])
            w.line(
                f"wgmma.mma_async.sync.aligned.m64n{columns}k{depth // 4}.{total}.{left}.{right} "
                f"{{{sums}}}, {of_a}, {of_b}, {adds}{how};"
            )

    def descriptor(self, low: str, offset: int) -> str:
        return descriptor(self.w, low, offset)


def descriptor(w: PtxWriter, low: str, offset: int) -> str:
    """The descriptor of a matrix in swizzled lines, of its lower half and how far it is from there."""
    moved = w.value("b32", "low", "add.u32", low, str(offset)) if offset else low
    return w.value("b64", "desc", "mov.b64", f"{{{moved}, {_SWIZZLED | _GROUP >> 4}}}")
