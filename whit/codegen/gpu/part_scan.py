"""A long row that is scanned, as kernels for GPUs: blocks scan pieces of it, and then get what came before.

    store p0[r] = scan add over r < 1000001 of x[r]

    ->  store p0[k*8192] = sum over j < 8192 of x[k*8192 + j]                     a block for each k
        store p0[k*8192] = scan add over k of p0[k*8192], without the element     what comes before each piece
        store p0[k*8192 + j] = p0[k*8192] + scan add over j of x[k*8192 + j]      a block for each k
        store p0[999424 + j] = p0[999423] + scan add over j of x[999424 + j]      what is left of the row

The result is where sums are kept meanwhile, so this is not for scans that something else is computed of. A block of the
third kernel reads what came before its piece before any of its threads has got past a barrier, and writes after that.
"""

from __future__ import annotations

from math import prod

from whit.ir import ops
from whit.ir.args import RangeKind
from whit.ir.graph import topological
from whit.ir.nesting import Owner
from whit.ir.op import Op
from whit.ir.uop import UOp, as_index, make
from whit.kernel.ranges import free_ranges, is_open, next_id, replace_ranges, size_of, sizes_of

PIECE_ELEMENTS = 8192  # elements
LEAST_PIECES = 16  # pieces that are worth more kernels
MOST_ROWS = 64  # that leave a GPU idle


def part_scan(body: UOp) -> list[UOp]:
    """The kernels of a long scan in order; the kernel as it is, if it is none."""
    if not _is_long_scan(body):
        return [body]
    target, scan, *positions = body.src[0].src
    value, along = scan.src
    pieces, left = divmod(size_of(along), PIECE_ELEMENTS)

    def at(graph: UOp, place: UOp) -> UOp:
        return replace_ranges(graph, {along: place}, {})

    def write(place: UOp, new: UOp) -> UOp:
        return UOp.group(target.store(new, *(at(position, place) for position in positions)))

    def read(place: UOp) -> UOp:
        return target.index(*(at(position, place) for position in positions))

    def scanned(place: UOp, r: UOp) -> UOp:
        return at(value, place).scan(op, range=r)

    op: Op = scan.arg.op
    nodes = topological((body,))
    k, j = UOp.range(pieces, next_id(Owner.OUTPUT, nodes)), along.resized(PIECE_ELEMENTS)
    every = UOp.range(PIECE_ELEMENTS, next_id(Owner.REDUCE, nodes), RangeKind.REDUCE, Owner.REDUCE)
    first, place = k * PIECE_ELEMENTS, k * PIECE_ELEMENTS + j
    kernels = [
        write(first, at(value, first + every).reduce(op, ranges=(every,))),
        write(first, read(first).scan(op, range=k, exclusive=True)),
        write(place, make(op, (read(first), scanned(place, j)))),
    ]
    if left:
        j = along.resized(left)
        place, before = j + pieces * PIECE_ELEMENTS, read(as_index(pieces * PIECE_ELEMENTS - 1))
        kernels.append(write(place, make(op, (before, scanned(place, j)))))
    return kernels


def _is_long_scan(body: UOp) -> bool:
    """Whether a kernel stores one scan alone, of few long rows, and does not read what it overwrites."""
    store, *others = body.src
    target, scan, *_ = store.src
    if others or scan.op is not ops.SCAN or store.arg.gated or store.arg.combine or scan.arg.exclusive:
        return False
    value, along = scan.src
    rows = [r for r in free_ranges(body)[body] if r is not along]
    if any(node.op in (ops.SCAN, ops.SORT) or node is target for node in topological((value,))):
        return False
    is_known = not any(map(is_open, (along, *rows)))
    return is_known and size_of(along) // PIECE_ELEMENTS >= LEAST_PIECES and prod(sizes_of(rows)) <= MOST_ROWS
