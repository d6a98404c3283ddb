"""Attention by blocks: contractions of contractions, whose matrix in between is never stored.

    out[i, e] = sum over j of P(i, j) * W[j, e],   P made of S(i, j) = sum over d of A[i, d] * B[j, d]

    for each head, and part of its rows, on the cores:
        for each block of rows:
            for each block of keys:
                a panel of S: tiles of registers, stored with the first things that become of it
                statistics of the rows of the panel
                a panel of P
                for each tile of columns: sums += P * W
            store what becomes of the sums

Goes in: a kernel of this form (`whit.simplify.chain`). Comes out: the tiled kernel. Where all keys are one block, S is computed
once, and sums stay in registers. Else a statistic that others are made of, as the largest of a row, is complete before
those begin: for them, S is computed again. Keys that no row of a block may see, as in causal attention, are skipped:
P is 0 there, whatever W is.
"""

from __future__ import annotations

from math import prod

from whit.codegen.chain_bounds import Bounds, find_bounds
from whit.codegen.contraction import Contraction, is_gated, is_unit, size_of, sizes_of
from whit.codegen.fill_panels import FIRST_ID, PADDING, ZERO, Filler, Values
from whit.codegen.lanes import lane_numbers, masked
from whit.codegen.ranges import free_ranges
from whit.codegen.tiling import Depth, Tiling, Way, choose_tile, way_of_b
from whit.ir import ops
from whit.ir.args import Memory, RangeKind, StageArg
from whit.simplify.chain import Chain, Inner, Product, Statistic, find_chain, with_values
from whit.ir.graph import topological
from whit.ir.uop import UOp, as_index, const, make
from whit.target import Target

ROWS = 24  # of a block, where all keys are one block: fewer are skipped more exactly
MANY_ROWS = 192  # where they are not, and columns are copied for each block of rows
MOST_KEYS, FEW_KEYS = 1024, 256  # of one block; of a block, if there are several
FUSED = 6  # operations on sums of S that are written out for each vector of a tile
MOST_WIDE = 1 << 19  # bytes of a panel of W
ITEMS = 4  # for each core, so that none waits long for another
LOOP_IDS, BUFFER_IDS, PHASE = 100, FIRST_ID + 1000, 20


def tile_chain(body: UOp, target: Target) -> tuple[UOp, list[str]] | None:
    """The tiled kernel, and why it is tiled so; None if it is no chain, or one that cannot be tiled."""
    if sum(node.op is ops.REDUCE for node in topological((body,))) < 2:
        return None
    chain = find_chain([store.src[1] for store in body.src])
    if chain is None or not chain.is_worth_blocks() or any(store.arg.combine is not None for store in body.src):
        return None
    itemsize = max(node.dtype.itemsize for node in (*chain.inner, *chain.products) for node in (node.leaf,))
    width = target.vector_bytes // itemsize
    if width < 2 or min(size_of(chain.columns), size_of(chain.keys)) < width:
        return None
    blocks = _Blocks(body, chain, width, target)
    return blocks.stores(), [blocks.reason()]


class _Blocks:
    """How a chain is cut, and the graph of it."""

    def __init__(self, body: UOp, chain: Chain, width: int, target: Target) -> None:
        self.body, self.chain, self.width = body, chain, width
        self.m, self.n, self.wide = (size_of(r) for r in (chain.rows, chain.keys, chain.columns))
        self.rows, self.vectors = choose_tile(
            self.m, self.wide, width, min(self.wide // width, 4), target.vector_registers
        )
        self.across = min(self.vectors, self.n // width)  # vectors of a tile of S
        self.tile = self.across * width
        self.span = self.n if self.n <= MOST_KEYS else FEW_KEYS // self.tile * self.tile
        self.chunks = -(-self.n // self.span)
        self.pitch = -(-self.span // self.tile) * self.tile + PADDING
        count = -(-self.m // self.rows)
        self.panels = min(max((ROWS if self.chunks == 1 else MANY_ROWS) // self.rows, 1), count)
        self.row_blocks = -(-count // self.panels)
        self.batch = sorted(free_ranges(body)[body] - {chain.rows, chain.columns}, key=lambda r: r.arg.id)
        heads = prod(sizes_of(self.batch))
        parts = min(-(-ITEMS * target.cores // heads), self.row_blocks)
        self.each = -(-self.row_blocks // parts)  # blocks of rows that a core takes at once
        self.parts = -(-self.row_blocks // self.each)
        self._place(heads)
        self.bounds = find_bounds(chain)
        self.buffers = 0
        self.phases = 0
        self.of_inner: dict[UOp, Filler] = {}

    def _place(self, heads: int) -> None:
        """The loops around a block of rows, and where they stand."""
        total = heads * self.parts
        core = UOp.range(total, 0, RangeKind.CORE) if total > 1 else ZERO
        self.values: Values = {}
        left = self.parts
        for r in reversed(self.batch):
            self.values[r] = core // left % size_of(r)
            left *= size_of(r)
        self.block = core % self.parts * self.each + _loop(self.each, 1)

    def reason(self) -> str:
        return (
            f"attention by blocks: tiles of {self.rows} rows x {self.vectors} vectors of {self.width}; "
            f"{self.row_blocks} blocks of {self.panels * self.rows} rows, {self.chunks} of {self.span} keys, {self.bounds}"
        )

    # ---- places

    def row(self, panel: UOp) -> UOp:
        """The first row of a tile; the last tile ends with the rows."""
        return as_index(self.m - self.rows).minimum((self.block * self.panels + panel) * self.rows)

    def is_new(self, panel: UOp, row: UOp) -> UOp | None:
        """Whether a row is this tile's to store."""
        if self.parts * self.each * self.panels * self.rows == self.m:
            return None
        return row >= (self.block * self.panels + panel) * self.rows

    def buffer(self, like: UOp, size: int) -> UOp:
        self.buffers += 1
        return UOp.buffer(BUFFER_IDS + self.buffers, like.dtype, (size,), memory=Memory.SHARED)

    def loops(self, *counts: int | UOp) -> list[UOp]:
        """Loops of their own for a phase."""
        self.phases += 1
        return [_loop(count, LOOP_IDS + PHASE * self.phases + i) for i, count in enumerate(counts)]

    # ---- what is computed

    def stores(self) -> UOp:
        chain = self.chain
        self.slots = self.panels * self.rows
        self.stat_of: Values = {}  # leaf of a statistic -> its memory
        sweeps = self._sweeps()
        self.sums: dict[UOp, UOp] = {}  # leaf of a product -> its memory
        several = any(sum(p.leaf in topological((v,)) for p in chain.products) > 1 for v in chain.values)
        waits = self.chunks > 1 or several
        stores: list[UOp] = []
        number = 0
        for statistics, products in sweeps:
            number += 1
            sweep = _Sweep(self, number)
            for statistic in statistics:
                sweep.statistic(statistic, statistics, products)
            for product in products:
                if waits:
                    self.sums[product.leaf] = sweep.waiting(product)
                else:
                    stores.extend(self._stored(product.leaf, *sweep.tile_of(product)))
        if waits:
            stores.extend(self._stored_sums())
        stores.extend(self._stored_statistics())
        return UOp.group(*stores)

    def _sweeps(self) -> list[tuple[list[Statistic], list[Product]]]:
        """Statistics and products by how many statistics come one before the other for them. With one block of keys,
        all are in one sweep."""
        level: dict[UOp, int] = {}
        found: list[tuple[list[Statistic], list[Product]]] = []
        for part in (*self.chain.statistics, *self.chain.products):
            value = part.value if isinstance(part, Statistic) else part.p
            below = [level[node] + 1 for node in topological((value,)) if node in level]
            level[part.leaf] = max(below, default=0) if self.chunks > 1 else 0
            while len(found) <= level[part.leaf]:
                found.append(([], []))
            statistics, products = found[level[part.leaf]]
            if isinstance(part, Statistic):
                statistics.append(part)
            else:
                products.append(part)
        return found

    def at_row(self, slot: UOp, row: UOp) -> Values:
        """What is known of a row."""
        known = {leaf: memory.index(slot) for leaf, memory in self.stat_of.items()}
        return {**self.values, **known, self.chain.rows: row}

    def _stored(self, leaf: UOp, tile: UOp, panel: UOp, sums: list[list[UOp]]) -> list[UOp]:
        """The kernel's stores of a product, from a tile of sums."""
        wanted = [s for s, v in zip(self.body.src, self.chain.values, strict=True) if leaf in topological((v,))]
        values = [v for v in self.chain.values if leaf in topological((v,))]
        stores: list[UOp] = []
        first = as_index(self.wide - self.vectors * self.width).minimum(tile * (self.vectors * self.width))
        for u in range(self.rows):
            row = self.row(panel) + u
            at = self.at_row(panel * self.rows + u, row)
            for c in range(self.vectors):
                column = first + (lane_numbers(self.width) + c * self.width)
                gate = self.is_new(panel, row)
                if self.wide % (self.vectors * self.width):
                    is_mine = column >= tile * (self.vectors * self.width)
                    gate = is_mine if gate is None else gate & is_mine
                here = {**at, self.chain.columns: column, leaf: sums[u][c]}
                stores.extend(_store(s, v, here, gate) for s, v in zip(wanted, values, strict=True))
        return stores

    def _stored_sums(self) -> list[UOp]:
        """The kernel's stores of products that waited in memory."""
        size = self.vectors * self.width
        tile, panel, u = self.loops(-(-self.wide // size), self.panels, self.rows)
        stores: list[UOp] = []
        slot, row = panel * self.rows + u, self.row(panel) + u
        first = as_index(self.wide - size).minimum(tile * size)
        for c in range(self.vectors):
            column = first + (lane_numbers(self.width) + c * self.width)
            gate = self.is_new(panel, row)
            if self.wide % size:
                gate = column >= tile * size if gate is None else gate & (column >= tile * size)
            sums = {leaf: memory.index(slot * self.wide + column) for leaf, memory in self.sums.items()}
            here = {**self.at_row(slot, row), **sums, self.chain.columns: column}
            for store, value in zip(self.body.src, self.chain.values, strict=True):
                if any(leaf in topological((value,)) for leaf in self.sums):
                    stores.append(_store(store, value, here, gate))
        return stores

    def _stored_statistics(self) -> list[UOp]:
        """The kernel's stores of what rows have once."""
        leaves = {product.leaf for product in self.chain.products}
        pairs = zip(self.body.src, self.chain.values, strict=True)
        wanted = [(s, v) for s, v in pairs if leaves.isdisjoint(topological((v,)))]
        if not wanted:
            return []
        panel, u = self.loops(self.panels, self.rows)
        row = self.row(panel) + u
        at = self.at_row(panel * self.rows + u, row)
        return [_store(s, v, at, self.is_new(panel, row)) for s, v in wanted]


class _Sweep:
    """One walk over the keys."""

    def __init__(self, blocks: _Blocks, number: int) -> None:
        self.blocks, self.number = blocks, number
        first, last = blocks.bounds.of_rows(
            as_index(blocks.m - blocks.rows).minimum(blocks.block * (blocks.panels * blocks.rows)),
            as_index(blocks.m).minimum((blocks.block + 1) * (blocks.panels * blocks.rows)) - 1,
            blocks.n,
        )
        span, tile = blocks.span, blocks.tile
        self.chunk: UOp | None = None
        self.start = ZERO
        self.late: UOp | None = (
            None  # the first key of a block that no block before it has, if that may not be its first
        )
        if blocks.chunks > 1:
            begin = first // span
            self.chunk = UOp.range((last + span - 1) // span - begin, LOOP_IDS - number)
            new = (begin + self.chunk) * span
            self.start = as_index(blocks.n - span).minimum(new)
            self.late = new - self.start if blocks.n % span else None
        self.low = ((first - self.start).maximum(0) // tile) if first is not ZERO else ZERO
        high = (last - self.start).minimum(span)
        self.tiles: int | UOp = (high + tile - 1) // tile - self.low
        self.keys: int | UOp = high - self.low * tile
        if last.op is ops.CONST and first is ZERO:
            self.tiles, self.keys = -(-span // tile), span
        self.panels: Values = {}  # expression -> memory that has it for the rows and keys of the block
        for i, inner in enumerate(blocks.chain.inner):
            self._fill(inner, i)

    def _stage(self, memory: UOp, stores: list[UOp], loops: list[UOp]) -> UOp:
        ranges = [r for r in loops if r.op is ops.RANGE]
        return memory.after(make(ops.STAGE, (UOp.group(*stores), *ranges), StageArg(Memory.SHARED)))

    def _fill(self, inner: Inner, number: int) -> None:
        """The panel of an inner contraction."""
        blocks = self.blocks
        chain, width = blocks.chain, blocks.width
        reduce = (inner.a * inner.b).reduce(ops.ADD, ranges=inner.along)
        found = Contraction(reduce, inner.a, inner.b, [chain.rows], [chain.keys], [], blocks.batch)
        depth = Depth(list(inner.along), 0, size_of(inner.along[0]))
        plain = inner.a.op is ops.INDEX and not is_gated(inner.a) and is_unit(inner.a, inner.along[-1])
        way_a = Way.DIRECT if plain and len(inner.along) == 1 else Way.ROWS
        way_b = way_of_b(found, depth, blocks.m, True)
        tiling = Tiling(
            blocks.rows, width, blocks.across, depth, False, way_a, way_b, blocks.panels, 1, blocks.span, 1, 1
        )
        starts: Values = {r: ZERO for r in inner.along}
        filler = Filler(found, tiling, blocks.values, starts, 20 + 2 * number + 2 * len(chain.inner) * self.number)
        step, panel = blocks.loops(self.tiles, blocks.panels)
        tile = self.low + step
        k = UOp.range(depth.total, LOOP_IDS + PHASE * blocks.phases + 5)
        read_a = filler.read_a(blocks.block, panel, k)
        read_b = filler.read_b(self.start, {}, tile, k)
        value = _first_of(inner.leaf, chain)
        memory = blocks.buffer(value, blocks.slots * blocks.pitch)
        stores: list[UOp] = []
        local = as_index(blocks.span - blocks.tile).minimum(tile * blocks.tile)
        for u in range(blocks.rows):
            at = {**blocks.values, chain.rows: blocks.row(panel) + u}
            for c in range(blocks.across):
                lane = local + (lane_numbers(width) + c * width)
                total = (read_a(u) * read_b(c)).reduce(ops.ADD, ranges=(k,))
                here = {**at, chain.keys: self.start + lane, inner.leaf: total}
                place = (panel * blocks.rows + u) * blocks.pitch + lane
                stores.append(memory.store(with_values(value, here), place))
        self.panels[value] = self._stage(memory, stores, [step, panel])

    def _vectors(self, value: UOp) -> tuple[list[UOp], list[tuple[UOp, UOp | None, UOp]], UOp]:
        """A value over the rows and keys of the block: loops; vectors, with masks and places; the slot of the row."""
        blocks = self.blocks
        panel, u, step = blocks.loops(blocks.panels, blocks.rows, self.tiles)
        slot, row = panel * blocks.rows + u, blocks.row(panel) + u
        at = blocks.at_row(slot, row)
        found: list[tuple[UOp, UOp | None, UOp]] = []
        for c in range(blocks.across):
            lane = (self.low + step) * blocks.tile + (lane_numbers(blocks.width) + c * blocks.width)
            place = slot * blocks.pitch + lane
            known = {node: memory.index(place) for node, memory in self.panels.items()}
            vector = with_values(value, {**at, **known, blocks.chain.keys: self.start + lane})
            mask = lane < blocks.span if blocks.span % blocks.tile else None
            if self.late is not None:
                mask = lane >= self.late if mask is None else mask & (lane >= self.late)
            if not vector.shape:
                vector = UOp.stack(*([vector] * blocks.width))
            found.append((vector if mask is None else masked(vector, mask), mask, place))
        return [panel, u, step], found, slot

    def statistic(self, statistic: Statistic, others: list[Statistic], products: list[Product]) -> None:
        """Computes a statistic, and keeps what it is of, if others of this sweep are made of that."""
        blocks, value = self.blocks, statistic.value
        op, leaf = statistic.op, statistic.leaf
        loops, vectors, slot = self._vectors(value)
        later = [other.value for other in others if other is not statistic] + [product.p for product in products]
        if value not in self.panels and any(value in topological((root,)) for root in later):
            memory = blocks.buffer(value, blocks.slots * blocks.pitch)
            stores = [memory.store(vector, place, gate=mask) for vector, mask, place in vectors]
            self.panels[value] = self._stage(memory, stores, loops)
        identity = const(leaf.dtype, op.identity(leaf.dtype))
        total: UOp | None = None
        *outer, step = loops
        for vector, mask, _ in vectors:
            part = vector if mask is None else mask.where(vector, identity)
            part = part.reduce(op, ranges=(step,)) if step.op is ops.RANGE else part
            total = part if total is None else make(op, (total, part))
        assert total is not None
        total = total.reduce(op, axes=(0,))
        memory = blocks.buffer(leaf, blocks.slots)
        if self.chunk is not None:
            total = make(op, (total, (self.chunk > 0).where(memory.index(slot, gate=self.chunk > 0), identity)))
            outer = [self.chunk, *outer]
        blocks.stat_of[leaf] = self._stage(memory, [memory.store(total, slot)], outer)

    def _panel_of(self, value: UOp) -> UOp:
        """Memory that has a value for all rows and keys of the block."""
        if value not in self.panels:
            loops, vectors, _ = self._vectors(value)
            memory = self.blocks.buffer(value, self.blocks.slots * self.blocks.pitch)
            stores = [memory.store(vector, place, gate=mask) for vector, mask, place in vectors]
            self.panels[value] = self._stage(memory, stores, loops)
        return self.panels[value]

    def tile_of(self, product: Product) -> tuple[UOp, UOp, list[list[UOp]]]:
        """A tile of sums over the keys of the block: loops of columns and rows around it, and its vectors."""
        blocks, chain = self.blocks, self.blocks.chain
        left = self._panel_of(product.p)
        size = blocks.vectors * blocks.width
        tile, panel = blocks.loops(-(-blocks.wide // size), blocks.panels)
        k = UOp.range(self.keys, LOOP_IDS + PHASE * blocks.phases + 5)
        low = self.low * blocks.tile
        if self.late is not None:
            skipped = (self.late - low).maximum(0)
            k = UOp.range(as_index(self.keys) - skipped, LOOP_IDS + PHASE * blocks.phases + 5)
            low = low + skipped
        w = product.w
        depth = Depth([chain.keys], 0, blocks.n)
        is_wide = blocks.n * blocks.wide * w.dtype.itemsize > MOST_WIDE
        plain = w.op is ops.INDEX and not is_gated(w) and is_unit(w, chain.columns)
        way = Way.DIRECT if plain or is_wide else Way.ACROSS
        found = Contraction(
            (product.p * w).reduce(ops.ADD, ranges=(chain.keys,)), product.p, w, [chain.rows], [chain.columns], [], []
        )
        tiling = Tiling(
            blocks.rows, blocks.width, blocks.vectors, depth, False, Way.ROWS, way, blocks.panels, 1, blocks.wide, 1, 1
        )
        number = 20 + 2 * len(chain.inner) * 8 + 2 * chain.products.index(product)
        filler = Filler(found, tiling, blocks.values, {chain.keys: ZERO}, number)
        read_b = filler.read_b(ZERO, {}, tile, self.start + low + k)
        sums = []
        for u in range(blocks.rows):
            a = left.index((panel * blocks.rows + u) * blocks.pitch + low + k)
            sums.append([(a * read_b(c)).reduce(ops.ADD, ranges=(k,)) for c in range(blocks.vectors)])
        return tile, panel, sums

    def waiting(self, product: Product) -> UOp:
        """The memory of the sums of a product, when all keys are done."""
        blocks = self.blocks
        tile, panel, sums = self.tile_of(product)
        memory = blocks.buffer(product.leaf, blocks.slots * blocks.wide)
        size = blocks.vectors * blocks.width
        first = as_index(blocks.wide - size).minimum(tile * size)
        stores: list[UOp] = []
        for u in range(blocks.rows):
            for c in range(blocks.vectors):
                column = first + (lane_numbers(blocks.width) + c * blocks.width)
                place = (panel * blocks.rows + u) * blocks.wide + column
                total = sums[u][c]
                if self.chunk is not None:
                    total = total + memory.index(place, gate=self.chunk > 0)
                stores.append(memory.store(total, place))
        loops = [r for r in (self.chunk, tile, panel) if r is not None]
        return self._stage(memory, stores, loops)


def _loop(count: int | UOp, id: int) -> UOp:
    if isinstance(count, int):
        return UOp.range(count, id) if count > 1 else ZERO
    return UOp.range(count, id)


def _store(store: UOp, value: UOp, at: Values, gate: UOp | None) -> UOp:
    """A store of the kernel somewhere, perhaps under a condition."""
    target, _, position, *given = store.src
    place = with_values(position, at)
    gates = [with_values(g, at) for g in given] + ([gate] if gate is not None else [])
    both = gates[0] if gates else None
    for g in gates[1:]:
        both = g if both is None else both & g
    return target.store(with_values(value, at), place, gate=both)


def _first_of(leaf: UOp, chain: Chain) -> UOp:
    """The last of the few things that become of an inner contraction before anything else comes in: what is stored."""
    roots = [s.value for s in chain.statistics] + [p.p for p in chain.products]
    others = {other.leaf for other in (*chain.inner, *chain.statistics)} - {leaf}
    users: dict[UOp, set[UOp]] = {}
    for node in topological(roots):
        for s in node.src:
            users.setdefault(s, set()).add(node)
    value, count = leaf, 0
    while value not in roots and len(users.get(value, ())) == 1 and count < FUSED:
        (user,) = users[value]
        if not user.op.elementwise or not others.isdisjoint(topological((user,))) or user.dtype.is_bool:
            break
        value, count = user, count + 1
    return value
