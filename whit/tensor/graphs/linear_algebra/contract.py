"""Sums of products over labelled axes: what is left of a formula of `einsum` once it is understood.

    "ij,jk,kl->il"  ->  pairs in the order that takes the fewest multiplications, then for each pair
    contract(x, "ij", y, "jk", "ik")  ->  sum over j of x expanded to (i, k, j) times y expanded to (i, k, j)

Goes in: nodes with a label for each axis. Comes out: nodes, in the dtype of those that went in. The product of matrices
that `@` makes, without labels, is here too.
"""

from __future__ import annotations

from itertools import combinations
from math import inf, prod
from typing import Any

from whit.ir import ops
from whit.ir.op import Shape
from whit.ir.sizes import reach
from whit.ir.uop import UOp, make
from whit.tensor.core import expand_to

Labels = tuple[str, ...]
Sizes = dict[str, Any]

MOST_EXACT = 8  # up to this many operands the best order of all is searched for: 3**8 steps


def one_each(x: UOp, labels: Labels) -> tuple[UOp, Labels]:
    """Labels that stand twice: the diagonal of their axes."""
    while len(set(labels)) != len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        first = labels.index(twice)
        second = labels.index(twice, first + 1)
        rest = [axis for axis in range(len(labels)) if axis not in (first, second)]
        x = x.permute((*rest, first, second))
        *lead, n, _ = x.shape
        if n:  # in rows of n + 1 elements the diagonal is the first column
            x = x.reshape((*lead, n * n)).pad([*((0, 0) for _ in lead), (0, n)]).reshape((*lead, n, n + 1))
            x = x.shrink([*((0, size) for size in lead), (0, n), (0, 1)])
        x = x.reshape((*lead, n))
        labels = (*(labels[axis] for axis in rest), twice)
    return x, labels


def summed(x: UOp, labels: Labels, needed: frozenset[str]) -> tuple[UOp, Labels]:
    """Without the axes that nobody needs: their sum."""
    gone = tuple(axis for axis, label in enumerate(labels) if label not in needed)
    if gone:
        x = x.reduce(ops.OR if x.dtype.is_bool else ops.ADD, gone)
    return x, tuple(label for label in labels if label in needed)


def ordered(x: UOp, labels: Labels, wanted: Labels, sizes: Sizes) -> UOp:
    """Axes in another order, with those that are missing."""
    x = x.permute(tuple(labels.index(label) for label in wanted if label in labels))
    x = x.reshape(tuple(_size_in(x, labels, wanted, label) for label in wanted))
    shape = tuple(sizes[label] for label in wanted)
    return x if x.shape == shape else x.expand(shape)


def _size_in(x: UOp, labels: Labels, wanted: Labels, label: str) -> Any:
    """The size of an axis of a permuted node; 1 where it has none."""
    if label not in labels:
        return 1
    return x.shape[[other for other in wanted if other in labels].index(label)]


def contract(x: UOp, left: Labels, y: UOp, right: Labels, out: Labels, sizes: Sizes) -> UOp:
    """The sum of x * y over all labels that are not in `out`, with axes as in `out`."""
    gone = tuple(dict.fromkeys(label for label in (*left, *right) if label not in out))
    full = (*out, *gone)
    is_bool = x.dtype.is_bool
    product = make(ops.AND if is_bool else ops.MUL, (ordered(x, left, full, sizes), ordered(y, right, full, sizes)))
    if not gone:
        return product
    return product.reduce(ops.OR if is_bool else ops.ADD, tuple(range(len(out), len(full))))


def evaluate(operands: list[tuple[UOp, Labels]], out: Labels, sizes: Sizes) -> UOp:
    """The whole sum of products."""
    nodes = [one_each(x, labels) for x, labels in operands]
    for place, (x, labels) in enumerate(nodes):
        others = frozenset(label for i, (_, names) in enumerate(nodes) if i != place for label in names)
        nodes[place] = summed(x, labels, others | frozenset(out))
    for first, second in path([frozenset(labels) for _, labels in nodes], frozenset(out), sizes):
        (y, right), (x, left) = nodes.pop(second), nodes.pop(first)
        needed = frozenset(out).union(*(names for _, names in nodes))
        names = tuple(dict.fromkeys(label for label in (*left, *right) if label in needed))
        target = names if nodes else out
        nodes.append((contract(x, left, y, right, target, sizes), target))
    ((x, labels),) = nodes
    return ordered(x, labels, out, sizes)


# ---- matrices


def transposed(x: UOp) -> UOp:
    """The last two axes change places."""
    rank = len(x.shape)
    return x.permute((*range(rank - 2), rank - 1, rank - 2))


def product_of(x: UOp, y: UOp, batch: Shape) -> UOp:
    """(..., m, k) and (..., k, n) -> (*batch, m, n), without m or n where an operand is a vector."""
    k = x.shape[-1]
    rows, columns = x.shape[-2:-1], y.shape[len(y.shape[:-2]) + 1 :]
    if columns:
        y = transposed(y)
    full = (*batch, *rows, *columns, k)
    lead = (1,) * (len(batch) - len(x.shape[:-2]))
    left = x.reshape((*lead, *x.shape[:-1], *(1,) * len(columns), k))
    lead = (1,) * (len(batch) - len(y.shape[:-2]))
    right = y.reshape((*lead, *y.shape[:-2], *(1,) * len(rows), *columns, k))
    product = make(ops.AND if x.dtype.is_bool else ops.MUL, (expand_to(left, full), expand_to(right, full)))
    return product.reduce(ops.OR if x.dtype.is_bool else ops.ADD, (len(full) - 1,))


# ---- the order


def path(labels: list[frozenset[str]], out: frozenset[str], sizes: Sizes) -> list[tuple[int, int]]:
    """Which two to contract next; a result goes to the end of the list. The first index is the smaller one."""
    if len(labels) < 2:
        return []
    if len(labels) == 2:
        return [(0, 1)]
    tree = _best_tree(labels, out, sizes) if len(labels) <= MOST_EXACT else _greedy_tree(labels, out, sizes)
    steps: list[tuple[int, int]] = []
    alive: list[Any] = list(range(len(labels)))

    def walk(node: Any) -> None:
        if isinstance(node, int):
            return
        for part in node:
            walk(part)
        first, second = sorted(alive.index(part) for part in node)
        steps.append((first, second))
        del alive[second], alive[first]
        alive.append(node)

    walk(tree)
    return steps


def _cost(labels: frozenset[str], sizes: Sizes) -> float:
    return float(prod(reach(sizes[label])[1] or 1 for label in labels))  # of symbolic sizes the largest


def _best_tree(labels: list[frozenset[str]], out: frozenset[str], sizes: Sizes) -> Any:
    """The binary tree with the fewest multiplications: every subset from its two best halves."""
    count = len(labels)
    everything = range(count)

    def result(members: tuple[int, ...]) -> frozenset[str]:
        inside = frozenset[str]().union(*(labels[i] for i in members))
        outside = out.union(*(labels[i] for i in everything if i not in members))
        return inside & outside

    best: dict[tuple[int, ...], tuple[float, Any]] = {(i,): (0.0, i) for i in everything}
    names: dict[tuple[int, ...], frozenset[str]] = {(i,): result((i,)) for i in everything}
    for size in range(2, count + 1):
        for members in combinations(everything, size):
            names[members] = result(members)
            found: tuple[float, Any] = (inf, None)
            for half in range(1, size // 2 + 1):
                for left in combinations(members, half):
                    right = tuple(i for i in members if i not in left)
                    here = _cost(names[left] | names[right], sizes)
                    total = best[left][0] + best[right][0] + here
                    if total < found[0]:
                        found = (total, (best[left][1], best[right][1]))
            best[members] = found
    return best[tuple(everything)][1]


def _greedy_tree(labels: list[frozenset[str]], out: frozenset[str], sizes: Sizes) -> Any:
    """The cheapest pair first; among equals the one with the smallest result."""
    nodes: list[tuple[Any, frozenset[str]]] = list(enumerate(labels))
    while len(nodes) > 1:
        best: tuple[float, float, int, int] | None = None
        for i, j in combinations(range(len(nodes)), 2):
            both = nodes[i][1] | nodes[j][1]
            outside = out.union(*(names for k, (_, names) in enumerate(nodes) if k not in (i, j)))
            candidate = (_cost(both, sizes), _cost(both & outside, sizes), i, j)
            best = candidate if best is None or candidate < best else best
        assert best is not None, "two operands at least are left"
        *_, i, j = best
        outside = out.union(*(names for k, (_, names) in enumerate(nodes) if k not in (i, j)))
        joined = ((nodes[i][0], nodes[j][0]), (nodes[i][1] | nodes[j][1]) & outside)
        nodes = [node for k, node in enumerate(nodes) if k not in (i, j)] + [joined]
    return nodes[0][0]
