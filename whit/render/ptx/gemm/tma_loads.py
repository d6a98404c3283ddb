"""The thread of a block that only copies: pieces of both operands of a product, by the copy engine (TMA), into stages
of shared memory. What computes is in `gemm.wgmma_tiles`.

    for each tile, each piece:   wait until empty;  expect its bytes at full;  start the copies
"""

from __future__ import annotations

from typing import Any

from whit.dtype import dtypes
from whit.ir.args import BlockMmaArg, MatrixArg
from whit.ir.uop import UOp
from whit.render.ptx.gemm.im2col import copy_windows, window_map
from whit.render.ptx.values import PtxWriter, register_type
from whit.target import GPU_LIMITS

SWIZZLE_BYTES = GPU_LIMITS.swizzle_bytes
SHARED = "tiles"  # what the memory of a block is called
COPYING_THREADS = GPU_LIMITS.warp_threads  # beside those that compute: one warp leaves the others its registers
# registers of a thread that donates some, and of one that gets them, by the number of groups that do
DONOR_REGISTERS, RECEIVER_REGISTERS = 40, {1: 216, 2: 232}


def tensor_map(memory: UOp, matrix: MatrixArg, rows: int, tile_rows: int, depth: int) -> dict[str, Any]:
    """What the copy engine has to know about an operand; strides are in bytes, of all axes but the first."""
    if matrix.axes:
        return window_map(memory, matrix, tile_rows)
    itemsize = memory.dtype.itemsize
    lanes = SWIZZLE_BYTES // itemsize
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
    return (arg.tile[0] + arg.tile[1]) * SWIZZLE_BYTES


def stages_bytes(arg: BlockMmaArg) -> int:
    """Those of all stages, and of their barriers."""
    return arg.stages * (stage_bytes(arg) + 16)


def adds_apart(node: UOp) -> bool:
    """Whether what is summed by tensor cores is added to other registers, piece by piece."""
    return node.src[1].dtype in dtypes.fp8s


def copying_threads(arg: BlockMmaArg) -> int:
    """Threads that copy: more than one does is only there to give its registers away."""
    return 128 if arg.donates_registers else COPYING_THREADS


def short(w: PtxWriter, node: UOp) -> str:
    """A position in 32 bits."""
    text = w.operand(node)
    is_wide = text.startswith("%") and register_type(node.dtype) == "b64"
    return w.value("b32", "short", "cvt.u32.u64" if is_wide else "mov.u32", text)


class Copying:
    """Writes the role of the thread that copies, and what both roles count."""

    def __init__(self, w: PtxWriter, node: UOp, threads: int, boxes: int, results: int) -> None:
        self.w, self.node, self.threads, self.boxes = w, node, threads, boxes
        self.arg: BlockMmaArg = node.arg
        self.maps = ["map_a", "map_b", *(f"map_{i}" for i in range(results))]

    def parameters(self) -> list[str]:
        """The tensor maps, by value."""
        return [f".param .align 64 .b8 {name}[128]" for name in self.maps]

    def open_copying(self, waits: bool) -> None:
        """Barriers, while kernels before this one may still run; then what the copying thread runs."""
        w, arg = self.w, self.arg
        self.thread = w.value("b32", "tid", "mov.u32", "%tid.x")
        self.base = w.value("b32", "base", "mov.u32", SHARED)
        self.box_base = w.value("b32", "boxes", "add.u32", self.base, str(arg.stages * stage_bytes(arg)))
        self.barriers = w.value("b32", "bars", "add.u32", self.box_base, str(self.boxes))
        first = w.value("pred", "first", "setp.eq.u32", self.thread, "0")
        for stage in range(arg.stages):
            full, empty = (f"[{self.barriers}+{16 * stage + at}]" for at in (0, 8))
            w.line(f"@{first} mbarrier.init.shared::cta.b64 {full}, 1;")
            w.line(f"@{first} mbarrier.init.shared::cta.b64 {empty}, {self.threads // 32 * arg.cluster};")
        w.line("fence.mbarrier_init.release.cluster;")
        if arg.cluster * arg.split_k > 1:
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
        if arg.donates_registers:
            w.line(f"setmaxnreg.dec.sync.aligned.u32 {DONOR_REGISTERS};")
        other = w.value("pred", "other", "setp.ne.u32", self.thread, str(self.threads))
        w.line(f"@{other} ret;")
        self.start_stages("1")

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
        w, split_k = self.w, self.arg.split_k
        count = -(-self.arg.sizes[2] // self.arg.tile[2])
        self.pieces = ["0", str(count)]
        if split_k > 1:
            first = w.value("b32", "first", "mul.lo.u32", self.rank, str(count))
            end = w.value("b32", "end", "add.u32", first, str(count))
            self.pieces = [w.value("b32", "piece", "div.u32", place, str(split_k)) for place in (first, end)]

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

    # ---- copies

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
        to = w.value("b32", "to", "add.u32", to, str(arg.tile[0] * SWIZZLE_BYTES))
        rows, goes_to = arg.tile[1] // arg.cluster, f"[{barrier}]"
        if arg.cluster > 1:  # a part of the columns, for all blocks
            to = w.value("b32", "to", "mad.lo.u32", self.rank, str(rows * SWIZZLE_BYTES), to)
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
            w.line(f"{instruction} [{to}+{chunk * 64 * SWIZZLE_BYTES}], [{at}, {{{along}, {k}, {batch}}}], {goes_to};")
