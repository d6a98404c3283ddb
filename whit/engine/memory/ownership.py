"""Whose memory may be written over: what no holder can ask for any more but those that are given the new content.

w = Tensor(...); f()                w is written in place
lazy = w * 2; f()                   the graph of `lazy` reads w's BUFFER: w gets new memory, `lazy` the old value
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from whit.engine.memory.history import buffer_now, has_former
from whit.engine.memory.holders import ComputedHolder, Holder, holding, newer_than
from whit.engine.memory.storage import computed, computed_entries, storage
from whit.engine.programs.overlay import raw_set
from whit.ir import ops
from whit.ir.uop import UOp
from whit.runtime.buffer import Buffer


def reached(memories: Collection[UOp], roots: Iterable[UOp], stop: Collection[UOp] = ()) -> set[UOp]:
    """The BUFFERs among these that graphs read, or that have the value of something in them: a gradient may ask for
    what is below. Nodes in `stop` are not entered."""
    found: set[UOp] = set()
    seen = set(stop)
    stack = list(roots)
    while stack and len(found) < len(memories):
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node in memories:
            found.add(node)
        stack += node.src
        stack += [known for known in (computed(node), buffer_now(node)) if known is not None]
    return found


def unseen(memories: Collection[UOp], realised: Collection[UOp]) -> tuple[set[UOp], list[UOp]]:
    """The BUFFERs among these whose content nobody can ask for once some nodes are `realised`; and expressions whose
    remembered values are in one of these."""
    if not memories:
        return set(), []
    shown = [node for node in _remembered(memories) if computed(node) in memories]
    is_older = any(node not in realised for node in shown) or any(map(has_former, memories))
    held = [node for _, node in _held(-1 if is_older else _oldest(memories))]
    return set(memories) - reached(memories, held, realised), shown


def _oldest(memories: Iterable[UOp]) -> int:
    return int(min(memory.arg.id for memory in memories))


def _held(number: int) -> list[tuple[Holder, UOp]]:
    """The tensors newer than a number, and what they hold. Who has a memory through a remembered value may be older
    than that memory."""
    found = [(holder, holder.node()) for holder in newer_than(number) if not isinstance(holder, ComputedHolder)]
    return [(holder, node) for holder, node in found if node is not None]


def _remembered(memories: Iterable[UOp]) -> list[UOp]:
    """The expressions whose values were remembered since there are these memories."""
    found = [holder() for holder in newer_than(_oldest(memories)) if isinstance(holder, ComputedHolder)]
    return [node for node in found if node is not None]


# ---- memory that a captured function writes, whose BUFFERs stay what they are


def is_writable(node: UOp) -> bool:
    """Whether a node is memory that may be written if nobody else sees it."""
    if node.op is not ops.BUFFER:
        return False
    buffer = storage(node)
    return buffer.writable and not buffer.is_shared


def base_of(tensor: Any) -> UOp:
    """The node of a tensor, or of what it is a view of."""
    node: UOp = tensor.uop if tensor._family is None else tensor._family.uop
    return node


def own_memories(tensors: Sequence[Any]) -> dict[int, Buffer]:
    """The memories of tensors that may be written, by the tensors' numbers: only they and their views see them."""
    bases = {number: base_of(tensor) for number, tensor in enumerate(tensors)}
    bases = {number: base for number, base in bases.items() if is_writable(base)}
    if not bases:
        return {}
    views = _views_of(tensors[number] for number in bases)
    others = _seen_by_others(set(bases.values()), views) | _of_two([(base, tensors[n]) for n, base in bases.items()])
    for view in chain.from_iterable(views.values()):  # what was computed of a view is the old value
        computed_entries.pop(id(view), None)
    return {number: storage(base) for number, base in bases.items() if base not in others}


def _seen_by_others(memories: set[UOp], views: Mapping[int, Sequence[UOp]]) -> set[UOp]:
    """The BUFFERs among these that somebody can see who is not among those with these views."""
    remembered = _remembered(memories)
    is_older = any(computed(node) in memories for node in remembered) or any(map(has_former, memories))
    held = _held(-1 if is_older else _oldest(memories))
    roots = [node for holder, node in held if id(holder()) not in views]
    own = set(chain.from_iterable(views.values()))
    return reached(memories, [*roots, *[node for node in remembered if node not in own]])


def _of_two(pairs: Iterable[tuple[UOp, Any]]) -> set[UOp]:
    """The BUFFERs that two tensors show without knowing of each other."""
    owners = {(base, id(tensor._family or tensor)) for base, tensor in pairs}
    counts = Counter(base for base, _ in owners)
    return {base for base, count in counts.items() if count > 1}


def _views_of(tensors: Iterable[Any]) -> dict[int, list[UOp]]:
    """The tensors that share elements with some, by identity, with the views through which each shows them."""
    found: dict[int, list[UOp]] = {}
    for tensor in tensors:
        family = tensor._family
        for member in (tensor,) if family is None else family.members():
            found[id(member)] = above = []
            view = member.uop
            while view is not base_of(tensor):
                above.append(view)
                view = view.src[0]
    return found


def attachment(tensor: Any, family: Any, node: UOp) -> list[tuple[Any, ...]]:
    """The calls that give a tensor, and all that share its elements, other memory."""
    if family is None:
        return [(raw_set("uop"), tensor, node), *holding(tensor)]
    fresh = family.shown_on(node)
    calls: list[tuple[Any, ...]] = [(setattr, family, "uop", node)]
    for member in family.members():
        calls += [(raw_set("uop"), member, fresh.same_view(member.uop, family.uop)), *holding(member)]
    return calls
