"""Tiles of a matrix product by the warps of a block, with operands copied to shared memory ahead of time (`cp.async`).

    copy pieces 0, 1, 2                                a stage of shared memory each
    for each piece:
        wait until it has arrived, all threads         then everybody is done with the piece before it
        copy the piece three further on, into the stage of the piece before
        atom fma:  registers <- 4 elements of a column of a and of a row of b;  sums += their products
        atom mma:  registers <- 8 x 8 squares by ldmatrix;  mma.sync
        atom tf32: registers <- single elements, rounded;   mma.sync

Before sm_80 there are two stages, and no `cp.async`: the next piece is loaded to registers, and stored to the other
stage after this one has been multiplied. Products are taken in smaller steps there.

For fma and tf32 both operands lie in shared memory as lines of one step of the depth each, so that neighbours are
loaded together; for mma as they lie in memory, and squares are turned as they are loaded; for bytes as lines along the
depth, of which a square has 16 bytes. Lines are longer than they have to be, so that what is loaded together is in
different banks: a bank conflict would take a turn for each. What is outside of an operand is copied as zeros.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from whit.ir import ops
from whit.ir.args import BlockMmaArg, MatrixArg, Mode
from whit.ir.graph import memory_of
from whit.ir.uop import UOp
from whit.render.ptx.gemm.exchange import exchange, in_order_of, in_order_of_mma, two_by_two
from whit.render.ptx.gemm.mma import multiply_square
from whit.render.ptx.gemm.tma_loads import SHARED, short
from whit.render.ptx.gemm.wgmma_tiles import kinds_of
from whit.render.ptx.values import PtxWriter, register_type

PADDING = {"fma": 16, "mma": 16, "bytes": 16, "tf32": 32}  # bytes
BY_SQUARES = ("mma", "bytes")


def is_staged(node: UOp) -> bool:
    """Whether the program itself has put the operands into shared memory."""
    return memory_of(node.src[1]).op is ops.BUFFER


def is_transposed(arg: BlockMmaArg, matrix: MatrixArg) -> bool:
    """Whether the lines of shared memory are steps of the depth."""
    return arg.atom not in BY_SQUARES or (arg.atom == "mma" and not matrix.is_depth_major)


def line_bytes(arg: BlockMmaArg, matrix: MatrixArg, rows: int, itemsize: int) -> int:
    """From one line of shared memory to the next."""
    if arg.accumulate:
        return max(matrix.row, matrix.depth) * itemsize
    return (rows if is_transposed(arg, matrix) else arg.tile[2]) * itemsize + PADDING[arg.atom]


def piece_bytes(arg: BlockMmaArg, matrix: MatrixArg, rows: int, itemsize: int) -> int:
    """Of an operand, in one stage."""
    lines = arg.tile[2] if is_transposed(arg, matrix) else rows
    return lines * line_bytes(arg, matrix, rows, itemsize)


def stage_bytes(arg: BlockMmaArg, itemsize: int) -> int:
    """The bytes of one piece of both operands."""
    pairs = ((arg.a, arg.tile[0]), (arg.b, arg.tile[1]))
    return sum(piece_bytes(arg, matrix, rows, itemsize) for matrix, rows in pairs)


@dataclass(slots=True)
class Copies:
    """The copies of an operand that a thread makes of each piece."""

    matrix: MatrixArg
    rows: int  # of the tile
    elements: int  # of a copy
    count: int
    lines: int  # from one copy to the next
    source: str  # the address of the first
    target: str  # in the first stage
    line: str  # which line of memory, and which element of it, inside of the tile
    along: str
    row_limit: str  # rows that are left of the operand


class Tiles:
    """Writes what computes a tile."""

    def __init__(
        self, w: PtxWriter, node: UOp, registers: list[str], threads: int, held: list[str] | None = None
    ) -> None:
        self.w, self.node, self.registers, self.threads = w, node, registers, threads
        self.arg: BlockMmaArg = node.arg
        self.is_exchanged = self.arg.atom != "fma" and self.arg.elements[-1].count == 8
        self.in_order = in_order_of_mma(registers) if self.is_exchanged else registers
        if self.arg.atom in BY_SQUARES and not self.is_exchanged:
            self.in_order = in_order_of(registers, self.arg.elements)
        self.dtype = node.src[2].dtype
        self.itemsize = self.dtype.itemsize
        self.held = in_order_of(held, self.arg.a_in_registers) if held is not None else []
        self.stage_bytes = stage_bytes(self.arg, self.itemsize)

    def write(self) -> None:
        w, arg = self.w, self.arg
        self.thread = w.value("b32", "tid", "mov.u32", "%tid.x")
        if is_staged(self.node):
            self.write_piece()
            return
        self.base = w.value("b32", "base", "mov.u32", SHARED)
        operands = self.operands()
        self.left = w.value("b32", "left", "mov.u32", str(arg.sizes[2]))  # of the depth, from the next copies on
        self.into = w.value("b32", "into", "mov.u32", "0")  # the stage of the next copies, in bytes
        self.stage = w.value("b32", "stage", "mov.u32", "0")  # of the piece that is computed
        for register in self.registers:
            w.line(f"mov.b32 {register}, 0;")
        for _ in range(arg.stages - 1):
            self.put(self.copy(operands))
        self.places()
        piece = w.value("b32", "piece", "mov.u32", "0")
        loop = f"PIECES{w.count}"
        w.label(loop)
        if w.target.has_async_copies:
            w.line(f"cp.async.wait_group {arg.stages - 2};")
        w.line("bar.sync 0;")
        loaded = self.copy(operands)
        self.compute()
        self.put(loaded)
        self.advance(self.stage)
        w.line(f"add.u32 {piece}, {piece}, 1;")
        more = w.value("pred", "more", "setp.lt.u32", piece, str(-(-arg.sizes[2] // arg.tile[2])))
        w.line(f"@{more} bra {loop};")
        if w.target.has_async_copies:
            w.line("cp.async.wait_all;")
        if self.is_exchanged:
            exchange(w, self.registers)

    def write_piece(self) -> None:
        """A piece of the depth that is in shared memory already."""
        arg = self.arg
        _, a, b, *_, a_batch, b_batch = self.node.src
        row, column = self.offset(self.warps())
        at_b = self.place(arg.b, arg.tile[1], column, self.start(b, arg.b, b_batch))
        at_a = "" if arg.a_in_registers else self.place(arg.a, arg.tile[0], row, self.start(a, arg.a, a_batch))
        self.multiply_by_atom(at_a, at_b)

    def start(self, memory: UOp, matrix: MatrixArg, batch: UOp) -> str:
        """The address of an operand in shared memory."""
        w = self.w
        base = w.value("b32", "base", "cvt.u32.u64", w.names[memory_of(memory)][0])
        base = w.value("b32", "base", "add.u32", base, str(matrix.start * self.itemsize))
        return w.value("b32", "base", "mad.lo.u32", short(w, batch), str(matrix.batch * self.itemsize), base)

    def advance(self, stage: str) -> None:
        """The next stage."""
        w = self.w
        w.line(f"add.u32 {stage}, {stage}, {self.stage_bytes};")
        wraps = w.value("pred", "wraps", "setp.eq.u32", stage, str(self.arg.stages * self.stage_bytes))
        w.line(f"@{wraps} mov.u32 {stage}, 0;")

    def offset(self, modes: tuple[Mode, ...]) -> tuple[str, str]:
        """The row and column of a thread's first element."""
        w, after = self.w, 1
        row, column = (w.value("b32", name, "mov.u32", "0") for name in ("row", "column"))
        for mode in reversed(modes):
            value = w.value("b32", "digit", "div.u32", self.thread, str(after)) if after > 1 else self.thread
            value = w.value("b32", "digit", "rem.u32", value, str(mode.count))
            row = w.value("b32", "row", "mad.lo.u32", value, str(mode.row), row) if mode.row else row
            column = w.value("b32", "column", "mad.lo.u32", value, str(mode.column), column) if mode.column else column
            after *= mode.count
        return row, column

    # ---- copies

    def operands(self) -> list[Copies]:
        """The copies of both operands."""
        arg, (_, a, b, _, row, column, a_batch, b_batch) = self.arg, self.node.src
        first = self.copies(a, arg.a, arg.tile[0], arg.sizes[0], row, a_batch, self.base)
        b_base = piece_bytes(arg, arg.a, arg.tile[0], self.itemsize)
        base = self.w.value("b32", "base", "add.u32", self.base, str(b_base))
        return [first, self.copies(b, arg.b, arg.tile[1], arg.sizes[1], column, b_batch, base)]

    def copies(self, memory: UOp, matrix: MatrixArg, rows: int, size: int, first: UOp, batch: UOp, base: str) -> Copies:
        """Which elements of a piece a thread copies: neighbouring threads have neighbours."""
        w, arg = self.w, self.arg
        depth = arg.tile[2]
        length, lines = (depth, rows) if matrix.is_depth_major else (rows, depth)
        transposes = is_transposed(arg, matrix) == matrix.is_depth_major
        elements = 1 if transposes else matrix.copied // self.itemsize
        if not w.target.has_async_copies:  # all of a copy is inside, or nothing
            elements = gcd(elements, arg.sizes[2] if matrix.is_depth_major else size)
        in_line = length // elements
        line = w.value("b32", "line", "div.u32", self.thread, str(in_line))
        along = w.value("b32", "along", "rem.u32", self.thread, str(in_line))
        along = w.value("b32", "along", "mul.lo.u32", along, str(elements))
        row, k = (line, along) if matrix.is_depth_major else (along, line)
        start = self.wide(first)
        position = w.value("b64", "p", "mad.lo.s64", self.wide(batch), str(matrix.batch), str(matrix.start))
        position = w.value("b64", "p", "mad.lo.s64", start, str(matrix.row), position)
        for part, step in ((row, matrix.row), (k, matrix.depth)):
            wide = w.value("b64", "wide", "cvt.u64.u32", part)
            position = w.value("b64", "p", "mad.lo.s64", wide, str(step), position)
        source = w.value("b64", "from", "mad.lo.s64", position, str(self.itemsize), w.names[memory][0])
        bytes_of_line = line_bytes(arg, matrix, rows, self.itemsize)
        across, inside = (k, row) if is_transposed(arg, matrix) else (row, k)
        target = w.value("b32", "to", "mad.lo.u32", across, str(bytes_of_line), base)
        target = w.value("b32", "to", "mad.lo.u32", inside, str(self.itemsize), target)
        begin = w.value("b32", "begin", "cvt.u32.u64", start)
        limit = w.value("b32", "limit", "sub.s32", str(size), begin)
        step = self.threads // in_line
        return Copies(matrix, rows, elements, lines // step, step, source, target, line, along, limit)

    def wide(self, node: UOp) -> str:
        text = self.w.operand(node)
        kind = register_type(node.dtype) if text.startswith("%") else ""
        return text if kind == "b64" else self.w.value("b64", "n", "cvt.s64.s32" if kind else "mov.b64", text)

    def copy(self, operands: list[Copies]) -> list[str]:
        """Starts the copies of the next piece; what is loaded to registers is still to be stored."""
        w, arg = self.w, self.arg
        loaded: list[str] = []
        inside = w.value("pred", "inside", "setp.gt.s32", self.left, "0")
        for copies, size in zip(operands, arg.sizes[:2], strict=True):
            matrix = copies.matrix
            source_step = (matrix.row if matrix.is_depth_major else matrix.depth) * copies.lines * self.itemsize
            is_transposing = is_transposed(arg, matrix) == matrix.is_depth_major
            bytes_of_line = line_bytes(arg, matrix, copies.rows, self.itemsize)
            target_step = copies.lines * (self.itemsize if is_transposing else bytes_of_line)
            target = w.value("b32", "to", "add.u32", copies.target, self.into)
            is_even = size % copies.rows == 0 and arg.sizes[2] % arg.tile[2] == 0
            for i in range(copies.count):
                count = "" if is_even else self.inside(copies, i)
                to, source = f"{target}+{i * target_step}", f"{copies.source}+{i * source_step}"
                loaded += self.copy_one(to, source, copies.elements * self.itemsize, inside, count)
            w.line(f"add.s64 {copies.source}, {copies.source}, {matrix.depth * arg.tile[2] * self.itemsize};")
        if w.target.has_async_copies:
            w.line("cp.async.commit_group;")
        w.line(f"sub.s32 {self.left}, {self.left}, {arg.tile[2]};")
        self.advance(self.into)
        return loaded

    def put(self, loaded: list[str]) -> None:
        """Stores what was loaded."""
        for line in loaded:
            self.w.line(line)

    def inside(self, copies: Copies, i: int) -> str:
        """How many bytes of a copy are inside of the operand."""
        w = self.w
        across, along = copies.row_limit, self.left
        if not copies.matrix.is_depth_major:
            across, along = along, across
        line = w.value("b32", "line", "add.u32", copies.line, str(i * copies.lines))
        test = w.value("pred", "inside", "setp.lt.s32", line, across)
        rest = w.value("b32", "rest", "sub.s32", along, copies.along)
        rest = w.value("b32", "rest", "max.s32", w.value("b32", "rest", "min.s32", rest, str(copies.elements)), "0")
        nbytes = w.value("b32", "bytes", "mul.lo.u32", rest, str(self.itemsize))
        return w.value("b32", "bytes", "selp.b32", nbytes, "0", test)

    def copy_one(self, to: str, source: str, nbytes: int, inside: str, count: str) -> list[str]:
        """One copy, of `count` bytes and zeros after these where not all are inside. If it goes to registers, what
        stores these."""
        w = self.w
        if nbytes >= 4 and w.target.has_async_copies:
            kind = "cg" if nbytes == 16 else "ca"
            guard, given = ("", f", {count}") if count else (f"@{inside} ", "")
            w.line(f"{guard}cp.async.{kind}.shared.global [{to}], [{source}], {nbytes}{given};")
            return []
        test = w.value("pred", "inside", "setp.ne.u32", count, "0") if count else inside
        if nbytes >= 4:
            words = [
                w.value("b32", "word", "mov.b32", "0") if count else w.register("b32", "word")
                for _ in range(nbytes // 4)
            ]
            kind, names = (f"v{len(words)}.b32", f"{{{', '.join(words)}}}") if words[1:] else ("b32", words[0])
            w.line(f"@{test} ld.global.{kind} {names}, [{source}];")
            return [f"st.shared.{kind} [{to}], {names};"]
        value = w.value("b16", "half", "mov.b16", "0")
        w.line(f"@{test} ld.global.b{8 * nbytes} {value}, [{source}];")
        w.line(f"st.shared.b{8 * nbytes} [{to}], {value};")
        return []

    # ---- atoms

    def places(self) -> None:
        """Where a thread reads in the first stage."""
        arg = self.arg
        row, column = self.offset(self.warps())
        after = str(piece_bytes(arg, arg.a, arg.tile[0], self.itemsize))
        b_base = self.w.value("b32", "base", "add.u32", self.base, after)
        self.at = [self.place(arg.a, arg.tile[0], row, self.base), self.place(arg.b, arg.tile[1], column, b_base)]

    def warps(self) -> tuple[Mode, ...]:
        """Which part of a tile is a thread's; of tensor cores a warp's, to which its lanes are added."""
        return self.arg.threads if self.arg.atom == "fma" else (*self.arg.threads[:-2], Mode(32))

    def place(self, matrix: MatrixArg, rows: int, row: str, base: str) -> str:
        """The address that a thread reads from, of the first row that is its."""
        w, arg = self.w, self.arg
        bytes_of_line = line_bytes(arg, matrix, rows, self.itemsize)
        step = self.itemsize if is_transposed(arg, matrix) else bytes_of_line
        at = w.value("b32", "at", "mad.lo.u32", row, str(step), base)
        if arg.atom == "tf32":
            lane = w.value("b32", "lane", "and.b32", self.thread, "31")
            in_four, four = w.value("b32", "in4", "and.b32", lane, "3"), w.value("b32", "f", "shr.u32", lane, "2")
            at = w.value("b32", "at", "mad.lo.u32", in_four, str(bytes_of_line), at)
            at = w.value("b32", "at", "mad.lo.u32", four, "4", at)
        if arg.atom in BY_SQUARES:
            lane = w.value("b32", "lane", "and.b32", self.thread, "31")
            in_eight = w.value("b32", "in8", "and.b32", lane, "7")
            eighth, half = w.value("b32", "e", "shr.u32", lane, "3"), w.value("b32", "h", "shr.u32", lane, "4")
            eighth = w.value("b32", "e", "and.b32", eighth, "1")
            # Squares in the order in which mma wants them: of a rows first, of b the depth.
            down, deep = (eighth, half) if matrix is arg.a else (half, eighth)
            line, inside = (deep, down) if is_transposed(arg, matrix) else (down, deep)
            line = w.value("b32", "line", "mad.lo.u32", line, "8", in_eight)
            at = w.value("b32", "at", "mad.lo.u32", line, str(bytes_of_line), at)
            at = w.value("b32", "at", "mad.lo.u32", inside, "16", at)
        return at

    def compute(self) -> None:
        self.multiply_by_atom(*[self.w.value("b32", "at", "add.u32", place, self.stage) for place in self.at])

    def multiply_by_atom(self, a: str, b: str) -> None:
        """All of a piece: what is added to the sums, from these addresses on."""
        multiply = {"fma": self.multiply, "tf32": self.multiply_rounded}
        multiply.get(self.arg.atom, self.multiply_squares)(a, b)

    def multiply(self, a: str, b: str) -> None:
        """Each thread by itself, one step of the depth after another."""
        w, arg = self.w, self.arg
        down, across = arg.elements[0], arg.elements[2]
        a_line, b_line = (line_bytes(arg, m, rows, 4) for m, rows in ((arg.a, arg.tile[0]), (arg.b, arg.tile[1])))
        for k in range(arg.tile[2]):
            left = [x for i in range(down.count) for x in self.four(f"{a}+{k * a_line + i * down.row * 4}")]
            right = [x for i in range(across.count) for x in self.four(f"{b}+{k * b_line + i * across.column * 4}")]
            for i, x in enumerate(left):
                for j, y in enumerate(right):
                    total = self.registers[i * len(right) + j]
                    w.line(f"fma.rn.f32 {total}, {x}, {y}, {total};")

    def four(self, at: str) -> list[str]:
        found = [self.w.register("f32", "x") for _ in range(4)]
        self.w.line(f"ld.shared.v4.f32 {{{', '.join(found)}}}, [{at}];")
        return found

    def multiply_squares(self, a: str, b: str) -> None:
        """16 x 8 pieces of a warp, 32 bytes of the depth at a time."""
        w, arg = self.w, self.arg
        down = arg.elements[0].count
        across = len(self.registers) // down // 4
        kinds = kinds_of(self.node)
        for step in range(arg.tile[2] * self.itemsize // 32):
            left = [self.rows_of_a(a, i, step) for i in range(down)]
            right = [self.squares(b, arg.b, arg.tile[1], j, step) for j in range(across // 2)]
            for i in range(down):
                for j in range(across):
                    pair = right[j // 2][j % 2 * 2 : j % 2 * 2 + 2]
                    at = (i * across + j) * 4
                    multiply_square(w, kinds, self.in_order[at : at + 4], left[i], pair)

    def rows_of_a(self, a: str, number: int, step: int) -> list[str]:
        """16 rows, 16 steps of the depth: of memory, or two by two of what the sums of another product left."""
        arg = self.arg
        if not arg.a_in_registers:
            return self.squares(a, arg.a, arg.tile[0], number, step)
        found = self.held[(number * arg.tile[2] // 8 + 2 * step) * 4 :][:8]
        return two_by_two(self.w, self.dtype, found)

    def squares(self, at: str, matrix: MatrixArg, rows: int, number: int, step: int) -> list[str]:
        """Four squares: 16 rows, 32 bytes of the depth."""
        w, arg = self.w, self.arg
        bytes_of_line = line_bytes(arg, matrix, rows, self.itemsize)
        transposed = is_transposed(arg, matrix)
        lines, inside = (step, number) if transposed else (number, step)
        found = [w.register("b32", "square") for _ in range(4)]
        place = f"{at}+{lines * 16 * bytes_of_line + inside * 32}"
        trans = ".trans" if transposed else ""
        w.line(f"ldmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 {{{', '.join(found)}}}, [{place}];")
        return found

    def multiply_rounded(self, a: str, b: str) -> None:
        """The same with elements that are loaded one by one, 8 steps of the depth at a time."""
        w, arg = self.w, self.arg
        down = arg.elements[0].count
        across = len(self.registers) // down // 4
        a_line, b_line = (line_bytes(arg, m, rows, 4) for m, rows in ((arg.a, arg.tile[0]), (arg.b, arg.tile[1])))
        for k in range(0, arg.tile[2], 8):
            left = [
                [self.rounded(f"{a}+{(k + deep) * a_line + (16 * i + row) * 4}") for deep in (0, 4) for row in (0, 8)]
                for i in range(down)
            ]
            right = [[self.rounded(f"{b}+{(k + deep) * b_line + 8 * j * 4}") for deep in (0, 4)] for j in range(across)]
            for i in range(down):
                for j in range(across):
                    at = (i * across + j) * 4
                    multiply_square(w, ("f32", "tf32", "tf32"), self.in_order[at : at + 4], left[i], right[j])

    def rounded(self, at: str) -> str:
        """An element with 10 bits of mantissa."""
        element = self.w.register("f32", "x")
        self.w.line(f"ld.shared.f32 {element}, [{at}];")
        return self.w.value("b32", "x", "cvt.rna.tf32.f32", element)
