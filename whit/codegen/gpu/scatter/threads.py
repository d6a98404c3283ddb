"""Scatters whose order matters, shared between threads by where they write.

    for i in order: p0[idx[i]*16 + c] += x[i, c]       one thread for each c

    ->  part < 61: a thread for each part and each c   each thread runs through all i,
        for i in order, where idx[i]*16 % 61 is part:  and reads and adds what falls into its part
            p0[...] += x[i, c]

Everything that is written to one place is written by one thread, in the order that it had: results are the same bits.
"""

from __future__ import annotations

from whit.codegen.gpu.gemm.staged import gated
from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.nesting import Owner
from whit.ir.uop import UOp
from whit.kernel.ranges import free_ranges, next_id
from whit.simplify.sums import build_sum, linear_form

PARTS = (1021, 509, 251, 127, 61, 31, 13)  # primes: rows of a power of two are spread over all of them


def in_parts(body: UOp, parallel: list[UOp], threads: int, most: int) -> tuple[UOp, list[UOp]]:
    """The kernel with a range over parts, as many as there is room for with `threads` for each of them; or as it is."""
    count = next((n for n in PARTS if n * threads <= most), 1)
    if count == 1 or not all(loads_of(store.src[2]) for store in body.src):
        return body, []
    part = UOp.range(count, next_id(Owner.OUTPUT, topological((body,))))
    stores = []
    for store in body.src:
        decide = [load for s in store.src[2:] for load in loads_of(s)]
        # 32 bits, since remainders of 64 take long
        mine = (row_of(store.src[2], set(parallel)).cast(dtypes.uint32) % count).eq(part.cast(dtypes.uint32))
        stores.append(gated(store, mine, *decide))
    return UOp.group(*stores), [part]


def row_of(place: UOp, parallel: set[UOp]) -> UOp:
    """A position without what is the same for all that one thread writes: neighbours are then in one part."""
    free = free_ranges(place)
    terms, _ = linear_form(place)
    return build_sum({base: factor for base, factor in terms.items() if not free[base] <= parallel}, 0, place.dtype)


def read_once(body: UOp) -> UOp:
    """Stores without conditions for what their own conditions have read.

    store p0, x[i], idx[i] where idx[i] < 8, gate idx[i] < 8     ->    store p0, x[i], idx[i], gate idx[i] < 8
    """
    if not any(store.arg.gated for store in body.src):
        return body
    return UOp.group(*(_read_once(store) for store in body.src))


def _read_once(store: UOp) -> UOp:
    known = {load.src: load for gate in store.src[3:] for load in loads_of(gate) if not load.arg}
    twice = [load for load in loads_of(store) if load.arg and load.src[:2] in known]
    return store.substitute({load: known[load.src[:2]] for load in twice})


def loads_of(value: UOp) -> list[UOp]:
    return [node for node in value.topological() if node.op is ops.INDEX]
