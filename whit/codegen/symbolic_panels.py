"""Contractions of symbolic sizes through panels: `panels` for rows or columns whose number is known when a kernel runs.

    c[m, n] = sum over k of a[m, k] * b[k, n]

    for each block of rows, on the cores:
        copy the block of a into a panel            rows of the block, k innermost: or k first where a lies so
        for each tile of columns:
            copy the columns of b into a panel      k first, then the columns of the tile
            for each tile of rows in the block:
                for each k:  a tile of sums += column of the panel of a * row of the panel of b
                store the tile

A panel is SHARED memory, filled over ranges of its own: AFTER(BUFFER, STAGE(GROUP(stores), ranges)). What is copied is
the operand's expression, whatever it is: a cast, a scale, the window of a convolution. The last tile of rows and of
columns is moved back so that it ends at the edge; what it computes again is stored again, the same. Where elements of
the size of the result are read, they may be what the result overwrites: there each element is stored once. Tiles do not
move where the edge is symbolic: past it nothing is read, and nothing is stored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from whit.codegen.lanes import lane_numbers, masked
from whit.codegen.ranges import free_ranges, replace_ranges, stride
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.args import Memory, RangeKind, StageArg
from whit.ir.graph import topological
from whit.ir.sizes import reach
from whit.ir.uop import UOp, as_index, const, make
from whit.target import Target

LEAST_WORK = 1 << 15  # multiplications below which copying costs more than it gains
LEAST_SIDE = 8
MOST_PANEL = 1 << 20  # bytes of one panel; they lie on the stack
FIRST_ID = 2_000_000  # of the ranges that fill panels
ROW_PADDING = 16  # elements: rows of a power of two would share their places in the cache


@dataclass(slots=True)
class Contraction:
    """A kernel that is one sum of products of two operands over two output ranges."""

    reduce: UOp
    a: UOp  # over m, not n
    b: UOp  # over n, not m
    m: UOp
    n: UOp
    batch: list[UOp]  # the other output ranges


@dataclass(slots=True)
class Tiling:
    """Sizes: of the register tile, of a block of rows, and how many blocks the cores share."""

    rows: int
    width: int  # lanes
    vectors: int  # side by side
    panels: int  # tiles of rows in a block
    blocks: int
    parts: int  # of the columns, where there are fewer blocks than cores need
    tiles: int  # of columns in a part

    @property
    def columns(self) -> int:
        """Columns of a tile."""
        return self.width * self.vectors

    def __str__(self) -> str:
        return (
            f"contraction through panels: tiles of {self.rows} rows x {self.vectors} vectors of {self.width}; "
            f"{self.blocks} blocks of {self.panels} tiles of rows, {self.parts} parts of {self.tiles} tiles of columns"
        )


def tile_symbolic(body: UOp, target: Target) -> tuple[UOp, str] | None:
    """The tiled kernel, and how it is tiled; None if it is no contraction with a symbolic range."""
    found = find_contraction(body)
    if found is None or not (is_open(found.m) or is_open(found.n)):
        return None
    tiling = choose_tiling(found, body, target)
    return (apply_panels(body, found, tiling), str(tiling)) if tiling is not None else None


def find_contraction(body: UOp) -> Contraction | None:
    """The contraction that a kernel is, if it is one."""
    reduces = [node for node in topological((body,)) if node.op is ops.REDUCE]
    if len(reduces) != 1 or any(node.op is ops.SCAN for node in topological((body,))):
        return None
    (reduce,) = reduces
    product, *along = reduce.src
    if reduce.arg.op is not ops.ADD or product.op is not ops.MUL or not along or reduce.arg.axes:
        return None
    free = free_ranges(body)
    outputs = free[body.src[0]]
    if any(is_open(r) for r in along):
        return None
    if any(free[store] != outputs or store.arg.combine is not None for store in body.src):
        return None
    left, right = product.src
    only_left, only_right = free[left] - free[right] - set(along), free[right] - free[left] - set(along)
    if any(r not in free[left] or r not in free[right] for r in along) or not only_left or not only_right:
        return None
    stored = {r: stride(body.src[0].src[2], r, free) for r in outputs}
    m = min(only_left, key=lambda r: (_rank(stored[r]), r.arg.id))
    n = min(only_right, key=lambda r: (_rank(stored[r]), r.arg.id))
    if _rank(stored[m]) < _rank(stored[n]):
        left, right, m, n = right, left, n, m
    batch = sorted(outputs - {m, n}, key=lambda r: r.arg.id)
    if any(is_open(r) for r in batch):
        return None
    return Contraction(reduce, left, right, m, n, batch)


def _rank(step: int | None) -> int:
    """Neighbours first, then whatever has one stride."""
    if step == 1:
        return 0
    return 2 if step is None else 1


def choose_tiling(found: Contraction, body: UOp, target: Target) -> Tiling | None:
    """Sizes that fit the registers and the caches; None where panels do not pay."""
    m, n, depth = _size(found.m), _size(found.n), prod(_size(r) for r in found.reduce.src[1:])
    if m * n * depth < LEAST_WORK or min(m, n) < LEAST_SIDE or depth < LEAST_SIDE:
        return None
    itemsize = max(found.a.dtype.itemsize, found.b.dtype.itemsize, found.reduce.dtype.itemsize)
    width = target.vector_bytes // itemsize
    vectors = min(2, max(n // width, 1))
    if width < 2 or (n < width * vectors and n != width and _reads_what_it_writes(body)):
        return None
    most = min((target.vector_registers - 2 - vectors) // vectors, m)
    rows = min(range(max(most - 4, 1), most + 1), key=lambda r: (-(-m // r) * (r + 1), -r))
    if _reads_what_it_writes(body) and (m % rows or n % (width * vectors) or is_open(found.m) or is_open(found.n)):
        return None
    pitch = depth + ROW_PADDING
    row_bytes = rows * pitch * found.a.dtype.itemsize
    if max(row_bytes, depth * width * vectors * found.b.dtype.itemsize) > MOST_PANEL:
        return None
    count = -(-m // rows)
    fitting = max(min(target.l2_bytes // 2, MOST_PANEL) // row_bytes, 1)
    batches = prod(_size(r) for r in found.batch)
    blocks = max(-(-count // fitting), 1)
    wanted = target.cores if target.cores > 1 else 1
    if batches * blocks % wanted and blocks > 1:
        blocks = min(-(-blocks // wanted) * wanted, count)
    columns = -(-n // (width * vectors))
    parts = 1
    if batches * blocks < wanted:
        blocks, parts = (min(wanted, count), 1) if m >= n else (blocks, min(wanted, columns))
    tiles = -(-columns // parts)
    return Tiling(rows, width, vectors, -(-count // blocks), blocks, parts, tiles)


def _reads_what_it_writes(body: UOp) -> bool:
    """Whether computing an element twice could give another value."""
    written = {store.src[0].arg.slot for store in body.src}
    return any(node.op is ops.INDEX and node.src[0].arg.slot in written for node in topological((body,)))


def apply_panels(body: UOp, found: Contraction, tiling: Tiling) -> UOp:
    """The tiled kernel: a GROUP of stores that read panels."""
    core, values = _cores(found, tiling)
    block, part = core % (tiling.blocks * tiling.parts) // tiling.parts, core % tiling.parts
    columns_left = _tiles_left(found.n, part * tiling.tiles * tiling.columns, tiling.columns, tiling.tiles)
    rows_left = _tiles_left(found.m, block * tiling.panels * tiling.rows, tiling.rows, tiling.panels)
    column, panel = UOp.range(columns_left, 1), UOp.range(rows_left, 2)
    n = _size(found.n)
    new_row, new_column = (block * tiling.panels + panel) * tiling.rows, (part * tiling.tiles + column) * tiling.columns
    first_row = _first_row(found, tiling, block, panel)
    is_narrow = n < tiling.columns and not is_open(found.n)
    first_column = new_column if is_open(found.n) else as_index(max(n - tiling.columns, 0)).minimum(new_column)
    lanes = lane_numbers(tiling.width)
    mask = lanes < n if is_narrow else None
    read_a = _fill_a(found, tiling, values, block, panel, rows_left)
    read_b = _fill_b(found, tiling, values, first_column, mask)
    stores: list[UOp] = []
    is_once = _may_overwrite(body, found.reduce)
    for u in range(tiling.rows):
        for c in range(tiling.vectors):
            total = (read_a(u) * read_b(c)).reduce(ops.ADD, ranges=found.reduce.src[1:])
            at = {**values, found.m: first_row + u, found.n: first_column + (lanes + c * tiling.width)}
            copied = _with_total(body, found.reduce, total, at)
            group = (copied if mask is None else masked(copied, mask)).src
            for r in (found.m, found.n):
                if is_open(r):
                    group = _gated(UOp.group(*group), at[r] < r.size).src
            if is_once:
                is_new = (at[found.m] >= new_row) & (at[found.n] >= new_column)
                group = tuple([_stored_where(is_new, store) for store in group])
            stores.extend(group)
    return UOp.group(*stores)


def is_open(r: UOp) -> bool:
    """Whether the size of a range is known only when the kernel runs: its last tile goes past the edge, gated."""
    return not isinstance(r.size, int)


def _tiles_left(r: UOp, start: UOp, step: int, most: int) -> int | UOp:
    """How many of `most` tiles from a start on are inside a range; of a known size all, the last moved back."""
    if isinstance(r.size, int):
        return most
    return ((r.size - start + (step - 1)) // step).maximum(0).minimum(most)


def _first_row(found: Contraction, tiling: Tiling, block: UOp, panel: UOp) -> UOp:
    """The row where a tile of a block begins."""
    new_row = (block * tiling.panels + panel) * tiling.rows
    return new_row if is_open(found.m) else as_index(_size(found.m) - tiling.rows).minimum(new_row)


def _gated(graph: UOp, gate: UOp) -> UOp:
    """The graph with every access restricted to where the gate holds; what fills a panel stays as it is."""
    done: dict[UOp, UOp] = {}
    for node in topological((graph,)):
        src = tuple([done[s] for s in node.src])
        if node.op is ops.STAGE:
            done[node] = node
        elif node.op is ops.STORE:
            done[node] = _stored_where(gate, make(ops.STORE, src, node.arg))
        elif node.op is ops.INDEX and src[0].op is ops.PARAM:
            memory, position, *given = src
            done[node] = memory.index(position, gate=gate & given[0] if given else gate)
        else:
            done[node] = node if src == node.src else make(node.op, src, node.arg)
    return done[graph]


def _may_overwrite(body: UOp, reduce: UOp) -> bool:
    """Whether the value that is stored is made of elements that the store may overwrite."""
    free = free_ranges(body)
    outside = topological((body,), stop=(reduce,))
    return any(node.op is ops.INDEX and free[node] == free[body.src[0]] for node in outside)


def _stored_where(gate: UOp, store: UOp) -> UOp:
    """The store in some lanes only."""
    target, value, position, *given = store.src
    return target.store(value, position, combine=store.arg.combine, gate=gate & given[0] if given else gate)


def _cores(found: Contraction, tiling: Tiling) -> tuple[UOp, dict[UOp, UOp]]:
    """The range that the cores share, and the batch ranges by it."""
    inner = tiling.blocks * tiling.parts
    total = prod(_size(r) for r in found.batch) * inner
    core = UOp.range(total, 0, RangeKind.CORE) if total > 1 else const(dtypes.weakint, 0)
    values: dict[UOp, UOp] = {}
    left = total
    for r in found.batch:
        left //= _size(r)
        values[r] = (core // left) % _size(r)
    return core, values


def _with_total(body: UOp, reduce: UOp, total: UOp, at: dict[UOp, UOp]) -> UOp:
    """The stores with another value for the reduction, at other positions."""
    done: dict[UOp, UOp] = {reduce: total}
    for node in topological((body,), stop=(reduce,)):
        if node in done:
            continue
        if node in at:
            done[node] = at[node]
            continue
        src = tuple([done[s] for s in node.src])
        done[node] = node if src == node.src else make(node.op, src, node.arg)
    return done[body]


# ---- filling


class Panel:
    """Memory in the making: stores, and the ranges over which they run."""

    def __init__(self, number: int, value: UOp, size: int) -> None:
        self.memory = UOp.buffer(FIRST_ID + number, value.dtype, (size,), memory=Memory.SHARED)
        self.next_id = FIRST_ID + 100 * number
        self.ranges: list[UOp] = []
        self.stores: list[UOp] = []

    def loop(self, count: int | UOp) -> UOp:
        """A range to fill over."""
        if isinstance(count, int) and count == 1:
            return ZERO
        self.ranges.append(UOp.range(count, self.next_id))
        self.next_id += 1
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


Read = Callable[[int], UOp]


def _step(value: UOp, r: UOp) -> int | None:
    """How the accesses of an operand that move along a range do so: one stride, or None."""
    free = free_ranges(value)
    steps = {stride(node.src[1], r, free) for node in topological((value,)) if node.op is ops.INDEX}
    steps = steps - {0} or steps
    gated = any(node.op is ops.INDEX and node.arg for node in topological((value,)))
    return steps.pop() if len(steps) == 1 and not gated else None


def _flat(places: list[UOp], sizes: list[int]) -> UOp:
    """One position along all reduced ranges."""
    flat = ZERO
    for place, size in zip(places, sizes, strict=True):
        flat = flat * size + place
    return flat


def _fill_a(
    found: Contraction, tiling: Tiling, values: dict[UOp, UOp], block: UOp, panel: UOp, count: int | UOp
) -> Read:
    """Fills the rows of a block, so many tiles; reads the element of row u of the tile."""
    along = list(found.reduce.src[1:])
    sizes = [_size(r) for r in along]
    depth, rows, width = prod(sizes), tiling.rows, tiling.width
    m = _size(found.m)
    if _step(found.a, found.m) == 1 and rows <= width <= m and not is_open(found.m):
        return _fill_a_across(found, tiling, values, block, panel)
    pitch = depth + ROW_PADDING
    target = Panel(0, found.a, tiling.panels * rows * pitch)
    p, u = target.loop(count), target.loop(rows)
    row = _first_row(found, tiling, block, p) + u
    places = [target.loop(size) for size in sizes[:-1]]
    in_vectors = _step(found.a, along[-1]) == 1 and sizes[-1] % width == 0
    last = target.loop(sizes[-1] // width) * width if in_vectors else target.loop(sizes[-1])
    lane = last + lane_numbers(width) if in_vectors else last
    at = {**values, found.m: row, **dict(zip(along, [*places, lane], strict=True))}
    place = (p * rows + u) * pitch + _flat([*places, lane], sizes)
    value = replace_ranges(found.a, at, {})
    target.store(_gated(value, row < found.m.size) if is_open(found.m) else value, place, width if in_vectors else 1)
    memory = target.filled()
    return lambda u: memory.index((panel * rows + u) * pitch + _flat(along, sizes))


def _fill_a_across(found: Contraction, tiling: Tiling, values: dict[UOp, UOp], block: UOp, panel: UOp) -> Read:
    """The same where rows are neighbours in memory: a vector of them at a time, of which the tile uses the first."""
    along = list(found.reduce.src[1:])
    sizes = [_size(r) for r in along]
    depth, rows, width = prod(sizes), tiling.rows, tiling.width
    target = Panel(0, found.a, tiling.panels * depth * width)
    m = _size(found.m)
    p = target.loop(tiling.panels)
    places = [target.loop(size) for size in sizes]
    wanted = as_index(m - rows).minimum((block * tiling.panels + p) * rows)
    row = as_index(m - width).minimum(wanted)
    at = {**values, found.m: row + lane_numbers(width), **dict(zip(along, places, strict=True))}
    start = (p * depth + _flat(places, sizes)) * width
    target.store(replace_ranges(found.a, at, {}), start + lane_numbers(width), width)
    memory = target.filled()
    here = as_index(m - rows).minimum((block * tiling.panels + panel) * rows)
    shift = here - as_index(m - width).minimum(here)
    return lambda u: memory.index((panel * depth + _flat(along, sizes)) * width + shift + u)


def _fill_b(found: Contraction, tiling: Tiling, values: dict[UOp, UOp], first: UOp, mask: UOp | None) -> Read:
    """Fills the columns of a tile; reads vector c of it."""
    along = list(found.reduce.src[1:])
    sizes = [_size(r) for r in along]
    width, columns = tiling.width, tiling.columns
    target = Panel(1, found.b, prod(sizes) * columns)
    places = [target.loop(size) for size in sizes[:-1]]
    is_turned = _step(found.b, along[-1]) == 1 and sizes[-1] % width == 0 and mask is None
    count = width if is_turned else 1
    last = target.loop(sizes[-1] // count) * count
    lanes = lane_numbers(width)
    for t in range(count):
        for c in range(tiling.vectors):
            here = [*places, last + t]
            at = {**values, found.n: first + (lanes + c * width), **dict(zip(along, here, strict=True))}
            value = replace_ranges(found.b, at, {})
            if mask is not None:
                value = masked(value, mask)
            if is_open(found.n):
                value = _gated(value, at[found.n] < found.n.size)
            target.store(value, _flat(here, sizes) * columns + (lanes + c * width), width)
    memory = target.filled()
    return lambda c: memory.index(_flat(along, sizes) * columns + (lanes + c * width))


def _size(r: UOp) -> int:
    """The size of a range; of a symbolic one the largest."""
    return r.size if isinstance(r.size, int) else max(reach(r.size)[1] or 0, 0)


ZERO = const(dtypes.weakint, 0)
