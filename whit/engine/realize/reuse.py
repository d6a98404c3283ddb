"""Outputs that can lie in the memory of an input: `w.assign(w - step)` needs no second w. So can temporaries (`plan`).

An output may overwrite an input if every kernel that reads the input runs before the one that writes the output, or is
that one, and reads in every iteration only the element that it then writes.
"""

from __future__ import annotations

from whit.cache import RecentlyUsed, register_cache
from whit.ir import ops
from whit.ir.graph import topological
from whit.ir.uop import UOp, as_index
from whit.kernel.contraction import find_product
from whit.simplify import simplify


def can_overwrite(linear: UOp, output: int, source: int) -> bool:
    """Whether the param in slot `output` of a schedule may be the same memory as the one in slot `source`."""
    places = _places.get(linear)
    if places is None:
        _places.clear()  # one is asked about at a time
        places = _places[linear] = _places_of(linear)
    written = places.get(output, {})
    first = min(written, default=len(linear.src))
    for number, read in places.get(source, {}).items():
        if number < first:
            continue
        place = written.get(number)
        if number > first or place is None or not is_same_element(linear.src[number].src[0].src[0], place, read):
            return False
    return True


_places: dict[UOp, dict[int, dict[int, int]]] = {}  # LINEAR -> slot -> number of a call -> the argument that shows it
register_cache(_places.clear, "engine.places_of_slots")


def _places_of(linear: UOp) -> dict[int, dict[int, int]]:
    """Which argument of each call shows a slot; -1 where that is a part of it, or several do: nothing is the same
    element."""
    found: dict[int, dict[int, int]] = {}
    for number, call in enumerate(linear.src):
        for place, argument in enumerate(call.src[1:]):
            memory = argument
            while memory.op is not ops.PARAM and memory.src:
                (memory, *_) = memory.src
            if memory.op is ops.PARAM:
                known = found.setdefault(memory.arg.slot, {})
                known[number] = place if memory is argument and number not in known else -1
    return found


MOST_BODIES = 4096
# (body, written, read) -> what `is_same_element` found
_same: RecentlyUsed[tuple[UOp, int, int], bool] = RecentlyUsed("engine.same_element", MOST_BODIES)
# body -> what `multiplies_half_precision` found
_half_precision: RecentlyUsed[UOp, bool] = RecentlyUsed("engine.products_of_halves", MOST_BODIES)


def is_same_element(body: UOp, written: int, read: int) -> bool:
    """Whether a kernel reads one param only to write the other, at the same place, in the same iteration.

    Other stores may use what is read, if this one does too: then it is loaded before this one writes, and once.
    """
    key = (body, written, read)
    found = _same.get(key)
    if found is None:
        found = _same[key] = _is_same_element(body, written, read)
    return found


def multiplies_half_precision(body: UOp) -> bool:
    """Whether a kernel is a product of matrices of two bytes or less. Tensor cores read what is added to their sums far
    ahead of what they store, as memory that nobody writes: 903 us instead of 105 where both were one (128 x 28 x 28 x
    128 -> 512, H200)."""
    found = _half_precision.get(body)
    if found is None:
        found = _half_precision[body] = any(map(_is_half_precision_product, topological((body,))))
    return found


def _is_half_precision_product(node: UOp) -> bool:
    product = find_product(node)
    sides = () if product is None else product.operands
    return bool(sides) and all(side.op is ops.CAST and side.src[0].dtype.itemsize <= 2 for side in sides)


def _is_same_element(body: UOp, written: int, read: int) -> bool:
    if body.op is ops.REPEAT:
        return False
    stores = [store for store in body.src if store.src[0].arg.slot == written]
    if len(stores) != 1 or stores[0].arg.combine is not None:
        return False
    (store,) = stores
    reads = [node for node in topological((body,)) if _is_on_param(node, read)]
    if len(reads) > 1 or any(_is_on_param(other, read) for other in body.src):
        return False
    place = _flat(store.src[0], store.src[2 : len(store.src) - store.arg.gated])
    return all(_is_read_at(node, place) and node in topological((store,)) for node in reads)


def _is_on_param(node: UOp, slot: int) -> bool:
    """Whether a param is a source of this."""
    return any(source.op is ops.PARAM and source.arg.slot == slot for source in node.src)


def _is_read_at(node: UOp, place: UOp) -> bool:
    """Whether this reads the element at a flat position."""
    return node.op is ops.INDEX and _flat(node.src[0], node.src[1 : len(node.src) - bool(node.arg)]) is place


def _flat(param: UOp, position: tuple[UOp, ...]) -> UOp:
    flat = as_index(0)
    for i, size in zip(position, param.shape, strict=True):
        flat = flat * as_index(size) + i
    return simplify(flat)
