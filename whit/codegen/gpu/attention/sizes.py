"""How attention on a GPU is cut into blocks: sizes, positions of threads, operands in shared memory.

    128 rows of A, once                 lines of shared memory, a row or key in each, 16 bytes longer than they have to
    64 keys of B and W, in each stage   be, or swizzled: lines that are read together are in different banks

Positions are computed of placeholders for loops that are not open yet: the number of a block of keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from whit.codegen.gpu.thread_index import block_range, thread_range
from whit.codegen.math.expand import EXPAND_MATH_ON_GPU
from whit.codegen.passes.index_dtype import fits_in_32_bits, fix_index_dtype
from whit.codegen.passes.lanes import lane_numbers
from whit.codegen.passes.simplify_lanes import simplify_lanes
from whit.codegen.passes.vector_access import VECTOR_ACCESS
from whit.codegen.strategy.fill_panels import Values, unflat
from whit.dtype import DType, dtypes
from whit.ir import ops
from whit.ir.args import HELD_SLOT, MatrixArg
from whit.ir.graph import topological
from whit.ir.nesting import Owner
from whit.ir.rewrite import rewrite
from whit.ir.uop import UOp, as_index, const, make
from whit.kernel.attention_bounds import find_bounds, inside_of_bounds
from whit.kernel.attention_form import AttentionForm, Inner, with_values
from whit.kernel.online_softmax import OnlineSoftmax, byte_of, difference, narrow, times_number
from whit.kernel.ranges import free_ranges, size_of, sizes_of
from whit.simplify import simplify
from whit.target import GPU_LIMITS, Target

PADDING = 8  # elements at the end of a line: lines that are read together are in different banks
COPIED = GPU_LIMITS.access_bytes  # that a thread copies at once
QUAD = 4  # threads that have a row
F32 = dtypes.float32


@dataclass(frozen=True, slots=True)
class BlockSize:
    """How large a block is: warps, times 16 rows for each of them, keys at a time. Ahead: the scores of the next keys
    are computed while those of the last are multiplied."""

    warps: int
    pieces: int
    keys: int
    is_pipelined: bool = False

    @property
    def rows(self) -> int:
        return 16 * self.warps * self.pieces

    @property
    def stages(self) -> int:
        """Blocks of keys in shared memory: those of scores, of products if they are others, and what is copied."""
        return 3 if self.is_pipelined else 2

    def registers(self, inner: int, products: int, columns: int) -> int:
        """What a thread has: sums, and operands of products that go on."""
        sums = inner * self.keys + products * columns
        return self.pieces * (sums // 2 + (products * self.keys // 4 if self.is_pipelined else 0))


WARP_GROUPS = True  # whether four warps multiply together where a GPU has instructions for that (sm_90a)
SWIZZLE_BYTES = GPU_LIMITS.swizzle_bytes  # of a line of theirs
SIZES = (
    BlockSize(4, 2, 64),
    BlockSize(4, 1, 64),
    BlockSize(4, 1, 32),
    BlockSize(2, 1, 32),
    BlockSize(2, 1, 16),
    BlockSize(1, 1, 16),
)
FEW_KEYS = 32  # fewer take not many registers less
# Two blocks on a multiprocessor compute weights and products in turns: b4 h16 t4096 d128 0.61 ms, one of 8 warps 0.70;
# gradients of b16 h12 t1024 d64 0.27 ms, of 8 warps 0.36 (bench/results/2026-11-16-attention-h200.md).
SIZES_OF_GROUPS = (BlockSize(8, 1, 64, True), BlockSize(4, 2, 64), BlockSize(4, 1, 64, True), BlockSize(4, 1, 64))
ALONE = BlockSize(8, 1, 64)  # where there is no room for two
# Results of fp8, or of narrow heads, have room for three: fp8, b4 h16 t4096 d128 0.523 ms, two of 128 rows 0.574;
# bfloat16, b16 h12 t1024 d64 0.093, two of 8 warps 0.105.
THREE = BlockSize(4, 1, 64)
MOST_REGISTERS, MOST_PIPELINED_REGISTERS = 192, 160  # the rest of 255 is for positions
MOST_OF_MANY, MOST_OF_THREE = 80, 112  # the rest of 128 for twice 8 warps, of 168 for three times 4


@dataclass(frozen=True, slots=True)
class SharedTile:
    """An operand in shared memory: lines of rows or keys."""

    value: UOp
    lines: UOp  # the range of these
    along: UOp
    count: int
    dtype: DType
    start: int  # in shared memory of its dtype
    is_swizzled: bool

    @property
    def line(self) -> int:
        return SWIZZLE_BYTES // self.dtype.itemsize if self.is_swizzled else size_of(self.along) + PADDING

    @property
    def size(self) -> int:
        return self.count * (-(-size_of(self.along) // self.line) * self.line if self.is_swizzled else self.line)

    @property
    def group(self) -> int:
        """Elements of 16 bytes."""
        return COPIED // self.dtype.itemsize

    def place(self, line: UOp, group: UOp) -> UOp:
        """Where a group of neighbours begins."""
        if not self.is_swizzled:
            return line * self.line + group * self.group
        inside = make(ops.XOR, (group % 8, line % 8))
        return group // 8 * (self.count * self.line) + line * self.line + inside * self.group

    def matrix(self, is_transposed: bool, stage: int = 0) -> MatrixArg:
        """The tile as an operand, in each of several stages or once: lines are rows, or if it is transposed, the
        depth."""
        row, depth = (1, self.line) if is_transposed else (self.line, 1)
        lines = self.count if self.is_swizzled else 0
        return MatrixArg(self.start, row, depth, stage, lines=lines)


@dataclass(frozen=True, slots=True)
class RowTemplates:
    """Templates for one row of a thread."""

    hidden: UOp
    scores: UOp  # of which the largest is searched
    sums: list[UOp]
    products: list[UOp]
    scales: list[UOp]

    def all(self) -> list[UOp]:
        return [self.hidden, self.scores, *self.sums, *self.products, *self.scales]


class AttentionSizes:
    """The sizes of everything, and places in it."""

    def __init__(self, body: UOp, form: AttentionForm, online: OnlineSoftmax, target: Target) -> None:
        self.body, self.form, self.online = body, form, online
        self.m, self.n, self.wide = (size_of(r) for r in (form.rows, form.keys, form.columns))
        self.is_aligned = target.vector_bytes >= COPIED
        self.width = 2 if self.is_aligned else 1  # elements that are stored at once
        self.by_groups = WARP_GROUPS and target.has_wgmma and self._has_lines()
        self.most_shared = target.shared_bytes
        self.size = size = self._choose_size()
        self.index = dtypes.int32 if fits_in_32_bits(body) else dtypes.int64
        self.batch = sorted(free_ranges(body)[body] - {form.rows, form.columns}, key=lambda r: r.arg.order)
        self.row_blocks, self.key_blocks = -(-self.m // size.rows), -(-self.n // size.keys)
        self.blocks = self.row_blocks * prod(sizes_of(self.batch))
        self.bounds, self.seen = find_bounds(form), inside_of_bounds(form)
        self.threads = 32 * size.warps
        self.block = block_range(self.blocks)
        self.thread = thread_range(self.threads)
        self.step = UOp.range(self.key_blocks, 0, owner=Owner.ROUND)
        self.stage_now = UOp.range(size.stages, 2, owner=Owner.ROUND)
        self.begin = UOp.range(self.key_blocks, 1, owner=Owner.ROUND) if self.bounds.after is not None else as_index(0)
        number = self.block % self.row_blocks
        if self.bounds.before is not None:  # rows that see most first: others fill in what they leave
            number = as_index(self.row_blocks - 1) - number
        self.first = number * size.rows
        self.values = unflat(self.block // self.row_blocks, self.batch)

    def __str__(self) -> str:
        size = self.size
        return (
            f"attention by tensor cores: blocks of {size.rows} rows in {size.warps} warps"
            f"{', which multiply together' if self.by_groups else ''}, {size.keys} keys at a time, {self.bounds}"
        )

    def _has_lines(self) -> bool:
        """Whether operands are as deep, or wide, as lines of warp groups are long."""
        lengths = [self.wide, *(size_of(inner.along[0]) for inner in self.form.inner)]
        return all(length * self.online.dtype.itemsize % SWIZZLE_BYTES == 0 for length in lengths)

    def _choose_size(self) -> BlockSize:
        """The largest block of which a multiprocessor has room for two, or the largest."""
        if not self.by_groups:
            return next((size for size in SIZES if self._fits(size, 1)), SIZES[-1])
        found = next((size for size in SIZES_OF_GROUPS if self._fits(size, 2)), None)
        if len(self.form.inner) == 1 and self._fits(THREE, 3):
            found = THREE
        if found is None:
            found = ALONE if self._fits(ALONE, 1) else SIZES_OF_GROUPS[-1]
        self._place_tiles(found)
        return found

    def _fits(self, size: BlockSize, blocks: int) -> bool:
        """Whether `blocks` fit into registers and shared memory. Two contractions take the registers of more rows."""
        self._place_tiles(size)
        inner, products = len(self.form.inner), len(self.form.products)
        most = MOST_PIPELINED_REGISTERS if size.is_pipelined else MOST_REGISTERS
        if size.warps * blocks > 8:
            most = MOST_OF_MANY if size.warps > 4 else MOST_OF_THREE
        has_registers = size.registers(inner, products, self.wide) <= most or size.keys <= FEW_KEYS
        is_shared = sum(dtype.itemsize * self.room(dtype, size) for dtype in self.stage) <= self.most_shared // blocks
        return has_registers and is_shared and not (self.by_groups and size.pieces > 1 and inner > 1)

    # ---- operands in shared memory

    def _place_tiles(self, size: BlockSize) -> None:
        form, half = self.form, self.online.dtype
        self.tiles: dict[tuple[UOp, UOp, DType], SharedTile] = {}
        dtypes_of = [self._dtypes(inner) for inner in form.inner]
        pairs = list(zip(form.inner, dtypes_of, strict=True))
        self.a = [self._tile(inner.a, form.rows, inner.along[0], size.rows, a) for inner, (a, _) in pairs]
        self.fixed = self._used()
        self.b = [self._tile(inner.b, form.keys, inner.along[0], size.keys, b) for inner, (_, b) in pairs]
        values = [part.w for part in self.online.products if part.w is not None]
        self.c = [self._tile(value, form.keys, form.columns, size.keys, half) for value in values]
        self.stage = {dtype: used - self.fixed.get(dtype, 0) for dtype, used in self._used().items()}

    def _dtypes(self, inner: Inner) -> tuple[DType, DType]:
        """The dtypes of the operands of scores: fp8 as they are, if warp groups multiply them and products do not."""
        found, half = [byte_of(side) for side in (inner.a, inner.b)], self.online.dtype
        along, columns = inner.along[0], self.form.columns
        is_shared = along.size == columns.size and any(
            with_values(part.w, {columns: along}) is inner.b for part in self.online.products if part.w is not None
        )
        a, b = found
        if a is None or b is None or not self.by_groups or is_shared:
            return half, half
        return a, b

    def _tile(self, value: UOp, lines: UOp, along: UOp, count: int, dtype: DType) -> SharedTile:
        """The tile of an operand: keys of scores may be what products are of, too."""
        common = UOp.range(size_of(along), 0, owner=Owner.UNKNOWN)
        value = simplify(with_values(value, {along: common}))  # what is the same is written the same
        if (value, lines, dtype) not in self.tiles:
            start = self._used().get(dtype, 0)
            self.tiles[value, lines, dtype] = SharedTile(value, lines, common, count, dtype, start, self.by_groups)
        return self.tiles[value, lines, dtype]

    def _used(self) -> dict[DType, int]:
        """Elements of shared memory of each dtype, so far."""
        used = dict.fromkeys((tile.dtype for tile in self.tiles.values()), 0)
        for tile in self.tiles.values():
            used[tile.dtype] += tile.size
        return used

    def room(self, dtype: DType, size: BlockSize) -> int:
        """Elements of shared memory of a dtype."""
        return self.fixed.get(dtype, 0) + size.stages * self.stage[dtype]

    def fills(self, shared: dict[DType, UOp], lines: UOp, first: UOp, limit: int, stage: UOp | None) -> list[UOp]:
        """The stores of a thread that fill the tiles of rows, or of keys: every so-manieth group of neighbours."""
        stores = []
        for tile in self.tiles.values():
            if tile.lines is not lines:
                continue
            dtype, copied = tile.dtype, tile.group if self.is_aligned else 1
            begin = as_index(tile.start) if stage is None else stage * self.stage[dtype] + tile.start
            in_line = size_of(tile.along) // copied
            total = tile.count * in_line
            for i in range(0, total, self.threads):
                number = self.thread + i
                if i + self.threads > total:
                    number = number.minimum(total - 1)  # several copy the same
                line, start = number // in_line, number % in_line * copied
                along = start + lane_numbers(copied) if copied > 1 else start
                value = self.at(tile.value, {lines: self.inside(first + line, limit, tile.count), tile.along: along})
                narrowed = narrow(value, dtype)
                value = value.cast(dtype) if narrowed is None else narrowed
                group = start // tile.group
                place = tile.place(line, group) + (along - group * tile.group)
                stores.append(shared[dtype].store(value, begin + place, asynchronous=True))
        return self.lowered(*stores)

    def inside(self, position: UOp, limit: int, count: int) -> UOp:
        """A position, or the last one: what is beyond is read, and not used."""
        return position if limit % count == 0 else position.minimum(limit - 1)

    def sees_all(self) -> UOp | None:
        """Whether all rows of a block see all keys of a step, so that nothing has to be hidden; None: in any step."""
        first, keys = (self.begin + self.step) * self.size.keys, self.size.keys
        rows = (self.first, self.first + (self.size.rows - 1))
        test = self.bounds.all_see(first, first + (keys - 1), rows)
        if self.n % keys:
            inside = first + keys <= self.n
            test = inside if test is None else test & inside
        found = None if test is None else self.lowered(test)[0]
        return None if found is not None and found.op is ops.CONST and found.arg else found

    # ---- expressions

    def at(self, value: UOp, at: Values) -> UOp:
        return with_values(value, {**self.values, **at})

    def lowered(self, *roots: UOp) -> list[UOp]:
        """Expressions, or stores, of the kernel as those of a program."""
        group = simplify_lanes(UOp.group(*roots))
        group = simplify_lanes(rewrite(group, VECTOR_ACCESS, once=True))
        found = rewrite(fix_index_dtype(group, self.index), EXPAND_MATH_ON_GPU).src
        return [_as_wide(new, old) for new, old in zip(found, roots, strict=True)]

    def number(self, value: int) -> UOp:
        return const(self.index, value)

    def row(self, slot: int) -> UOp:
        """The row of a thread's slot: each 16 rows of its warp are two."""
        warp, lane = self.thread // 32, self.thread % 32
        down, apart = self.steps
        return self.first + warp * down + (slot // 2 * apart + slot % 2 * 8) + lane // QUAD

    @property
    def steps(self) -> tuple[int, int]:
        """Rows from a warp to the next, and from 16 rows of a warp to its next."""
        return (16, 16 * self.size.warps) if self.by_groups else (16 * self.size.pieces, 16)

    def keys(self) -> UOp:
        """The keys of a thread, two in each eight."""
        places = [const(dtypes.weakint, 8 * i + e) for i in range(self.size.keys // 8) for e in (0, 1)]
        return (self.begin + self.step) * self.size.keys + self.thread % QUAD * 2 + UOp.stack(*places)

    def held(self, number: int, lanes: int = 0) -> UOp:
        """What stands for registers until the program has them."""
        return UOp.param(HELD_SLOT + number, F32, (lanes,) if lanes else ())


def _as_wide(new: UOp, old: UOp) -> UOp:
    """A value with the lanes that it had before it was simplified."""
    return new if new.shape or not old.shape else UOp.stack(*([new] * old.shape[0]))


def by_reciprocals(root: UOp, elements: list[UOp]) -> UOp:
    """x / y -> x * (1 / y) where a row has one y: elements are what others depend on"""
    names: dict[UOp, UOp] = {}
    for node in topological((root,)):
        if node.op is ops.FDIV and node.dtype is F32 and set(elements).isdisjoint(topological((node.src[1],))):
            x, y = (with_values(source, names) for source in node.src)
            names[node] = x * make(ops.RECIPROCAL, (y,))
    return with_values(root, names)


def fused_powers(root: UOp) -> UOp:
    """exp2((f - m) * c) -> exp2(fma(f, c, -(m * c))): the last is of a row; if f is x * y, of fma(x, y * c, ...)"""
    names: dict[UOp, UOp] = {}
    for power in [node for node in topological((root,)) if node.op is ops.EXP2]:
        found = difference(power)
        if found is not None:
            scores, top, factor = found
            x, number = times_number(scores)
            scale = factor if number is None else factor * number
            names[power] = make(ops.EXP2, (make(ops.FMA, (x, scale, -(top * factor))),))
    return with_values(root, names)
