"""Sizes of a contraction through panels: of the register tile, of the panels, of what a core takes at a time.

    plan = choose_tiling(body, target)      None where panels do not pay
    plan.found, plan.tiling, plan.cost      which operand is `a`, the sizes, and why: what they are estimated to take

`candidates` lists what is possible, `cost` estimates each, and the least is taken. The register tile is as large as the
registers allow. A block of k is as deep as the second cache allows for a block of rows and the columns of a tile: with
more than one block of k, sums wait in memory between blocks, a piece for each tile. Either the rows of a block stay
while columns are copied, block after block; or the columns stay, in the third cache, while rows are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from enum import Enum
from itertools import product
from math import prod

from whit.codegen.cpu.images import image_axes, tile_rows
from whit.codegen.strategy.cost import (
    ALONE_VECTORS,
    TRANSPOSE_VECTORS,
    Cost,
    Operands,
    copying,
    estimate_tiling,
    step_cycles,
)
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.uop import UOp, as_index
from whit.kernel.contraction import (
    LEAST_NEIGHBOURS,
    MOST_PANEL_ROWS,
    Contraction,
    can_transpose,
    find_contractions,
    has_room_for_sums,
    is_gated,
    is_unit,
    lies_in_panels,
    may_overwrite,
    merged,
    reads_what_it_writes,
)
from whit.kernel.ranges import is_open, size_of, sizes_of
from whit.kernel.rates import CPU_CYCLES
from whit.records import dataclass, field, replace
from whit.target import Target

OPEN_PARTS = 16  # for each core, of columns whose number is known later: 3.2 -> 1.9 ms for 24 x 864 x 4800 of 65536
LEAST_PRODUCTS = 1 << 15  # multiplications below which copying costs more than it gains
LEAST_SIDE = 8
DEPTHS_BYTES = (1024, 2048, 4096)  # bytes of a block of k, for one row
MOST_SUMS_BYTES = 1 << 21  # bytes of sums that wait between blocks of k; they and the panels lie on the stack
MOST_ROWS_BYTES, MOST_COLUMNS_BYTES = 1 << 20, 1 << 21  # bytes of the panels
MOST_STACK_BYTES = 6 << 20  # of all panels and sums: the first thread of a process has 8 MiB
SHORT_DEPTH = 256  # of a block of k up to which TLB misses of its results count: blocks of few rows are tried, too
FEW_ROWS = 16  # up to which columns may be read where they are: a copy is used too few times
FEW_DOTS = 4  # results for each row, where both operands lie along k: dot products are faster up to here
# of blocks of columns that are read where they are: 8 x 4096^2 14.4 -> 5.0 ms (bench/contractions.py)
DIRECT_DEPTH = 32
MOST_BLOCKS = 512  # of k, at most: their partial sums are added one after the other, and so are their rounding errors
MOST_COPIED = 8  # operations on sums that are written out for each vector of a tile
TILES = 2  # register tiles that are tried


@dataclass(frozen=True, slots=True)
class Scope:
    """How much `candidates` lists. A search wants more than what is estimated whenever a kernel is compiled."""

    depths: tuple[int, ...]
    tiles: int


class Way(Enum):
    """How an operand is read or copied."""

    DIRECT = "read where it is"
    ROWS = "copied along k"  # a: rows, k innermost
    ACROSS = "copied across k"  # a: k first, then rows; b: k first, then the columns of a tile
    TRANSPOSED = "turned"  # b: read along k
    IMAGE = "read from an image"  # a: the elements that windows see, once
    WINDOWS = "copied by windows"  # b: k first, then all columns of the block, by runs along the last range of n


@dataclass(slots=True)
class Depth:
    """Blocks of the ranges that are summed over: part of one range, and all of those after it."""

    ranges: list[UOp]
    split: int  # the range of which a block has a part
    length: int  # of that part
    total: int = field(init=False)  # elements of a block
    blocks: int = field(init=False)

    def __post_init__(self) -> None:
        self.total = prod(self.sizes)
        self.blocks = prod(sizes_of(self.ranges[: self.split])) * self.pieces

    @property
    def inside(self) -> list[UOp]:
        """The ranges that move inside a block."""
        return self.ranges[self.split :]

    @property
    def sizes(self) -> list[int]:
        """How far they move."""
        return [self.length, *sizes_of(self.ranges[self.split + 1 :])]

    @property
    def pieces(self) -> int:
        """Parts of the range that is split."""
        return -(-size_of(self.ranges[self.split]) // self.length)

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
    copy_a: float  # vectors for each element that is copied; 0 where nothing is
    copy_b: float
    in_place: bool = False  # whether sums wait where the result will be
    is_across: bool = False  # whether rows that are read where they are lie across k
    panels: int = 1  # tiles of rows in a block
    inside: int = 1  # blocks of rows that a core takes one after the other, with the same columns
    row_items: int = 1  # times which there are
    span: int = 1  # columns of a block
    column_blocks: int = 1  # of all columns, outer ranges included
    group: int = 1  # blocks of columns that a core takes at once, with the same rows
    image: int = 0  # elements of the image that rows are read from
    is_turned: bool = False  # whether sums wait to be stored with rows as lanes

    @property
    def columns(self) -> int:
        """Columns of a tile."""
        return self.width * self.vectors

    @property
    def tiles(self) -> int:
        """Tiles of columns in a block."""
        return -(-self.span // self.columns)

    @property
    def steps(self) -> int:
        """Steps along k that are written out: 2.08 -> 1.83 ms for a product of 512 x 512 x 512 on one core."""
        return 1 if self.depth.total % 2 else 2

    @property
    def run_of_a(self) -> int:
        """Elements that are copied one after the other."""
        return self.panels * self.rows if self.way_a is Way.ACROSS else self.depth.total

    @property
    def run_of_b(self) -> int:
        """The same for columns."""
        return self.depth.total if self.way_b is Way.TRANSPOSED else self.span

    @property
    def groups(self) -> int:
        """Groups of blocks of columns."""
        return -(-self.column_blocks // self.group)

    def __str__(self) -> str:
        return (
            f"contraction through panels: tiles of {self.rows} rows x {self.vectors} vectors of {self.width}; "
            f"{self.row_items} times {self.inside} blocks of {self.panels} tiles of rows ({self.way_a.value}), "
            f"{self.groups} groups of {self.group} blocks of {self.span} columns ({self.way_b.value}), "
            f"{self.depth.blocks} blocks of {self.depth.total} along k"
        )


@dataclass(frozen=True, slots=True)
class PanelPlan:
    """A contraction, how it is tiled, and why."""

    found: Contraction
    tiling: Tiling
    cost: Cost

    def __str__(self) -> str:
        return f"{self.tiling}; estimated {self.cost}"


def choose_tiling(body: UOp, target: Target) -> PanelPlan | None:
    """The candidate that is estimated to take least; None where panels do not pay."""
    return min(best_by_items(body, target).values(), key=lambda plan: plan.cost.total, default=None)


def best_by_items(body: UOp, target: Target) -> dict[int, PanelPlan]:
    """The best candidate for each number of items that the cores share."""
    best: dict[int, PanelPlan] = {}
    for found in find_contractions(body):
        given = Operands(found, body, target)
        for tiling in candidates(found, body, given):
            cost, items = estimate_tiling(tiling, given), given.batches * tiling.row_items * tiling.groups
            if items not in best or cost.total < best[items].cost.total:
                best[items] = PanelPlan(found, tiling, cost)
    return best


def candidates(found: Contraction, body: UOp, given: Operands, scope: Scope | None = None) -> Iterator[Tiling]:
    """What fits the registers and the caches, with one operand as `a`; nothing where panels do not pay."""
    m, n, target = given.m, given.n, given.target
    deep = prod(sizes_of(found.along))
    itemsize = max(found.a.dtype.itemsize, found.b.dtype.itemsize, found.reduce.dtype.itemsize)
    width = target.vector_bytes // itemsize
    if width < 2 or not _is_worth_panels(found, body, given, deep):
        return
    scope = scope or Scope(DEPTHS_BYTES, TILES)
    is_long = _is_long(body, found.reduce)
    has_room = not is_long and has_room_for_sums(body, found)
    for depth in depths(found.along, itemsize, scope.depths):
        yield from _of_images(found, body, given, depth, width, is_long)
        for way_b in ways_of_b(found, depth, m, n >= width):
            if way_b is Way.DIRECT:
                depth = _direct_depth(found, depth, m, deep)
                if depth.is_ragged:
                    continue
            elif m < LEAST_SIDE:
                continue
            most = _most_vectors(found, way_b, m, n, width)
            copy_b, waits = _copy_of_b(found, way_b), depth.blocks > 1 or is_long
            for way_a in _ways_of_a(found, depth):
                is_across = bool(found.m) and not is_unit(found.a, depth.inside[-1])
                for rows, vectors in _tiles(given, width, most, way_a, scope.tiles):
                    copy_a = _copy_of_a(found, depth, way_a, rows, width)
                    tiling = Tiling(
                        rows, width, vectors, depth, waits, way_a, way_b, copy_a, copy_b, waits and has_room, is_across
                    )
                    yield from _blocked(tiling, found, given, itemsize)


def _is_worth_panels(found: Contraction, body: UOp, given: Operands, deep: int) -> bool:
    """Whether operands may be copied, and there is enough to multiply for it to pay: more than a few dot products."""
    parts = 4 if found.reduce.src[0].op is ops.DOT else 1  # of a word, at most
    work = given.m * given.n * given.outer * deep
    if work < LEAST_PRODUCTS or min(given.n, deep * parts) < LEAST_SIDE or reads_what_it_writes(body):
        return False
    last = found.along[-1]
    return min(given.m, given.n) > FEW_DOTS or not (is_unit(found.a, last) and is_unit(found.b, last))


def _is_in_panels(found: Contraction) -> bool:
    """Whether columns lie in memory as a copy of them would."""
    return lies_in_panels(found.b, [*found.outer, *found.n], found.along)


def _most_vectors(found: Contraction, way_b: Way, m: int, n: int, width: int) -> int:
    """The most vectors of columns that a tile may have side by side. What is copied is filled up to whole vectors."""
    there = -(-n // width) if way_b in (Way.WINDOWS, Way.ACROSS) else n // width
    return min(max(there, 1), 2 if way_b is Way.DIRECT and m > 2 and not _is_in_panels(found) else 4)


def _of_images(
    found: Contraction, body: UOp, given: Operands, depth: Depth, width: int, is_long: bool
) -> Iterator[Tiling]:
    """Tilings whose rows are read from an image: whole lines of it, and all columns."""
    room = given.target.l2_bytes // 3
    if given.n < width or given.n * depth.total * given.itemsize > room or not _reads_image(found, given, depth):
        return
    height = size_of(found.m[0])
    for (rows, vectors), lines in product(_image_tiles(found, given, width), range(1, height + 1)):
        panels, left = divmod(given.m // height * lines, rows)
        image = prod(axis.size for axis in image_axes(found, depth.inside, depth.sizes, lines))
        sums = panels * rows * -(-given.n // (width * vectors)) * width * vectors
        is_even = panels * rows % width == given.n % (width * vectors) == 0
        if left or height % lines or max(image, sums) * given.itemsize > room:
            continue
        if panels * rows < width or (may_overwrite(body, found.reduce) and not is_even):
            continue
        for way_b in ways_of_b(found, depth, given.m, is_wide=True):
            if way_b in (Way.TRANSPOSED, Way.ACROSS):
                is_turned = not given.lies_along_n
                waits, copy_b = is_turned or depth.blocks > 1 or is_long, _copy_of_b(found, way_b)
                tiling = Tiling(rows, width, vectors, depth, waits, Way.IMAGE, way_b, 0, copy_b)
                tiling.image, tiling.is_turned = image, is_turned
                yield replace(tiling, panels=panels, row_items=height // lines, span=given.n)


def _image_tiles(found: Contraction, given: Operands, width: int) -> list[tuple[int, int]]:
    """Rows and vectors of register tiles that end with the lines of an image; best first."""
    tiles: list[tuple[float, int, int]] = []
    for vectors in range(1, min(given.n // width, 4) + 1):
        for rows in tile_rows(found.m, (given.target.vector_registers - 2 - vectors) // vectors):
            count = given.m // rows * -(-given.n // (width * vectors))
            tiles.append((count * step_cycles(rows, vectors, given.target), rows, vectors))
    return [(rows, vectors) for _, rows, vectors in sorted(tiles)[:TILES]]


def _reads_image(found: Contraction, given: Operands, depth: Depth) -> bool:
    """Whether all rows of a contraction are windows of one image, of sizes that are known."""
    if given.outer > 1 or depth.is_ragged or any(is_open(r) for r in (*found.m, *found.n)):
        return False
    return bool(image_axes(found, depth.inside, depth.sizes, 1))


def _is_long(body: UOp, reduce: UOp) -> bool:
    """Whether what becomes of the sums is so much code that there should be one copy of it."""
    outside = topological((body,), stop=(reduce,))
    inside = [node.op for node in outside if node.op.elementwise and node.dtype is not dtypes.weakint]
    return sum(op.operations for op in inside) > MOST_COPIED


def _tiles(given: Operands, width: int, most: int, way_a: Way, count: int) -> list[tuple[int, int]]:
    """Register tiles, also of rows that are evenly spaced where they are."""
    even = given.even_rows(given.target.vector_registers) if way_a is Way.DIRECT else frozenset()
    return choose_tiles(given.m, given.n, width, most, given.target, count, even)


def choose_tiles(
    m: int,
    n: int,
    width: int,
    most_vectors: int,
    target: Target,
    count: int = TILES,
    even: Collection[int] = (),
) -> list[tuple[int, int]]:
    """Rows and vectors of register tiles: few loads for many products, and little beyond the edges; best first.
    `even`: numbers of rows, of which some tiles are to have one."""
    found: list[tuple[float, int, int]] = []
    for vectors in range(1, most_vectors + 1):
        most = max(min((target.vector_registers - 2 - vectors) // vectors, m), 1)
        for rows in range(max(most // 2, 1), most + 1):
            tiles = -(-m // rows) * -(-n // (width * vectors))
            found.append((tiles * step_cycles(rows, vectors, target), -rows, vectors))
    found.sort()
    best = found[:count] + [tile for tile in found[count:] if -tile[1] in even][:count]
    return [(-rows, vectors) for _, rows, vectors in best]


def depths(ranges: list[UOp], itemsize: int, sizes: tuple[int, ...]) -> list[Depth]:
    """Blocks of k of several sizes."""
    found = [choose_depth(ranges, most // itemsize) for most in sizes]
    return list({(depth.split, depth.length): depth for depth in found}.values())


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


def _direct_depth(found: Contraction, depth: Depth, m: int, deep: int) -> Depth:
    """Blocks of k where columns are read where they are: short, but not too many of them; in panels, as in copies."""
    if _is_in_panels(found):
        return depth
    return choose_depth(found.along, max(DIRECT_DEPTH if m > 2 else DIRECT_DEPTH // 2, deep // MOST_BLOCKS))


def _ways_of_a(found: Contraction, depth: Depth) -> list[Way]:
    """Rows may be read where they are if nothing has to be computed, and they lie along k or across it."""
    along = _is_contiguous(found.a, depth.inside)
    across = bool(found.m) and _is_contiguous(found.a, found.m)
    copied = Way.ACROSS if across and not along else Way.ROWS
    is_plain = _is_read_as_it_is(found.a, depth)
    if not found.m:
        return [Way.DIRECT] if is_plain and along else [copied]
    if is_open(found.m[0]):  # the last rows are not as far apart as others: 1.9 -> 4.0 ms for 768 x 512 x 512
        return [copied]
    return [Way.DIRECT, copied] if is_plain and (along or (across and len(depth.inside) == 1)) else [copied]


def _is_contiguous(operand: UOp, ranges: list[UOp]) -> bool:
    """Whether an operand lies along ranges, the last one fastest, element by element."""
    return merged(operand, ranges) == len(ranges) and is_unit(operand, ranges[-1])


def _is_read_as_it_is(operand: UOp, depth: Depth) -> bool:
    """Whether an operand is what is in memory, all of it: nothing is computed, and nothing left out."""
    return operand.op is ops.INDEX and not is_gated(operand) and not depth.is_ragged


def _copy_of_a(found: Contraction, depth: Depth, way: Way, rows: int, width: int) -> float:
    """Vectors for each element of the panel of a."""
    if way is Way.ROWS:
        return copying(found.a, depth.inside) if is_unit(found.a, depth.inside[-1]) else 1
    return -(-rows // width) / rows if way is Way.ACROSS else 0


def ways_of_b(found: Contraction, depth: Depth, m: int, is_wide: bool) -> list[Way]:
    """How columns may be read or copied, the likeliest first."""
    if _is_contiguous(found.b, found.n):
        most = MOST_PANEL_ROWS if _is_in_panels(found) else FEW_ROWS
        has_few_rows = m <= most and (len(depth.inside) == 1 or _is_in_panels(found))
        is_direct = is_wide and has_few_rows and _is_read_as_it_is(found.b, depth)
        return [Way.DIRECT, Way.ACROSS] if is_direct else [Way.ACROSS]
    is_linear = merged(found.b, found.n) == len(found.n)
    if is_linear and is_wide and not depth.is_ragged and can_transpose(found.b, depth.inside):
        return [Way.TRANSPOSED, Way.ACROSS]
    if not is_linear and size_of(found.n[-1]) >= LEAST_NEIGHBOURS:
        return [Way.WINDOWS]
    return [Way.ACROSS]


def _copy_of_b(found: Contraction, way: Way) -> float:
    """Vectors for each element of the panel of b."""
    if way is Way.TRANSPOSED:
        return TRANSPOSE_VECTORS / ALONE_VECTORS
    if way is Way.DIRECT:
        return 0
    return copying(found.b, found.n) if is_unit(found.b, found.n[-1]) else 1


def _blocked(tiling: Tiling, found: Contraction, given: Operands, itemsize: int) -> Iterator[Tiling]:
    """The tiling with blocks of rows and columns that fit the caches, and that the cores can share."""
    target, deep = given.target, tiling.depth.total * itemsize
    count = -(-given.m // tiling.rows)
    room = min(target.l2_bytes * 5 // 8, MOST_ROWS_BYTES) - tiling.columns * deep  # the cache is not ours alone
    most_panels = max(room // (tiling.rows * deep), 1)
    without_misses = max(CPU_CYCLES.first_tlb_pages // tiling.rows, 1)
    few_panels = min(without_misses, most_panels) if tiling.depth.total <= SHORT_DEPTH else most_panels
    shares = (1, target.cores) if target.cores > 1 else (1,)
    for row_items, most in product(sorted({min(share, count) for share in shares}), {few_panels, most_panels}):
        for share in shares:
            here = -(-count // row_items)
            inside = -(-here // most)
            of_rows = replace(tiling, panels=-(-here // inside), inside=inside, row_items=row_items)
            yield from _with_columns(of_rows, found, given, deep, share)
            if inside > 1:  # rows stay, columns are copied for each block
                of_rows = replace(of_rows, inside=1, row_items=row_items * inside)
                yield from _with_columns(of_rows, found, given, deep, share)


def _with_columns(tiling: Tiling, found: Contraction, given: Operands, deep: int, share: int) -> Iterator[Tiling]:
    """The tiling with blocks of columns, such that there is work for `share` cores, and sums do not take too much."""
    n, width = given.n, tiling.columns
    most = min(MOST_COLUMNS_BYTES if tiling.inside > 1 else given.target.l2_bytes // 5, MOST_COLUMNS_BYTES) // deep
    if tiling.way_b is Way.DIRECT:
        most = n
    if tiling.way_b is Way.WINDOWS:
        run = size_of(found.n[-1])
        lines = min(max(most // run, -(-width // run), 1), n // run)
        span = -(-(n // run) // -(-(n // run) // lines)) * run
    else:
        tiles = -(-n // width)
        parts = max(-(-n // max(most, width)), min(share, tiles) if given.outer * given.batches == 1 else 1)
        span = min(-(-tiles // parts) * width, n)
    blocks = -(-n // span) * given.outer
    parts = share * OPEN_PARTS if share > 1 and is_open(found.n[0]) else share
    tiling = replace(tiling, span=span, column_blocks=blocks, group=-(-blocks // min(parts, blocks)))
    if tiling.waits and not tiling.in_place:
        rows = tiling.panels * tiling.rows * tiling.tiles * width * given.itemsize  # bytes of sums of a block of both
        if tiling.inside > 1:
            inside = max(min(MOST_SUMS_BYTES // rows, tiling.inside), 1)
            row_items = tiling.row_items * -(-tiling.inside // inside)
            blocks_of_rows = tiling.row_items * tiling.inside
            tiling = replace(tiling, inside=-(-blocks_of_rows // row_items), row_items=row_items, group=1)
        else:
            tiling.group = max(min(MOST_SUMS_BYTES // rows, tiling.group), 1)
    elif tiling.inside > 1:
        tiling.group = 1
    tiling.group = -(-tiling.column_blocks // tiling.groups)
    if stack_elements(tiling) * deep // tiling.depth.total <= MOST_STACK_BYTES:
        yield tiling


def stack_elements(tiling: Tiling) -> int:
    """About how many elements the panels and the sums that wait have."""
    rows, columns, depth = tiling.panels * tiling.rows, tiling.tiles * tiling.columns, tiling.depth.total
    sums = tiling.inside * rows * tiling.group * columns if tiling.waits and not tiling.in_place else 0
    return (rows * depth if tiling.copy_a else tiling.image) + (columns * depth if tiling.copy_b else 0) + sums
