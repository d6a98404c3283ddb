"""Neighbouring bytes that are loaded one by one, loaded at once, on a GPU.

    load p0 at x*18, load p0 at x*18 + 1        ->        lanes 0 and 1 of load 2 of p0 from x*18 on

So is a half that is the scale of a block of packed weights: two bytes of it.
"""

from __future__ import annotations

from itertools import product
from math import gcd

from whit.dtype import dtypes
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.uop import UOp, make
from whit.simplify.sums import build_sum, linear_form

WIDTHS = (4, 2)
Key = tuple[UOp, UOp]  # memory, position without its constant


def pair_bytes(body: UOp) -> UOp:
    """The kernel with four or two neighbouring bytes in one load, where they begin at a multiple of four or two."""
    replaced: dict[UOp, UOp] = {}
    for (memory, base), loads in _loads_of_bytes(body).items():
        step = gcd(*linear_form(base)[0].values())
        for width, start in product(WIDTHS, sorted(loads)):
            wanted = [loads.get(start + i) for i in range(width)]
            if any(load is None or load in replaced for load in wanted) or gcd(step, start) % width:
                continue
            vector = make(ops.LOAD, (memory, base + start), width)
            replaced.update({load: vector.index(i) for i, load in enumerate(wanted) if load is not None})
    return body.substitute(replaced)


def _loads_of_bytes(body: UOp) -> dict[Key, dict[int, UOp]]:
    """All loads of one byte without a gate, by the constant in their position."""
    found: dict[Key, dict[int, UOp]] = {}
    for node in topological((body,)):
        is_byte = node.op is ops.LOAD and node.arg == 1 and node.dtype.itemsize == 1
        if not is_byte or len(node.src) > 2 or node.src[1].shape:
            continue
        memory, position = node.src
        terms, offset = linear_form(position)
        found.setdefault((memory, build_sum(terms, 0, dtypes.weakint)), {})[offset] = node
    return found
