"""Contractions through panels (GEMM): a tile of sums in registers, operands copied into the order in which it reads.

    c[m, n] = sum over k of a[m, k] * b[k, n]

    for some blocks of rows and a group of blocks of columns, on the cores:
        for each block of k:
            for each block of columns: copy them into a panel
                for each block of rows: copy them into a panel
                    for each tile of columns, for each tile of rows:
                        for each k:  a tile of sums += column of the panel of a * row of the panel of b
                        add the tile to the partial sums in memory
        for each tile: store what the epilogue makes of its sums

If there is one block of rows, it is copied before the columns are: a panel is filled where all it depends on is known.
With one block of k and a short epilogue there are no partial sums: results are stored from registers. Where the
epilogue reads nothing that the result may overwrite, partial sums are kept in the result's own memory. The last tile of
rows and of columns is moved back so that it ends at the edge; what it computes again is stored again, the same. Where
elements of the size of the result are read, they may be what the result overwrites: there each element is stored once.

Rows or columns of a symbolic size are tiled as if there were as many as there can be. Loops over tiles end with the
last one that has some; past its edge nothing is stored, and no memory is read.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from whit.codegen.cpu.dot_words import prepared, product_of, too_much
from whit.codegen.cpu.panel_sizes import Tiling, Way
from whit.codegen.passes.lanes import all_of, lane_numbers, masked
from whit.codegen.strategy.fill_panels import (
    FIRST_ID,
    ZERO,
    Filler,
    Values,
    clamped,
    first_row,
    flat,
    mask_of,
    run_start,
    tiles_left,
    unflat,
)
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.args import Memory, RangeKind, StageArg
from whit.ir.map_graph import map_graph
from whit.ir.nesting import Owner
from whit.ir.uop import UOp, as_index, const, make
from whit.kernel.contraction import Contraction, end_of, may_overwrite
from whit.kernel.ranges import size_of, sizes_of

WAITING = FIRST_ID + 10  # the buffer of the partial sums


def apply_panels(body: UOp, found: Contraction, tiling: Tiling) -> UOp:
    """The tiled kernel: a GROUP of stores that read panels."""
    return _Apply(body, prepared(found), tiling).stores()


class _Tile:
    """Where a tile is: the loops around it, its first row and column, which of its elements no tile before it has."""

    def __init__(self, found: Contraction, tiling: Tiling, core: UOp, owner: Owner) -> None:
        self.group, self.inside = _loop(tiling.group, 1, owner), _loop(tiling.inside, 2, owner)
        items = tiling.row_items * tiling.groups
        self.block = core % items // tiling.groups * tiling.inside + self.inside
        n = prod(sizes_of(found.n))
        blocks = -(-n // tiling.span)
        new = core % tiling.groups * tiling.group + self.group
        number = as_index(tiling.column_blocks - 1).minimum(new)
        self.outer = unflat(number // blocks, found.outer)
        self.start = as_index(n - tiling.span).minimum(number % blocks * tiling.span)
        self.tile = _loop(tiles_left(found.n, self.start, tiling.columns, tiling.tiles), 3, owner)
        self.column = self.start + as_index(max(tiling.span - tiling.columns, 0)).minimum(self.tile * tiling.columns)
        before = self.block * tiling.panels
        first = before * tiling.rows
        self.panel = _loop(tiles_left(found.m, first, tiling.rows, tiling.panels), 4, owner)
        self.new_row = first + self.panel * tiling.rows
        self.row = first_row(found.m, tiling.rows, before + self.panel)
        self.new_columns = (number % blocks * tiling.span, self.start + self.tile * tiling.columns)
        self.is_new_block = new < tiling.column_blocks
        self.has_whole_rows = prod(sizes_of(found.m)) == tiling.row_items * tiling.inside * tiling.panels * tiling.rows
        whole = blocks * tiling.span == n and tiling.tiles * tiling.columns == tiling.span
        self.has_whole_columns = whole and tiling.groups * tiling.group == tiling.column_blocks

    def is_new(self, row: UOp, column: UOp) -> UOp | None:
        """Whether an element is this tile's to store; None if all are."""
        from_block, from_tile = self.new_columns
        gates = [] if self.has_whole_rows else [row >= self.new_row]
        if not self.has_whole_columns:
            gates.append((column >= from_block) & (column >= from_tile) & self.is_new_block)
        return gates[0] & gates[1] if len(gates) == 2 else gates[0] if gates else None


class _Apply:
    def __init__(self, body: UOp, found: Contraction, tiling: Tiling) -> None:
        self.body, self.found, self.tiling = body, found, tiling
        self.core, self.values = _cores(found, tiling)
        self.lanes = lane_numbers(tiling.width)
        self.is_once = may_overwrite(body, found.reduce)

    def stores(self) -> UOp:
        tiling = self.tiling
        stores: list[UOp] = []
        tile = _Tile(self.found, tiling, self.core, Owner.TILE)
        if not tiling.waits:
            sums = self.sums(tile, ZERO)
            for u in range(tiling.rows):
                for c in range(tiling.vectors):
                    stores.extend(self.stored(tile, as_index(u), c, sums(u, c)))
            return UOp.group(*stores)
        if tiling.in_place:
            return self.stores_in_place()
        memory = self.waiting()
        if tiling.is_turned:
            return self.stores_transposed(memory, tile)
        row = _loop(tiling.rows, 5, Owner.TILE)
        for c in range(tiling.vectors):
            stores.extend(self.stored(tile, row, c, memory.index(self.place(tile, row, c))))
        return UOp.group(*stores)

    def stores_transposed(self, memory: UOp, tile: _Tile) -> UOp:
        """Sums that wait row after row are stored with rows as lanes: squares of them are turned."""
        tiling, found = self.tiling, self.found
        count = tiling.panels * tiling.rows
        square = _loop(tiling.vectors, 5, Owner.TILE) * tiling.width
        start = run_start(_loop(-(-count // tiling.width), 6, Owner.TILE), count, tiling.width)
        rows = start + lane_numbers(tiling.width)
        stores: list[UOp] = []
        for c in range(tiling.width):
            column = tile.column + square + c
            at = {**self.values, **unflat(tile.block * count + rows, found.m), **unflat(column, found.n)}
            place = ((tile.group * tiling.tiles + tile.tile) * count + rows) * tiling.columns + (square + c)
            stores.extend(with_total(self.body, found.reduce, memory.index(place), at).src)
        return UOp.group(*stores)

    def stores_in_place(self) -> UOp:
        """Sums wait where the result will be: the last block of k stores what becomes of them."""
        tiling = self.tiling
        block = _loop(tiling.depth.blocks, 0, Owner.DEPTH)
        tile = _Tile(self.found, tiling, self.core, Owner.DEPTH)
        sums = self.sums(tile, block)
        stores: list[UOp] = []
        for u in range(tiling.rows):
            for c in range(tiling.vectors):
                stores.extend(self.stored(tile, as_index(u), c, sums(u, c), block))
        return UOp.group(*stores)

    def sums(self, tile: _Tile, block: UOp) -> Callable[[int, int], UOp]:
        """The sum of vector c of row u of a tile over one block of k."""
        depth = self.tiling.depth
        loops, steps = self.steps()
        reads = []
        for places in steps:
            filler = Filler(self.found, self.tiling, self.values, depth.starts(block))
            k = flat(places, depth.sizes) if len(places) > 1 else places[0]
            read_a = filler.read_a(tile.block, tile.panel, k, places)
            reads.append((read_a, filler.read_b(tile.start, tile.outer, tile.tile, k)))
        along = UOp.range(depth.total, 9, owner=Owner.DEPTH)
        filler = Filler(self.found, self.tiling, self.values, depth.starts(block))
        read_once = filler.read_b(tile.start, tile.outer, tile.tile, along)

        def total(u: int, c: int) -> UOp:
            product, *others = [product_of(self.found, read_a(u), read_b(c)) for read_a, read_b in reads]
            for other in others:
                product = product + other
            beyond = too_much(self.found, read_once(c))
            found = product.reduce(ops.ADD, ranges=loops)
            return found if beyond is None else found - beyond.reduce(ops.ADD, ranges=(along,))

        return total

    def steps(self) -> tuple[tuple[UOp, ...], list[list[UOp]]]:
        """Loops along a block of k, and the places in it of the steps that are written out.

        Of a window none is: steps would keep the elements that they share, and there are no registers for them.
        """
        depth, steps = self.tiling.depth, self.tiling.steps
        if self.tiling.way_a is not Way.IMAGE:
            k = UOp.range(depth.total // steps, 10, owner=Owner.DEPTH)
            return (k,), [[k * steps + step] for step in range(steps)]
        places = [_loop(size, 10 + i, Owner.DEPTH) for i, size in enumerate(depth.sizes)]
        return tuple([place for place in places if place.op is ops.RANGE]), [places]

    def place(self, tile: _Tile, u: UOp, c: int) -> UOp:
        """Where sums wait: every tile has a place of its own."""
        tiling = self.tiling
        number = ((tile.group * tiling.inside + tile.inside) * tiling.tiles + tile.tile) * tiling.panels + tile.panel
        return (number * tiling.rows + u) * tiling.columns + (self.lanes + c * tiling.width)

    def waiting(self) -> UOp:
        """The memory of the sums when all blocks of k are done."""
        tiling, found = self.tiling, self.found
        tiles = tiling.group * tiling.inside * tiling.tiles * tiling.panels
        memory = UOp.buffer(WAITING, found.reduce.dtype, (tiles * tiling.rows * tiling.columns,), memory=Memory.SHARED)
        block = _loop(tiling.depth.blocks, 0, Owner.DEPTH)
        tile = _Tile(found, tiling, self.core, Owner.DEPTH)
        sums = self.sums(tile, block)
        stores = []
        for u in range(tiling.rows):
            for c in range(tiling.vectors):
                place, total = self.place(tile, as_index(u), c), sums(u, c)
                if tiling.depth.blocks > 1:
                    total = total + memory.index(place, gate=block > 0)
                stores.append(memory.store(total, place))
        loops = [r for r in (block, tile.group, tile.inside, tile.tile, tile.panel) if r.op is ops.RANGE]
        return memory.after(make(ops.STAGE, (UOp.group(*stores), *loops), StageArg(Memory.SHARED)))

    def stored(self, tile: _Tile, u: UOp, c: int, total: UOp, block: UOp | None = None) -> tuple[UOp, ...]:
        """The kernel's stores for a vector of sums: of all of k, or of a block, to be added to those before it."""
        row, column = tile.row + u, tile.column + (self.lanes + c * self.tiling.width)
        m, n = self.found.m, self.found.n
        at = {**self.values, **tile.outer, **unflat(clamped(row, m), m), **unflat(column, n)}
        copied = with_total(self.body, self.found.reduce, total, at)
        if block is not None:
            target, _, position = copied.src[0].src
            total = total + target.index(position, gate=block > 0)
            value = with_total(self.body, self.found.reduce, total, at).src[0].src[1]
            is_last = block >= self.tiling.depth.blocks - 1
            copied = UOp.group(target.store(is_last.where(value, total) if value is not total else total, position))
        mask, end = mask_of(self.found, self.tiling, c, column), end_of(m)
        group = (copied if mask is None else masked(copied, mask)).src
        is_new = tile.is_new(row, column) if self.is_once or block is not None else None
        gate = all_of(is_new, None if end is None else row < end)
        return group if gate is None else tuple([_stored_where(gate, store) for store in group])


def _loop(count: int | UOp, id: int, owner: Owner) -> UOp:
    return ZERO if count == 1 else UOp.range(count, id, owner=owner)


def _stored_where(gate: UOp, store: UOp) -> UOp:
    """The store in some lanes only."""
    target, value, position, *given = store.src
    return target.store(value, position, combine=store.arg.combine, gate=all_of(gate, *given))


def _cores(found: Contraction, tiling: Tiling) -> tuple[UOp, Values]:
    """The range that the cores share, and the batch ranges by it."""
    left = tiling.row_items * tiling.groups
    total = prod(sizes_of(found.batch)) * left
    core = UOp.range(total, 0, RangeKind.CORE, Owner.CORE) if total > 1 else const(dtypes.weakint, 0)
    values: Values = {}
    for r in reversed(found.batch):
        values[r] = core // left % size_of(r)
        left *= size_of(r)
    return core, values


def with_total(body: UOp, reduce: UOp, total: UOp, at: Values) -> UOp:
    """The stores with another value for the reduction, at other positions."""
    return map_graph(body, lambda node, src: None, {**at, reduce: total})
