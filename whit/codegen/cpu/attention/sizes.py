"""How attention is cut into blocks: sizes, and where the rows, keys and columns of a block are.

A tile is what registers hold. A block of rows is several tiles; slots number its rows. Where rows are no multiple of a
tile, the last tile is moved back and computes some rows again, which are not stored again (`AttentionSizes.is_new`).
"""

from __future__ import annotations

from math import prod

from whit.codegen.cpu.panel_sizes import choose_tiles
from whit.codegen.passes.lanes import lane_numbers
from whit.codegen.strategy.fill_panels import FIRST_ID, PADDING, ZERO, Values
from whit.ir import ops
from whit.ir.args import Memory, RangeKind, StageArg
from whit.ir.nesting import Owner
from whit.ir.uop import UOp, as_index, make
from whit.kernel.attention_bounds import find_bounds
from whit.kernel.attention_form import AttentionForm
from whit.kernel.ranges import free_ranges, size_of, sizes_of
from whit.target import Target

PANEL_ELEMENTS = 12 << 10  # where all keys are one block: 18 rows of 512. 12.6 -> 10.6 ms beside 48 rows
SKIPPING_BLOCKS = 8  # of rows where each has keys that it does not see, at least. 4 x 4 x 128 x 64: 3.8 -> 1.9 ms
MANY_ROWS = 192  # of a block where they are not, and columns are copied for each block of rows
MOST_KEYS, FEW_KEYS = 4096, 256  # of one block; of a block, if there are several
MOST_BYTES = 1 << 21  # of the keys of one block: they lie on the stack
ITEMS = 4  # for each core, so that none waits long for another
BUFFER_IDS = FIRST_ID + 1000


class AttentionSizes:
    """The sizes of everything, and places in it."""

    def __init__(self, body: UOp, form: AttentionForm, width: int, target: Target) -> None:
        self.body, self.form, self.width = body, form, width
        self.m, self.n, self.wide = (size_of(r) for r in (form.rows, form.keys, form.columns))
        self.registers = target.vector_registers
        most = min(self.wide // width, 4)
        self.rows, self.vectors = choose_tiles(self.m, self.wide, width, most, target)[0]
        self.size = self.vectors * width  # columns of a tile
        self.across = min(self.vectors, self.n // width)  # vectors of a tile of scores
        self.tile = self.across * width
        deep = sum(prod(sizes_of(list(inner.along))) for inner in form.inner)
        fits = self.n <= MOST_KEYS and self.n * deep * (target.vector_bytes // width) <= MOST_BYTES
        self.span = self.n if fits or form.transposed else FEW_KEYS // self.tile * self.tile  # keys of a block
        self.chunks = -(-self.n // self.span)
        self.pitch = -(-self.span // self.tile) * self.tile + PADDING
        count = -(-self.m // self.rows)
        room = 2 * PANEL_ELEMENTS if form.transposed else PANEL_ELEMENTS  # those sum over the rows of a block
        rows = MANY_ROWS if self.chunks > 1 else room // self.pitch
        self.bounds = find_bounds(form)
        if not self.bounds.are_open:
            rows = min(rows, -(-self.m // SKIPPING_BLOCKS))
        self.panels = min(max(rows // self.rows, 1), count)  # tiles of rows in a block
        self.slots = self.panels * self.rows
        self.row_blocks = -(-count // self.panels)
        self.batch = sorted(free_ranges(body)[body] - {form.rows, form.columns}, key=lambda r: r.arg.order)
        self._share(prod(sizes_of(self.batch)), target.cores)
        self.buffers = self.loops_so_far = 0

    def _share(self, heads: int, cores: int) -> None:
        """What the cores take at a time: a part of the blocks of rows of a head, or all, if sums go over all rows."""
        parts = 1 if self.form.transposed else min(-(-ITEMS * cores // heads), self.row_blocks)
        self.each = -(-self.row_blocks // parts)
        self.parts = -(-self.row_blocks // self.each)
        total = heads * self.parts
        self.core = core = UOp.range(total, 0, RangeKind.CORE, Owner.CORE) if total > 1 else ZERO
        self.values: Values = {}
        left = self.parts
        for r in reversed(self.batch):
            self.values[r] = core // left % size_of(r)
            left *= size_of(r)
        self.step = loop(self.each, 0, Owner.ROUND)
        self.block = core % self.parts * self.each + self.step

    def __str__(self) -> str:
        seen = f"{self.chunks} of {self.span} keys, {self.bounds}"
        return (
            f"attention by blocks: tiles of {self.rows} rows x {self.vectors} vectors of {self.width}; "
            f"{self.row_blocks} blocks of {self.slots} rows, {seen}"
        )

    def row(self, panel: UOp) -> UOp:
        """The first row of a tile."""
        return as_index(self.m - self.rows).minimum((self.block * self.panels + panel) * self.rows)

    def is_new(self, panel: UOp, row: UOp) -> UOp | None:
        """Whether a row is this tile's to store; None: all are."""
        if self.parts * self.each * self.slots == self.m:
            return None
        return row >= (self.block * self.panels + panel) * self.rows

    def column(self, tile: UOp, vector: int) -> UOp:
        """The columns of a vector of a tile; the last tile ends with the columns."""
        first = as_index(self.wide - self.size).minimum(tile * self.size)
        return first + (lane_numbers(self.width) + vector * self.width)

    def gate(self, panel: UOp, row: UOp, tile: UOp, column: UOp) -> UOp | None:
        """What of a vector is this tile's to store; None: all of it."""
        found = self.is_new(panel, row)
        if self.wide % self.size == 0:
            return found
        is_mine = column >= tile * self.size
        return is_mine if found is None else found & is_mine

    def buffer(self, like: UOp, size: int) -> UOp:
        """Memory of a core."""
        self.buffers += 1
        return UOp.buffer(BUFFER_IDS + self.buffers, like.dtype, (size,), memory=Memory.SHARED)

    def loops(self, *counts: int | UOp) -> list[UOp]:
        """Loops that one phase has to itself."""
        first = self.loops_so_far
        self.loops_so_far += len(counts)
        return [loop(count, first + i, Owner.PHASE) for i, count in enumerate(counts)]

    def deep_loop(self, count: int | UOp) -> UOp:
        """The innermost loop of the phase that was begun last."""
        self.loops_so_far += 1
        return UOp.range(count, self.loops_so_far - 1, owner=Owner.PHASE)


def loop(count: int | UOp, id: int, owner: Owner) -> UOp:
    """A range; 0 for one that would run once."""
    return UOp.range(count, id, owner=owner) if not isinstance(count, int) or count > 1 else ZERO


def staged(memory: UOp, stores: list[UOp], loops: list[UOp]) -> UOp:
    """Memory after stores over loops."""
    ranges = [r for r in loops if r.op is ops.RANGE]
    return memory.after(make(ops.STAGE, (UOp.group(*stores), *ranges), StageArg(Memory.SHARED)))
