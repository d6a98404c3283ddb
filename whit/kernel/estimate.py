"""What a kernel costs, counted before it is tiled: element operations and bytes moved.

Symbolic sizes count with their largest value. Of attention, scores count once, though they are written once for each
statistic and product of them, and only those that rows see.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.uop import UOp
from whit.kernel.cost import Cost
from whit.kernel.ranges import free_ranges, most_of

LEAST_REDUCTIONS = 2  # of attention: a sum of scores, which are sums
COUNTED_ELEMENTS = 256  # elements that may be compared with each other


def estimate(body: UOp) -> Cost:
    """One run of a kernel, or of a loop of kernels."""
    if body.op is ops.REPEAT:
        return _of_loop(body)
    free = free_ranges(body)
    attention = _attention(body, free)
    work = sum(_work(node, free) for node in free) if attention is None else attention
    sorts = {node.src[:1]: node for node in free if node.op is ops.SORT}
    work += sum(_sorting(node, free) for node in sorts.values())
    written = sum(_times(free[store]) * store.src[0].dtype.itemsize for store in body.src)
    return Cost(work, _bytes_read(body, free), written)


def _of_loop(body: UOp) -> Cost:
    """All steps of a scan; of other loops one."""
    times = 1
    if body.arg.kind == "scan":
        times = most_of(body.src[-1]) if body.arg.length is None else body.arg.length
    calls = [call for each in body.src if each.op is ops.FUNCTION for call in each.src[0].src]
    costs = [estimate(call.src[0].src[0]) for call in calls]
    return Cost(
        times * sum(cost.operations for cost in costs),
        times * sum(cost.bytes_read for cost in costs),
        times * sum(cost.bytes_written for cost in costs),
        times * sum(cost.launches for cost in costs),
    )


def _times(ranges: Iterable[UOp]) -> int:
    """How often something inside of these ranges happens."""
    return prod(most_of(r.size) for r in ranges)


def _work(node: UOp, free: dict[UOp, frozenset[UOp]]) -> int:
    """The element operations of a node; positions are not counted."""
    if node.dtype is dtypes.weakint or not (node.op.elementwise or node.op is ops.REDUCE):
        return 0
    along = node.src[1:] if node.op is ops.REDUCE else ()
    return _times(free[node] | set(along)) * node.op.operations


def _bytes_read(body: UOp, free: dict[UOp, frozenset[UOp]]) -> int:
    """Of each param at most all; what a store combines with is read, too."""
    reads = [(node.src[0], node) for node in free if node.op is ops.INDEX and node.src[0].op is ops.PARAM]
    reads += [(store.src[0], store) for store in body.src if store.arg.combine is not None]
    touched: dict[UOp, int] = {}
    for param, node in reads:
        touched[param] = min(touched.get(param, 0) + _times(free[node]), prod(map(most_of, param.shape)))
    return sum(count * param.dtype.itemsize for param, count in touched.items())


def _attention(body: UOp, free: dict[UOp, frozenset[UOp]]) -> int | None:
    """The operations of attention; None of other kernels."""
    if sum(node.op is ops.REDUCE for node in free) < LEAST_REDUCTIONS:
        return None
    from whit.kernel.attention_bounds import find_bounds  # lazy: few kernels reduce twice
    from whit.kernel.attention_form import find_attention  # lazy: the same

    form = find_attention([store.src[1] for store in body.src])
    if form is None or not form.is_worth_blocks():
        return None
    ranges = frozenset().union(*(free[store] for store in body.src)) - {form.rows, form.keys, form.columns}
    products = [*form.products, *form.transposed]
    depths = sum(_times(inner.along) for inner in form.inner)
    columns = most_of(form.columns.size) * len(products)
    scores = [*(statistic.value for statistic in form.statistics), *(product.p for product in products)]
    each = 2 * (depths + columns) + _of_one_element(scores) + len(form.statistics)
    pairs = find_bounds(form).pairs(most_of(form.rows.size), most_of(form.keys.size))
    return _times(ranges) * pairs * each


def _of_one_element(values: Iterable[UOp]) -> int:
    """Operations of one element of all of these."""
    inside = [node.op for node in topological(values) if node.op.elementwise and node.dtype is not dtypes.weakint]
    return sum(op.operations for op in inside)


def _sorting(node: UOp, free: dict[UOp, frozenset[UOp]]) -> int:
    """Steps of a sort: one for each digit of a key, or for each other element where these are counted; those of a
    network, where there are more."""
    key, _, along, _, *scratch = node.src
    elements = _times(free[key] | {along})
    size = most_of(along.size)
    if not scratch:
        piece = min(node.arg.piece or size, size)
        stages = piece.bit_length()
        steps = piece if piece <= COUNTED_ELEMENTS else stages * (stages + 1) // 2
        return elements * (steps if not node.arg.runs else 1)
    return elements * (1 + key.dtype.itemsize if scratch[0].shape[2] >= (node.arg.piece or size) else 2)
