"""Products of tiles that the program has put into shared memory, by a warp group (Hopper's `wgmma`).

    registers += a * b      a: 64 rows of a tile in swizzled lines, or what another product left in registers;
                            b: a tile in swizzled lines, a line for each row or for each step of the depth

Lines are 128 bytes long, all lines of a tile for its first 128 bytes before those for the next.
"""

from __future__ import annotations

from whit.ir.args import BlockMmaArg, MatrixArg
from whit.ir.graph import memory_of
from whit.ir.uop import UOp
from whit.render.ptx.gemm.exchange import in_order_of, two_by_two
from whit.render.ptx.gemm.tma_loads import SWIZZLE_BYTES, short
from whit.render.ptx.gemm.wgmma_tiles import descriptor, kinds_of
from whit.render.ptx.values import PtxWriter

INSTRUCTIONS_A_ROW = SWIZZLE_BYTES // 32  # instructions


class StagedGroups:
    """Writes a product."""

    def __init__(self, w: PtxWriter, node: UOp, registers: list[str], held: list[str] | None) -> None:
        self.w, self.node = w, node
        self.arg: BlockMmaArg = node.arg
        self.kinds = kinds_of(node)
        self.dtype = node.src[2].dtype
        self.deep = 32 // self.dtype.itemsize  # steps of the depth of an instruction
        self.sums = in_order_of(registers, self.arg.elements)
        self.held = in_order_of(held, self.arg.a_in_registers) if held is not None else []

    def write(self) -> None:
        w, arg = self.w, self.arg
        _, a, b, *_, a_batch, b_batch = self.node.src
        self.groups = arg.threads[0].count // 4
        at_a = "" if arg.a_in_registers else self.of_group(self.start(a, arg.a, a_batch))
        at_b = self.start(b, arg.b, b_batch)
        pieces, steps = arg.elements[0].count, arg.tile[2] // self.deep
        left = [[self.left(at_a, piece, step) for piece in range(pieces)] for step in range(steps)]
        true = w.value("pred", "true", "setp.eq.u32", at_b, at_b)
        apart = self.sums_apart(steps)
        w.line("wgmma.fence.sync.aligned;")
        for step in range(steps):
            right = descriptor(w, at_b, self.offset(arg.b, 0, step))
            for piece in range(pieces):
                self.multiply(apart[step // INSTRUCTIONS_A_ROW], left[step][piece], right, piece, true)
        w.line("wgmma.commit_group.sync.aligned;")
        others = [parts for parts in apart if parts is not self.sums]
        w.line(f"wgmma.wait_group.sync.aligned {0 if others else arg.in_flight};")
        for parts in others:
            for total, part in zip(self.sums, parts, strict=True):
                w.line(f"add.rn.f32 {total}, {total}, {part};")

    def sums_apart(self, steps: int) -> list[list[str]]:
        """Registers for sums of each line of an operand: the same for all, but others for each 128 products of fp8,
        which are added in 14 bits."""
        lines = -(-steps // INSTRUCTIONS_A_ROW)
        if self.dtype.itemsize > 1:
            return [self.sums] * lines
        return [self.sums] + [[self.w.value("f32", "part", "mov.b32", "0") for _ in self.sums] for _ in range(1, lines)]

    def start(self, memory: UOp, matrix: MatrixArg, batch: UOp) -> str:
        """The lower half of the descriptor of an operand."""
        w, itemsize = self.w, self.dtype.itemsize
        base = w.value("b32", "base", "cvt.u32.u64", w.names[memory_of(memory)][0])
        base = w.value("b32", "base", "add.u32", base, str(matrix.start * itemsize))
        base = w.value("b32", "base", "mad.lo.u32", short(w, batch), str(matrix.batch * itemsize), base)
        base = w.value("b32", "base", "shr.u32", base, "4")
        leading = 1 if matrix.is_depth_major else matrix.lines * SWIZZLE_BYTES >> 4  # from 64 rows to the next
        return w.value("b32", "low", "add.u32", base, str(leading << 16))

    def of_group(self, low: str) -> str:
        """Each group of four warps has the next 64 rows."""
        w = self.w
        if self.groups == 1:
            return low
        group = w.value("b32", "group", "shr.u32", w.value("b32", "tid", "mov.u32", "%tid.x"), "7")
        group = w.value(
            "b32", "group", "redux.sync.or.b32", group, "0xffffffff"
        )  # the same for a warp, and known to be
        return w.value("b32", "low", "mad.lo.u32", group, str(64 * SWIZZLE_BYTES >> 4), low)

    def offset(self, matrix: MatrixArg, piece: int, step: int) -> int:
        """How far 64 rows and 32 bytes of the depth (16 steps, if it is turned) are from the first, in 16 bytes."""
        if not matrix.is_depth_major:
            return step * 16 * SWIZZLE_BYTES >> 4
        line, inside = divmod(step, INSTRUCTIONS_A_ROW)
        return (line * matrix.lines * SWIZZLE_BYTES + piece * self.groups * 64 * SWIZZLE_BYTES + inside * 32) >> 4

    def left(self, at: str, piece: int, step: int) -> str:
        """64 rows, 32 bytes of the depth."""
        if not self.arg.a_in_registers:
            return descriptor(self.w, at, self.offset(self.arg.a, piece, step))
        found = self.held[(piece * self.arg.tile[2] // 8 + 2 * step) * 4 :][:8]
        return f"{{{', '.join(two_by_two(self.w, self.dtype, found))}}}"

    def multiply(self, totals: list[str], left: str, right: str, piece: int, adds: str) -> None:
        columns = self.arg.tile[1]
        total, left_kind, right_kind = self.kinds
        sums = ", ".join(totals[piece * columns // 2 : (piece + 1) * columns // 2])
        of_a = [] if self.arg.a_in_registers else ["0"]
        transposed = ["1", "1", *of_a, "0" if self.arg.b.is_depth_major else "1"]
        how = ", ".join(transposed if self.dtype.itemsize == 2 else transposed[:2])  # bytes are along the depth
        self.w.line(
            f"wgmma.mma_async.sync.aligned.m64n{columns}k{self.deep}.{total}.{left_kind}.{right_kind} "
            f"{{{sums}}}, {left}, {right}, {adds}, {how};"
        )
