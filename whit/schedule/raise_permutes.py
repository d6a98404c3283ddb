"""What is made of the sums of a product is kept in their order, whatever order it is shown in.

    relu(permute(x @ y as (b, h, w, o))) + z         ->   permute(relu(x @ y) + permute back(z))
    stage(permute back(permute(v)))                  ->   stage(v)

A convolution of halves computes its channels side by side (`whit/tensor/channels_last.py`), shows them as axis 1, and the
next one wants its input with channels side by side again. Permutes of such products rise through elementwise ops and
reductions until something needs the order that they make: what is stored for the user, a view, or the permute back. So
everything between two convolutions reads and writes neighbours, and nothing is turned. A value that is kept in the new
order anyway is read from there.
"""

from __future__ import annotations

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.uop import UOp, make
from whit.schedule.lower import is_contraction

HALVES = (dtypes.float16, dtypes.bfloat16)
Order = tuple[int, ...]
THROUGH = frozenset({ops.CAST, ops.BITCAST, *ops.SAME_VALUE})


def raise_permutes(graph: UOp) -> UOp:
    """The graph with permutes of products of halves as far up as they can be."""
    order = topological((graph,))
    if not any(node.op is ops.PERMUTE and _is_of_product(node) for node in order):
        return graph
    return _read_kept(_Raising().run(order))


def _is_of_product(node: UOp) -> bool:
    """Whether a permute shows the sums of a product of halves with the last axis, channels, in front of those of space."""
    (value,) = node.src
    rank = len(node.arg)
    if rank < 4 or node.arg != (0, rank - 1, *range(1, rank - 1)):
        return False
    while value.op in THROUGH or value.op is ops.RESHAPE:
        value = value.src[0]
    return value.op is ops.REDUCE and is_contraction(value) and all(_is_half(x) for x in value.src[0].src)


def _is_half(value: UOp) -> bool:
    while value.op in ops.MOVEMENT:
        value = value.src[0]
    return value.op is ops.CAST and value.src[0].dtype in HALVES


class _Raising:
    """For each node a node and the order in which it shows that: the permute that has risen this far."""

    def __init__(self) -> None:
        self.found: dict[UOp, tuple[UOp, Order | None]] = {}
        self.shown: dict[UOp, UOp] = {}

    def run(self, order: list[UOp]) -> UOp:
        for node in order:
            self.found[node] = self.raised(node)
        return self.show(order[-1])

    def raised(self, node: UOp) -> tuple[UOp, Order | None]:
        if not node.src:
            return node, None
        value, order = self.found[node.src[0]]
        if node.op is ops.PERMUTE and (order is not None or _is_of_product(node)):
            both = tuple(node.arg) if order is None else tuple(order[axis] for axis in node.arg)
            return value, None if both == (*range(len(both)),) else both
        if node.op.elementwise or node.op in THROUGH:
            orders = [self.found[s][1] for s in (node.src[:1] if node.op in THROUGH else node.src)]
            first = next((each for each in orders if each is not None), None)
            if first is not None and (node.op not in THROUGH or len(node.src) == 1 or node.op in ops.SAME_VALUE):
                sources = node.src[:1] if node.op in ops.SAME_VALUE else node.src
                return self._elementwise(node, sources, first), first
        if node.op is ops.REDUCE and order is not None and len(node.src) == 1:
            return self._reduced(node, value, order)
        return self._plain(node), None

    def _elementwise(self, node: UOp, sources: tuple[UOp, ...], order: Order) -> UOp:
        """The op on values in the order of one of them."""
        if node.op in ops.SAME_VALUE:
            return self.found[sources[0]][0]
        return make(node.op, tuple(self._in_order(s, order) for s in sources), node.arg)

    def _in_order(self, source: UOp, order: Order) -> UOp:
        value, own = self.found[source]
        if own == order or not source.shape:
            return value
        back = tuple(order.index(axis) for axis in range(len(order)))
        return self.show(source).permute(back)

    def _reduced(self, node: UOp, value: UOp, order: Order) -> tuple[UOp, Order | None]:
        axes = tuple(sorted(order[axis] for axis in node.arg.axes))
        left = [order[axis] for axis in range(len(order)) if axis not in node.arg.axes]
        rank = sorted(left)
        new = tuple(rank.index(axis) for axis in left)
        return value.reduce(node.arg.op, axes), None if new == (*range(len(new)),) else new

    def _plain(self, node: UOp) -> UOp:
        src = tuple([self.show(s) for s in node.src])
        if src == node.src:
            return node
        if node.op is ops.STAGE and src[0] is not node.src[0] and src[0].op in (ops.STAGE, ops.PARAM, ops.BUFFER):
            return src[0]  # it lies in this order already
        return make(node.op, src, node.arg)

    def show(self, node: UOp) -> UOp:
        """The node as it was, of what has been made of its sources."""
        if node not in self.shown:
            value, order = self.found[node]
            self.shown[node] = value if order is None else value.permute(order)
        return self.shown[node]


def _read_kept(graph: UOp) -> UOp:
    """stage(v), v + w  ->  stage(v), stage(v) + w"""
    order = topological((graph,))
    kept = {node.src[0]: node for node in order if node.op is ops.STAGE and len(node.src) == 1}
    done: dict[UOp, UOp] = {}
    for node in order:
        src = tuple([done[s] for s in node.src])
        if node.op.elementwise:
            src = tuple([done[kept[s]] if kept.get(s) in done else new for s, new in zip(node.src, src, strict=True)])
        done[node] = node if src == node.src else make(node.op, src, node.arg)
    return done[graph]
