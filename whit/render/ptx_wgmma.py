"""Tiles of a matrix product by warp groups (Hopper's `wgmma`), with operands that the copy engine brings (TMA).

A block has the threads of the program, and a warp more, whose first thread only copies. Shared memory holds so many
stages, a piece of both operands each, and two barriers for each stage: `full` is passed when its bytes have arrived,
`empty` when all warps have read them.

    copying:    for each tile, each piece:   wait until empty;  expect its bytes at full;  start the copies
    computing:  for each tile, each piece:   wait until full;   wgmma ...;  the piece before is empty now
                                             then what the program does with the tile

The copying thread runs the program's own loop over tiles, up to where a tile is. A piece of an operand is 128 bytes
deep and lies in lines of 128 bytes, swizzled by the copy engine: a line for each row if the depth is contiguous in
memory, else a line for each step of the depth, of 64 rows at a time. The blocks of a cluster have tiles below each
other: each copies a part of their common columns to all of them, and waits until the stage is empty in all.

Where blocks share the depth of a tile, each has some of its pieces. At the end all put their sums into shared memory,
and the first of them adds what the others have, in order.

Sums of products of fp8 have about 14 bits while they are in the tensor cores. A piece of the depth, 128 of them, is
summed there, and then added to a float32 in a register, while the other group multiplies.
"""

from __future__ import annotations

from typing import Any

from whit.dtype import dtypes
from whit.ir.args import BlockMmaArg, MatrixArg
from whit.ir.uop import UOp
from whit.render.ptx_exchange import exchange, in_order_of, in_order_of_mma
from whit.render.ptx_values import Writer, register_type
from whit.render.ptx_window import copy_windows, window_map

LINE = 128  # bytes
SHARED = "tiles"  # what the memory of a block is called
COPYING = 32  # threads beside those that compute: so few that all can have the registers that a tile needs
WIDE = 128  # columns with more of which sums that are kept twice need the registers of a whole group that copies
FEW, MANY = 40, 232  # registers of a thread that copies then, and of one that computes
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
_GROUP = 8 * LINE  # bytes of eight lines, the unit of the swizzle


def tensor_map(memory: UOp, matrix: MatrixArg, rows: int, tile_rows: int, depth: int) -> dict[str, Any]:
    """What the copy engine has to know about an operand; strides are in bytes, of all axes but the first."""
    if matrix.axes:
        return window_map(memory, matrix, tile_rows)
    itemsize = memory.dtype.itemsize
    lanes = LINE // itemsize
    if matrix.is_depth_major:
        sizes, line, box = [depth, rows, matrix.batches], matrix.row * itemsize, [lanes, tile_rows, 1]
    else:
        sizes, line, box = [rows, depth, matrix.batches], matrix.depth * itemsize, [lanes, lanes, 1]
    return {
        "slot": int(memory.arg.slot),
        "itemsize": itemsize,
        "start": matrix.start * itemsize,
        "sizes": sizes,
        "strides": [line, matrix.batch * itemsize or line],
        "box": box,
    }


def tensor_maps(node: UOp) -> list[dict[str, Any]]:
    """Those of both operands."""
    arg: BlockMmaArg = node.arg
    _, a, b, *_ = node.src
    rows, columns, depth = arg.sizes
    a_map = tensor_map(a, arg.a, rows, arg.tile[0], depth)
    return [a_map, tensor_map(b, arg.b, columns, arg.tile[1] // arg.cluster, depth)]


def stage_bytes(arg: BlockMmaArg) -> int:
    """The bytes of one piece of both operands."""
    return (arg.tile[0] + arg.tile[1]) * LINE


def shared_bytes(arg: BlockMmaArg) -> int:
    """All the shared memory of a block."""
    return arg.stages * (stage_bytes(arg) + 16)


def adds_apart(node: UOp) -> bool:
    """Whether what is summed by tensor cores is added to other registers, piece by piece."""
    return node.src[1].dtype in dtypes.fp8s


def copying_threads(node: UOp) -> int:
    """Threads that copy: more than one does is only there to give its registers away."""
    return 128 if adds_apart(node) and node.arg.tile[1] > WIDE else COPYING


def blocks_of(arg: BlockMmaArg) -> int:
    """How many blocks a multiprocessor has room for."""
    return 2 // arg.threads[0].count


def kinds_of(node: UOp) -> list[str]:
    """The dtypes of the sums and of both operands, as instructions name them."""
    sums, a, b, *_ = node.src
    return ["f32" if sums.dtype.is_float else "s32", KINDS[b.dtype if node.arg.held else a.dtype], KINDS[b.dtype]]


def short(w: Writer, node: UOp) -> str:
    """A position in 32 bits."""
    text = w.operand(node)
    is_wide = text.startswith("%") and register_type(node.dtype) == "b64"
    return w.value("b32", "short", "cvt.u32.u64" if is_wide else "mov.u32", text)


class WarpGroups:
    """Writes both roles of a block."""

    def __init__(self, w: Writer, node: UOp, registers: list[str], threads: int) -> None:
        self.w, self.node, self.arg = w, node, node.arg
        self.is_exchanged = self.arg.elements[-1].count == 8
        self.registers = in_order_of_mma(registers) if self.is_exchanged else in_order_of(registers, self.arg.elements)
        self.mine, self.threads = registers, threads
        self.gives_registers = copying_threads(node) > COPYING
        self.maps = ["map_a", "map_b"]

    def parameters(self) -> list[str]:
        """The tensor maps, by value."""
        return [f".param .align 64 .b8 {name}[128]" for name in self.maps]

    def open_copying(self, waits: bool) -> None:
        """Barriers, while kernels before this one may still run; then what the copying thread runs."""
        w, arg = self.w, self.arg
        self.thread = w.value("b32", "tid", "mov.u32", "%tid.x")
        self.base = w.value("b32", "base", "mov.u32", SHARED)
        self.barriers = w.value("b32", "bars", "add.u32", self.base, str(arg.stages * stage_bytes(arg)))
        first = w.value("pred", "first", "setp.eq.u32", self.thread, "0")
        for stage in range(arg.stages):
            full, empty = (f"[{self.barriers}+{16 * stage + at}]" for at in (0, 8))
            w.line(f"@{first} mbarrier.init.shared::cta.b64 {full}, 1;")
            w.line(f"@{first} mbarrier.init.shared::cta.b64 {empty}, {self.threads // 32 * arg.cluster};")
        w.line("fence.mbarrier_init.release.cluster;")
        if arg.cluster * arg.parts > 1:
            self.rank = w.value("b32", "rank", "mov.u32", "%cluster_ctarank")
        if arg.cluster > 1:
            self.wait_for_cluster()
        else:
            w.line("bar.sync 0;")
        self.count_pieces()
        self.at = [w.value("b64", "map", "cvta.param.u64", w.value("b64", "map", "mov.b64", m)) for m in self.maps]
        if waits:
            for at in self.at:
                w.line(f"@{first} prefetch.tensormap [{at}];")
            w.line("griddepcontrol.wait;")
        computes = w.value("pred", "computes", "setp.lt.u32", self.thread, str(self.threads))
        w.line(f"@{computes} bra COMPUTING;")
        if self.gives_registers:
            w.line(f"setmaxnreg.dec.sync.aligned.u32 {FEW};")
        other = w.value("pred", "other", "setp.ne.u32", self.thread, str(self.threads))
        w.line(f"@{other} ret;")
        self.start_stages("1")

    def open_computing(self) -> None:
        """What all other threads run."""
        w = self.w
        w.line("ret;")
        w.label("COMPUTING")
        if self.gives_registers:
            w.line(f"setmaxnreg.inc.sync.aligned.u32 {MANY};")
        lane = w.value("b32", "lane", "and.b32", self.thread, "31")
        self.is_first_lane = w.value("pred", "elected", "setp.eq.u32", lane, "0")
        group = w.value("b32", "group", "shr.u32", self.thread, "7")
        rows = self.arg.tile[0] * 128 // self.threads  # of a group
        self.group_base = w.value("b32", "mine", "mad.lo.u32", group, str(rows * LINE), self.base)
        self.start_stages("0")

    def close(self) -> None:
        """No block of a cluster ends before the others are done with its barriers and its sums."""
        if self.arg.cluster * self.arg.parts > 1:
            self.wait_for_cluster()

    def wait_for_cluster(self) -> None:
        self.w.line("barrier.cluster.arrive.release;")
        self.w.line("barrier.cluster.wait.acquire;")

    # ---- stages

    def start_stages(self, parity: str) -> None:
        """The first stage; barriers that were never passed count as passed for the other parity."""
        self.stage = self.w.value("b32", "stage", "mov.u32", "0")
        self.parity = self.w.value("b32", "parity", "mov.u32", parity)

    def next_stage(self) -> None:
        w = self.w
        w.line(f"add.u32 {self.stage}, {self.stage}, 1;")
        wraps = w.value("pred", "wraps", "setp.eq.u32", self.stage, str(self.arg.stages))
        w.line(f"@{wraps} mov.u32 {self.stage}, 0;")
        w.line(f"@{wraps} xor.b32 {self.parity}, {self.parity}, 1;")

    def barrier(self) -> str:
        """The barriers of the stage."""
        return self.w.value("b32", "bar", "mad.lo.u32", self.stage, "16", self.barriers)

    def wait(self, barrier: str) -> None:
        """Until the barrier is passed."""
        w = self.w
        done = w.register("pred", "done")
        label = f"WAIT{w.count}"
        w.label(label)
        w.line(f"mbarrier.try_wait.parity.shared::cta.b64 {done}, [{barrier}], {self.parity};")
        w.line(f"@!{done} bra {label};")

    def count_pieces(self) -> None:
        """The pieces of the depth that are this block's: its first, and the one after its last."""
        w, parts = self.w, self.arg.parts
        count = -(-self.arg.sizes[2] // self.arg.tile[2])
        self.pieces = ["0", str(count)]
        if parts > 1:
            first = w.value("b32", "first", "mul.lo.u32", self.rank, str(count))
            end = w.value("b32", "end", "add.u32", first, str(count))
            self.pieces = [w.value("b32", "piece", "div.u32", place, str(parts)) for place in (first, end)]

    def open_pieces(self) -> str:
        """A loop along the depth; its counter."""
        piece = self.w.value("b32", "piece", "mov.u32", self.pieces[0])
        self.loop = f"PIECES{self.w.count}"
        self.w.label(self.loop)
        return piece

    def close_pieces(self, piece: str) -> None:
        w = self.w
        self.next_stage()
        w.line(f"add.u32 {piece}, {piece}, 1;")
        more = w.value("pred", "more", "setp.lt.u32", piece, self.pieces[1])
        w.line(f"@{more} bra {self.loop};")

    # ---- the roles

    def copy(self) -> None:
        """All pieces of a tile."""
        w, arg = self.w, self.arg
        row, column, a_batch, b_batch = (short(w, source) for source in self.node.src[4:])
        piece = self.open_pieces()
        barrier = self.barrier()
        self.wait(f"{barrier}+8")
        w.line(f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [{barrier}], {stage_bytes(arg)};")
        to = w.value("b32", "to", "mad.lo.u32", self.stage, str(stage_bytes(arg)), self.base)
        k = w.value("b32", "k", "mul.lo.u32", piece, str(arg.tile[2]))
        self.copy_rows(arg.a, self.at[0], arg.tile[0], to, row, k, a_batch, f"[{barrier}]", "")
        to = w.value("b32", "to", "add.u32", to, str(arg.tile[0] * LINE))
        rows, goes_to = arg.tile[1] // arg.cluster, f"[{barrier}]"
        if arg.cluster > 1:  # a part of the columns, for all blocks
            to = w.value("b32", "to", "mad.lo.u32", self.rank, str(rows * LINE), to)
            column = w.value("b32", "column", "mad.lo.u32", self.rank, str(rows), column)
            goes_to += f", {(1 << arg.cluster) - 1}"
        self.copy_rows(arg.b, self.at[1], rows, to, column, k, b_batch, goes_to, ".multicast::cluster")
        self.close_pieces(piece)

    def copy_rows(
        self, matrix: MatrixArg, at: str, rows: int, to: str, first: str, k: str, batch: str, goes_to: str, how: str
    ) -> None:
        """Rows of an operand from the first one on."""
        if matrix.axes:
            copy_windows(self.w, matrix, at, rows, to, first, k, batch, goes_to)
            return
        w = self.w
        how = how if "," in goes_to else ""
        instruction = f"cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes{how}"
        if matrix.is_depth_major:
            w.line(f"{instruction} [{to}], [{at}, {{{k}, {first}, {batch}}}], {goes_to};")
            return
        for chunk in range(rows // 64):
            along = w.value("b32", "row", "add.u32", first, str(64 * chunk)) if chunk else first
            w.line(f"{instruction} [{to}+{chunk * 64 * LINE}], [{at}, {{{along}, {k}, {batch}}}], {goes_to};")

    def compute(self) -> None:
        """A tile in registers."""
        if adds_apart(self.node):
            self.compute_apart()
        else:
            self.compute_in_place()
        if self.arg.parts > 1:
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
        for part in range(1, self.arg.parts):
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
        for base, matrix, offset in ((self.group_base, arg.a, 0), (self.base, arg.b, arg.tile[0] * LINE)):
            at = w.value("b32", "at", "mad.lo.u32", self.stage, str(stage_bytes(arg)), base)
            address = w.value("b32", "at", "add.u32", at, str(offset)) if offset else at
            leading = 1 if matrix.is_depth_major else 64 * LINE >> 4  # from 64 rows to the next
            line = w.value("b32", "at", "shr.u32", address, "4")
            line = w.value("b32", "at", "and.b32", line, "0x3fff")  # in a cluster addresses say which block, too
            lows.append(w.value("b32", "low", "add.u32", line, str(leading << 16)))
        return lows[0], lows[1]

    def multiply(self, registers: list[str], a: str, b: str, step: int, adds: str) -> None:
        """32 bytes of the depth, for each 64 rows."""
        w, arg = self.w, self.arg
        _, columns, depth = arg.tile
        total, left, right = kinds_of(self.node)
        turned = [0 if matrix.is_depth_major else 1 for matrix in (arg.a, arg.b)]
        steps = [(16 * LINE if turn else 32) >> 4 for turn in turned]  # from there to the next
        how = "" if total == "s32" else ", 1, 1"
        how += f", {turned[0]}, {turned[1]}" if depth == 64 else ""
        of_b = self.descriptor(b, step * steps[1])
        count = columns // 2
        for piece in range(len(registers) // count):
            of_a = self.descriptor(a, step * steps[0] + piece * (64 * LINE >> 4))
            sums = ", ".join(registers[piece * count : (piece + 1) * count])
            w.line(
                f"wgmma.mma_async.sync.aligned.m64n{columns}k{depth // 4}.{total}.{left}.{right} "
                f"{{{sums}}}, {of_a}, {of_b}, {adds}{how};"
            )

    def descriptor(self, low: str, offset: int) -> str:
        return descriptor(self.w, low, offset)


def descriptor(w: Writer, low: str, offset: int) -> str:
    """The descriptor of a matrix in swizzled lines, of its lower half and how far it is from there."""
    moved = w.value("b32", "low", "add.u32", low, str(offset)) if offset else low
    return w.value("b64", "desc", "mov.b64", f"{{{moved}, {_SWIZZLED | _GROUP >> 4}}}")
