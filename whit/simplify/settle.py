"""Long sums in their final form, in linear time.

While the rules run, a sum of n terms grows one term at a time, and putting it in order each time would take n**2 steps.
So beyond `LONGEST` terms `canonical_sum` only notes that there is work left. Here it is done, once for each whole sum:

    ((c + a) + b) + c*2     65 terms or more, in any order and nesting     ->     (a + b) + c*3

A part of a sum that is used several times is looked at once, whatever the number of paths to it. Where many long sums
overlap, all of their orders together can be larger than any limit (n prefixes of one sum have n**2 / 2 terms): then
the outermost are put in order, until `EFFORT` steps a node are used up, and the rest stay as they are.
"""

from __future__ import annotations

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.map_graph import map_graph
from whit.ir.op import Sources
from whit.ir.uop import UOp
from whit.simplify.order import order
from whit.simplify.sums import LongSums, Terms, build_sum, is_long, is_part, recombine, split_term, sum_nodes, weigh

EFFORT = 8


def settle(root: UOp, known: LongSums) -> UOp:
    """The graph with its long sums in order; these are entered in `known`."""
    parts = _long_sums(topological((root,)), known)
    done: dict[UOp, UOp] = {}

    def ordered(node: UOp, _: Sources) -> UOp | None:
        if node not in parts:
            return None
        terms, offset = weigh(parts[node])
        return _ordered(terms, offset, node, done, known)

    return map_graph(root, ordered, done)


def _long_sums(nodes: list[UOp], known: LongSums) -> dict[UOp, list[UOp]]:
    """The long sums that are not part of a longer one and not in order yet, each with its inner nodes."""
    in_order = _sums_in_order(nodes)
    is_used_whole = {nodes[-1]}
    for node in nodes:
        if not is_part(node):
            is_used_whole.update(node.src)
    if known.effort is None:
        known.effort = EFFORT * len(nodes)
    found: dict[UOp, list[UOp]] = {}
    for node in reversed(nodes):
        if node not in is_used_whole or not is_part(node) or not node.dtype.is_int:
            continue
        if node in known.settled or node in in_order or not any(map(is_long, (node, *node.src))):
            continue
        inner = sum_nodes(node, known.effort)
        if inner:
            found[node] = inner
            known.effort -= len(inner)
    return found


def _sums_in_order(nodes: list[UOp]) -> set[UOp]:
    """The sums that need no work; of those with two halves of divisions that is not known."""
    divisions: dict[UOp, int] = {}  # sum in order -> how many of its terms are quotients or remainders
    for node in nodes:
        if node.op is not ops.ADD:
            continue
        left, right = node.src
        if left.op is ops.ADD and left not in divisions:
            continue
        last = left.src[1] if left.op is ops.ADD else left
        bases = split_term(last)[0], split_term(right)[0]
        if ops.ADD in (bases[0].op, bases[1].op) or order(bases[0]) >= order(bases[1]):
            continue
        before = divisions[left] if left.op is ops.ADD else _is_half(bases[0])
        if before + _is_half(bases[1]) < 2:
            divisions[node] = before + _is_half(bases[1])
    return set(divisions)


def _is_half(base: UOp) -> bool:
    return base.op is ops.FLOORDIV or base.op is ops.FLOORMOD


def _ordered(terms: Terms, offset: int, node: UOp, done: dict[UOp, UOp], known: LongSums) -> UOp:
    """The sum of these terms, in order."""
    merged: Terms = {}
    for base, coefficient in terms.items():
        merged[done[base]] = merged.get(done[base], 0) + coefficient
    while node.dtype is dtypes.weakint and recombine(merged):
        pass
    total = build_sum(merged, offset, node.dtype)
    if not any(base.op is ops.ADD for base in merged):
        part = total
        while part.op is ops.ADD:
            known.settled.add(part)
            part = part.src[0]
    return total
