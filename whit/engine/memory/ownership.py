"""Whose memory may be overwritten: that of a tensor to which nothing but the tensor and its views refers.

w = Tensor(...); f()                w is written in place
lazy = w * 2; f()                   the graph of `lazy` refers to w's BUFFER: w gets new memory, `lazy` the old value
"""

from __future__ import annotations

from collections import Counter
from sys import getrefcount
from typing import Any

from whit.engine.memory.storage import computed_entries, storage
from whit.engine.programs.overlay import raw_set
from whit.ir import ops
from whit.ir.uop import UOp
from whit.runtime.buffer import Buffer

_probe = [object()]
MAPPED = next(map(getrefcount, _probe))  # references to what is in one list and nowhere else, seen through `map`


def _is_writable(node: UOp) -> bool:
    if node.op is not ops.BUFFER:
        return False
    buffer = storage(node)
    return buffer.writable and not buffer.is_shared


def is_writable_alone(tensor: Any) -> bool:
    """Whether a tensor has no views, and memory that may be written if nobody else sees it."""
    return tensor._family is None and _is_writable(tensor.uop)


def own_memory(tensor: Any, family: Any) -> Buffer | None:
    """The memory of a tensor, if it may be written: nothing but the tensor and its views can see it."""
    node: list[UOp] = [tensor.uop if family is None else family.uop]
    if not _is_writable(node[0]):
        return None
    if family is None:
        return storage(node[0]) if next(map(getrefcount, node)) == MAPPED + 1 else None
    return storage(node[0]) if _is_family_alone(family, node) else None


def _is_family_alone(family: Any, base: list[UOp]) -> bool:
    """Whether only the members of a family refer to its base, and to the views of it."""
    order: list[UOp] = [base[0]]
    listed = {id(base[0])}
    held: Counter[int] = Counter({id(base[0]): 2})  # the family, and `base`
    for tensor in family.members():
        view = tensor.uop
        held[id(view)] += 1
        while id(view) not in listed:
            listed.add(id(view))
            order.append(view)
            view = view.src[0]
            held[id(view)] += 1
    view = None
    if list(map(getrefcount, order)) != [MAPPED + held[key] for key in map(id, order)]:
        return False
    for key in map(id, order):  # what was computed of a view is the old value
        computed_entries.pop(key, None)
    return True


def attachment(tensor: Any, family: Any, node: UOp) -> list[tuple[Any, ...]]:
    """The calls that give a tensor, and all that share its elements, other memory."""
    if family is None:
        return [(raw_set("uop"), tensor, node)]
    fresh = family.shown_on(node)
    members = [(raw_set("uop"), member, fresh.same_view(member.uop, family.uop)) for member in family.members()]
    return [(setattr, family, "uop", node), *members]
