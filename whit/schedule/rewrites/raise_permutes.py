"""What is made of the sums of a product is stored in their order, whatever order it is shown in.

    relu(permute(x @ y as (b, h, w, o))) + z         ->   permute(relu(x @ y) + permute back(z))
    stage(permute back(permute(v)))                  ->   stage(v)

A convolution of halves computes its channels side by side (`whit/tensor/graphs/convolution/channels_last.py`) and shows
them as axis 1; the next one wants its input with channels side by side again. Permutes of such products rise through
elementwise ops and reductions until something needs the order that they make: what is stored for the user, a view, or
the permute back. So everything between two convolutions reads and writes neighbours, and nothing is turned. A value
that is stored in the new order anyway is read from there. What is stored for the user is turned by the kernel that
computes it, or, of small images, by one of its own.
"""

from __future__ import annotations

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.map_graph import rebuilt
from whit.ir.uop import UOp, make
from whit.kernel.tensor_cores import TILE_SIDE
from whit.schedule.values import is_contraction, prod_of

Order = tuple[int, ...]
WORTH_PRODUCTS = 400  # products in the time that it takes to read and write one of their sums


def raise_permutes(graph: UOp) -> UOp:
    """The graph with permutes of products of halves as far up as they can be."""
    order = topological((graph,))
    if not any(_is_of_product(node) or _keeps_permuted(node) for node in order):
        return graph
    return _read_stored(_Raising().run(order))


def _keeps_permuted(node: UOp) -> bool:
    return node.op is ops.STAGE and node.src[0].op is ops.PERMUTE and node.src[0].src[0].op is ops.PERMUTE


def _is_of_product(node: UOp) -> bool:
    """Whether a permute shows the sums of a product of halves with its last axis, channels, before those of space; or
    the largest halves of windows."""
    if node.op is not ops.PERMUTE:
        return False
    (value,), rank = node.src, len(node.arg)
    if rank < 4 or node.arg != (0, rank - 1, *range(1, rank - 1)):
        return False
    while value.op is ops.CAST or value.op in ops.SAME_VALUE:
        value = value.src[0]
    if _is_kept(value, rank):
        return True
    if value.op is ops.REDUCE and value.arg.op is ops.MAX:
        return value.dtype in dtypes.float16s
    return value.op is ops.REDUCE and is_contraction(value) and all(_is_half_precision(x) for x in value.src[0].src)


def _is_kept(value: UOp, rank: int) -> bool:
    """Whether a value is the sums of a convolution of frozen weights (`FROZEN`), over windows, channels last; or the
    largest elements of windows of an image that lies so."""
    if value.op is ops.RESHAPE:  # of a transposed convolution, whose results lie side by side
        moved = value.src[0]
        return rank == 4 and moved.op is ops.PERMUTE and moved.src[0].op is ops.STAGE and len(moved.shape) == 6
    if value.op is not ops.REDUCE or value.dtype is not dtypes.float32:
        return False
    (products,) = value.src
    if value.arg.op is ops.MAX:
        return rank == 4 and len(products.shape) == 6 and value.arg.axes == (2, 4)
    summed = len(value.arg.axes)
    is_over_windows = summed in (rank - 2, rank - 1) and value.arg.axes == (*range(rank, rank + summed),)
    is_sum = value.arg.op is ops.ADD and products.op is ops.MUL
    return is_sum and len(products.shape) == rank + summed and is_over_windows


def _is_half_precision(value: UOp) -> bool:
    while value.op in ops.MOVEMENT:
        value = value.src[0]
    return value.op is ops.CAST and value.src[0].dtype in dtypes.float16s


class _Raising:
    """For each node a value, and the order in which the node shows it: the permute that has risen this far."""

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
        if node.op.elementwise or node.op is ops.CAST:
            return self._elementwise(node)
        value, order = self.found[node.src[0]]
        if node.op is ops.PERMUTE and (order is not None or _is_of_product(node)):
            return value, _order_or_none(node.arg if order is None else [order[axis] for axis in node.arg])
        if node.op in ops.SAME_VALUE and order is not None:
            return value, order
        if node.op is ops.REDUCE and order is not None:
            return _reduced(node, value, order)
        return self._plain(node), None

    def _elementwise(self, node: UOp) -> tuple[UOp, Order | None]:
        """permute(a) + b -> a + permute back(b), in the order of the first source that has one"""
        risen = next((order for _, order in map(self.found.__getitem__, node.src) if order is not None), None)
        if risen is None:
            return self._plain(node), None
        return make(node.op, tuple([self._in_order(s, risen) for s in node.src]), node.arg), risen

    def _in_order(self, source: UOp, order: Order) -> UOp:
        """A source of an elementwise op as what shows it in this order."""
        value, own = self.found[source]
        if own == order or not source.shape:
            return value
        return self.show(source).permute(tuple(order.index(axis) for axis in range(len(order))))

    def _plain(self, node: UOp) -> UOp:
        src = tuple([self.show(s) for s in node.src])
        if node.op is ops.STORE and len(src) == 2 and (order := self.found[node.src[1]][1]) is not None:
            value = self.found[node.src[1]][0]
            src = (src[0], value.stage().permute(order)) if _is_permuted_after(value) else src
        if node.op is ops.STAGE and (stored := _stored_under(node.src[0], src[0])) is not None:
            return stored
        return rebuilt(node, src)

    def show(self, node: UOp) -> UOp:
        """The node as it was, of what has become of its sources."""
        if node not in self.shown:
            value, order = self.found[node]
            self.shown[node] = value if order is None else value.permute(order)
        return self.shown[node]


def _reduced(node: UOp, value: UOp, order: Order) -> tuple[UOp, Order | None]:
    """reduce(permute(v)) -> reduce(v) over the axes that are meant, and the order that is left of the others"""
    left = [order[axis] for axis in range(len(order)) if axis not in node.arg.axes]
    axes = tuple(sorted(order[axis] for axis in node.arg.axes))
    return value.reduce(node.arg.op, axes), _order_or_none([sorted(left).index(axis) for axis in left])


def _is_permuted_after(value: UOp) -> bool:
    """Whether the sums (batch, *space, channels) of a product are stored in this order, and then turned: where the
    pixels of an image as columns of tiles leave so many empty that to compute these takes longer than to copy all."""
    pixels = prod_of(value.shape[1:-1])
    while value.op.elementwise or value.op is ops.CAST:
        value = next((s for s in value.src if s.shape == value.shape), value.src[0])
    if value.op is not ops.REDUCE or not is_contraction(value) or len(value.shape) < 4:
        return False
    depth = prod_of(tuple(value.src[0].shape[axis] for axis in value.arg.axes))
    return bool(depth * (-pixels % TILE_SIDE) > WORTH_PRODUCTS * pixels)


def _stored_under(before: UOp, value: UOp) -> UOp | None:
    """What is in memory already of a value to keep: permutes that cancel each other are all there is between them."""
    order = [*range(len(value.shape))]
    is_permuted = value is not before
    while value.op is ops.PERMUTE:
        value, order, is_permuted = value.src[0], [value.arg[axis] for axis in order], True
    is_stored = is_permuted and value.op in (ops.STAGE, ops.PARAM, ops.BUFFER)
    return value if is_stored and _order_or_none(order) is None else None


def _order_or_none(order: list[int] | Order) -> Order | None:
    """None for axes as they are."""
    return None if [*order] == [*range(len(order))] else tuple(order)


def _read_stored(graph: UOp) -> UOp:
    """stage(v), v + w  ->  stage(v), stage(v) + w"""
    order = topological((graph,))
    stored = {node.src[0]: node for node in order if node.op is ops.STAGE and len(node.src) == 1}
    done: dict[UOp, UOp] = {}
    for node in order:
        src = tuple([done[s] for s in node.src])
        if node.op.elementwise:
            src = tuple(
                [done[stored[s]] if stored.get(s) in done else new for s, new in zip(node.src, src, strict=True)]
            )
        done[node] = rebuilt(node, src)
    return done[graph]
