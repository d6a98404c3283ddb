"""What a kernel costs, counted before it is tiled: element operations and bytes moved.

Symbolic sizes count with their largest value. Of attention, scores count once, though they are written once for each
statistic and product of them, and only those that rows see.
"""

from __future__ import annotations

from math import prod

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.uop import UOp
from whit.kernel.attention_bounds import find_bounds
from whit.kernel.attention_form import find_chain
from whit.kernel.ranges import free_ranges, most_of

LEAST_REDUCTIONS = 2  # of a chain: a sum of scores, which are sums
COUNTED = 256  # elements that may be compared with each other


def estimate(body: UOp) -> tuple[int, int, int]:
    """Element operations, bytes read and bytes written by one run of a kernel."""
    free = free_ranges(body)
    work = 0
    touched: dict[UOp, int] = {}
    for node in topological((body,)):
        around = free[node] | set(node.src[1:] if node.op is ops.REDUCE else ())
        times = prod(most_of(r.size) for r in around)
        if (node.op.elementwise or node.op is ops.REDUCE) and node.dtype is not dtypes.weakint:
            work += times * node.op.operations
        if node.op is ops.INDEX and node.src[0].op is ops.PARAM:
            param = node.src[0]
            size = prod(most_of(n) for n in param.shape)
            touched[param] = min(touched.get(param, 0) + times, size)
    attention = _attention(body, free)
    work = work if attention is None else attention
    work += sum(_sorting(node, free) for node in {node.src[:1]: node for node in free if node.op is ops.SORT}.values())
    written = 0
    for store in body.src:
        times = prod(most_of(r.size) for r in free[store])
        written += times * store.src[0].dtype.itemsize
        if store.arg.combine is not None:
            param = store.src[0]
            size = prod(most_of(n) for n in param.shape)
            touched[param] = min(touched.get(param, 0) + times, size)
    read = sum(count * param.dtype.itemsize for param, count in touched.items())
    return work, read, written


def _attention(body: UOp, free: dict[UOp, frozenset[UOp]]) -> int | None:
    """The operations of a chain; None of other kernels."""
    if sum(node.op is ops.REDUCE for node in free) < LEAST_REDUCTIONS:
        return None
    chain = find_chain([store.src[1] for store in body.src])
    if chain is None or not chain.is_worth_blocks():
        return None
    ranges = frozenset().union(*(free[store] for store in body.src)) - {chain.rows, chain.keys, chain.columns}
    products = [*chain.products, *chain.turned]
    depths = sum(prod(most_of(r.size) for r in inner.along) for inner in chain.inner)
    columns = most_of(chain.columns.size) * len(products)
    scores = [*(statistic.value for statistic in chain.statistics), *(product.p for product in products)]
    inside = [node.op for node in topological(scores) if node.op.elementwise and node.dtype is not dtypes.weakint]
    each = 2 * (depths + columns) + sum(op.operations for op in inside) + len(chain.statistics)
    pairs = find_bounds(chain).pairs(most_of(chain.rows.size), most_of(chain.keys.size))
    return prod(most_of(r.size) for r in ranges) * pairs * each


def _sorting(node: UOp, free: dict[UOp, frozenset[UOp]]) -> int:
    """Steps of a sort: one for each digit of a key, or for each other element where these are counted; those of a
    network, where there are more."""
    key, _, along, _, *scratch = node.src
    elements = prod(most_of(r.size) for r in free[key] | {along})
    size = most_of(along.size)
    if not scratch:
        piece = min(node.arg.piece or size, size)
        stages = piece.bit_length()
        steps = piece if piece <= COUNTED else stages * (stages + 1) // 2
        return elements * (steps if not node.arg.runs else 1)
    return elements * (1 + key.dtype.itemsize if scratch[0].shape[2] >= (node.arg.piece or size) else 2)
