"""One walk of attention over the keys of a block of rows: panels of scores and what becomes of them, statistics, sums.

    panel of S      tiles of registers, stored with the few things that become of them first, as a scale and a mask
    statistics      m[row] = max over the panel; what a sum is of, as exp(S - m), becomes a panel on the way
    panel of P      whatever the factor of the values is made of
    sums            tiles of registers: P * W

With several blocks of keys, the walk is a loop over them, and what goes on from one to the next waits in memory.
"""

from __future__ import annotations

from whit.codegen.cpu.attention.sizes import AttentionSizes, staged
from whit.codegen.cpu.panel_sizes import Depth, Tiling, Way, ways_of_b
from whit.codegen.passes.lanes import lane_numbers, masked
from whit.codegen.strategy.fill_panels import ZERO, Filler, Values
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.nesting import Owner
from whit.ir.uop import UOp, as_index, const, make
from whit.kernel.attention_form import AttentionForm, Inner, Product, Statistic, with_values
from whit.kernel.contraction import Contraction, is_gated, is_unit
from whit.kernel.ranges import size_of

FUSED_OPERATIONS = 6  # operations on scores that are written out for each vector of a tile
MOST_WIDE_BYTES = 1 << 19  # bytes of a panel of W
PANELS = 20  # numbers of panels of operands start here
Vector = tuple[UOp, UOp | None, UOp]  # a vector of a panel, the lanes that exist, its place


class Sweep:
    """One walk. `known` has the memory of statistics of rows, by leaf; those of this walk are added."""

    def __init__(self, cut: AttentionSizes, number: int, known: Values) -> None:
        self.cut, self.number, self.known = cut, number, known
        self._walk(*self._seen())
        self.panels: Values = {}  # expression -> memory that has it for the rows and keys of the block
        for inner in cut.form.inner:
            self._fill(inner)

    def _seen(self) -> tuple[UOp, UOp]:
        """The first key that rows of this block see, and the one after the last."""
        cut = self.cut
        first = as_index(cut.m - cut.rows).minimum(cut.block * cut.slots)
        last = as_index(cut.m).minimum((cut.block + 1) * cut.slots) - 1
        return cut.bounds.of_rows(first, last, cut.n)

    def _walk(self, first: UOp, last: UOp) -> None:
        """The loop over blocks of keys, and which tiles of a block are seen."""
        cut = self.cut
        span, tile = cut.span, cut.tile
        self.tiles: int | UOp  # of scores that are computed, from the one with the number `low` on
        self.keys: int | UOp  # that are summed over, from the first of that tile on
        self.chunk: UOp | None = None
        self.start = ZERO  # the first key of a block
        self.late: UOp | None = None  # how many of its first keys the block before it has too
        if cut.chunks > 1:
            begin = first // span
            self.chunk = UOp.range((last + span - 1) // span - begin, self.number, owner=Owner.CHUNK)
            new = (begin + self.chunk) * span
            self.start = as_index(cut.n - span).minimum(new)
            self.late = new - self.start if cut.n % span else None
        self.low, self.tiles, self.keys = ZERO, -(-span // tile), span
        if cut.bounds.are_open:
            return
        self.low = (first - self.start).maximum(0) // tile
        high = (last - self.start).minimum(span)
        self.tiles = (high + tile - 1) // tile - self.low
        self.keys = high - self.low * tile

    def at_row(self, slot: UOp, row: UOp) -> Values:
        """What is known of a row."""
        known = {leaf: memory.index(slot) for leaf, memory in self.known.items()}
        return {**self.cut.values, **known, self.cut.form.rows: row}

    # ---- panels

    def _fill(self, inner: Inner) -> None:
        """The panel of an inner contraction."""
        cut, form, width = self.cut, self.cut.form, self.cut.width
        depth = Depth(list(inner.along), 0, size_of(inner.along[0]))
        reduce = (inner.a * inner.b).reduce(ops.ADD, ranges=inner.along)
        found = Contraction(reduce, inner.a, inner.b, [form.rows], [form.keys], [], cut.batch)
        is_plain = inner.a.op is ops.INDEX and not is_gated(inner.a) and is_unit(inner.a, inner.along[-1])
        way_a = Way.DIRECT if is_plain and len(inner.along) == 1 else Way.ROWS
        way_b = ways_of_b(found, depth, cut.m, True)[0]
        tiling = Tiling(cut.rows, width, cut.across, depth, False, way_a, way_b, 0, 0, panels=cut.panels, span=cut.span)
        number = PANELS + 2 * (self.number * len(form.inner) + form.inner.index(inner))
        filler = Filler(found, tiling, cut.values, dict.fromkeys(inner.along, ZERO), number)
        step, panel = cut.loops(self.tiles, cut.panels)
        k = cut.deep_loop(depth.total)
        tile = self.low + step
        read_a, read_b = filler.read_a(cut.block, panel, k), filler.read_b(self.start, {}, tile, k)
        value = first_of(inner.leaf, form)
        memory = cut.buffer(value, cut.slots * cut.pitch)
        first = as_index(cut.span - cut.tile).minimum(tile * cut.tile)
        stores: list[UOp] = []
        for u in range(cut.rows):
            for c in range(cut.across):
                lane = first + (lane_numbers(width) + c * width)
                total = (read_a(u) * read_b(c)).reduce(ops.ADD, ranges=(k,))
                at = {**cut.values, form.rows: cut.row(panel) + u, form.keys: self.start + lane, inner.leaf: total}
                stores.append(memory.store(with_values(value, at), (panel * cut.rows + u) * cut.pitch + lane))
        self.panels[value] = staged(memory, stores, [step, panel])

    def _vectors(self, value: UOp, is_exact: bool = False) -> tuple[list[UOp], list[Vector], UOp]:
        """A value over the rows and keys of the block: loops, the last along the keys; vectors; the slot of the row.
        `is_exact`: rows that are computed again are 0."""
        cut = self.cut
        panel, u, step = cut.loops(cut.panels, cut.rows, self.tiles)
        slot, row = panel * cut.rows + u, cut.row(panel) + u
        at = self.at_row(slot, row)
        is_new = cut.is_new(panel, row) if is_exact else None
        found: list[Vector] = []
        for c in range(cut.across):
            lane = (self.low + step) * cut.tile + (lane_numbers(cut.width) + c * cut.width)
            place = slot * cut.pitch + lane
            panels = {node: memory.index(place) for node, memory in self.panels.items()}
            vector = with_values(value, {**at, **panels, cut.form.keys: self.start + lane})
            if is_new is not None:
                vector = is_new.where(vector, const(vector.dtype, 0))
            if not vector.shape:
                vector = UOp.stack(*([vector] * cut.width))
            mask = lane < cut.span if cut.span % cut.tile else None
            if self.late is not None:
                mask = lane >= self.late if mask is None else mask & (lane >= self.late)
            found.append((vector if mask is None else masked(vector, mask), mask, place))
        return [panel, u, step], found, slot

    def _kept(self, value: UOp, vectors: list[Vector], loops: list[UOp]) -> UOp:
        """A panel of these vectors."""
        memory = self.cut.buffer(value, self.cut.slots * self.cut.pitch)
        return staged(memory, [memory.store(vector, place, gate=mask) for vector, mask, place in vectors], loops)

    def keep(self, value: UOp, is_exact: bool = False) -> None:
        """Makes a panel of a value, unless there is one."""
        if value not in self.panels or is_exact:
            loops, vectors, _ = self._vectors(value, is_exact)
            self.panels[value] = self._kept(value, vectors, loops)

    # ---- statistics

    def statistic(self, statistic: Statistic, later: list[UOp]) -> None:
        """Computes a statistic, and keeps what it is of if one of the expressions to come is made of that."""
        cut, value = self.cut, statistic.value
        op, leaf = statistic.op, statistic.leaf
        loops, vectors, slot = self._vectors(value)
        if value not in self.panels and any(value in topological((root,)) for root in later):
            self.panels[value] = self._kept(value, vectors, loops)
        assert op.identity is not None, "a statistic is a reduction by an op with an identity"
        identity = const(leaf.dtype, op.identity(leaf.dtype))
        *outer, step = loops
        parts: list[UOp] = []
        for vector, mask, _ in vectors:
            part = vector if mask is None else mask.where(vector, identity)
            parts.append(part.reduce(op, ranges=(step,)) if step.op is ops.RANGE else part)
        total = parts[0]
        for part in parts[1:]:
            total = make(op, (total, part))
        total = total.reduce(op, axes=(0,))
        memory = cut.buffer(leaf, cut.slots)
        if self.chunk is not None:
            is_later = self.chunk > 0
            total = make(op, (total, is_later.where(memory.index(slot, gate=is_later), identity)))
            outer = [self.chunk, *outer]
        self.known[leaf] = staged(memory, [memory.store(total, slot)], outer)

    # ---- sums

    def tile_of(self, product: Product) -> tuple[UOp, UOp, list[list[UOp]]]:
        """A tile of sums over the keys of the block: the loops of columns and rows around it, its vectors by row."""
        cut, form, w = self.cut, self.cut.form, product.w
        self.keep(product.p)
        left = self.panels[product.p]
        tile, panel = cut.loops(-(-cut.wide // cut.size), cut.panels)
        low = self.low * cut.tile
        if self.late is None:
            k = cut.deep_loop(self.keys)
        else:
            skipped = (self.late - low).maximum(0)
            k, low = cut.deep_loop(as_index(self.keys) - skipped), low + skipped
        is_large = cut.n * cut.wide * w.dtype.itemsize > MOST_WIDE_BYTES
        is_plain = w.op is ops.INDEX and not is_gated(w) and is_unit(w, form.columns)
        way = Way.DIRECT if is_plain or is_large else Way.ACROSS
        reduce = (product.p * w).reduce(ops.ADD, ranges=(form.keys,))
        found = Contraction(reduce, product.p, w, [form.rows], [form.columns], [], [])
        depth = Depth([form.keys], 0, cut.n)
        tiling = Tiling(
            cut.rows, cut.width, cut.vectors, depth, False, Way.ROWS, way, 0, 0, panels=cut.panels, span=cut.wide
        )
        number = PANELS + 2 * (8 * len(form.inner) + form.products.index(product))
        filler = Filler(found, tiling, cut.values, {form.keys: ZERO}, number)
        read_b = filler.read_b(ZERO, {}, tile, self.start + low + k)
        sums = []
        for u in range(cut.rows):
            a = left.index((panel * cut.rows + u) * cut.pitch + low + k)
            sums.append([(a * read_b(c)).reduce(ops.ADD, ranges=(k,)) for c in range(cut.vectors)])
        return tile, panel, sums

    def waiting(self, product: Product) -> UOp:
        """The memory of the sums of a product, when all keys are done."""
        cut = self.cut
        tile, panel, sums = self.tile_of(product)
        memory = cut.buffer(product.leaf, cut.slots * cut.wide)
        stores: list[UOp] = []
        for u in range(cut.rows):
            for c in range(cut.vectors):
                place = (panel * cut.rows + u) * cut.wide + cut.column(tile, c)
                before = [] if self.chunk is None else [memory.index(place, gate=self.chunk > 0)]
                stores.append(memory.store(sum(before, sums[u][c]), place))
        return staged(memory, stores, [r for r in (self.chunk, tile, panel) if r is not None])

    def transposed(self, product: Product) -> UOp:
        """The memory of the sums of a transposed product, when all rows are done: keys by columns.

        Tiles of its rows, the keys, divide those of the scores: what was not computed for this block is not read.
        """
        cut = self.cut
        left, columns = self.panels[product.p], -(-cut.wide // cut.size) * cut.size
        rows = next(r for r in (8, 4, 2, 1) if (r + 1) * cut.vectors < cut.registers and cut.tile % r == 0)
        memory = cut.buffer(product.leaf, cut.pitch * columns)
        place, vector = cut.loops(cut.pitch, columns // cut.width)
        lanes = lane_numbers(cut.width) + vector * cut.width
        zeros = UOp.stack(*([const(product.leaf.dtype, 0)] * cut.width))
        here = memory.after(cut.core) if cut.core.op is ops.RANGE else memory  # for each head anew
        empty = staged(memory, [here.store(zeros, place * columns + lanes)], [place, vector])
        right = self._rows_of(product.w, columns)
        tile, step = cut.loops(columns // cut.size, (as_index(self.keys) + rows - 1) // rows)
        first = self.low * cut.tile + step * rows
        k = cut.deep_loop(cut.slots)
        stores: list[UOp] = []
        for t in range(rows):
            a = left.index(k * cut.pitch + first + t)
            for c in range(cut.vectors):
                column = tile * cut.size + (lane_numbers(cut.width) + c * cut.width)
                total = (a * right.index(k * columns + column)).reduce(ops.ADD, ranges=(k,))
                at = (first + t) * columns + column
                stores.append(memory.store(total + empty.index(at), at))
        return staged(memory, stores, [cut.step, tile, step])

    def _rows_of(self, w: UOp, columns: int) -> UOp:
        """A panel of an operand over the rows of the block and columns."""
        cut, form = self.cut, self.cut.form
        panel, u, vector = cut.loops(cut.panels, cut.rows, columns // cut.width)
        memory = cut.buffer(w, cut.slots * columns)
        column = lane_numbers(cut.width) + vector * cut.width
        value = with_values(w, {**cut.values, form.rows: cut.row(panel) + u, form.columns: column})
        if columns != cut.wide:
            value = masked(value, column < cut.wide)
        store = memory.store(value, (panel * cut.rows + u) * columns + column)
        return staged(memory, [store], [panel, u, vector])


def first_of(leaf: UOp, form: AttentionForm) -> UOp:
    """The last of the few things that become of an inner contraction before anything else comes in: what is stored."""
    roots = [s.value for s in form.statistics] + [p.p for p in (*form.products, *form.transposed)]
    others = {other.leaf for other in form.inner} | {other.leaf for other in form.statistics}
    users: dict[UOp, set[UOp]] = {}
    for node in topological(roots):
        for s in node.src:
            users.setdefault(s, set()).add(node)
    value, count = leaf, 0
    while value not in roots and len(users.get(value, ())) == 1:
        (user,) = users[value]
        count += user.op.operations
        is_joined = not (others - {leaf}).isdisjoint(topological((user,)))
        if count > FUSED_OPERATIONS or is_joined or not user.op.elementwise or user.dtype.is_bool:
            break
        value = user
    return value
