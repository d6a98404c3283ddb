"""Sizes of a contraction through panels: of the register tile, of the panels, of what a core takes at a time.

The register tile is as large as the registers allow. A panel of `b` is as deep as a block of k, so that the columns of
a tile stay in the first cache while all rows of a block pass by, and the rows of the block stay in the second. With
more than one block of k, sums wait in memory between blocks, a piece for each tile.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from math import prod

from whit.codegen.contraction import FEW, Contraction, is_gated, is_unit, merged, size_of, sizes_of, turns
from whit.codegen.ranges import free_ranges, stride
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.uop import UOp, as_index
from whit.target import Target

LEAST_WORK = 1 << 15  # multiplications below which copying costs more than it gains
LEAST_SIDE = 8
DEPTH_BYTES = 1024  # of a block of k, for one row
MOST_SUMS = 1 << 21  # bytes of sums that wait between blocks of k; they and the panels lie on the stack
MOST_PANEL = 1 << 19
MOST_ROWS = 512  # of a block: columns are copied once for each
FEW_ROWS = 16  # for which columns are not worth copying
FEW_DOTS = 12  # results for each row, where both operands lie along k: dot products are faster up to here
DIRECT_DEPTH = 32  # of blocks of columns that are read where they are: 14.4 -> 5.0 ms for 8 x 4096 x 4096
MOST_COPIED = 8  # operations on sums that are written out for each vector of a tile
PAGE = 4096
COPY = 16  # what copying an element costs beside a product
LOAD, LOOP = 0.25, 1.0  # what a load, and a step of the innermost loop, cost beside a product of vectors


class Way(Enum):
    """How an operand is read or copied."""

    DIRECT = "read where it is"
    ROWS = "copied along k"  # a: rows, k innermost
    ACROSS = "copied across k"  # a: k first, then rows; b: k first, then the columns of a tile
    TURNED = "turned"  # b: read along k
    WINDOWS = "copied by windows"  # b: k first, then all columns of the block, by runs along the last range of n


@dataclass(slots=True)
class Depth:
    """Blocks of the ranges that are summed over: part of one range, and all of those after it."""

    ranges: list[UOp]
    split: int  # the range of which a block has a part
    length: int  # of that part

    @property
    def inside(self) -> list[UOp]:
        """The ranges that move inside a block."""
        return self.ranges[self.split :]

    @property
    def sizes(self) -> list[int]:
        """How far they move."""
        return [self.length, *sizes_of(self.ranges[self.split + 1 :])]

    @property
    def total(self) -> int:
        """Elements of a block."""
        return prod(self.sizes)

    @property
    def pieces(self) -> int:
        """Parts of the range that is split."""
        return -(-size_of(self.ranges[self.split]) // self.length)

    @property
    def blocks(self) -> int:
        """How many there are."""
        return prod(sizes_of(self.ranges[: self.split])) * self.pieces

    @property
    def is_ragged(self) -> bool:
        """Whether the last part ends outside of the range."""
        return size_of(self.ranges[self.split]) % self.length != 0

    def starts(self, block: UOp) -> dict[UOp, UOp]:
        """Where each range stands at the beginning of a block."""
        found = {self.ranges[self.split]: (block % self.pieces) * self.length}
        left = block // self.pieces
        for r in reversed(self.ranges[: self.split]):
            found[r] = left % size_of(r)
            left = left // size_of(r)
        return found | {r: as_index(0) for r in self.ranges[self.split + 1 :]}


@dataclass(slots=True)
class Tiling:
    """What `apply_panels` carries out."""

    rows: int  # of the register tile
    width: int  # lanes
    vectors: int  # side by side
    depth: Depth
    waits: bool  # whether sums go to memory before they are stored
    way_a: Way
    way_b: Way
    panels: int  # tiles of rows in a block
    row_blocks: int
    span: int  # columns of a block
    column_blocks: int  # of all columns, outer ranges included
    group: int  # blocks of columns that a core takes at once, with the same rows

    @property
    def columns(self) -> int:
        """Columns of a tile."""
        return self.width * self.vectors

    @property
    def tiles(self) -> int:
        """Tiles of columns in a block."""
        return -(-self.span // self.columns)

    @property
    def groups(self) -> int:
        """Groups of blocks of columns."""
        return -(-self.column_blocks // self.group)

    def __str__(self) -> str:
        return (
            f"contraction through panels: tiles of {self.rows} rows x {self.vectors} vectors of {self.width}; "
            f"{self.row_blocks} blocks of {self.panels} tiles of rows ({self.way_a.value}), "
            f"{self.groups} groups of {self.group} blocks of {self.span} columns ({self.way_b.value}), "
            f"{self.depth.blocks} blocks of {self.depth.total} along k"
        )


def choose_tiling(found: Contraction, body: UOp, target: Target) -> Tiling | None:
    """Sizes that fit the registers and the caches; None where panels do not pay."""
    m, n, outer = (prod(sizes_of(group)) for group in (found.m, found.n, found.outer))
    deep = prod(sizes_of(found.along))
    if m * n * outer * deep < LEAST_WORK or n < LEAST_SIDE or deep < LEAST_SIDE:
        return None
    itemsize = max(found.a.dtype.itemsize, found.b.dtype.itemsize, found.reduce.dtype.itemsize)
    width = target.vector_bytes // itemsize
    if width < 2 or reads_what_it_writes(body):
        return None
    depth = choose_depth(found.along, DEPTH_BYTES // itemsize)
    way_b = _way_of_b(found, depth, m, n >= width)
    if way_b is Way.DIRECT:
        shallow = choose_depth(found.along, DIRECT_DEPTH if m > 2 else DIRECT_DEPTH // 2)
        way_b, depth = (Way.ACROSS, depth) if shallow.is_ragged else (way_b, shallow)
    if m < LEAST_SIDE and way_b is not Way.DIRECT:
        return None
    if min(m, n) <= FEW_DOTS and is_unit(found.a, found.along[-1]) and is_unit(found.b, found.along[-1]):
        return None  # dot products
    most = -(-n // width) if way_b in (Way.WINDOWS, Way.ACROSS) else n // width
    most = min(max(most, 1), 2 if way_b is Way.DIRECT and m > 2 else 4)
    rows, vectors = choose_tile(m, n, width, most, target.vector_registers)
    way_a = _way_of_a(found, depth, n * outer, width * vectors)
    waits = depth.blocks > 1 or _is_long(body, found.reduce)
    tiling = Tiling(rows, width, vectors, depth, waits, way_a, way_b, 1, 1, n, outer, 1)
    return _shared(tiling, found, target, itemsize)


def _is_long(body: UOp, reduce: UOp) -> bool:
    """Whether what becomes of the sums is so much code that there should be one copy of it."""
    outside = topological((body,), stop=(reduce,))
    return sum(node.op.elementwise and node.dtype is not dtypes.weakint for node in outside) > MOST_COPIED


def choose_tile(m: int, n: int, width: int, most_vectors: int, registers: int) -> tuple[int, int]:
    """Rows and vectors of the register tile: few loads for many products, and little beyond the edges.

    14 x 2 vectors reach 145 GFLOP/s, 9 x 3 and 6 x 4 about 165, of 179 that there are (Ice Lake, one core).
    """
    best: tuple[float, int, int] | None = None
    for vectors in range(1, most_vectors + 1):
        most = min((registers - 2 - vectors) // vectors, m)
        for rows in range(max(most // 2, 1), most + 1):
            tiles = -(-m // rows) * -(-n // (width * vectors))
            cost = tiles * (max(rows * vectors, rows + vectors) + LOAD * (rows + vectors) + LOOP)
            if best is None or (cost, -rows) < best[:2]:
                best = (cost, -rows, vectors)
    assert best is not None
    return -best[1], best[2]


def choose_depth(ranges: list[UOp], most: int) -> Depth:
    """Blocks of about `most` elements, all of one size if there is a divisor near it."""
    after, split = 1, len(ranges) - 1
    while split > 0 and after * size_of(ranges[split]) <= most // 2:
        after *= size_of(ranges[split])
        split -= 1
    size, limit = size_of(ranges[split]), max(most * 4 // 3 // after, 1)
    if size <= limit:
        return Depth(ranges, split, size)
    fits = max(most // after, 1)
    divisors = [d for d in range(limit, max(fits // 2, 1) - 1, -1) if size % d == 0]
    even = [d for d in divisors if d * after % 16 == 0]
    if even or divisors:
        return Depth(ranges, split, (even or divisors)[0])
    return Depth(ranges, split, -(-size // -(-size // fits)))


def _way_of_a(found: Contraction, depth: Depth, columns: int, tile: int) -> Way:
    """Rows are read where they are if copying them would not pay, or nothing is the better for it."""
    free = free_ranges(found.a)
    along = merged(found.a, depth.inside) == len(depth.inside) and is_unit(found.a, depth.inside[-1])
    across = bool(found.m) and merged(found.a, found.m) == len(found.m) and is_unit(found.a, found.m[-1])
    is_plain = found.a.op is ops.INDEX and not is_gated(found.a) and not depth.is_ragged
    if is_plain and along:
        step = (stride(found.a.src[1], found.m[-1], free) or 0) if found.m else 0
        if columns <= 2 * tile or not found.m or (len(found.m) == 1 and step * found.a.dtype.itemsize % (PAGE // 2)):
            return Way.DIRECT
    if is_plain and across and columns <= 2 * tile and len(depth.inside) == 1:
        return Way.DIRECT
    if across and not (along and is_unit(found.a, depth.inside[-1])):
        return Way.ACROSS
    return Way.ROWS


def _way_of_b(found: Contraction, depth: Depth, m: int, is_wide: bool) -> Way:
    linear = merged(found.b, found.n) == len(found.n)
    unit = is_unit(found.b, found.n[-1])
    is_plain = found.b.op is ops.INDEX and not is_gated(found.b) and not depth.is_ragged
    if is_plain and linear and unit and is_wide and m <= FEW_ROWS and len(depth.inside) == 1:
        return Way.DIRECT
    if linear and unit:
        return Way.ACROSS
    if turns(found.b, depth.inside) and linear and is_wide and not depth.is_ragged:
        return Way.TURNED
    if not linear and size_of(found.n[-1]) >= FEW:
        return Way.WINDOWS
    return Way.ACROSS


def _shared(tiling: Tiling, found: Contraction, target: Target, itemsize: int) -> Tiling:
    """The tiling with blocks of rows and columns that fit the caches, and that the cores can share."""
    m, n = prod(sizes_of(found.m)), prod(sizes_of(found.n))
    depth, outer = tiling.depth, tiling.column_blocks
    count = -(-m // tiling.rows)
    room = min(target.l2_bytes // 2, MOST_PANEL)
    fitting = max(min(room // (tiling.rows * (depth.total + 16) * itemsize), MOST_ROWS // tiling.rows), 1)
    row_blocks = -(-count // min(count, fitting))
    if tiling.way_b is Way.WINDOWS:
        run = size_of(found.n[-1])
        lines = max(min(room // (depth.total * run * itemsize), n // run), 1)
        lines = max(lines, min(-(-tiling.columns // run), n // run))
        lines = -(-(n // run) // -(-(n // run) // lines))
        span = lines * run
    else:
        most = room // 2 // (depth.total * itemsize) if tiling.way_b is not Way.DIRECT else n
        if tiling.waits:
            most = min(most, MOST_SUMS // (-(-count // row_blocks) * tiling.rows * itemsize))
        parts = -(-n // (max(most // tiling.columns, 1) * tiling.columns)) if most < n else 1
        tiles = -(-n // (parts * tiling.columns))
        span = n if parts == 1 else tiles * tiling.columns
    blocks, panels = -(-n // span), -(-count // row_blocks)
    tiling.panels, tiling.row_blocks, tiling.span, tiling.column_blocks = panels, row_blocks, span, blocks * outer
    tiling.group = tiling.column_blocks
    if tiling.waits:
        tile_bytes = tiling.rows * tiling.columns * itemsize
        tiling.group = max(min(MOST_SUMS // (panels * tiling.tiles * tile_bytes), tiling.group), 1)
        tiling.group = -(-tiling.column_blocks // tiling.groups)
    _balance(tiling, count, prod(sizes_of(found.batch)), target.cores)
    return tiling


def _balance(tiling: Tiling, count: int, batches: int, cores: int) -> None:
    """Splits groups, rows or columns further where the cores would wait for each other otherwise."""
    if cores < 2:
        return
    columns = [(tiling.span, tiling.column_blocks)]
    if tiling.way_b is not Way.WINDOWS and tiling.tiles > 1:
        span = -(-tiling.tiles // min(cores, tiling.tiles)) * tiling.columns
        columns.append((span, tiling.column_blocks * -(-tiling.span // span)))
    best: tuple[float, Tiling] | None = None
    for span, blocks in columns:
        for wanted_groups in (1, cores):
            for wanted_rows in (1, cores):
                tried = replace(tiling, span=span, column_blocks=blocks)
                groups = min(-(-tried.groups // wanted_groups) * wanted_groups, blocks)
                tried.group = -(-blocks // groups)
                row_blocks = min(-(-tried.row_blocks // wanted_rows) * wanted_rows, count)
                tried.panels = -(-count // row_blocks)
                tried.row_blocks = -(-count // tried.panels)
                items = batches * tried.row_blocks * tried.groups
                rounds = items / cores if items >= 4 * cores else -(-items // cores)
                rows, wide = tried.panels * tried.rows, tried.group * tried.span
                time = rounds * (rows * wide + COPY * (rows + wide))
                if best is None or time < best[0]:
                    best = time, tried
    assert best is not None
    for name in ("span", "column_blocks", "group", "panels", "row_blocks"):
        setattr(tiling, name, getattr(best[1], name))


def reads_what_it_writes(body: UOp) -> bool:
    """Whether computing an element twice could give another value."""
    written = {store.src[0].arg.slot for store in body.src}
    return any(node.op is ops.INDEX and node.src[0].arg.slot in written for node in topological((body,)))
