"""Functions of four bits become tables in a register.

Goes in: a kernel with vectors, on a target that can pick any of the lanes of a register for each lane of another.

    (cast(bits & 15, float32) - 8) * scale    ->    ((-8.0, -7.0, ..., 7.0) * scale)[bits & 15]

`bits` has an element for each lane, and `scale` is one number: so the function has 16 values, as many as a vector has
lanes. They are computed together, where the scale is known: outside of loops, or once a block. What is computed for
each vector is one instruction, which looks at four bits of its index and so needs no mask.

Where only one vector uses a table, the table is what does not change in any loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.uop import UOp, const, make
from whit.kernel.ranges import free_ranges
from whit.simplify.bounds import bounds
from whit.simplify.order import order
from whit.target import Target

ENTRIES = 16


def has_tables(target: Target) -> bool:
    """Whether lanes can be picked by numbers that are computed."""
    return "avx512f" in target.features


def look_up(body: UOp) -> UOp:
    """The kernel with functions of four bits as tables."""
    nodes = topological((body,))
    bits = _functions(nodes)
    tops = _tops(nodes, bits)
    if not tops:
        return body
    tables = {node: _table(node, bits[node]) for node in bits}
    free = free_ranges(UOp.group(*tables.values()))
    shared = Counter(tables[node] for node in tops)
    wanted = {node for node in tops if shared[tables[node]] > 1}
    fixed = {node: bits[node] for node in bits if not free[tables[node]]}
    wanted |= {node for node in _tops(nodes, fixed) if not _is_below(node, wanted)}
    new = {node: tables[node].index(bits[node]) for node in wanted if node is not bits[node]}
    return body.substitute(new)


def _functions(nodes: Iterable[UOp]) -> dict[UOp, UOp]:
    """Nodes that depend on four bits of a vector, and on numbers that all lanes share: node -> the bits."""
    found: dict[UOp, UOp] = {}
    even: set[UOp] = set()  # vectors of one number
    for node in nodes:
        if node.shape != (ENTRIES,):
            continue
        if node.op is ops.STACK and len(set(node.src)) == 1:
            even.add(node)
        elif node.op.elementwise or node.op in (ops.CAST, ops.BITCAST):
            vectors = {found.get(s) for s in node.src if s.shape and s not in even}
            one = next(iter(vectors), None)
            if not vectors:
                even.add(node)
            elif len(vectors) == 1 and one is not None:
                found[node] = one
            elif node.dtype is dtypes.int32 and _has_four_bits(node):
                found[node] = node
    return found


def _has_four_bits(node: UOp) -> bool:
    reach = bounds(node)
    return reach is not None and reach[0] >= 0 and reach[1] < ENTRIES


def _tops(nodes: Iterable[UOp], bits: dict[UOp, UOp]) -> list[UOp]:
    """The float32 that others than functions of the same bits use."""
    used: dict[UOp, None] = {}
    for node in nodes:
        if node not in bits or bits[node] is node:
            used.update(dict.fromkeys(s for s in node.src if s in bits))
    return [node for node in used if bits[node] is not node and node.dtype is dtypes.float32]


def _is_below(node: UOp, roots: set[UOp]) -> bool:
    return any(node in root.topological() for root in roots)


def _table(node: UOp, bits: UOp) -> UOp:
    """The values for 0 to 15, with operands in one order, so that equal tables are the same."""
    done = {bits: UOp.stack(*(const(dtypes.int32, i) for i in range(ENTRIES)))}
    for part in topological((node,)):
        if part in done or not part.shape or not part.src:
            done.setdefault(part, part)
            continue
        src = [done[s] for s in part.src]
        done[part] = make(part.op, tuple(sorted(src, key=order) if part.op.commutative else src), part.arg)
    return done[node]
