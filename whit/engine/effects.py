"""Stores in tensor graphs: what a tensor is after `assign` or `x[i] = y`, and when memory may be overwritten.

A tensor that was written to is AFTER(old, STORE(view of old, value)). Effects are values here: the result is the old
content with the new elements, in memory of its own, so that nobody who refers to the old content sees a change.

    after(b, store(b, v))                  covers all of b: the result simply is v, and b is not read
    after(b, store(shrink(b), v))          a part: v is written into a copy of b

The copy is saved where nobody could notice: the old content belongs to this graph alone (`is_private`).
"""

from __future__ import annotations

from collections import Counter
from sys import getrefcount
from typing import Any

from whit.engine.device import is_disk
from whit.engine.storage import computed_entries
from whit.ir import ops
from whit.ir.uop import UOp

# Views that show every element of their memory once.
WHOLE_VIEWS = frozenset({ops.RESHAPE, ops.PERMUTE, ops.FLIP, ops.BITCAST, ops.DETACH})


def stored_value(node: UOp) -> UOp | None:
    """What an AFTER's only store puts everywhere, if it is one that covers the whole tensor."""
    if node.op is not ops.AFTER or len(node.src) != 2:
        return None
    old, effect = node.src
    if effect.op is not ops.STORE or len(effect.src) != 2 or effect.arg.combine is not None:
        return None
    target, value = effect.src
    if is_disk(old.device):
        return None  # it would be written at its beginning; `realize` refuses
    covers = target is old and value.shape == old.shape and value.dtype is old.dtype
    return value if covers else None


def memory_of(tensor: UOp) -> UOp:
    """The node whose memory is written when the tensor is: a BUFFER or something computed that the tensor shows all of.
    Failing that, the tensor itself, which gets memory by being realised."""
    node = tensor
    while node.op in WHOLE_VIEWS and id(node) not in computed_entries:
        node = node.src[0]
    return node if node.op is ops.BUFFER or id(node) in computed_entries else tensor


def is_private(order: list[UOp]) -> bool:
    """Whether nothing can ask for the old content of an AFTER, once it is realised.

    `order` is everything below the AFTER, itself last, in a list that the caller has made for this question. References
    are counted: a node that depends on the old content and is held by anything else (a Tensor, another graph) could be
    computed later. So the caller must hold no node but the last.
    """
    memory = id(memory_of(order[-1].src[0]))
    inside = Counter([s for node in order for s in node.src])
    needs: list[Any] = []  # the nodes that depend on it
    seen: set[int] = set()
    for node in order[:-1]:
        entry = computed_entries.get(id(node))
        if entry is not None:
            inside[entry[0]] += 1
        if id(node) == memory or not seen.isdisjoint([id(s) for s in node.src]):
            seen.add(id(node))
            needs.append(node)
            if entry is not None:
                needs.append(entry[0])
    del node, entry
    needs.append(object())  # one that nobody else holds
    *counts, alone = _reference_counts(needs)
    listed = Counter([*order, *needs])
    for place, count in enumerate(counts):
        node = needs[place]
        # `alone` counts one place in `needs`; a key of a Counter is a reference too.
        known = alone - 1 + listed[node] + inside[node] + (node in inside)
        if count > known:
            return False
    return True


def _reference_counts(things: list[Any]) -> list[int]:
    return [getrefcount(thing) for thing in things]
