"""Copies of the operands of a contraction, in the order in which the register tile reads them.

A panel is SHARED memory, filled over ranges of its own: AFTER(BUFFER, STAGE(GROUP(stores), ranges)). What is copied is
the operand's expression, whatever it is: a cast, a scale, the window of a convolution.

Runs of neighbours are copied by vectors. Where a run is no multiple of a vector, the last one is moved back, and writes
again what is there. A block of k that ends outside of its range is filled with zeros there, in both panels. Past an end
of rows or columns that is known when the kernel runs, anything may be in a panel: the last row again, or zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from whit.codegen.cpu.images import image_axes
from whit.codegen.cpu.panel_sizes import Tiling, Way
from whit.codegen.passes.lanes import all_of, lane_numbers, masked
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.args import Memory, StageArg
from whit.ir.map_graph import map_graph
from whit.ir.nesting import Owner
from whit.ir.op import Sources
from whit.ir.uop import UOp, as_index, const, make
from whit.kernel.contraction import Contraction, end_of, is_unit, merged
from whit.kernel.ranges import replace_ranges, size_of, sizes_of

FIRST_ID = 2_000_000  # of the buffers of panels
MOST_LOOPS = 100  # that fill a panel
PADDING = 16  # elements: rows of an even number of cache lines would fall into few sets of the cache

Read = Callable[[int], UOp]
Values = dict[UOp, UOp]


class Panel:
    """A panel while it is described: the stores that fill it, and the ranges over which they run."""

    def __init__(self, number: int, value: UOp, size: int) -> None:
        self.memory = UOp.buffer(FIRST_ID + number, value.dtype, (size,), memory=Memory.SHARED)
        self.number = number
        self.ranges: list[UOp] = []
        self.stores: list[UOp] = []

    def loop(self, count: int | UOp) -> UOp:
        """A range to fill over."""
        if count == 1:
            return ZERO
        self.ranges.append(UOp.range(count, self.number * MOST_LOOPS + len(self.ranges), owner=Owner.FILL))
        return self.ranges[-1]

    def store(self, value: UOp, position: UOp, width: int) -> None:
        """Part of the filling; a value that is the same in all lanes is written to each."""
        if width > 1 and not value.shape:
            value = UOp.stack(*([value] * width))
        self.stores.append(self.memory.store(value, position))

    def filled(self) -> UOp:
        """The memory with everything in it."""
        fill = make(ops.STAGE, (UOp.group(*self.stores), *self.ranges), StageArg(Memory.SHARED))
        return self.memory.after(fill)


def flat(places: list[UOp], sizes: list[int]) -> UOp:
    """One position along several ranges."""
    position = ZERO
    for place, size in zip(places, sizes, strict=True):
        position = position * size + place
    return position


def unflat(position: UOp, ranges: list[UOp]) -> Values:
    """Where each of several ranges is at one position along all."""
    found: Values = {}
    after = 1
    for i, r in reversed(list(enumerate(ranges))):
        found[r] = position // after if i == 0 else position // after % size_of(r)
        after *= size_of(r)
    return found


def as_one(position: UOp, ranges: list[UOp]) -> Values:
    """The same for an operand that is contiguous along them: the last one alone moves, beyond its end."""
    return {**dict.fromkeys(ranges[:-1], ZERO), ranges[-1]: position}


def run_width(size: int, width: int) -> int:
    """Lanes for a run of neighbours."""
    return min(width, 1 << (size.bit_length() - 1))


def run_start(vector: UOp, size: int, width: int) -> UOp:
    """Where a vector of a run begins; the last one is moved back."""
    return vector * width if size % width == 0 else as_index(size - width).minimum(vector * width)


def mask_of(found: Contraction, tiling: Tiling, vector: int, column: UOp) -> UOp | None:
    """The lanes of a vector of the tile that are columns, where not all need be."""
    n, end = prod(sizes_of(found.n)), end_of(found.n)
    if end is not None:
        return column < end
    return column < n if n < (vector + 1) * tiling.width else None


def clamped(position: UOp, ranges: list[UOp]) -> UOp:
    """The position, or the last one there is."""
    end = end_of(ranges)
    return position if end is None else position.minimum(end - 1)


def first_row(m: list[UOp], rows: int, tile: UOp) -> UOp:
    """The first row of a tile; the last tile is moved back to end with the rows. Where tiles are whole it is a multiple
    of their rows, in the expression too: the lines of an image that they are in follow from it without divisions."""
    size = prod(sizes_of(m))
    if size % rows == 0:
        return as_index(size // rows - 1).minimum(tile) * rows
    return as_index(size - rows).minimum(tile * rows)


def tiles_left(ranges: list[UOp], start: UOp, step: int, most: int) -> int | UOp:
    """How many of `most` tiles begin inside of the ranges."""
    end = end_of(ranges)
    return most if end is None else ((end - start + (step - 1)) // step).maximum(0).minimum(most)


class Filler:
    """Fills the panels of one contraction. `values` are those of the ranges outside, `starts` those of a block of k.
    Contractions of one kernel number their panels from different numbers on."""

    def __init__(self, found: Contraction, tiling: Tiling, values: Values, starts: Values, number: int = 0) -> None:
        self.found, self.tiling, self.values, self.starts = found, tiling, values, starts
        self.number = number
        self.depth = tiling.depth

    def row(self, block: UOp, panel: UOp) -> UOp:
        """The first row of a tile; the last tile ends with the rows."""
        return first_row(self.found.m, self.tiling.rows, block * self.tiling.panels + panel)

    def panels(self, block: UOp) -> int | UOp:
        """The tiles of a block of rows."""
        tiling = self.tiling
        return tiles_left(self.found.m, block * tiling.panels * tiling.rows, tiling.rows, tiling.panels)

    def rows_at(self, row: UOp) -> Values:
        """The ranges of a row."""
        return unflat(clamped(row, self.found.m), self.found.m)

    def inside(self, places: Values, gate_of: UOp | None = None) -> tuple[Values, UOp | None]:
        """The ranges of k at these places of a block, and whether that is inside of them."""
        at = {r: self.starts[r] + places.get(r, ZERO) for r in self.depth.ranges}
        split = self.depth.ranges[self.depth.split]
        if not self.depth.is_ragged:
            return at, None
        return at, (at[split] if gate_of is None else gate_of) < size_of(split)

    def value(self, operand: UOp, at: Values, gate: UOp | None) -> UOp:
        """An operand somewhere; 0 outside."""
        value = replace_ranges(operand, {**self.values, **at}, {})
        if gate is None:
            return value
        return gate.where(gated(value, gate), const(value.dtype, 0))

    def split_gate(self, merged_ranges: list[UOp], position: UOp) -> UOp | None:
        """Where the range that is split stands when the last ranges are walked as one."""
        split = self.depth.ranges[self.depth.split]
        if split not in merged_ranges:
            return None
        after = prod(sizes_of(merged_ranges[1:]))
        return self.starts[split] + position // after

    # ---- rows

    def read_a(self, block: UOp, panel: UOp, k: UOp, places: Sequence[UOp] = ()) -> Read:
        """The element of row u of the tile, at place k of the block; for images, by the places of its ranges."""
        if self.tiling.way_a is Way.IMAGE:
            return self._a_from_image(block, panel, places)
        if self.tiling.way_a is Way.DIRECT:
            row = self.row(block, panel)
            at, _ = self.inside(as_one(k, self.depth.inside))
            return lambda u: self.value(self.found.a, {**at, **self.rows_at(row + u)}, None)
        if self.tiling.way_a is Way.ACROSS:
            return self._a_across(block, panel, k)
        return self._a_by_rows(block, panel, k)

    def _a_by_rows(self, block: UOp, panel: UOp, k: UOp) -> Read:
        found, tiling, depth = self.found, self.tiling, self.depth
        rows, pitch = tiling.rows, depth.total + PADDING
        target = Panel(self.number, found.a, tiling.panels * rows * pitch)
        p, u = target.loop(self.panels(block)), target.loop(rows)
        count = merged(found.a, depth.inside)
        lead, last = depth.inside[:-count], depth.inside[-count:]
        run = prod(depth.sizes[len(lead) :])
        width = run_width(run, tiling.width) if is_unit(found.a, last[-1]) else 1
        start = run_start(target.loop(-(-run // width)), run, width)
        places = [target.loop(size) for size in depth.sizes[: len(lead)]]
        lane = start + lane_numbers(width) if width > 1 else start
        at, gate = self.inside(
            {**dict(zip(lead, places, strict=True)), **as_one(lane, last)}, self.split_gate(last, lane)
        )
        at |= self.rows_at(self.row(block, p) + u)
        place = (p * rows + u) * pitch + flat([*places, lane], [*depth.sizes[: len(lead)], run])
        target.store(self.value(found.a, at, gate), place, width)
        memory = target.filled()
        return lambda u: memory.index((panel * rows + u) * pitch + k)

    def _a_across(self, block: UOp, panel: UOp, k: UOp) -> Read:
        """Where rows are neighbours in memory: vectors of them, k after k.

        A vector has more lanes than the tile has rows left: the others are where the rows of the next k come to lie,
        and are overwritten by them, or lie between two tiles.
        """
        found, tiling, depth = self.found, self.tiling, self.depth
        m, end, rows = prod(sizes_of(found.m)), end_of(found.m), tiling.rows
        width = run_width(m, tiling.width)
        pitch = depth.total * rows + tiling.width
        target = Panel(self.number, found.a, tiling.panels * pitch)
        places = [target.loop(size) for size in depth.sizes]
        p = target.loop(self.panels(block))
        at, gate = self.inside(dict(zip(depth.inside, places, strict=True)))
        for start in range(0, rows, width):
            row = self.row(block, p) + (lane_numbers(width) + start)
            place = p * pitch + flat(places, depth.sizes) * rows + (lane_numbers(width) + start)
            is_row = row < end if end is not None else row < m if start + width > rows else None
            target.store(self.value(found.a, {**at, **as_one(row, found.m)}, all_of(gate, is_row)), place, width)
        memory = target.filled()
        return lambda u: memory.index(panel * pitch + k * rows + u)

    def _a_from_image(self, block: UOp, panel: UOp, places: Sequence[UOp]) -> Read:
        """What the windows of a block of rows see. The loop over vectors is outside: their masks are made once."""
        found, tiling, depth = self.found, self.tiling, self.depth
        first, *_ = found.m
        lines = tiling.panels * tiling.rows // prod(sizes_of(found.m[1:]))
        axes = image_axes(found, depth.inside, depth.sizes, lines)
        sizes = [axis.size for axis in axes]
        target = Panel(0, found.a, prod(sizes))
        width = run_width(sizes[-1], tiling.width) if is_unit(found.a, axes[-1].finest) else 1
        start = run_start(target.loop(-(-sizes[-1] // width)), sizes[-1], width)
        lane = start + lane_numbers(width) if width > 1 else start
        here = [*(target.loop(size) for size in sizes[:-1]), lane]
        at = {r: value for axis, place in zip(axes, here, strict=True) for r, value in axis.ranges_at(place).items()}
        at[first] = block * lines + at[first]
        inside, _ = self.inside(at)
        target.store(self.value(found.a, {**at, **inside}, None), flat(here, sizes), width)
        memory, along = target.filled(), dict(zip(depth.inside, places, strict=True))

        def read(u: int) -> UOp:
            local = {**along, **unflat(panel * tiling.rows + u, found.m)}
            return memory.index(flat([axis.place(local) for axis in axes], sizes))

        return read

    # ---- columns

    def read_b(self, start: UOp, outer: Values, tile: UOp, k: UOp) -> Read:
        """Vector c of the tile of columns, at place k of the block. `start`: the block's first column."""
        self.values = {**self.values, **outer}
        lanes, tiling = lane_numbers(self.tiling.width), self.tiling
        if tiling.way_b is Way.DIRECT:
            at, _ = self.inside(as_one(k, self.depth.inside))
            return lambda c: self._column(start + self.column(tile) + (lanes + c * tiling.width), at, c)
        if tiling.way_b is Way.WINDOWS:
            return self._b_by_windows(start, self.column(tile), k)
        return self._b_by_tiles(start, tile, k)

    def column(self, tile: UOp) -> UOp:
        """The first column of a tile in its block; the last tile ends with the block."""
        tiling = self.tiling
        return as_index(max(tiling.span - tiling.columns, 0)).minimum(tile * tiling.columns)

    def _column(self, column: UOp, at: Values, vector: int) -> UOp:
        value = self.value(self.found.b, {**at, **as_one(column, self.found.n)}, None)
        return self._inside_tile(value, column, vector)

    def _inside_tile(self, value: UOp, column: UOp, vector: int) -> UOp:
        """A vector of a tile of columns, with zeros past the last one."""
        mask = mask_of(self.found, self.tiling, vector, column)
        return value if mask is None else masked(value, mask)

    def _b_by_tiles(self, start: UOp, tile: UOp, k: UOp) -> Read:
        """The columns of a tile together. What lies along k is turned, in squares."""
        found, tiling, depth = self.found, self.tiling, self.depth
        columns = tiling.columns
        target = Panel(self.number + 1, found.b, tiling.tiles * depth.total * columns)
        is_transposed = tiling.way_b is Way.TRANSPOSED
        count = merged(found.b, depth.inside) if is_transposed else 1
        lead, last = depth.inside[:-count], depth.inside[-count:]
        sizes = depth.sizes[: len(lead)]
        run = prod(depth.sizes[len(lead) :])
        side = run_width(run, tiling.width) if is_transposed else 1
        width = side if is_transposed else tiling.width
        is_linear = merged(found.b, found.n) == len(found.n)
        by_range = as_one if is_linear else unflat
        is_outside = is_transposed or not is_linear  # the inner loop walks along memory, or places are computed once
        tiles = tiles_left(found.n, start, columns, tiling.tiles)
        here = target.loop(tiles) if is_outside else ZERO
        places = [target.loop(size) for size in sizes]
        vector = run_start(target.loop(-(-run // side)), run, side)
        here = here if is_outside else target.loop(tiles)
        parts = (
            [target.loop(columns // width) * width]
            if is_transposed
            else [as_index(c) for c in range(0, columns, width)]
        )
        for t in range(side):
            at, gate = self.inside({**dict(zip(lead, places, strict=True)), **as_one(vector + t, last)})
            place = (here * depth.total + flat([*places, vector + t], [*sizes, run])) * columns
            for number, part in enumerate(parts):
                lanes = lane_numbers(width) + part
                column = start + self.column(here) + lanes
                if is_transposed:  # squares are read by whole rows
                    value = self.value(found.b, {**at, **by_range(clamped(column, found.n), found.n)}, gate)
                    value = in_loop(value, here) if isinstance(tiles, UOp) else value
                else:
                    value = self.value(found.b, {**at, **by_range(column, found.n)}, gate)
                    value = self._inside_tile(value, column, number)
                target.store(value, place + lanes, width)
        memory = target.filled()
        position = (tile * depth.total + k) * columns
        return lambda c: memory.index(position + (lane_numbers(tiling.width) + c * tiling.width))

    def _b_by_windows(self, start: UOp, first: UOp, k: UOp) -> Read:
        """All columns of a block, by runs along the last range. What masks depend on are the outer loops."""
        found, tiling, depth = self.found, self.tiling, self.depth
        *lines, last = found.n
        run = size_of(last)
        pitch = (-(-tiling.span // PADDING) | 1) * PADDING + 2 * PADDING
        target = Panel(self.number + 1, found.b, depth.total * pitch)
        width = run_width(run, tiling.width)
        lane = run_start(target.loop(-(-run // width)), run, width) + lane_numbers(width)
        inner = [target.loop(size) for size in reversed(depth.sizes[1:])][::-1]
        line = target.loop(tiling.span // run)
        places = [target.loop(depth.sizes[0]), *inner]
        at, gate = self.inside(dict(zip(depth.inside, places, strict=True)))
        at |= {**unflat(start // run + line, lines), last: lane}
        target.store(self.value(found.b, at, gate), flat(places, depth.sizes) * pitch + line * run + lane, width)
        memory = target.filled()
        return lambda c: memory.index(k * pitch + first + (lane_numbers(tiling.width) + c * tiling.width))


def gated(value: UOp, gate: UOp) -> UOp:
    """A value that reads memory only where the gate holds."""

    def where_it_holds(node: UOp, src: Sources) -> UOp | None:
        if node.op is not ops.INDEX:
            return None
        memory, position, *old = src
        return memory.index(position, gate=all_of(gate, *old))

    return map_graph(value, where_it_holds)


def in_loop(value: UOp, loop: UOp) -> UOp:
    """A value that reads memory inside of a loop that may not run, even if no position depends on the loop."""

    def inside(node: UOp, src: Sources) -> UOp | None:
        return make(ops.INDEX, (src[0].after(loop), *src[1:]), node.arg) if node.op is ops.INDEX else None

    return map_graph(value, inside)


ZERO = const(dtypes.weakint, 0)
