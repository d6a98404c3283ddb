"""Flash attention on a CPU, by blocks: contractions of contractions, whose matrix in between is never stored.

    out[i, e] = sum over j of P(i, j) * W[j, e],   P made of S(i, j) = sum over d of A[i, d] * B[j, d]

    for each head, and part of its rows, on the cores:
        for each block of rows:
            for each block of keys:
                a panel of S, statistics of its rows, a panel of P      (`attention.sweep`)
                for each tile of columns: sums += P * W
            store what becomes of the sums

Goes in: a kernel of this form (`whit.kernel.attention_form`). Comes out: the tiled kernel. Where all keys are one
block, S is computed once, and sums stay in registers. Else a statistic that others are made of, as the largest of a
row, is complete before those begin: for them, S is computed again. Keys that no row of a block may see, as in causal
attention, are skipped (`kernel.attention_bounds`): P is 0 there, whatever W is. Products with P transposed, as in
gradients, are added up over the blocks of rows, and stored in the end.
"""

from __future__ import annotations

from whit.codegen.cpu.attention.sizes import AttentionSizes
from whit.codegen.cpu.attention.sweep import Sweep
from whit.codegen.passes.lanes import lane_numbers
from whit.codegen.strategy.fill_panels import Values
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.uop import UOp, as_index
from whit.kernel.attention_form import AttentionForm, Product, Statistic, find_attention, with_values
from whit.kernel.ranges import free_ranges, is_open, size_of
from whit.target import Target


def tile_attention(body: UOp, target: Target) -> tuple[UOp, list[str]] | None:
    """The tiled kernel, and why it is tiled so; None if it is no attention, or cannot be tiled."""
    if sum(node.op is ops.REDUCE for node in topological((body,))) < 2:
        return None
    form = find_attention([store.src[1] for store in body.src])
    if form is None or not form.is_worth_blocks() or any(store.arg.combine is not None for store in body.src):
        return None
    leaves = [inner.leaf for inner in form.inner] + [product.leaf for product in (*form.products, *form.transposed)]
    width = target.vector_bytes // max(leaf.dtype.itemsize for leaf in leaves)
    if any(is_open(r) for r in free_ranges(body)[body]):
        return None
    if width < 2 or min(size_of(form.columns), size_of(form.keys)) < width:
        return None
    cut = AttentionSizes(body, form, width, target)
    return _Stores(cut).all(), [str(cut)]


class _Stores:
    """The stores of a kernel, from sums and statistics."""

    def __init__(self, cut: AttentionSizes) -> None:
        self.cut, self.form = cut, cut.form
        self.pairs = list(zip(cut.body.src, cut.form.values, strict=True))  # of stores, and values over leaves
        self.known: Values = {}  # leaf of a statistic -> its memory
        self.sums: Values = {}  # leaf of a product that waits -> its memory

    def all(self) -> UOp:
        waits = self.cut.chunks > 1 or any(len(self.products_in(value)) > 1 for _, value in self.pairs)
        stores: list[UOp] = []
        for number, (statistics, products) in enumerate(_sweeps(self.cut), 1):
            sweep = Sweep(self.cut, number, self.known)
            transposed = self.form.transposed if number == 1 else []
            for i, statistic in enumerate(statistics):
                later = [other.value for other in statistics[i + 1 :]]
                sweep.statistic(statistic, [*later, *(product.p for product in (*products, *transposed))])
            for p in sorted({product.p for product in transposed}, key=lambda p: len(topological((p,)))):
                sweep.keep(p, is_exact=True)  # one may be made of the other
            for product in products:
                if waits:
                    self.sums[product.leaf] = sweep.waiting(product)
                else:
                    stores.extend(self.of_tile(sweep, product))
            for product in transposed:
                stores.extend(self.of_transposed(product.leaf, sweep.transposed(product)))
        if waits:
            stores.extend(self.of_sums(sweep))
        return UOp.group(*stores, *self.of_rows(sweep))

    def products_in(self, value: UOp) -> list[Product]:
        nodes = set(topological((value,)))
        return [product for product in self.form.products if product.leaf in nodes]

    def of_tile(self, sweep: Sweep, product: Product) -> list[UOp]:
        """What becomes of a product, from a tile of sums in registers."""
        cut = self.cut
        tile, panel, sums = sweep.tile_of(product)
        wanted = [(store, value) for store, value in self.pairs if product in self.products_in(value)]
        stores: list[UOp] = []
        for u in range(cut.rows):
            row = cut.row(panel) + u
            at = sweep.at_row(panel * cut.rows + u, row)
            for c in range(cut.vectors):
                column = cut.column(tile, c)
                here = {**at, self.form.columns: column, product.leaf: sums[u][c]}
                gate = cut.gate(panel, row, tile, column)
                stores.extend(_store(store, value, here, gate) for store, value in wanted)
        return stores

    def of_sums(self, sweep: Sweep) -> list[UOp]:
        """What becomes of products that waited in memory."""
        cut = self.cut
        tile, panel, u = cut.loops(-(-cut.wide // cut.size), cut.panels, cut.rows)
        slot, row = panel * cut.rows + u, cut.row(panel) + u
        wanted = [(store, value) for store, value in self.pairs if self.products_in(value)]
        stores: list[UOp] = []
        for c in range(cut.vectors):
            column = cut.column(tile, c)
            sums = {leaf: memory.index(slot * cut.wide + column) for leaf, memory in self.sums.items()}
            here = {**sweep.at_row(slot, row), **sums, self.form.columns: column}
            gate = cut.gate(panel, row, tile, column)
            stores.extend(_store(store, value, here, gate) for store, value in wanted)
        return stores

    def of_transposed(self, leaf: UOp, memory: UOp) -> list[UOp]:
        """What becomes of a product that was summed over all rows: its rows are the keys."""
        cut = self.cut
        row, vector = cut.loops(cut.n, -(-cut.wide // cut.width))
        columns = -(-cut.wide // cut.size) * cut.size
        first = as_index(cut.wide - cut.width).minimum(vector * cut.width)
        column = first + lane_numbers(cut.width)
        here = {
            **cut.values,
            self.form.rows: row,
            self.form.columns: column,
            leaf: memory.index(row * columns + column),
        }
        gate = column >= vector * cut.width if cut.wide % cut.width else None
        return [_store(store, value, here, gate) for store, value in self.pairs if leaf in topological((value,))]

    def of_rows(self, sweep: Sweep) -> list[UOp]:
        """What rows have once: statistics."""
        cut = self.cut
        leaves = {product.leaf for product in (*self.form.products, *self.form.transposed)}
        wanted = [(store, value) for store, value in self.pairs if leaves.isdisjoint(topological((value,)))]
        if not wanted:
            return []
        panel, u = cut.loops(cut.panels, cut.rows)
        row = cut.row(panel) + u
        at = sweep.at_row(panel * cut.rows + u, row)
        return [_store(store, value, at, cut.is_new(panel, row)) for store, value in wanted]


def _sweeps(cut: AttentionSizes) -> list[tuple[list[Statistic], list[Product]]]:
    """Statistics and products by how many statistics come one before the other for them. With one block of keys, all
    are in one sweep."""
    form: AttentionForm = cut.form
    level: dict[UOp, int] = {}
    found: list[tuple[list[Statistic], list[Product]]] = [([], [])]

    def enter(leaf: UOp, value: UOp) -> tuple[list[Statistic], list[Product]]:
        below = [level[node] + 1 for node in topological((value,)) if node in level]
        level[leaf] = max(below, default=0) if cut.chunks > 1 else 0
        while len(found) <= level[leaf]:
            found.append(([], []))
        return found[level[leaf]]

    for statistic in form.statistics:
        enter(statistic.leaf, statistic.value)[0].append(statistic)
    for product in form.products:
        enter(product.leaf, product.p)[1].append(product)
    return found


def _store(store: UOp, value: UOp, at: Values, gate: UOp | None) -> UOp:
    """A store of the kernel somewhere, perhaps under a condition."""
    target, _, position, *gates = store.src
    allowed = [with_values(given, at) for given in gates]
    both = gate if not allowed else allowed[0] if gate is None else allowed[0] & gate
    return target.store(with_values(value, at), with_values(position, at), gate=both)
