"""Contractions of contractions: the form of a kernel that computes attention, or a gradient of it.

    out[i, e] = sum over j of P(i, j) * W[j, e]         P: any expression of positions, and of
        S(i, j) = sum over d of A[i, d] * B[j, d]       inner contractions
        m(i) = max over j of S(i, j)                    statistics of rows

Softmax(Q K') V is one: A, B, W are queries, keys and values; P = exp(S - m), divided by its sum. So are its gradients:
that of the values has P transposed, those of queries and keys have two inner contractions. What makes the form worth
knowing: a block of P is enough to go on, so P is never stored as a whole (flash attention).

Goes in: the values that a kernel stores, as scalar expressions over ranges. Comes out: an `AttentionForm`, in which
every reduction is a leaf (a param that nothing else has) with a record of what it is; or None. The schedule asks
whether a kernel would be one, a code generator takes it from there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from whit.ir import ops
from whit.ir.args import LEAF_SLOT, RangeKind
from whit.ir.free import Free, free_ranges
from whit.ir.map_graph import map_graph
from whit.ir.nesting import Owner
from whit.ir.op import Op
from whit.ir.uop import UOp
from whit.records import dataclass, field
from whit.simplify.rules import simplify

MANY_HEADS = 8  # from which on each has a core to itself
# rows, and elements of the sums, of a product with the transposed matrix
MOST_TRANSPOSED_ROWS, MOST_TRANSPOSED_SUMS = 1024, 1 << 16
LEAST_ROWS, LEAST_KEYS, LEAST_COLUMNS, LEAST_DEPTH = 16, 32, 16, 8  # below, the matrix is as well stored


@dataclass(frozen=True, slots=True)
class Inner:
    """sum over `along` of a[i, along] * b[j, along]"""

    leaf: UOp
    a: UOp
    b: UOp
    along: tuple[UOp, ...]


@dataclass(frozen=True, slots=True)
class Statistic:
    """The reduction of a row of an expression over i and j."""

    leaf: UOp
    op: Op
    value: UOp


@dataclass(frozen=True, slots=True)
class Product:
    """sum over j of p(i, j) * w[j, e]"""

    leaf: UOp
    p: UOp
    w: UOp


@dataclass(slots=True)
class AttentionForm:
    """A kernel of this form. Expressions are over leaves, and all over the same ranges."""

    rows: UOp  # i
    keys: UOp  # j
    columns: UOp  # e
    inner: list[Inner] = field(default_factory=list)
    statistics: list[Statistic] = field(default_factory=list)  # each after those that it needs
    products: list[Product] = field(default_factory=list)
    # sums over i instead of j: p(i, j) * w[i, e]; j are their rows
    transposed: list[Product] = field(default_factory=list)
    values: list[UOp] = field(default_factory=list)  # what is stored

    def is_worth_blocks(self) -> bool:
        """The one decision when a kernel is made of this form: where its sides are long enough for register tiles."""
        sides = [(self.rows.size, LEAST_ROWS), (self.keys.size, LEAST_KEYS), (self.columns.size, LEAST_COLUMNS)]
        sizes = [r.size for inner in self.inner for r in inner.along]
        if not all(isinstance(size, int) for size in (*sizes, *(size for size, _ in sides))):
            return False
        # However the depth is split into loops: that may change between here and a code generator.
        deep = [(prod(r.size for r in inner.along), LEAST_DEPTH) for inner in self.inner if inner.along]
        return all(size >= least for size, least in (*sides, *deep))


class _OtherForm(Exception):  # noqa: N818
    """Something in the kernel has another form."""


def find_attention(values: Sequence[UOp]) -> AttentionForm | None:
    """The form of a kernel that stores these values; None if it has another."""
    reader = _Reader(values)
    try:
        return reader.form()
    except _OtherForm:
        return None


class _Reader:
    def __init__(self, values: Sequence[UOp]) -> None:
        self.values = values
        self.free: Free = {}
        for value in values:
            free_ranges(value, self.free)
        self.leaves: dict[UOp, UOp] = {}  # reduction that is no inner one -> leaf
        self.found: dict[tuple[object, ...], UOp] = {}  # what a reduction is -> leaf

    def form(self) -> AttentionForm:
        if any(node.op in (ops.SCAN, ops.SORT, ops.STAGE) for node in self.free):
            raise _OtherForm
        tops = list(dict.fromkeys(node for value in self.values for node in outermost(value)))
        products = [node for node in tops if self.is_product(node)]
        if not products:
            raise _OtherForm
        self.result = AttentionForm(*self.ranges(products[0]))
        for node in tops:
            if node not in products:
                self.statistic(node)
            elif not self.transposed(node):
                self.product(node)
        stop = tuple(self.leaves)
        self.result.values = [self.over_leaves(value, {}, stop) for value in self.values]
        return self.result

    def is_product(self, node: UOp) -> bool:
        """Whether this is a sum of products of which one factor has contractions inside, along what is summed."""
        value, *ranges = node.src
        if node.arg.op is not ops.ADD or value.op is not ops.MUL or len(ranges) != 1:
            return False
        return bool(self.along(value, ranges[0]))

    def factors(self, node: UOp) -> tuple[UOp, UOp]:
        """The factor with contractions inside, along what is summed, and the other."""
        left, right = node.src[0].src
        return (left, right) if self.along(left, node.src[1]) else (right, left)

    def along(self, root: UOp, key: UOp) -> list[UOp]:
        """The outermost reductions in an expression that depend on a range."""
        return [node for node in outermost(root) if key in self.free[node]]

    def ranges(self, product: UOp) -> tuple[UOp, UOp, UOp]:
        """i, j and e."""
        p, w = self.factors(product)
        j = product.src[1]
        columns = self.free[w] - self.free[p]
        inner = self.along(p, j)[0]
        if inner.src[0].op is not ops.MUL or len(columns) != 1:
            raise _OtherForm
        of_row = next((side for side in inner.src[0].src if j not in self.free[side]), None)
        if of_row is None:
            raise _OtherForm
        (of_key,) = (side for side in inner.src[0].src if side is not of_row)
        rows = [r for r in self.free[of_row] - self.free[of_key] - self.free[w] if r in self.free[product]]
        if not rows:
            raise _OtherForm
        i = max(rows, key=lambda r: (r.size if isinstance(r.size, int) else 0, r.arg.order))
        return i, j, next(iter(columns))

    def product(self, node: UOp) -> None:
        form = self.result
        p, w = self.factors(node)
        i, e, j = form.rows, form.columns, node.src[1]
        fits = i in self.free[p] and e in self.free[w] and i not in self.free[w] and e not in self.free[p]
        if not fits or outermost(w) or not {j} <= self.free[p] & self.free[w]:
            raise _OtherForm
        parts = self.expression(p, j), self.over_leaves(w, {j: form.keys})
        self.leaves[node] = leaf = self.leaf(("product", *parts), node)
        if all(known.leaf is not leaf for known in form.products):
            form.products.append(Product(leaf, *parts))

    def transposed(self, node: UOp) -> bool:
        """Whether this is a product with the same matrices transposed, as the gradients of keys and values are beside
        that of the queries. Its sums wait until all rows are done, so it takes a core for each head."""
        form = self.result
        i, j = form.rows, form.keys
        if not form.products or not self._has_room_for_columns(node):
            return False
        if any(node in tops and len(tops) > 1 for tops in map(outermost, self.values)):
            return False  # it is known when the others are gone
        p, w = self.factors(node)
        own = node.src[1]
        if i not in self.free[p] or i in self.free[w] or form.columns in self.free[p] or outermost(w):
            return False
        leaves: dict[UOp, UOp] = {}
        for inner in outermost(p):
            parts = self.inner_parts(inner, i, own) if {i, own} <= self.free[inner] else None
            leaf = self.found.get(("inner", *parts)) if parts is not None else None
            if leaf is None:
                return False
            leaves[inner] = leaf
        names = {own: i, i: j}
        both = self.over_leaves(p, {**leaves, **names}), self.over_leaves(w, names)
        self.leaves[node] = leaf = self.leaf(("turned", *both), node)
        form.transposed.append(Product(leaf, *both))
        return True

    def _has_room_for_columns(self, node: UOp) -> bool:
        """Whether there are heads enough for the cores, and a head's sums fit into a core's cache."""
        i, columns = self.result.rows, self.result.columns
        if not isinstance(i.size, int) or i.size != self.result.keys.size:
            return False
        heads = prod(r.size if isinstance(r.size, int) else 0 for r in self.free[node] - {i, columns})
        return bool(
            heads >= MANY_HEADS and i.size <= MOST_TRANSPOSED_ROWS and i.size * columns.size <= MOST_TRANSPOSED_SUMS
        )

    def statistic(self, node: UOp) -> UOp:
        """The leaf of a reduction along a row."""
        if node in self.leaves:
            return self.leaves[node]
        form = self.result
        value, *ranges = node.src
        is_row = form.rows in self.free[node] and form.columns not in self.free[node]
        if not is_row or len(ranges) != 1 or ranges[0].size != form.keys.size:
            raise _OtherForm
        known = self.expression(value, ranges[0])
        self.leaves[node] = leaf = self.leaf(("statistic", node.arg.op, known), node)
        if all(other.leaf is not leaf for other in form.statistics):
            form.statistics.append(Statistic(leaf, node.arg.op, known))
        return leaf

    def inner(self, node: UOp, key: UOp) -> UOp:
        """The leaf of a contraction inside, of which `key` is the range j."""
        parts = self.inner_parts(node, key, self.result.rows)
        if parts is None:
            raise _OtherForm
        leaf = self.leaf(("inner", *parts), node)
        if all(known.leaf is not leaf for known in self.result.inner):
            self.result.inner.append(Inner(leaf, *parts))
        return leaf

    def inner_parts(self, node: UOp, key: UOp, row: UOp) -> tuple[UOp, UOp, tuple[UOp, ...]] | None:
        """The operands of a contraction inside, with i and j for the ranges `row` and `key`."""
        value, *ranges = node.src
        if node.arg.op is not ops.ADD or value.op is not ops.MUL or any(outermost(side) for side in value.src):
            return None
        a, b = value.src if key in self.free[value.src[1]] else value.src[::-1]
        of_a, of_b = self.free[a], self.free[b]
        if row not in of_a or key not in of_b or row in of_b or key in of_a:
            return None
        if any(r not in of_a or r not in of_b for r in ranges):
            return None
        own = {r: UOp.range(r.src[0], n, RangeKind.REDUCE, Owner.INNER) for n, r in enumerate(ranges)}
        names = {key: self.result.keys, row: self.result.rows, **own}
        return self.over_leaves(a, names), self.over_leaves(b, names), tuple(own.values())

    def expression(self, root: UOp, key: UOp) -> UOp:
        """An expression over i and j, `key` being its j, over leaves."""
        leaves: dict[UOp, UOp] = {}
        for node in outermost(root):
            leaves[node] = self.inner(node, key) if key in self.free[node] else self.statistic(node)
        return self.over_leaves(root, {**leaves, key: self.result.keys})

    def over_leaves(self, root: UOp, names: dict[UOp, UOp], stop: Iterable[UOp] = ()) -> UOp:
        """An expression with other names for some of its nodes. Simplified: what is the same is written the same."""
        names = {**{node: self.leaves[node] for node in stop}, **names}
        return simplify(with_values(root, names))

    def leaf(self, key: tuple[object, ...], node: UOp) -> UOp:
        """A name for a reduction: the same for what is the same."""
        if key not in self.found:
            self.found[key] = UOp.param(LEAF_SLOT + len(self.found), node.dtype, ())
        return self.found[key]


def outermost(root: UOp) -> list[UOp]:
    """The reductions in an expression that are in no other."""
    found: list[UOp] = []
    stack, seen = [root], {root}
    while stack:
        node = stack.pop()
        if node.op is ops.REDUCE:
            found.append(node)
            continue
        fresh = [s for s in node.src if s not in seen] if not node.op.opaque else []
        seen.update(fresh)
        stack.extend(fresh)
    return found


def with_values(root: UOp, values: dict[UOp, UOp]) -> UOp:
    """An expression with some of its nodes replaced, whatever they are."""
    return map_graph(root, lambda node, src: None, dict(values))
