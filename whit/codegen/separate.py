"""A kernel whose loops nothing connects, as one kernel for each: on a GPU they are launched one after the other.

    store p0[r0] over r0 < 8, store p0[8 + r1] over r1 < 6     ->     two kernels

On a CPU one core runs them in turn. Blocks of a GPU cannot wait for one another, and a launch waits for the one before.
"""

from __future__ import annotations

from whit.codegen.ranges import free_ranges
from whit.ir.uop import UOp


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
    return [UOp.group(*stores) for _, stores in parts]
