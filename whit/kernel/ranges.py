"""What a kernel does along each range: free ranges, strides, regions.

A *region* is what runs inside one innermost loop nest: the value of a reduction up to the reductions inside it, or the
stored values outside of all reductions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.args import RangeKind
from whit.ir.free import free_ranges as free_ranges
from whit.ir.graph import topological
from whit.ir.map_graph import map_graph, rebuilt
from whit.ir.nesting import Owner
from whit.ir.op import Sources
from whit.ir.sizes import reach
from whit.ir.uop import UOp
from whit.records import dataclass
from whit.simplify.sums import linear_form


def most_of(size: int | UOp) -> int:
    """A size; of a symbolic one the largest."""
    return size if isinstance(size, int) else max(reach(size)[1] or 0, 0)


def size_of(r: UOp) -> int:
    """The size of a range; of an open one the largest."""
    return most_of(r.size)


def sizes_of(ranges: Iterable[UOp]) -> list[int]:
    """The sizes of several."""
    return [size_of(r) for r in ranges]


def is_open(r: UOp) -> bool:
    """Whether the size of a range is known only when the kernel runs."""
    return not isinstance(r.size, int)


def scanned_ranges(body: UOp) -> set[UOp]:
    """The ranges along which something is scanned: they run in order, inside all others."""
    return {node.src[1] for node in topological((body,)) if node.op is ops.SCAN}


def ordered_ranges(body: UOp, free: dict[UOp, frozenset[UOp]]) -> set[UOp]:
    """The ranges whose iterations may write one place: they run in order, on one core.

    Those that are marked so, and those that a store's position has no stride along: it leaves them out, or hides them
    behind data.
    """
    found = {r for r in free[body] if r.arg.kind is RangeKind.ORDERED}
    for store in body.src:
        place = store.src[2]
        terms, _ = linear_form(place)
        found.update(r for r in free[store] if r not in terms and not _moves(terms, r, free))
    return found


def _moves(terms: Mapping[UOp, int], r: UOp, free: dict[UOp, frozenset[UOp]]) -> bool:
    """Whether a part of a position that is arithmetic alone depends on the range."""
    return any(r in free[base] and not any(n.op is ops.INDEX for n in base.topological()) for base in terms)


def in_order(ranges: Iterable[UOp], innermost: Collection[UOp] = ()) -> list[UOp]:
    """Outer ranges first."""
    return sorted(ranges, key=lambda r: (r in innermost, r.arg.order, r.arg.kind.value))


def next_id(owner: Owner, nodes: Iterable[UOp]) -> int:
    """The first id that is free for another range of this owner, beside those among the nodes."""
    return 1 + max((node.arg.id for node in nodes if node.op is ops.RANGE and node.arg.owner is owner), default=-1)


def stride(position: UOp, r: UOp, free: dict[UOp, frozenset[UOp]]) -> int | None:
    """How far the position moves when r moves by one; 0 if not at all; None if that depends."""
    if r not in free.get(position, ()):
        return 0
    terms, _ = linear_form(position)
    for base in terms:
        if base is not r and r in free[base]:
            return None
    return terms.get(r, 0)


@dataclass(frozen=True, slots=True)
class Region:
    """The nodes that run together in the innermost loops of a reduction, or around the stores."""

    reduce: UOp | None  # the REDUCE whose value this is; None for the stores
    loads: tuple[UOp, ...]
    nodes: int  # a function counts as the ops that it becomes, with a number for each


def region_of(roots: Iterable[UOp], reduce: UOp | None) -> Region:
    """Everything below the roots up to reductions."""
    loads: list[UOp] = []
    seen: set[UOp] = set()
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node in seen or node.op is ops.REDUCE or node.dtype is dtypes.weakint:
            continue
        seen.add(node)
        if node.op is ops.INDEX:
            loads.append(node)
        stack.extend(node.src)
    more = sum(2 * node.op.operations - 1 for node in seen if node.op.operations > 1)
    return Region(reduce, tuple(loads), len(seen) + more)


def regions(body: UOp) -> list[Region]:
    """The region of the stores, then one for each reduction."""
    found = [region_of([store.src[1] for store in body.src], None)]
    for node in topological((body,)):
        if node.op is ops.REDUCE and len(node.src) > 1:
            found.append(region_of((node.src[0],), node))
    return found


def replace_ranges(root: UOp, values: dict[UOp, UOp], bound: dict[UOp, tuple[UOp, ...]]) -> UOp:
    """The graph with ranges replaced by expressions; a REDUCE that bound a range binds those in `bound` instead."""

    def replaced(node: UOp, src: Sources) -> UOp | None:
        if node.op is not ops.REDUCE or not any(r in values for r in node.src[1:]):
            return None
        ranges = [new for r in node.src[1:] for new in bound.get(r, (r,))]
        return rebuilt(node, (src[0], *dict.fromkeys(ranges)))

    return map_graph(root, replaced, dict(values))
