"""A kernel whose loops nothing connects, as one kernel for each: on a GPU they are launched one after the other.

    store p0[r0] over r0 < 8, store p0[8 + r1] over r1 < 6     ->     two kernels

    store p0[m, n] = sum of a * b, store p1[m, n] = sum of c * d     ->     two kernels

A scan of a long row, as several kernels (`part_scan`).

On a CPU one core runs them in turn. Blocks of a GPU cannot wait for one another, and a launch waits for the one before.
"""

from __future__ import annotations

from whit.codegen.gpu.part_scan import part_scan
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.uop import UOp
from whit.kernel.contraction import find_contraction
from whit.kernel.ranges import free_ranges


def separate(body: UOp) -> list[UOp]:
    """The kernels in order, each of stores that have ranges in common with the first of them."""
    free = free_ranges(body)
    parts: list[tuple[set[UOp], list[UOp]]] = []
    for store in body.src:
        mine = set(free[store])
        if parts and (parts[-1][0] & mine or (not mine and not parts[-1][0])):
            parts[-1][0].update(mine)
            parts[-1][1].append(store)
        else:
            parts.append((mine, [store]))
    separated = [UOp.group(*part) for _, stores in parts for part in _products(stores)]
    return [kernel for part in separated for kernel in part_scan(part)]


def _products(stores: list[UOp]) -> list[list[UOp]]:
    """Each matrix product by itself, if stores are of several: tensor cores compute one at a time.

    What a later one reads beside its operands may be what an earlier one overwrites: such stay together.
    """
    found = [find_contraction(UOp.group(store)) for store in stores]
    reduces = {each.reduce for each in found if each is not None}
    if len(stores) == 1 or None in found or len(reduces) != len(stores):
        return [stores]
    outside = [node for store in stores[1:] for node in topological((store.src[1],), stop=reduces)]
    return [stores] if any(node.op is ops.INDEX for node in outside) else [[store] for store in stores]
