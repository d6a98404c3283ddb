"""Loops along rows that were made longer go to their ends, so that vectors divide them.

    max over k < 50257 of t0[r0, k]               ->   max over k < 50304 of (k < 50257 ? t0[r0, k] : -inf)
    store t1[r0, r1] = ..., r1 < 50257            ->   the same with r1 < 50304

Goes in: the body of a kernel, and its params whose rows are longer than what is in them (`align_rows`). Comes out: the
body with longer ranges, where everything that a range walks along is such a row. What is written behind a row is never
read; what is read there is not used.
"""

from __future__ import annotations

from collections.abc import Collection

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.args import RangeKind
from whit.ir.free import free_ranges
from whit.ir.graph import topological
from whit.ir.map_graph import map_graph, rebuilt
from whit.ir.op import Sources
from whit.ir.uop import UOp, const
from whit.records import dataclass

Free = dict[UOp, frozenset[UOp]]  # node -> the ranges that it depends on
BY_SIZE = (ops.SCAN, ops.SORT, ops.STAGE)  # what gives another result if one of its ranges is longer


def fill_rows(body: UOp, longer: Collection[UOp]) -> UOp:
    """The body with loops to the ends of rows."""
    free = free_ranges(body)
    nodes = topological((body,))
    accesses = [_access(node) for node in nodes if node.op is ops.INDEX or node.op is ops.STORE]
    fixed = {source for node in nodes if node.op in BY_SIZE for source in node.src}
    ends = {r: _end(r, accesses, free, longer) for r in nodes if r.op is ops.RANGE and r not in fixed}
    new = {r: r.resized(end) for r, end in ends.items() if end}
    return _over(body, new) if new else body


def _end(r: UOp, accesses: list[_Access], free: Free, longer: Collection[UOp]) -> int:
    """The size of the rows that a range walks along, if it does nothing else."""
    if not isinstance(r.size, int) or r.arg.kind not in (RangeKind.LOOP, RangeKind.REDUCE):
        return 0
    found: set[int] = set()
    for access in accesses:
        if not any(r in free[i] for i in access.depends_on):
            continue
        if access.memory not in longer or access.is_conditional or not access.is_along(r, free):
            return 0
        found.add(access.memory.shape[-1])
    return found.pop() if len(found) == 1 else 0


@dataclass(frozen=True, slots=True)
class _Access:
    """One INDEX or STORE of a kernel."""

    memory: UOp
    position: tuple[UOp, ...]
    is_conditional: bool  # what is there matters: behind a gate, or combined with what is stored
    depends_on: tuple[UOp, ...]  # whose ranges it runs over

    def is_along(self, r: UOp, free: Free) -> bool:
        """Whether a range is the place in a row, and in nothing else."""
        *outer, last = self.position
        return last is r and not any(r in free[i] for i in outer)


def _access(node: UOp) -> _Access:
    if node.op is ops.INDEX:
        memory, *position = node.src
        return _Access(memory, tuple(position), bool(node.arg), tuple(position))
    memory, _, *position = node.src
    return _Access(memory, tuple(position), node.arg.gated or node.arg.combine is not None, (*position, node))


def _over(body: UOp, new: dict[UOp, UOp]) -> UOp:
    """The body over new ranges; reductions along them do not see what is behind the old ones."""

    def hidden(node: UOp, src: Sources) -> UOp | None:
        if node.op is not ops.REDUCE:
            return None
        value, *ranges = src
        for r in node.src[1:]:
            if r in new:
                inside = new[r] < const(dtypes.weakint, r.size)
                value = inside.where(value, const(node.dtype, node.arg.op.identity(node.dtype)))
        return rebuilt(node, (value, *ranges))

    return map_graph(body, hidden, dict(new))
